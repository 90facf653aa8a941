//! The same store for callers that block: every method does its work, and returns when it is done.
//!
//! What is in a directory is done on the calling thread; for a cluster, the calling thread waits.

use std::{
    num::NonZeroU32,
    ops::{Range, RangeBounds},
    path::Path,
    time::Duration,
};

use pollster::block_on;
use tyr_embed::{
    Blob, Check, CheckReport, Committed, CompactReport, Create, Entry, IoMode, KeyspaceSettings, Number,
    Operand, Outcome, Result, Seek, Slot, SnapshotSummary, Stat, Stats, Transform, Written,
};

use crate::{KeyspaceSummary, Reads};

/// See [`crate::OpenOptions`].
#[derive(Clone)]
#[must_use = "options do nothing until they are opened"]
pub struct OpenOptions(crate::OpenOptions);

impl OpenOptions {
    /// See [`crate::OpenOptions::deadline`].
    pub fn deadline(self, deadline: Duration) -> Self {
        OpenOptions(self.0.deadline(deadline))
    }

    /// See [`crate::OpenOptions::connect_timeout`].
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        OpenOptions(self.0.connect_timeout(timeout))
    }

    /// See [`crate::OpenOptions::tls`].
    pub fn tls(self, tls: tyr_net::Tls) -> Self {
        OpenOptions(self.0.tls(tls))
    }

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

    /// See [`crate::OpenOptions::without_files`].
    pub fn without_files(self) -> Self {
        OpenOptions(self.0.without_files())
    }

    /// See [`crate::OpenOptions::copies`].
    pub fn copies(self) -> Self {
        OpenOptions(self.0.copies())
    }

    /// See [`crate::OpenOptions::traces`].
    pub fn traces(self, collector: &str, every: NonZeroU32) -> Self {
        OpenOptions(self.0.traces(collector, every))
    }

    /// See [`crate::OpenOptions::zone`].
    pub fn zone(self, zone: &str) -> Self {
        OpenOptions(self.0.zone(zone))
    }

    /// See [`crate::OpenOptions::token`].
    pub fn token(self, token: crate::Token) -> Self {
        OpenOptions(self.0.token(token))
    }

    /// See [`crate::OpenOptions::secret`].
    pub fn secret(self, secret: crate::Secret) -> Self {
        OpenOptions(self.0.secret(secret))
    }

    /// See [`crate::OpenOptions::rebuild_index`].
    pub fn rebuild_index(self) -> Self {
        OpenOptions(self.0.rebuild_index())
    }

    /// See [`crate::OpenOptions::open`].
    pub fn open(self, name: impl AsRef<Path>) -> Result<Store> {
        self.0.open_blocking(name.as_ref()).map(Store)
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
    pub fn open(name: impl AsRef<Path>) -> Result<Store> {
        Self::options().open(name)
    }

    /// See [`crate::Store::is_cluster`].
    pub fn is_cluster(&self) -> bool {
        self.0.is_cluster()
    }

    /// See [`crate::Store::within`].
    pub fn within(&self, deadline: Duration) -> Store {
        Store(self.0.within(deadline))
    }

    /// See [`crate::Store::keeps_copies`].
    pub fn keeps_copies(&self) -> bool {
        self.0.keeps_copies()
    }

    /// See [`crate::Store::reads`].
    pub fn reads(&self) -> Reads {
        self.0.reads()
    }

    /// See [`crate::Store::create_keyspace`].
    pub fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        block_on(self.0.create_keyspace(name, settings)).map(Keyspace)
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
        block_on(self.0.alter_keyspace(name, settings))
    }

    /// See [`crate::Store::drop_keyspace`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        block_on(self.0.drop_keyspace(name))
    }

    /// See [`crate::Store::begin`].
    pub fn begin(&self) -> Transaction {
        Transaction(self.0.begin())
    }

    /// See [`crate::Store::run`].
    pub fn run<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<Committed<T>> {
        let ran = self.0.run(async |theirs| {
            // What is put in its place costs nothing and does nothing.
            let mut transaction = Transaction(std::mem::replace(theirs, self.0.begin()));
            let result = body(&mut transaction);
            *theirs = transaction.0;
            result
        });
        block_on(ran)
    }

    /// See [`crate::Store::snapshot`].
    pub fn snapshot(&self, keyspaces: &[&Keyspace]) -> Result<Snapshot> {
        let keyspaces: Vec<_> = keyspaces.iter().map(|keyspace| &keyspace.0).collect();
        block_on(self.0.snapshot(&keyspaces)).map(Snapshot)
    }

    /// See [`crate::Store::create_snapshot`].
    pub fn create_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        block_on(self.0.create_snapshot(&keyspace.0, name))
    }

    /// See [`crate::Store::snapshots`].
    pub fn snapshots(&self, keyspace: &Keyspace) -> Result<Vec<SnapshotSummary>> {
        block_on(self.0.snapshots(&keyspace.0))
    }

    /// See [`crate::Store::open_snapshot`].
    pub fn open_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<Snapshot> {
        block_on(self.0.open_snapshot(&keyspace.0, name)).map(Snapshot)
    }

    /// See [`crate::Store::drop_snapshot`].
    pub fn drop_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        block_on(self.0.drop_snapshot(&keyspace.0, name))
    }

    /// See [`crate::Store::stats`].
    pub fn stats(&self) -> Result<Stats> {
        self.0.stats()
    }

    /// See [`crate::Store::check`].
    pub fn check(&self) -> Result<CheckReport> {
        block_on(self.0.check())
    }

    /// See [`crate::Store::compact`].
    pub fn compact(&self) -> Result<CompactReport> {
        block_on(self.0.compact())
    }

    /// See [`crate::Store::flush`].
    pub fn flush(&self) -> Result<()> {
        block_on(self.0.flush())
    }

    /// See [`crate::Store::close`].
    pub fn close(self) -> Result<()> {
        block_on(self.0.close())
    }

    /// The same store with the methods of [`crate::Store`]: in a directory their futures do everything when they are first polled. For who
    /// waits in a way of their own, as bindings do.
    pub fn into_ready(self) -> crate::Store {
        self.0
    }
}

