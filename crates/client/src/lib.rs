//! The client of a Týr cluster, with the same methods as the embedded store: a program says where its store is, and goes on the same.
//!
//! ```no_run
//! use tyr_client::{KeyspaceSettings, blocking::Store};
//!
//! let store = Store::open("tyr://host1:7700,host2:7700")?; // or a directory
//! let events = store.create_keyspace("events", KeyspaceSettings::default())?;
//! events.append("2013-06-01", b"a first event")?;
//! let moved = store.run(|transaction| {
//!     let bytes = transaction.read(&events, "2013-06-01", ..)?;
//!     transaction.delete(&events, "2013-06-01")?;
//!     transaction.put(&events, "done/2013-06-01", &bytes)?;
//!     Ok(bytes.len())
//! })?;
//! store.close()
//! # .unwrap(); Ok::<(), tyr_client::Error>(())
//! ```
//!
//! What is opened is a directory, or the URL of a cluster: `tyr://host:port`, with any of its nodes, several separated by commas, or
//! `tyr://unix:/path` for a socket of this host, or `tyr+tls://host:port` if its connections are encrypted. The types at the top are asynchronous and need no particular runtime; those in
//! [`blocking`] have the same methods without `async`.
//!
//! A client of a cluster is one thread that keeps a connection to every node. What a node does not answer it asks again, of another node
//! where it can, until a deadline ([`OpenOptions::deadline`]); a transaction keeps its name, so that it happens once at most. After the
//! deadline a call fails with [`ErrorKind::Unavailable`], and says whether it is known that nothing happened. A commit of which that is
//! not known goes on to be found out; [`Transaction::pending`] tells.
//!
//! A future that is dropped leaves nothing half done: what it was to change happens as a whole or not at all.
//!
//! What a cluster cannot do yet, and fails with [`ErrorKind::Invalid`] for:
//!
//! - [`Store::check`], [`Store::compact`], [`Store::stats`]; [`Store::keyspaces`] knows blobs and bytes of keyspaces with quotas only.
//! - To alter the durability of a keyspace: it is that of its placement class.
//! - A snapshot of keyspaces with so many blobs that their names do not fit memory is too large.
//! - A transaction that touches more than 10000 blobs, does more than 65535 things to one of them, writes more than 1 GiB, or has more
//!   than 8 MiB in writes of at most 4 KiB, each with 32 bytes besides. Nodes with small segments take fewer things.
//! - To read a blob in a transaction that has copied to it ([`Transaction::copy`]), or to transform a number there that lies in two chunks.
//! - To flush keyspaces of durability `memory`.
//!
//! What is otherwise in a cluster than in a directory:
//!
//! - A quota is kept as well as the nodes have heard of one another: what several write within about a second may go past it.
//! - Transactions have no number of their own: [`Receipt::number`] and [`Snapshot::number`] are zero.
//! - A conflict does not tell which blob it was about, if several were read.
//! - What is read stays readable only as long as the client is heard of every two seconds. After a longer pause reads of a transaction
//!   fail with [`ErrorKind::Conflict`], and of a snapshot with [`ErrorKind::Expired`].

#![forbid(unsafe_code)]

mod address;
pub mod blocking;
mod clock;
mod cluster;
mod data_size;
mod driver;
mod keyspace;
mod options;
mod recalls;
mod run;
#[cfg(feature = "simulation")]
pub mod simulation;
mod snapshot;
mod store;
mod transaction;
mod words;

pub use address::{check_name, is_cluster};
pub use keyspace::Keyspace;
pub use options::OpenOptions;
pub use recalls::{Recall, Recalls};
pub use run::Retry;
pub use snapshot::Snapshot;
pub use store::{KeyspaceSummary, Reads, Store};
pub use transaction::{Pending, Transaction};
pub use tyr_embed::{
    Attributes, Blob, BlobId, Check, CheckReport, Committed, CompactReport, Conflict, Create, Durability,
    Entry, Error, ErrorKind, IoMode, Key, KeyspaceId, KeyspaceSettings, Number, NumberType, Op, Operand,
    Outcome, Receipt, Result, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN, Seek, Slot, SnapshotSummary, Stat, Stats,
    Transform, Written,
};
pub use tyr_net::{Secret, Tls, TlsFiles, Token};
pub use tyr_types::KEY_SIZE_MAX;
