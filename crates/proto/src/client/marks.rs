//! What a client tells partitions of the answers that it has, so that they may forget.
//!
//! Invariant: what is said to be answered is no transaction whose outcome the caller has not been told.

use alloc::vec::Vec;

use super::{Client, Sent};
use crate::{
    Answered, PartitionId, Time,
    canary::{Canary, planted},
    message::Message,
};

/// Partitions are told what was answered this often, in microseconds. Nobody waits for it: until then they keep outcomes, and what a plan that comes
/// there says itself need not be told.
const MARK_AFTER: u64 = 250_000;
/// What was not answered for so many microseconds is an exception of what was answered, so that partitions need not remember all that came later.
const EXCEPTED_AFTER: u64 = 1_000_000;

impl Client {
    /// The client ends. It says what was answered, and does not wait until that is noted: where it is not heard, its session is forgotten in
    /// time.
    pub fn leave(&mut self, now: Time) {
        self.tell_marks(now);
        self.unmarked.clear();
    }

    /// Everything below this sequence has been answered.
    pub(super) fn answered(&self) -> u64 {
        self.transactions.keys().next().copied().unwrap_or(self.last_sequence + 1)
    }

    /// What has been answered. It does not end at what has been under way for long: who serves that is perhaps to be waited for.
    fn all_answered(&self, now: Time) -> Answered {
        let is_young = |sent: &Sent| now.since(sent.since) < EXCEPTED_AFTER;
        let young = self.transactions.iter().find(|(_, sent)| is_young(sent));
        let next = young.map_or(self.last_sequence + 1, |(sequence, _)| *sequence);
        if planted(Canary::ExceptionsIgnored) {
            return Answered::below(next);
        }
        Answered::all_but(self.transactions.range(..next).map(|(sequence, _)| *sequence), next)
    }

    /// Time passes: marks are told.
    pub(super) fn tick_marks(&mut self, now: Time) {
        if now.since(self.unmarked_since) >= MARK_AFTER {
            self.unmarked_since = now;
            self.tell_marks(now);
        }
    }

    /// Tells partitions what was answered.
    fn tell_marks(&mut self, now: Time) {
        let answered = self.all_answered(now);
        // Beyond the mark they can be told nothing yet.
        let due = self.unmarked.iter().filter(|(_, owed)| **owed <= answered.mark());
        for partition in due.map(|(partition, _)| *partition).collect::<Vec<_>>() {
            let (session, born) = (self.session, self.version);
            self.send(partition, Message::Answered { session, answered: answered.clone(), born });
        }
    }

    /// A partition has noted what was answered. It hears more if something that was under way then has ended meanwhile.
    pub(super) fn mark_noted(&mut self, partition: PartitionId, answered: &Answered) {
        let Some(owed) = self.unmarked.get(&partition) else { return };
        let is_under_way = |sequence: &u64| self.transactions.contains_key(sequence);
        if *owed <= answered.mark() && answered.exceptions().iter().all(is_under_way) {
            self.unmarked.remove(&partition);
        }
    }
}
