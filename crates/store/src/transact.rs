//! Transactions: a plan runs under the commit lock on objects in memory, and what it puts is numbered, logged, and applied at once.
//!
//! The lock is held for no I/O: a plan that misses an object is broken off, the object loaded, and the plan run again.

use std::{
    cell::RefCell,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use rustc_hash::FxHashMap;
use tyr_types::{Attributes, BlobId, Durability, Error, ErrorKind, Key, KeyspaceId, Number, Result};
use tyr_wire::{
    entry::{Blob, Entry, Head},
    extent::{CHECKSUM_BLOCK, LEAF_SPAN, Leaf, Place},
    record::{BlobCommit, Commit, Existence, Record, Written},
    shared::SharedBytes,
};

use crate::{
    apply::Held,
    index_key::{EntryKey, LeafKey},
    leaf,
    log::{Draft, Log},
    miss::{Miss, Wait},
    payload::Payload,
    read::{Filled, Plan, crc32c, damaged, with_scratch},
    segment::SegmentHold,
    store::{CommitState, Store, entry_key},
};

/// What a transaction does to one blob.
#[derive(Clone, Debug)]
pub struct BlobChange {
    /// Whether it is created or deleted.
    pub existence: Existence,
    /// First of all: bytes at and beyond are cut off.
    pub cut: Option<u64>,
    /// Ranges of which nothing is left, disjoint from one another and from what is written.
    pub holes: Vec<Range<u64>>,
    /// Its size afterwards: at least the end of every write.
    pub size: u64,
    /// All its attributes, if they change.
    pub attributes: Option<Attributes>,
    /// What is written: offsets and payload, in disjoint ranges.
    pub writes: Vec<(u64, Payload)>,
}

/// Why a plan ends without a transaction.
#[derive(Debug)]
pub enum Stop<E> {
    /// An object is not in memory. Comes from [`Writer`]; pass it on.
    Miss,
    /// The plan does not want to.
    Refuse(E),
}

/// Why [`Store::transact`] has no result.
#[derive(Debug)]
pub enum Refused<E> {
    /// It would have to block; nothing was changed.
    WouldBlock,
    /// The plan refused.
    Refused(E),
    /// The store failed; nothing was changed.
    Failed(Error),
}

/// What a plan sees and does. It sees the newest state, durable or not, without its own puts.
pub struct Writer<'a> {
    store: &'a Store,
    observed: Number,
    changes: Vec<(EntryKey, BlobChange)>,
    /// What the changes will be applied to, lest it be evicted before.
    held: Held,
    wanted: Vec<Want>,
    fetched: &'a Fetched,
}

/// Bytes that were brought into memory for a plan: by entry, offset, and length, with the state of the entry at the time.
type Fetched = FxHashMap<(EntryKey, u64, usize), (Number, Vec<u8>)>;

/// Something that a plan needs in memory.
enum Want {
    Entry(EntryKey),
    Leaf(LeafKey),
    Bytes(EntryKey, u64, usize),
}

/// A commit on its way to the disk.
#[derive(Debug)]
#[must_use = "the commit is acknowledged only when the ticket is ready"]
pub struct Ticket {
    log: Option<Arc<Log>>,
    number: Number,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(durable {})", self.durable())
    }
}

impl Ticket {
    /// The number of the transaction.
    pub fn number(&self) -> Number {
        self.number
    }

    /// Blocks until the commit is as durable as its keyspaces demand. The calling thread may perform the write for others too.
    pub fn wait(self) -> Result<()> {
        self.log.map_or(Ok(()), |log| log.wait(self.number))
    }

    /// Ready when the commit is as durable as its keyspaces demand. Needs a thread in [`Store::drive_commits`].
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.log.as_ref().map_or(Poll::Ready(Ok(())), |log| log.poll(self.number, cx))
    }
}