impl From<crate::Store> for Store {
    fn from(store: crate::Store) -> Self {
        Store(store.blocking())
    }
}

impl From<Store> for crate::Store {
    fn from(store: Store) -> Self {
        store.0.asynchronous()
    }
}

/// An isolated namespace of blobs; see [`crate::Keyspace`].
#[derive(Clone, Debug)]
pub struct Keyspace(crate::Keyspace);

impl From<crate::Keyspace> for Keyspace {
    fn from(keyspace: crate::Keyspace) -> Self {
        Keyspace(keyspace.blocking())
    }
}

impl From<Keyspace> for crate::Keyspace {
    fn from(keyspace: Keyspace) -> Self {
        keyspace.0.asynchronous()
    }
}

impl Keyspace {
    /// See [`Store::into_ready`].
    pub fn into_ready(self) -> crate::Keyspace {
        self.0
    }

    /// See [`crate::Keyspace::within`].
    pub fn within(&self, deadline: Duration) -> Keyspace {
        Keyspace(self.0.within(deadline))
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
        block_on(self.0.create(key))
    }

    /// See [`crate::Keyspace::delete`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        block_on(self.0.delete(key))
    }

    /// See [`crate::Keyspace::read`].
    pub fn read(&self, key: impl AsRef<[u8]>, range: impl RangeBounds<u64>) -> Result<Vec<u8>> {
        block_on(self.0.read(key, range))
    }

    /// See [`crate::Keyspace::read_into`].
    pub fn read_into(&self, key: impl AsRef<[u8]>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        block_on(self.0.read_into(key, offset, buffer))
    }

    /// See [`crate::Keyspace::write`].
    pub fn write(&self, key: impl AsRef<[u8]>, offset: u64, bytes: impl AsRef<[u8]>) -> Result<()> {
        block_on(self.0.write(key, offset, bytes))
    }

    /// See [`crate::Keyspace::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        block_on(self.0.put(key, bytes))
    }

    /// See [`crate::Keyspace::append`].
    pub fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<u64> {
        block_on(self.0.append(key, bytes))
    }

    /// See [`crate::Keyspace::truncate`].
    pub fn truncate(&self, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        block_on(self.0.truncate(key, size))
    }

    /// See [`crate::Keyspace::punch`].
    pub fn punch(&self, key: impl AsRef<[u8]>, range: Range<u64>) -> Result<()> {
        block_on(self.0.punch(key, range))
    }

    /// See [`crate::Keyspace::seek`].
    pub fn seek(&self, key: impl AsRef<[u8]>, what: Seek, from: u64) -> Result<Option<u64>> {
        block_on(self.0.seek(key, what, from))
    }

    /// See [`crate::Keyspace::data_size`].
    pub fn data_size(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        block_on(self.0.data_size(key))
    }

    /// See [`crate::Keyspace::stat`].
    pub fn stat(&self, key: impl AsRef<[u8]>) -> Result<Stat> {
        block_on(self.0.stat(key))
    }

    /// See [`crate::Keyspace::stats`].
    pub fn stats<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Stat>>> {
        block_on(self.0.stats(keys))
    }

    /// See [`crate::Keyspace::exists`].
    pub fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        block_on(self.0.exists(key))
    }

    /// See [`crate::Keyspace::attribute`].
    pub fn attribute(&self, key: impl AsRef<[u8]>, name: &str) -> Result<Option<Vec<u8>>> {
        block_on(self.0.attribute(key, name))
    }

    /// See [`crate::Keyspace::set_attribute`].
    pub fn set_attribute(&self, key: impl AsRef<[u8]>, name: &str, value: Option<&[u8]>) -> Result<()> {
        block_on(self.0.set_attribute(key, name, value))
    }

    /// See [`crate::Keyspace::transform`].
    pub fn transform(&self, key: impl AsRef<[u8]>, offset: u64, transform: Transform) -> Result<Operand> {
        block_on(self.0.transform(key, offset, transform))
    }

    /// See [`crate::Keyspace::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Blob> {
        block_on(self.0.get(key))
    }

    /// See [`crate::Keyspace::get_with_stats`].
    pub fn get_with_stats(
        &self,
        key: impl AsRef<[u8]>,
        others: &[impl AsRef<[u8]>],
    ) -> Result<(Blob, Vec<Option<Stat>>)> {
        block_on(self.0.get_with_stats(key, others))
    }

    /// See [`crate::Keyspace::scan`].
    pub fn scan(&self, prefix: impl AsRef<[u8]>, after: Option<&[u8]>, limit: usize) -> Result<Vec<Entry>> {
        block_on(self.0.scan(prefix, after, limit))
    }
}

