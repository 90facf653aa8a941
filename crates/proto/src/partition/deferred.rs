//! What nobody waits for is logged later: with the next entry of the partition, or when it has waited for a while.
//!
//! Outcomes, marks, and the forgetting of transactions are promised to nobody when they are known, and are most of what a log holds. Logged
//! one by one each would cost a message to every backup, its answer, and a write at every replica. All partitions of a shard log what they
//! have deferred at the same times, so that it shares writes and frames also where each partition has little.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use super::Partition;
use crate::{
    Answered, Outcome, PartitionId, RingVersion, SessionId, Time, TransactionId, effects::Context,
    entry::Entry,
};

/// What is known and not logged yet.
#[derive(Debug, Default)]
pub struct Deferred {
    /// How transactions ended.
    outcomes: BTreeMap<TransactionId, Outcome>,
    /// Whose outcome nobody needs.
    forgotten: BTreeMap<TransactionId, Forgotten>,
    /// Which answers clients have, and the ring version that they knew.
    marks: BTreeMap<SessionId, (Answered, RingVersion)>,
    /// Since when the first of it waits.
    since: Option<Time>,
}

/// A transaction that is to be forgotten.
#[derive(Debug)]
struct Forgotten {
    /// Of which transactions up to it its client has the answers.
    answered: Option<Answered>,
    /// Who is to hear that it is forgotten durably.
    driver: Option<PartitionId>,
}

/// The times at which a partition logs what it has deferred are so many microseconds apart.
pub const DEFER_MAX: u64 = 50_000;

impl Deferred {
    /// Forgets everything: another replica leads.
    pub fn clear(&mut self) {
        *self = Deferred::default();
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    fn wait(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Whether one of the times has passed since the first of it was deferred.
    fn is_due(&self, now: Time) -> bool {
        self.since.is_some_and(|since| now.0 / DEFER_MAX > since.0 / DEFER_MAX)
    }
}

impl Partition {
    /// Has an outcome logged, if it is not.
    pub(super) fn note_outcome(&mut self, now: Time, id: TransactionId, outcome: Outcome) {
        let logged = self.state.record(id).is_none_or(|record| record.outcome_index.is_some());
        if !logged {
            self.deferred.outcomes.entry(id).or_insert(outcome);
            self.deferred.wait(now);
        }
    }

    /// Has it logged that nobody needs the outcome of a transaction any more; who drives it elsewhere hears when that is durable.
    pub(super) fn note_forgotten(
        &mut self,
        now: Time,
        id: TransactionId,
        answered: Option<Answered>,
        driver: Option<PartitionId>,
    ) {
        let known = self.deferred.forgotten.remove(&id).and_then(|known| known.driver);
        self.deferred.forgotten.insert(id, Forgotten { answered, driver: driver.or(known) });
        self.deferred.wait(now);
    }

    /// Has it logged which answers a client has.
    pub(super) fn note_mark(
        &mut self,
        now: Time,
        session: SessionId,
        answered: &Answered,
        born: RingVersion,
    ) {
        let (known, since) = self.deferred.marks.entry(session).or_default();
        known.add(answered);
        *since = (*since).max(born);
        self.deferred.wait(now);
    }

    /// Logs what was deferred.
    pub(super) fn log_deferred(&mut self, cx: &mut Context<'_>) {
        if self.deferred.is_empty() {
            return;
        }
        let Deferred { outcomes, forgotten, marks, .. } = core::mem::take(&mut self.deferred);
        if !outcomes.is_empty() {
            self.log_entry(cx, Entry::Outcomes(outcomes.into_iter().collect::<Vec<_>>()));
        }
        for (session, (answered, born)) in marks {
            self.log_entry(cx, Entry::Mark { session, answered: Arc::new(answered), born });
        }
        for (id, Forgotten { answered, driver }) in forgotten {
            self.drives.remove(&id);
            self.tellers.remove(&id);
            let index = self.log_entry(cx, Entry::Forget { id, answered: answered.map(Arc::new) });
            if let Some(driver) = driver {
                self.forgetting.insert(id, (index, driver));
            }
        }
    }

    pub(super) fn tick_deferred(&mut self, cx: &mut Context<'_>) {
        if self.deferred.is_due(cx.now) {
            self.log_deferred(cx);
        }
    }
}
