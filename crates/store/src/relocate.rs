//! Moving payload: out of segments that hold little that is live, and out of leaves that are in many pieces.
//!
//! An object (an entry with its first leaf, or another leaf) is rewritten as a whole: the payload that has to move is read and verified without a lock;
//! then, if the object is still the same, its new state is logged together with that payload. Numbers do not change, so no
//! reader can tell. Compacting a segment of the log rewrites every object that the segment mentions, so that the log stays complete
//! without it.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use tyr_types::{BlobId, Durability, Error, ErrorKind, KeyspaceId, Number, Result};
use tyr_wire::{
    entry::{Blob, Cut, Entry},
    extent::{Extent, LEAF_SPAN, Leaf, Place, SegmentId},
    frame::SegmentKind,
    record::{EntryState, LeafState, Record, Written},
};

use crate::{
    apply::extents_of,
    frames::{FrameScan, Scanned},
    index_key::{self, EntryKey, IndexKey, LeafKey},
    leaf,
    log::Draft,
    miss::{Miss, Wait},
    payload::Payload,
    read::{Filled, crc32c, damaged, lost, with_scratch},
    segment::{Segment, SegmentHold},
    store::Store,
};

/// Something that can be rewritten.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Entry(EntryKey),
    /// With the entry of its blob.
    Leaf(EntryKey, LeafKey),
}

/// Why an object is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A log segment is to be emptied: what it says of an object must be said again, also that a key is free or that a leaf is empty,
    /// unless no older segment says otherwise.
    LogSegment { is_oldest: bool },
    /// A bulk segment is to be emptied.
    BulkSegment,
    /// A leaf is in many pieces, and nobody reads its past.
    Defragment,
}

/// Which extents of an object to rewrite, and into what.
type Rewrite<'a> = dyn Fn(&[Extent], &[Cut], u64) -> Result<Planned> + 'a;

/// What is to become of an object's extents.
enum Planned {
    Replace(Vec<Replacement>),
    /// The segment is not in use any more: it was emptied meanwhile, so that the object is stale.
    Gone(SegmentId),
}

/// New extents in place of old ones.
struct Replacement {
    /// Positions of the old ones in the list.
    old: Vec<usize>,
    /// First byte in the leaf.
    start: u32,
    number: Number,
    /// `Some` if the bytes that the old extent uses are not at the payload's beginning: then all its stored bytes are kept.
    keep: Option<Extent>,
    payload: Payload,
}

impl Store {
    /// Moves everything live out of a segment, which is not being filled any more. The next checkpoint can empty it.
    pub(crate) fn evacuate(&self, segment: &Arc<Segment>) -> Result<()> {
        let objects = match segment.kind {
            SegmentKind::Log => self.mentioned(segment)?,
            SegmentKind::Bulk(_) => self.owners_in(segment.id)?,
        };
        let purpose = match segment.kind {
            SegmentKind::Log => {
                Purpose::LogSegment { is_oldest: self.oldest_log_segment() == Some(segment.id) }
            }
            SegmentKind::Bulk(_) => Purpose::BulkSegment,
        };
        let rewrite =
            |extents: &[Extent], _: &[Cut], _: u64| self.moved_out(segment, extents).map(Planned::Replace);
        for object in objects {
            self.rewrite(&object, &rewrite, purpose)?;
            self.keep_pace()?;
        }
        Ok(())
    }

    /// Lets commits through: what is moved must not pile up before the disk faster than it can be written, and the next segment must be
    /// ready before a commit needs it.
    fn keep_pace(&self) -> Result<()> {
        if self.log.pending_bytes() > MOVED_PENDING_MAX {
            self.log.flush()?;
            self.prepare_spare()?;
        }
        Ok(())
    }

    pub(crate) fn oldest_log_segment(&self) -> Option<SegmentId> {
        let evacuated = &self.checkpoint.lock().evacuated;
        let all = self.segments.all();
        let logs =
            all.iter().filter(|segment| segment.kind == SegmentKind::Log && !evacuated.contains(&segment.id));
        logs.min_by_key(|segment| segment.first_sequence()).map(|segment| segment.id)
    }

    /// Every object that the frames of a log segment speak of.
    fn mentioned(&self, segment: &Arc<Segment>) -> Result<BTreeSet<Object>> {
        let mut objects = BTreeSet::new();
        let mut scan = FrameScan::new(segment.clone());
        while let Scanned::Frame(frame) = scan.next()? {
            for record in frame.records() {
                Self::mention(record?.1, &mut objects);
            }
        }
        // What a damaged frame mentions would be left behind.
        scan.check_end(segment.filled())?;
        Ok(objects)
    }