/// A transaction over any number of blobs; see [`crate::Transaction`].
#[derive(Debug)]
pub struct Transaction(crate::Transaction);

impl From<crate::Transaction> for Transaction {
    fn from(transaction: crate::Transaction) -> Self {
        Transaction(transaction.blocking())
    }
}

impl From<Transaction> for crate::Transaction {
    fn from(transaction: Transaction) -> Self {
        transaction.0.asynchronous()
    }
}

impl Transaction {
    /// See [`Store::into_ready`].
    pub fn into_ready(self) -> crate::Transaction {
        self.0
    }

    /// See [`crate::Transaction::pending`].
    pub fn pending(&self) -> Pending {
        Pending(self.0.pending())
    }

    /// See [`crate::Transaction::check`].
    pub fn check(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, check: Check) -> Result<()> {
        self.0.check(&keyspace.0, key, check)
    }

    /// See [`crate::Transaction::create`].
    pub fn create(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        block_on(self.0.create(&keyspace.0, key))
    }

    /// See [`crate::Transaction::delete`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        block_on(self.0.delete(&keyspace.0, key))
    }

    /// See [`crate::Transaction::read`].
    pub fn read(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        block_on(self.0.read(&keyspace.0, key, range))
    }

    /// See [`crate::Transaction::read_into`].
    pub fn read_into(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        block_on(self.0.read_into(&keyspace.0, key, offset, buffer))
    }

    /// See [`crate::Transaction::write`].
    pub fn write(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        bytes: impl AsRef<[u8]>,
    ) -> Result<()> {
        block_on(self.0.write(&keyspace.0, key, offset, bytes))
    }

    /// See [`crate::Transaction::copy`].
    pub fn copy(
        &mut self,
        from: (&Keyspace, impl AsRef<[u8]>),
        range: impl RangeBounds<u64>,
        to: (&Keyspace, impl AsRef<[u8]>),
        offset: u64,
    ) -> Result<u64> {
        block_on(self.0.copy((&from.0.0, from.1), range, (&to.0.0, to.1), offset))
    }

    /// See [`crate::Transaction::put`].
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        block_on(self.0.put(&keyspace.0, key, bytes))
    }

    /// See [`crate::Transaction::append`].
    pub fn append(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<Slot> {
        block_on(self.0.append(&keyspace.0, key, bytes))
    }

    /// See [`crate::Transaction::truncate`].
    pub fn truncate(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        block_on(self.0.truncate(&keyspace.0, key, size))
    }

    /// See [`crate::Transaction::punch`].
    pub fn punch(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, range: Range<u64>) -> Result<()> {
        block_on(self.0.punch(&keyspace.0, key, range))
    }

    /// See [`crate::Transaction::stat`].
    pub fn stat(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        block_on(self.0.stat(&keyspace.0, key))
    }

    /// See [`crate::Transaction::exists`].
    pub fn exists(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        block_on(self.0.exists(&keyspace.0, key))
    }

    /// See [`crate::Transaction::attribute`].
    pub fn attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        block_on(self.0.attribute(&keyspace.0, key, name))
    }

    /// See [`crate::Transaction::set_attribute`].
    pub fn set_attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<()> {
        block_on(self.0.set_attribute(&keyspace.0, key, name, value))
    }

    /// See [`crate::Transaction::transform`].
    pub fn transform(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        transform: Transform,
    ) -> Result<Slot> {
        block_on(self.0.transform(&keyspace.0, key, offset, transform))
    }

    /// See [`crate::Transaction::rollback`].
    pub fn rollback(self) {}

    /// See [`crate::Transaction::commit`].
    pub fn commit(self) -> Result<Outcome> {
        block_on(self.0.commit())
    }
}

