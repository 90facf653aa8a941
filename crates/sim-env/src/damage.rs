//! What befalls a medium between operations, and what tests plant on it. Nothing here is counted, struck by faults, or undone by
//! a crash; it works with the power off, too.

use std::{io, ops::Range, sync::Arc};

use tyr_env::{BLOCK_SIZE, check_name};

use crate::{SimDisk, content::Content, names::FileId, state::State};

impl SimDisk {
    /// The whole content of a file, as a reader sees it.
    pub fn read_file(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        let content = state.inode(state.find(name)?)?.content().clone();
        let length = usize::try_from(content.length()).map_err(|_| too_long(name))?;
        let mut bytes = vec![0; length];
        content.read(0, &mut bytes);
        Ok(bytes)
    }

    /// Creates or replaces a file, durably, with any content, and makes all names durable. Files that are open keep what they had.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        check_name(name)?;
        let mut content = Content::default();
        for (index, bytes) in (0..).zip(bytes.chunks(BLOCK_SIZE)) {
            let mut block = [0; BLOCK_SIZE];
            block[..bytes.len()].copy_from_slice(bytes);
            content.set_block(index, Arc::new(block));
        }
        content.set_length(bytes.len() as u64);
        let mut state = self.state.lock();
        let file = state.add_file(content);
        state.names.plant(name, file);
        state.collect();
        Ok(())
    }

    /// Cuts a file, or extends it with zeros, to any length.
    pub fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        self.damage(name, |state, file| {
            state.inode_mut(file)?.set_length(length);
            Ok(())
        })
    }

    /// Turns one bit of a file over. `UnexpectedEof` if the file is not that long.
    pub fn flip_bit(&self, name: &str, position: u64, bit: u8) -> io::Result<()> {
        self.damage(name, |state, file| {
            let inode = state.inode_mut(file)?;
            if position >= inode.content().length() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            inode.flip_bit(position, bit);
            Ok(())
        })
    }

    /// Turns over one bit in the files that have a name, in a block that does not hold zeros alone, and says which: the
    /// name, the position, the bit. `None` if there is no such block.
    pub fn flip_random_bit(&self) -> Option<(String, u64, u8)> {
        let mut state = self.state.lock();
        let mut blocks = Vec::new();
        for (name, file) in state.names.iter() {
            let filled = state.files.get(&file).map(|inode| inode.content().filled());
            blocks.extend(filled.into_iter().flatten().map(|index| (name.clone(), file, index)));
        }
        let chosen = state.random.index(blocks.len());
        let (name, file, index) = blocks.into_iter().nth(chosen)?;
        let start = index * BLOCK_SIZE as u64;
        let inside = state.files.get(&file)?.content().length().saturating_sub(start).min(BLOCK_SIZE as u64);
        let position = start + state.random.below(inside);
        let bit = u8::try_from(state.random.below(8)).expect("below 8");
        state.files.get_mut(&file)?.flip_bit(position, bit);
        Some((name, position, bit))
    }

    /// Makes reads that overlap the range fail with `EIO`, whatever name the file has later.
    pub fn fail_reads(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.damage(name, |state, file| {
            state.inode_mut(file)?.unreadable.push(range);
            Ok(())
        })
    }

    /// Makes everything readable again.
    pub fn heal_reads(&self) {
        self.state.lock().files.values_mut().for_each(|inode| inode.unreadable.clear());
    }

    fn damage(
        &self,
        name: &str,
        damage: impl FnOnce(&mut State, FileId) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        let file = state.find(name)?;
        damage(&mut state, file)
    }
}

#[cold]
fn too_long(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("'{name}' does not fit in memory"))
}

#[cfg(test)]
mod tests;
