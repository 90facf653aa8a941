//! What nodes and clients ask of the cluster manager, and what it answers.
//!
//! Any of the two may be lost, come twice, or come late: everything here may be asked again.

use alloc::{string::String, vec::Vec};

use super::{Address, Command, Difference, Position, Reply, Report, SealId};
use crate::{
    LeaseRequest, NodeId, Replica, RingVersion, Uses,
    access::{AccountId, Rights, Scope},
};

/// What is asked of a node on which the cluster manager may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A command. What a node reports again and is no news may stay without an answer.
    Command(Command),
    /// A node starts or goes on as a new incarnation: who it will be, and the command [`Command::Register`].
    Register(Replica, Command),
    /// A lease, and what changed since a position.
    Lease(LeaseRequest, Position),
    /// What changed since a version. Any voter answers it, as far as it knows.
    Ring(RingVersion),
    /// The same, but everything that was so when this was asked: the leader alone answers it, when a majority has confirmed it.
    Newest(RingVersion),
    /// How the node that is asked is doing. It answers itself, whether a voter runs there or not.
    Report,
    /// Where on its host the node that is asked hands its files to readers.
    Hatch,
    /// A token. The leader alone makes one.
    Token(TokenOrder),
    /// A new seal, with which tokens are made from then on. The leader alone makes one.
    Seal,
    /// What a node holds of keyspaces with quotas, and a question what all nodes do. The leader alone answers it. A client just asks.
    Uses(Uses),
    /// What there is to see of the node that is asked, or of the whole cluster as it sees that: for people. It answers itself.
    View(ViewOf),
}

/// What a token is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOrder {
    /// The user whose it is to be.
    pub user: AccountId,
    /// For how many seconds it is good.
    pub lifetime: u64,
    /// What of the user's rights it lets through; all if it says nothing.
    pub limits: Vec<(Scope, Rights)>,
    /// The public half of the pair of keys whose secret half its holder keeps.
    pub holder: [u8; 32],
}

/// Of what there is something to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewOf {
    /// The node that is asked.
    Node,
    /// All nodes, and what the cluster manager knows.
    Cluster,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The node has this number.
    Registered(NodeId),
    /// A lease with what changed.
    Granted(LeaseRequest, Difference),
    /// This incarnation was evicted.
    Evicted(Replica),
    /// What changed.
    Ring(Difference),
    /// It does not lead, or is not sure; who does, as far as it knows.
    Elsewhere(Option<NodeId>),
    /// What a command answers.
    Replied(Reply),
    /// How the node is doing.
    Report(Report),
    /// Where it does, if it does. It means nothing on another host.
    Hatch(Option<Address>),
    /// The same, and a ticket to show there, which is good as long as the connection on which it was told.
    Ticket(Address, u128),
    /// A token: its claims, and what the seal makes of them.
    Token(Vec<u8>),
    /// The newest seal.
    Seal(SealId),
    /// Who asked does not have these rights, which that takes.
    Denied(Scope, Rights),
    /// What all nodes hold of keyspaces with quotas, as they have told lately.
    Uses(Uses),
    /// What there is to see, as a JSON object with its version in it; none if the node cannot tell now.
    View(Option<String>),
}
