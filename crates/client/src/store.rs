//! An open store, whichever it is.

use std::{path::Path, sync::Arc, time::Duration};

use tyr_embed::{CheckReport, CompactReport, KeyspaceId, KeyspaceSettings, Result, SnapshotSummary, Stats};

use crate::{
    cluster::{Cluster, transaction},
    keyspace::{self, Keyspace},
    options::OpenOptions,
    recalls::Recalls,
    snapshot::{self, Snapshot},
    transaction::Transaction,
    words,
};

/// An open store: one in a directory, or a cluster.
///
/// Cheap to clone. It is stopped when the last handle is dropped, or by [`Store::close`], which is the better way because it waits for
/// what is under way and can report an error.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Inner,
}

#[derive(Clone, Debug)]
pub(crate) enum Inner {
    Directory(tyr_embed::Store),
    Cluster(Cluster),
}

/// A keyspace as listed by [`Store::keyspaces`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceSummary {
    /// Its name.
    pub name: String,
    /// Its identity, which no other keyspace of the store ever has.
    pub id: KeyspaceId,
    /// Its settings.
    pub settings: KeyspaceSettings,
    /// How many blobs exist in it; a cluster knows of those with a quota.
    /// It tells what was so some seconds ago.
    pub blobs: Option<u64>,
    /// The sum of their sizes, in bytes; the same.
    pub bytes: Option<u64>,
}

/// How reads of a cluster were answered, counted since it was opened: one for each part of a chunk that was asked for. None for a
/// directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// From files of nodes on this host.
    pub from_files: u64,
    /// Bytes of these.
    pub bytes_from_files: u64,
    /// By nodes over the network.
    pub from_network: u64,
    /// Bytes of these.
    pub bytes_from_network: u64,
    /// Those that were to be read from files and then were over the network.
    pub fell_back: u64,
    /// Of these, those for which a file was damaged.
    pub damaged: u64,
}

impl Store {
    /// Options for opening a store.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Opens the store that is named: `tyr://host:port,host:port`, or a directory, which is created if missing.
    pub async fn open(name: impl AsRef<Path>) -> Result<Store> {
        Self::options().open(name).await
    }

