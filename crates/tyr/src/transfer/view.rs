//! What an export reads: one snapshot, or the blobs as they are.

use tyr_client::{
    Entry, Key, Result, Stat,
    blocking::{Keyspace, Snapshot, Store},
};

/// How a keyspace is seen while it is exported.
pub enum View {
    /// All of it at one point.
    Snapshot(Snapshot),
    /// Each blob as it is when it is read: a keyspace without multi-versioning has no snapshots. Content that changes while it is
    /// copied does not have the recorded checksum and is refused.
    Latest,
}

impl View {
    /// The best view that the keyspace has.
    pub fn of(store: &Store, keyspace: &Keyspace) -> Result<Self> {
        match keyspace.settings().multi_version {
            true => store.snapshot(&[keyspace]).map(View::Snapshot),
            false => Ok(View::Latest),
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
            View::Latest => keyspace.scan(prefix, after, limit),
        }
    }

    /// See [`Keyspace::stat`].
    pub fn stat(&self, keyspace: &Keyspace, key: &Key) -> Result<Stat> {
        match self {
            View::Snapshot(snapshot) => snapshot.stat(keyspace, key),
            View::Latest => keyspace.stat(key),
        }
    }

    /// See [`Keyspace::read_into`].
    pub fn read_into(&self, keyspace: &Keyspace, key: &Key, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self {
            View::Snapshot(snapshot) => snapshot.read_into(keyspace, key, offset, buffer),
            View::Latest => keyspace.read_into(key, offset, buffer),
        }
    }
}
