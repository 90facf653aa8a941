//! What is kept for the pins of snapshots beside what holds now, and how it is forgotten when they are released.

use std::sync::Arc;

use tyr_types::Result;
use tyr_wire::{entry::Entry, extent::Leaf};

use crate::{
    garbage::Garbage,
    index_key::{EntryKey, LeafKey},
    miss::Wait,
    objects::Shard,
    relocate::forget_history,
    store::Store,
};

impl Store {
    /// After a pin was released: forgets what was kept for it. What fails stays in the backlog for the next time, and does not keep the
    /// rest from its turn.
    pub(crate) fn forget_histories(&self) -> Result<bool> {
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

    /// Drops what no pin can see from a leaf, and remembers it if a pin may still see its past.
    pub(crate) fn prune_leaf(&self, key: &EntryKey, id: &LeafKey) -> Result<()> {
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
}
