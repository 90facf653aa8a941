//! Transactions in a cluster. What they read, do, and check is at the driver; here is what their caller has to know of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Range, RangeBounds},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tyr_embed::{Check, Conflict, NumberType, Operand, Outcome, Receipt, Result, Slot, Stat};
use tyr_proto::{BlobName, Operation, Refusal, ResultValue};
use tyr_types::{ATTRIBUTE_NAME_MAX, Attributes, Error, Key, Number, Transform, range_end};

use super::{
    Core, Keyspace,
    draft::{Draft, Presence, attributes_of, stat_of},
    reading::{Span, read_blocks},
};
use crate::{
    driver::call::{Answered, Call, Ended, Found, Handle},
    words,
};

/// A transaction at the driver, which ends with this unless it is being committed.
#[derive(Debug)]
pub struct Open {
    /// The store.
    pub core: Arc<Core>,
    /// Its name.
    pub handle: Handle,
    /// Whether the driver may know of it and has to be told that it is over.
    lingers: bool,
}

impl Open {
    /// One that the driver has not heard of.
    pub fn new(core: Arc<Core>) -> Self {
        let handle = core.handle();
        Open { core, handle, lingers: true }
    }

    /// A blob as it was before the transaction; only whether it exists counts as seen.
    pub fn probe(&self, blob: &BlobName) -> Answered<Option<Found>> {
        let (of, blob, until) = (self.handle, blob.clone(), self.core.until());
        self.core.ask(|reply| Call::Probe { of, blob, until, reply })
    }

    /// Bytes of a range.
    pub fn read(&self, blob: &BlobName, range: Range<u64>) -> Answered<Option<Vec<u8>>> {
        let (of, blob, until) = (self.handle, blob.clone(), self.core.until());
        self.core.ask(|reply| Call::Read { of, blob, range, until, reply })
    }

    /// Tells the driver of changes.
    pub fn change(&self, blob: &BlobName, operations: Vec<Operation>) {
        self.core.tell(Call::Change { of: self.handle, blob: blob.clone(), operations });
    }

    /// Commits it, or what it has read alone. It goes on whether the answer is waited for or not.
    pub fn commit(&mut self, only_reads: bool) -> Answered<Ended> {
        self.lingers = false;
        let (of, until) = (self.handle, self.core.until());
        self.core.ask(|reply| Call::Commit { of, only_reads, until, reply })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.lingers {
            self.core.tell(Call::RollBack { of: self.handle });
        }
    }
}

/// A transaction.
#[derive(Debug)]
pub struct Transaction {
    open: Open,
    drafts: BTreeMap<BlobName, Draft>,
    slots: Slots,
    held: usize,
    payload: u64,
    /// Whether the same was refused before.
    is_repeated: bool,
}

/// Where the results of a transaction are found.
#[derive(Clone, Debug, Default)]
pub struct Slots(Arc<Mutex<Vec<Awaited>>>);

#[derive(Clone, Debug)]
struct Awaited {
    place: (BlobName, u16),
    /// The type of a transform's number; none for an append.
    number: Option<NumberType>,
}

/// How a transaction ended, for who wants to run it again.
#[derive(Debug)]
pub enum End {
    /// It is committed.
    Committed(Receipt),
    /// It was refused, and touched these.
    Refused(Refusal, Conflict, BTreeSet<BlobName>),
}

impl Transaction {
    /// Begins without a message.
    pub fn new(open: Open) -> Self {
        let (drafts, slots) = (BTreeMap::new(), Slots::default());
        Transaction { open, drafts, slots, held: 0, payload: 0, is_repeated: false }
    }

    /// A further try of what was refused.
    pub fn again(open: Open) -> Self {
        Transaction { is_repeated: true, ..Transaction::new(open) }
    }

    /// What finds out how it ended.
    pub fn pending(&self) -> Pending {
        self.open.core.tell(Call::Keep { of: self.open.handle });
        Pending { core: self.open.core.clone(), handle: self.open.handle, slots: self.slots.clone() }
    }

