//! A small repeatable source of choices (SplitMix64; Steele, Lea, Flood, OOPSLA 2014). Its sequences may never change, or old
//! seeds would no longer show what they once found.

/// A source of choices. Equal seeds choose equally.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if there is none. The bias of the remainder is too small to matter here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// An index of a slice of this length; 0 if it is empty.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below a usize")
    }

    /// True `n` times in eight.
    pub(crate) fn in_eight(&mut self, n: u64) -> bool {
        self.below(8) < n
    }

    /// Puts the items in a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for unplaced in (1..items.len()).rev() {
            items.swap(unplaced, self.index(unplaced + 1));
        }
    }

    /// An independent source.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed_for_ever() {
        let mut random = Random::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.number()).collect();
        // The reference implementation's output for this seed.
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn choices_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(1);
        let mut seen = [0; 8];
        (0..1000).for_each(|_| seen[random.index(8)] += 1);
        assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
        assert_eq!((random.below(0), random.below(1)), (0, 0));
        assert!(!random.in_eight(0) && random.in_eight(8));
    }

    #[test]
    fn a_shuffle_keeps_the_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
