//! What the consensus is about.

use openraft::{EmptyNode, RaftTypeConfig, Vote, raft::responder::OneshotResponder};
use tyr_proto::{
    Awaited,
    cluster::{Cluster, Command, Reply},
};

use crate::{RaftRuntime, Surroundings};

/// A voter's name in the consensus: the number of its node.
pub type VoterId = u32;

/// The types that openraft is used with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Types<S>(std::marker::PhantomData<S>);

impl<S: Surroundings> RaftTypeConfig for Types<S> {
    type D = Proposal;
    type R = Option<Reply>;
    type NodeId = VoterId;
    type Node = EmptyNode;
    type Entry = Entry<S>;
    type SnapshotData = Cluster;
    type AsyncRuntime = RaftRuntime<S>;
    type Responder = OneshotResponder<Self>;
}

/// A command, as it is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What it rests on; it is refused as stale where that does not hold any more.
    pub premise: Premise,
    /// The command.
    pub command: Command,
}

/// What a command rests on. By default on nothing: it may be applied whenever it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Premise {
    /// The only term in which it may be applied; none: any. What a leader concluded from leases that it granted holds only in
    /// the term in which it granted them.
    pub term: Option<u64>,
    /// The change that must still wait with its partition.
    pub awaited: Option<Awaited>,
}

impl Premise {
    /// Whether it holds in a term, before the next command is applied to the cluster.
    pub(crate) fn holds(&self, term: u64, cluster: &Cluster) -> bool {
        self.term.is_none_or(|only| only == term)
            && self.awaited.is_none_or(|awaited| Awaited::of(cluster, awaited.partition) == awaited)
    }
}

/// An entry of the log.
pub type Entry<S> = openraft::Entry<Types<S>>;
/// A position of the log.
pub type LogId = openraft::LogId<VoterId>;
/// The voters, as logged.
pub type Membership = openraft::StoredMembership<VoterId, EmptyNode>;
/// What a snapshot covers.
pub type SnapshotMeta = openraft::SnapshotMeta<VoterId, EmptyNode>;

/// What a snapshot covers, by name.
pub(crate) fn snapshot_meta(last_log_id: Option<LogId>, last_membership: Membership) -> SnapshotMeta {
    let snapshot_id = last_log_id.map_or_else(String::new, |last| last.to_string());
    SnapshotMeta { last_log_id, last_membership, snapshot_id }
}

/// A failure of the journal.
pub type StorageError = openraft::StorageError<VoterId>;

/// What one voter asks another.
#[derive(Clone, Debug)]
pub enum Request<S: Surroundings> {
    /// Append entries, or just hear that the leader leads.
    Append(openraft::raft::AppendEntriesRequest<Types<S>>),
    /// Vote.
    Vote(openraft::raft::VoteRequest<VoterId>),
    /// Take the whole state.
    Snapshot(Vote<VoterId>, SnapshotMeta, Box<Cluster>),
    /// Say whether the one who asks would get a vote if it stood for election; its log ends there. It has not stood yet.
    Canvass(Option<LogId>),
}

/// What it answers.
#[derive(Debug)]
pub enum Response {
    /// To [`Request::Append`].
    Append(openraft::raft::AppendEntriesResponse<VoterId>),
    /// To [`Request::Vote`].
    Vote(openraft::raft::VoteResponse<VoterId>),
    /// To [`Request::Snapshot`].
    Snapshot(openraft::raft::SnapshotResponse<VoterId>),
    /// To [`Request::Canvass`].
    Canvass(bool),
}