    /// See [`crate::Transaction::read`].
    pub async fn read(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        let (blob, span) = (self.touch(keyspace, key.as_ref())?, Span::new(range)?);
        let draft = self.draft(&blob);
        if draft.has_copies {
            return Err(Error::invalid(
                "this transaction copies to the blob, and cannot read it; read before, or after the commit",
            ));
        }
        draft.was_read = true;
        let missing = words::no_blob(draft.keyspace.name.as_str(), &blob.key);
        let (mut range, mut end) = (span.start..span.end(), span.end());
        if !span.is_short() || draft.has_appends() {
            let before = self.open.probe(&blob).await?;
            let draft = self.draft(&blob);
            if !exists(draft, before.as_ref()) {
                return Err(missing);
            }
            let size = draft.size_over(before.as_ref().map_or(0, |found| found.looked.size));
            if size.floating.is_some_and(|floating| end > floating.max(span.start)) && !draft.size_is_seen {
                return Err(Error::invalid(
                    "the range may contain bytes that this transaction appends, whose offset is not known before the \
                     commit; read less, or stat the blob first",
                ));
            }
            draft.size_is_seen |= size.is_from_base && end > size.size;
            range = span.within(size.size)?;
            // The last block is asked for to the end of the range, so that the end of the blob counts as seen.
            end = end.max(range.end);
        }
        let bytes = read_blocks(range, end, |range| self.open.read(&blob, range)).await?;
        bytes.ok_or(missing)
    }

    /// See [`crate::Transaction::stat`].
    pub async fn stat(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Stat> {
        let blob = self.touch(keyspace, key.as_ref())?;
        self.draft(&blob).was_read = true;
        let (of, until, named) = (self.open.handle, self.open.core.until(), blob.clone());
        let found = self.open.core.ask(|reply| Call::Stat { of, blob: named, until, reply }).await?;
        let draft = self.draft(&blob);
        draft.size_is_seen = true;
        let found = found.ok_or_else(|| words::no_blob(draft.keyspace.name.as_str(), &blob.key))?;
        Ok(stat_of(&found))
    }

    /// See [`crate::Transaction::exists`].
    pub async fn exists(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let blob = self.touch(keyspace, key.as_ref())?;
        self.presence(&blob).await
    }

    /// See [`crate::Transaction::attribute`].
    pub async fn attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        let blob = self.touch(keyspace, key.as_ref())?;
        self.require(&blob).await?;
        if let Some(own) = self.draft(&blob).attribute(name) {
            return Ok(own);
        }
        self.draft(&blob).was_read = true;
        let Some(found) = self.open.probe(&blob).await? else { return Ok(None) };
        let value = found.looked.attributes.get(name).cloned();
        let check = tyr_proto::Check::Attribute { name: name.to_owned(), value: value.clone() };
        // That it is so then is what counts as seen.
        self.open.core.tell(Call::Check { of: self.open.handle, blob, check });
        Ok(value.map(|value| value.to_vec()))
    }

    /// See [`crate::Transaction::check`].
    pub fn check(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, check: Check) -> Result<()> {
        let (check, bytes) = checked(check)?;
        self.afford(bytes)?;
        let blob = self.touch(keyspace, key.as_ref())?;
        self.held += bytes;
        let draft = self.draft(&blob);
        draft.was_read = true;
        draft.has_to_exist |= !matches!(check, tyr_proto::Check::Missing);
        self.open.core.tell(Call::Check { of: self.open.handle, blob, check });
        Ok(())
    }

    /// See [`crate::Transaction::create`].
    pub async fn create(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let blob = self.touch(keyspace, key.as_ref())?;
        if self.presence(&blob).await? {
            let (name, key) = (keyspace.name(), &blob.key);
            return Err(Error::exists(format!(
                "keyspace '{name}' has a blob '{key}' already; delete it first, or write to it"
            )));
        }
        self.change(&blob, vec![Operation::Create])
    }

