//! The blobs that are touched most, in little room: the Space-Saving sketch (Metwally, Agrawal, El Abbadi, *Efficient computation of
//! frequent and top-k elements in data streams*, ICDT 2005), with counts that fade, so that it tells of the last seconds.
//!
//! It belongs to one thread. A touch costs a comparison of 64 bits with each of [`BLOBS_MAX`] others at the most. Whatever is touched
//! more than one time in so many is in it; a count is never too small, and too large by that of the one whose place was taken at most.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use tyr_proto::BlobName;

/// What is touched most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hot {
    /// Apart from the rest, so that they are looked through fast.
    hashes: Vec<u64>,
    counted: Vec<Counted>,
}

#[derive(Clone, Debug)]
struct Counted {
    blob: BlobName,
    count: f64,
    /// So much of it may be others'.
    error: f64,
}

/// A blob, and how often it is touched in a second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Heat {
    pub blob: BlobName,
    pub rate: f64,
}

impl Hot {
    /// A blob was touched so many times.
    pub fn touch(&mut self, blob: &BlobName, times: f64) {
        let hash = hash(blob);
        let known = self.hashes.iter().position(|known| *known == hash);
        if let Some(place) = known.filter(|place| self.counted[*place].blob == *blob) {
            self.counted[place].count += times;
            return;
        }
        if self.counted.len() < BLOBS_MAX {
            self.hashes.push(hash);
            self.counted.push(Counted { blob: blob.clone(), count: times, error: 0.0 });
            return;
        }
        let coldest = (0..BLOBS_MAX).min_by(|a, b| self.counted[*a].count.total_cmp(&self.counted[*b].count));
        let place = coldest.expect("it has places");
        let count = self.counted[place].count;
        self.hashes[place] = hash;
        self.counted[place] = Counted { blob: blob.clone(), count: count + times, error: count };
    }

    /// A second has passed.
    pub fn fade(&mut self) {
        for place in (0..self.counted.len()).rev() {
            let counted = &mut self.counted[place];
            counted.count *= STAYS;
            counted.error *= STAYS;
            if counted.count < COLD {
                self.counted.swap_remove(place);
                self.hashes.swap_remove(place);
            }
        }
    }

    /// The hottest, of which it is certain that they were touched as often, hottest first.
    pub fn hottest(&self) -> Vec<Heat> {
        // What is touched at a rate r has a count that tends to r / (1 - STAYS).
        let heat = |counted: &Counted| Heat {
            blob: counted.blob.clone(),
            rate: (counted.count - counted.error) * (1.0 - STAYS),
        };
        let mut heats: Vec<Heat> =
            self.counted.iter().map(heat).filter(|heat| heat.rate >= RATE_MIN).collect();
        heats.sort_by(|a, b| b.rate.total_cmp(&a.rate).then_with(|| a.blob.cmp(&b.blob)));
        heats.truncate(SHOWN_MAX);
        heats
    }
}

fn hash(blob: &BlobName) -> u64 {
    let mut hasher = FxHasher::default();
    blob.hash(&mut hasher);
    hasher.finish()
}

/// Chooses one touch of [`Sampler::EVERY`], at random, so that no pattern of touches is missed.
#[derive(Clone, Debug)]
pub(crate) struct Sampler(u64);

impl Sampler {
    /// One of so many is chosen.
    pub const EVERY: f64 = 8.0;

    /// Begins somewhere.
    pub fn new(seed: u64) -> Self {
        Sampler(seed)
    }

    /// Whether this one is chosen.
    pub fn chooses(&mut self) -> bool {
        // Knuth's MMIX generator; its high bits are good.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 61 == 0
    }
}

/// As many blobs are counted.
const BLOBS_MAX: usize = 64;
/// As many of them are told.
const SHOWN_MAX: usize = 16;
/// What is left of a count after a second: half of it after seven.
const STAYS: f64 = 0.9;
/// What is counted less is forgotten.
const COLD: f64 = 0.05;
/// What is touched less often in a second is not told.
const RATE_MIN: f64 = 0.05;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_types::{Key, KeyspaceId};

    use super::*;

    fn blob(key: &str) -> BlobName {
        BlobName { keyspace: KeyspaceId(1), key: Key::new(key).unwrap() }
    }

    #[test]
    fn what_is_touched_most_is_found_among_many_that_are_touched_once() {
        let mut hot = Hot::default();
        for second in 0..60 {
            for number in 0..1000 {
                hot.touch(&blob(&format!("cold/{second}/{number}")), 1.0);
                if number % 4 == 0 {
                    hot.touch(&blob("hot"), 1.0);
                }
                if number % 8 == 0 {
                    hot.touch(&blob("warm"), 1.0);
                }
            }
            hot.fade();
        }
        let hottest = hot.hottest();
        assert_eq!((&hottest[0].blob, &hottest[1].blob), (&blob("hot"), &blob("warm")));
        assert!((200.0..=250.0).contains(&hottest[0].rate), "{hottest:?}");
        assert!(hot.counted.len() <= BLOBS_MAX);
        assert!(hottest[2..].iter().all(|heat| heat.rate < 20.0), "{hottest:?}");
    }

    #[test]
    fn what_is_touched_no_more_cools_down_and_is_forgotten() {
        let mut hot = Hot::default();
        hot.touch(&blob("once"), 1000.0);
        assert!(hot.hottest()[0].rate > 50.0);
        for _ in 0..100 {
            hot.fade();
        }
        assert!(hot.hottest().is_empty() && hot.counted.is_empty() && hot.hashes.is_empty());
    }

    #[test]
    fn one_touch_of_eight_is_chosen() {
        let mut sampler = Sampler::new(7);
        let chosen = (0..80_000).filter(|_| sampler.chooses()).count();
        assert!((9_000..11_000).contains(&chosen), "{chosen}");
    }
}
