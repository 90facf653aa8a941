//! How long things took: counts by bounds, as Prometheus has them.

/// Times by their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// For each bound how many were no longer, and longer than the bound before; at last those that were longer than any.
    counts: [u64; BOUNDS.len() + 1],
    /// All together, in microseconds.
    sum: u64,
}

/// The bounds, in microseconds, and as text in seconds.
pub(crate) const BOUNDS: [(u64, &str); 15] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
];

impl Histogram {
    /// Something took so many microseconds.
    pub fn add(&mut self, micros: u64) {
        let place = BOUNDS.partition_point(|(bound, _)| *bound < micros);
        self.counts[place] += 1;
        self.sum = self.sum.saturating_add(micros);
    }

    /// For each bound, as text in seconds, how many were no longer; at last all of them.
    pub fn cumulative(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let bounds = BOUNDS.iter().map(|(_, text)| *text).chain(["+Inf"]);
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        bounds.zip(sums)
    }

    /// For each bound how many were no longer, and longer than the bound before; at last those that were longer than any.
    pub fn counts(&self) -> &[u64; BOUNDS.len() + 1] {
        &self.counts
    }

    /// Adds other times.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Those that were added since it was like that.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let mut since = self.clone();
        since
            .counts
            .iter_mut()
            .zip(before.counts)
            .for_each(|(count, old)| *count = count.saturating_sub(old));
        since.sum = since.sum.saturating_sub(before.sum);
        since
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All together, in microseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_as_long_as_a_bound_is_within_it() {
        let mut histogram = Histogram::default();
        for micros in [1, 100, 101, 20_000_000] {
            histogram.add(micros);
        }
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative[..2], [("0.0001", 2), ("0.00025", 3)]);
        assert_eq!(cumulative.last(), Some(&("+Inf", 4)));
        assert_eq!((histogram.count(), histogram.sum()), (4, 20_000_202));
    }
}
