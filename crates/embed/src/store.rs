//! The open store: its keyspaces, its threads, and its end.
//!
//! Everything that can be done goes through the engine; this module only keeps the table of keyspaces by name, so that a
//! handle costs a look-up in memory, and owns the threads. Invariant: nothing that the threads run owns the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use tyr_store::{CheckReport, CompactReport, Stats};
use tyr_types::{Error, KeyspaceId, KeyspaceName, KeyspaceSettings, Result};

use crate::background::Background;
use crate::keyspace::Keyspace;
use crate::options::OpenOptions;
use crate::pool::{Pool, promise};
use crate::reservation::Reservations;
use crate::snapshot::{self, Snapshot, SnapshotSummary};
use crate::transaction::Transaction;
use crate::wait::{Mode, Waiting};

/// An open store.
///
/// Cheap to clone. It is stopped cleanly when the last handle (store, keyspace, transaction, or snapshot) is dropped, or by
/// [`Store::close`], which is the better way because it can report an error.
///
/// ```
/// # pollster::block_on(async {
/// # let directory = tempfile::tempdir().unwrap();
/// use tyr_embed::{KeyspaceSettings, Store};
///
/// let store = Store::open(directory.path()).await?;
/// let events = store.create_keyspace("events", KeyspaceSettings::default()).await?;
/// events.append("2013-06-01", b"a first event").await?;
/// store.close().await
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Store {
    pub(crate) core: Arc<Core>,
    pub(crate) mode: Mode,
}

/// What all handles of one open store share.
pub(crate) struct Core {
    pub(crate) waiting: Waiting,
    pub(crate) reservations: Arc<Reservations>,
    pub(crate) limits: Limits,
    catalog: Arc<Catalog>,
    background: Mutex<Option<Background>>,
}

/// Sizes in bytes that depend on the store's.
pub(crate) struct Limits {
    /// Payload from this size on is staged.
    pub(crate) stage_min: usize,
    /// Payload is staged in pieces of at most this size, which is also what is read back at once to cut one.
    pub(crate) piece_max: usize,
    /// What a transaction may hold in memory. It is logged as one record, which has to fit a segment.
    pub(crate) held_max: usize,
}

impl Limits {
    fn of(inline_max: usize, segment_size: u64) -> Limits {
        let share = |parts| usize::try_from(segment_size / parts).unwrap_or(usize::MAX);
        Limits {
            stage_min: inline_max.min(share(8)) + 1,
            piece_max: share(4).min(1 << 20),
            held_max: share(2).min(32 << 20),
        }
    }
}

/// The keyspaces by name.
#[derive(Default)]
struct Catalog {
    /// Held while a keyspace is created, altered, or dropped, so that the table agrees with the engine.
    changing: Mutex<()>,
    table: RwLock<BTreeMap<String, Arc<Entry>>>,
}

/// What all handles of one keyspace share.
pub(crate) struct Entry {
    pub(crate) id: KeyspaceId,
    pub(crate) name: KeyspaceName,
    settings: RwLock<KeyspaceSettings>,
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
    /// How many blobs exist in it.
    pub blobs: u64,
    /// The sum of their sizes, in bytes.
    pub bytes: u64,
}

impl Store {
    /// Options for opening a store.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Opens the store in the directory with default options; creates both if missing.
    pub async fn open(path: impl AsRef<Path>) -> Result<Store> {
        Self::options().open(path).await
    }

    pub(crate) fn start(engine: tyr_store::Store, inline_max: usize, mode: Mode) -> Result<Store> {
        let engine = Arc::new(engine);
        let catalog = Arc::new(Catalog::default());
        for record in engine.keyspaces() {
            catalog.insert(record.id, record.name, record.settings);
        }
        let background = Background::start(&engine)?;
        let limits = Limits::of(inline_max, engine.stats().segment_size);
        let core = Core {
            waiting: Waiting { engine, pool: Pool::default() },
            reservations: Arc::default(),
            limits,
            catalog,
            background: Mutex::new(Some(background)),
        };
        Ok(Store { core: Arc::new(core), mode })
    }

