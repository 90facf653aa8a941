//! A keyspace that is dropped while clients are at work on another one. Somebody writes to it who never asks how that ended, before that and for
//! a while after. In the end nothing of it may be left anywhere.

use std::{collections::BTreeSet, sync::Arc};

use tyr_proto::{
    BlobName, HeadPlan, Operation, Payload, Plan, SessionId, TransactionId,
    message::{Envelope, Message},
};
use tyr_types::Key;

use super::{World, event::Event};
use crate::cluster::layout::{CHUNK, DOOMED};

/// Who writes to it: none of the clients.
const WRITER: SessionId = SessionId(1 << 40);
/// A transaction follows the one before after this many microseconds at most.
const EVERY: u64 = 40_000;
/// Before so many at most it is dropped.
const DROPPED_BEFORE: u64 = 60;
/// So many are sent after that: not everybody has heard of it.
const AFTERWARDS: u64 = 20;
/// Blobs that are written.
const BLOBS: u64 = 12;

impl World {
    /// Somebody writes to the keyspace, or has it dropped.
    pub(super) fn doom(&mut self, number: u64) {
        if !self.keyspaces[&DOOMED].is_dropped && self.random.below(DROPPED_BEFORE) < number {
            self.record.count("dropped a keyspace");
            self.change_keyspace(DOOMED, |keyspace| keyspace.is_dropped = true);
            return self.after(1, Event::Doom(DROPPED_BEFORE));
        }
        self.write_to_doomed(number);
        if number < DROPPED_BEFORE + AFTERWARDS {
            let next = 1 + self.random.below(EVERY);
            self.after(next, Event::Doom(number + 1));
        }
    }

    /// Whether the keyspace was dropped, or there is none.
    pub fn has_dropped(&self) -> bool {
        self.keyspaces.get(&DOOMED).is_none_or(|keyspace| keyspace.is_dropped)
    }

    /// What nodes with a role have of it, but for the numbers of what was deleted or refused.
    pub fn doomed(&self) -> impl Iterator<Item = String> {
        self.servers.iter().flat_map(|(node, server)| {
            let held = server.node().into_iter().flat_map(|node| node.partitions());
            held.filter(|partition| partition.has_role()).flat_map(move |partition| {
                let (heads, chunks) = (partition.state().heads(), partition.state().chunks());
                let heads = heads.filter(|(blob, head)| blob.keyspace == DOOMED && !head.is_gone());
                let chunks = chunks
                    .filter(|(chunk, held)| chunk.blob.keyspace == DOOMED && !held.content().is_empty());
                let heads = heads.map(|(blob, head)| format!("{} {head:?}", blob.key));
                let chunks = chunks.map(|(chunk, held)| format!("{chunk:?} {held:?}"));
                heads.chain(chunks).map(move |what| format!("{node} {}: {what}", partition.id()))
            })
        })
    }

    fn write_to_doomed(&mut self, number: u64) {
        let keys: BTreeSet<u64> = (0..=self.random.below(3)).map(|_| self.random.below(BLOBS)).collect();
        let mut heads = Vec::new();
        for key in keys {
            let blob =
                BlobName { keyspace: DOOMED, key: Key::new(format!("d{key:02}")).expect("a short key") };
            let bytes: Payload = number.to_le_bytes()[..].into();
            let operation = match self.random.below(6) {
                0 => Operation::Delete,
                1 => Operation::Append { bytes },
                2 => Operation::Write { offset: 3 * CHUNK, bytes },
                _ => Operation::Write { offset: CHUNK - 4, bytes },
            };
            let partition = self.keyspaces[&DOOMED].partition_of(&blob, 0);
            heads.push(HeadPlan::blind(partition, blob, vec![operation]));
        }
        heads.sort_by(|one, other| (one.partition, &one.blob).cmp(&(other.partition, &other.blob)));
        let partition = heads[0].partition;
        let known = self.manager.cluster().partition(partition);
        let Some(primary) = known.and_then(|known| known.configuration.primary()) else { return };
        let id = TransactionId { session: WRITER, sequence: 1 + number, birth: self.ring_version };
        let plan = Plan { id, answered: 0, reserve: None, heads };
        let envelope = Envelope { partition, message: Message::Start(Arc::new(plan)) };
        if let (Some(envelope), Some(delay)) = (self.sent(envelope), self.delay()) {
            self.after(delay, Event::Deliver(primary.node, envelope));
        }
    }
}
