//! A file of the simulated disk: what a reader sees, what is durable, and all that lies between.
//!
//! Invariants: what a reader sees is what is durable with the newest version of each unsynced block over it; a block that is not
//! unsynced is the same in both.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use tyr_env::BLOCK_SIZE;

use crate::{
    content::{Block, Content},
    random::Random,
};

/// What a power loss does to everything that was not yet durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// All of it is lost.
    LoseAll,
    /// All of it is kept.
    KeepAll,
    /// Each block of each file is kept, lost, replaced by an earlier unsynced version, or torn between sectors of 512 bytes; each
    /// change of a name is kept or lost, but never kept without an earlier one of the same name. The seed decides.
    Random,
}

impl CrashMode {
    /// Every mode.
    pub const ALL: [CrashMode; 3] = [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random];
}

/// A file, whether or not it has a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    current: Content,
    durable: Content,
    /// By block index.
    unsynced: BTreeMap<u64, Unsynced>,
    /// Reading what overlaps one of these fails.
    pub(crate) unreadable: Vec<Range<u64>>,
    /// Open files.
    pub(crate) handles: usize,
}

/// What was written to a block since it was last durable.
#[derive(Clone, Debug, Default)]
struct Unsynced {
    /// Oldest first; never empty, at most [`VERSIONS_MAX`].
    versions: Vec<Arc<Block>>,
    /// A sync of this failed: as with real kernels, later ones pass over it.
    abandoned: bool,
}

impl Inode {
    /// A file that has been durable for long.
    pub(crate) fn with_content(content: Content) -> Self {
        Inode { durable: content.clone(), current: content, ..Inode::default() }
    }

    /// What a reader sees.
    pub(crate) fn content(&self) -> &Content {
        &self.current
    }

    /// Makes the file at least this long. Not durable.
    pub(crate) fn grow(&mut self, length: u64) {
        self.current.grow(length);
    }

    /// Makes the file at least this long, durably.
    pub(crate) fn grow_durably(&mut self, length: u64) {
        self.current.grow(length);
        self.durable.grow(length);
    }

    /// Replaces a block. Not durable.
    pub(crate) fn write(&mut self, index: u64, block: Arc<Block>) {
        self.current.set_block(index, block.clone());
        let unsynced = self.unsynced.entry(index).or_default();
        if unsynced.versions.len() == VERSIONS_MAX {
            unsynced.versions.remove(0);
        }
        unsynced.versions.push(block);
        unsynced.abandoned = false;
    }

    /// Replaces a block, durably, and makes the length durable up to its end.
    pub(crate) fn write_durably(&mut self, index: u64, block: Arc<Block>) {
        self.current.set_block(index, block.clone());
        self.durable.set_block(index, block);
        self.unsynced.remove(&index);
    }

    /// Makes durable what can be made so.
    pub(crate) fn sync(&mut self) {
        self.durable.grow(self.current.length());
        let Inode { durable, unsynced, .. } = self;
        unsynced.retain(|index, unsynced| {
            if !unsynced.abandoned
                && let Some(newest) = unsynced.versions.last()
            {
                durable.set_block(*index, newest.clone());
            }
            unsynced.abandoned
        });
    }

    /// A sync failed: what is unsynced now will not be made durable by another one.
    pub(crate) fn abandon(&mut self) {
        self.unsynced.values_mut().for_each(|unsynced| unsynced.abandoned = true);
    }

    /// Damages what is on the medium and what a reader sees.
    pub(crate) fn flip_bit(&mut self, position: u64, bit: u8) {
        self.current.flip_bit(position, bit);
        self.durable.flip_bit(position, bit);
        let index = position / BLOCK_SIZE as u64;
        if let Some(newest) = self.unsynced.get_mut(&index).and_then(|unsynced| unsynced.versions.last_mut())
        {
            *newest = self.current.block(index);
        }
    }

    /// Cuts or extends the file, durably.
    pub(crate) fn set_length(&mut self, length: u64) {
        self.current.set_length(length);
        self.durable.set_length(length);
        self.unsynced.split_off(&length.div_ceil(BLOCK_SIZE as u64));
        if let Some((index, unsynced)) = self.unsynced.iter_mut().next_back() {
            // The last block may have been cut inside.
            unsynced.versions = vec![self.current.block(*index)];
        }
    }

    /// The file as it is found after a power loss.
    pub(crate) fn crash(&self, mode: CrashMode, random: &mut Random) -> Inode {
        let content = match mode {
            CrashMode::LoseAll => self.durable.clone(),
            CrashMode::KeepAll => self.current.clone(),
            CrashMode::Random => self.random_content(random),
        };
        Inode { unreadable: self.unreadable.clone(), ..Inode::with_content(content) }
    }

    fn random_content(&self, random: &mut Random) -> Content {
        let mut content = self.durable.clone();
        // Whether mostly lost, mostly kept, or mixed: each shows other mistakes.
        let kept_of_eight = [1, 4, 7][random.index(3)];
        for (index, unsynced) in &self.unsynced {
            if random.in_eight(kept_of_eight) {
                content.set_block(*index, unsynced.survivor(&self.durable.block(*index), random));
            }
        }
        content.set_length(self.random_length(random));
        content
    }

    /// The durable length, the current one, or a whole number of blocks between them.
    fn random_length(&self, random: &mut Random) -> u64 {
        let (durable, current) = (self.durable.length(), self.current.length());
        match random.below(4) {
            0 => durable,
            1 => {
                let blocks = current.saturating_sub(durable).div_ceil(BLOCK_SIZE as u64);
                (durable + random.below(blocks + 1) * BLOCK_SIZE as u64).min(current)
            }
            _ => current,
        }
    }
}

impl Unsynced {
    /// Mostly the newest version; else an older one, or one version torn into another.
    fn survivor(&self, durable: &Arc<Block>, random: &mut Random) -> Arc<Block> {
        let Some(newest) = self.versions.last() else { return durable.clone() };
        match random.below(4) {
            0 => self.versions[random.index(self.versions.len())].clone(),
            1 => {
                let older = random.index(self.versions.len()).checked_sub(1);
                torn(older.map_or(durable, |older| &self.versions[older]), newest, random)
            }
            _ => newest.clone(),
        }
    }
}

/// A block of which some sectors were written and some not.
fn torn(old: &Block, new: &Block, random: &mut Random) -> Arc<Block> {
    let mut block = *old;
    for (old, new) in block.chunks_exact_mut(SECTOR_SIZE).zip(new.chunks_exact(SECTOR_SIZE)) {
        if random.in_eight(4) {
            old.copy_from_slice(new);
        }
    }
    Arc::new(block)
}

/// What real devices write as a whole, in bytes.
const SECTOR_SIZE: usize = 512;

/// Unsynced versions of one block that a crash chooses from.
const VERSIONS_MAX: usize = 4;

#[cfg(test)]
mod tests;
