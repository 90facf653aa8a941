//! Making the index anew from the log, when its tables are damaged.
//!
//! Every object is said in full by the log: by all commits that made it what it is, or by a state that was logged when a segment that
//! mentioned it was emptied, and by the commits behind that. So the log segments up to the manifest's position are replayed from the
//! first on, into an index that begins empty. On the way an object may look wrong, for a commit may be met whose predecessors have been
//! thrown away; the state that was logged instead of those follows later and sets it right. What is left over then is taken away in a
//! second pass: leaves of blobs that are gone, what only pins could see that are over, and what nobody can see. The same pass counts what is live and
//! notes who owns bulk payload.
//!
//! Nothing is changed on disk but for new tables, which a checkpoint makes the store's when all is done. Keyspaces and their totals are the
//! manifest's. Memory is bounded by the caches, and the keys and cuts of blobs that are longer than a leaf.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use rustc_hash::FxHashMap;
use tyr_types::{BlobId, Error, Key, KeyspaceId, Number, Result};
use tyr_wire::{
    Reader,
    entry::{Blob, Cut, Entry},
    extent::{Extent, LEAF_SPAN, Leaf, SegmentId},
    frame::SegmentKind,
    record::Record,
};

use crate::{
    apply::live_bytes,
    backlog::Work,
    frames::{FrameScan, Scanned},
    index_key::{self, EntryKey, IndexKey},
    leaf,
    manifest::Manifest,
    relocate::forget_history,
    segment::Segment,
    store::Store,
};

/// Blobs that have leaves besides the first, with what their leaves depend on.
type Long = FxHashMap<(KeyspaceId, BlobId), (Key, Vec<Cut>)>;

