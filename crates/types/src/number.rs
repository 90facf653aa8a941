//! Version numbers and blob identities.

use core::{fmt, str::FromStr};

use crate::{Error, Result};

/// The number of a transaction, and so of every version that it writes: (epoch, index), never used twice.
///
/// Numbers of one log ascend. The epoch is raised whenever the log's tail may have been lost (each opening of a
/// store), so that a number which a crash took back is not given out again (design, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number(u64);

impl Number {
    /// Before every transaction.
    pub const ZERO: Number = Number(0);
    /// After every transaction.
    pub const MAX: Number = Number(u64::MAX);

    const INDEX_BITS: u32 = 40;

    /// The first number of an epoch.
    pub fn first_of_epoch(epoch: u32) -> Self {
        Number((u64::from(epoch) << Self::INDEX_BITS) | 1)
    }

    /// The number at a place of a log: `index` counts from 1 and fits 40 bits, `epoch` fits 24.
    pub fn new(epoch: u32, index: u64) -> Self {
        Number((u64::from(epoch) << Self::INDEX_BITS) | (index & ((1 << Self::INDEX_BITS) - 1)))
    }

    /// The epoch: how often the log was opened.
    pub fn epoch(self) -> u64 {
        self.0 >> Self::INDEX_BITS
    }

    /// The place in the log of its epoch.
    pub fn index(self) -> u64 {
        self.0 & ((1 << Self::INDEX_BITS) - 1)
    }

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Number(self.0 + 1)
    }

    /// The number before this one; [`Number::ZERO`] has none and stays.
    #[must_use]
    pub fn previous(self) -> Self {
        Number(self.0.saturating_sub(1))
    }

    /// As stored on disk and sent over the wire.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// The inverse of [`Number::to_u64`].
    pub fn from_u64(raw: u64) -> Self {
        Number(raw)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.0 & ((1 << Self::INDEX_BITS) - 1))
    }
}

/// The inverse of its display: `epoch.index`.
impl FromStr for Number {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('.').and_then(|(epoch, index)| {
            let epoch = epoch.parse::<u64>().ok().filter(|epoch| epoch >> (64 - Self::INDEX_BITS) == 0)?;
            let index = index.parse::<u64>().ok().filter(|index| index >> Self::INDEX_BITS == 0)?;
            Some(Number((epoch << Self::INDEX_BITS) | index))
        });
        parts.ok_or_else(|| Error::invalid("a version is written epoch.index, such as 3.17"))
    }
}

/// The creation number of a blob: which of the blobs that ever had a key this one is. Part of the identity of
/// every chunk, so that nothing of a former blob is ever read in a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(u64);

impl BlobId {
    /// As stored on disk.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// The inverse of [`BlobId::to_u64`].
    pub fn from_u64(raw: u64) -> Self {
        BlobId(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_is_above_every_number_of_an_earlier_one() {
        let late = (0..1000).fold(Number::first_of_epoch(1), |number, _| number.next());
        assert!(late < Number::first_of_epoch(2));
        assert_eq!((late.epoch(), Number::first_of_epoch(2).epoch()), (1, 2));
    }

    #[test]
    fn what_is_displayed_reads_the_same() {
        for number in [Number::ZERO, Number::first_of_epoch(7).next(), Number::MAX] {
            assert_eq!(alloc::format!("{number}").parse(), Ok(number));
        }
        for text in ["", "1", "1.", "1.2.3", "-1.0", "16777216.0", "0.1099511627776"] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
    }
}