/// Finds out how a transaction ended; see [`crate::Pending`].
#[derive(Debug)]
pub struct Pending(crate::Pending);

impl Pending {
    /// See [`crate::Pending::within`].
    pub fn within(self, deadline: Duration) -> Pending {
        Pending(self.0.within(deadline))
    }

    /// See [`crate::Pending::outcome`].
    pub fn outcome(&self) -> Result<Outcome> {
        block_on(self.0.outcome())
    }
}

/// All blobs of some keyspaces as they were at one point; see [`crate::Snapshot`].
#[derive(Clone, Debug)]
pub struct Snapshot(crate::Snapshot);

impl From<crate::Snapshot> for Snapshot {
    fn from(snapshot: crate::Snapshot) -> Self {
        Snapshot(snapshot.blocking())
    }
}

impl From<Snapshot> for crate::Snapshot {
    fn from(snapshot: Snapshot) -> Self {
        snapshot.0.asynchronous()
    }
}

impl Snapshot {
    /// See [`Store::into_ready`].
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
        block_on(self.0.read(&keyspace.0, key, range))
    }

    /// See [`crate::Snapshot::read_into`].
    pub fn read_into(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        block_on(self.0.read_into(&keyspace.0, key, offset, buffer))
    }

    /// See [`crate::Snapshot::stat`].
    pub fn stat(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        block_on(self.0.stat(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::exists`].
    pub fn exists(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        block_on(self.0.exists(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::attribute`].
    pub fn attribute(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        block_on(self.0.attribute(&keyspace.0, key, name))
    }

    /// See [`crate::Snapshot::get`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Blob> {
        block_on(self.0.get(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::written`].
    pub fn written(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Written> {
        block_on(self.0.written(&keyspace.0, key))
    }

    /// See [`crate::Snapshot::scan`].
    pub fn scan(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        block_on(self.0.scan(&keyspace.0, prefix, after, limit))
    }
}
