//! A hash for the keys of caches that are few numbers, of which some bits are always the same: a cache divides itself by some bits of the
//! hash, and what falls into one division takes its room there alone.

use std::hash::{BuildHasher, Hasher};

/// Makes [`Mixer`]s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixing;

/// Every bit of every number decides about every bit of the hash: the finalizer of `SplitMix64` (Steele, Lea, Flood, 2014).
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

impl BuildHasher for Mixing {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer::default()
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let mut bits = (self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = bits ^ (bits >> 31);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
