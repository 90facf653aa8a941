//! What has to be looked at again if it has not ended after a while.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{Time, TransactionId, tries::Tries};

/// Transactions by when they are looked at next. Those that have ended meanwhile are dropped by who looks.
#[derive(Debug, Default)]
pub struct Reminders(BTreeSet<Reminder>);

/// A transaction that is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reminder {
    due_at: Time,
    /// Which one.
    pub id: TransactionId,
    /// How often it was looked at.
    pub tries: Tries,
    /// After how many microseconds for the first time.
    after: u64,
}

impl Reminders {
    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has a transaction looked at in so many microseconds.
    pub fn add(&mut self, now: Time, id: TransactionId, after: u64) {
        self.insert(Reminder { due_at: now, id, tries: Tries::first(now), after });
    }

    /// Has a transaction that was looked at and has not ended looked at once more, after a longer while.
    pub fn add_again(&mut self, now: Time, mut reminder: Reminder) {
        reminder.tries.again(now);
        self.insert(reminder);
    }

    fn insert(&mut self, reminder: Reminder) {
        self.0.insert(Reminder { due_at: reminder.tries.due_at(reminder.after), ..reminder });
    }

    /// Takes those whose time has come.
    pub fn take_due(&mut self, now: Time) -> Vec<Reminder> {
        let mut due = Vec::new();
        while self.0.first().is_some_and(|reminder| reminder.due_at <= now)
            && let Some(reminder) = self.0.pop_first()
        {
            due.push(reminder);
        }
        due
    }
}
