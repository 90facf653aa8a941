//! Checkpoints: changed objects are written to the index, and a manifest says where the log's tail begins.
//!
//! The order is what makes it safe: (1) while no commit is being applied, a position in the log is taken, and everything that the manifest
//! says of it; (2) in the same moment changed objects are collected, so that the index will say what holds at the position, no more and
//! no less, and counts of live bytes stay exact; (3) the log is flushed, so that nothing in the index is ahead of the log; (4) the table is
//! written; (5) the manifest names it and the position; (6) objects that have not changed again are clean.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use parking_lot::MutexGuard;
use tyr_types::{ErrorKind, KeyspaceId, Result};
use tyr_wire::{
    entry::Entry,
    extent::{Leaf, Place, SegmentId},
    frame::SegmentKind,
};

use crate::{
    backlog::Owner,
    garbage::Garbage,
    index::{Merge, NewTable, TableId},
    index_key::{self, EntryKey, LeafKey},
    log::LogPosition,
    manifest::{Manifest, SEGMENT_LIVE_MAX, SegmentState},
    segment::Segment,
    shortage::{self, Shortage},
    store::{CommitState, Store},
};

/// What the checkpoint lock guards.
pub(crate) struct CheckpointState {
    /// Where a replay would begin.
    pub(crate) position: LogPosition,
    /// The manifest as it was last written, for changes of the table list alone.
    pub(crate) manifest: Manifest,
    /// Segments that hold nothing live any more; emptied once a manifest without them is durable.
    pub(crate) evacuated: BTreeSet<SegmentId>,
    /// Segments that are damaged and so cannot be emptied.
    pub(crate) kept: BTreeSet<SegmentId>,
    /// Segments taken when the last checkpoint was made.
    pub(crate) taken: u64,
    /// Log bytes written when the last checkpoint was made.
    pub(crate) log_bytes: u64,
    /// What the last try lacked, if that was room.
    pub(crate) lacked: Option<Shortage>,
}

impl CheckpointState {
    /// The segments that the last manifest names.
    pub(crate) fn known(&self) -> BTreeSet<SegmentId> {
        self.manifest.segments.iter().map(|known| known.id).collect()
    }
}

/// What the lock of the one merge of tables guards.
#[derive(Default)]
pub(crate) struct Merging {
    /// What the last try lacked, if that was room.
    lacked: Option<Shortage>,
    /// Tables of a merge that failed: it is not tried again while the same are to be merged.
    failed: Option<Merge>,
}

impl Merging {
    /// Whether a merge is not tried any more because it has failed.
    pub(crate) fn is_put_aside(&self) -> bool {
        self.failed.is_some()
    }
}

/// What a store holds at a position of the log and the index does not.
struct Image {
    /// Without the tables.
    manifest: Manifest,
    entries: Vec<(EntryKey, Arc<Entry>)>,
    leaves: Vec<(LeafKey, Arc<Leaf>)>,
    owners: Vec<(Place, Owner)>,
    /// Bulk segments of dropped keyspaces, which the manifest does not name.
    dropped: Vec<SegmentId>,
}

