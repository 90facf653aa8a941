//! Archives: a keyspace at one point, in the files of a directory. `docs/backup-format.md` has the bytes.
//!
//! Volumes are logs of records with checksums; an index says where in them everything is; a manifest, which is written last, says which files
//! there are and that they are whole. Until then there is only a draft of the manifest, so that half an archive is never taken for a whole
//! one. Everything is written under a name that says what it is, and nothing that is there is changed, but for a volume that was cut off.
//! Only one export at a time writes to an archive, and only its owner may read it.
//!
//! Invariants: no byte of a file is believed whose checksum is not right, and lengths are checked before memory is reserved for them.
//! This module knows no store.

mod catalog;
mod chain;
mod draft;
mod hold;
mod index;
mod manifest;
mod record;
#[cfg(test)]
mod tests;
mod volume;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

pub use self::{
    catalog::{Blob, Catalog, Grain, Place},
    chain::Chain,
    draft::Draft,
    manifest::{KeyspaceFacts, Manifest, Origin},
    record::Record,
    volume::VolumeWriter,
};
use crate::failure::{Failure, Result};

/// Names an archive: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArchiveId(pub u128);

impl std::fmt::Display for ArchiveId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl ArchiveId {
    /// A new one.
    pub fn random() -> Self {
        use std::hash::BuildHasher;
        let half = || u128::from(std::hash::RandomState::new().hash_one(std::process::id()));
        ArchiveId((half() << 64) | half())
    }

    /// Reads back what is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| valid).map(ArchiveId)
    }
}

/// An archive's file is not what was written.
#[cold]
fn damaged(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::Store(tyr_client::Error::corrupt(format!(
        "the archive is damaged: '{}' {what}; take it from another copy, or export again",
        path.display()
    )))
}

/// How files are created and written: only their owner may read them, whoever may read the keyspace.
fn writing() -> OpenOptions {
    let mut options = File::options();
    options.write(true).mode(0o600);
    options
}

/// Creates the directory of an archive, which only its owner may enter, and what leads to it. One that is there stays as it is.
fn create_directory(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(_) if directory.is_dir() => Ok(()),
        created => created,
    }
}

/// Opens a file that the manifest names.
fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| missed("open", path, &error))
}

/// A file that the manifest names cannot be had.
#[cold]
fn missed(what: &str, path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => damaged(path, "is missing"),
        _ => failed(what, path, error),
    }
}

/// A file of an archive cannot be had.
#[cold]
fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::local(format!("cannot {what} '{}'", path.display()), error)
}
