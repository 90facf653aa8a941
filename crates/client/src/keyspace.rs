//! Keyspaces and the operations on their blobs outside transactions, whichever store they are in.

use std::{
    ops::{Range, RangeBounds},
    time::Duration,
};

use tyr_embed::{
    Blob, Entry, Error, ErrorKind, KeyspaceId, KeyspaceSettings, Operand, Result, Seek, Stat, Transform,
};

use crate::{cluster, data_size::DataSize};

/// An isolated namespace of blobs with its own settings. Cheap to clone; keeps its store open.
///
/// Every operation here is atomic by itself. Reads return the newest committed state of the blob. A future that is dropped before it is
/// ready leaves its operation done or not done, as a whole.
#[derive(Clone, Debug)]
pub struct Keyspace {
    pub(crate) inner: Inner,
}

#[derive(Clone, Debug)]
pub(crate) enum Inner {
    Directory(tyr_embed::Keyspace),
    Cluster(cluster::Keyspace),
}

impl Keyspace {
    /// The same keyspace, with futures that do everything when they are first polled, if it is of a directory.
    pub(crate) fn blocking(self) -> Keyspace {
        let inner = match self.inner {
            Inner::Directory(keyspace) => {
                Inner::Directory(tyr_embed::blocking::Keyspace::from(keyspace).into_ready())
            }
            cluster @ Inner::Cluster(_) => cluster,
        };
        Keyspace { inner }
    }

    /// The same keyspace, with futures that never block.
    pub(crate) fn asynchronous(self) -> Keyspace {
        let inner = match self.inner {
            Inner::Directory(keyspace) => {
                Inner::Directory(tyr_embed::blocking::Keyspace::from(keyspace).into())
            }
            cluster @ Inner::Cluster(_) => cluster,
        };
        Keyspace { inner }
    }

    pub(crate) fn directory(&self) -> Result<&tyr_embed::Keyspace> {
        match &self.inner {
            Inner::Directory(keyspace) => Ok(keyspace),
            Inner::Cluster(_) => Err(elsewhere()),
        }
    }

    pub(crate) fn cluster(&self) -> Result<&cluster::Keyspace> {
        match &self.inner {
            Inner::Directory(_) => Err(elsewhere()),
            Inner::Cluster(keyspace) => Ok(keyspace),
        }
    }

