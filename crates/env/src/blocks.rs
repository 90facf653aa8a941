//! Memory that direct I/O accepts.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The unit of disk I/O, in bytes. Every offset, length, and address of direct I/O is a multiple of it: 4096 bytes suit every
/// device and file system that we know.
pub const BLOCK_SIZE: usize = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_SIZE]);

/// A growable buffer of whole blocks, aligned for direct I/O.
#[derive(Clone, Default)]
pub struct Blocks(Vec<Block>);

impl Blocks {
    /// A buffer of zeros that has at least `len` bytes, rounded up to whole blocks.
    pub fn zeroed(len: usize) -> Self {
        Blocks(Block::new_vec_zeroed(len.div_ceil(BLOCK_SIZE)).unwrap_or_else(|_| std::process::abort()))
    }

    /// An empty buffer with room for `len` bytes.
    pub fn with_capacity(len: usize) -> Self {
        Blocks(Vec::with_capacity(len.div_ceil(BLOCK_SIZE)))
    }

    /// Grows with zeros, or shrinks, to `len` bytes rounded up to whole blocks.
    pub fn resize(&mut self, len: usize) {
        self.0.resize(len.div_ceil(BLOCK_SIZE), Block([0; BLOCK_SIZE]));
    }

    /// Appends the bytes, and zeros to the end of the last block. What is there already is whole blocks.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<BLOCK_SIZE>();
        self.0.extend(whole.iter().map(|block| Block(*block)));
        if !rest.is_empty() {
            let mut last = Block([0; BLOCK_SIZE]);
            last.0[..rest.len()].copy_from_slice(rest);
            self.0.push(last);
        }
    }

    /// Bytes that fit without another allocation.
    pub fn capacity(&self) -> usize {
        self.0.capacity() * BLOCK_SIZE
    }

    /// Length in bytes, a multiple of [`BLOCK_SIZE`].
    pub fn len(&self) -> usize {
        self.0.len() * BLOCK_SIZE
    }

    /// Whether the buffer has no block.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the content, keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_slice().as_bytes()
    }

    /// The bytes, writable.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice().as_mut_bytes()
    }
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blocks({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_bytes_are_padded_to_whole_blocks() {
        let mut blocks = Blocks::default();
        blocks.extend_from_slice(&[1; BLOCK_SIZE + 1]);
        blocks.extend_from_slice(&[2; BLOCK_SIZE]);
        let bytes = blocks.as_bytes();
        assert_eq!((bytes.len(), bytes[BLOCK_SIZE], bytes[BLOCK_SIZE + 1]), (3 * BLOCK_SIZE, 1, 0));
        assert!(bytes[2 * BLOCK_SIZE..].iter().all(|&byte| byte == 2));
    }

    #[test]
    fn memory_is_aligned_and_whole() {
        let mut blocks = Blocks::zeroed(1);
        assert_eq!((blocks.len(), blocks.as_bytes().as_ptr().addr() % BLOCK_SIZE), (BLOCK_SIZE, 0));
        blocks.as_bytes_mut()[0] = 7;
        blocks.resize(3 * BLOCK_SIZE);
        assert_eq!(
            (blocks.as_bytes()[0], blocks.as_bytes()[BLOCK_SIZE], blocks.len()),
            (7, 0, 3 * BLOCK_SIZE)
        );
    }
}
