//! What the tests share.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "every test file uses its part of it")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tyr_embed::blocking::{Keyspace, OpenOptions, Store};
use tyr_embed::{Durability, ErrorKind, IoMode, KeyspaceSettings, Result};

/// Runs a test on a new directory with each kind of I/O.
pub fn on_each_disk(test: impl Fn(&Path, OpenOptions)) {
    for io in [IoMode::Auto, IoMode::Buffered] {
        let directory = tempfile::tempdir().unwrap();
        test(directory.path(), Store::options().io(io));
    }
}

/// Runs a test on a new store with each kind of I/O.
pub fn on_each_store(test: impl Fn(&Store)) {
    on_each_disk(|path, options| {
        let store = options.segment_size(4 << 20).open(path).unwrap();
        test(&store);
        store.close().unwrap();
    });
}

pub fn durable() -> KeyspaceSettings {
    KeyspaceSettings::default()
}

pub fn in_memory() -> KeyspaceSettings {
    KeyspaceSettings { durability: Durability::Memory, ..KeyspaceSettings::default() }
}

pub fn unversioned() -> KeyspaceSettings {
    KeyspaceSettings { multi_version: false, ..in_memory() }
}

/// One keyspace of each kind.
pub fn keyspaces(store: &Store) -> [Keyspace; 3] {
    [("durable", durable()), ("memory", in_memory()), ("unversioned", unversioned())]
        .map(|(name, settings)| store.create_keyspace(name, settings).unwrap())
}

/// The kind of error that something failed with.
pub fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("was to fail").kind()
}

pub fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Sets a flag when it is dropped, also by a panic: the loops in other threads that run until it is set would otherwise keep a test that
/// fails from ending.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One of two that wait for each other. Unlike a barrier it fails, rather than wait for ever, if the other one has panicked.
pub struct Meeting {
    own: Sender<()>,
    other: Receiver<()>,
}

impl Meeting {
    pub fn of_two() -> [Meeting; 2] {
        let ((own, seen), (others, other)) = (channel(), channel());
        [Meeting { own, other }, Meeting { own: others, other: seen }]
    }

    pub fn wait(&self) {
        self.own.send(()).unwrap();
        self.other.recv().unwrap();
    }
}
