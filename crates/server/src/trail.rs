//! What was said of transactions lately, and which operations were slow, with the hops that they took.
//!
//! It belongs to a shard's thread. What is said is noted in a ring of fixed size: a few words for each message of a transaction, looked
//! through only when one was slow.

use std::collections::VecDeque;

use tyr_proto::{BlobName, NodeId, PartitionId, Time, TransactionId, message::Message};

/// Something that was said of a transaction to or by a partition of the shard, or that the shard waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    /// When.
    pub at: Time,
    pub step: Step,
    /// To which partition it was said; the one that was said to for what came.
    pub partition: PartitionId,
    /// To which node; none if it came.
    pub node: Option<NodeId>,
}

/// What a hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A client has it begin.
    Start,
    /// It goes to the next stop of its chain.
    Pass,
    /// Its writes go to their chunks.
    Write,
    /// A part is durable, and everything before it decided.
    Vote,
    /// The decider asks how a part stands.
    AskVote,
    /// How it ended is told.
    Outcome,
}

impl Step {
    /// Its name, as the glossary has it.
    pub fn name(self) -> &'static str {
        match self {
            Step::Start => "start",
            Step::Pass => "pass",
            Step::Write => "write",
            Step::Vote => "vote",
            Step::AskVote => "ask-vote",
            Step::Outcome => "outcome",
        }
    }

    /// What a message says, and of which transaction, if it is one of these.
    pub fn of(message: &Message) -> Option<(TransactionId, Step)> {
        Some(match message {
            Message::Start(plan) => (plan.id, Step::Start),
            Message::Pass { plan, .. } => (plan.id, Step::Pass),
            Message::Write { writes, .. } => (writes.id, Step::Write),
            Message::Vote { id, .. } => (*id, Step::Vote),
            Message::AskVote { id, .. } => (*id, Step::AskVote),
            Message::Outcome { id, .. } => (*id, Step::Outcome),
            _ => return None,
        })
    }
}

/// What was said lately.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    hops: Vec<(TransactionId, Hop)>,
    next: usize,
}

impl Trail {
    /// Something was said.
    pub fn note(&mut self, id: TransactionId, hop: Hop) {
        if self.hops.len() < HOPS_MAX {
            self.hops.push((id, hop));
        } else {
            self.hops[self.next] = (id, hop);
            self.next = (self.next + 1) % HOPS_MAX;
        }
    }

    /// What was said of a transaction, in order, as far as it is known yet.
    pub fn of(&self, id: TransactionId) -> Vec<Hop> {
        let (newer, older) = self.hops.split_at(self.next);
        let of_id = older.iter().chain(newer).filter(|(other, _)| *other == id).map(|(_, hop)| *hop);
        of_id.take(TOLD_MAX).collect()
    }
}

/// An operation that took long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slow {
    /// When it ended, in milliseconds since 1970.
    pub at: u64,
    /// Its name: the transaction, or the reader's request.
    pub request: String,
    /// What it was: `transaction`, `stop` for one whose chain went on from here, or what a reader asked.
    pub kind: &'static str,
    /// How it ended.
    pub outcome: &'static str,
    /// In microseconds.
    pub took: u64,
    /// The first of the blobs, and how many.
    pub blob: Option<BlobName>,
    pub blobs: usize,
    /// With the time since it began, in microseconds.
    pub hops: Vec<(u64, Hop)>,
}

/// The last operations that took long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slows {
    last: VecDeque<Slow>,
    total: u64,
}

impl Slows {
    /// One more.
    pub fn add(&mut self, slow: Slow) {
        self.total += 1;
        if self.last.len() >= SLOW_MAX {
            self.last.pop_front();
        }
        self.last.push_back(slow);
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The last ones, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Slow> {
        self.last.iter().rev()
    }
}

/// As many hops are known at once: of the last second, at ten thousand transactions of three hops.
const HOPS_MAX: usize = 1 << 15;
/// As many hops of one operation are told.
const TOLD_MAX: usize = 64;
/// As many slow operations are remembered.
const SLOW_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use tyr_proto::{ClassId, RingVersion, SessionId};

    use super::*;

    #[test]
    fn the_hops_of_a_transaction_are_found_until_others_take_their_room() {
        let id = |sequence| TransactionId { session: SessionId(4), sequence, birth: RingVersion(1) };
        let hop = |at| Hop {
            at: Time(at),
            step: Step::Vote,
            partition: PartitionId { class: ClassId(0), index: 3 },
            node: None,
        };
        let mut trail = Trail::default();
        let room = HOPS_MAX as u64;
        for at in 0..room {
            trail.note(id(at % 1000), hop(at));
        }
        let times = |hops: Vec<Hop>| hops.iter().map(|hop| hop.at.0).collect::<Vec<_>>();
        assert_eq!(times(trail.of(id(7)))[..3], [7, 1007, 2007]);
        trail.note(id(7), hop(room));
        for at in 1..1000 {
            trail.note(id(2000), hop(room + at));
        }
        let known = times(trail.of(id(7)));
        assert_eq!(
            (known[0], known.last()),
            (1007, Some(&room)),
            "the first is gone, and the last came last"
        );
        assert!(trail.of(id(3000)).is_empty());
    }
}