    fn mention(record: Record, objects: &mut BTreeSet<Object>) {
        match record {
            Record::Commit(commit) => {
                for blob in commit.blobs {
                    let key: EntryKey = (blob.keyspace, blob.key);
                    let written =
                        blob.writes.iter().map(|write| write.offset..write.offset + u64::from(write.len));
                    for range in written.chain(blob.holes) {
                        let others = leaf::split(range).filter(|(index, _)| *index > 0);
                        objects.extend(
                            others.map(|(index, _)| Object::Leaf(key.clone(), (key.0, blob.blob, index))),
                        );
                    }
                    objects.insert(Object::Entry(key));
                }
            }
            Record::Entry(state) => drop(objects.insert(Object::Entry((state.keyspace, state.key)))),
            Record::Leaf(state) => {
                let leaf = (state.keyspace, state.blob, state.index);
                objects.insert(Object::Leaf((state.keyspace, state.key), leaf));
            }
            // Nobody looks for keyspaces in front of the manifest's position, where a segment lies that is emptied: a replay begins there with
            // those of the manifest, and what makes the index anew passes these records over.
            Record::Keyspace(_) | Record::KeyspaceDropped(_) => {}
        }
    }

    /// Every object that payload in a bulk segment was written for.
    fn owners_in(&self, segment: SegmentId) -> Result<BTreeSet<Object>> {
        let mut objects = BTreeSet::new();
        let mut add = |owner: &crate::backlog::Owner| {
            let key: EntryKey = (owner.keyspace, owner.key.clone());
            for (index, _) in leaf::split(owner.offset..owner.offset + u64::from(owner.len)) {
                objects.insert(match index {
                    0 => Object::Entry(key.clone()),
                    _ => Object::Leaf(key.clone(), (key.0, owner.blob, index)),
                });
            }
        };
        for (place, owner) in &self.backlog.lock().owners {
            if place.segment == segment {
                add(owner);
            }
        }
        let first = index_key::bulk_key(segment, 0);
        for item in self.index.scan(std::ops::Bound::Included(&first)) {
            let (key, value) = item?;
            match index_key::parse(&key) {
                Some(IndexKey::Bulk(found, _)) if found == segment => {
                    add(&crate::backlog::Owner::decode(&mut tyr_wire::Reader::new(&value))?);
                }
                _ => break,
            }
        }
        Ok(objects)
    }

    /// Copies of the extents that are in the segment.
    fn moved_out(&self, segment: &Arc<Segment>, extents: &[Extent]) -> Result<Vec<Replacement>> {
        let mut replacements = Vec::new();
        for (position, extent) in
            extents.iter().enumerate().filter(|(_, extent)| extent.place.segment == segment.id)
        {
            let bytes = self.read_extent(segment, extent)?;
            replacements.push(Replacement {
                old: vec![position],
                start: extent.start,
                number: extent.number,
                keep: Some(extent.clone()),
                payload: Payload::new(&bytes),
            });
        }
        Ok(replacements)
    }

    /// All stored bytes of an extent, verified.
    fn read_extent(&self, segment: &Segment, extent: &Extent) -> Result<Vec<u8>> {
        let len = extent.stored as usize;
        with_scratch(len, |scratch| {
            let start = self.read_stored(segment, extent.place, len, scratch)?;
            let bytes = &scratch.as_bytes()[start..start + len];
            for (index, block) in bytes.chunks(tyr_wire::extent::CHECKSUM_BLOCK).enumerate() {
                if extent.checksums.as_slice().get(index) != Some(&crc32c(block)) {
                    let distance =
                        u32::try_from(index * tyr_wire::extent::CHECKSUM_BLOCK).unwrap_or(u32::MAX);
                    return Err(damaged(segment, extent.place.advanced(distance)));
                }
            }
            Ok(bytes.to_vec())
        })
    }

