//! Repeatable choices, and how much of them to make.

/// SplitMix64. Equal seeds choose equally, for ever.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("fits")
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())].clone()
    }
}

/// `base` cases times `TYR_TEST_SCALE`, which is 1 unless set.
pub fn scaled(base: u64) -> u64 {
    base * number_from("TYR_TEST_SCALE").unwrap_or(1)
}

/// The seeds to run: `TYR_TEST_SEED` alone if it is set, else `base` of them, scaled.
pub fn seeds(base: u64) -> Vec<u64> {
    match number_from("TYR_TEST_SEED") {
        Some(seed) => vec![seed],
        None => (1..=scaled(base)).collect(),
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

/// Bytes that differ from those of other seeds nearly everywhere.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&chance.number().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Says how to see a failure again, if there is one while it lives.
pub struct Replay(pub String);

impl Drop for Replay {
    #[allow(clippy::print_stderr, reason = "it is printed with the failure of a test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed: {}", self.0);
        }
    }
}
