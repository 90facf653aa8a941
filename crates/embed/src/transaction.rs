//! Transactions: reads that repeat, writes that wait, and one commit.
//!
//! A transaction is local until it commits. The first read of a blob pins it; writes are kept as pending changes
//! ([`overlay`]) that later reads see; what was seen is noted ([`observed`]) and validated by the commit ([`commit`]), which
//! then works out appends and transforms from the state it meets. Invariant: nothing of a transaction is visible to anyone
//! before its commit, and then all of it is.

mod check;
mod commit;
mod draft;
mod layer;
mod observed;
mod overlay;
mod read;
mod touched;

use std::collections::BTreeMap;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use tyr_types::{Attributes, Error, Key, KeyspaceId, Result, Transform, range_end};

pub use check::Check;
pub use commit::{Conflict, Outcome, Receipt};
pub(crate) use commit::{Ended, Planned, plan_one};
pub(crate) use draft::Outcome as SlotOutcome;
pub(crate) use layer::{Bytes, Layer};
pub use overlay::Slot;
pub(crate) use overlay::Step;

use crate::keyspace::Keyspace;
use crate::read::{Span, Stat, check_range, no_blob};
use crate::reservation::{Place, Turn};
use crate::store::Core;
use crate::wait::Mode;
use overlay::Overlay;
use touched::Touched;

