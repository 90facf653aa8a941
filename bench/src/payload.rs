//! Bytes to write: random, so that nothing compresses them, and made once, so that making them costs nothing while measuring.

use tyr_env::{BLOCK_SIZE, Blocks};

/// A source of payload that lives as long as the program.
#[derive(Clone, Copy)]
pub struct Pool(&'static [u8]);

impl Pool {
    /// Fills the pool. Call it once.
    pub fn new() -> Self {
        let blocks: &'static mut Blocks = Box::leak(Box::new(Blocks::zeroed(POOL_SIZE)));
        fastrand::Rng::with_seed(7).fill(blocks.as_bytes_mut());
        Pool(blocks.as_bytes())
    }

    /// Some `size` bytes in block-aligned memory.
    pub fn take(&self, size: usize, rng: &mut fastrand::Rng) -> &'static [u8] {
        let start = rng.usize(..=(self.0.len() - size) / BLOCK_SIZE) * BLOCK_SIZE;
        &self.0[start..start + size]
    }
}

const POOL_SIZE: usize = 16 << 20;
