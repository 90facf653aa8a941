//! What a logged transaction does to the objects in memory: the same for a commit now and for its replay later.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use rustc_hash::FxHashMap;
use tyr_types::{BlobId, Number};
use tyr_wire::{
    entry::{Blob, Cut, Entry, Head},
    extent::{CHECKSUM_BLOCK, Extent, LEAF_SPAN, Leaf},
    frame::SegmentKind,
    record::{BlobCommit, Existence, Written},
};

use crate::{
    garbage::Garbage,
    index_key::{EntryKey, LeafKey},
    leaf,
    rebase::CUTS_MAX,
    store::Store,
};

/// The objects that a transaction changes, as they are before it. An object that exists must be here, for memory may have let go of
/// it.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) entries: FxHashMap<EntryKey, Arc<Entry>>,
    pub(crate) leaves: FxHashMap<LeafKey, Arc<Leaf>>,
}

impl Store {
    /// Applies a transaction to one blob. Each object skips what it has already seen, so that a replay may begin early.
    /// The caller holds the commit lock, or is the only thread.
    pub(crate) fn apply(&self, commit: &BlobCommit, number: Number, held: &Held) {
        let key: EntryKey = (commit.keyspace, commit.key.clone());
        if !self.keyspaces.contains(commit.keyspace) {
            return;
        }
        let mut shard = self.entries.lock(&key);
        let old = shard.find(&key).or_else(|| held.entries.get(&key).cloned()).unwrap_or_default();
        let pins = self.pins_of(&key);
        let mut change = Change { store: self, key: &key, number, pins, held };
        let parts = parts(commit, number);
        for (index, extents) in parts.others {
            change.write_leaf(&(commit.keyspace, commit.blob, index), extents, &old, commit.cut);
        }
        if old.applied < number {
            let mut entry = Entry::clone(&old);
            entry.applied = number;
            change.existence(&mut entry, commit);
            change.write_entry(&mut entry, commit, parts.first);
            change.note_history(&entry);
            self.entries.change(&mut shard, &key, Arc::new(entry));
        }
        for write in &commit.writes {
            self.note_owner(&key, commit.blob, write);
        }
    }

    /// Remembers whose payload a bulk segment holds.
    pub(crate) fn note_owner(&self, key: &EntryKey, blob: BlobId, write: &Written) {
        let kind = self.segments.find(write.place.segment).map(|segment| segment.kind);
        if matches!(kind, Some(SegmentKind::Bulk(_))) {
            self.backlog.add_owner(key, blob, write.offset, write.len, write.place);
        }
    }

    /// Counts an extent's payload as live.
    pub(crate) fn retain_extent(&self, extent: &Extent) {
        self.segments.add_live(extent.place, live_bytes(extent));
    }

    /// Counts an extent's payload as dead.
    pub(crate) fn release_extent(&self, extent: &Extent) {
        self.segments.add_live(extent.place, -live_bytes(extent));
    }
}

/// The extents of a commit.
pub(crate) struct Parts {
    pub(crate) first: Vec<Extent>,
    pub(crate) others: BTreeMap<u64, Vec<Extent>>,
}

/// The extents of a commit by leaf.
pub(crate) fn parts(commit: &BlobCommit, number: Number) -> Parts {
    let mut parts = Parts { first: Vec::new(), others: BTreeMap::new() };
    let hole = |(index, range): (u64, Range<u32>)| {
        (index, Extent::hole(range.start, range.end - range.start, number))
    };
    let holes = commit.holes.iter().flat_map(|hole| leaf::split(hole.clone())).map(hole);
    for (index, extent) in holes.chain(commit.writes.iter().flat_map(|write| extents_of(write, number))) {
        match index {
            0 => parts.first.push(extent),
            _ => parts.others.entry(index).or_default().push(extent),
        }
    }
    parts
}

/// A transaction's change of one blob.
struct Change<'a> {
    store: &'a Store,
    key: &'a EntryKey,
    number: Number,
    pins: Vec<Number>,
    held: &'a Held,
}

