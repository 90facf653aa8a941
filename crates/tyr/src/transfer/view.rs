//! What an export reads: one snapshot, or the blobs as they are.

use tyr_client::{
    Entry, Error, Key, Result, Stat,
    blocking::{Keyspace, Snapshot, Store, Transaction},
};

use crate::{blob::commit, failure};

/// How a keyspace is seen while it is exported.
pub enum View {
    /// All of it at one point.
    Snapshot(Snapshot),
    /// Each blob as it is when it is read: a keyspace without multi-versioning has no snapshots.
    Latest(Store),
}

impl View {
    /// Whether a blob that is not found was removed since its key was read: from a snapshot none is, nor from a keyspace that is gone itself.
    pub fn may_lose_blobs(&self, keyspace: &Keyspace) -> Result<bool> {
        match self {
            View::Snapshot(_) => Ok(false),
            View::Latest(store) => Ok(store.keyspace(keyspace.name())?.identity() == keyspace.identity()),
        }
    }

    /// The best view that the keyspace has.
    pub fn of(store: &Store, keyspace: &Keyspace) -> Result<Self> {
        match keyspace.settings().multi_version {
            true => store.snapshot(&[keyspace]).map(View::Snapshot),
            false => Ok(View::Latest(store.clone())),
        }
    }

    /// See [`Keyspace::scan`].
    pub fn scan(
        &self,
        keyspace: &Keyspace,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        match self {
            View::Snapshot(snapshot) => snapshot.scan(keyspace, prefix, after, limit),
            View::Latest(_) => keyspace.scan(prefix, after, limit),
        }
    }

    /// Begins to read a blob.
    pub fn read(&self) -> Reading<'_> {
        match self {
            View::Snapshot(snapshot) => Reading::Snapshot(snapshot),
            View::Latest(store) => Reading::Latest(store.begin()),
        }
    }
}

/// A blob that is being read, in pieces.
pub enum Reading<'a> {
    /// The pieces are of one version.
    Snapshot(&'a Snapshot),
    /// They are if the transaction commits.
    Latest(Transaction),
}

impl Reading<'_> {
    /// See [`Keyspace::stat`].
    pub fn stat(&mut self, keyspace: &Keyspace, key: &Key) -> Result<Stat> {
        match self {
            Reading::Snapshot(snapshot) => snapshot.stat(keyspace, key),
            Reading::Latest(transaction) => transaction.stat(keyspace, key),
        }
    }

    /// See [`Keyspace::read_into`].
    pub fn read_into(
        &mut self,
        keyspace: &Keyspace,
        key: &Key,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        match self {
            Reading::Snapshot(snapshot) => snapshot.read_into(keyspace, key, offset, buffer),
            Reading::Latest(transaction) => transaction.read_into(keyspace, key, offset, buffer),
        }
    }

    /// Why a blob may be shorter than it was said to be.
    pub fn shorter(&self) -> Error {
        match self {
            Reading::Snapshot(_) => Error::internal("a blob is shorter than its size says"),
            Reading::Latest(_) => Error::conflict("the blob was cut while it was read"),
        }
    }

    /// Makes sure that all that was read was there at one moment: else it is a conflict.
    pub fn finish(self) -> failure::Result<()> {
        match self {
            Reading::Snapshot(_) => Ok(()),
            Reading::Latest(transaction) => commit(transaction).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_client::{ErrorKind, KeyspaceSettings};

    use super::*;

    #[test]
    fn only_a_keyspace_that_is_there_may_have_lost_a_blob() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::options().segment_size(1 << 20).open(directory.path()).unwrap();
        let latest = KeyspaceSettings { multi_version: false, ..KeyspaceSettings::default() };
        let (kept, latest) = (
            store.create_keyspace("kept", KeyspaceSettings::default()).unwrap(),
            store.create_keyspace("latest", latest).unwrap(),
        );
        assert!(!View::of(&store, &kept).unwrap().may_lose_blobs(&kept).unwrap());
        let view = View::of(&store, &latest).unwrap();
        assert!(view.may_lose_blobs(&latest).unwrap());
        store.drop_keyspace("latest").unwrap();
        assert_eq!(view.may_lose_blobs(&latest).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