impl Store {
    /// Brings the index, which is empty, to what the store was at the manifest's position. The caller is the only thread.
    pub(crate) fn rebuild(&self, manifest: &Manifest) -> Result<()> {
        for segment in self.logs_before(manifest) {
            self.rebuild_from(&segment, manifest)
                .map_err(|error| error.context("the index cannot be rebuilt; nothing was changed"))?;
        }
        self.spill()?;
        // Noted on the way, and all done by the second pass.
        *self.backlog.lock() = Work::default();
        let mut live = BTreeMap::new();
        let long = self.tidy_entries(&mut live)?;
        self.tidy_leaves(&long, &mut live)?;
        self.spill()?;
        for segment in self.segments.all() {
            segment.set_live(live.get(&segment.id).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// The log segments that begin before the manifest's position, in the order of the log.
    fn logs_before(&self, manifest: &Manifest) -> Vec<Arc<Segment>> {
        let named = |segment: &Segment| manifest.segments.iter().any(|state| state.id == segment.id);
        let all = self.segments.all().into_iter();
        let mut logs: Vec<Arc<Segment>> =
            all.filter(|segment| segment.kind == SegmentKind::Log && named(segment)).collect();
        logs.sort_by_key(|segment| segment.first_sequence());
        logs.retain(|segment| segment.first_sequence() < manifest.position.sequence);
        logs
    }

    fn rebuild_from(&self, segment: &Arc<Segment>, manifest: &Manifest) -> Result<()> {
        let position = manifest.position.place;
        let end = match segment.id == position.segment {
            true => u64::from(position.position),
            false => segment.filled(),
        };
        let mut scan = FrameScan::new(segment.clone());
        while scan.position() < end
            && let Scanned::Frame(frame) = scan.next()?
        {
            for record in frame.records() {
                self.rebuild_record(record?.1)?;
            }
            if self.entries.dirty_bytes() + self.leaves.dirty_bytes() > self.options.index_cache / 4 {
                self.spill()?;
            }
        }
        scan.check_end(end)
    }

    fn rebuild_record(&self, record: Record) -> Result<()> {
        match record {
            Record::Commit(commit) => {
                for blob in commit.blobs.iter().filter(|blob| self.keyspaces.contains(blob.keyspace)) {
                    let held = self.hold(blob)?;
                    self.apply(blob, commit.number, &held);
                }
            }
            Record::Entry(state) if self.keyspaces.contains(state.keyspace) => {
                let key = (state.keyspace, state.key);
                self.entries.change(&mut self.entries.lock(&key), &key, Arc::new(state.entry));
            }
            Record::Leaf(state) if self.keyspaces.contains(state.keyspace) => {
                // Its entry may follow later.
                let id = (state.keyspace, state.blob, state.index);
                self.leaves.change(&mut self.leaves.lock(&id), &id, Arc::new(state.leaf));
            }
            // The manifest knows the keyspaces.
            Record::Entry(_) | Record::Leaf(_) | Record::Keyspace(_) | Record::KeyspaceDropped(_) => {}
        }
        Ok(())
    }

    /// Writes what has changed to a table, so that memory may forget it. No manifest names the table yet.
    fn spill(&self) -> Result<()> {
        let (mut entries, mut leaves) = (self.entries.collect_dirty(), self.leaves.collect_dirty());
        let owners = std::mem::take(&mut self.backlog.lock().owners);
        let table = self.write_table(&mut entries, &mut leaves, &owners)?;
        self.index.install(table, &[]);
        entries.iter().for_each(|(key, entry)| self.entries.mark_clean(key, entry));
        leaves.iter().for_each(|(key, leaf)| self.leaves.mark_clean(key, leaf));
        Ok(())
    }

    /// Takes from every entry what nobody can see.
    fn tidy_entries(&self, live: &mut BTreeMap<SegmentId, i64>) -> Result<Long> {
        let mut long = Long::default();
        for item in self.index.scan(Bound::Unbounded) {
            let (key, value) = item?;
            let Some(IndexKey::Entry(key)) = index_key::parse(&key) else { continue };
            let old = Entry::decode(&mut Reader::new(&value)).map_err(Error::from)?;
            let pins = self.pins_of(&key);
            let entry = tidied(&old, &pins);
            if !pins.is_empty() && entry != tidied(&old, &[]) {
                self.backlog.add_historic_entry(&key);
            }
            for blob in &entry.blobs {
                self.count(&key, blob.id, 0, &blob.leaf, live)?;
            }
            for blob in entry.blobs.iter().filter(|blob| blob.reach > LEAF_SPAN) {
                long.insert((key.0, blob.id), (key.1.clone(), Blob::clone(blob).cuts));
            }
            if entry != old {
                self.entries.change(&mut self.entries.lock(&key), &key, Arc::new(entry));
            }
            self.spill_if_full()?;
        }
        Ok(long)
    }

    /// As [`Store::tidy_entries`], of the other leaves.
    fn tidy_leaves(&self, long: &Long, live: &mut BTreeMap<SegmentId, i64>) -> Result<()> {
        for item in self.index.scan(Bound::Unbounded) {
            let (key, value) = item?;
            let Some(IndexKey::Leaf(id)) = index_key::parse(&key) else { continue };
            let old = Leaf::decode(&mut Reader::new(&value)).map_err(Error::from)?;
            let mut leaf = old.clone();
            match long.get(&(id.0, id.1)) {
                Some((key, cuts)) => {
                    let owner = (id.0, key.clone());
                    let pins = self.pins_of(&owner);
                    leaf::prune(&mut leaf.extents, cuts, id.2, &pins);
                    if !pins.is_empty() {
                        // What is there only for a pin may go when that does.
                        self.backlog.add_historic_leaf(&owner, &id);
                    }
                    self.count(&owner, id.1, id.2, &leaf.extents, live)?;
                }
                None => leaf.extents.clear(),
            }
            if leaf != old {
                self.leaves.change(&mut self.leaves.lock(&id), &id, Arc::new(leaf));
            }
            self.spill_if_full()?;
        }
        Ok(())
    }

    fn spill_if_full(&self) -> Result<()> {
        let is_full = self.entries.dirty_bytes() + self.leaves.dirty_bytes() > self.options.index_cache / 4;
        if is_full || self.backlog.lock().owners.len() > OWNERS_MAX { self.spill() } else { Ok(()) }
    }

    /// Counts extents as live and notes who owns them.
    fn count(
        &self,
        key: &EntryKey,
        blob: BlobId,
        index: u64,
        extents: &[Extent],
        live: &mut BTreeMap<SegmentId, i64>,
    ) -> Result<()> {
        for extent in extents.iter().filter(|extent| !extent.is_hole()) {
            *live.entry(extent.place.segment).or_default() += live_bytes(extent);
        }
        self.note_owners(key, blob, index, extents)
    }
}

/// An entry without what nobody can see: the newest reader, and those at pinned numbers.
pub(crate) fn tidied(entry: &Entry, pins: &[Number]) -> Entry {
    let mut entry = entry.clone();
    entry.blobs.retain(|blob| {
        blob.deleted
            .is_none_or(|deleted| pins.iter().any(|pin| blob.id.to_u64() <= pin.to_u64() && *pin < deleted))
    });
    for blob in &mut entry.blobs {
        forget_history(blob, pins);
    }
    entry
}

/// So many notes of owners are kept in memory.
const OWNERS_MAX: usize = 100_000;

#[cfg(test)]
mod tests;
