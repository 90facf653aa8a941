//! Which of its transactions' answers a client has: what it tells partitions so that they may forget.
//!
//! Sequences are given out in order and mostly answered so: it is a mark, below which all are answered, but for the few below it that are not:
//! those that wait for a partition that nobody serves. Without these exceptions one such transaction would have every partition keep what it
//! knows of all that come after it.

use alloc::vec::Vec;

use crate::encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure};

/// A set of a session's sequences. It only grows: what was said of it stays true, in whatever order it is heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    below: u64,
    /// In order, each once, and each below the mark.
    except: Vec<u64>,
}

/// The most exceptions of a set.
const EXCEPTIONS_MAX: usize = 512;

impl Answered {
    /// All below a sequence.
    pub fn below(sequence: u64) -> Self {
        Answered { below: sequence, except: Vec::new() }
    }

    /// All but some, the first of which are given in order, each once; of what comes after these nothing is said.
    pub fn all_but(mut missing: impl Iterator<Item = u64>, next: u64) -> Self {
        let except: Vec<_> = missing.by_ref().take(EXCEPTIONS_MAX).collect();
        Answered { below: missing.next().unwrap_or(next), except }
    }

    /// The mark: nothing from here on is in the set.
    pub fn mark(&self) -> u64 {
        self.below
    }

    /// What is below the mark and not in the set, in order.
    pub fn exceptions(&self) -> &[u64] {
        &self.except
    }

    /// Whether a sequence is in the set.
    pub fn has(&self, sequence: u64) -> bool {
        sequence < self.below && self.except.binary_search(&sequence).is_err()
    }

    /// Whether everything that another set has is in it.
    pub fn covers(&self, other: &Answered) -> bool {
        let is_missing =
            |sequence: &u64| *sequence >= other.below || other.except.binary_search(sequence).is_ok();
        self.below >= other.below && self.except.iter().all(is_missing)
    }

    /// Adds another set.
    pub fn add(&mut self, other: &Answered) {
        if self.except.is_empty() && other.except.is_empty() {
            self.below = self.below.max(other.below);
            return;
        }
        let (low, high) = if self.below <= other.below { (&*self, other) } else { (other, &*self) };
        let except = high.except.iter().copied().filter(|sequence| !low.has(*sequence)).collect();
        *self = Answered { below: high.below, except };
    }

    /// Those of the set that are below a sequence.
    #[must_use]
    pub fn up_to(&self, sequence: u64) -> Self {
        let below = self.below.min(sequence);
        let count = self.except.partition_point(|missing| *missing < below);
        Answered { below, except: self.except[..count].to_vec() }
    }
}

/// Begins what has exceptions, or this as its mark. Anything else is the mark alone.
const ESCAPE: u64 = u64::MAX;

impl Encode for Answered {
    fn encode(&self, out: &mut Encoder) {
        if self.below == ESCAPE || !self.except.is_empty() {
            out.varint(ESCAPE);
            out.varint(self.below);
            self.except.encode(out);
        } else {
            out.varint(self.below);
        }
    }
}

impl Decode for Answered {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mark = input.varint()?;
        if mark != ESCAPE {
            return Ok(Answered::below(mark));
        }
        let (below, except) = (input.varint()?, Vec::<u64>::decode(input)?);
        let in_order = except.is_sorted_by(|one, other| one < other);
        let is_short = (below == ESCAPE || !except.is_empty()) && except.len() <= EXCEPTIONS_MAX;
        ensure(
            in_order && is_short && except.last().is_none_or(|last| *last < below),
            "what is answered is out of order",
        )?;
        Ok(Answered { below, except })
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;
    use crate::encoding::{from_bytes, to_bytes};

    const SEQUENCES: u64 = 6;

    /// All sets with marks of up to six.
    fn sets() -> Vec<Answered> {
        let mut sets = Vec::new();
        for below in 0..=SEQUENCES {
            for bits in 0..1_u64 << below {
                let except: Vec<_> = (0..below).filter(|sequence| bits >> sequence & 1 == 1).collect();
                sets.push(Answered { below, except });
            }
        }
        sets
    }

    fn members(set: &Answered) -> BTreeSet<u64> {
        (0..=SEQUENCES).filter(|sequence| set.has(*sequence)).collect()
    }

    #[test]
    fn what_is_added_is_there_with_what_was_there() {
        for one in sets() {
            for other in sets() {
                let mut both = one.clone();
                both.add(&other);
                assert_eq!(members(&both), &members(&one) | &members(&other), "{one:?} and {other:?}");
                assert!(both.covers(&one) && both.covers(&other), "{both:?} of {one:?} and {other:?}");
                let is_within = members(&other).is_subset(&members(&one));
                assert!(is_within || !one.covers(&other), "{one:?} has not all of {other:?}");
            }
        }
    }

    #[test]
    fn a_part_of_it_has_those_below() {
        for set in sets() {
            for sequence in 0..=SEQUENCES {
                let below: BTreeSet<_> = members(&set).range(..sequence).copied().collect();
                assert_eq!(members(&set.up_to(sequence)), below, "{set:?} up to {sequence}");
            }
        }
    }

    #[test]
    fn a_mark_without_exceptions_is_written_as_a_number() {
        for below in [0, 1, 300, ESCAPE - 1] {
            assert_eq!(to_bytes(&Answered::below(below)), to_bytes(&below));
        }
        for set in sets().into_iter().chain([Answered::below(ESCAPE)]) {
            assert_eq!(from_bytes::<Answered>(&to_bytes(&set)), Ok(set));
        }
        let twofold = [to_bytes(&ESCAPE), to_bytes(&7_u64), to_bytes(&Vec::<u64>::new())].concat();
        assert!(from_bytes::<Answered>(&twofold).is_err(), "that is written as a number");
    }

    #[test]
    fn of_those_after_too_many_exceptions_nothing_is_said() {
        let missing = |count: usize| (0..count as u64).map(|turn| 2 * turn);
        let few = Answered::all_but(missing(3), 100);
        assert_eq!((few.mark(), few.exceptions()), (100, &[0, 2, 4][..]));
        let many = Answered::all_but(missing(EXCEPTIONS_MAX + 1), 5_000);
        assert_eq!((many.mark(), many.exceptions().len()), (2 * EXCEPTIONS_MAX as u64, EXCEPTIONS_MAX));
    }
}
