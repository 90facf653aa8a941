//! Sums of what was done, and rates and quantiles of it.

use super::view::{Rates, Totals, Work};
use crate::{histogram::BOUNDS, usage::KeyspaceWork};

impl From<&KeyspaceWork> for Work {
    fn from(work: &KeyspaceWork) -> Self {
        Work {
            committed: work.committed,
            conflicts: work.conflicts,
            refused: work.refused,
            written_bytes: work.written,
            reads: work.reads,
            read_bytes: work.read,
            transaction_times: work.transaction_times.counts().to_vec(),
            read_times: work.read_times.counts().to_vec(),
        }
    }
}

impl Work {
    /// Adds what was done elsewhere.
    pub fn add(&mut self, other: &Work) {
        // Another node says what it likes.
        let sum = |one: &mut u64, other: u64| *one = one.saturating_add(other);
        sum(&mut self.committed, other.committed);
        sum(&mut self.conflicts, other.conflicts);
        sum(&mut self.refused, other.refused);
        sum(&mut self.written_bytes, other.written_bytes);
        sum(&mut self.reads, other.reads);
        sum(&mut self.read_bytes, other.read_bytes);
        merge(&mut self.transaction_times, &other.transaction_times);
        merge(&mut self.read_times, &other.read_times);
    }

    /// What that is in a second, if it took so long.
    pub fn rates(&self, at_ms: u64, seconds: f64) -> Rates {
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Rates {
            at_ms,
            transactions: per_second(self.committed),
            conflicts: per_second(self.conflicts),
            refused: per_second(self.refused),
            written_bytes: per_second(self.written_bytes),
            reads: per_second(self.reads),
            read_bytes: per_second(self.read_bytes),
            transaction_p50: quantile(&self.transaction_times, 0.5),
            transaction_p99: quantile(&self.transaction_times, 0.99),
            read_p50: quantile(&self.read_times, 0.5),
            read_p99: quantile(&self.read_times, 0.99),
        }
    }

    /// All of it.
    pub fn totals(&self) -> Totals {
        Totals {
            committed: self.committed,
            conflicts: self.conflicts,
            refused: self.refused,
            written_bytes: self.written_bytes,
            reads: self.reads,
            read_bytes: self.read_bytes,
        }
    }
}

fn merge(counts: &mut Vec<u64>, others: &[u64]) {
    counts.resize(BOUNDS.len() + 1, 0);
    counts.iter_mut().zip(others).for_each(|(count, other)| *count = count.saturating_add(*other));
}

/// How long so large a part of what is counted took at most, in seconds; as if all between two bounds were spread evenly. What is longer than the last
/// bound is told as that.
pub(crate) fn quantile(counts: &[u64], part: f64) -> Option<f64> {
    let total: f64 = counts.iter().map(|count| *count as f64).sum();
    if total <= 0.0 {
        return None;
    }
    let wanted = total * part;
    let (mut below, mut lower) = (0.0, 0.0);
    for (count, (bound, _)) in counts.iter().zip(BOUNDS) {
        let (count, upper) = (*count as f64, bound as f64 / 1e6);
        if count > 0.0 && below + count >= wanted {
            return Some(lower + (upper - lower) * ((wanted - below) / count).clamp(0.0, 1.0));
        }
        (below, lower) = (below + count, upper);
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_the_bounds_that_its_count_lies_between() {
        let mut work = KeyspaceWork::default();
        for micros in [90, 90, 90, 400, 400, 400, 400, 400, 400, 30_000] {
            work.read_times.add(micros);
        }
        let counts = Work::from(&work).read_times;
        let at = |part| quantile(&counts, part).unwrap_or(-1.0);
        assert!((0.000_25..=0.000_5).contains(&at(0.5)), "{}", at(0.5));
        assert!((0.025..=0.05).contains(&at(0.99)), "{}", at(0.99));
        assert!(at(0.1) <= 0.000_1);
        assert_eq!(quantile(&[0; 16], 0.5), None);
        let longest = [[0; 15].as_slice(), &[1]].concat();
        assert_eq!(quantile(&longest, 0.99), Some(10.0));
    }

    #[test]
    fn what_other_nodes_say_is_added_whatever_it_is() {
        let mut work = Work { committed: 10, ..Work::default() };
        work.add(&Work { committed: u64::MAX, read_times: vec![1; 99], ..Work::default() });
        work.add(&Work { transaction_times: vec![2], ..Work::default() });
        assert_eq!((work.committed, work.read_times.len()), (u64::MAX, BOUNDS.len() + 1));
        let rates = work.rates(5, 0.0);
        assert_eq!((rates.transactions, rates.at_ms), (0.0, 5));
        assert_eq!(work.rates(5, 2.0).transaction_p99.map(|p99| p99 <= 0.000_1), Some(true));
    }
}
