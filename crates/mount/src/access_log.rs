//! The access log: a line for each call, for those who read the file `.accesslog` of the mount.
//!
//! Each reader has its own lines, from when it opened the file on. There are at most [`LINES_MAX`] that it has not read: what comes then is
//! lost to it, and a line says how much that was. Nothing is written down as long as nobody reads.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Condvar, Mutex};
use tyr_fs::{Errno, Result};

use crate::{call::Call, glances::GLANCE, signals::is_signalled};

/// Who reads the access log.
#[derive(Debug, Default)]
pub struct AccessLog {
    is_read: AtomicBool,
    readers: Mutex<Vec<Weak<Reader>>>,
}

/// One who reads it.
#[derive(Debug, Default)]
pub struct Reader {
    unread: Mutex<Unread>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Unread {
    lines: VecDeque<Arc<str>>,
    /// How many lines there was no room for since the last that there was room for.
    lost: u64,
    /// Bytes of the first line that were read already.
    start: usize,
}

/// What a reader does when there is nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It fails with [`Errno::EAGAIN`].
    Refuse,
    /// It waits for a line, until this process has a signal.
    Wait { process: u32 },
}

impl AccessLog {
    /// Somebody reads from now on, until it is dropped.
    pub fn open(&self) -> Arc<Reader> {
        let reader = Arc::new(Reader::default());
        self.readers.lock().push(Arc::downgrade(&reader));
        self.is_read.store(true, Ordering::Relaxed);
        reader
    }

    /// When a call begins: now, if anybody wants to know.
    pub fn begin(&self) -> Option<Instant> {
        self.is_read.load(Ordering::Relaxed).then(Instant::now)
    }

    /// A call that began then has ended, with this error if it failed.
    pub fn end(&self, call: &Call<'_>, began: Instant, error: Option<Errno>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, micros) = (now.as_secs(), now.subsec_micros());
        let result = error.map_or("ok", Errno::name);
        let took = began.elapsed().as_micros();
        self.add(&format!("{seconds}.{micros:06} {call} {result} {took}\n").into());
    }

    fn add(&self, line: &Arc<str>) {
        let mut readers = self.readers.lock();
        readers.retain(|reader| match reader.upgrade() {
            Some(reader) => {
                reader.add(line.clone());
                true
            }
            None => false,
        });
        self.is_read.store(!readers.is_empty(), Ordering::Relaxed);
    }
}

impl Reader {
    fn add(&self, line: Arc<str>) {
        let mut unread = self.unread.lock();
        if unread.lines.len() >= LINES_MAX {
            unread.lost += 1;
            return;
        }
        unread.tell_lost();
        unread.lines.push_back(line);
        self.came.notify_all();
    }

    /// The next bytes, at most so many: some, unless there is no room for any.
    pub fn read(&self, length: usize, idle: Idle) -> Result<Vec<u8>> {
        let mut unread = self.unread.lock();
        loop {
            let bytes = unread.take(length);
            if !bytes.is_empty() || length == 0 {
                return Ok(bytes);
            }
            match idle {
                Idle::Refuse => return Err(Errno::EAGAIN.because("nothing has happened since")),
                Idle::Wait { process } if is_signalled(process) => {
                    return Err(Errno::EINTR.because("the wait for a line was interrupted"));
                }
                Idle::Wait { .. } => drop(self.came.wait_for(&mut unread, GLANCE)),
            }
        }
    }
}

impl Unread {
    fn tell_lost(&mut self) {
        if self.lost > 0 {
            self.lines.push_back(format!("# {} lines were lost\n", self.lost).into());
            self.lost = 0;
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        if self.lines.is_empty() {
            self.tell_lost();
        }
        let mut bytes = Vec::new();
        while let Some(line) = self.lines.front() {
            let rest = &line.as_bytes()[self.start..];
            let room = length - bytes.len();
            if rest.len() > room {
                bytes.extend_from_slice(&rest[..room]);
                self.start += room;
                break;
            }
            bytes.extend_from_slice(rest);
            self.start = 0;
            self.lines.pop_front();
        }
        bytes
    }
}

/// So many lines wait for a reader, about 1 MB.
const LINES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_what_came_since_it_opened_in_pieces_of_any_size() {
        let log = AccessLog::default();
        assert!(log.begin().is_none());
        log.add(&"before\n".into());
        let reader = log.open();
        assert!(log.begin().is_some());
        for line in ["one\n", "two\n"] {
            log.add(&line.into());
        }
        assert_eq!(reader.read(6, Idle::Refuse).unwrap(), b"one\ntw");
        assert_eq!(reader.read(100, Idle::Refuse).unwrap(), b"o\n");
        assert_eq!(reader.read(100, Idle::Refuse).unwrap_err().errno(), Errno::EAGAIN);
        drop(reader);
        log.add(&"after\n".into());
        assert!(log.begin().is_none());
    }

    #[test]
    fn what_is_lost_is_told_where_it_would_have_been() {
        let log = AccessLog::default();
        let reader = log.open();
        for _ in 0..LINES_MAX + 3 {
            log.add(&"line\n".into());
        }
        let mut text = Vec::new();
        text.extend(reader.read(5, Idle::Refuse).unwrap());
        log.add(&"last\n".into());
        while let Ok(more) = reader.read(1 << 20, Idle::Refuse) {
            text.extend(more);
        }
        let text = String::from_utf8(text).unwrap();
        let (before, after) = text.split_once('#').unwrap();
        assert_eq!(before, "line\n".repeat(LINES_MAX));
        assert_eq!(after, " 3 lines were lost\nlast\n");
    }

    #[test]
    fn who_waits_is_woken_by_a_line() {
        let log = AccessLog::default();
        let reader = log.open();
        let process = std::process::id();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.read(100, Idle::Wait { process }));
            log.add(&"line\n".into());
            assert_eq!(waiting.join().unwrap().unwrap(), b"line\n");
        });
    }

    #[test]
    fn nobody_waits_for_a_process_that_is_gone() {
        let reader = AccessLog::default().open();
        let gone = Idle::Wait { process: u32::MAX };
        assert_eq!(reader.read(100, gone).unwrap_err().errno(), Errno::EINTR);
    }
}
