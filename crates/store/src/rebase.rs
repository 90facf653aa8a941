//! Making cuts superfluous: a blob that is truncated and extended again and again would otherwise remember every cut.
//!
//! The extents that a cut hides are shortened or dropped in every leaf, each leaf's new state is logged, and at last the entry's, without cuts.
//! The states have to be logged: a replay that met an older state of a leaf without the cut would show bytes again that are gone.

use std::sync::Arc;

use tyr_types::{BlobId, Durability, Result};
use tyr_wire::{
    entry::{Cut, Entry},
    extent::{Extent, LEAF_SPAN, Leaf},
    record::{EntryState, LeafState, Record},
};

use crate::{
    index_key::{EntryKey, LeafKey},
    leaf,
    log::Draft,
    miss::Wait,
    store::{CommitState, Store},
};

/// A blob may have this many cuts before they are worked into its leaves.
pub(crate) const CUTS_MAX: usize = 16;

impl Store {
    /// Works the cuts of a blob into its leaves, if it has many and nobody reads its past.
    pub(crate) fn rebase(&self, key: &EntryKey, blob: BlobId) -> Result<()> {
        let entry = self.loaded(self.entry(key, Wait::Allowed))?;
        let Some(current) = entry.current().filter(|current| current.id == blob) else { return Ok(()) };
        if current.cuts.len() <= CUTS_MAX || !self.pins_of(key).is_empty() {
            return Ok(());
        }
        let cuts = current.cuts.clone();
        let lowest = cuts.iter().map(|cut| cut.from).min().unwrap_or(0);
        let mut from = (lowest / LEAF_SPAN).max(1);
        loop {
            let leaves = self.leaves_from(key.0, blob, from)?;
            let Some(last) = leaves.last() else { break };
            from = last + 1;
            for index in leaves {
                if !self.rebase_leaf(key, &(key.0, blob, index), &cuts)? {
                    return Ok(());
                }
            }
        }
        self.rebase_entry(key, blob, &cuts)
    }

    /// False if somebody has begun to read the blob's past, or its keyspace is gone.
    fn rebase_leaf(&self, key: &EntryKey, id: &LeafKey, cuts: &[Cut]) -> Result<bool> {
        loop {
            self.loaded(self.leaf(id, Wait::Allowed))?;
            let mut commit = self.commit.lock();
            let _entries = self.entries.lock(key);
            if !self.keyspaces.contains(key.0) || !self.pins_of(key).is_empty() {
                return Ok(false);
            }
            let mut shard = self.leaves.lock(id);
            // Evicted since: once more.
            let Some(old) = shard.find(id) else { continue };
            let extents = trimmed(&old.extents, cuts, id.2);
            // Logged even if nothing changes: the leaf may have been pruned in memory alone.
            let leaf = Leaf { applied: old.applied, extents };
            self.log_leaf(&mut commit, key, id, leaf.clone())?;
            self.recount_trimmed(&old.extents, &leaf.extents);
            self.leaves.change(&mut shard, id, Arc::new(leaf));
            return Ok(true);
        }
    }

    fn rebase_entry(&self, key: &EntryKey, blob: BlobId, cuts: &[Cut]) -> Result<()> {
        loop {
            self.loaded(self.entry(key, Wait::Allowed))?;
            let mut commit = self.commit.lock();
            if !self.keyspaces.contains(key.0) {
                return Ok(());
            }
            let mut shard = self.entries.lock(key);
            // Evicted since: once more.
            let Some(old) = shard.find(key) else { continue };
            let mut entry = Entry::clone(&old);
            let Some(current) = entry.blobs.last_mut().filter(|current| current.id == blob) else {
                return Ok(());
            };
            // A cut that came meanwhile stays, and with it those before it; the next attempt gets them all.
            if current.cuts != cuts || !self.pins_of(key).is_empty() {
                return Ok(());
            }
            let before = std::mem::take(&mut current.leaf);
            current.leaf = trimmed(&before, cuts, 0);
            current.cuts.clear();
            let after = current.leaf.clone();
            let state = EntryState { keyspace: key.0, key: key.1.clone(), entry: entry.clone() };
            self.log_state(&mut commit, &Record::Entry(state))?;
            self.recount_trimmed(&before, &after);
            self.entries.change(&mut shard, key, Arc::new(entry));
            return Ok(());
        }
    }

    /// Logs what a leaf is now.
    pub(crate) fn log_leaf(
        &self,
        commit: &mut CommitState,
        key: &EntryKey,
        id: &LeafKey,
        leaf: Leaf,
    ) -> Result<()> {
        let state = LeafState { keyspace: id.0, key: key.1.clone(), blob: id.1, index: id.2, leaf };
        self.log_state(commit, &Record::Leaf(state))
    }

    fn log_state(&self, commit: &mut CommitState, record: &Record) -> Result<()> {
        let body = |_: &[_], out: &mut Vec<u8>| record.encode(out);
        self.append(commit, &Draft { payloads: &[], body: &body }, Durability::Memory).map(drop)
    }

    fn recount_trimmed(&self, before: &[Extent], after: &[Extent]) {
        after.iter().for_each(|extent| self.retain_extent(extent));
        before.iter().for_each(|extent| self.release_extent(extent));
    }
}

/// The extents without what the cuts hide.
fn trimmed(extents: &[Extent], cuts: &[Cut], index: u64) -> Vec<Extent> {
    extents
        .iter()
        .filter_map(|extent| {
            let end =
                extent.end().min(leaf::cut_position(cuts, index, extent.number, tyr_types::Number::MAX));
            (end > extent.start).then(|| Extent { len: end - extent.start, ..extent.clone() })
        })
        .collect()
}
