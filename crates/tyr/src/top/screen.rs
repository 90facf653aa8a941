//! The terminal while it shows something that changes: its other screen, keys one by one, and all as it was at the end.

use std::time::Duration;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio::{stdin, stdout},
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};

use crate::{
    failure::{Failure, Result},
    output::Output,
    top::Line,
};

/// A terminal that was taken over. Dropped, its keys are as they were.
pub struct Screen {
    /// How the terminal was; none if keys do not come from it.
    before: Option<Termios>,
}

/// What was typed.
pub enum Key {
    Quit,
    Other,
}

impl Screen {
    /// Takes it over.
    pub fn enter() -> Result<Self> {
        let Ok(before) = tcgetattr(stdin()) else { return Ok(Screen { before: None }) };
        let mut keys = before.clone();
        // Ctrl-C stays a signal.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        let set = tcsetattr(stdin(), OptionalActions::Now, &keys);
        set.map_err(|error| Failure::local("cannot read keys", &error.into()))?;
        Ok(Screen { before: Some(before) })
    }

    /// Shows as much of the lines as there is room for.
    pub fn show(&self, lines: &[Line], out: &mut Output) -> Result<()> {
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_row > 1 && size.ws_col > 1);
        let (rows, columns) =
            size.map_or((24, 80), |size| (usize::from(size.ws_row), usize::from(size.ws_col)));
        let mut text = String::from("\x1b[?1049h\x1b[?25l\x1b[H");
        for line in lines.iter().take(rows - 1) {
            let cut: String = line.text.chars().take(columns).collect();
            let shown = line.style.map_or_else(|| cut.clone(), |style| out.styled(style, &cut));
            text.push_str(&shown);
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("q ends, any other key looks again\x1b[K\x1b[J");
        out.bytes(text.as_bytes())?;
        out.flush()
    }

    /// The next key, if one is typed in time.
    pub fn key(&self, patience: Duration) -> Option<Key> {
        let timeout = Timespec::try_from(patience).ok()?;
        let mut waits = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
        if self.before.is_none() {
            waits[0] = PollFd::from_borrowed_fd(stdin(), PollFlags::empty());
        }
        // A signal ends the wait, too.
        let come = poll(&mut waits, Some(&timeout)).unwrap_or(0);
        if come == 0 || self.before.is_none() {
            return None;
        }
        let mut typed = [0; 16];
        match rustix::io::read(stdin(), &mut typed) {
            Ok(0) | Err(_) => None,
            Ok(count) if typed[..count].iter().any(|key| matches!(key, b'q' | b'Q' | 4)) => Some(Key::Quit),
            Ok(_) => Some(Key::Other),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Whoever has gone sees nothing of it.
        let _gone = rustix::io::write(stdout(), b"\x1b[?25h\x1b[?1049l");
        if let Some(before) = &self.before {
            let _gone: Result<(), rustix::io::Errno> = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}
