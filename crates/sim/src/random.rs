//! A small repeatable source of choices (SplitMix64; Steele, Lea, Flood, OOPSLA 2014).

/// A source of choices. Equal seeds choose equally.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The source of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// A place in so many; 0 if there is none.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below a length")
    }

    /// A number of a range.
    pub fn within(&mut self, range: core::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// True with a probability in parts per million.
    pub fn happens(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// One of the items, if there is any.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// An independent source.
    pub fn fork(&mut self) -> Random {
        Random(self.number())
    }
}
