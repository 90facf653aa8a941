//! Bytes to write: random, so that nothing compresses them, and made once, so that making them costs nothing while measuring.

/// A source of payload that lives as long as the program.
#[derive(Clone, Copy)]
pub struct Pool(&'static [u8]);

impl Pool {
    /// Fills the pool. Call it once.
    pub fn new() -> Self {
        let bytes = aligned(vec![0; POOL_SIZE + STEP].leak(), POOL_SIZE);
        fastrand::Rng::with_seed(7).fill(bytes);
        Pool(bytes)
    }

    /// Some `size` bytes.
    pub fn take(&self, size: usize, rng: &mut fastrand::Rng) -> &'static [u8] {
        let start = rng.usize(..=(self.0.len() - size) / STEP) * STEP;
        &self.0[start..start + size]
    }
}

/// The first `size` bytes that begin where direct I/O may begin; there must be 4 KiB more than that.
pub fn aligned(bytes: &mut [u8], size: usize) -> &mut [u8] {
    let start = bytes.as_ptr().align_offset(STEP);
    &mut bytes[start..start + size]
}

const POOL_SIZE: usize = 16 << 20;
const STEP: usize = 4096;
