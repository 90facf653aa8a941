//! The same store without `async`: every operation runs to its end on the calling thread, and no executor is needed.
//!
//! The types here wrap those of the crate's root, have the same methods, and can be converted to and from them, so that one
//! store may be used both ways.
//!
//! ```
//! use tyr_embed::{KeyspaceSettings, blocking::Store};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! let store = Store::open(directory.path())?;
//! let files = store.create_keyspace("files", KeyspaceSettings::default())?;
//! files.put("greeting", b"hello")?;
//! assert_eq!(files.read("greeting", ..)?, b"hello");
//! store.close()
//! # .unwrap(); Ok::<(), tyr_embed::Error>(())
//! ```

use std::ops::{Range, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use tyr_env::{Clock, Disk};
use tyr_os::IoMode;
use tyr_store::{CheckReport, CompactReport, Stats};
use tyr_types::{KeyspaceSettings, Number, Operand, Result, Seek, Transform};

use crate::read::{Blob, Entry, Stat};
use crate::retry::Committed;
use crate::wait::{Mode, run_to_end};
use crate::{Check, Create, KeyspaceSummary, Outcome, Slot, SnapshotSummary, Written};

/// See [`crate::OpenOptions`].
#[derive(Clone)]
#[must_use = "options do nothing until they are opened"]
pub struct OpenOptions(crate::OpenOptions);

impl OpenOptions {
    /// See [`crate::OpenOptions::create`].
    pub fn create(self, create: Create) -> Self {
        OpenOptions(self.0.create(create))
    }

    /// See [`crate::OpenOptions::data_cache`].
    pub fn data_cache(self, bytes: u64) -> Self {
        OpenOptions(self.0.data_cache(bytes))
    }

    /// See [`crate::OpenOptions::index_cache`].
    pub fn index_cache(self, bytes: u64) -> Self {
        OpenOptions(self.0.index_cache(bytes))
    }

    /// See [`crate::OpenOptions::segment_size`].
    pub fn segment_size(self, bytes: u64) -> Self {
        OpenOptions(self.0.segment_size(bytes))
    }

    /// See [`crate::OpenOptions::io`].
    pub fn io(self, mode: IoMode) -> Self {
        OpenOptions(self.0.io(mode))
    }

    /// See [`crate::OpenOptions::disk`].
    pub fn disk(self, disk: Arc<dyn Disk>) -> Self {
        OpenOptions(self.0.disk(disk))
    }

    /// See [`crate::OpenOptions::clock`].
    pub fn clock(self, clock: Arc<dyn Clock>) -> OpenOptions {
        OpenOptions(self.0.clock(clock))
    }

    /// See [`crate::OpenOptions::rebuild_index`].
    pub fn rebuild_index(self) -> OpenOptions {
        OpenOptions(self.0.rebuild_index())
    }

    /// See [`crate::OpenOptions::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        self.0.open_blocking(path.as_ref(), Mode::Blocking).map(Store)
    }
}

impl From<crate::OpenOptions> for OpenOptions {
    fn from(options: crate::OpenOptions) -> Self {
        OpenOptions(options)
    }
}

/// An open store; see [`crate::Store`].
#[derive(Clone, Debug)]
pub struct Store(crate::Store);

impl Store {
    /// See [`crate::Store::options`].
    pub fn options() -> OpenOptions {
        OpenOptions(crate::Store::options())
    }

