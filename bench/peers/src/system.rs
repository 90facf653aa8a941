//! What a system under test must be able to do.
//!
//! A system is some processes on this machine. A lane of it has one operation under way at a time; several lanes make a client, which
//! shares what the system's library lets them share. A write has returned when it is durable on as many replicas as the system keeps.
//! Blobs have numbers for names; how a system turns them into keys is its own affair.

use std::{future::Future, path::PathBuf, pin::Pin, time::Duration};

use crate::{case::Case, load::Measured, work::Job};

/// A failure while something starts ends the comparison, one of a contender its part in a case.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// An operation under way.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Outcome<T>> + 'a>>;

/// One of several ways in which a system does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The only one.
    Usual,
    /// A function that runs in the server.
    ServerClass,
    /// Locks that clients take.
    Locks,
    /// Locks that clients take in etcd.
    EtcdLocks,
    /// A write under the condition that the bytes are still those that were read.
    CompareAndWrite,
    /// Values in rows.
    Rows,
    /// Values in large objects, which can be read in part.
    LargeObjects,
    /// Everything over the network, though the client could read files of this host.
    OverNetwork,
    /// Several operations at once, none of which knows of the others.
    Separately,
    /// Several operations in a transaction.
    Transaction,
    /// A blob in one object.
    OneObject,
    /// A blob in stripes, each in an object.
    Striped,
}

impl Manner {
    /// As printed after the system's name.
    pub fn name(self) -> &'static str {
        match self {
            Manner::Usual => "",
            Manner::ServerClass => ", class",
            Manner::Locks => ", locks",
            Manner::EtcdLocks => ", locks of etcd",
            Manner::CompareAndWrite => ", compare and write",
            Manner::Rows => ", rows",
            Manner::LargeObjects => ", large objects",
            Manner::OverNetwork => ", no files",
            Manner::Separately => ", no transaction",
            Manner::Transaction => ", transaction",
            Manner::OneObject => ", one object",
            Manner::Striped => ", striped",
        }
    }
}

/// A running system.
pub trait System {
    /// As printed.
    fn name(&self) -> &'static str;

    /// Its processes; their children count with them.
    fn processes(&self) -> Vec<u32>;

    /// Its processes that have a part in operations of a manner.
    fn processes_of(&self, manner: Manner) -> Vec<u32> {
        let _ = manner;
        self.processes()
    }

    /// The directories in which it keeps data.
    fn places(&self) -> Vec<PathBuf>;

    /// How it does a case; empty if it cannot.
    fn manners(&self, case: &Case) -> Vec<Manner>;

    /// Connects clients, each with as many lanes.
    fn connect(&self, manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>>;

    /// If it is no system, but a loop that shows what the machine can do. Then it has no lanes.
    fn bound(&self) -> Option<&dyn Bound> {
        None
    }
}

/// A loop that does a job without servers and without this program's runtime.
pub trait Bound {
    /// Does it for that time.
    fn run(&self, job: &Job, time: Duration) -> Doing<'_, Measured>;
}

/// One caller of a system. Operations that a system does not have fail.
pub trait Lane {
    /// Creates the blob or replaces it whole.
    fn put(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()>;

    /// Reads a whole blob and tells how long it is.
    fn get(&mut self, blob: u64, size: usize) -> Doing<'_, usize>;

    /// Overwrites a part of a blob, creating or extending it if need be.
    fn write(&mut self, blob: u64, offset: u64, payload: &'static [u8]) -> Doing<'_, ()>;

    /// Reads a part of a blob and tells how many bytes there were.
    fn read(&mut self, blob: u64, offset: u64, size: usize) -> Doing<'_, usize>;

    /// Appends to a blob, creating it if need be.
    fn append(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        let _ = (blob, payload);
        unsupported("append")
    }

    /// Makes a counter of zero.
    fn open(&mut self, blob: u64) -> Doing<'_, ()> {
        let _ = blob;
        unsupported("open")
    }

    /// Adds one to the counter in the blob, creating it if need be.
    fn add(&mut self, blob: u64) -> Doing<'_, ()> {
        let _ = blob;
        unsupported("add")
    }

    /// Adds a number to each of these counters, atomically. They come in order.
    fn transfer(&mut self, changes: Vec<(u64, i64)>) -> Doing<'_, ()> {
        let _ = changes;
        unsupported("transfer")
    }

    /// Creates or replaces these blobs, which come in order; atomically, unless the manner is [`Manner::Separately`].
    fn put_all(&mut self, puts: Vec<(u64, &'static [u8])>) -> Doing<'_, ()> {
        let _ = puts;
        unsupported("put all")
    }

    /// The counter in a blob, 0 if it has not been made yet; `None` if the counter cannot be read this way.
    fn counter(&mut self, blob: u64) -> Doing<'_, Option<i64>> {
        let _ = blob;
        unsupported("counter")
    }
}

/// The failure of an operation that a system does not have.
pub fn unsupported<T>(operation: &str) -> Doing<'static, T> {
    let operation = operation.to_owned();
    Box::pin(async move { Err(format!("this system has no operation '{operation}'").into()) })
}
