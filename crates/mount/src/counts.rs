//! What a mount has done, as its file `.stats` tells.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
};

/// What the kernel asks for, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Lookup,
    Attributes,
    Change,
    Make,
    Remove,
    Rename,
    Link,
    Open,
    Read,
    Write,
    Sync,
    List,
    Extended,
    Lock,
}

const ALL: [(Ask, &str); 14] = [
    (Ask::Lookup, "lookup"),
    (Ask::Attributes, "attributes"),
    (Ask::Change, "change"),
    (Ask::Make, "make"),
    (Ask::Remove, "remove"),
    (Ask::Rename, "rename"),
    (Ask::Link, "link"),
    (Ask::Open, "open"),
    (Ask::Read, "read"),
    (Ask::Write, "write"),
    (Ask::Sync, "sync"),
    (Ask::List, "list"),
    (Ask::Extended, "extended"),
    (Ask::Lock, "lock"),
];

impl Ask {
    /// Its word in what the mount tells of itself.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }
}

/// Counts since the mount began.
#[derive(Debug, Default)]
pub struct Counts {
    asks: [AtomicU64; ALL.len()],
    failed: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl Counts {
    pub fn ask(&self, ask: Ask) {
        self.asks[ask as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn written(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A line for each count.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, count: &AtomicU64| {
            writeln!(text, "{name} {}", count.load(Ordering::Relaxed)).expect("a string takes everything");
        };
        for (ask, name) in ALL {
            line(name, &self.asks[ask as usize]);
        }
        line("failed", &self.failed);
        line("bytes_read", &self.bytes_read);
        line("bytes_written", &self.bytes_written);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ask_has_its_line() {
        let counts = Counts::default();
        for (place, (ask, _)) in ALL.iter().enumerate() {
            assert_eq!(*ask as usize, place);
            counts.ask(*ask);
        }
        counts.read(7);
        let text = counts.text();
        assert!(text.contains("lock 1\n") && text.contains("bytes_read 7\n"), "{text}");
        assert_eq!(text.matches(" 1\n").count(), ALL.len());
    }
}
