//! How much may be kept of one blob. What pins keep of it grows with every change, and the index and the log say an entry, or a leaf, in one
//! piece.
//!
//! A change that might make such a piece too large is refused before anything of its transaction is logged. Where nothing is pinned nothing piles
//! up, and nothing is asked here.

use std::sync::Arc;

use tyr_types::{Attributes, Error, Number, Result};
use tyr_wire::{
    entry::{Blob, Cut, Entry, Head},
    extent::Extent,
    record::{BlobCommit, Existence},
    table::ENTRY_VALUE_SIZE_MAX,
};

use crate::{
    apply::{Held, Parts, parts},
    index_key::EntryKey,
    leaf,
    rebuild::tidied,
    store::Store,
};

impl Store {
    /// Fails with `invalid` if a change of a blob would leave an entry or a leaf that cannot be said in one piece. One that deletes the blob never
    /// does. The caller holds the commit lock.
    pub(crate) fn check_kept(&self, commit: &BlobCommit, number: Number, held: &Held) -> Result<()> {
        let key = (commit.keyspace, commit.key.clone());
        let parts = parts(commit, number);
        if !self.has_room_in_entry(&key, commit, number, &parts, held)
            || !self.has_room_in_leaves(&key, commit, number, parts, held)
        {
            return Err(Error::invalid(format!(
                "what snapshots keep of blob '{}' would be too much for one entry; remove snapshots of it, or write it in larger pieces",
                commit.key
            )));
        }
        Ok(())
    }

    fn has_room_in_entry(
        &self,
        key: &EntryKey,
        commit: &BlobCommit,
        number: Number,
        parts: &Parts,
        held: &Held,
    ) -> bool {
        let mut shard = self.entries.lock(key);
        let old = shard.find(key).or_else(|| held.entries.get(key).cloned()).unwrap_or_default();
        let head = next_head(&old, commit, number);
        let added = BLOB_SIZE_MAX + CUT_SIZE_MAX + head_size(&head) + extents_size(&parts.first);
        if entry_size(&old) + added <= self.kept_size_max() {
            return true;
        }
        // What it has been released from counts no more.
        self.forget_locked(key, &mut shard, &old);
        let mut entry = Entry::clone(&shard.find(key).unwrap_or(old));
        if commit.existence != Existence::Keep {
            entry.blobs.iter_mut().for_each(|blob| blob.deleted = blob.deleted.or(Some(number)));
            let (cuts, leaf) = (Vec::new(), Vec::new());
            entry.blobs.push(Blob {
                id: commit.blob,
                heads: Vec::new(),
                cuts,
                reach: 0,
                leaf,
                deleted: None,
            });
        }
        if let Some(blob) = entry.blobs.last_mut() {
            blob.heads.push(head);
            blob.cuts.extend(commit.cut.map(|from| Cut { number, from }));
            blob.leaf.extend_from_slice(&parts.first);
        }
        entry_size(&tidied(&entry, &self.pins_of(key))) <= self.kept_size_max()
    }

    fn has_room_in_leaves(
        &self,
        key: &EntryKey,
        commit: &BlobCommit,
        number: Number,
        parts: Parts,
        held: &Held,
    ) -> bool {
        parts.others.into_iter().all(|(index, added)| {
            let Some(old) = held.leaves.get(&(key.0, commit.blob, index)) else {
                return LEAF_SIZE_MAX + extents_size(&added) <= self.kept_size_max();
            };
            let size = LEAF_SIZE_MAX + extents_size(&old.extents) + extents_size(&added);
            if size <= self.kept_size_max() {
                return true;
            }
            let blob = held.entries.get(key).and_then(|entry| entry.current());
            let mut cuts = blob.map(|blob| blob.cuts.clone()).unwrap_or_default();
            cuts.extend(commit.cut.map(|from| Cut { number, from }));
            let mut extents = old.extents.clone();
            extents.extend(added);
            leaf::prune(&mut extents, &cuts, index, &self.pins_of(key));
            LEAF_SIZE_MAX + extents_size(&extents) <= self.kept_size_max()
        })
    }

    /// A record of it must also fit a segment, together with payload that moves.
    fn kept_size_max(&self) -> usize {
        KEPT_SIZE_MAX.min(self.segments.capacity() as usize / 2)
    }
}

/// The head that a commit leaves.
fn next_head(entry: &Entry, commit: &BlobCommit, number: Number) -> Arc<Head> {
    let former = entry.current().filter(|_| commit.existence == Existence::Keep).and_then(Blob::head);
    let attributes = match (&commit.attributes, former) {
        (Some(attributes), _) => Arc::new(attributes.clone()),
        (None, Some(head)) => head.attributes.clone(),
        (None, None) => Arc::default(),
    };
    Arc::new(Head { blob: commit.blob, number, size: commit.size, attributes })
}

/// Bytes of its encoding, at most, wherever its payload is moved to.
fn entry_size(entry: &Entry) -> usize {
    let blob = |blob: &Blob| {
        let heads: usize = blob.heads.iter().map(|head| head_size(head)).sum();
        BLOB_SIZE_MAX + heads + blob.cuts.len() * CUT_SIZE_MAX + extents_size(&blob.leaf)
    };
    LEAF_SIZE_MAX + entry.blobs.iter().map(blob).sum::<usize>()
}

fn head_size(head: &Head) -> usize {
    let attributes: &Attributes = &head.attributes;
    3 * VARINT_SIZE_MAX + attributes.size() + attributes.len() * ATTRIBUTE_OVERHEAD_MAX
}

fn extents_size(extents: &[Extent]) -> usize {
    extents.iter().map(|extent| EXTENT_SIZE_MAX + 4 * extent.checksums.as_slice().len()).sum()
}

/// Bytes of what is kept of a blob in its entry, or in a leaf; a deletion, which is never refused, may add to it.
const KEPT_SIZE_MAX: usize = 7 << 18;
const _: () = assert!(KEPT_SIZE_MAX < ENTRY_VALUE_SIZE_MAX);

const VARINT_SIZE_MAX: usize = 10;
/// A leaf without its extents, or an entry without its blobs: how far the log was applied, and a count.
const LEAF_SIZE_MAX: usize = 2 * VARINT_SIZE_MAX;
/// A blob without what it lists: three numbers, and three counts.
const BLOB_SIZE_MAX: usize = 6 * VARINT_SIZE_MAX;
const CUT_SIZE_MAX: usize = 2 * VARINT_SIZE_MAX;
/// The lengths of name and value, which are no longer than 64 KiB.
const ATTRIBUTE_OVERHEAD_MAX: usize = 6;
/// An extent without checksums: its range in a leaf, a transaction, a segment, a position, how much is skipped, and how much stored.
const EXTENT_SIZE_MAX: usize = 3 + 3 + VARINT_SIZE_MAX + VARINT_SIZE_MAX + 5 + 2 + 3;

#[cfg(test)]
mod tests;