    /// See [`crate::Transaction::delete`].
    pub async fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let blob = self.touch(keyspace, key.as_ref())?;
        self.rely(&blob).await?;
        self.change(&blob, vec![Operation::Delete])
    }

    /// See [`crate::Transaction::write`].
    pub fn write(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let blob = self.touch(keyspace, key.as_ref())?;
        range_end(offset, bytes.len() as u64)?;
        self.change(&blob, writes(offset, bytes))
    }

    /// See [`crate::Transaction::copy`].
    pub async fn copy(
        &mut self,
        (keyspace, key): (&Keyspace, &[u8]),
        range: impl RangeBounds<u64>,
        (to, to_key): (&Keyspace, &[u8]),
        offset: u64,
    ) -> Result<u64> {
        let (source, target) = (self.touch(keyspace, key)?, self.touch(to, to_key)?);
        let span = Span::new(range)?;
        let draft = self.draft(&source);
        if draft.operations() > 0 {
            // What this transaction has written is nowhere but here.
            let bytes = self.read(keyspace, key, span.start..span.end()).await?;
            if !bytes.is_empty() {
                self.write(to, to_key, offset, &bytes)?;
            }
            return Ok(bytes.len() as u64);
        }
        draft.was_read = true;
        let missing = words::no_blob(draft.keyspace.name.as_str(), &source.key);
        let found = self.open.probe(&source).await?.ok_or(missing)?;
        let size = found.looked.size;
        let range = span.start..span.end().min(size).max(span.start);
        self.draft(&source).size_is_seen |= span.end() > size;
        let length = range.end - range.start;
        range_end(offset, length)?;
        let payload = self.payload.saturating_add(length);
        if payload > PAYLOAD_MAX {
            return Err(too_large());
        }
        let placed = self.open.core.catalog.placed();
        let layout = placed.get(&source.keyspace).ok_or_else(|| words::no_keyspace(keyspace.name()))?;
        // The driver makes as many operations of it.
        let pieces = layout.staged_pieces(range.start, length);
        let draft = self.draft(&target);
        if draft.operations() + pieces.len() > usize::from(u16::MAX) {
            return Err(too_large());
        }
        for piece in &pieces {
            let (offset, length) = (offset + piece.part.start as u64, piece.part.len() as u64);
            draft.note(&Operation::WriteStaged { offset, length });
        }
        self.payload = payload;
        let (of, range) = (self.open.handle, span.start..span.end());
        self.open.core.tell(Call::Copy { of, from: source, range, to: target, offset });
        Ok(length)
    }

    /// See [`crate::Transaction::put`].
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, bytes: &[u8]) -> Result<()> {
        let blob = self.touch(keyspace, key.as_ref())?;
        self.change(&blob, puts(bytes))
    }

    /// See [`crate::Transaction::append`].
    pub fn append(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, bytes: &[u8]) -> Result<Slot> {
        let blob = self.touch(keyspace, key.as_ref())?;
        let place = self.place(&blob)?;
        self.change(&blob, appends(bytes))?;
        self.slot(blob, place, None)
    }

    /// See [`crate::Transaction::truncate`].
    pub async fn truncate(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, size: u64) -> Result<()> {
        let blob = self.touch(keyspace, key.as_ref())?;
        range_end(size, 0)?;
        self.rely(&blob).await?;
        self.change(&blob, vec![Operation::Truncate { size }])
    }

    /// See [`crate::Transaction::punch`].
    pub async fn punch(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        range: Range<u64>,
    ) -> Result<()> {
        let blob = self.touch(keyspace, key.as_ref())?;
        let punch = punch(range)?;
        self.rely(&blob).await?;
        self.change(&blob, vec![punch])
    }

    /// See [`crate::Transaction::set_attribute`].
    pub async fn set_attribute(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let blob = self.touch(keyspace, key.as_ref())?;
        Attributes::default().set(name, value)?;
        self.rely(&blob).await?;
        self.change(&blob, vec![set_attribute(name, value)])
    }

    /// See [`crate::Transaction::transform`].
    pub fn transform(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        offset: u64,
        transform: Transform,
    ) -> Result<Slot> {
        let blob = self.touch(keyspace, key.as_ref())?;
        range_end(offset, transform.number_type().size() as u64)?;
        let place = self.place(&blob)?;
        self.change(&blob, vec![Operation::Transform { offset, transform }])?;
        self.slot(blob, place, Some(transform.number_type()))
    }

    /// See [`crate::Transaction::commit`].
    pub async fn commit(self) -> Result<Outcome> {
        Ok(match self.end(false).await? {
            End::Committed(receipt) => Outcome::Committed(receipt),
            End::Refused(_, conflict, _) => Outcome::Conflict(conflict),
        })
    }

    /// Commits it, or what it has read alone.
    pub async fn end(mut self, only_reads: bool) -> Result<End> {
        self.require_keyspaces()?;
        match self.open.commit(only_reads).await? {
            Ended::Committed(values) => Ok(End::Committed(self.slots.receipt(&values)?)),
            Ended::Refused(refusal) => {
                self.require_keyspaces()?;
                let conflict = self.conflict();
                Ok(End::Refused(passing(refusal)?, conflict, self.drafts.into_keys().collect()))
            }
        }
    }

    /// Fails if a keyspace was dropped that it has touched.
    fn require_keyspaces(&self) -> Result<()> {
        let catalog = &self.open.core.catalog;
        let mut keyspaces = self.drafts.values().map(|draft| &draft.keyspace);
        keyspaces.try_for_each(|keyspace| catalog.require(keyspace.id, keyspace.name.as_str()))
    }

    /// The blobs that it has touched.
    pub fn touched(&self) -> BTreeSet<BlobName> {
        self.drafts.keys().cloned().collect()
    }

    /// The cluster does not say which blob it was.
    fn conflict(&self) -> Conflict {
        let read = self.drafts.iter().find(|(_, draft)| draft.was_read);
        match read.or_else(|| self.drafts.iter().next()) {
            Some((blob, draft)) => conflict_at(draft.keyspace.name.as_str(), &blob.key, self.drafts.len()),
            None => conflict_somewhere(),
        }
    }

    /// Finds or makes the place of a blob in this transaction.
    fn touch(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<BlobName> {
        if !self.open.core.is(&keyspace.core) {
            return Err(Error::invalid("the keyspace is of another store than the transaction"));
        }
        keyspace.require()?;
        let blob = keyspace.blob(key)?;
        if !self.drafts.contains_key(&blob) {
            if self.drafts.len() >= BLOBS_MAX {
                return Err(too_large());
            }
            self.afford(key.len())?;
            self.held += key.len();
            self.drafts.insert(blob.clone(), Draft::new(keyspace.entry.clone()));
        }
        Ok(blob)
    }

    fn draft(&mut self, blob: &BlobName) -> &mut Draft {
        self.drafts.get_mut(blob).expect("every operation touches its blob first")
    }

    async fn presence(&mut self, blob: &BlobName) -> Result<bool> {
        match self.draft(blob).presence() {
            Presence::Present => Ok(true),
            Presence::Absent => Ok(false),
            Presence::AsBefore => {
                self.draft(blob).was_read = true;
                Ok(self.open.probe(blob).await?.is_some())
            }
        }
    }

    /// As [`Transaction::require`], for a change; who has checked that the blob exists is refused at the commit instead. In a further try that asks, so that
    /// one comes to an end.
    async fn rely(&mut self, blob: &BlobName) -> Result<()> {
        let draft = self.draft(blob);
        let is_checked = draft.has_to_exist && draft.presence() == Presence::AsBefore;
        if is_checked && !self.is_repeated { Ok(()) } else { self.require(blob).await }
    }

    /// Fails with `NotFound` unless the blob exists.
    async fn require(&mut self, blob: &BlobName) -> Result<()> {
        if self.presence(blob).await? {
            return Ok(());
        }
        Err(words::no_blob(self.draft(blob).keyspace.name.as_str(), &blob.key))
    }

    /// The place of the next operation among those of its blob.
    fn place(&mut self, blob: &BlobName) -> Result<u16> {
        u16::try_from(self.draft(blob).operations()).map_err(|_| too_large())
    }

    fn change(&mut self, blob: &BlobName, operations: Vec<Operation>) -> Result<()> {
        let inline = operations.iter().map(inline_size).sum();
        self.afford(inline)?;
        let payload = self.payload.saturating_add(operations.iter().map(payload_size).sum());
        let draft = self.draft(blob);
        if draft.operations() + operations.len() > usize::from(u16::MAX) || payload > PAYLOAD_MAX {
            return Err(too_large());
        }
        operations.iter().for_each(|operation| draft.note(operation));
        self.held += inline;
        self.payload = payload;
        self.open.change(blob, operations);
        Ok(())
    }

    fn slot(&mut self, blob: BlobName, place: u16, number: Option<NumberType>) -> Result<Slot> {
        let mut slots = self.slots.0.lock();
        let slot = u32::try_from(slots.len()).map_err(|_| too_large())?;
        slots.push(Awaited { place: (blob, place), number });
        Ok(Slot::of(slot))
    }

    /// Fails if that many more bytes in the plan are too many.
    fn afford(&self, bytes: usize) -> Result<()> {
        match self.held.saturating_add(bytes) <= HELD_MAX {
            true => Ok(()),
            false => Err(too_large()),
        }
    }
}