    /// Whether it is a cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self.inner, Inner::Cluster(_))
    }

    /// The same store, whose calls by this handle, and those of what it opens and begins, wait so long for a cluster instead of what
    /// [`OpenOptions::deadline`] says: for all calls of one transaction `store.within(deadline).begin()`. A directory is not waited for.
    pub fn within(&self, deadline: Duration) -> Store {
        let inner = match &self.inner {
            Inner::Directory(store) => Inner::Directory(store.clone()),
            Inner::Cluster(cluster) => Inner::Cluster(cluster.within(deadline)),
        };
        Store { inner }
    }

    /// The same store, with futures that do everything when they are first polled, if it is in a directory.
    pub(crate) fn blocking(self) -> Store {
        let inner = match self.inner {
            Inner::Directory(store) => Inner::Directory(tyr_embed::blocking::Store::from(store).into_ready()),
            cluster @ Inner::Cluster(_) => cluster,
        };
        Store { inner }
    }

    /// The same store, with futures that never block.
    pub(crate) fn asynchronous(self) -> Store {
        let inner = match self.inner {
            Inner::Directory(store) => Inner::Directory(tyr_embed::blocking::Store::from(store).into()),
            cluster @ Inner::Cluster(_) => cluster,
        };
        Store { inner }
    }

    /// What is taken back, from now on, of what is lent to this client and somebody was [assured](Keyspace::assured) of: `None` if it keeps no
    /// [copies](OpenOptions::copies). Each copy is given back when what this tells of it is dropped; so somebody has to go on waiting for it. Who called
    /// this before is told nothing more.
    pub fn recalls(&self) -> Option<Recalls> {
        match &self.inner {
            Inner::Directory(_) => None,
            Inner::Cluster(cluster) => cluster.core.recalls(),
        }
    }

    /// Whether it keeps [copies](OpenOptions::copies) of what it reads of a cluster.
    pub fn keeps_copies(&self) -> bool {
        match &self.inner {
            Inner::Directory(_) => false,
            Inner::Cluster(cluster) => cluster.core.keeps_copies(),
        }
    }

    /// How reads were answered so far.
    pub fn reads(&self) -> Reads {
        match &self.inner {
            Inner::Directory(_) => Reads::default(),
            Inner::Cluster(cluster) => cluster.core.counts.reads(),
        }
    }

    /// Creates a keyspace. Fails with [`crate::ErrorKind::Exists`] if the name is taken and with
    /// [`crate::ErrorKind::Invalid`] if the name or a setting is out of bounds.
    pub async fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        let inner = match &self.inner {
            Inner::Directory(store) => {
                keyspace::Inner::Directory(store.create_keyspace(name, settings).await?)
            }
            Inner::Cluster(cluster) => {
                keyspace::Inner::Cluster(cluster.create_keyspace(name, settings).await?)
            }
        };
        Ok(Keyspace { inner })
    }

    /// A handle of an existing keyspace. Fails with [`crate::ErrorKind::NotFound`] if there is none of that name. A cluster is asked, and
    /// the calling thread waits, only for a name that was not heard of. If another client has dropped it, and made one of that name
    /// anew, the old one may be told until something was not there, or was refused, and half a second more.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let inner = match &self.inner {
            Inner::Directory(store) => keyspace::Inner::Directory(store.keyspace(name)?),
            Inner::Cluster(cluster) => {
                let known = match cluster.known_keyspace(name) {
                    Some(known) => Some(known),
                    None => {
                        pollster::block_on(cluster.core.refresh())?;
                        cluster.known_keyspace(name)
                    }
                };
                keyspace::Inner::Cluster(known.ok_or_else(|| words::no_keyspace(name))?)
            }
        };
        Ok(Keyspace { inner })
    }

    /// All keyspaces in the order of their names. The calling thread waits for a cluster to tell what is new; if it does not, these are
    /// those that it has told of before.
    pub fn keyspaces(&self) -> Vec<KeyspaceSummary> {
        match &self.inner {
            Inner::Directory(store) => store.keyspaces().into_iter().map(Into::into).collect(),
            Inner::Cluster(cluster) => {
                // What was heard before is the answer then.
                let _ = pollster::block_on(cluster.core.refresh());
                let known = cluster.known_keyspaces();
                let is_bounded = known.iter().any(|(_, known)| known.settings.quota.is_some());
                // What nobody tells is not known.
                let uses = is_bounded.then(|| pollster::block_on(cluster.uses()).unwrap_or_default());
                let uses = uses.unwrap_or_default();
                let summary = known.into_iter().map(|(id, known)| KeyspaceSummary {
                    name: known.name.as_str().to_owned(),
                    id,
                    settings: known.settings,
                    blobs: uses.get(&id).map(|held| held.blobs),
                    bytes: uses.get(&id).map(|held| held.bytes),
                });
                summary.collect()
            }
        }
    }

    /// Gives a keyspace other settings. Its chunk size cannot be altered ([`crate::ErrorKind::Invalid`]).
    pub async fn alter_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<()> {
        match &self.inner {
            Inner::Directory(store) => store.alter_keyspace(name, settings).await,
            Inner::Cluster(cluster) => cluster.alter_keyspace(name, settings).await,
        }
    }

    /// Drops a keyspace with everything in it. Handles of it fail with [`crate::ErrorKind::NotFound`] from then on; in a cluster those of other
    /// clients once they hear of it, and what they write until then is gone with it.
    pub async fn drop_keyspace(&self, name: &str) -> Result<()> {
        match &self.inner {
            Inner::Directory(store) => store.drop_keyspace(name).await,
            Inner::Cluster(cluster) => cluster.drop_keyspace(name).await,
        }
    }

    /// Begins a transaction. Local: costs nothing until something is read.
    pub fn begin(&self) -> Transaction {
        match &self.inner {
            Inner::Directory(store) => Transaction::directory(store.begin()),
            Inner::Cluster(cluster) => {
                let open = transaction::Open::new(cluster.core.clone());
                Transaction::cluster(transaction::Transaction::new(open))
            }
        }
    }

    /// Pins all blobs of the keyspaces at one point: what the snapshot shows never changes and never conflicts.
    ///
    /// Fails with [`crate::ErrorKind::Invalid`] for a keyspace that keeps no versions (`multi_version: false`), and in a cluster for more
    /// than 1024.
    pub async fn snapshot(&self, keyspaces: &[&Keyspace]) -> Result<Snapshot> {
        let inner = match &self.inner {
            Inner::Directory(store) => {
                let own =
                    keyspaces.iter().map(|keyspace| keyspace.directory()).collect::<Result<Vec<_>>>()?;
                snapshot::Inner::Directory(store.snapshot(&own).await?)
            }
            Inner::Cluster(cluster) => {
                let own = keyspaces.iter().map(|keyspace| keyspace.cluster()).collect::<Result<Vec<_>>>()?;
                let taken = crate::cluster::snapshot::Snapshot::take(cluster, &own).await?;
                snapshot::Inner::Cluster(Arc::new(taken))
            }
        };
        Ok(Snapshot { inner })
    }

    /// Takes a snapshot of a keyspace that lasts until it is dropped by its name, also when the store is closed; see
    /// [`tyr_embed::Store::create_snapshot`]. On a cluster it is taken at one point of all its partitions, without a pause of more than the time
    /// that a message takes from one to the next through all of them.
    pub async fn create_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        match &self.inner {
            Inner::Directory(store) => store.create_snapshot(keyspace.directory()?, name).await,
            Inner::Cluster(cluster) => cluster.create_snapshot(keyspace.cluster()?, name).await,
        }
    }

    /// The snapshots of a keyspace that have names, in the order in which they were taken.
    pub async fn snapshots(&self, keyspace: &Keyspace) -> Result<Vec<SnapshotSummary>> {
        match &self.inner {
            Inner::Directory(store) => store.snapshots(keyspace.directory()?).await,
            Inner::Cluster(cluster) => cluster.snapshots(keyspace.cluster()?).await,
        }
    }

    /// Opens a snapshot by its name. It can be read until it is let go, in a directory also if it is dropped meanwhile. Fails with
    /// [`crate::ErrorKind::NotFound`] if there is none of that name.
    pub async fn open_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<Snapshot> {
        let inner = match &self.inner {
            Inner::Directory(store) => {
                snapshot::Inner::Directory(store.open_snapshot(keyspace.directory()?, name).await?)
            }
            Inner::Cluster(cluster) => {
                let opened = cluster.open_snapshot(keyspace.cluster()?, name).await?;
                snapshot::Inner::Cluster(Arc::new(opened))
            }
        };
        Ok(Snapshot { inner })
    }

    /// Drops a snapshot by its name. Fails with [`crate::ErrorKind::NotFound`] if there is none.
    pub async fn drop_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        match &self.inner {
            Inner::Directory(store) => store.drop_snapshot(keyspace.directory()?, name).await,
            Inner::Cluster(cluster) => cluster.drop_snapshot(keyspace.cluster()?, name).await,
        }
    }

    /// What a store in a directory holds and has done, in numbers.
    pub fn stats(&self) -> Result<Stats> {
        match &self.inner {
            Inner::Directory(store) => Ok(store.stats()),
            Inner::Cluster(_) => Err(words::not_in_a_cluster("to tell what it holds")),
        }
    }

    /// Reads and verifies everything in a directory: records, payload, and index. Damage is listed in the report; only a failure to look
    /// is an error.
    pub async fn check(&self) -> Result<CheckReport> {
        match &self.inner {
            Inner::Directory(store) => store.check().await,
            Inner::Cluster(_) => Err(words::not_in_a_cluster("to verify everything")),
        }
    }

    /// Reclaims all space of a directory that is worth it, now.
    pub async fn compact(&self) -> Result<CompactReport> {
        match &self.inner {
            Inner::Directory(store) => store.compact().await,
            Inner::Cluster(_) => Err(words::not_in_a_cluster("to reclaim space when told to")),
        }
    }

    /// Returns when every commit so far is on disk, those of keyspaces with [`crate::Durability::Memory`] included.
    pub async fn flush(&self) -> Result<()> {
        match &self.inner {
            Inner::Directory(store) => store.flush().await,
            Inner::Cluster(cluster) => cluster.flush(),
        }
    }

    /// Stops the store cleanly. What is still under way elsewhere is finished or refused; every later operation, on any handle, fails with
    /// [`crate::ErrorKind::Unavailable`].
    pub async fn close(self) -> Result<()> {
        match self.inner {
            Inner::Directory(store) => store.close().await,
            Inner::Cluster(cluster) => cluster.close().await,
        }
    }
}

impl From<tyr_embed::KeyspaceSummary> for KeyspaceSummary {
    fn from(summary: tyr_embed::KeyspaceSummary) -> Self {
        let tyr_embed::KeyspaceSummary { name, id, settings, blobs, bytes } = summary;
        KeyspaceSummary { name, id, settings, blobs: Some(blobs), bytes: Some(bytes) }
    }
}
