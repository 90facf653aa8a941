//! Snapshots: whole keyspaces pinned at one point.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use tyr_store::Pin;
use tyr_types::{Error, Key, KeyspaceId, KeyspaceName, Number, Result, range_end};

use crate::keyspace::Keyspace;
use crate::read::{Blob, Entry, Source, Span, Stat, no_blob};
use crate::store::{Core, Store};
use crate::wait::Mode;

/// All blobs of some keyspaces as they were at one point. Writers go on meanwhile; what they replace is kept until the snapshot
/// and its clones are dropped.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use tyr_embed::{KeyspaceSettings, blocking::Store};
///
/// let store = Store::open(directory.path())?;
/// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
/// files.put("a", b"old")?;
/// let snapshot = store.snapshot(&[&files])?;
/// files.put("a", b"new")?;
/// files.create("b")?;
/// assert_eq!(snapshot.read(&files, "a", ..)?, b"old");
/// assert_eq!(snapshot.scan(&files, "", None, 10)?.len(), 1);
/// # Ok::<(), tyr_embed::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    core: Arc<Core>,
    pub(crate) mode: Mode,
    pin: Arc<Pin>,
    keyspaces: Vec<KeyspaceId>,
}

impl Snapshot {
    pub(crate) async fn take(store: &Store, keyspaces: &[&Keyspace]) -> Result<Snapshot> {
        for keyspace in keyspaces {
            if !Arc::ptr_eq(&store.core, &keyspace.core) {
                return Err(Error::invalid("a keyspace of the snapshot is of another store"));
            }
            if !keyspace.entry.multi_version() {
                return Err(no_versions(keyspace.name()));
            }
        }
        let mut ids: Vec<KeyspaceId> = keyspaces.iter().map(|keyspace| keyspace.entry.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let pinned = ids.clone();
        let pin = move |engine: &tyr_store::Store| engine.pin_keyspaces(&pinned);
        let pin = store.core.waiting.block(store.mode, pin).await?;
        Ok(Snapshot { core: store.core.clone(), mode: store.mode, pin: Arc::new(pin), keyspaces: ids })
    }

    pub(crate) async fn open(store: &Store, keyspace: &Keyspace, name: &str) -> Result<Snapshot> {
        let (id, name) = (own(store, keyspace)?, KeyspaceName::new(name)?);
        let pin = move |engine: &tyr_store::Store| engine.pin_snapshot(id, &name);
        let (pin, _) = store.core.waiting.block(store.mode, pin).await?;
        Ok(Snapshot { core: store.core.clone(), mode: store.mode, pin: Arc::new(pin), keyspaces: vec![id] })
    }

    /// The point: the number of the newest transaction that the snapshot shows.
    pub fn number(&self) -> Number {
        self.pin.number()
    }

    /// Reads bytes of a blob; see [`Keyspace::read`]. Fails with [`crate::ErrorKind::Invalid`], as all of these do, if the
    /// keyspace is not in the snapshot.
    pub async fn read(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        let (key, span) = (Key::new(key)?, Span::new(range)?);
        let read = self.source(keyspace, &key)?.read(span).await?;
        read.map(|(_, bytes)| bytes).ok_or_else(|| no_blob(&keyspace.entry.name, &key))
    }

    /// Reads bytes at an offset into the buffer; see [`Keyspace::read_into`].
    pub async fn read_into(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let key = Key::new(key)?;
        range_end(offset, buffer.len() as u64)?;
        let read = self.source(keyspace, &key)?.read_into(offset, buffer).await?;
        read.map(|(_, len)| len).ok_or_else(|| no_blob(&keyspace.entry.name, &key))
    }

    /// The state of a blob; see [`Keyspace::stat`].
    pub async fn stat(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        let key = Key::new(key)?;
        let head = self.source(keyspace, &key)?.head().await?;
        head.map(|head| Stat::from(&*head)).ok_or_else(|| no_blob(&keyspace.entry.name, &key))
    }

    /// Whether a blob existed.
    pub async fn exists(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = Key::new(key)?;
        Ok(self.source(keyspace, &key)?.head().await?.is_some())
    }

    /// The value of an attribute; see [`Keyspace::attribute`].
    pub async fn attribute(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        let key = Key::new(key)?;
        let head = self.source(keyspace, &key)?.head().await?;
        let head = head.ok_or_else(|| no_blob(&keyspace.entry.name, &key))?;
        Ok(head.attributes.value(name).map(Into::into))
    }

    /// State and content of a blob; see [`Keyspace::get`].
    pub async fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Blob> {
        let key = Key::new(key)?;
        let read = self.source(keyspace, &key)?.read(Span::ALL).await?;
        read.map(|(head, bytes)| Blob { stat: Stat::from(&*head), bytes })
            .ok_or_else(|| no_blob(&keyspace.entry.name, &key))
    }

    /// Blobs in the order of their keys, exactly those that existed; see [`Keyspace::scan`].
    pub async fn scan(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let id = self.pinned(keyspace)?;
        self.core.scan(self.mode, id, prefix.as_ref(), after, limit, self.pin.number()).await
    }

    /// The parts of a blob of which anything was written; see [`Written`].
    pub async fn written(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Written> {
        let (id, key) = (self.pinned(keyspace)?, Key::new(key)?);
        let (at, grain) = (self.pin.number(), keyspace.settings().chunk_size.min(GRAIN_MAX));
        let (name, asked) = (keyspace.entry.name.clone(), key.clone());
        let written = move |engine: &tyr_store::Store| engine.written(id, &asked, at, grain);
        let prints = self.core.waiting.block(self.mode, written).await?;
        prints.map(|prints| Written { grain, prints }).ok_or_else(|| no_blob(&name, &key))
    }

    fn source<'a>(&'a self, keyspace: &Keyspace, key: &'a Key) -> Result<Source<'a>> {
        let keyspace = self.pinned(keyspace)?;
        Ok(Source { core: &self.core, mode: self.mode, keyspace, key, at: self.pin.number() })
    }

    fn pinned(&self, keyspace: &Keyspace) -> Result<KeyspaceId> {
        let id = keyspace.entry.id;
        if Arc::ptr_eq(&self.core, &keyspace.core) && self.keyspaces.contains(&id) {
            return Ok(id);
        }
        let name = keyspace.name();
        Err(Error::invalid(format!("keyspace '{name}' is not in the snapshot; name it when taking one")))
    }
}

/// A snapshot that has a name, as listed by [`Store::snapshots`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Its name.
    pub name: String,
    /// When it was taken, in seconds since 1970, by the clock of whoever took it.
    pub taken: u64,
    /// Whether it can be opened: on a cluster one may be listed that is being taken, or whose taker has failed.
    pub is_complete: bool,
}

/// The id of a keyspace of this store.
pub(crate) fn own(store: &Store, keyspace: &Keyspace) -> Result<KeyspaceId> {
    if !Arc::ptr_eq(&store.core, &keyspace.core) {
        return Err(Error::invalid("the keyspace is of another store"));
    }
    Ok(keyspace.entry.id)
}

/// The error of a snapshot of a keyspace that keeps no versions.
#[cold]
fn no_versions(name: &str) -> Error {
    Error::invalid(format!(
        "keyspace '{name}' keeps no versions, so it has no snapshots; alter it to multi_version"
    ))
}

/// What was ever written of a blob, in parts of the same size. What is not listed reads as zeros.
///
/// Where two snapshots of a keyspace show the same blob ([`crate::Stat::blob`]) with the same print for a part, its bytes are the same, as
/// far as both have them; so a copy that was made of the one need not read that part of the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of a part.
    pub grain: u64,
    /// The print of each part, by its place: part `n` begins at byte `n * grain`.
    pub prints: BTreeMap<u64, u64>,
}

/// A part is at most so large in a directory, in bytes.
const GRAIN_MAX: u64 = 1 << 20;

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("number", &self.number()).finish_non_exhaustive()
    }
}
