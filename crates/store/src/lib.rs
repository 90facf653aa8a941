//! The storage engine of one target: blobs with versions, in an append-only log, with an index that is a cache of it.
//!
//! [`Store`] is the whole: `transact` orders and logs changes, `read` finds bytes at a number, pins keep versions readable, `maintain` does the
//! background work. It knows numbers and extents; what a conflict is, and what a transaction read, is for its callers to say.
//!
//! It starts no threads, opens no sockets, and touches files only through [`tyr_env::Disk`], so that all of it runs on a
//! simulated disk.

#![forbid(unsafe_code)]

pub mod index;

mod aligned;
mod apply;
mod backlog;
mod cache;
mod check;
mod checkpoint;
mod compacting;
#[cfg(test)]
mod decoders;
mod failure;
mod frames;
mod garbage;
mod guard;
mod histories;
mod index_key;
mod kept;
mod keyspaces;
mod leaf;
mod log;
mod maintain;
mod manifest;
mod miss;
mod mixing;
mod named;
mod objects;
mod options;
mod pace;
mod payload;
mod pin;
mod pins;
mod read;
mod rebase;
mod rebuild;
mod recent;
mod recovery;
mod relocate;
mod scan;
mod seek;
mod segment;
mod shortage;
mod shown;
mod stats;
mod store;
#[cfg(test)]
mod testing;
mod transact;
mod written;

pub use aligned::aligned_copy;
pub use check::{CheckReport, DAMAGE_MAX};
pub use keyspaces::KeyspaceRecord;
pub use maintain::{CompactReport, Maintained};
pub use miss::{Miss, Wait};
pub use options::{Create, Options, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};
pub use payload::{PAYLOAD_SIZE_MAX, Payload};
pub use pin::Pin;
pub use shortage::Exhaustion;
pub use shown::{ShownSegment, Stored};
pub use stats::Stats;
pub use store::Store;
pub use transact::{BlobChange, Refused, Stop, Ticket, Writer};
pub use tyr_wire::{
    entry::Head,
    extent::SegmentId,
    record::{Existence, NamedSnapshot},
};