    /// Creates a keyspace. Fails with [`crate::ErrorKind::Exists`] if the name is taken and with
    /// [`crate::ErrorKind::Invalid`] if the name or a setting is out of bounds.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{Durability, KeyspaceSettings, blocking::Store};
    ///
    /// let store = Store::open(directory.path())?;
    /// let settings = KeyspaceSettings { durability: Durability::Memory, ..Default::default() };
    /// let scratch = store.create_keyspace("scratch", settings)?;
    /// assert_eq!(scratch.name(), "scratch");
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        let name = KeyspaceName::new(name)?;
        settings.check()?;
        let catalog = self.core.catalog.clone();
        let create = move |engine: &tyr_store::Store| {
            let _held = catalog.changing.lock();
            let id = engine.create_keyspace(name.clone(), settings.clone())?;
            Ok(catalog.insert(id, name, settings))
        };
        Ok(self.handle(self.core.waiting.block(self.mode, create).await?))
    }

    /// A handle of an existing keyspace. Fails with [`crate::ErrorKind::NotFound`] if there is none of that name.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{ErrorKind, KeyspaceSettings, blocking::Store};
    ///
    /// let store = Store::open(directory.path())?;
    /// assert_eq!(store.keyspace("events").err().unwrap().kind(), ErrorKind::NotFound);
    /// store.create_keyspace("events", KeyspaceSettings::default())?;
    /// store.keyspace("events")?;
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.core.catalog.entry(name).map(|entry| self.handle(entry))
    }

    /// All keyspaces in the order of their names.
    pub fn keyspaces(&self) -> Vec<KeyspaceSummary> {
        let summary = |record: tyr_store::KeyspaceRecord| KeyspaceSummary {
            name: record.name.as_str().into(),
            id: record.id,
            settings: record.settings,
            blobs: record.blobs,
            bytes: record.bytes,
        };
        let mut all: Vec<_> = self.core.waiting.engine.keyspaces().into_iter().map(summary).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Gives a keyspace other settings. Its chunk size cannot be altered ([`crate::ErrorKind::Invalid`]).
    pub async fn alter_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<()> {
        settings.check()?;
        let (catalog, name) = (self.core.catalog.clone(), name.to_owned());
        let alter = move |engine: &tyr_store::Store| {
            let _held = catalog.changing.lock();
            let entry = catalog.entry(&name)?;
            engine.alter_keyspace(entry.id, settings.clone())?;
            *entry.settings.write() = settings;
            Ok(())
        };
        self.core.waiting.block(self.mode, alter).await
    }

    /// Drops a keyspace with everything in it. Handles of it fail with [`crate::ErrorKind::NotFound`] from then on.
    pub async fn drop_keyspace(&self, name: &str) -> Result<()> {
        let (catalog, name) = (self.core.catalog.clone(), name.to_owned());
        let drop = move |engine: &tyr_store::Store| {
            let _held = catalog.changing.lock();
            engine.drop_keyspace(catalog.entry(&name)?.id)?;
            catalog.table.write().remove(&name);
            Ok(())
        };
        self.core.waiting.block(self.mode, drop).await
    }

    /// Begins a transaction. Local: costs nothing until something is read.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.core.clone(), self.mode, None)
    }

    /// Pins all blobs of the keyspaces at one point: what the snapshot shows never changes and never conflicts.
    ///
    /// Fails with [`crate::ErrorKind::Invalid`] for a keyspace that keeps no versions (`multi_version: false`).
    pub async fn snapshot(&self, keyspaces: &[&Keyspace]) -> Result<Snapshot> {
        Snapshot::take(self, keyspaces).await
    }

    /// Takes a snapshot of a keyspace that lasts until it is dropped by its name, also when the store is closed. What is replaced or deleted
    /// meanwhile takes up space until then. Snapshots are named as keyspaces are.
    ///
    /// Fails with [`crate::ErrorKind::Exists`] if the keyspace has one of that name, and with [`crate::ErrorKind::Invalid`] for a keyspace
    /// that keeps no versions (`multi_version: false`).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{KeyspaceSettings, blocking::Store};
    ///
    /// let store = Store::open(directory.path())?;
    /// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
    /// files.put("a", b"old")?;
    /// store.create_snapshot(&files, "monday")?;
    /// files.put("a", b"new")?;
    /// assert_eq!(store.open_snapshot(&files, "monday")?.read(&files, "a", ..)?, b"old");
    /// store.drop_snapshot(&files, "monday")?;
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn create_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        let (id, name) = (snapshot::own(self, keyspace)?, KeyspaceName::new(name)?);
        let taken = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let create = move |engine: &tyr_store::Store| engine.create_snapshot(id, name.clone(), taken);
        self.core.waiting.block(self.mode, create).await.map(drop)
    }

    /// The snapshots of a keyspace that have names, in the order in which they were taken.
    pub async fn snapshots(&self, keyspace: &Keyspace) -> Result<Vec<SnapshotSummary>> {
        let id = snapshot::own(self, keyspace)?;
        let list = move |engine: &tyr_store::Store| engine.snapshots(id);
        let snapshots = self.core.waiting.block(self.mode, list).await?;
        let summary = |snapshot: tyr_store::NamedSnapshot| SnapshotSummary {
            name: snapshot.name.as_str().to_owned(),
            taken: snapshot.taken,
            is_complete: true,
        };
        Ok(snapshots.into_iter().map(summary).collect())
    }

    /// Opens a snapshot by its name. It can be read until it is let go, also if it is dropped meanwhile. Fails with
    /// [`crate::ErrorKind::NotFound`] if there is none of that name.
    pub async fn open_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<Snapshot> {
        Snapshot::open(self, keyspace, name).await
    }

    /// Drops a snapshot by its name. Fails with [`crate::ErrorKind::NotFound`] if there is none.
    pub async fn drop_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        let (id, name) = (snapshot::own(self, keyspace)?, KeyspaceName::new(name)?);
        let drop = move |engine: &tyr_store::Store| engine.drop_snapshot(id, &name);
        self.core.waiting.block(self.mode, drop).await
    }

    /// What the store holds and has done, in numbers.
    pub fn stats(&self) -> Stats {
        self.core.waiting.engine.stats()
    }

    /// Reads and verifies everything: records, payload, and index. Damage is listed in the report; only a failure to look is
    /// an error.
    pub async fn check(&self) -> Result<CheckReport> {
        self.core.waiting.block(self.mode, tyr_store::Store::check).await
    }

    /// Reclaims all space that is worth it, now. Otherwise this happens bit by bit in the background.
    pub async fn compact(&self) -> Result<CompactReport> {
        self.core.waiting.block(self.mode, tyr_store::Store::compact).await
    }

    /// Returns when every commit so far is on disk, those of keyspaces with [`crate::Durability::Memory`] included.
    pub async fn flush(&self) -> Result<()> {
        self.core.waiting.block(self.mode, tyr_store::Store::flush).await
    }

    /// Stops the store cleanly, so that the next open is quick. What is still under way elsewhere is finished or
    /// refused; every later operation, on any handle, fails with [`crate::ErrorKind::Unavailable`]. The directory can be
    /// opened again when the other handles have been dropped too.
    pub async fn close(self) -> Result<()> {
        if self.mode == Mode::Blocking {
            return self.core.stop();
        }
        // Not on the pool, which is about to be stopped.
        let (promise, reply) = promise();
        let close = move || {
            let closed = self.core.stop();
            // The caller may want to open the directory again at once.
            drop(self);
            promise.keep(closed);
        };
        std::thread::Builder::new()
            .name("tyr-close".into())
            .spawn(close)
            .map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
        reply.await.unwrap_or_else(|| Err(Error::internal("closing the store died; please report it")))
    }

    fn handle(&self, entry: Arc<Entry>) -> Keyspace {
        Keyspace { core: self.core.clone(), entry, mode: self.mode }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Catalog {
    fn insert(&self, id: KeyspaceId, name: KeyspaceName, settings: KeyspaceSettings) -> Arc<Entry> {
        let key = name.as_str().to_owned();
        let entry = Arc::new(Entry { id, name, settings: RwLock::new(settings) });
        self.table.write().insert(key, entry.clone());
        entry
    }

    fn entry(&self, name: &str) -> Result<Arc<Entry>> {
        let missing = || {
            let name = name.escape_debug();
            Error::not_found(format!("there is no keyspace '{name}'; create it first"))
        };
        self.table.read().get(name).cloned().ok_or_else(missing)
    }
}

impl Entry {
    pub(crate) fn settings(&self) -> KeyspaceSettings {
        self.settings.read().clone()
    }

    pub(crate) fn multi_version(&self) -> bool {
        self.settings.read().multi_version
    }

    pub(crate) fn quota(&self) -> Option<u64> {
        self.settings.read().quota
    }
}

impl Core {
    fn stop(&self) -> Result<()> {
        // Held to the end, so that who closes second also returns only when the store is closed.
        let mut background = self.background.lock();
        let Some(running) = background.take() else { return Ok(()) };
        let closed = running.stop(&self.waiting.engine);
        self.waiting.pool.close();
        closed
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Who wants to see the error calls `close`. What was committed is safe either way.
        let _ = self.stop();
    }
}