    /// See [`crate::Store::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Self::options().open(path)
    }

    /// See [`crate::Store::create_keyspace`].
    pub fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        run_to_end(self.0.create_keyspace(name, settings)).map(Keyspace)
    }

    /// See [`crate::Store::keyspace`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.0.keyspace(name).map(Keyspace)
    }

    /// See [`crate::Store::keyspaces`].
    pub fn keyspaces(&self) -> Vec<KeyspaceSummary> {
        self.0.keyspaces()
    }

    /// See [`crate::Store::alter_keyspace`].
    pub fn alter_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<()> {
        run_to_end(self.0.alter_keyspace(name, settings))
    }

    /// See [`crate::Store::drop_keyspace`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        run_to_end(self.0.drop_keyspace(name))
    }

    /// See [`crate::Store::begin`].
    pub fn begin(&self) -> Transaction {
        Transaction(self.0.begin())
    }

    /// See [`crate::Store::run`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{KeyspaceSettings, blocking::Store};
    ///
    /// let store = Store::open(directory.path())?;
    /// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
    /// files.put("a", b"content")?;
    /// let moved = store.run(|transaction| {
    ///     let bytes = transaction.read(&files, "a", ..)?;
    ///     transaction.delete(&files, "a")?;
    ///     transaction.put(&files, "b", &bytes)?;
    ///     Ok(bytes.len())
    /// })?;
    /// assert_eq!(moved.value, 7);
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub fn run<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<Committed<T>> {
        let mut retry = self.0.retry();
        loop {
            let mut transaction = Transaction(retry.begin());
            let result = body(&mut transaction);
            if let Some(committed) = run_to_end(retry.finish(transaction.0, result))? {
                return Ok(committed);
            }
        }
    }

    /// See [`crate::Store::snapshot`].
    pub fn snapshot(&self, keyspaces: &[&Keyspace]) -> Result<Snapshot> {
        let keyspaces: Vec<_> = keyspaces.iter().map(|keyspace| &keyspace.0).collect();
        run_to_end(self.0.snapshot(&keyspaces)).map(Snapshot)
    }

    /// See [`crate::Store::create_snapshot`].
    pub fn create_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        run_to_end(self.0.create_snapshot(&keyspace.0, name))
    }

    /// See [`crate::Store::snapshots`].
    pub fn snapshots(&self, keyspace: &Keyspace) -> Result<Vec<SnapshotSummary>> {
        run_to_end(self.0.snapshots(&keyspace.0))
    }

    /// See [`crate::Store::open_snapshot`].
    pub fn open_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<Snapshot> {
        run_to_end(self.0.open_snapshot(&keyspace.0, name)).map(Snapshot)
    }

    /// See [`crate::Store::drop_snapshot`].
    pub fn drop_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        run_to_end(self.0.drop_snapshot(&keyspace.0, name))
    }

    /// See [`crate::Store::stats`].
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// See [`crate::Store::check`].
    pub fn check(&self) -> Result<CheckReport> {
        run_to_end(self.0.check())
    }

    /// See [`crate::Store::compact`].
    pub fn compact(&self) -> Result<CompactReport> {
        run_to_end(self.0.compact())
    }

    /// See [`crate::Store::flush`].
    pub fn flush(&self) -> Result<()> {
        run_to_end(self.0.flush())
    }

    /// See [`crate::Store::close`].
    pub fn close(self) -> Result<()> {
        run_to_end(self.0.close())
    }
}

impl Store {
    /// The same store with the methods of [`crate::Store`], whose futures block where they are polled first and are ready then. For who
    /// offers both kinds of methods on top of this crate.
    pub fn into_ready(self) -> crate::Store {
        self.0
    }
}

impl From<crate::Store> for Store {
    fn from(store: crate::Store) -> Self {
        Store(crate::Store { mode: Mode::Blocking, ..store })
    }
}

impl From<Store> for crate::Store {
    fn from(store: Store) -> Self {
        crate::Store { mode: Mode::Async, ..store.0 }
    }
}

/// An isolated namespace of blobs; see [`crate::Keyspace`].
#[derive(Clone, Debug)]
pub struct Keyspace(crate::Keyspace);

impl Keyspace {
    /// The same with the methods of [`crate::Keyspace`], whose futures do everything when they are first polled.
    pub fn into_ready(self) -> crate::Keyspace {
        self.0
    }