impl Change<'_> {
    fn existence(&mut self, entry: &mut Entry, commit: &BlobCommit) {
        if matches!(commit.existence, Existence::Delete | Existence::Replace)
            && let Some(blob) = entry.blobs.last_mut().filter(|blob| blob.deleted.is_none())
        {
            blob.deleted = Some(self.number);
        }
        if matches!(commit.existence, Existence::Create | Existence::Replace) {
            entry.blobs.push(Blob {
                id: commit.blob,
                heads: Vec::new(),
                cuts: Vec::new(),
                reach: 0,
                leaf: Vec::new(),
                deleted: None,
            });
        }
        self.drop_deleted(entry);
    }

    /// Forgets deleted blobs that no pin can see.
    fn drop_deleted(&self, entry: &mut Entry) {
        let mut kept = Vec::with_capacity(entry.blobs.len());
        for blob in entry.blobs.drain(..) {
            let is_seen = blob.deleted.is_none_or(|deleted| {
                self.pins.iter().any(|pin| blob.id.to_u64() <= pin.to_u64() && *pin < deleted)
            });
            if is_seen {
                kept.push(blob);
            } else {
                blob.leaf.iter().for_each(|extent| self.store.release_extent(extent));
                self.store.backlog.add_garbage(Garbage::blob(self.key, &blob));
            }
        }
        entry.blobs = kept;
    }

    fn write_entry(&self, entry: &mut Entry, commit: &BlobCommit, first: Vec<Extent>) {
        let Some(blob) = entry.blobs.last_mut().filter(|blob| blob.deleted.is_none()) else { return };
        let attributes = match (&commit.attributes, blob.head()) {
            (Some(attributes), _) => Arc::new(attributes.clone()),
            (None, Some(head)) => head.attributes.clone(),
            (None, None) => Arc::default(),
        };
        blob.heads.push(Arc::new(Head { blob: blob.id, number: self.number, size: commit.size, attributes }));
        prune_heads(blob, &self.pins);
        if let Some(from) = commit.cut.filter(|&from| from < blob.reach) {
            self.cut(blob, from);
        }
        let end = commit.writes.iter().map(|write| write.offset + u64::from(write.len)).max();
        blob.reach = blob.reach.max(end.unwrap_or(0));
        for extent in first {
            if extent.is_hole() && blob.leaf.is_empty() {
                continue;
            }
            self.store.retain_extent(&extent);
            self.insert(&mut blob.leaf, extent, &blob.cuts, 0);
        }
        self.store.note_fragmented(self.key, blob.id, 0, &blob.leaf);
    }

    fn cut(&self, blob: &mut Blob, from: u64) {
        if self.pins.is_empty() {
            // The new cut does all that a former one at or beyond it did.
            blob.cuts.retain(|cut| cut.from < from);
        }
        blob.cuts.push(Cut { number: self.number, from });
        for extent in leaf::prune(&mut blob.leaf, &blob.cuts, 0, &self.pins) {
            self.store.release_extent(&extent);
        }
        let is_worth_rebasing = blob.cuts.len() > CUTS_MAX;
        self.store.backlog.add_garbage(Garbage::cut(self.key, blob, from, is_worth_rebasing));
    }

    fn write_leaf(&self, key: &LeafKey, extents: Vec<Extent>, entry: &Entry, cut: Option<u64>) {
        let store = self.store;
        let mut shard = store.leaves.lock(key);
        let old = shard.find(key).or_else(|| self.held.leaves.get(key).cloned()).unwrap_or_default();
        if old.applied >= self.number || (old.extents.is_empty() && extents.iter().all(Extent::is_hole)) {
            return;
        }
        let mut cuts =
            entry.current().filter(|blob| blob.id == key.1).map(|blob| blob.cuts.clone()).unwrap_or_default();
        cuts.extend(cut.map(|from| Cut { number: self.number, from }));
        let mut leaf = Leaf::clone(&old);
        leaf.applied = self.number;
        for extent in extents {
            store.retain_extent(&extent);
            self.insert(&mut leaf.extents, extent, &cuts, key.2);
        }
        store.note_fragmented(self.key, key.1, key.2, &leaf.extents);
        if !self.pins.is_empty() {
            store.backlog.add_historic_leaf(self.key, key);
        }
        store.leaves.change(&mut shard, key, Arc::new(leaf));
    }

    /// Adds an extent and drops what nobody can see any more: cheaply while the leaf is small and nobody looks back.
    fn insert(&self, extents: &mut Vec<Extent>, extent: Extent, cuts: &[Cut], index: u64) {
        let mut dropped = Vec::new();
        if self.pins.is_empty() {
            dropped = leaf::overwrite(extents, extent);
        } else {
            extents.push(extent);
        }
        if !self.pins.is_empty() || extents.len().is_multiple_of(PRUNE_EVERY) {
            dropped.extend(leaf::prune(extents, cuts, index, &self.pins));
        }
        dropped.iter().for_each(|extent| self.store.release_extent(extent));
    }

    fn note_history(&self, entry: &Entry) {
        let has_history = entry.blobs.len() > 1
            || entry.blobs.iter().any(|blob| blob.heads.len() > 1 || blob.deleted.is_some());
        if has_history || !self.pins.is_empty() {
            self.store.backlog.add_historic_entry(self.key);
        }
    }
}

/// Drops the heads that neither the newest reader nor a pin can see.
pub(crate) fn prune_heads(blob: &mut Blob, pins: &[Number]) {
    let next: Vec<Number> = blob.heads.iter().skip(1).map(|head| head.number).collect();
    let mut position = 0;
    blob.heads.retain(|head| {
        let successor = next.get(position).copied();
        position += 1;
        successor.is_none_or(|next| pins.iter().any(|pin| head.number <= *pin && *pin < next))
    });
}

/// The extents of a write, leaf by leaf. Each refers to the checksum blocks of the payload that it needs.
pub(crate) fn extents_of(write: &Written, number: Number) -> impl Iterator<Item = (u64, Extent)> + '_ {
    let block = CHECKSUM_BLOCK as u64;
    leaf::split(write.offset..write.offset + u64::from(write.len)).map(move |(index, range)| {
        let narrow = |value: u64| u32::try_from(value).expect("payload is bounded");
        let from = (index * LEAF_SPAN + u64::from(range.start)) - write.offset;
        let to = from + u64::from(range.end - range.start);
        let first = from / block;
        let end = to.next_multiple_of(block).min(u64::from(write.len));
        let blocks =
            usize::try_from(first).expect("bounded")..usize::try_from(to.div_ceil(block)).expect("bounded");
        let extent = Extent {
            start: range.start,
            len: range.end - range.start,
            number,
            place: write.place.advanced(narrow(first * block)),
            skip: narrow(from - first * block),
            stored: narrow(end - first * block),
            checksums: write.checksums.part(blocks),
        };
        (index, extent)
    })
}

/// What an extent counts for in its segment; a hole is in none.
pub(crate) fn live_bytes(extent: &Extent) -> i64 {
    if extent.is_hole() { 0 } else { i64::from(extent.stored) + EXTENT_OVERHEAD }
}

/// What an extent costs the log besides its payload, roughly: its record.
const EXTENT_OVERHEAD: i64 = 64;

/// Extents that are covered by several later ones are only found by a full pruning, which is done whenever a leaf has grown to a multiple
/// of this.
const PRUNE_EVERY: usize = 16;
