//! What a handler wants done: a queue that the node empties.

use alloc::{collections::VecDeque, sync::Arc};

use tyr_types::KeyspaceId;

use crate::{
    Epoch, Keyspace, Keyspaces, Limits, NodeId, PartitionId, Replica, RingVersion, SessionId, Time,
    cached::CachedHeads,
    entry::Entry,
    message::{Answer, Message},
    quota::Rooms,
    state::State,
};

/// One thing to be done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Say something to a partition's primary, wherever it is.
    ToPrimary(PartitionId, Message),
    /// Say something to a partition at a node.
    ToNode(NodeId, PartitionId, Message),
    /// Answer a client.
    ToClient(SessionId, Answer),
    /// Write an entry to the partition's log, in the order of the effects, and say when it is durable.
    Store {
        /// The partition.
        partition: PartitionId,
        /// The entry's index.
        index: u64,
        /// Its epoch.
        epoch: Epoch,
        /// The entry.
        entry: Arc<Entry>,
    },
    /// Drop every entry of the partition's log after this one.
    Cut {
        /// The partition.
        partition: PartitionId,
        /// The last entry to keep.
        last: u64,
    },
    /// Replace the partition's log by a state.
    Install {
        /// The partition.
        partition: PartitionId,
        /// The entry up to which the state is folded.
        index: u64,
        /// The epochs of the log up to there.
        epochs: alloc::vec::Vec<(Epoch, u64)>,
        /// The state.
        state: Arc<State>,
    },
    /// Tell the cluster manager that a learner has everything.
    LearnerComplete(PartitionId, Epoch, Replica),
    /// Tell the cluster manager that this replica serves and decides nothing more in this epoch.
    Released(PartitionId, Epoch, Replica),
    /// Ask the cluster manager to remove a replica that does not keep up.
    ReplicaSlow(PartitionId, Epoch, Replica),
    /// Ask the cluster manager for a ring version, this one at least.
    AskVersion(RingVersion),
}

/// The surroundings of a handler: the time, the keyspaces, and the queue of what it wants done.
#[derive(Debug)]
pub struct Context<'a> {
    /// Now.
    pub now: Time,
    /// All keyspaces, those that were dropped included.
    pub keyspaces: &'a Arc<Keyspaces>,
    /// Whether the node holds its lease now.
    pub has_lease: bool,
    /// Whether the node's disk has no room for more than what has been promised.
    pub is_short: bool,
    /// The newest ring version that the node knows.
    pub version: RingVersion,
    /// How much the node takes on.
    pub limits: Limits,
    /// Below how many replicas the partition takes no writes.
    pub min_replicas: u8,
    /// The shard's copies of heads.
    pub cached: &'a mut CachedHeads,
    /// What room there is in keyspaces with quotas, as far as the shard knows.
    pub rooms: &'a mut Rooms,
    /// What is to be done, in order.
    pub effects: &'a mut VecDeque<Effect>,
}

impl Context<'_> {
    /// A keyspace that exists.
    pub fn existing(&self, keyspace: KeyspaceId) -> Option<&Keyspace> {
        self.keyspaces.get(&keyspace).filter(|known| !known.is_dropped)
    }

    /// Adds something to be done.
    pub fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Says something to a partition's primary.
    #[expect(clippy::wrong_self_convention, reason = "it names the destination")]
    pub fn to_primary(&mut self, partition: PartitionId, message: Message) {
        self.push(Effect::ToPrimary(partition, message));
    }

    /// Answers a client.
    pub fn answer(&mut self, session: SessionId, answer: Answer) {
        self.push(Effect::ToClient(session, answer));
    }
}
