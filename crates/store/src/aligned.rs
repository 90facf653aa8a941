//! Memory for large payload, in whole blocks, as direct I/O takes it. It is used again and again: fresh memory of this size comes from the
//! kernel page by page, which costs more than filling it.

use std::sync::Arc;

use parking_lot::Mutex;
use tyr_env::Blocks;
use tyr_wire::shared::{Memory, SharedBytes};

use crate::payload::{ALIGNED_MIN, PAYLOAD_SIZE_MAX};

/// A copy of some bytes, with zeros to the end of the last block.
#[derive(Debug)]
pub(crate) struct Aligned {
    blocks: Blocks,
    len: usize,
}

/// Copies bytes to where [`Store::stage_shared`](crate::Store::stage_shared) takes them from without another copy. `None` if they are too few for
/// whole blocks to be worth their room, or more than a payload has.
pub fn aligned_copy(bytes: &[u8]) -> Option<SharedBytes> {
    (SHARED_MIN..=PAYLOAD_SIZE_MAX).contains(&bytes.len()).then(|| {
        // What stays in memory for long is not to take much more than it has bytes.
        let is_close = class_of(bytes.len()).1 - bytes.len() <= bytes.len() / 4;
        let blocks = if is_close { take(bytes.len()) } else { Blocks::with_capacity(bytes.len()) };
        SharedBytes::held(Arc::new(Aligned::fill(blocks, bytes)))
    })
}

impl Aligned {
    /// Copies bytes: [`ALIGNED_MIN`] to [`PAYLOAD_SIZE_MAX`] of them.
    pub fn copy(bytes: &[u8]) -> Self {
        Aligned::fill(take(bytes.len()), bytes)
    }

    fn fill(mut blocks: Blocks, bytes: &[u8]) -> Self {
        blocks.extend_from_slice(bytes);
        Aligned { blocks, len: bytes.len() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.blocks.as_bytes()[..self.len]
    }

    /// The bytes, and zeros to the end of the last block.
    pub fn blocks(&self) -> &[u8] {
        self.blocks.as_bytes()
    }
}

impl Memory for Aligned {
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn blocks(&self) -> Option<&[u8]> {
        Some(self.blocks())
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.blocks));
    }
}

/// Buffers that are not used.
static BUFFERS: Mutex<Buffers> = Mutex::new(Buffers { free: [const { Vec::new() }; CLASSES], bytes: 0 });

/// Free buffers by the power of two that they can hold.
struct Buffers {
    free: [Vec<Blocks>; CLASSES],
    bytes: usize,
}

fn take(len: usize) -> Blocks {
    let (class, size) = class_of(len);
    let mut buffers = BUFFERS.lock();
    match buffers.free[class].pop() {
        Some(blocks) => {
            buffers.bytes -= blocks.capacity();
            blocks
        }
        None => {
            drop(buffers);
            Blocks::with_capacity(size)
        }
    }
}

fn give(mut blocks: Blocks) {
    let (class, size) = class_of(blocks.capacity());
    if size != blocks.capacity() {
        return;
    }
    blocks.clear();
    let mut buffers = BUFFERS.lock();
    if buffers.bytes + size <= BUFFERS_SIZE_MAX {
        buffers.bytes += size;
        buffers.free[class].push(blocks);
    }
}

/// The class of buffers that hold `len` bytes, and their size.
fn class_of(len: usize) -> (usize, usize) {
    let size = len.next_power_of_two().max(ALIGNED_MIN);
    let class = (size / ALIGNED_MIN).trailing_zeros() as usize;
    (class.min(CLASSES - 1), size)
}

/// With as many bytes, what is left of the last block is a quarter of them at most.
const SHARED_MIN: usize = 16 << 10;

/// From [`ALIGNED_MIN`] to [`PAYLOAD_SIZE_MAX`].
const CLASSES: usize = 11;
const _: () = assert!(ALIGNED_MIN << (CLASSES - 1) == PAYLOAD_SIZE_MAX);

/// Free buffers are kept up to so many bytes: sixteen writers' worth of the largest payload.
const BUFFERS_SIZE_MAX: usize = 16 * PAYLOAD_SIZE_MAX;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_env::BLOCK_SIZE;

    use super::*;
    use crate::Payload;

    fn pattern(len: usize) -> Vec<u8> {
        (0..=250).cycle().take(len).collect()
    }

    #[test]
    fn large_payload_is_copied_to_whole_blocks() {
        let (least, most) = (vec![1; SHARED_MIN], vec![1; PAYLOAD_SIZE_MAX]);
        assert!(aligned_copy(&least[1..]).is_none() && aligned_copy(&[&most[..], &[1]].concat()).is_none());
        for len in [SHARED_MIN, SHARED_MIN + 1, 600 << 10, (1 << 20) - 1, 1 << 20, PAYLOAD_SIZE_MAX] {
            let bytes = pattern(len);
            let copy = aligned_copy(&bytes).unwrap();
            let blocks = copy.blocks().unwrap();
            assert!(copy[..] == bytes && blocks[..len] == bytes);
            assert_eq!((blocks.as_ptr().addr() % BLOCK_SIZE, blocks.len() % BLOCK_SIZE), (0, 0));
            assert!(blocks[len..].iter().all(|byte| *byte == 0), "a buffer that was used before");
        }
    }

    #[test]
    fn a_payload_shares_whole_blocks_and_copies_everything_else() {
        let bytes = aligned_copy(&pattern(100_000)).unwrap();
        let (plain, len) = (SharedBytes::from(pattern(100_000)), bytes.len());
        for (part, is_shared) in [
            (0..len, true),
            (0..8192, true),
            (4096..len, true),
            (90_112..len, true),
            (98_304..len, false),
            (0..8191, false),
            (1..8192, false),
            (4096..4097, false),
        ] {
            let payload = Payload::sharing(&bytes, part.clone());
            let held = payload.bytes().unwrap();
            assert_eq!(held, &bytes[part.clone()], "{part:?}");
            assert_eq!(held.as_ptr() == bytes[part.clone()].as_ptr(), is_shared, "{part:?}");
            let copied = Payload::sharing(&plain, part.clone());
            assert_eq!(payload.checksums(), copied.checksums());
            assert_eq!(payload.blocks(), copied.blocks(), "{part:?}");
        }
    }
}