    /// Writes a leaf that is in many pieces anew, as few. Leaves whose past somebody may read are left alone.
    pub(crate) fn defragment(&self, object: &Object) -> Result<()> {
        let (Object::Entry(key) | Object::Leaf(key, _)) = object;
        if !self.pins_of(key).is_empty() {
            return Ok(());
        }
        let rewrite = |extents: &[Extent], cuts: &[Cut], index: u64| {
            if !leaf::is_fragmented(extents) {
                return Ok(Planned::Replace(Vec::new()));
            }
            self.joined(extents, cuts, index)
        };
        self.rewrite(object, &rewrite, Purpose::Defragment)
    }

    /// One replacement for everything visible; holes become zeros, unless there is nothing around them.
    fn joined(&self, extents: &[Extent], cuts: &[Cut], index: u64) -> Result<Planned> {
        let span = u32::try_from(LEAF_SPAN).expect("fits");
        let pieces = leaf::visible(extents, cuts, index, 0..span, Number::MAX);
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Ok(Planned::Replace(Vec::new()));
        };
        let mut bytes = vec![0; (last.range.end - first.range.start) as usize];
        if let Filled::Gone(segment) = self.read_leaf(extents, &pieces, &mut bytes)? {
            return Ok(Planned::Gone(segment));
        }
        let number = pieces.iter().map(|piece| extents[piece.extent].number).max().unwrap_or(Number::ZERO);
        Ok(Planned::Replace(vec![Replacement {
            old: (0..extents.len()).collect(),
            start: first.range.start,
            number,
            keep: None,
            payload: Payload::new(&bytes),
        }]))
    }

    /// Replaces extents of an object and logs its new state.
    fn rewrite(&self, object: &Object, rewrite: &Rewrite<'_>, purpose: Purpose) -> Result<()> {
        let (Object::Entry(key) | Object::Leaf(key, _)) = object;
        // What a dropped keyspace had is released, not moved. Asked again under the lock, for it may be dropped meanwhile.
        while self.keyspaces.contains(key.0) {
            let done = match object {
                Object::Entry(key) => self.rewrite_entry(key, rewrite, purpose)?,
                Object::Leaf(key, leaf) => self.rewrite_leaf(key, leaf, rewrite, purpose)?,
            };
            if done {
                break;
            }
        }
        Ok(())
    }

    fn rewrite_entry(&self, key: &EntryKey, rewrite: &Rewrite<'_>, purpose: Purpose) -> Result<bool> {
        let old = self.loaded(self.entry(key, Wait::Allowed))?;
        let mut replacements: Vec<Vec<Replacement>> = Vec::with_capacity(old.blobs.len());
        for blob in &old.blobs {
            match rewrite(&blob.leaf, &blob.cuts, 0)? {
                Planned::Replace(planned) => replacements.push(planned),
                Planned::Gone(segment) => {
                    let now = self.loaded(self.entry(key, Wait::Allowed))?;
                    return self.stale(key, segment, Arc::ptr_eq(&now, &old));
                }
            }
        }
        let wanted = match purpose {
            Purpose::LogSegment { is_oldest } => !old.blobs.is_empty() || !is_oldest,
            Purpose::BulkSegment | Purpose::Defragment => false,
        };
        if !wanted && replacements.iter().all(Vec::is_empty) {
            return Ok(true);
        }
        let mut commit = self.commit.lock();
        if !self.keyspaces.contains(key.0) {
            return Ok(true);
        }
        let mut shard = self.entries.lock(key);
        if !shard.find(key).is_some_and(|now| Arc::ptr_eq(&now, &old)) {
            return Ok(false);
        }
        // A pin may have come while the payload was read; none can while the shard is locked.
        if purpose == Purpose::Defragment && !self.pins_of(key).is_empty() {
            return Ok(true);
        }
        let flat: Vec<&Replacement> = replacements.iter().flatten().collect();
        let state = RefCell::new(Record::Entry(EntryState {
            keyspace: key.0,
            key: key.1.clone(),
            entry: Entry::clone(&old),
        }));
        let fill = |places: &[Place]| {
            let mut places = places.iter();
            let mut entry = Entry::clone(&old);
            for (blob, replacements) in entry.blobs.iter_mut().zip(&replacements) {
                blob.leaf = replaced(&blob.leaf, replacements, &mut places, 0);
            }
            *state.borrow_mut() = Record::Entry(EntryState { keyspace: key.0, key: key.1.clone(), entry });
        };
        let _holds = self.log_rewrite(&mut commit, key.0, &flat, &fill, &state)?;
        let Record::Entry(EntryState { entry, .. }) = state.into_inner() else { return Ok(true) };
        for (before, after) in old.blobs.iter().zip(&entry.blobs) {
            self.recount(key, after.id, 0, &before.leaf, &after.leaf);
        }
        self.entries.change(&mut shard, key, Arc::new(entry));
        Ok(true)
    }

    fn rewrite_leaf(
        &self,
        key: &EntryKey,
        id: &LeafKey,
        rewrite: &Rewrite<'_>,
        purpose: Purpose,
    ) -> Result<bool> {
        let entry = self.loaded(self.entry(key, Wait::Allowed))?;
        let Some(blob) = entry.blobs.iter().find(|blob| blob.id == id.1) else {
            return self.release_orphan(key, id);
        };
        let old = self.loaded(self.leaf(id, Wait::Allowed))?;
        let replacements = match rewrite(&old.extents, &blob.cuts, id.2)? {
            Planned::Replace(planned) => planned,
            Planned::Gone(segment) => {
                let now = self.loaded(self.leaf(id, Wait::Allowed))?;
                return self.stale(key, segment, Arc::ptr_eq(&now, &old));
            }
        };
        let wanted = match purpose {
            Purpose::LogSegment { is_oldest } => !old.extents.is_empty() || !is_oldest,
            Purpose::BulkSegment | Purpose::Defragment => false,
        };
        if !wanted && replacements.is_empty() {
            return Ok(true);
        }
        let mut commit = self.commit.lock();
        if !self.keyspaces.contains(key.0) {
            return Ok(true);
        }
        let mut entries = self.entries.lock(key);
        // Joining depends on the cuts, and on nobody looking back.
        let now = entries.find(key);
        let cuts =
            now.as_ref().and_then(|now| now.blobs.iter().find(|now| now.id == id.1)).map(|now| &now.cuts);
        let mut shard = self.leaves.lock(id);
        let is_same = shard.find(id).is_some_and(|now| Arc::ptr_eq(&now, &old));
        if cuts != Some(&blob.cuts) || !is_same {
            return Ok(false);
        }
        if purpose == Purpose::Defragment && !self.pins_of(key).is_empty() {
            return Ok(true);
        }
        let record = |leaf| {
            Record::Leaf(LeafState { keyspace: id.0, key: key.1.clone(), blob: id.1, index: id.2, leaf })
        };
        let state = RefCell::new(record(Leaf::clone(&old)));
        let flat: Vec<&Replacement> = replacements.iter().collect();
        let fill = |places: &[Place]| {
            let extents = replaced(&old.extents, &replacements, &mut places.iter(), id.2);
            *state.borrow_mut() = record(Leaf { applied: old.applied, extents });
        };
        let _holds = self.log_rewrite(&mut commit, key.0, &flat, &fill, &state)?;
        let Record::Leaf(LeafState { leaf, .. }) = state.into_inner() else { return Ok(true) };
        self.recount(key, id.1, id.2, &old.extents, &leaf.extents);
        self.leaves.change(&mut shard, id, Arc::new(leaf));
        Ok(true)
    }

    /// What to do about an object that refers to a segment which is not there: look again, unless it is the same as before.
    fn stale(&self, key: &EntryKey, segment: SegmentId, is_same: bool) -> Result<bool> {
        if is_same && self.keyspaces.contains(key.0) {
            return Err(lost(key, segment));
        }
        Ok(false)
    }

    /// Releases a leaf whose blob is gone. It waits to be collected, and until then counts as live; nobody would move it, and so
    /// it would seem to be live and nobody's. False if it has to be looked at again.
    fn release_orphan(&self, key: &EntryKey, id: &LeafKey) -> Result<bool> {
        self.loaded(self.leaf(id, Wait::Allowed))?;
        let _commit = self.commit.lock();
        let mut entries = self.entries.lock(key);
        let is_gone = |entry: Arc<Entry>| entry.blobs.iter().all(|blob| blob.id != id.1);
        Ok(entries.find(key).is_some_and(is_gone) && self.release_locked(id))
    }

    /// Places the payload of replacements, lets `fill` make the state from the places, and logs it. Bulk segments
    /// are held until the caller has counted what is live.
    fn log_rewrite(
        &self,
        commit: &mut crate::store::CommitState,
        keyspace: KeyspaceId,
        replacements: &[&Replacement],
        fill: &dyn Fn(&[Place]),
        state: &RefCell<Record>,
    ) -> Result<Vec<SegmentHold>> {
        let mut bulk = Vec::with_capacity(replacements.len());
        let mut holds = Vec::new();
        let mut inline = Vec::new();
        for replacement in replacements {
            if replacement.payload.len() >= REWRITTEN_BULK_MIN {
                let (place, hold) =
                    self.with_reserve(|| self.log.place_bulk(keyspace, &replacement.payload))?;
                bulk.push(Some(place));
                holds.push(hold);
            } else {
                bulk.push(None);
                inline.push(&replacement.payload);
            }
        }
        let size = Cell::new(0);
        let body = |places: &[Place], out: &mut Vec<u8>| {
            let before = out.len();
            let mut places = places.iter().copied();
            let all: Vec<Place> =
                bulk.iter().map(|place| place.or_else(|| places.next()).unwrap_or_default()).collect();
            fill(&all);
            state.borrow().encode(out);
            size.set(out.len() - before);
        };
        let draft = Draft { payloads: &inline, body: &body };
        match self.append(commit, &draft, Durability::Memory) {
            Err(error) if error.kind() == ErrorKind::Full && self.segments.release_reserve() => {
                self.append(commit, &draft, Durability::Memory)?
            }
            result => result?,
        };
        let moved: usize = replacements.iter().map(|replacement| replacement.payload.len()).sum();
        self.said_again.fetch_add((size.get() + moved) as u64, Ordering::Relaxed);
        Ok(holds)
    }

    /// Moves the counts of live bytes from the old extents to the new ones, and notes who owns new bulk payload.
    fn recount(&self, key: &EntryKey, blob: BlobId, index: u64, old: &[Extent], new: &[Extent]) {
        for extent in new.iter().filter(|extent| !old.contains(extent)) {
            self.retain_extent(extent);
            let write = Written {
                offset: index * LEAF_SPAN + u64::from(extent.start),
                len: extent.len,
                place: extent.place,
                checksums: extent.checksums.clone(),
            };
            self.note_owner(key, blob, &write);
        }
        old.iter().filter(|extent| !new.contains(extent)).for_each(|extent| self.release_extent(extent));
        self.note_fragmented(key, blob, index, new);
    }

    /// Unwraps a load that was allowed to wait.
    pub(crate) fn loaded<T>(&self, result: Result<T, Miss>) -> Result<T> {
        result.map_err(|miss| match miss {
            Miss::Failed(error) => error,
            Miss::WouldBlock => Error::internal("a call that may wait would not"),
        })
    }
}

