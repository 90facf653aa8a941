//! Background work, one bounded step at a time, on whatever thread calls.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tyr_types::{BlobId, Error, ErrorKind, KeyspaceId, Result};
use tyr_wire::{
    Reader,
    entry::Entry,
    extent::{Extent, Leaf, Place, SegmentId},
    frame::SegmentKind,
};

use crate::{
    apply::live_bytes,
    checkpoint::CheckpointState,
    collect::Garbage,
    compacting::{Compacting, Cost, Thrift},
    index_key::{self, EntryKey, IndexKey, LeafKey},
    miss::Wait,
    objects::Shard,
    pace::Use,
    relocate::{Object, forget_history},
    segment::Segment,
    store::Store,
};

/// Whether a step of maintenance found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintained {
    /// Nothing is left.
    Idle,
    /// There may be more.
    Worked,
}

/// What a full compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Segments that were emptied.
    pub segments: u64,
    /// Bytes of segment files before.
    pub bytes_before: u64,
    /// Bytes of segment files afterwards.
    pub bytes_after: u64,
}

impl Store {
    /// Does one bounded step of what is most urgent. After a failure nothing is lost; call again.
    pub fn maintain(&self) -> Result<Maintained> {
        self.check_open()?;
        let _working = self.pace.begin();
        let result = self.maintain_step();
        self.pace.note(self.using());
        self.note_failure(&result);
        result
    }

    /// Keeps what a step failed with for [`Store::stats`], until all that there was to do is done.
    fn note_failure(&self, result: &Result<Maintained>) {
        match result {
            Ok(Maintained::Worked) => {}
            Ok(Maintained::Idle) if self.leaves_something_undone() => {}
            Ok(Maintained::Idle) => *self.failure.lock() = None,
            Err(error) => *self.failure.lock() = Some(error.to_string()),
        }
    }

    /// Whether something is not tried any more because it has failed.
    fn leaves_something_undone(&self) -> bool {
        !self.backlog.lock().put_aside.is_empty()
            || !self.checkpoint.lock().kept.is_empty()
            || self.merging.try_lock().is_none_or(|merging| merging.is_put_aside())
    }

    /// What files use now.
    fn using(&self) -> Use {
        let all = self.segments.all();
        let capacity = u64::from(self.segments.capacity());
        Use {
            files: all.len() as u64 * capacity + self.segments.idle_bytes(),
            live: all.iter().map(|segment| segment.live()).sum(),
            slack: u64::from(self.options.slack_segments) * capacity,
            // A device that does not say is not taken for full.
            free: self.disk.space().map_or(u64::MAX, |space| space.free),
        }
    }

