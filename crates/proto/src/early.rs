//! Transactions that reach a node before it has heard of their keyspaces.
//!
//! The number of a keyspace is never given twice, and dropped ones stay known. So one that is not known was made a moment ago, and whoever
//! refused its transactions would refuse what nothing speaks against. They wait instead until the keyspaces change, which is as if
//! the network had been that slow. All keyspaces of a transaction have to be known at each of its stops: what names one that was never
//! made gets past none, and nobody waits for it.

use alloc::collections::VecDeque;

use crate::{
    Keyspaces, PartitionId, Plan,
    canary::{Canary, planted},
    message::{Envelope, Message},
};

/// As many wait; what came first goes first, and is sent again by who sent it.
const EARLY_MAX: usize = 64;

/// Transactions that wait for their keyspaces to be heard of.
#[derive(Debug, Default)]
pub struct Early {
    waiting: VecDeque<Envelope>,
    has_changed: bool,
}

impl Early {
    /// Keeps a message that comes too early, and gives back any other.
    pub fn sift(
        &mut self,
        keyspaces: &Keyspaces,
        partition: PartitionId,
        message: Message,
    ) -> Option<Message> {
        let (Message::Start(plan) | Message::Pass { plan, .. }) = &message else { return Some(message) };
        if knows_all(keyspaces, plan) || planted(Canary::UnheardRefused) {
            return Some(message);
        }
        if self.waiting.len() == EARLY_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Envelope { partition, message });
        None
    }

    /// The keyspaces have changed.
    pub fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// What is to be handled once more, in the order of its arrival.
    pub fn take(&mut self) -> VecDeque<Envelope> {
        match core::mem::take(&mut self.has_changed) {
            true => core::mem::take(&mut self.waiting),
            false => VecDeque::new(),
        }
    }
}

fn knows_all(keyspaces: &Keyspaces, plan: &Plan) -> bool {
    plan.heads.iter().all(|head| keyspaces.contains_key(&head.blob.keyspace))
}
