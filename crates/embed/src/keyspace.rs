//! Keyspaces and the operations on their blobs outside transactions: each is a transaction of one and never conflicts.

use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use tyr_store::{Wait, Writer};
use tyr_types::{
    Attributes, Error, Key, KeyspaceSettings, Number, Operand, Result, Seek, Transform, range_end,
};

use crate::read::{Blob, Entry as ScanEntry, Source, Span, Stat, check_range, no_blob};
use crate::store::{Core, Entry};
use crate::transaction::{Bytes, Layer, Planned, Slot, SlotOutcome, Step, plan_one};
use crate::wait::{Mode, failure};

/// An isolated namespace of blobs with its own settings. Cheap to clone; keeps its store open.
///
/// Every operation here is atomic by itself. Reads return the newest committed state of the blob. A future that is dropped before it
/// is ready leaves its operation done or not done, as a whole.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use tyr_embed::{KeyspaceSettings, blocking::Store};
///
/// let store = Store::open(directory.path())?;
/// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
/// files.write("a", 6, b"world")?;
/// files.write("a", 0, b"hello ")?;
/// assert_eq!(files.read("a", 0..5)?, b"hello");
/// assert_eq!(files.stat("a")?.size, 11);
/// # Ok::<(), tyr_embed::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) core: Arc<Core>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) mode: Mode,
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        self.entry.name.as_str()
    }

    /// What tells it from every other keyspace of any store, as text.
    pub fn identity(&self) -> String {
        format!("directory-{:032x}-{}", self.core.waiting.engine.identity(), self.entry.id.0)
    }

    /// Its settings as they are now.
    pub fn settings(&self) -> KeyspaceSettings {
        self.entry.settings()
    }

    /// Creates an empty blob. Fails with [`crate::ErrorKind::Exists`] if it exists.
    pub async fn create(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(Key::new(key)?, vec![Step::Create]).await.map(drop)
    }

    /// Deletes a blob. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(Key::new(key)?, vec![Step::Delete]).await.map(drop)
    }

    /// Reads bytes of a blob. Shorter than the range if the blob ends in it; holes read as zeros. Fails with
    /// [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn read(&self, key: impl AsRef<[u8]>, range: impl RangeBounds<u64>) -> Result<Vec<u8>> {
        let (key, span) = (Key::new(key)?, Span::new(range)?);
        let read = self.source(&key).read(span).await?;
        read.map(|(_, bytes)| bytes).ok_or_else(|| self.missing(&key))
    }

    /// Reads bytes at an offset into the buffer and returns how many there were. Otherwise like [`Keyspace::read`].
    pub async fn read_into(&self, key: impl AsRef<[u8]>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let key = Key::new(key)?;
        range_end(offset, buffer.len() as u64)?;
        let read = self.source(&key).read_into(offset, buffer).await?;
        read.map(|(_, len)| len).ok_or_else(|| self.missing(&key))
    }

    /// Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
    pub async fn write(&self, key: impl AsRef<[u8]>, offset: u64, bytes: impl AsRef<[u8]>) -> Result<()> {
        let (key, bytes) = (Key::new(key)?, bytes.as_ref());
        range_end(offset, bytes.len() as u64)?;
        let layer = self.pack(bytes).await?.shifted(offset);
        self.change(key, vec![Step::Write(layer)]).await.map(drop)
    }

    /// Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
    pub async fn put(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let (key, bytes) = (Key::new(key)?, bytes.as_ref());
        range_end(0, bytes.len() as u64)?;
        let layer = self.pack(bytes).await?;
        self.change(key, vec![Step::Write(layer), Step::Truncate(bytes.len() as u64)]).await.map(drop)
    }

    /// Appends bytes and returns their offset; creates the blob if it does not exist.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # use tyr_embed::{KeyspaceSettings, blocking::Store};
    /// # let store = Store::open(directory.path())?;
    /// let logs = store.create_keyspace("logs", KeyspaceSettings::default())?;
    /// assert_eq!(logs.append("log", b"first")?, 0);
    /// assert_eq!(logs.append("log", b"second")?, 5);
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<u64> {
        let (key, bytes) = (Key::new(key)?, bytes.as_ref());
        range_end(0, bytes.len() as u64)?;
        let append = Step::Append { slots: vec![(SLOT, 0)], bytes: self.pack(bytes).await? };
        match self.change(key, vec![append]).await? {
            Some(SlotOutcome::Offset(offset)) => Ok(offset),
            _ => Err(Error::internal("an append has an offset")),
        }
    }

    /// Makes the blob this long, cutting it or extending it with zeros. Fails with [`crate::ErrorKind::NotFound`] if it
    /// does not exist.
    pub async fn truncate(&self, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        range_end(size, 0)?;
        self.change(Key::new(key)?, vec![Step::Truncate(size)]).await.map(drop)
    }

    /// Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with
    /// [`crate::ErrorKind::NotFound`] if the blob does not exist, and with [`crate::ErrorKind::Invalid`] if it is more than 64 GiB of what there is.
    pub async fn punch(&self, key: impl AsRef<[u8]>, range: Range<u64>) -> Result<()> {
        check_range(&range)?;
        self.change(Key::new(key)?, vec![Step::Punch(range)]).await.map(drop)
    }

    /// Where at or after an offset the next data or hole of a blob begins. `None` if there is no more data, or if the offset is at the
    /// end of the blob or after it; the end is a hole. What was written as zeros is data. Fails with
    /// [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn seek(&self, key: impl AsRef<[u8]>, what: Seek, from: u64) -> Result<Option<u64>> {
        let key = Key::new(key)?;
        self.source(&key).seek(what, from).await?.ok_or_else(|| self.missing(&key))
    }

    /// The state of a blob. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn stat(&self, key: impl AsRef<[u8]>) -> Result<Stat> {
        let key = Key::new(key)?;
        let head = self.source(&key).head().await?;
        head.map(|head| Stat::from(&*head)).ok_or_else(|| self.missing(&key))
    }

    /// Whether a blob exists.
    pub async fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = Key::new(key)?;
        Ok(self.source(&key).head().await?.is_some())
    }

    /// The value of an attribute, if it is set. Fails with [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn attribute(&self, key: impl AsRef<[u8]>, name: &str) -> Result<Option<Vec<u8>>> {
        let key = Key::new(key)?;
        let head = self.source(&key).head().await?.ok_or_else(|| self.missing(&key))?;
        Ok(head.attributes.value(name).map(Into::into))
    }

    /// Sets an attribute, or unsets it if there is no value. Fails with [`crate::ErrorKind::NotFound`] if the blob does
    /// not exist.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # use tyr_embed::{KeyspaceSettings, blocking::Store};
    /// # let store = Store::open(directory.path())?;
    /// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
    /// files.put("a", b"{}")?;
    /// files.set_attribute("a", "type", Some(b"application/json"))?;
    /// assert_eq!(files.attribute("a", "type")?.unwrap(), b"application/json");
    /// files.set_attribute("a", "type", None)?;
    /// assert_eq!(files.attribute("a", "type")?, None);
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn set_attribute(&self, key: impl AsRef<[u8]>, name: &str, value: Option<&[u8]>) -> Result<()> {
        Attributes::default().set(name, value)?;
        let step = Step::Attribute { name: name.into(), value: value.map(Into::into) };
        self.change(Key::new(key)?, vec![step]).await.map(drop)
    }

    /// Transforms the number at an offset and returns its old value. Never aborted by a conflict. Creates the blob if it does
    /// not exist, and extends it with zeros as needed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # use tyr_embed::{KeyspaceSettings, blocking::Store};
    /// # let store = Store::open(directory.path())?;
    /// use tyr_embed::{Operand, Transform};
    ///
    /// let counters = store.create_keyspace("counters", KeyspaceSettings::default())?;
    /// let add = Transform::add(Operand::U64(2));
    /// assert_eq!(counters.transform("visits", 0, add)?, Operand::U64(0));
    /// assert_eq!(counters.transform("visits", 0, add)?, Operand::U64(2));
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn transform(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        transform: Transform,
    ) -> Result<Operand> {
        range_end(offset, transform.number_type().size() as u64)?;
        let step = Step::Transform { slot: SLOT, offset, transform, outcome: None };
        match self.change(Key::new(key)?, vec![step]).await? {
            Some(SlotOutcome::Old(old)) => Ok(old),
            _ => Err(Error::internal("a transform has an old value")),
        }
    }

    /// State and content of a blob, of one version. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Blob> {
        let key = Key::new(key)?;
        let read = self.source(&key).read(Span::ALL).await?;
        read.map(|(head, bytes)| Blob { stat: Stat::from(&*head), bytes }).ok_or_else(|| self.missing(&key))
    }

    /// Up to `limit` blobs whose keys have the prefix, in the order of their keys, beginning after a key. Fewer than `limit`
    /// mean that there are no more. Not a snapshot: every blob that exists throughout is listed exactly once, others may be.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # use tyr_embed::{KeyspaceSettings, blocking::Store};
    /// # let store = Store::open(directory.path())?;
    /// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
    /// for key in ["a/1", "a/2", "a/3", "b/1"] {
    ///     files.create(key)?;
    /// }
    /// let first = files.scan("a/", None, 2)?;
    /// let rest = files.scan("a/", Some(first[1].key.as_bytes()), 2)?;
    /// assert_eq!((first.len(), rest.len()), (2, 1));
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn scan(
        &self,
        prefix: impl AsRef<[u8]>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<ScanEntry>> {
        let entry = &self.entry;
        self.core.scan(self.mode, entry.id, prefix.as_ref(), after, limit, Number::MAX).await
    }

    /// As [`Keyspace::read_into`], on the calling thread.
    pub(crate) fn read_into_blocking(&self, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let key = Key::new(key)?;
        range_end(offset, buffer.len() as u64)?;
        let engine = &self.core.waiting.engine;
        let read = engine.read(self.entry.id, &key, Number::MAX, offset, buffer, Wait::Allowed);
        read.map_err(failure)?.map(|(_, len)| len).ok_or_else(|| self.missing(&key))
    }

    fn source<'a>(&'a self, key: &'a Key) -> Source<'a> {
        Source { core: &self.core, mode: self.mode, keyspace: self.entry.id, key, at: Number::MAX }
    }

    fn missing(&self, key: &Key) -> Error {
        no_blob(&self.entry.name, key)
    }

    /// The bytes as pieces that begin at 0, ready for the log.
    async fn pack(&self, bytes: &[u8]) -> Result<Layer> {
        if bytes.len() >= self.core.limits.stage_min {
            return self.core.stage(self.mode, self.entry.id, bytes).await;
        }
        if bytes.is_empty() {
            return Ok(Layer::default());
        }
        Ok(Layer::of(0, Bytes::Packed(tyr_store::Payload::new(bytes))))
    }

    /// Commits the steps, and returns the outcome of the one that has a slot.
    async fn change(&self, key: Key, steps: Vec<Step>) -> Result<Option<SlotOutcome>> {
        let Keyspace { core, entry, mode } = self;
        let written = std::iter::once((entry.id, &key));
        core.reservations.admit(&core.waiting, *mode, written).await?;
        let entry = entry.clone();
        let plan = move |writer: &mut Writer<'_>| plan_one(writer, &entry, &key, &steps);
        match core.transact(*mode, plan).await?.0 {
            Planned::Done(outcomes) => Ok(outcomes.first().map(|(_, outcome)| *outcome)),
            Planned::Failed(error) => Err(error),
            Planned::Conflict(_) | Planned::Packed(..) => {
                Err(Error::internal("a lone operation observes nothing and cuts nothing"))
            }
        }
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keyspace").field(&self.name()).finish()
    }
}

/// The only slot of a lone operation.
const SLOT: Slot = Slot(0);
