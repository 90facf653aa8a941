//! What a node has done over time: a sample every few seconds, of which it keeps the last.

use std::collections::VecDeque;

use super::view::{KeyspaceWorkView, Sample, Work};
use crate::usage::{self, KeyspaceWork, Usage};

/// The last samples, and what they began with.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    last: Option<(u64, KeyspaceWork)>,
    samples: VecDeque<Sample>,
    /// What had been done in each keyspace at the last moments, the oldest first.
    usages: VecDeque<(u64, Usage)>,
}

impl Samples {
    /// So much was done until now, in all and in each keyspace.
    pub fn take(&mut self, at_ms: u64, total: KeyspaceWork, usage: Usage) {
        if let Some((before_ms, before)) = &self.last {
            let work = Work::from(&total.since(before));
            let seconds = at_ms.saturating_sub(*before_ms) as f64 / 1e3;
            if self.samples.len() >= SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample { at_ms: at_ms - at_ms % EVERY_MS, seconds, work });
        }
        self.last = Some((at_ms, total));
        if self.usages.len() > WINDOW {
            self.usages.pop_front();
        }
        self.usages.push_back((at_ms, usage));
    }

    /// All that are kept, the oldest first.
    pub fn all(&self) -> Vec<Sample> {
        self.samples.iter().cloned().collect()
    }

    /// What was done in each keyspace in the last seconds, and in how many.
    pub fn by_keyspace(&self) -> (f64, Vec<KeyspaceWorkView>) {
        let (Some((from, before)), Some((to, now))) = (self.usages.front(), self.usages.back()) else {
            return (0.0, Vec::new());
        };
        let nothing = KeyspaceWork::default();
        let view = |(keyspace, work): (&tyr_types::KeyspaceId, &KeyspaceWork)| KeyspaceWorkView {
            keyspace: keyspace.0,
            recent: Work::from(&work.since(before.get(keyspace).unwrap_or(&nothing))),
            total: Work::from(work),
        };
        (to.saturating_sub(*from) as f64 / 1e3, now.iter().map(view).collect())
    }
}

/// Adds up what the shards of a node did.
pub(crate) fn sum<'a>(usages: impl Iterator<Item = &'a Usage>) -> Usage {
    let mut sum = Usage::new();
    for (keyspace, work) in usages.flatten() {
        if let Some(of_all) = usage::of(&mut sum, *keyspace) {
            of_all.add(work);
        }
    }
    sum
}

/// The time between two samples, in milliseconds.
pub(crate) const EVERY_MS: u64 = 2_000;
/// As many are kept: ten minutes.
const SAMPLES_MAX: usize = 300;
/// What was done lately is what was done in so many times between samples.
const WINDOW: usize = 5;

#[cfg(test)]
mod tests {
    use tyr_types::KeyspaceId;

    use super::*;

    #[test]
    fn samples_tell_what_was_done_between_them_and_only_the_last_are_kept() {
        let mut samples = Samples::default();
        let keyspace = KeyspaceId(3);
        for second in 0..1000_u64 {
            let work = KeyspaceWork { committed: second * second, ..KeyspaceWork::default() };
            samples.take(7 + second * EVERY_MS, work.clone(), Usage::from([(keyspace, work)]));
        }
        let all = samples.all();
        assert_eq!(all.len(), SAMPLES_MAX);
        let last = &all[SAMPLES_MAX - 1];
        assert_eq!((last.at_ms, last.seconds, last.work.committed), (999 * EVERY_MS, 2.0, 2 * 998 + 1));
        let (seconds, keyspaces) = samples.by_keyspace();
        assert_eq!((seconds, keyspaces.len()), (10.0, 1));
        assert_eq!(keyspaces[0].recent.committed, 999 * 999 - 994 * 994);
        assert_eq!(keyspaces[0].total.committed, 999 * 999);
    }
}
