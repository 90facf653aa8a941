//! What deleted blobs, truncated blobs, and dropped keyspaces leave behind, and how it is released: some at a time, in the background.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use tyr_types::{BlobId, ErrorKind, Key, KeyspaceId, Result};
use tyr_wire::{
    Malformed, Reader,
    entry::{Blob, Entry},
    extent::{Extent, LEAF_SPAN, Leaf, Place, SegmentId},
    varint::{write_prefixed, write_varint},
};

use crate::{
    apply::live_bytes,
    index_key::{self, EntryKey, IndexKey, LeafKey},
    manifest::decode_key,
    miss::Wait,
    store::Store,
};

/// Leaves that may hold nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// Of a deleted blob: all.
    Blob {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// The blob.
        blob: BlobId,
        /// The next leaf to look at.
        from: u64,
    },
    /// Of a blob that was truncated: those behind the cut.
    Cut {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// Its key.
        key: Key,
        /// The blob.
        blob: BlobId,
        /// The next leaf to look at.
        from: u64,
    },
    /// Of a dropped keyspace: everything.
    Keyspace(KeyspaceId),
}

impl Garbage {
    /// What a deleted blob leaves behind, besides its first leaf.
    pub(crate) fn blob(key: &EntryKey, blob: &Blob) -> Option<Self> {
        (blob.reach > LEAF_SPAN).then_some(Garbage::Blob { keyspace: key.0, blob: blob.id, from: 1 })
    }

    /// What a truncate leaves behind, besides in the first leaf; `always` even if that is nothing.
    pub(crate) fn cut(key: &EntryKey, blob: &Blob, from: u64, always: bool) -> Option<Self> {
        let first = (from / LEAF_SPAN).max(1);
        let garbage = Garbage::Cut { keyspace: key.0, key: key.1.clone(), blob: blob.id, from: first };
        (always || first * LEAF_SPAN < blob.reach).then_some(garbage)
    }

    /// The next leaf to look at; 0 if it is not about leaves.
    pub fn from(&self) -> u64 {
        match self {
            Garbage::Blob { from, .. } | Garbage::Cut { from, .. } => *from,
            Garbage::Keyspace(_) => 0,
        }
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Garbage::Blob { keyspace, blob, from } => {
                out.push(1);
                write_varint(out, u64::from(keyspace.0));
                write_varint(out, blob.to_u64());
                write_varint(out, *from);
            }
            Garbage::Cut { keyspace, key, blob, from } => {
                out.push(2);
                write_varint(out, u64::from(keyspace.0));
                write_varint(out, blob.to_u64());
                write_varint(out, *from);
                write_prefixed(out, key.as_bytes());
            }
            Garbage::Keyspace(keyspace) => {
                out.push(3);
                write_varint(out, u64::from(keyspace.0));
            }
        }
    }

    /// Reads one back.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = reader.u8()?;
        let keyspace = KeyspaceId(reader.varint_u32()?);
        if kind == 3 {
            return Ok(Garbage::Keyspace(keyspace));
        }
        let (blob, from) = (BlobId::from_u64(reader.varint()?), reader.varint()?);
        match kind {
            1 => Ok(Garbage::Blob { keyspace, blob, from }),
            2 => Ok(Garbage::Cut { keyspace, key: decode_key(reader)?, blob, from }),
            _ => Err(Malformed("garbage is of an unknown kind")),
        }
    }
}

impl Store {
    /// Releases some of what deleted blobs, truncated blobs, or dropped keyspaces left behind. What fails, unless for want of space, is put
    /// aside until the store is opened again, so that the rest has its turn.
    pub(crate) fn collect_garbage(&self) -> Result<bool> {
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
}

/// Leaves that one step looks at.
const GARBAGE_STEP: usize = 256;