impl Store {
    /// Runs `plan` with everything it asks for in memory, possibly several times; it must have no effects but through the [`Writer`]. If it returns
    /// `Ok`, what it put becomes one atomic transaction; otherwise nothing changes.
    pub fn transact<T, E>(
        &self,
        wait: Wait,
        mut plan: impl FnMut(&mut Writer<'_>) -> Result<T, Stop<E>>,
    ) -> Result<(T, Ticket), Refused<E>> {
        let mut fetched = Fetched::default();
        let mut runs = 0;
        let mut _holds = None;
        loop {
            self.make_room(wait)?;
            if runs == RUNS_UNHELD {
                // What it loads evicts what it loaded before, for it needs more at once than fits.
                _holds = Some((self.entries.hold(), self.leaves.hold()));
            }
            runs += 1;
            let wanted = {
                let commit = self.commit.lock();
                let mut writer = Writer::new(self, &fetched);
                match plan(&mut writer) {
                    Err(Stop::Refuse(refusal)) => return Err(Refused::Refused(refusal)),
                    Ok(result) if writer.wants_nothing() => {
                        let Writer { observed, changes, held, .. } = writer;
                        let ticket = self.commit_changes(commit, observed, changes, &held)?;
                        return Ok((result, ticket));
                    }
                    Ok(_) | Err(Stop::Miss) => std::mem::take(&mut writer.wanted),
                }
            };
            if wait == Wait::Never {
                return Err(Refused::WouldBlock);
            }
            for want in wanted {
                self.satisfy(want, &mut fetched)?;
            }
        }
    }

    fn satisfy(&self, want: Want, fetched: &mut Fetched) -> Result<(), Miss> {
        match want {
            Want::Entry(key) => {
                self.keyspaces.find(key.0)?;
                self.entry(&key, Wait::Allowed).map(drop)
            }
            Want::Leaf(key) => self.leaf(&key, Wait::Allowed).map(drop),
            Want::Bytes(key, offset, len) => {
                // Only brings the blocks into the cache; kept, in case the cache is too small to hold them until the plan runs again.
                let mut buffer = vec![0; len];
                let before = self.entry(&key, Wait::Allowed)?.applied;
                self.read(key.0, &key.1, Number::MAX, offset, &mut buffer, Wait::Allowed)?;
                if self.entry(&key, Wait::Allowed)?.applied == before {
                    fetched.insert((key, offset, len), (before, buffer));
                }
                Ok(())
            }
        }
    }

    /// Keeps what is pending and what is dirty within bounds.
    fn make_room(&self, wait: Wait) -> Result<(), Miss> {
        self.check_open()?;
        let is_crowded = self.pace.is_to_wait();
        let is_log_full = self.log.pending_bytes() > PENDING_BYTES_MAX;
        let is_memory_full =
            self.entries.dirty_bytes() + self.leaves.dirty_bytes() > self.options.index_cache / 2;
        if (is_crowded || is_log_full || is_memory_full) && wait == Wait::Never {
            return Err(Miss::WouldBlock);
        }
        if is_crowded {
            self.pace.wait();
        }
        if is_log_full {
            self.log.flush()?;
        }
        if is_memory_full {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn commit_changes(
        &self,
        mut commit: parking_lot::MutexGuard<'_, CommitState>,
        observed: Number,
        changes: Vec<(EntryKey, BlobChange)>,
        held: &Held,
    ) -> Result<Ticket> {
        if changes.is_empty() {
            let log = (observed > self.log.durable()).then(|| self.log.clone());
            return Ok(Ticket { log, number: observed });
        }
        let first = commit.next;
        let number = last_number(first, &changes);
        self.check_all_kept(first, number, &changes, held)?;
        commit.next = number;
        let mut durability = Durability::Memory;
        for ((keyspace, _), _) in &changes {
            if self.keyspaces.find(*keyspace)?.state.settings.durability == Durability::Disk {
                durability = Durability::Disk;
            }
        }
        let frees = changes.iter().all(|(_, change)| change.writes.is_empty());
        let (record, holds) = match self.log_changes(&mut commit, first, &changes, held, durability) {
            Err(error) if error.kind() == ErrorKind::Full && frees && self.segments.release_reserve() => {
                self.log_changes(&mut commit, first, &changes, held, durability)?
            }
            result => result.inspect_err(|error| {
                if error.kind() == ErrorKind::Full {
                    self.backlog.request_checkpoint();
                }
            })?,
        };
        for blob in &record.blobs {
            let before = blob.size_before;
            let after = (blob.existence != Existence::Delete).then_some(blob.size);
            self.apply(blob, number, held);
            self.keyspaces.find(blob.keyspace)?.count(before, after);
            // Most of what goes may be a hole: what wakes maintenance says enough.
            self.freed.fetch_add(taken_away(blob).min(self.wake_step()), Ordering::Relaxed);
        }
        self.applied.store(number.to_u64(), Ordering::Release);
        drop(holds);
        self.wake_maintenance();
        drop(commit);
        self.cache_payload(&changes, &record);
        let log = (durability == Durability::Disk).then(|| self.log.clone());
        Ok(Ticket { log, number })
    }

    /// Fails if pins would keep too much of a blob after these changes; see [`Store::check_kept`].
    fn check_all_kept(
        &self,
        first: Number,
        number: Number,
        changes: &[(EntryKey, BlobChange)],
        held: &Held,
    ) -> Result<()> {
        let piles_up = |(key, change): &(EntryKey, BlobChange)| {
            change.existence != Existence::Delete && !self.pins_of(key).is_empty()
        };
        if !changes.iter().any(piles_up) {
            return Ok(());
        }
        let record = draft_commit(first, number, changes, held);
        let mut checked = changes.iter().zip(&record.blobs).filter(|(change, _)| piles_up(change));
        checked.try_for_each(|(_, blob)| self.check_kept(blob, number, held))
    }

    /// Gives all payload a place and logs the transaction.
    fn log_changes(
        &self,
        commit: &mut CommitState,
        first: Number,
        changes: &[(EntryKey, BlobChange)],
        held: &Held,
        durability: Durability,
    ) -> Result<(Commit, Vec<SegmentHold>)> {
        let mut record = draft_commit(first, commit.next, changes, held);
        let mut inline = Vec::new();
        let mut inline_at = Vec::new();
        let mut holds = Vec::new();
        for (position, ((keyspace, _), change)) in changes.iter().enumerate() {
            for (index, (_, payload)) in change.writes.iter().enumerate() {
                let place = match (payload.staged(), payload.bytes()) {
                    (Some((place, _)), _) => place,
                    (None, _) if payload.len() <= self.options.inline_max => {
                        inline.push(payload);
                        inline_at.push((position, index));
                        continue;
                    }
                    _ => {
                        let (place, hold) = self.log.place_bulk(*keyspace, payload)?;
                        holds.push(hold);
                        place
                    }
                };
                record.blobs[position].writes[index].place = place;
            }
        }
        let record = RefCell::new(Record::Commit(record));
        let body = |places: &[Place], out: &mut Vec<u8>| {
            let mut record = record.borrow_mut();
            if let Record::Commit(commit) = &mut *record {
                for (place, (position, index)) in places.iter().zip(&inline_at) {
                    commit.blobs[*position].writes[*index].place = *place;
                }
            }
            record.encode(out);
        };
        self.append(commit, &Draft { payloads: &inline, body: &body }, durability)?;
        match record.into_inner() {
            Record::Commit(commit) => Ok((commit, holds)),
            _ => unreachable!("made as a commit above"),
        }
    }

    /// Lets maintenance look whether there is something to do, once for every so many bytes written.
    fn wake_maintenance(&self) {
        let counters = self.log.counters();
        let written =
            counters.log_bytes.load(Ordering::Relaxed) + counters.bulk_bytes.load(Ordering::Relaxed);
        // What deletes much may write little.
        let changed = written + self.freed.load(Ordering::Relaxed);
        if changed >= self.next_wake.load(Ordering::Relaxed) {
            self.next_wake.store(changed + self.wake_step(), Ordering::Relaxed);
            self.backlog.wake();
        }
    }

    /// Maintenance is woken once for so many bytes.
    fn wake_step(&self) -> u64 {
        self.options.checkpoint_size.min(u64::from(self.segments.capacity())) / 4
    }

    fn cache_payload(&self, changes: &[(EntryKey, BlobChange)], record: &Commit) {
        for ((_, change), blob) in changes.iter().zip(&record.blobs) {
            for ((_, payload), written) in change.writes.iter().zip(&blob.writes) {
                match (payload.blocks(), payload.bytes()) {
                    (None, Some(bytes)) => self.cache.insert(written.place, bytes),
                    _ => self.recent.insert(written.place, payload),
                }
            }
        }
    }

    /// Writes large payload ahead of its transaction, so that it need not be kept in memory. It is dropped if it is never put.
    pub fn stage(&self, keyspace: KeyspaceId, bytes: &[u8]) -> Result<Payload> {
        self.stage_payload(keyspace, Payload::new(bytes))
    }

    /// The same of a part of bytes that nobody changes. Those of an [`aligned_copy`](crate::aligned_copy) are written from where they are.
    pub fn stage_shared(
        &self,
        keyspace: KeyspaceId,
        bytes: &SharedBytes,
        part: Range<usize>,
    ) -> Result<Payload> {
        self.stage_payload(keyspace, Payload::sharing(bytes, part))
    }

    fn stage_payload(&self, keyspace: KeyspaceId, payload: Payload) -> Result<Payload> {
        self.check_open()?;
        self.keyspaces.find(keyspace)?;
        if payload.len() <= self.options.inline_max {
            return Ok(payload);
        }
        let (place, hold) =
            self.log.place_bulk(keyspace, &payload).inspect_err(|_| self.backlog.request_checkpoint())?;
        if self.log.pending_bytes() > PENDING_BYTES_MAX {
            self.log.flush()?;
        }
        self.log.wake_driver();
        Ok(payload.staged_at(place, hold))
    }

    /// Reads bytes of a payload from `skip` on, also of one that was staged.
    pub fn read_payload(&self, payload: &Payload, skip: usize, buffer: &mut [u8]) -> Result<()> {
        if let Some(bytes) = payload.bytes() {
            buffer.copy_from_slice(&bytes[skip..skip + buffer.len()]);
            return Ok(());
        }
        let (place, segment) =
            payload.staged().ok_or_else(|| Error::internal("payload is neither in memory nor on disk"))?;
        let first = skip / CHECKSUM_BLOCK;
        let end = (skip + buffer.len()).next_multiple_of(CHECKSUM_BLOCK).min(payload.len());
        let from = first * CHECKSUM_BLOCK;
        let place = place.advanced(u32::try_from(from).expect("payload is bounded"));
        with_scratch(end - from, |scratch| {
            let start = self.read_stored(segment, place, end - from, scratch)?;
            let bytes = &scratch.as_bytes()[start..start + end - from];
            for (block, checksum) in
                bytes.chunks(CHECKSUM_BLOCK).zip(&payload.checksums().as_slice()[first..])
            {
                if crc32c(block) != *checksum {
                    return Err(damaged(segment, place));
                }
            }
            buffer.copy_from_slice(&bytes[skip - from..skip - from + buffer.len()]);
            Ok(())
        })
    }

    /// For one thread: writes what nobody waits for on a thread, until `stop` is set and [`Store::wake_drivers`] called.
    pub fn drive_commits(&self, stop: &std::sync::atomic::AtomicBool) {
        self.log.drive(stop);
    }

    /// Writes what nobody waits for, as one batch, unless somebody else is writing; whether there was anything.
    pub fn drive_commits_once(&self) -> bool {
        self.log.drive_once()
    }

    /// Lets the threads in [`Store::drive_commits`] and [`Store::wait_for_maintenance`] look at their stop flags.
    pub fn wake_drivers(&self) {
        self.log.wake_driver();
        self.backlog.wake();
    }

    /// Makes every commit so far durable.
    pub fn flush(&self) -> Result<()> {
        self.check_open()?;
        self.log.flush()
    }
}

/// The number of a transaction with these changes that may take `first` and what follows. One that creates several blobs takes a number
/// for each, which becomes the blob's identity, and is itself numbered by the last: identities are never used twice,
/// are above every number before, and not above the transaction's own.
fn last_number(first: Number, changes: &[(EntryKey, BlobChange)]) -> Number {
    let creates = |(_, change): &&(EntryKey, BlobChange)| {
        matches!(change.existence, Existence::Create | Existence::Replace)
    };
    changes.iter().filter(creates).skip(1).fold(first, |number, _| number.next())
}

/// The record of a transaction, its payload not yet placed. Blobs that it creates take their identities from `first` on.
fn draft_commit(first: Number, number: Number, changes: &[(EntryKey, BlobChange)], held: &Held) -> Commit {
    let mut identity = first;
    let blobs = changes.iter().map(|(key, change)| {
        let entry = held.entries.get(key).cloned().unwrap_or_default();
        let current = entry.current();
        let blob = match (change.existence, current) {
            (Existence::Keep | Existence::Delete, Some(blob)) => blob.id,
            _ => {
                let blob = BlobId::from_u64(identity.to_u64());
                identity = identity.next();
                blob
            }
        };
        let write = |(offset, payload): &(u64, Payload)| Written {
            offset: *offset,
            len: u32::try_from(payload.len()).expect("payload is bounded"),
            place: Place::default(),
            checksums: payload.checksums().clone(),
        };
        // Nothing was ever written at or beyond the reach; the record says no more, since a replay may not know the entry yet.
        let reach = current.map_or(0, |blob| blob.reach);
        let there = |hole: &Range<u64>| hole.start..hole.end.min(reach).max(hole.start);
        BlobCommit {
            keyspace: key.0,
            key: key.1.clone(),
            blob,
            existence: change.existence,
            size_before: current.and_then(Blob::head).map(|head| head.size),
            size: change.size,
            cut: change.cut,
            holes: change.holes.iter().map(there).filter(|hole| !hole.is_empty()).collect(),
            attributes: change.attributes.clone(),
            writes: change.writes.iter().map(write).collect(),
        }
    });
    Commit { number, blobs: blobs.collect() }
}

/// How many bytes a commit takes from a blob, holes included.
fn taken_away(blob: &BlobCommit) -> u64 {
    let kept =
        if blob.existence == Existence::Delete { 0 } else { blob.size.min(blob.cut.unwrap_or(u64::MAX)) };
    let cut = blob.size_before.unwrap_or(0).saturating_sub(kept);
    blob.holes.iter().fold(cut, |sum, hole| sum.saturating_add(hole.end - hole.start))
}

impl<'a> Writer<'a> {
    fn new(store: &'a Store, fetched: &'a Fetched) -> Self {
        Writer {
            store,
            observed: Number::ZERO,
            changes: Vec::new(),
            held: Held::default(),
            wanted: Vec::new(),
            fetched,
        }
    }

    /// The sum of the sizes of the keyspace's blobs, without this transaction.
    pub fn keyspace_bytes<E>(&self, keyspace: KeyspaceId) -> Result<u64, Stop<E>> {
        Ok(self.store.keyspaces.find(keyspace).map_or(0, |keyspace| keyspace.bytes()))
    }

    /// The newest head of the key's blob, if there is one.
    pub fn head<E>(&mut self, keyspace: KeyspaceId, key: &Key) -> Result<Option<Arc<Head>>, Stop<E>> {
        let entry = self.entry(&entry_key(keyspace, key))?;
        self.observed = self.observed.max(entry.applied);
        Ok(entry.current().and_then(Blob::head).cloned())
    }

    /// The number of the newest transaction that wrote, cut off, or with its blob created any byte of the range;
    /// [`Number::ZERO`] if none did. Exact above the lowest pin of the blob.
    pub fn newest<E>(
        &mut self,
        keyspace: KeyspaceId,
        key: &Key,
        range: Range<u64>,
    ) -> Result<Number, Stop<E>> {
        let entry = self.entry(&entry_key(keyspace, key))?;
        self.observed = self.observed.max(entry.applied);
        let Some(blob) = entry.current() else { return Ok(entry.applied) };
        let mut newest = Number::from_u64(blob.id.to_u64());
        let mut missed = false;
        for (index, part) in leaf::split(range) {
            if index * LEAF_SPAN >= blob.reach {
                newest = newest.max(blob.cuts.last().map_or(Number::ZERO, |cut| cut.number));
                break;
            }
            if index == 0 {
                newest = newest.max(leaf::newest(&blob.leaf, &blob.cuts, 0, &part));
                continue;
            }
            // All that is missing is loaded before the plan runs again.
            match self.leaf::<E>(&(keyspace, blob.id, index)) {
                Ok(leaf) => newest = newest.max(leaf::newest(&leaf.extents, &blob.cuts, index, &part)),
                Err(_) => missed = true,
            }
        }
        if missed { Err(Stop::Miss) } else { Ok(newest) }
    }

    /// Reads the newest bytes from `offset` on; how many the blob has there, 0 if there is none.
    pub fn read<E>(
        &mut self,
        keyspace: KeyspaceId,
        key: &Key,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Stop<E>> {
        let key = entry_key(keyspace, key);
        let entry = self.entry(&key)?;
        self.observed = self.observed.max(entry.applied);
        let Some((blob, head)) = entry.current().and_then(|blob| Some((blob, blob.head()?))) else {
            return Ok(0);
        };
        let len = usize::try_from(head.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let mut plan = Plan { head: head.clone(), len, fetches: Vec::new(), observed: Number::ZERO };
        self.store.lay_out(&key, blob, Number::MAX, offset, &mut plan, |leaf| {
            self.store.leaves.find(leaf).ok_or_else(|| {
                self.wanted.push(Want::Leaf(*leaf));
                Stop::Miss
            })
        })?;
        if let Ok(Filled::Whole) = self.store.fetch(&plan, buffer, Wait::Never) {
            return Ok(len);
        }
        let id = (key, offset, buffer.len());
        if let Some((_, bytes)) = self.fetched.get(&id).filter(|(applied, _)| *applied == entry.applied) {
            buffer.copy_from_slice(bytes);
            return Ok(len);
        }
        self.wanted.push(Want::Bytes(id.0, id.1, id.2));
        Err(Stop::Miss)
    }

    /// Changes a blob; at most once in a transaction. The caller has made sure that the blob exists or not, as the change wants it.
    pub fn put(&mut self, keyspace: KeyspaceId, key: &Key, change: BlobChange) {
        let key = entry_key(keyspace, key);
        debug_assert!(!self.held.entries.contains_key(&key), "one change for each blob");
        match self.store.entries.find(&key) {
            Some(entry) => {
                self.hold_leaves(&key, &entry, &change);
                self.held.entries.insert(key.clone(), entry);
            }
            None => self.wanted.push(Want::Entry(key.clone())),
        }
        self.changes.push((key, change));
    }

    /// Creates a blob of which the caller knows that it does not exist, in spite of what may have been under its key: as
    /// [`Writer::put`], but the key need not be looked up.
    pub fn put_new(&mut self, keyspace: KeyspaceId, key: &Key, change: BlobChange) {
        debug_assert!(change.existence == Existence::Create, "a new blob is created");
        let key = entry_key(keyspace, key);
        let entry = self.store.entries.find(&key).unwrap_or_default();
        debug_assert!(entry.current().is_none(), "a new blob is not there");
        self.held.entries.insert(key.clone(), entry);
        self.changes.push((key, change));
    }

    /// Leaves that the change will touch must be in memory when it is applied.
    fn hold_leaves(&mut self, key: &EntryKey, entry: &Entry, change: &BlobChange) {
        let Some(blob) = entry.current().filter(|_| change.existence == Existence::Keep) else { return };
        let written = change.writes.iter().map(|(offset, payload)| *offset..*offset + payload.len() as u64);
        for range in written.chain(change.holes.iter().map(|hole| hole.start..hole.end.min(blob.reach))) {
            for (index, _) in leaf::split(range) {
                let leaf = (key.0, blob.id, index);
                if index == 0 || index * LEAF_SPAN >= blob.reach {
                    continue;
                }
                match self.store.leaves.find(&leaf) {
                    Some(found) => drop(self.held.leaves.insert(leaf, found)),
                    None => self.wanted.push(Want::Leaf(leaf)),
                }
            }
        }
    }

    fn wants_nothing(&self) -> bool {
        self.wanted.is_empty()
    }

    fn entry<E>(&mut self, key: &EntryKey) -> Result<Arc<Entry>, Stop<E>> {
        // What is wanted of a dropped keyspace is refused when it is looked for.
        let found = self.store.entries.find(key).filter(|_| self.store.keyspaces.contains(key.0));
        found.ok_or_else(|| {
            self.wanted.push(Want::Entry(key.clone()));
            Stop::Miss
        })
    }

    fn leaf<E>(&mut self, key: &LeafKey) -> Result<Arc<Leaf>, Stop<E>> {
        self.store.leaves.find(key).ok_or_else(|| {
            self.wanted.push(Want::Leaf(*key));
            Stop::Miss
        })
    }
}

impl<E> From<Miss> for Refused<E> {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::WouldBlock => Refused::WouldBlock,
            Miss::Failed(error) => Refused::Failed(error),
        }
    }
}

impl<E> From<Error> for Refused<E> {
    fn from(error: Error) -> Self {
        Refused::Failed(error)
    }
}

impl<E> From<E> for Stop<E> {
    fn from(refusal: E) -> Self {
        Stop::Refuse(refusal)
    }
}

/// More than this is not queued for the disk; who comes then waits for a batch.
const PENDING_BYTES_MAX: usize = 16 << 20;
/// A plan that was run so often and still misses objects is given all that it asks for, whatever the budget.
const RUNS_UNHELD: u32 = 3;

#[cfg(test)]
mod tests;