    /// See [`crate::Keyspace::name`].
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Keyspace::identity`].
    pub fn identity(&self) -> String {
        self.0.identity()
    }

    /// See [`crate::Keyspace::settings`].
    pub fn settings(&self) -> KeyspaceSettings {
        self.0.settings()
    }

    /// See [`crate::Keyspace::create`].
    pub fn create(&self, key: impl AsRef<[u8]>) -> Result<()> {
        run_to_end(self.0.create(key))
    }

    /// See [`crate::Keyspace::delete`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        run_to_end(self.0.delete(key))
    }

    /// See [`crate::Keyspace::read`].
    pub fn read(&self, key: impl AsRef<[u8]>, range: impl RangeBounds<u64>) -> Result<Vec<u8>> {
        run_to_end(self.0.read(key, range))
    }

    /// See [`crate::Keyspace::read_into`].
    pub fn read_into(&self, key: impl AsRef<[u8]>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.0.read_into_blocking(key.as_ref(), offset, buffer)
    }

    /// See [`crate::Keyspace::write`].
    pub fn write(&self, key: impl AsRef<[u8]>, offset: u64, bytes: impl AsRef<[u8]>) -> Result<()> {
        run_to_end(self.0.write(key, offset, bytes))
    }

    /// See [`crate::Keyspace::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        run_to_end(self.0.put(key, bytes))
    }

    /// See [`crate::Keyspace::append`].
    pub fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<u64> {
        run_to_end(self.0.append(key, bytes))
    }

    /// See [`crate::Keyspace::truncate`].
    pub fn truncate(&self, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        run_to_end(self.0.truncate(key, size))
    }

    /// See [`crate::Keyspace::punch`].
    pub fn punch(&self, key: impl AsRef<[u8]>, range: Range<u64>) -> Result<()> {
        run_to_end(self.0.punch(key, range))
    }

    /// See [`crate::Keyspace::seek`].
    pub fn seek(&self, key: impl AsRef<[u8]>, what: Seek, from: u64) -> Result<Option<u64>> {
        run_to_end(self.0.seek(key, what, from))
    }

    /// See [`crate::Keyspace::stat`].
    pub fn stat(&self, key: impl AsRef<[u8]>) -> Result<Stat> {
        run_to_end(self.0.stat(key))
    }

    /// See [`crate::Keyspace::exists`].
    pub fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        run_to_end(self.0.exists(key))
    }

    /// See [`crate::Keyspace::attribute`].
    pub fn attribute(&self, key: impl AsRef<[u8]>, name: &str) -> Result<Option<Vec<u8>>> {
        run_to_end(self.0.attribute(key, name))
    }

    /// See [`crate::Keyspace::set_attribute`].
    pub fn set_attribute(&self, key: impl AsRef<[u8]>, name: &str, value: Option<&[u8]>) -> Result<()> {
        run_to_end(self.0.set_attribute(key, name, value))
    }

    /// See [`crate::Keyspace::transform`].
    pub fn transform(&self, key: impl AsRef<[u8]>, offset: u64, transform: Transform) -> Result<Operand> {
        run_to_end(self.0.transform(key, offset, transform))
    }

    /// See [`crate::Keyspace::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Blob> {
        run_to_end(self.0.get(key))
    }

    /// See [`crate::Keyspace::scan`].
    pub fn scan(&self, prefix: impl AsRef<[u8]>, after: Option<&[u8]>, limit: usize) -> Result<Vec<Entry>> {
        run_to_end(self.0.scan(prefix, after, limit))
    }
}

impl From<crate::Keyspace> for Keyspace {
    fn from(keyspace: crate::Keyspace) -> Self {
        Keyspace(crate::Keyspace { mode: Mode::Blocking, ..keyspace })
    }
}

impl From<Keyspace> for crate::Keyspace {
    fn from(keyspace: Keyspace) -> Self {
        crate::Keyspace { mode: Mode::Async, ..keyspace.0 }
    }
}

/// A transaction over any number of blobs; see [`crate::Transaction`].
#[derive(Debug)]
pub struct Transaction(crate::Transaction);

impl From<crate::Transaction> for Transaction {
    fn from(mut transaction: crate::Transaction) -> Self {
        transaction.mode = Mode::Blocking;
        Transaction(transaction)
    }
}

impl From<Transaction> for crate::Transaction {
    fn from(transaction: Transaction) -> Self {
        let mut transaction = transaction.0;
        transaction.mode = Mode::Async;
        transaction
    }
}

impl Transaction {
    /// The same with the methods of [`crate::Transaction`], whose futures do everything when they are first polled.
    pub fn into_ready(self) -> crate::Transaction {
        self.0
    }

    /// See [`crate::Transaction::check`].
    pub fn check(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, check: Check) -> Result<()> {
        self.0.check(&keyspace.0, key, check)
    }

    /// See [`crate::Transaction::create`].
    pub fn create(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        run_to_end(self.0.create(&keyspace.0, key))
    }