/// The list with replacements made; numbers stay in order.
fn replaced<'a>(
    extents: &[Extent],
    replacements: &[Replacement],
    places: &mut impl Iterator<Item = &'a Place>,
    index: u64,
) -> Vec<Extent> {
    let gone: BTreeSet<usize> =
        replacements.iter().flat_map(|replacement| replacement.old.iter().copied()).collect();
    let kept = extents.iter().enumerate().filter(|(position, _)| !gone.contains(position));
    let mut all: Vec<Extent> = kept.map(|(_, extent)| extent.clone()).collect();
    for replacement in replacements {
        let place = places.next().copied().unwrap_or_default();
        match &replacement.keep {
            Some(extent) => all.push(Extent { place, ..extent.clone() }),
            None => {
                let write = Written {
                    offset: index * LEAF_SPAN + u64::from(replacement.start),
                    len: u32::try_from(replacement.payload.len()).expect("a leaf's payload is small"),
                    place,
                    checksums: replacement.payload.checksums().clone(),
                };
                all.extend(extents_of(&write, replacement.number).map(|(_, extent)| extent));
            }
        }
    }
    all.sort_by_key(|extent| extent.number);
    all
}

/// Forgets what no pin can see any more; whether anything remains to be remembered.
pub(crate) fn forget_history(blob: &mut Blob, pins: &[Number]) -> Vec<Extent> {
    crate::apply::prune_heads(blob, pins);
    leaf::prune(&mut blob.leaf, &blob.cuts, 0, pins)
}

/// Moved payload that may wait to be written: what a commit that comes then waits for in addition.
const MOVED_PENDING_MAX: usize = 1 << 20;

/// Rewritten payload of this size goes to bulk segments, though new payload would not: nobody waits for it, and payload that was bulk, and is
/// moved leaf by leaf, must stay bulk.
const REWRITTEN_BULK_MIN: usize = 16 << 10;

#[cfg(test)]
mod tests;
