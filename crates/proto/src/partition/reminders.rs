//! What has to be looked at again if it has not ended after a while.

use alloc::{collections::VecDeque, vec::Vec};

use super::RESEND_AFTER;
use crate::{Time, TransactionId};

/// Transactions in the order in which they were last looked at. Those that have ended meanwhile are dropped by who looks.
#[derive(Debug, Default)]
pub struct Reminders(VecDeque<(Time, TransactionId)>);

impl Reminders {
    /// Has a transaction looked at in a while.
    pub fn add(&mut self, now: Time, id: TransactionId) {
        self.0.push_back((now, id));
    }

    /// Takes those that were not looked at for long enough to say again what was said.
    pub fn take_due(&mut self, now: Time) -> Vec<TransactionId> {
        let mut due = Vec::new();
        while let Some((_, id)) = self.0.pop_front_if(|(since, _)| now.since(*since) >= RESEND_AFTER) {
            due.push(id);
        }
        due
    }
}
