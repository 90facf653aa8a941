//! The signals that a thread has to handle, as far as this process sees that.

use std::fs;

/// Those of a thread that are for it or for any thread of its process, and that it does not keep back: sets with a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    pending: u64,
    ignored: u64,
    caught: u64,
}

impl Signals {
    /// Those of a thread. `None` if it is gone or cannot be seen, as one in another namespace, which has no number here.
    fn of(thread: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{thread}/status")).ok().map(|status| Self::parse(&status))
    }

    fn parse(status: &str) -> Self {
        let mask = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
        };
        let pending = (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:");
        Signals { pending, ignored: mask("SigIgn:"), caught: mask("SigCgt:") }
    }

    /// Whether one of them ends the program, which sees nothing of the call any more.
    fn ends(self) -> bool {
        self.pending & !self.ignored & !self.caught & !HARMLESS != 0
    }

    /// Whether one of them asks the program to end, in a way of its own.
    fn asks_to_end(self) -> bool {
        self.pending & self.caught & ASKING != 0
    }
}

/// Whether a thread is gone, or has a signal to handle. Of one that has no number here that is not known.
pub fn is_signalled(thread: u32) -> bool {
    thread != 0 && Signals::of(thread).is_none_or(|signals| signals.pending != 0)
}

/// Whether the program of a thread is about to end by a signal. Who cannot be seen is not known to be.
pub fn is_ending(thread: u32) -> bool {
    thread != 0 && Signals::of(thread).is_some_and(Signals::ends)
}

/// Whether the program of a thread has been asked to end, and has not heard it yet.
pub fn is_asked_to_end(thread: u32) -> bool {
    thread != 0 && Signals::of(thread).is_some_and(Signals::asks_to_end)
}

/// The set of some signals.
const fn set(signals: &[i32]) -> u64 {
    let (mut set, mut place) = (0, 0);
    while place < signals.len() {
        set |= 1 << (signals[place] - 1);
        place += 1;
    }
    set
}

/// Those that end nothing, unless a program has them do so.
const HARMLESS: u64 = set(&[
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGURG,
    libc::SIGWINCH,
]);
/// Those by which somebody asks a program to end.
const ASKING: u64 = set(&[libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM]);

#[cfg(test)]
mod tests {
    use super::*;

    /// A status with these pending, of the thread and of its process.
    fn signals([own, shared]: [&[i32]; 2], blocked: &[i32], ignored: &[i32], caught: &[i32]) -> Signals {
        let masks = [own, shared, blocked, ignored, caught].map(set);
        let names = ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"];
        let lines = names.iter().zip(masks).map(|(name, mask)| format!("{name}:\t{mask:016x}\n"));
        Signals::parse(&format!("Name:\tls\n{}Threads:\t1\n", lines.collect::<String>()))
    }

    #[test]
    fn a_signal_ends_a_program_that_does_nothing_about_it() {
        const TERM: &[i32] = &[libc::SIGTERM];
        assert!(signals([&[libc::SIGKILL], &[]], &[], &[], &[]).ends());
        assert!(signals([&[], TERM], &[], &[], &[]).ends());
        for (blocked, ignored, caught) in [(TERM, &[][..], &[][..]), (&[], TERM, &[]), (&[], &[], TERM)] {
            assert!(!signals([TERM, TERM], blocked, ignored, caught).ends());
        }
        assert!(!signals([&[libc::SIGCHLD], &[libc::SIGTSTP, libc::SIGURG]], &[], &[], &[]).ends());
    }

    #[test]
    fn a_program_is_asked_to_end_by_what_it_catches() {
        const INT: &[i32] = &[libc::SIGINT];
        assert!(signals([&[], INT], &[], &[], INT).asks_to_end());
        assert!(!signals([&[], INT], INT, &[], INT).asks_to_end());
        assert!(!signals([&[], INT], &[], INT, &[]).asks_to_end());
        assert!(
            !signals([&[libc::SIGALRM], &[libc::SIGURG]], &[], &[], &[libc::SIGALRM, libc::SIGURG])
                .asks_to_end()
        );
    }

    #[test]
    fn who_cannot_be_seen_waits_for_no_lock_but_for_everything_else() {
        assert!(is_signalled(u32::MAX) && !is_ending(u32::MAX) && !is_asked_to_end(u32::MAX));
        assert!(!is_signalled(0) && !is_ending(0) && !is_asked_to_end(0));
        let own = std::process::id();
        assert!(!is_ending(own) && !is_asked_to_end(own));
    }
}