    fn maintain_step(&self) -> Result<Maintained> {
        if self.is_checkpoint_due() {
            self.checkpoint_forgetting(Store::checkpoint_if_room)?;
            return Ok(Maintained::Worked);
        }
        let mut failure: Option<Error> = None;
        let mut kinds = KINDS_OF_WORK;
        if self.has_just_forgotten.swap(false, Ordering::Relaxed) {
            // It looks at all that snapshots keep, and is due whenever a pin is released: the others have their turn first.
            kinds[FORGETTING..].rotate_left(1);
        }
        for work in kinds {
            match work(self) {
                Ok(false) => {}
                // What has found no room may find some now.
                Ok(true) if failure.as_ref().is_none_or(|error| error.kind() == ErrorKind::Full) => {
                    return Ok(Maintained::Worked);
                }
                Ok(true) => break,
                // Told when others have had their turn: what can be done does not wait for what cannot.
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        failure.map_or(Ok(Maintained::Idle), Err)
    }

    fn forget_in_passing(&self) -> Result<bool> {
        let worked = self.forget_histories();
        self.has_just_forgotten.store(worked != Ok(false), Ordering::Relaxed);
        worked
    }

    fn compact_in_passing(&self) -> Result<bool> {
        let Some(mut compacting) = self.compacting.try_lock() else {
            // Somebody is at it.
            return Ok(false);
        };
        let thrift = if self.is_space_short() && self.has_room_to_move() {
            Thrift::High
        } else if self.using().is_wasteful() {
            Thrift::Medium
        } else {
            Thrift::Low
        };
        self.compact_one(&mut compacting, thrift)
    }

    /// Who owns the store takes nothing more when less than so many bytes of the device are free: room is made before it comes to that. To be said again
    /// from time to time, for others may fill the device: it wakes maintenance if room is short.
    pub fn keep_free(&self, bytes: u64) {
        self.kept_free.store(bytes, Ordering::Relaxed);
        if self.is_space_short() {
            self.backlog.wake();
        }
    }

    /// Blocks until [`Store::maintain`] may have something to do, or [`Store::wake_drivers`] was called.
    pub fn wait_for_maintenance(&self, stop: &AtomicBool) {
        if !stop.load(Ordering::Acquire) {
            self.backlog.wait();
        }
    }

    /// Does everything that is worth doing, now: afterwards files hold little but what is live.
    pub fn compact(&self) -> Result<CompactReport> {
        self.check_open()?;
        let bytes = || {
            self.segments.all().len() as u64 * u64::from(self.segments.capacity())
                + self.segments.idle_bytes()
        };
        let mut report = CompactReport { bytes_before: bytes(), ..CompactReport::default() };
        self.log.close_all_bulk();
        self.checkpoint_forgetting(Store::checkpoint)?;
        loop {
            let worked = self.collect_garbage()? || self.forget_histories()? || self.defragment_one()?;
            if worked {
                continue;
            }
            if !self.compact_one(&mut self.compacting.lock(), Thrift::Full)? {
                break;
            }
            report.segments += 1;
        }
        self.checkpoint()?;
        self.merge_all_tables()?;
        self.segments.trim(0, |keyspace| self.keyspaces.contains(keyspace))?;
        report.bytes_after = bytes();
        Ok(report)
    }

    /// Gets the next log segment ready before it is needed, if there is space; if not, what needs it will be told.
    pub(crate) fn prepare_spare(&self) -> Result<bool> {
        if self.segments.spares(SegmentKind::Log) > 0 || !self.log.is_segment_half_full() {
            return Ok(false);
        }
        match self.segments.prepare(SegmentKind::Log) {
            Err(error) if error.kind() == ErrorKind::Full => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Releases some of what deleted blobs, truncated blobs, or dropped keyspaces left behind. What fails, unless for want of space, is put
    /// aside until the store is opened again, so that the rest has its turn.
    fn collect_garbage(&self) -> Result<bool> {
        let Some(garbage) = self.backlog.lock().garbage.front().cloned() else { return Ok(false) };
        self.collect(&garbage).inspect_err(|error| {
            let mut work = self.backlog.lock();
            if error.kind() != ErrorKind::Full && work.garbage.front() == Some(&garbage) {
                work.garbage.pop_front();
                work.put_aside.push(garbage.clone());
            }
        })?;
        Ok(true)
    }

    fn collect(&self, garbage: &Garbage) -> Result<()> {
        let rest = match garbage {
            // Released with all that the keyspace had.
            Garbage::Blob { keyspace, .. } | Garbage::Cut { keyspace, .. }
                if !self.keyspaces.contains(*keyspace) =>
            {
                None
            }
            Garbage::Blob { keyspace, blob, from } => self
                .release_leaves(*keyspace, *blob, *from)?
                .map(|from| Garbage::Blob { keyspace: *keyspace, blob: *blob, from }),
            Garbage::Cut { keyspace, key, blob, from } => {
                let entry = (*keyspace, key.clone());
                let next = self.trim_leaves(&entry, *blob, *from)?;
                if next.is_none() {
                    self.rebase(&entry, *blob)?;
                }
                next.map(|from| Garbage::Cut { keyspace: *keyspace, key: key.clone(), blob: *blob, from })
            }
            Garbage::Keyspace(keyspace) => return self.release_keyspace(*keyspace),
        };
        let mut work = self.backlog.lock();
        // Only collecting takes from the front, and only one thread at a time is meant to maintain a store.
        if work.garbage.front() == Some(garbage) {
            work.garbage.pop_front();
            work.garbage.extend(rest);
        }
        Ok(())
    }

    /// Empties leaves of a deleted blob; where to go on, if there are more.
    fn release_leaves(&self, keyspace: KeyspaceId, blob: BlobId, from: u64) -> Result<Option<u64>> {
        let leaves = self.leaves_from(keyspace, blob, from)?;
        let next = (leaves.len() == GARBAGE_STEP).then(|| leaves.last().map_or(from, |index| index + 1));
        for index in leaves {
            self.release_leaf(&(keyspace, blob, index))?;
        }
        Ok(next)
    }

    fn release_leaf(&self, id: &LeafKey) -> Result<()> {
        loop {
            self.loaded(self.leaf(id, Wait::Allowed))?;
            let _commit = self.commit.lock();
            // Evicted since: once more.
            if self.release_locked(id) {
                return Ok(());
            }
        }
    }

    /// Empties a leaf; the caller holds the commit lock. Leaves alone, and returns false for, one that was evicted since it was loaded:
    /// an older state must not replace it.
    pub(crate) fn release_locked(&self, id: &LeafKey) -> bool {
        if !self.keyspaces.contains(id.0) {
            // Released as a whole.
            return true;
        }
        let mut shard = self.leaves.lock(id);
        let Some(leaf) = shard.find(id) else { return false };
        if !leaf.extents.is_empty() {
            leaf.extents.iter().for_each(|extent| self.release_extent(extent));
            let empty = Leaf { applied: leaf.applied, extents: Vec::new() };
            self.leaves.change(&mut shard, id, Arc::new(empty));
        }
        true
    }

    /// Prunes leaves behind a cut; where to go on, if there are more.
    fn trim_leaves(&self, key: &EntryKey, blob: BlobId, from: u64) -> Result<Option<u64>> {
        let leaves = self.leaves_from(key.0, blob, from)?;
        let next = (leaves.len() == GARBAGE_STEP).then(|| leaves.last().map_or(from, |index| index + 1));
        for index in leaves {
            self.prune_leaf(key, &(key.0, blob, index))?;
        }
        Ok(next)
    }

    /// Drops what no pin can see from a leaf, and remembers it if a pin may still see its past.
    fn prune_leaf(&self, key: &EntryKey, id: &LeafKey) -> Result<()> {
        loop {
            self.loaded(self.entry(key, Wait::Allowed))?;
            self.loaded(self.leaf(id, Wait::Allowed))?;
            let mut commit = self.commit.lock();
            if !self.keyspaces.contains(key.0) {
                self.backlog.remove_historic_leaf(id);
                return Ok(());
            }
            let mut entries = self.entries.lock(key);
            // Evicted since: once more.
            let Some(entry) = entries.find(key) else { continue };
            let Some(blob) = entry.blobs.iter().find(|blob| blob.id == id.1) else {
                self.backlog.remove_historic_leaf(id);
                return Ok(());
            };
            let pins = self.pins_of(key);
            let mut shard = self.leaves.lock(id);
            let Some(old) = shard.find(id) else { continue };
            let mut leaf = Leaf::clone(&old);
            let dropped = crate::leaf::prune(&mut leaf.extents, &blob.cuts, id.2, &pins);
            if pins.is_empty() {
                self.note_fragmented(key, id.1, id.2, &leaf.extents);
            }
            if !dropped.is_empty() {
                if leaf.extents.is_empty() {
                    // From now on the index does not know the leaf, so that nobody will log it again when the cuts that hide its bytes are
                    // forgotten. What the log says of it must end with this.
                    self.log_leaf(&mut commit, key, id, leaf.clone())?;
                }
                dropped.iter().for_each(|extent| self.release_extent(extent));
                self.leaves.change(&mut shard, id, Arc::new(leaf));
            }
            match pins.is_empty() {
                true => self.backlog.remove_historic_leaf(id),
                false => self.backlog.add_historic_leaf(key, id),
            }
            return Ok(());
        }
    }

    /// Up to [`GARBAGE_STEP`] indexes of leaves of a blob that exist, from one on, ascending.
    pub(crate) fn leaves_from(&self, keyspace: KeyspaceId, blob: BlobId, from: u64) -> Result<Vec<u64>> {
        let (first, last) = ((keyspace, blob, from), (keyspace, blob, u64::MAX));
        let dirty = self.leaves.dirty_range((Bound::Included(&first), Bound::Included(&last)), GARBAGE_STEP);
        let mut indexes: Vec<u64> = dirty.iter().map(|((_, _, index), _)| *index).collect();
        let start = index_key::leaf_key(&first);
        for item in self.index.scan(Bound::Included(&start)).take(GARBAGE_STEP) {
            match index_key::parse(&item?.0) {
                Some(IndexKey::Leaf((found, of, index))) if (found, of) == (keyspace, blob) => {
                    indexes.push(index)
                }
                _ => break,
            }
        }
        indexes.sort_unstable();
        indexes.dedup();
        indexes.truncate(GARBAGE_STEP);
        Ok(indexes)
    }

    /// Takes everything of a dropped keyspace off the counts of live bytes, at once, so that no checkpoint meets a part of it.
    /// Its index entries go with the next merges.
    fn release_keyspace(&self, keyspace: KeyspaceId) -> Result<()> {
        let mut released: BTreeMap<SegmentId, i64> = BTreeMap::new();
        let mut release = |extents: &[Extent]| {
            for extent in extents {
                *released.entry(extent.place.segment).or_default() += live_bytes(extent);
            }
        };
        // What had changed when the keyspace was dropped has been released. Asked before the index: a change that is not here
        // any more is there by now, as a tombstone.
        let changed_entries = self.entries.dirty_keys(|key| key.0 == keyspace);
        let changed_leaves = self.leaves.dirty_keys(|key| key.0 == keyspace);
        let prefix = index_key::keyspace_prefix(keyspace);
        for item in self.index.scan(Bound::Included(&prefix)) {
            let (key, value) = item?;
            match index_key::parse(&key) {
                Some(IndexKey::Entry(key)) if key.0 == keyspace => {
                    if !changed_entries.contains(&key) {
                        let entry = Entry::decode(&mut Reader::new(&value))?;
                        entry.blobs.iter().for_each(|blob| release(&blob.leaf));
                    }
                }
                _ => break,
            }
        }
        let first = index_key::leaf_key(&(keyspace, BlobId::from_u64(0), 0));
        for item in self.index.scan(Bound::Included(&first)) {
            let (key, value) = item?;
            match index_key::parse(&key) {
                Some(IndexKey::Leaf(key)) if key.0 == keyspace => {
                    if !changed_leaves.contains(&key) {
                        release(&Leaf::decode(&mut Reader::new(&value))?.extents);
                    }
                }
                _ => break,
            }
        }
        let _commit = self.commit.lock();
        let mut work = self.backlog.lock();
        if work.garbage.front() == Some(&Garbage::Keyspace(keyspace)) {
            work.garbage.pop_front();
            for (segment, bytes) in released {
                self.segments.add_live(Place { segment, position: 0 }, -bytes);
            }
        }
        Ok(())
    }

    /// After a pin was released: forgets what was kept for it. What fails stays in the backlog for the next time, and does not keep the
    /// rest from its turn.
    fn forget_histories(&self) -> Result<bool> {
        let (entries, leaves) = {
            let mut work = self.backlog.lock();
            if !std::mem::take(&mut work.history_due) {
                return Ok(false);
            }
            // They stay where a checkpoint finds them until they are done.
            (work.historic_entries.clone(), work.historic_leaves.clone())
        };
        let is_idle = entries.is_empty() && leaves.is_empty();
        let entries = entries.into_iter().map(|key| self.forget_entry_history(&key));
        let leaves = leaves.into_iter().map(|(id, key)| self.prune_leaf(&(id.0, key), &id));
        // All of them, then the first failure.
        let results: Vec<Result<()>> = entries.chain(leaves).filter(Result::is_err).collect();
        results.into_iter().collect::<Result<()>>()?;
        Ok(!is_idle)
    }

    /// Writes a checkpoint; if that fails, once more without what was kept for pins that are over: it may be what there is too much of.
    pub(crate) fn checkpoint_forgetting(&self, write: fn(&Store) -> Result<()>) -> Result<()> {
        write(self).or_else(|error| match self.forget_histories() {
            Ok(false) => Err(error),
            // What cannot be forgotten is tried again with the next release of a pin.
            Ok(true) | Err(_) => write(self),
        })
    }

    fn forget_entry_history(&self, key: &EntryKey) -> Result<()> {
        loop {
            self.loaded(self.entry(key, Wait::Allowed))?;
            let _commit = self.commit.lock();
            if !self.keyspaces.contains(key.0) {
                self.backlog.remove_historic_entry(key);
                return Ok(());
            }
            let mut shard = self.entries.lock(key);
            // Evicted since: once more.
            if let Some(old) = shard.find(key) {
                self.forget_locked(key, &mut shard, &old);
                return Ok(());
            }
        }
    }

    /// Forgets what no pin can see of an entry. The caller holds the commit lock.
    pub(crate) fn forget_locked(&self, key: &EntryKey, shard: &mut Shard<EntryKey, Entry>, old: &Entry) {
        let pins = self.pins_of(key);
        let mut entry = Entry::clone(old);
        let mut kept = Vec::with_capacity(entry.blobs.len());
        for mut blob in std::mem::take(&mut entry.blobs) {
            let is_seen = blob.deleted.is_none_or(|deleted| {
                pins.iter().any(|pin| blob.id.to_u64() <= pin.to_u64() && *pin < deleted)
            });
            let dropped =
                if is_seen { forget_history(&mut blob, &pins) } else { std::mem::take(&mut blob.leaf) };
            dropped.iter().for_each(|extent| self.release_extent(extent));
            if pins.is_empty() {
                self.note_fragmented(key, blob.id, 0, &blob.leaf);
            }
            if is_seen {
                kept.push(blob);
            } else {
                self.backlog.add_garbage(Garbage::blob(key, &blob));
            }
        }
        entry.blobs = kept;
        if entry != *old {
            self.entries.change(shard, key, Arc::new(entry));
        }
        match pins.is_empty() {
            true => self.backlog.remove_historic_entry(key),
            false => self.backlog.add_historic_entry(key),
        }
    }

    fn defragment_one(&self) -> Result<bool> {
        let Some((key, blob, index)) = self.backlog.lock().fragmented.pop_first() else { return Ok(false) };
        let object =
            if index == 0 { Object::Entry(key) } else { Object::Leaf(key.clone(), (key.0, blob, index)) };
        self.defragment(&object)?;
        Ok(true)
    }

    /// Empties the oldest segment that is all but dead, or of those that are worth it the one with the least that is live; one at a time.
    fn compact_one(&self, compacting: &mut Compacting, thrift: Thrift) -> Result<bool> {
        let log_bytes = || self.log.counters().log_bytes.load(Ordering::Relaxed);
        let said_again = || self.said_again.load(Ordering::Relaxed);
        compacting.begin(log_bytes());
        let Some(segment) = self.sparsest(thrift, compacting) else { return Ok(false) };
        let from = self.log.segment().first_sequence();
        let is_little = thrift.is_little(segment.live(), self.segments.capacity().into());
        let (written, said) = (log_bytes(), said_again());
        let emptied = self.evacuate(&segment);
        // What was moved is written by now, so that it is not taken for what others write.
        let emptied = emptied.and_then(|()| self.log.flush());
        // One that is emptied for what has died in it gives back as much, whatever is said again.
        let said = if is_little { said_again() - said } else { 0 };
        let cost = Cost { from, said, written: (written, log_bytes()) };
        compacting.note(cost, self.segments.capacity().into());
        match emptied.and_then(|()| self.check_empty(&segment)) {
            Ok(Emptied::Whole) => {}
            // Garbage is collected before the next segment is looked for.
            Ok(Emptied::ButForGarbage) => return Ok(true),
            Err(error) => {
                let is_hopeless = matches!(
                    error.kind(),
                    ErrorKind::Corrupt | ErrorKind::Internal | ErrorKind::Unavailable | ErrorKind::Invalid
                );
                // Nothing is moved by a store that does not write any more.
                if is_hopeless && self.check_open().is_ok() {
                    // Kept, for what is left in it can be had nowhere else; told once, so that other segments have their turn.
                    self.checkpoint.lock().kept.insert(segment.id);
                }
                return Err(error);
            }
        }
        self.checkpoint.lock().evacuated.insert(segment.id);
        if self.checkpoint.lock().evacuated.len() >= EVACUATED_MAX || self.is_space_short() {
            self.backlog.request_checkpoint();
        }
        Ok(true)
    }

    /// Has files given back, by a checkpoint, if nothing else is left to do and they are many beside what is live: nobody may write for long. These
    /// are the files of evacuated segments, and bulk segments that are all but dead and not known to the last checkpoint, since only what is known to
    /// one is evacuated. What a log has in such is bounded by the distance of checkpoints. Where room is short, each file is much, and so is one that
    /// is kept for recycling, and one that is worth emptying once a checkpoint knows it or the log's tail does not begin before it.
    fn give_back(&self) -> bool {
        let evacuated = self.checkpoint.lock().evacuated.len();
        let is_much = if self.is_space_short() {
            let (_, recyclable, _) = self.segments.stock();
            evacuated + recyclable + self.count_early(Thrift::High) > 0
        } else {
            let count = evacuated + self.count_early(Thrift::Low);
            count > 0
                && EVACUATED_WORTH * count as u64 * u64::from(self.segments.capacity()) > self.using().live
        };
        if is_much {
            self.backlog.request_checkpoint();
        }
        is_much
    }

    /// Segments that are worth emptying, but for the last checkpoint, which does not know them, or from which on a replay would read them.
    fn count_early(&self, thrift: Thrift) -> usize {
        let state = self.checkpoint.lock();
        let open = self.log.open_segments();
        let capacity = u64::from(self.segments.capacity());
        let tail = self.log_tail(&state);
        let all = self.segments.all();
        let worth = all.iter().filter(|segment| match segment.kind {
            SegmentKind::Log => thrift.is_enough(segment.died(), capacity),
            SegmentKind::Bulk(_) => self.is_spent(segment) || thrift.is_enough(segment.died(), capacity),
        });
        let early = worth.filter(|segment| {
            let is_tail = segment.kind == SegmentKind::Log && segment.first_sequence() >= tail;
            (is_tail || !state.knows(segment.id))
                && !state.evacuated.contains(&segment.id)
                && !state.kept.contains(&segment.id)
        });
        early.filter(|segment| !open.iter().any(|open| open.id == segment.id)).count()
    }

    fn is_spent(&self, segment: &Segment) -> bool {
        Thrift::Low.is_little(segment.live(), self.segments.capacity().into())
    }

    /// The sequence of the first frame of the segment that a replay would begin in.
    fn log_tail(&self, state: &CheckpointState) -> u64 {
        self.segments.find(state.position.place.segment).map_or(0, |segment| segment.first_sequence())
    }

    /// Fails if something live is left in a segment that everything has been moved out of, but for what a keyspace left behind that was dropped
    /// meanwhile. All else that is collected in steps has been released by the evacuation.
    pub(crate) fn check_empty(&self, segment: &Segment) -> Result<Emptied> {
        // A keyspace is forgotten, and what it had released, under this lock: never seen in between.
        let _commit = self.commit.lock();
        let left = segment.live();
        if left == 0 {
            return Ok(Emptied::Whole);
        }
        let is_keyspace = |garbage: &Garbage| matches!(garbage, Garbage::Keyspace(_));
        let work = self.backlog.lock();
        if work.garbage.iter().any(is_keyspace) {
            return Ok(Emptied::ButForGarbage);
        }
        if work.put_aside.iter().any(is_keyspace) {
            return Err(Error::unavailable(format!(
                "{} cannot be emptied: what a dropped keyspace left behind could not be collected; the file is kept until the store is opened again",
                segment.name()
            )));
        }
        Err(Error::internal(format!(
            "{} cannot be emptied: nobody is known to own {left} live bytes in it; the file is kept; run a check and report this",
            segment.name()
        )))
    }

    /// Whether little more than what is to be [kept free](Store::keep_free) is free.
    pub(crate) fn is_space_short(&self) -> bool {
        let needed =
            self.kept_free.load(Ordering::Relaxed) + SHORT_SEGMENTS * u64::from(self.segments.capacity());
        self.disk.space().is_ok_and(|space| space.free < needed)
    }

    /// Whether what is moved out of a segment, and what the log says of it, has room for sure: a move that stops halfway gives back nothing.
    fn has_room_to_move(&self) -> bool {
        let needed = 2 * u64::from(self.segments.capacity());
        self.disk.space().is_ok_and(|space| space.free + self.segments.reserve_bytes() >= needed)
    }

    /// Of those that are all but dead the oldest: what it says of keys that are free needs not be said again.
    fn sparsest(&self, thrift: Thrift, compacting: &mut Compacting) -> Option<Arc<Segment>> {
        let oldest = match thrift != Thrift::Full && compacting.takes_oldest() {
            true => self.oldest_log_segment(),
            false => None,
        };
        let state = self.checkpoint.lock();
        let open = self.log.open_segments();
        let capacity = u64::from(self.segments.capacity());
        let all = self.segments.all();
        let tail = self.log_tail(&state);
        let candidates = all.into_iter().filter(|segment| {
            let is_log = segment.kind == SegmentKind::Log;
            let is_tail = is_log && segment.first_sequence() >= tail;
            let rests = is_log && thrift != Thrift::Full && compacting.leaves_alone(segment.first_sequence());
            let is_worth = thrift.is_little(segment.live(), capacity) && !rests
                || thrift.is_enough(segment.died(), capacity);
            (oldest == Some(segment.id) || is_worth)
                && !is_tail
                && !state.evacuated.contains(&segment.id)
                && !state.kept.contains(&segment.id)
                && state.knows(segment.id)
                && !open.iter().any(|open| open.id == segment.id)
                && !segment.is_held()
        });
        candidates.min_by_key(|segment| match self.is_spent(segment) {
            _ if oldest == Some(segment.id) => (0, 0),
            true => (0, segment.first_sequence()),
            false => (segment.live(), 0),
        })
    }
}

/// Whether a segment that everything was moved out of is empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Emptied {
    Whole,
    /// What is left waits to be collected.
    ButForGarbage,
}

/// What there is to do, the most urgent first: one step, and whether there was anything.
const KINDS_OF_WORK: [fn(&Store) -> Result<bool>; 7] = [
    Store::prepare_spare,
    Store::collect_garbage,
    Store::forget_in_passing,
    Store::defragment_one,
    Store::merge_tables,
    Store::compact_in_passing,
    |store| Ok(store.give_back()),
];
/// Where what is forgotten has its place in that.
const FORGETTING: usize = 2;

/// Leaves that one step looks at.
const GARBAGE_STEP: usize = 256;

/// So many evacuated segments are worth a checkpoint,
const EVACUATED_MAX: usize = 4;

/// and when nothing else is left to do, one for so many that hold something.
const EVACUATED_WORTH: u64 = 8;

/// Room is short when so many segments less are free than that: what is under way takes some before it gives any back.
const SHORT_SEGMENTS: u64 = 8;

#[cfg(test)]
mod tests;