/// A transaction over any number of blobs of a store. Dropping it rolls it back.
///
/// Reads of one blob all show the state that the first of them pinned, with the transaction's own changes laid over. Different
/// blobs may be pinned at different moments; the commit then refuses the transaction if they do not fit together. Keyspaces
/// with `multi_version: false` pin nothing: each read shows the latest state, and the commit refuses the transaction if
/// that changed in between.
///
/// What a transaction has read is kept readable, and so takes space, until the transaction ends; it should not linger.
///
/// Writes, appends, and transforms are never the reason for a conflict; only what was read or checked is. Creating,
/// deleting, truncating, and setting an attribute read whether the blob exists.
///
/// A future of this type that is dropped before it is ready leaves the transaction as it was, except for
/// [`Transaction::commit`]: then the commit happens or not, as a whole.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use tyr_embed::{KeyspaceSettings, Outcome, blocking::Store};
///
/// let store = Store::open(directory.path())?;
/// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
/// files.write("old", 0, b"content")?;
///
/// let mut transaction = store.begin();
/// let content = transaction.read(&files, "old", ..)?;
/// transaction.write(&files, "new", 0, content)?;
/// transaction.delete(&files, "old")?;
/// match transaction.commit()? {
///     Outcome::Committed(receipt) => println!("renamed by transaction {}", receipt.number()),
///     Outcome::Conflict(conflict) => println!("run it again: {conflict}"),
/// }
/// assert_eq!(files.read("new", ..)?, b"content");
/// # Ok::<(), tyr_embed::Error>(())
/// ```
pub struct Transaction {
    core: Arc<Core>,
    pub(crate) mode: Mode,
    blobs: BTreeMap<Place, Touched>,
    slots: u32,
    held: usize,
    turn: Option<Arc<Turn>>,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>, mode: Mode, turn: Option<Arc<Turn>>) -> Self {
        Transaction { core, mode, blobs: BTreeMap::new(), slots: 0, held: 0, turn }
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
        let (place, span) = (self.touch(keyspace, key.as_ref())?, Span::new(range)?);
        self.read_span(&place, span).await
    }

    /// Reads bytes at an offset into the buffer and returns how many there were. Otherwise like [`Transaction::read`].
    pub async fn read_into(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let place = self.touch(keyspace, key.as_ref())?;
        range_end(offset, buffer.len() as u64)?;
        self.read_buffer(&place, offset, buffer).await
    }

    /// The state of a blob. Size and attributes count as read. For a blob that this transaction creates, `blob` and `version` are
    /// 0 until the commit; of others they are as pinned. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn stat(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        let place = self.touch(keyspace, key.as_ref())?;
        let drafted = self.draft_head(&place).await?;
        let touched = self.touched(&place);
        if let Some(observed) = &mut touched.observed {
            if drafted.size_from_base {
                observed.see_size();
            }
            if drafted.attributes_from_base {
                observed.see_attributes();
            }
        }
        if !drafted.exists {
            return Err(no_blob(&touched.keyspace.name, &place.1));
        }
        Ok(drafted.stat)
    }

    /// Whether a blob exists.
    pub async fn exists(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let place = self.touch(keyspace, key.as_ref())?;
        self.presence(&place).await
    }

    /// The value of an attribute. Fails with [`crate::ErrorKind::NotFound`] if the blob does not exist.
    pub async fn attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        let place = self.touch(keyspace, key.as_ref())?;
        let drafted = self.draft_head(&place).await?;
        let touched = self.touched(&place);
        if drafted.attributes_from_base {
            touched.see(|observed| observed.see_attribute(name));
        }
        if !drafted.exists {
            return Err(no_blob(&touched.keyspace.name, &place.1));
        }
        Ok(drafted.stat.attributes.value(name).map(Into::into))
    }

    /// Makes the commit a conflict unless the condition holds then. It is about the committed state of the blob; changes
    /// of this transaction do not count, whether they come before or after.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{Check, KeyspaceSettings, Outcome, blocking::Store};
    ///
    /// let store = Store::open(directory.path())?;
    /// let files = store.create_keyspace("files", KeyspaceSettings::default())?;
    ///
    /// let mut transaction = store.begin();
    /// transaction.check(&files, "marker", Check::Exists)?;
    /// transaction.put(&files, "result", b"42")?;
    /// assert!(matches!(transaction.commit()?, Outcome::Conflict(_)));
    /// assert!(!files.exists("result")?);
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub fn check(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, check: Check) -> Result<()> {
        check.validate()?;
        self.afford(check.held())?;
        let place = self.touch(keyspace, key.as_ref())?;
        self.held += check.held();
        self.touched(&place).checks.push(check);
        Ok(())
    }

    /// Creates an empty blob. Fails with [`crate::ErrorKind::Exists`] if it exists.
    pub async fn create(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let place = self.touch(keyspace, key.as_ref())?;
        self.afford(0)?;
        if self.presence(&place).await? {
            let name = &keyspace.entry.name;
            let message = format!(
                "keyspace '{name}' has a blob '{}' already; delete it first, or write to it",
                place.1
            );
            return Err(Error::exists(message));
        }
        self.change(&place, Overlay::create);
        Ok(())
    }

    /// Deletes a blob. Fails with [`crate::ErrorKind::NotFound`] if it does not exist.
    pub async fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let place = self.touch(keyspace, key.as_ref())?;
        self.require(&place).await?;
        self.change(&place, Overlay::delete);
        Ok(())
    }

    /// Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
    pub async fn write(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        bytes: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (place, bytes) = (self.touch(keyspace, key.as_ref())?, bytes.as_ref());
        range_end(offset, bytes.len() as u64)?;
        let pieces = self.pieces(&place, bytes).await?;
        self.change(&place, |overlay| overlay.write_all(offset, pieces));
        Ok(())
    }

    /// Makes the bytes the whole content of the blob; keeps its attributes, and creates it if it does not exist.
    pub async fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (place, bytes) = (self.touch(keyspace, key.as_ref())?, bytes.as_ref());
        range_end(0, bytes.len() as u64)?;
        let pieces = self.pieces(&place, bytes).await?;
        self.change(&place, |overlay| overlay.put(pieces));
        Ok(())
    }

    /// Appends bytes, at an offset that the receipt tells for the slot; creates the blob if it does not exist.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{KeyspaceSettings, Outcome, blocking::Store};
    ///
    /// let store = Store::open(directory.path())?;
    /// let logs = store.create_keyspace("logs", KeyspaceSettings::default())?;
    /// logs.append("log", b"first")?;
    ///
    /// let mut transaction = store.begin();
    /// let slot = transaction.append(&logs, "log", b"second")?;
    /// let Outcome::Committed(receipt) = transaction.commit()? else { panic!("appends do not conflict") };
    /// assert_eq!(receipt.offset(slot), Some(5));
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn append(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<Slot> {
        let (place, bytes) = (self.touch(keyspace, key.as_ref())?, bytes.as_ref());
        range_end(0, bytes.len() as u64)?;
        let pieces = self.pieces(&place, bytes).await?;
        let slot = self.slot()?;
        self.change(&place, |overlay| overlay.append(slot, pieces));
        Ok(slot)
    }

    /// Makes the blob this long, cutting it or extending it with zeros. Fails with [`crate::ErrorKind::NotFound`] if it
    /// does not exist.
    pub async fn truncate(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        let place = self.touch(keyspace, key.as_ref())?;
        range_end(size, 0)?;
        self.afford(0)?;
        self.require(&place).await?;
        self.change(&place, |overlay| overlay.truncate(size));
        Ok(())
    }

    /// Leaves a hole in a blob: the bytes of the range read as zeros and take no room. The size stays. Fails with
    /// [`crate::ErrorKind::NotFound`] if the blob does not exist, and at the commit with [`crate::ErrorKind::Invalid`] if it is more than
    /// 64 GiB of what there is.
    pub async fn punch(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: Range<u64>,
    ) -> Result<()> {
        let place = self.touch(keyspace, key.as_ref())?;
        check_range(&range)?;
        self.afford(0)?;
        self.require(&place).await?;
        self.change(&place, |overlay| overlay.punch(range));
        Ok(())
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
        let place = self.touch(keyspace, key.as_ref())?;
        Attributes::default().set(name, value)?;
        self.afford(name.len() + value.map_or(0, <[u8]>::len))?;
        self.require(&place).await?;
        self.change(&place, |overlay| overlay.set_attribute(name, value));
        Ok(())
    }

    /// Transforms the number at an offset when the transaction commits; the receipt tells the old value for the slot. Creates
    /// the blob if it does not exist, and extends it with zeros as needed. Reading the number in this transaction works
    /// out the transform against what is pinned, so that it can conflict from then on.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{KeyspaceSettings, Operand, Outcome, Transform, blocking::Store};
    ///
    /// let store = Store::open(directory.path())?;
    /// let counters = store.create_keyspace("counters", KeyspaceSettings::default())?;
    ///
    /// let mut transaction = store.begin();
    /// let slot = transaction.transform(&counters, "visits", 0, Transform::add(Operand::U64(1)))?;
    /// let Outcome::Committed(receipt) = transaction.commit()? else { panic!("transforms do not conflict") };
    /// assert_eq!(receipt.old(slot), Some(Operand::U64(0)));
    /// # Ok::<(), tyr_embed::Error>(())
    /// ```
    pub async fn transform(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        transform: Transform,
    ) -> Result<Slot> {
        let place = self.touch(keyspace, key.as_ref())?;
        range_end(offset, transform.number_type().size() as u64)?;
        self.afford(0)?;
        let slot = self.slot()?;
        self.change(&place, |overlay| overlay.transform(slot, offset, transform));
        Ok(slot)
    }

    /// Forgets the transaction. The same as dropping it.
    pub fn rollback(self) {}

    /// Commits. Everything that was done happens at one point in time, or nothing.
    ///
    /// An error says that the transaction was not committed, except one of kind [`crate::ErrorKind::Unavailable`], after which
    /// only reopening the store tells.
    pub async fn commit(self) -> Result<Outcome> {
        Ok(match self.end().await? {
            Ended::Committed(receipt) => Outcome::Committed(receipt),
            Ended::Refused(conflict, _) => Outcome::Conflict(conflict),
        })
    }

    /// Finds or makes the place of a blob in this transaction.
    fn touch(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Place> {
        if !Arc::ptr_eq(&self.core, &keyspace.core) {
            return Err(Error::invalid("the keyspace is of another store than the transaction"));
        }
        let place = (keyspace.entry.id, Key::new(key)?);
        if !self.blobs.contains_key(&place) {
            self.afford(TOUCHED_COST + key.len())?;
            self.held += TOUCHED_COST + key.len();
            self.blobs.insert(place.clone(), Touched::new(keyspace.entry.clone()));
        }
        Ok(place)
    }

    fn touched(&mut self, place: &Place) -> &mut Touched {
        self.blobs.get_mut(place).expect("every operation touches its blob first")
    }

    /// Fails with `NotFound` unless the blob exists.
    async fn require(&mut self, place: &Place) -> Result<()> {
        if self.presence(place).await? {
            return Ok(());
        }
        Err(no_blob(&self.touched(place).keyspace.name, &place.1))
    }

    /// Changes what is pending of a blob, and keeps account of the memory.
    fn change(&mut self, place: &Place, change: impl FnOnce(&mut Overlay)) {
        let overlay = &mut self.touched(place).overlay;
        let before = overlay.held();
        change(overlay);
        let after = overlay.held();
        self.held = (self.held + after).saturating_sub(before);
    }

    fn slot(&mut self) -> Result<Slot> {
        let slot = Slot(self.slots);
        self.slots = self.slots.checked_add(1).ok_or_else(|| self.too_large())?;
        Ok(slot)
    }

    /// Fails if that many more bytes of memory are too many.
    fn afford(&self, bytes: usize) -> Result<()> {
        if self.held.saturating_add(bytes) <= self.core.limits.held_max {
            return Ok(());
        }
        Err(self.too_large())
    }

    #[cold]
    fn too_large(&self) -> Error {
        let limit = self.core.limits.held_max >> 10;
        Error::invalid(format!(
            "the transaction is too large: it may have {limit} KiB of keys, attributes, and small writes, among which some 840 bytes count for \
             each small blob; commit in parts, or write in larger pieces",
        ))
    }

    /// The bytes as pieces: one in memory, or staged ones.
    async fn pieces(&mut self, place: &Place, bytes: &[u8]) -> Result<Layer> {
        if bytes.len() >= self.core.limits.stage_min {
            self.afford(0)?;
            return self.core.stage(self.mode, place.0, bytes).await;
        }
        self.afford(bytes.len())?;
        Ok(Layer::of(0, Bytes::Loose(bytes.into())))
    }
}

impl Core {
    /// Writes large payload to disk, ready to be committed.
    pub(crate) async fn stage(&self, mode: Mode, keyspace: KeyspaceId, bytes: &[u8]) -> Result<Layer> {
        let mut layer = Layer::default();
        for part in bytes.chunks(self.limits.piece_max) {
            let payload = match mode {
                Mode::Blocking => self.waiting.engine.stage(keyspace, part)?,
                Mode::Async => {
                    let part = part.to_vec();
                    self.waiting.block(mode, move |engine| engine.stage(keyspace, &part)).await?
                }
            };
            layer.push(Bytes::Packed(payload));
        }
        Ok(layer)
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("blobs", &self.blobs.len()).finish_non_exhaustive()
    }
}

/// What a touched blob costs besides its key, roughly, in bytes.
const TOUCHED_COST: usize = 512;

#[cfg(test)]
mod tests;
