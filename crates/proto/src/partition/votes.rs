//! Votes that arrive at the decider before their transaction does.
//!
//! A vote is a fact, so it counts whenever it came: then a chain over many stops need not hear of its lock point before it votes. One that is
//! let go of here is asked for again, as one that was lost on its way.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use crate::{Time, TransactionId, entry::Part};

/// The votes, by transaction.
#[derive(Debug, Default)]
pub struct EarlyVotes {
    parts: BTreeMap<TransactionId, BTreeSet<Part>>,
    /// When the first one of each came, the oldest first. Also of those that were taken.
    since: VecDeque<(Time, TransactionId)>,
}

/// Those of so many transactions are kept,
const COUNT_MAX: usize = 4096;
/// for so many microseconds: by then those that do not come were refused before the decider.
const KEPT_FOR: u64 = 1_000_000;

impl EarlyVotes {
    /// Keeps a vote, if it is one of not too many.
    pub fn note(&mut self, now: Time, id: TransactionId, part: Part) {
        let is_over = |since: Time| now.since(since) >= KEPT_FOR;
        while let Some((_, old)) =
            self.since.pop_front_if(|(since, _)| is_over(*since)).or_else(|| self.pop_if_full())
        {
            self.parts.remove(&old);
        }
        if !self.parts.contains_key(&id) {
            self.since.push_back((now, id));
        }
        self.parts.entry(id).or_default().insert(part);
    }

    fn pop_if_full(&mut self) -> Option<(Time, TransactionId)> {
        (self.since.len() >= COUNT_MAX).then(|| self.since.pop_front()).flatten()
    }

    /// Takes out the parts that have voted for a transaction.
    pub fn take(&mut self, id: TransactionId) -> Vec<Part> {
        self.parts.remove(&id).into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassId, PartitionId, RingVersion, SessionId};

    fn id(sequence: u64) -> TransactionId {
        TransactionId { session: SessionId(1), sequence, birth: RingVersion(1) }
    }

    fn part(index: u32) -> Part {
        Part::Heads(PartitionId { class: ClassId(0), index })
    }

    #[test]
    fn votes_are_kept_until_their_transaction_takes_them_or_time_has_passed() {
        let mut votes = EarlyVotes::default();
        votes.note(Time(1), id(1), part(1));
        votes.note(Time(2), id(1), part(2));
        votes.note(Time(2), id(2), part(1));
        assert_eq!((votes.take(id(1)), votes.take(id(1))), (Vec::from([part(1), part(2)]), Vec::new()));
        votes.note(Time(2 + KEPT_FOR), id(3), part(1));
        assert_eq!((votes.take(id(2)), votes.take(id(3))), (Vec::new(), Vec::from([part(1)])));
    }

    #[test]
    fn of_too_many_the_oldest_go() {
        let mut votes = EarlyVotes::default();
        let count = COUNT_MAX as u64;
        (0..=count).for_each(|sequence| votes.note(Time(1), id(sequence), part(1)));
        assert!(votes.since.len() <= COUNT_MAX && votes.parts.len() <= COUNT_MAX);
        assert_eq!((votes.take(id(0)).len(), votes.take(id(count)).len()), (0, 1));
    }
}
