//! What has to be looked at again if it has not ended after a while.

use alloc::{collections::BTreeSet, vec::Vec};

use super::RESEND_AFTER;
use crate::{Time, TransactionId, tries::Tries};

/// Transactions by when they are looked at next. Those that have ended meanwhile are dropped by who looks.
#[derive(Debug, Default)]
pub struct Reminders(BTreeSet<(Time, TransactionId, Tries)>);

impl Reminders {
    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has a transaction looked at in a while.
    pub fn add(&mut self, now: Time, id: TransactionId) {
        self.insert(id, Tries::first(now));
    }

    /// Has a transaction that was looked at and has not ended looked at once more, after a longer while.
    pub fn add_again(&mut self, now: Time, id: TransactionId, mut tries: Tries) {
        tries.again(now);
        self.insert(id, tries);
    }

    fn insert(&mut self, id: TransactionId, tries: Tries) {
        self.0.insert((tries.due_at(RESEND_AFTER), id, tries));
    }

    /// Takes those that were not looked at for long enough to say again what was said.
    pub fn take_due(&mut self, now: Time) -> Vec<(TransactionId, Tries)> {
        let mut due = Vec::new();
        while self.0.first().is_some_and(|(due_at, ..)| *due_at <= now)
            && let Some((_, id, tries)) = self.0.pop_first()
        {
            due.push((id, tries));
        }
        due
    }
}
