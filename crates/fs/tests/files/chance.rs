//! What is drawn, the same for a seed.

use std::{env, ops::Range};

/// The generator of Marsaglia, with 64 bits.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// How many times as many seeds as usual; or the one to be run alone.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("TYR_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..usual * number("TYR_TEST_SCALE").unwrap_or(1),
    }
}
