//! Týr embedded: a transactional blob store in a directory, as a library.
//!
//! A blob is a named, mutable sequence of bytes, from a few bytes to terabytes. Blobs live in keyspaces. Any number of threads
//! and tasks read, write, append to, and transform byte ranges of many blobs, in transactions that are strictly
//! serializable and, unless a keyspace is told otherwise, survive a crash of the machine once they are acknowledged.
//!
//! ```
//! use tyr_embed::{KeyspaceSettings, Operand, Outcome, Transform, blocking::Store};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! let store = Store::open(directory.path())?;
//! let events = store.create_keyspace("events", KeyspaceSettings::default())?;
//!
//! // Lone operations are transactions of one and never conflict.
//! events.append("2013-06-01", b"a first event")?;
//! events.write("index", 4096, b"anywhere")?;
//! assert_eq!(events.read("index", 4096..)?, b"anywhere");
//!
//! // Several blobs change together, or not at all.
//! let mut transaction = store.begin();
//! let slot = transaction.append(&events, "2013-06-01", b"a second event")?;
//! transaction.transform(&events, "count", 0, Transform::add(Operand::U64(1)))?;
//! match transaction.commit()? {
//!     Outcome::Committed(receipt) => assert_eq!(receipt.offset(slot), Some(13)),
//!     Outcome::Conflict(conflict) => println!("run it again: {conflict}"),
//! }
//!
//! // Or let the store run it until it commits.
//! let total = store.run(|transaction| {
//!     let first = transaction.stat(&events, "2013-06-01")?.size;
//!     let second = transaction.stat(&events, "index")?.size;
//!     transaction.put(&events, "total", (first + second).to_le_bytes())?;
//!     Ok(first + second)
//! })?;
//! assert_eq!(total.value, 27 + 4104);
//!
//! // A snapshot stays as it is while writers go on.
//! let snapshot = store.snapshot(&[&events])?;
//! events.delete("index")?;
//! assert!(snapshot.exists(&events, "index")?);
//! # drop(snapshot);
//! store.close()
//! # .unwrap(); Ok::<(), tyr_embed::Error>(())
//! ```
//!
//! The types at the top are asynchronous and need no particular runtime: what is in memory is done at once on the calling task,
//! what may block is handed to a few threads of the store. The types in [`blocking`] have the same methods without `async` and
//! do everything on the calling thread; they can be converted into one another.
//!
//! Failures are [`Error`]s of a few [`ErrorKind`]s, each of which says what to do. A conflict is not a failure but
//! an [`Outcome`].

#![forbid(unsafe_code)]

mod background;
pub mod blocking;
mod keyspace;
mod options;
mod pool;
mod read;
mod reservation;
mod retry;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod wait;

pub use keyspace::Keyspace;
pub use options::{Create, OpenOptions};
pub use read::{Blob, Entry, Stat};
pub use retry::{Committed, Retry};
pub use snapshot::{Snapshot, SnapshotSummary, Written};
pub use store::{KeyspaceSummary, Store};
pub use transaction::{Check, Conflict, Outcome, Receipt, Slot, Transaction};
pub use tyr_os::IoMode;
pub use tyr_store::{CheckReport, CompactReport, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN, Stats};
pub use tyr_types::{
    Attributes, BlobId, Durability, Error, ErrorKind, Key, KeyspaceId, KeyspaceSettings, Number, NumberType,
    Op, Operand, Result, Seek, Transform,
};

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