    /// See [`crate::Transaction::delete`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        run_to_end(self.0.delete(&keyspace.0, key))
    }

    /// See [`crate::Transaction::read`].
    pub fn read(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        run_to_end(self.0.read(&keyspace.0, key, range))
    }

    /// See [`crate::Transaction::read_into`].
    pub fn read_into(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        run_to_end(self.0.read_into(&keyspace.0, key, offset, buffer))
    }

    /// See [`crate::Transaction::write`].
    pub fn write(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        bytes: impl AsRef<[u8]>,
    ) -> Result<()> {
        run_to_end(self.0.write(&keyspace.0, key, offset, bytes))
    }

    /// See [`crate::Transaction::put`].
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        run_to_end(self.0.put(&keyspace.0, key, bytes))
    }

    /// See [`crate::Transaction::append`].
    pub fn append(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<Slot> {
        run_to_end(self.0.append(&keyspace.0, key, bytes))
    }

    /// See [`crate::Transaction::truncate`].
    pub fn truncate(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        run_to_end(self.0.truncate(&keyspace.0, key, size))
    }

    /// See [`crate::Transaction::punch`].
    pub fn punch(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, range: Range<u64>) -> Result<()> {
        run_to_end(self.0.punch(&keyspace.0, key, range))
    }

    /// See [`crate::Transaction::stat`].
    pub fn stat(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        run_to_end(self.0.stat(&keyspace.0, key))
    }

    /// See [`crate::Transaction::exists`].
    pub fn exists(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        run_to_end(self.0.exists(&keyspace.0, key))
    }

    /// See [`crate::Transaction::attribute`].
    pub fn attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        run_to_end(self.0.attribute(&keyspace.0, key, name))
    }

    /// See [`crate::Transaction::set_attribute`].
    pub fn set_attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<()> {
        run_to_end(self.0.set_attribute(&keyspace.0, key, name, value))
    }

    /// See [`crate::Transaction::transform`].
    pub fn transform(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        transform: Transform,
    ) -> Result<Slot> {
        run_to_end(self.0.transform(&keyspace.0, key, offset, transform))
    }

    /// See [`crate::Transaction::rollback`].
    pub fn rollback(self) {}

    /// See [`crate::Transaction::commit`].
    pub fn commit(self) -> Result<Outcome> {
        run_to_end(self.0.commit())
    }
}

/// All blobs of some keyspaces as they were at one point; see [`crate::Snapshot`].
#[derive(Clone, Debug)]
pub struct Snapshot(crate::Snapshot);

impl From<crate::Snapshot> for Snapshot {
    fn from(mut snapshot: crate::Snapshot) -> Self {
        snapshot.mode = Mode::Blocking;
        Snapshot(snapshot)
    }
}

impl From<Snapshot> for crate::Snapshot {
    fn from(snapshot: Snapshot) -> Self {
        let mut snapshot = snapshot.0;
        snapshot.mode = Mode::Async;
        snapshot
    }
}

impl Snapshot {
    /// The same with the methods of [`crate::Snapshot`], whose futures do everything when they are first polled.
    pub fn into_ready(self) -> crate::Snapshot {
        self.0
    }

    /// See [`crate::Snapshot::number`].
    pub fn number(&self) -> Number {
        self.0.number()
    }

    /// See [`crate::Snapshot::read`].
    pub fn read(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        run_to_end(self.0.read(&keyspace.0, key, range))
    }

    /// See [`crate::Snapshot::read_into`].
    pub fn read_into(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        run_to_end(self.0.read_into(&keyspace.0, key, offset, buffer))
    }

    /// See [`crate::Snapshot::stat`].
    pub fn stat(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        run_to_end(self.0.stat(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::exists`].
    pub fn exists(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        run_to_end(self.0.exists(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::attribute`].
    pub fn attribute(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        run_to_end(self.0.attribute(&keyspace.0, key, name))
    }

    /// See [`crate::Snapshot::get`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Blob> {
        run_to_end(self.0.get(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::written`].
    pub fn written(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Written> {
        run_to_end(self.0.written(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::scan`].
    pub fn scan(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        run_to_end(self.0.scan(&keyspace.0, prefix, after, limit))
    }
}
