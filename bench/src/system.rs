//! What a store under test must be able to do.
//!
//! A part of the benchmark opens the systems that it compares and calls one operation of each from many threads. Every write
//! is durable on disk when it returns, unless the system was opened with [`Durability::Memory`]. Blobs have numbers for names;
//! how a system turns them into keys is its own affair.

use std::path::PathBuf;

/// Any failure ends the benchmark.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is in memory.
    Memory,
    /// When it is on disk.
    Disk,
}

/// Where reads are meant to be answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temperature {
    /// Wherever they come from: the caches are as the system has them.
    Usual,
    /// Memory: a cache of the system or the page cache of the kernel holds everything.
    Warm,
    /// The disk: caches for payload are as small as the system allows, the page cache is passed by.
    Cold,
}

/// How to open a system.
#[derive(Clone, Debug)]
pub struct Setting {
    /// An own directory, which exists.
    pub directory: PathBuf,
    /// When writes are acknowledged.
    pub durability: Durability,
    /// Where reads are answered from.
    pub temperature: Temperature,
}

/// An open store. Operations that a system does not have fail; the parts ask only for what it has.
pub trait System: Send + Sync {
    /// Creates the blob or replaces it whole. The payload lives as long as the program, so that a system may hand it to
    /// another thread without a copy.
    fn put(&self, blob: u64, payload: &'static [u8]) -> Outcome<()>;

    /// Fills the buffer with a blob that was put, which has its size.
    fn get(&self, blob: u64, buffer: &mut [u8]) -> Outcome<()> {
        let _ = (blob, buffer);
        unsupported("get")
    }

    /// Puts many blobs with successive numbers in one transaction.
    fn put_many(&self, first: u64, payloads: &[&'static [u8]]) -> Outcome<()> {
        let _ = (first, payloads);
        unsupported("put_many")
    }

    /// Overwrites a part of a blob, creating or extending it if need be.
    fn write(&self, blob: u64, offset: u64, payload: &'static [u8]) -> Outcome<()> {
        let _ = (blob, offset, payload);
        unsupported("write")
    }

    /// Appends to the one log-like blob.
    fn append(&self, payload: &'static [u8]) -> Outcome<()> {
        let _ = payload;
        unsupported("append")
    }

    /// Fills the buffer from a blob, which has the bytes.
    fn read(&self, blob: u64, offset: u64, buffer: &mut [u8]) -> Outcome<()> {
        let _ = (blob, offset, buffer);
        unsupported("read")
    }

    /// Adds one to the one counter.
    fn increment(&self) -> Outcome<()> {
        unsupported("increment")
    }

    /// The counter, to check that no increment was lost.
    fn counter(&self) -> Outcome<u64> {
        unsupported("counter")
    }

    /// Returns when the background work that the system found worth doing is done.
    fn settle(&self) -> Outcome<()> {
        Ok(())
    }

    /// Reclaims what can be reclaimed, worth it or not.
    fn compact(&self) -> Outcome<()> {
        self.settle()
    }

    /// Stops cleanly.
    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

fn unsupported<T>(operation: &str) -> Outcome<T> {
    Err(format!("this system has no operation '{operation}'").into())
}
