//! Transactions, whichever store they are of.

use std::{
    ops::{Range, RangeBounds},
    time::Duration,
};

use tyr_embed::{Check, Error, Outcome, Result, Slot, Stat, Transform};

use crate::{
    cluster::transaction as cluster,
    keyspace::{Keyspace, fill},
};

/// A transaction over any number of blobs of a store. Dropping it rolls it back.
///
/// Reads of one blob all show the state that the first of them pinned, with the transaction's own changes laid over. Different
/// blobs may be pinned at different moments; the commit then refuses the transaction if they do not fit together.
///
/// Writes, appends, and transforms are never the reason for a conflict; only what was read or checked is. Creating,
/// deleting, truncating, and setting an attribute read whether the blob exists.
///
/// A future of this type that is dropped before it is ready leaves the transaction as it was, except for
/// [`Transaction::commit`]: then the commit happens or not, as a whole.
#[derive(Debug)]
pub struct Transaction {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Directory(tyr_embed::Transaction),
    Cluster(cluster::Transaction),
}

impl Transaction {
    /// The same transaction, with futures that do everything when they are first polled, if it is of a directory.
    pub(crate) fn blocking(self) -> Transaction {
        let inner = match self.inner {
            Inner::Directory(transaction) => {
                Inner::Directory(tyr_embed::blocking::Transaction::from(transaction).into_ready())
            }
            cluster @ Inner::Cluster(_) => cluster,
        };
        Transaction { inner }
    }

    /// The same transaction, with futures that never block.
    pub(crate) fn asynchronous(self) -> Transaction {
        let inner = match self.inner {
            Inner::Directory(transaction) => {
                Inner::Directory(tyr_embed::blocking::Transaction::from(transaction).into())
            }
            cluster @ Inner::Cluster(_) => cluster,
        };
        Transaction { inner }
    }

    pub(crate) fn directory(transaction: tyr_embed::Transaction) -> Self {
        Transaction { inner: Inner::Directory(transaction) }
    }

    pub(crate) fn cluster(transaction: cluster::Transaction) -> Self {
        Transaction { inner: Inner::Cluster(transaction) }
    }

    pub(crate) fn into_directory(self) -> Option<tyr_embed::Transaction> {
        match self.inner {
            Inner::Directory(transaction) => Some(transaction),
            Inner::Cluster(_) => None,
        }
    }

    pub(crate) fn into_cluster(self) -> Option<cluster::Transaction> {
        match self.inner {
            Inner::Directory(_) => None,
            Inner::Cluster(transaction) => Some(transaction),
        }
    }

    /// What finds out how this transaction ended, in case that its commit is not answered in time.
    pub fn pending(&self) -> Pending {
        Pending {
            inner: match &self.inner {
                Inner::Directory(_) => None,
                Inner::Cluster(transaction) => Some(transaction.pending()),
            },
        }
    }