impl Slots {
    /// What a committed transaction resulted in.
    fn receipt(&self, values: &BTreeMap<(BlobName, u16), ResultValue>) -> Result<Receipt> {
        let (mut offsets, mut olds) = (Vec::new(), Vec::new());
        for (slot, awaited) in (0..).zip(self.0.lock().iter()) {
            match (values.get(&awaited.place), awaited.number) {
                (Some(ResultValue::Offset(offset)), None) => offsets.push((Slot::of(slot), *offset)),
                (Some(ResultValue::Old(old)), Some(number)) => {
                    olds.push((Slot::of(slot), Operand::from_le_bytes(number, old)?));
                }
                _ => {}
            }
        }
        Ok(Receipt::of(Number::ZERO, offsets, olds))
    }
}

/// Finds out how a transaction ended whose commit was not answered in time.
#[derive(Debug)]
pub struct Pending {
    core: Arc<Core>,
    handle: Handle,
    slots: Slots,
}

impl Pending {
    /// See [`crate::Pending::within`].
    pub fn within(mut self, patience: Duration) -> Pending {
        self.core = self.core.within(patience);
        self
    }

    /// See [`crate::Pending::outcome`].
    pub async fn outcome(&self) -> Result<Outcome> {
        let (of, until) = (self.handle, self.core.until());
        match self.core.ask(|reply| Call::Await { of, until, reply }).await? {
            Ended::Committed(values) => Ok(Outcome::Committed(self.slots.receipt(&values)?)),
            Ended::Refused(refusal) => {
                passing(refusal)?;
                Ok(Outcome::Conflict(conflict_somewhere()))
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.core.tell(Call::Drop { of: self.handle });
    }
}

fn exists(draft: &Draft, before: Option<&Found>) -> bool {
    match draft.presence() {
        Presence::Present => true,
        Presence::Absent => false,
        Presence::AsBefore => before.is_some(),
    }
}

fn conflict_at(keyspace: &str, key: &Key, blobs: usize) -> Conflict {
    let what = match blobs {
        1 => "something that was read or checked of it has changed",
        _ => "something that was read or checked of this or another blob of the transaction has changed",
    };
    Conflict { keyspace: keyspace.to_owned(), key: key.clone(), what: what.to_owned() }
}

/// A conflict of a transaction of which it is not known any more what it has touched.
fn conflict_somewhere() -> Conflict {
    let key = Key::new([0]).expect("one byte is a key");
    let what = "something that was read or checked of the transaction has changed".to_owned();
    Conflict { keyspace: String::new(), key, what }
}

/// A refusal after which the same may be run again; of others, the error.
pub fn passing(refusal: Refusal) -> Result<Refusal> {
    match refusal {
        Refusal::Conflict | Refusal::Fenced | Refusal::Unstaged | Refusal::Busy => Ok(refusal),
        // Whether it exists was seen, and has changed.
        Refusal::Exists | Refusal::NotFound => Ok(Refusal::Conflict),
        Refusal::Invalid
        | Refusal::Full
        | Refusal::Quota
        | Refusal::TooFewReplicas
        | Refusal::Denied
        | Refusal::TooLarge
        | Refusal::TooManyAttributes => Err(words::refused(refusal)),
    }
}

#[cold]
fn too_large() -> Error {
    Error::invalid(
        "the transaction is too large: it may touch 10000 blobs, do 65535 things to each, and write 1 GiB, 8 MiB of that in small \
         pieces; commit in parts, or write in larger pieces",
    )
}

fn checked(check: Check) -> Result<(tyr_proto::Check, usize)> {
    Ok(match check {
        Check::Exists => (tyr_proto::Check::Exists, CHECK_SIZE),
        Check::Missing => (tyr_proto::Check::Missing, CHECK_SIZE),
        Check::Version(number) => (tyr_proto::Check::Version(number), CHECK_SIZE),
        Check::Size(size) => (tyr_proto::Check::Size(size), CHECK_SIZE),
        Check::Bytes { offset, bytes } => {
            range_end(offset, bytes.len() as u64)?;
            let held = CHECK_SIZE + bytes.len();
            (tyr_proto::Check::Bytes { offset, bytes }, held)
        }
        Check::Attribute { name, value } => {
            if name.is_empty() || name.len() > ATTRIBUTE_NAME_MAX {
                let length = name.len();
                return Err(Error::invalid(format!(
                    "the attribute name has {length} bytes; a name has 1 to {ATTRIBUTE_NAME_MAX} bytes"
                )));
            }
            let held = CHECK_SIZE + name.len() + value.as_ref().map_or(0, Vec::len);
            (tyr_proto::Check::Attribute { name, value: value.map(Into::into) }, held)
        }
    })
}

/// What a check counts beside its bytes.
const CHECK_SIZE: usize = 32;

/// A write in pieces that fit frames. Without bytes it only makes the blob exist.
pub fn writes(offset: u64, bytes: &[u8]) -> Vec<Operation> {
    if bytes.is_empty() {
        return vec![Operation::Write { offset, bytes: bytes.into() }];
    }
    let offsets = (offset..).step_by(PIECE_SIZE);
    bytes
        .chunks(PIECE_SIZE)
        .zip(offsets)
        .map(|(piece, offset)| Operation::Write { offset, bytes: piece.into() })
        .collect()
}

/// An append in pieces that fit frames. They follow one another, as nothing comes between the operations of a transaction.
pub fn appends(bytes: &[u8]) -> Vec<Operation> {
    if bytes.is_empty() {
        return vec![Operation::Append { bytes: bytes.into() }];
    }
    bytes.chunks(PIECE_SIZE).map(|piece| Operation::Append { bytes: piece.into() }).collect()
}

/// Makes the bytes the whole content.
pub fn puts(bytes: &[u8]) -> Vec<Operation> {
    let mut operations = writes(0, bytes);
    operations.push(Operation::Truncate { size: bytes.len() as u64 });
    operations
}

/// Leaves a hole.
pub fn punch(range: Range<u64>) -> Result<Operation> {
    let Range { start, end } = range;
    let length = end
        .checked_sub(start)
        .ok_or_else(|| Error::invalid(format!("the range {start}..{end} ends before it starts")))?;
    range_end(start, length)?;
    Ok(Operation::Punch { offset: start, length })
}

/// Sets or removes an attribute.
pub fn set_attribute(name: &str, value: Option<&[u8]>) -> Operation {
    Operation::SetAttribute { name: name.to_owned(), value: value.map(Into::into) }
}

/// Whether an attribute can be set beside those that there are.
pub fn fits(found: &Found, name: &str, value: Option<&[u8]>) -> Result<()> {
    attributes_of(&found.looked.attributes).set(name, value)
}

fn payload_size(operation: &Operation) -> u64 {
    match operation {
        Operation::Write { bytes, .. } | Operation::Append { bytes } => bytes.len() as u64,
        _ => 0,
    }
}

/// What an operation adds to a plan, in bytes. What is larger travels before it.
fn inline_size(operation: &Operation) -> usize {
    const COST: usize = 32;
    COST + match operation {
        Operation::Write { bytes, .. } | Operation::Append { bytes } if bytes.len() <= INLINE_MAX => {
            bytes.len()
        }
        Operation::SetAttribute { name, value } => name.len() + value.as_ref().map_or(0, |value| value.len()),
        _ => 0,
    }
}

/// Payload is cut into operations of at most these many bytes: each of them travels in a frame of its own.
const PIECE_SIZE: usize = 1 << 20;
/// Payload up to these many bytes may travel in the plan, whatever else there is.
const INLINE_MAX: usize = 4 << 10;
/// The most payload of a transaction.
pub const PAYLOAD_MAX: u64 = 1 << 30;
/// The most bytes of a plan, far below the largest frame.
const HELD_MAX: usize = 8 << 20;
/// The most blobs of a transaction.
const BLOBS_MAX: usize = 10_000;
