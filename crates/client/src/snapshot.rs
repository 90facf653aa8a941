//! Snapshots, whichever store they are of.

use std::{ops::RangeBounds, sync::Arc};

use tyr_embed::{Blob, Entry, Number, Result, Stat, Written};

use crate::{cluster::snapshot as cluster, keyspace::Keyspace};

/// All blobs of some keyspaces as they were at one point. Writers go on meanwhile; what they replace is kept until the snapshot
/// and its clones are dropped.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) inner: Inner,
}

#[derive(Clone, Debug)]
pub(crate) enum Inner {
    Directory(tyr_embed::Snapshot),
    Cluster(Arc<cluster::Snapshot>),
}

impl Snapshot {
    /// The same snapshot, with futures that do everything when they are first polled, if it is of a directory.
    pub(crate) fn blocking(self) -> Snapshot {
        let inner = match self.inner {
            Inner::Directory(snapshot) => {
                Inner::Directory(tyr_embed::blocking::Snapshot::from(snapshot).into_ready())
            }
            cluster @ Inner::Cluster(_) => cluster,
        };
        Snapshot { inner }
    }

    /// The same snapshot, with futures that never block.
    pub(crate) fn asynchronous(self) -> Snapshot {
        let inner = match self.inner {
            Inner::Directory(snapshot) => {
                Inner::Directory(tyr_embed::blocking::Snapshot::from(snapshot).into())
            }
            cluster @ Inner::Cluster(_) => cluster,
        };
        Snapshot { inner }
    }

    /// The point: the number of the newest transaction that the snapshot shows; zero in a cluster, which has no such number.
    pub fn number(&self) -> Number {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.number(),
            Inner::Cluster(_) => Number::ZERO,
        }
    }

    /// Reads bytes of a blob; see [`Keyspace::read`]. Fails with [`crate::ErrorKind::Invalid`], as all of these do, if the
    /// keyspace is not in the snapshot.
    pub async fn read(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.read(keyspace.directory()?, key, range).await,
            Inner::Cluster(snapshot) => snapshot.read(keyspace.cluster()?, key.as_ref(), range).await,
        }
    }

    /// Reads bytes at an offset into the buffer; see [`Keyspace::read_into`].
    pub async fn read_into(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        match &self.inner {
            Inner::Directory(snapshot) => {
                snapshot.read_into(keyspace.directory()?, key, offset, buffer).await
            }
            Inner::Cluster(snapshot) => {
                snapshot.read_into(keyspace.cluster()?, key.as_ref(), offset, buffer).await
            }
        }
    }

    /// The state of a blob; see [`Keyspace::stat`].
    pub async fn stat(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.stat(keyspace.directory()?, key).await,
            Inner::Cluster(snapshot) => snapshot.stat(keyspace.cluster()?, key.as_ref()).await,
        }
    }

    /// Whether a blob existed.
    pub async fn exists(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.exists(keyspace.directory()?, key).await,
            Inner::Cluster(snapshot) => snapshot.exists(keyspace.cluster()?, key.as_ref()).await,
        }
    }

    /// The value of an attribute; see [`Keyspace::attribute`].
    pub async fn attribute(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.attribute(keyspace.directory()?, key, name).await,
            Inner::Cluster(snapshot) => snapshot.attribute(keyspace.cluster()?, key.as_ref(), name).await,
        }
    }

    /// State and content of a blob; see [`Keyspace::get`].
    pub async fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Blob> {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.get(keyspace.directory()?, key).await,
            Inner::Cluster(snapshot) => snapshot.get(keyspace.cluster()?, key.as_ref()).await,
        }
    }

    /// The parts of a blob of which anything was written; see [`Written`]. In a cluster a part is a chunk.
    pub async fn written(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Written> {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.written(keyspace.directory()?, key).await,
            Inner::Cluster(snapshot) => snapshot.written(keyspace.cluster()?, key.as_ref()).await,
        }
    }

    /// Blobs in the order of their keys, exactly those that existed; see [`Keyspace::scan`].
    pub async fn scan(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        match &self.inner {
            Inner::Directory(snapshot) => snapshot.scan(keyspace.directory()?, prefix, after, limit).await,
            Inner::Cluster(snapshot) => {
                snapshot.scan(keyspace.cluster()?, prefix.as_ref(), after, limit).await
            }
        }
    }
}
