//! How long a dialer waits between attempts: any time up to a bound that doubles, so that those who lost their connections at the same
//! time do not come back at the same time.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use crate::Settings;

/// The waits of one dialer.
pub(crate) struct Waits {
    min: Duration,
    max: Duration,
    bound: Duration,
    /// Differs from dialer to dialer, and from process to process.
    seed: RandomState,
    count: u64,
}

impl Waits {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (min, max) = (settings.wait_min, settings.wait_max.max(settings.wait_min));
        Waits { min, max, bound: min, seed: RandomState::new(), count: 0 }
    }

    /// An attempt was successful.
    pub(crate) fn begin_again(&mut self) {
        self.bound = self.min;
    }

    /// The next wait, after an attempt that ended.
    pub(crate) fn next(&mut self) -> Duration {
        self.bound = self.bound.saturating_mul(2).min(self.max);
        self.count += 1;
        let part = self.seed.hash_one(self.count) as f64 / u64::MAX as f64;
        self.min + (self.bound - self.min).mul_f64(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_lie_anywhere_between_the_least_and_a_bound_that_doubles() {
        let (min, max) = (Duration::from_millis(10), Duration::from_millis(100));
        let settings = Settings { wait_min: min, wait_max: max, ..Settings::default() };
        let bounds = [20, 40, 80, 100, 100, 100].map(Duration::from_millis);
        let some: Vec<Vec<Duration>> = (0..100)
            .map(|_| {
                let mut waits = Waits::new(&settings);
                bounds.map(|_| waits.next()).to_vec()
            })
            .collect();
        for (place, bound) in bounds.into_iter().enumerate() {
            let mut all: Vec<Duration> = some.iter().map(|waits| waits[place]).collect();
            all.sort();
            let (least, most) = (all[0], all[all.len() - 1]);
            assert!(min <= least && most <= bound);
            let quarter = (bound - min) / 4;
            assert!(least < min + quarter && most > bound - quarter, "{least:?} to {most:?} of {bound:?}");
        }
    }

    #[test]
    fn after_a_success_waits_are_short_again() {
        let mut waits = Waits::new(&Settings::default());
        (0..20).map(|_| waits.next()).for_each(drop);
        waits.begin_again();
        assert!(waits.next() <= Settings::default().wait_min * 2);
    }
}