    /// The same keyspace, whose calls by this handle wait so long for a cluster instead of what
    /// [`OpenOptions::deadline`](crate::OpenOptions::deadline) says. A directory is not waited for.
    pub fn within(&self, deadline: Duration) -> Keyspace {
        let inner = match &self.inner {
            Inner::Directory(keyspace) => Inner::Directory(keyspace.clone()),
            Inner::Cluster(keyspace) => Inner::Cluster(keyspace.within(deadline)),
        };
        Keyspace { inner }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.name(),
            Inner::Cluster(keyspace) => keyspace.name(),
        }
    }

    /// What tells it from every other keyspace of any store, as text.
    pub fn identity(&self) -> String {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.identity(),
            Inner::Cluster(keyspace) => keyspace.identity(),
        }
    }

    /// Whether it is the keyspace of this number in a cluster.
    pub(crate) fn is(&self, id: KeyspaceId) -> bool {
        matches!(&self.inner, Inner::Cluster(keyspace) if keyspace.entry.id == id)
    }

    /// For how long what is read from now on of a blob outside of a transaction stays as it is, unless [`Recalls`](crate::Recalls) tell that it is about to
    /// change: less than half of the time for which it was lent, so that who counts this time is allowed to begin late. Nothing if there is no
    /// [copy](crate::OpenOptions::copies) of it. To be asked before it is read: it may be another one by then, of which nobody was assured.
    pub fn assured(&self, key: impl AsRef<[u8]>) -> Duration {
        match &self.inner {
            Inner::Directory(_) => Duration::ZERO,
            Inner::Cluster(keyspace) => keyspace.assured(key.as_ref()),
        }
    }

    /// Its settings as they are now, or in a cluster as they were last heard of.
    pub fn settings(&self) -> KeyspaceSettings {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.settings(),
            Inner::Cluster(keyspace) => keyspace.settings(),
        }
    }

    /// Creates an empty blob. Fails with [`crate::ErrorKind::Exists`] if it exists.
    pub async fn create(&self, key: impl AsRef<[u8]>) -> Result<()> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.create(key).await,
            Inner::Cluster(keyspace) => keyspace.create(key.as_ref()).await,
        }
    }

    /// Deletes a blob. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.delete(key).await,
            Inner::Cluster(keyspace) => keyspace.delete(key.as_ref()).await,
        }
    }

    /// Reads bytes of a blob. Shorter than the range if the blob ends in it; holes read as zeros. Fails with
    /// [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn read(&self, key: impl AsRef<[u8]>, range: impl RangeBounds<u64>) -> Result<Vec<u8>> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.read(key, range).await,
            Inner::Cluster(keyspace) => keyspace.read(key.as_ref(), range).await,
        }
    }

    /// Reads bytes at an offset into the buffer and returns how many there were. Otherwise like [`Keyspace::read`].
    pub async fn read_into(&self, key: impl AsRef<[u8]>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.read_into(key, offset, buffer).await,
            Inner::Cluster(keyspace) => {
                let end = tyr_types::range_end(offset, buffer.len() as u64)?;
                fill(buffer, &keyspace.read(key.as_ref(), offset..end).await?)
            }
        }
    }

    /// Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
    pub async fn write(&self, key: impl AsRef<[u8]>, offset: u64, bytes: impl AsRef<[u8]>) -> Result<()> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.write(key, offset, bytes).await,
            Inner::Cluster(keyspace) => keyspace.write(key.as_ref(), offset, bytes.as_ref()).await,
        }
    }

    /// Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
    pub async fn put(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.put(key, bytes).await,
            Inner::Cluster(keyspace) => keyspace.put(key.as_ref(), bytes.as_ref()).await,
        }
    }

    /// Appends bytes and returns their offset; creates the blob if it does not exist.
    pub async fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<u64> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.append(key, bytes).await,
            Inner::Cluster(keyspace) => keyspace.append(key.as_ref(), bytes.as_ref()).await,
        }
    }

    /// Makes the blob this long, cutting it or extending it with zeros. Fails with [`crate::ErrorKind::NotFound`] if it
    /// does not exist.
    pub async fn truncate(&self, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.truncate(key, size).await,
            Inner::Cluster(keyspace) => keyspace.truncate(key.as_ref(), size).await,
        }
    }

    /// Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with
    /// [`crate::ErrorKind::NotFound`] if the blob does not exist, and in a directory with
    /// [`crate::ErrorKind::Invalid`] if it is more than 64 GiB of what there is.
    pub async fn punch(&self, key: impl AsRef<[u8]>, range: Range<u64>) -> Result<()> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.punch(key, range).await,
            Inner::Cluster(keyspace) => keyspace.punch(key.as_ref(), range).await,
        }
    }

    /// Where at or after an offset the next data or hole of a blob begins. `None` if there is no more data, or if the offset is at the
    /// end of the blob or after it; the end is a hole. What was written as zeros is data. Of a blob of several chunks that is being
    /// written, each is looked at as of some moment during the call. Fails with [`crate::ErrorKind::NotFound`] if the blob does
    /// not exist.
    pub async fn seek(&self, key: impl AsRef<[u8]>, what: Seek, from: u64) -> Result<Option<u64>> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.seek(key, what, from).await,
            Inner::Cluster(keyspace) => keyspace.seek(key.as_ref(), what, from).await,
        }
    }

    /// How many bytes of a blob are data, as [`Keyspace::seek`] tells them from holes, or a bit more: what comes after many holes counts as data,
    /// and in a cluster each chunk that was ever written, if they are many. Fails with [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn data_size(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        match &self.inner {
            Inner::Directory(keyspace) => {
                let key = key.as_ref();
                let mut size = DataSize::of(0..keyspace.stat(key).await?.size);
                while let Some((what, from)) = size.question() {
                    size.take(keyspace.seek(key, what, from).await?);
                }
                Ok(size.sum())
            }
            Inner::Cluster(keyspace) => keyspace.data_size(key.as_ref()).await,
        }
    }

    /// The state of a blob. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn stat(&self, key: impl AsRef<[u8]>) -> Result<Stat> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.stat(key).await,
            Inner::Cluster(keyspace) => keyspace.stat(key.as_ref()).await,
        }
    }

    /// The states of many blobs, each as of some moment during the call: together they are no snapshot. `None` for one that does not exist. In
    /// a cluster this is one request if the node that is asked holds the blobs, or copies of their heads: it comes to have those that are
    /// asked for often.
    pub async fn stats<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Stat>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        match &self.inner {
            Inner::Directory(keyspace) => {
                let mut stats = Vec::with_capacity(keys.len());
                for key in keys {
                    stats.push(loop {
                        match keyspace.stat(key).await {
                            Ok(stat) => break Some(stat),
                            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                            // That fails if it is the keyspace that is gone; and the blob may have come in between.
                            Err(_) if !keyspace.exists(key).await? => break None,
                            Err(_) => {}
                        }
                    });
                }
                Ok(stats)
            }
            Inner::Cluster(keyspace) => keyspace.stats(&keys).await,
        }
    }

    /// Whether a blob exists.
    pub async fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.exists(key).await,
            Inner::Cluster(keyspace) => keyspace.exists(key.as_ref()).await,
        }
    }

    /// The value of an attribute, if it is set. Fails with [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn attribute(&self, key: impl AsRef<[u8]>, name: &str) -> Result<Option<Vec<u8>>> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.attribute(key, name).await,
            Inner::Cluster(keyspace) => keyspace.attribute(key.as_ref(), name).await,
        }
    }

    /// Sets an attribute, or unsets it if there is no value. Fails with [`crate::ErrorKind::NotFound`] if the blob does
    /// not exist.
    pub async fn set_attribute(&self, key: impl AsRef<[u8]>, name: &str, value: Option<&[u8]>) -> Result<()> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.set_attribute(key, name, value).await,
            Inner::Cluster(keyspace) => keyspace.set_attribute(key.as_ref(), name, value).await,
        }
    }

    /// Transforms the number at an offset and returns its old value. Never aborted by a conflict. Creates the blob if it does
    /// not exist, and extends it with zeros as needed.
    pub async fn transform(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        transform: Transform,
    ) -> Result<Operand> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.transform(key, offset, transform).await,
            Inner::Cluster(keyspace) => keyspace.transform(key.as_ref(), offset, transform).await,
        }
    }

    /// State and content of a blob, of one version. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Blob> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.get(key).await,
            Inner::Cluster(keyspace) => keyspace.get(key.as_ref()).await,
        }
    }

    /// A blob as by [`Keyspace::get`], and what others are as by [`Keyspace::stats`], each at some moment from now on. One request if whoever
    /// holds the blob has copies of the others' heads, as of popular ones it soon has.
    pub async fn get_with_stats(
        &self,
        key: impl AsRef<[u8]>,
        others: &[impl AsRef<[u8]>],
    ) -> Result<(Blob, Vec<Option<Stat>>)> {
        match &self.inner {
            Inner::Directory(keyspace) => {
                let blob = keyspace.get(key).await?;
                Ok((blob, self.stats(others).await?))
            }
            Inner::Cluster(keyspace) => {
                let others: Vec<&[u8]> = others.iter().map(AsRef::as_ref).collect();
                keyspace.get_with_stats(key.as_ref(), &others).await
            }
        }
    }

    /// Up to `limit` blobs whose keys have the prefix, in the order of their keys, beginning after a key. Fewer than `limit`
    /// mean that there are no more. Not a snapshot: every blob that exists throughout is listed exactly once, others may be.
    pub async fn scan(
        &self,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        match &self.inner {
            Inner::Directory(keyspace) => keyspace.scan(prefix, after, limit).await,
            Inner::Cluster(keyspace) => keyspace.scan(prefix.as_ref(), after, limit).await,
        }
    }
}

/// Copies what was read into the caller's buffer, which is at least as long.
pub(crate) fn fill(buffer: &mut [u8], bytes: &[u8]) -> Result<usize> {
    let target = buffer.get_mut(..bytes.len());
    let target =
        target.ok_or_else(|| Error::internal("a read is no longer than its range; please report it"))?;
    target.copy_from_slice(bytes);
    Ok(bytes.len())
}

#[cold]
fn elsewhere() -> Error {
    Error::invalid("the keyspace is of another store")
}
