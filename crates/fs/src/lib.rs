//! TýrFS: a file system in a keyspace of a Týr store.
//!
//! Files, directories, and symbolic links are blobs, found by hashing their path; every change of names is one transaction. It is the same
//! on a store in a directory and on a cluster, and needs nothing of the store but its public client.
//!
//! - [`Filesystem`] knows inodes, and names in directories: what a mount is made of.
//! - [`View`] is a file system as a user sees it: by paths, with that user's permissions.
//! - [`File`] is an open file.
//! - [`Flat`] keyspaces are files without directories: the path is the key.
//!
//! What happens in which blob is said in [`site`] and in the modules `cells`, `listing`, `orphans`, `strays`, and `guest`. What a mount promises is in
//! `docs/filesystem.md`.

#![forbid(unsafe_code)]

mod acl;
#[cfg(feature = "canary")]
pub mod canary;
#[cfg(not(feature = "canary"))]
mod canary;
mod cells;
mod change;
mod errno;
mod file;
mod filesystem;
mod flat;
mod guest;
mod holes;
mod inode;
mod listing;
mod locks;
mod namespace;
mod orphans;
mod owed;
mod removals;
mod rename;
mod room;
mod silence;
pub mod site;
mod strays;
mod uses;
mod view;
mod waits;
mod walk;
mod words;

pub use acl::{Acl, Which};
pub use change::{Changes, Put};
pub use errno::{Errno, Error, Result};
pub use file::{Allocate, File};
pub use filesystem::{Filesystem, ROOT_NUMBER};
pub use flat::Flat;
pub use guest::PATIENCE;
pub use inode::{Inode, Kind, MODE_MASK, Metadata, Timestamp};
pub use listing::Entry;
pub use locks::{Lock, LockKind, Owner};
pub use namespace::{LINKS_MAX, New};
pub use owed::Owed;
/// Runs a future to its end on this thread: what of this crate is asynchronous, for callers that block.
pub use pollster::block_on;
pub use rename::{Named, Over, Renamed};
pub use room::Room;
pub use tyr_client::{Recall, Recalls, Seek};
pub use view::{How, PUT_WHOLE_MAX, View};
pub use walk::{Caller, Follow, Want};
