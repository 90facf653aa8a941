//! The bytes of a file: blocks, shared between copies until one of them changes.
//!
//! Invariants: nothing is stored at or behind the end, so growing shows zeros; blocks of zeros that were written are not stored,
//! so that a file that was filled with zeros costs nothing to copy.

use std::{collections::BTreeMap, sync::Arc};

use tyr_env::BLOCK_SIZE;

pub(crate) type Block = [u8; BLOCK_SIZE];

/// What a file holds. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    length: u64,
    /// By index; absent ones are zeros.
    blocks: BTreeMap<u64, Arc<Block>>,
}

impl Content {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Cuts or extends with zeros.
    pub(crate) fn set_length(&mut self, length: u64) {
        self.length = length;
        self.blocks.split_off(&length.div_ceil(BLOCK_SIZE as u64));
        let (last, within) = locate(length);
        if let Some(block) = self.blocks.get_mut(&last) {
            Arc::make_mut(block)[within..].fill(0);
        }
    }

    /// Makes the content at least this long.
    pub(crate) fn grow(&mut self, length: u64) {
        self.length = self.length.max(length);
    }

    pub(crate) fn block(&self, index: u64) -> Arc<Block> {
        self.blocks.get(&index).cloned().unwrap_or_else(|| Arc::new([0; BLOCK_SIZE]))
    }

    /// Replaces a block, growing the content to hold all of it.
    pub(crate) fn set_block(&mut self, index: u64, block: Arc<Block>) {
        self.grow((index + 1) * BLOCK_SIZE as u64);
        if *block == [0; BLOCK_SIZE] {
            self.blocks.remove(&index);
        } else {
            self.blocks.insert(index, block);
        }
    }

    /// Indexes of the blocks that hold more than zeros.
    pub(crate) fn filled(&self) -> impl ExactSizeIterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Turns one bit over, if it is within the content.
    pub(crate) fn flip_bit(&mut self, position: u64, bit: u8) {
        if position < self.length {
            let (index, within) = locate(position);
            let mut block = self.block(index);
            Arc::make_mut(&mut block)[within] ^= 1 << (bit % 8);
            self.blocks.insert(index, block);
        }
    }

    /// Fills the buffer from the position. The caller has checked that it does not reach past the end.
    pub(crate) fn read(&self, mut position: u64, mut buffer: &mut [u8]) {
        while !buffer.is_empty() {
            let (index, within) = locate(position);
            let (now, later) = buffer.split_at_mut(buffer.len().min(BLOCK_SIZE - within));
            match self.blocks.get(&index) {
                Some(block) => now.copy_from_slice(&block[within..within + now.len()]),
                None => now.fill(0),
            }
            position += now.len() as u64;
            buffer = later;
        }
    }
}

/// The index of the block that holds the position, and how far into it that is.
fn locate(position: u64) -> (u64, usize) {
    let within = usize::try_from(position % BLOCK_SIZE as u64).expect("below the block size");
    (position / BLOCK_SIZE as u64, within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_off_is_zeros_when_it_grows_again() {
        let mut content = Content::default();
        (0..3).for_each(|index| content.set_block(index, Arc::new([7; BLOCK_SIZE])));
        let copy = content.clone();
        content.set_length(5000);
        content.set_length(12_288);
        let mut bytes = [1; 12_288];
        content.read(0, &mut bytes);
        assert!(bytes[..5000].iter().all(|byte| *byte == 7) && bytes[5000..].iter().all(|byte| *byte == 0));
        copy.read(0, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 7), "a copy is its own");
    }

    #[test]
    fn reads_cross_blocks_at_any_position() {
        let mut content = Content::default();
        content.set_block(1, Arc::new([1; BLOCK_SIZE]));
        content.set_block(3, Arc::new([3; BLOCK_SIZE]));
        let mut bytes = [9; 2 * BLOCK_SIZE + 10];
        content.read(4090, &mut bytes);
        assert_eq!(
            [bytes[5], bytes[6], bytes[4101], bytes[4102], bytes[8197], bytes[8198]],
            [0, 1, 1, 0, 0, 3]
        );
    }
}
