//! How many bytes of a range are data, by one question after the other where data and holes begin.

use std::ops::Range;

use tyr_types::Seek;

/// A range that is being counted.
#[derive(Debug)]
pub struct DataSize {
    /// What is not counted yet.
    left: Range<u64>,
    /// Whether data begins there, as far as that was found.
    is_data: bool,
    sum: u64,
    questions: usize,
}

/// After so many questions the rest counts as data.
const QUESTIONS_MAX: usize = 256;

impl DataSize {
    /// Nothing of a range is counted yet.
    pub fn of(range: Range<u64>) -> Self {
        DataSize { left: range, is_data: false, sum: 0, questions: 0 }
    }

    /// What is to be asked next, and from where on; `None` if all is counted.
    pub fn question(&mut self) -> Option<(Seek, u64)> {
        if self.questions == QUESTIONS_MAX {
            self.sum += self.left.end - self.left.start;
            self.left.start = self.left.end;
        }
        self.questions += 1;
        let what = if self.is_data { Seek::Hole } else { Seek::Data };
        (!self.left.is_empty()).then_some((what, self.left.start))
    }

    /// Takes where that is, if it is anywhere.
    pub fn take(&mut self, found: Option<u64>) {
        let found = found.unwrap_or(self.left.end).clamp(self.left.start, self.left.end);
        if self.is_data {
            self.sum += found - self.left.start;
        }
        (self.left.start, self.is_data) = (found, !self.is_data);
    }

    /// How many bytes are data.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in a range where every other piece of so many bytes is data, the second first.
    fn count(range: Range<u64>, piece: u64) -> (u64, usize) {
        let (mut size, mut asked) = (DataSize::of(range.clone()), 0);
        while let Some((what, from)) = size.question() {
            asked += 1;
            let is_meant = |at: &u64| (at / piece % 2 == 1) == (what == Seek::Data);
            size.take((from..range.end).find(is_meant));
        }
        (size.sum(), asked)
    }

    #[test]
    fn data_is_counted_and_holes_are_not() {
        assert_eq!(count(0..0, 10), (0, 0));
        assert_eq!(count(0..10, 10), (0, 1));
        assert_eq!(count(0..25, 10), (10, 3));
        assert_eq!(count(15..35, 10), (10, 4));
    }

    #[test]
    fn what_comes_after_many_holes_counts_as_data() {
        assert_eq!(count(0..10_000, 1), (128 + 10_000 - 256, QUESTIONS_MAX));
    }
}