    /// Reads bytes of a blob. Shorter than the range if the blob ends in it. Fails with [`crate::ErrorKind::NotFound`]
    /// if the blob does not exist, and with [`crate::ErrorKind::Invalid`] if the range may contain bytes appended by this
    /// transaction, whose offset is known only at the commit.
    pub async fn read(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.read(keyspace.directory()?, key, range).await,
            Inner::Cluster(transaction) => transaction.read(keyspace.cluster()?, key, range).await,
        }
    }

    /// Reads bytes at an offset into the buffer and returns how many there were. Otherwise like [`Transaction::read`].
    pub async fn read_into(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        match &mut self.inner {
            Inner::Directory(transaction) => {
                transaction.read_into(keyspace.directory()?, key, offset, buffer).await
            }
            Inner::Cluster(transaction) => {
                let end = tyr_types::range_end(offset, buffer.len() as u64)?;
                fill(buffer, &transaction.read(keyspace.cluster()?, key, offset..end).await?)
            }
        }
    }

    /// The state of a blob. Size and attributes count as read. For a blob that this transaction creates, `blob` and `version` are
    /// 0 until the commit; of others they are as pinned. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn stat(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.stat(keyspace.directory()?, key).await,
            Inner::Cluster(transaction) => transaction.stat(keyspace.cluster()?, key).await,
        }
    }

    /// Whether a blob exists.
    pub async fn exists(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.exists(keyspace.directory()?, key).await,
            Inner::Cluster(transaction) => transaction.exists(keyspace.cluster()?, key).await,
        }
    }

    /// The value of an attribute. Fails with [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.attribute(keyspace.directory()?, key, name).await,
            Inner::Cluster(transaction) => transaction.attribute(keyspace.cluster()?, key, name).await,
        }
    }

    /// Makes the commit a conflict unless the condition holds then. It is about the committed state of the blob; changes
    /// of this transaction do not count, whether they come before or after. In a cluster a condition on a blob that was not read is looked at by
    /// whoever commits, and takes no request of its own; a change that needs a blob which was checked to exist is refused at the commit then, or in the next try of a run.
    pub fn check(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, check: Check) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.check(keyspace.directory()?, key, check),
            Inner::Cluster(transaction) => transaction.check(keyspace.cluster()?, key, check),
        }
    }

    /// Creates an empty blob. Fails with [`crate::ErrorKind::Exists`] if it exists.
    pub async fn create(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.create(keyspace.directory()?, key).await,
            Inner::Cluster(transaction) => transaction.create(keyspace.cluster()?, key).await,
        }
    }

    /// Deletes a blob. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.delete(keyspace.directory()?, key).await,
            Inner::Cluster(transaction) => transaction.delete(keyspace.cluster()?, key).await,
        }
    }

    /// Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
    pub async fn write(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        bytes: impl AsRef<[u8]>,
    ) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => {
                transaction.write(keyspace.directory()?, key, offset, bytes).await
            }
            Inner::Cluster(transaction) => {
                transaction.write(keyspace.cluster()?, key, offset, bytes.as_ref())
            }
        }
    }

    /// Copies bytes of a blob to an offset of another one, or of the same, and returns how many there were: fewer than the range if the blob ends
    /// in it. They count as read. In a cluster the nodes copy them among themselves, unless this transaction has changed the blob that has them;
    /// and a transaction cannot read a blob that it has copied to ([`crate::ErrorKind::Invalid`]). Fails with [`crate::ErrorKind::NotFound`] if the
    /// first blob does not exist.
    pub async fn copy(
        &mut self,
        from: (&Keyspace, impl AsRef<[u8]>),
        range: impl RangeBounds<u64>,
        to: (&Keyspace, impl AsRef<[u8]>),
        offset: u64,
    ) -> Result<u64> {
        match &mut self.inner {
            Inner::Directory(transaction) => {
                let bytes = transaction.read(from.0.directory()?, from.1, range).await?;
                if !bytes.is_empty() {
                    transaction.write(to.0.directory()?, to.1, offset, &bytes).await?;
                }
                Ok(bytes.len() as u64)
            }
            Inner::Cluster(transaction) => {
                let (source, target) = (from.0.cluster()?, to.0.cluster()?);
                transaction.copy((source, from.1.as_ref()), range, (target, to.1.as_ref()), offset).await
            }
        }
    }

    /// Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
    pub async fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.put(keyspace.directory()?, key, bytes).await,
            Inner::Cluster(transaction) => transaction.put(keyspace.cluster()?, key, bytes.as_ref()),
        }
    }

    /// Appends bytes, at an offset that the receipt tells for the slot; creates the blob if it does not exist.
    pub async fn append(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<Slot> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.append(keyspace.directory()?, key, bytes).await,
            Inner::Cluster(transaction) => transaction.append(keyspace.cluster()?, key, bytes.as_ref()),
        }
    }

    /// Makes the blob this long, cutting it or extending it with zeros. Fails with [`crate::ErrorKind::NotFound`] if it
    /// does not exist.
    pub async fn truncate(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.truncate(keyspace.directory()?, key, size).await,
            Inner::Cluster(transaction) => transaction.truncate(keyspace.cluster()?, key, size).await,
        }
    }

    /// Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with
    /// [`crate::ErrorKind::NotFound`] if the blob does not exist, and in a directory, at the commit, with
    /// [`crate::ErrorKind::Invalid`] if it is more than 64 GiB of what there is.
    pub async fn punch(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: Range<u64>,
    ) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => transaction.punch(keyspace.directory()?, key, range).await,
            Inner::Cluster(transaction) => transaction.punch(keyspace.cluster()?, key, range).await,
        }
    }

    /// Sets an attribute, or unsets it if there is no value. Fails with [`crate::ErrorKind::NotFound`] if the blob does not
    /// exist, and with [`crate::ErrorKind::Invalid`], now or at the commit, if its attributes would be too large.
    pub async fn set_attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<()> {
        match &mut self.inner {
            Inner::Directory(transaction) => {
                transaction.set_attribute(keyspace.directory()?, key, name, value).await
            }
            Inner::Cluster(transaction) => {
                transaction.set_attribute(keyspace.cluster()?, key, name, value).await
            }
        }
    }

    /// Transforms the number at an offset when the transaction commits; the receipt tells the old value for the slot. Creates
    /// the blob if it does not exist, and extends it with zeros as needed. Reading the number in this transaction works
    /// out the transform against what is pinned, so that it can conflict from then on.
    pub async fn transform(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        transform: Transform,
    ) -> Result<Slot> {
        match &mut self.inner {
            Inner::Directory(transaction) => {
                transaction.transform(keyspace.directory()?, key, offset, transform).await
            }
            Inner::Cluster(transaction) => transaction.transform(keyspace.cluster()?, key, offset, transform),
        }
    }

    /// Forgets the transaction. The same as dropping it.
    pub fn rollback(self) {}

    /// Commits. Everything that was done happens at one point in time, or nothing.
    ///
    /// An error says that the transaction was not committed, except one of kind [`crate::ErrorKind::Unavailable`], and one of kind
    /// [`crate::ErrorKind::Denied`] if the client lost its rights while it waited for a cluster: these say what is known;
    /// [`Transaction::pending`] finds out the rest, for who is let in.
    pub async fn commit(self) -> Result<Outcome> {
        match self.inner {
            Inner::Directory(transaction) => transaction.commit().await,
            Inner::Cluster(transaction) => transaction.commit().await,
        }
    }
}

/// Finds out how a transaction ended whose commit was not answered in time. As long as this lives, that is kept.
#[derive(Debug)]
pub struct Pending {
    inner: Option<cluster::Pending>,
}

impl Pending {
    /// The same, whose calls wait so long for a cluster, instead of as long as those of its transaction.
    pub fn within(self, deadline: Duration) -> Pending {
        Pending { inner: self.inner.map(|pending| pending.within(deadline)) }
    }

    /// How the transaction ended. Waits for that like the commit; may be asked again. In a directory only opening the store again tells,
    /// and this fails with [`crate::ErrorKind::Unavailable`].
    pub async fn outcome(&self) -> Result<Outcome> {
        match &self.inner {
            Some(pending) => pending.outcome().await,
            None => Err(Error::unavailable("open the store again, and read what the transaction wrote")),
        }
    }
}