impl Store {
    /// Writes a checkpoint. Afterwards a crash costs only the replay of what follows.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_open()?;
        self.checkpoint_as(false)
    }

    /// As [`Store::checkpoint`], unless it surely has no more room than when it last had none.
    pub(crate) fn checkpoint_if_room(&self) -> Result<()> {
        let lacked = self.checkpoint.lock().lacked;
        self.check_room(lacked)?;
        self.checkpoint()
    }

    /// As [`Store::checkpoint`]; `clean` says that nothing will follow.
    pub(crate) fn checkpoint_as(&self, clean: bool) -> Result<()> {
        let mut state = self.checkpoint.lock();
        self.backlog.lock().checkpoint_due = false;
        let log_bytes = self.log.counters().log_bytes.load(Ordering::Relaxed);
        let image = self.take_image(&state, clean);
        let dropped = image.dropped.clone();
        let expected = self.expected_shortage(2 * self.dirty_bytes());
        let written = self.write_image(image);
        state.lacked = shortage::met(&written, expected);
        state.manifest = written.inspect_err(|_| self.backlog.lock().checkpoint_due = true)?;
        state.position = state.manifest.position;
        state.log_bytes = log_bytes;
        let evacuated: Vec<SegmentId> = std::mem::take(&mut state.evacuated).into_iter().collect();
        self.segments.empty(&evacuated);
        self.segments.empty(&dropped);
        let taken = self.segments.taken();
        let filled = usize::try_from(taken - state.taken).unwrap_or(0);
        state.taken = taken;
        let keep = if self.is_space_short() { 0 } else { IDLE_SEGMENTS_MIN + 2 * filled };
        self.segments.trim(keep, |keyspace| self.keyspaces.contains(keyspace))?;
        self.segments.restore_reserve();
        Ok(())
    }

    /// Steps 1 and 2.
    fn take_image(&self, state: &CheckpointState, clean: bool) -> Image {
        let commit = self.commit.lock();
        let mut manifest = self.begin_manifest(&commit, clean);
        let (segments, next_segment, unused_segment) = self.segments.in_use();
        let (dropped, kept): (Vec<_>, Vec<_>) =
            segments.into_iter().partition(|segment| self.is_dropped(segment.kind));
        manifest.segments = segment_states(&kept, &state.evacuated);
        (manifest.next_segment, manifest.unused_segment) = (next_segment, unused_segment);
        Image {
            manifest,
            entries: self.entries.collect_dirty(),
            leaves: self.leaves.collect_dirty(),
            // They stay where a compaction finds them until the index has them.
            owners: self.backlog.lock().owners.clone(),
            dropped: dropped.iter().map(|segment| segment.id).collect(),
        }
    }

    /// Steps 3 to 6.
    fn write_image(&self, image: Image) -> Result<Manifest> {
        let Image { mut manifest, mut entries, mut leaves, owners, .. } = image;
        self.log.flush()?;
        let table = self.write_table(&mut entries, &mut leaves, &owners)?;
        manifest.tables = self.index.tables();
        if let Some(table) = &table {
            manifest.tables.insert(0, table.summary());
        }
        self.with_reserve(|| manifest.write(&*self.disk))?;
        self.index.install(table, &[]);
        entries.iter().for_each(|(key, entry)| self.entries.mark_clean(key, entry));
        leaves.iter().for_each(|(key, leaf)| self.leaves.mark_clean(key, leaf));
        self.backlog.lock().owners.drain(..owners.len());
        Ok(manifest)
    }

    /// Writes a table of these objects, which it sorts.
    pub(crate) fn write_table(
        &self,
        entries: &mut [(EntryKey, Arc<Entry>)],
        leaves: &mut [(LeafKey, Arc<Leaf>)],
        owners: &[(Place, Owner)],
    ) -> Result<Option<NewTable>> {
        entries.sort_unstable_by(|one, two| one.0.cmp(&two.0));
        leaves.sort_unstable_by_key(|(key, _)| *key);
        let owners_by_place = by_place(owners);
        self.with_reserve(|| {
            let entries = entries.iter().map(|(key, entry)| {
                let value = (!entry.blobs.is_empty()).then(|| encoded(|out| entry.encode(out)));
                (index_key::entry_key(key), value)
            });
            let leaves = leaves.iter().map(|(key, leaf)| {
                let value = (!leaf.extents.is_empty()).then(|| encoded(|out| leaf.encode(out)));
                (index_key::leaf_key(key), value)
            });
            let owners = owners_by_place.iter().map(|(place, owner)| {
                (index_key::bulk_key(place.segment, place.position), Some(encoded(|out| owner.encode(out))))
            });
            self.index.build(entries.chain(leaves).chain(owners))
        })
    }

    /// All of a manifest but segments and tables.
    fn begin_manifest(&self, commit: &CommitState, clean: bool) -> Manifest {
        let position = self.log.position();
        let work = self.backlog.lock();
        let keyspaces = self.keyspaces.all().into_iter().map(|keyspace| {
            let record = keyspace.record();
            (keyspace.state.clone(), record.blobs, record.bytes)
        });
        Manifest {
            identity: self.identity,
            epoch: self.epoch,
            clean,
            segment_size: self.segments.capacity(),
            position,
            last: commit.next.previous(),
            next_segment: SegmentId(0),
            unused_segment: SegmentId(0),
            tables: Vec::new(),
            segments: Vec::new(),
            next_keyspace: self.keyspaces.next_id().0,
            keyspaces: keyspaces.collect(),
            garbage: work.all_garbage().cloned().collect(),
            historic_entries: work.historic_entries.iter().cloned().collect(),
            historic_leaves: work.historic_leaves.iter().map(|(leaf, key)| (*leaf, key.clone())).collect(),
        }
    }

    fn is_dropped(&self, kind: SegmentKind) -> bool {
        matches!(kind, SegmentKind::Bulk(keyspace) if !self.keyspaces.contains(keyspace))
    }

    /// Runs work that frees space in the end; if there is no space for it, with the reserve.
    pub(crate) fn with_reserve<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if error.kind() == ErrorKind::Full && self.segments.release_reserve() => work(),
            result => result,
        }
    }

    /// Merges tables if it is worth it; whether it was.
    pub(crate) fn merge_tables(&self) -> Result<bool> {
        let mut merging = self.merging.lock();
        let merge = self.index.plan_merge();
        if merging.failed.is_some() && merging.failed == merge {
            return Ok(false);
        }
        merging.failed = None;
        let Some(merge) = merge else { return Ok(false) };
        self.check_room(merging.lacked)?;
        let tables = self.index.tables().into_iter().filter(|table| merge.tables().contains(&table.id));
        let expected = self.expected_shortage(tables.map(|table| table.bytes).sum());
        let merged = self.merge(&merging, &merge);
        merging.lacked = shortage::met(&merged, expected);
        if merged.as_ref().is_err_and(|error| error.kind() != ErrorKind::Full) {
            merging.failed = Some(merge);
        }
        merged.map(|()| true)
    }

    /// Merges all tables into one.
    pub(crate) fn merge_all_tables(&self) -> Result<()> {
        let merging = self.merging.lock();
        self.index.plan_full_merge().map_or(Ok(()), |merge| self.merge(&merging, &merge))
    }

    /// Merges tables as planned, one merge at a time. Checkpoints go on meanwhile; only the manifest is changed under their lock.
    fn merge(&self, _merging: &MutexGuard<'_, Merging>, merge: &Merge) -> Result<()> {
        let kept = self.kept_keyspaces();
        let keep = |key: &[u8]| self.keeps(key, &kept);
        let table = self.with_reserve(|| self.index.merge(merge, &keep))?;
        let replaced: Vec<TableId> = merge.tables().to_vec();
        let mut state = self.checkpoint.lock();
        let mut manifest = state.manifest.clone();
        let first = manifest.tables.iter().position(|table| replaced.contains(&table.id)).unwrap_or(0);
        manifest.tables.retain(|table| !replaced.contains(&table.id));
        if let Some(table) = &table {
            manifest.tables.insert(first, table.summary());
        }
        self.with_reserve(|| manifest.write(&*self.disk))?;
        self.index.install(table, &replaced);
        state.manifest = manifest;
        self.index.remove_files(&replaced)
    }

    /// The keyspaces whose index keys mean something: those that there are, and those of which something is still to be released, now or after a
    /// crash. What is dropped later is among them; ids are not reused, so the others never come back.
    fn kept_keyspaces(&self) -> BTreeSet<KeyspaceId> {
        let checkpoint = self.checkpoint.lock();
        // Who drops a keyspace removes it before what is left of it is noted; both under this lock.
        let _commit = self.commit.lock();
        let of_keyspace = |garbage: &Garbage| match garbage {
            Garbage::Keyspace(keyspace) => Some(*keyspace),
            _ => None,
        };
        let mut kept: BTreeSet<KeyspaceId> =
            self.keyspaces.all().iter().map(|keyspace| keyspace.state.id).collect();
        // Those that the manifest has are what a crash may come back to.
        kept.extend(checkpoint.manifest.keyspaces.iter().map(|(state, ..)| state.id));
        kept.extend(checkpoint.manifest.garbage.iter().filter_map(of_keyspace));
        kept.extend(self.backlog.lock().all_garbage().filter_map(of_keyspace));
        kept
    }

    /// Whether an index key still means anything. Once it does not, it never will again: ids are not reused.
    fn keeps(&self, key: &[u8], kept: &BTreeSet<KeyspaceId>) -> bool {
        match index_key::parse(key) {
            Some(index_key::IndexKey::Entry((keyspace, _)) | index_key::IndexKey::Leaf((keyspace, _, _))) => {
                kept.contains(&keyspace)
            }
            Some(index_key::IndexKey::Bulk(segment, _)) => self.segments.find(segment).is_some(),
            None => true,
        }
    }

    /// Whether so much has changed since the last checkpoint that it is time for another.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let written = self.log.counters().log_bytes.load(Ordering::Relaxed);
        let since = written - self.checkpoint.lock().log_bytes.min(written);
        self.backlog.lock().checkpoint_due
            || since > self.options.checkpoint_size
            || self.dirty_bytes() > self.options.index_cache / 4
    }

    /// Bytes of objects in memory that the index does not have.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.entries.dirty_bytes() + self.leaves.dirty_bytes()
    }
}

fn segment_states(segments: &[Arc<Segment>], evacuated: &BTreeSet<SegmentId>) -> Vec<SegmentState> {
    let kept = segments.iter().filter(|segment| !evacuated.contains(&segment.id));
    let state = |segment: &Arc<Segment>| SegmentState {
        id: segment.id,
        kind: segment.kind,
        // A guide only, and one that a manifest bounds: small pieces count for several times what they fill.
        live: segment.live().min(SEGMENT_LIVE_MAX),
        filled: segment.filled(),
    };
    kept.map(state).collect()
}

/// The owners, one for each place: a replay notes one for the commit and one for every rewrite of the object.
fn by_place(owners: &[(Place, Owner)]) -> BTreeMap<Place, Owner> {
    let mut all: BTreeMap<Place, Owner> = BTreeMap::new();
    for (place, owner) in owners {
        all.entry(*place).and_modify(|known| known.widen(owner)).or_insert_with(|| owner.clone());
    }
    all
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// Emptied files of each kind that are kept for recycling, besides twice as many as were filled since the checkpoint before; more are given
/// back to the file system. A recycled file takes writes twice as fast as a new one, which has to be written over first.
const IDLE_SEGMENTS_MIN: usize = 2;
