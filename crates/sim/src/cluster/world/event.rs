//! What happens in a world at some time.

use std::sync::Arc;

use tyr_proto::{
    Keyspaces, NodeId, SessionId, SnapshotId,
    cluster::{Request, Response},
    message::{Answer, Envelope},
};

use crate::cluster::{caller::Order, voters::Letter};

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Deliver(NodeId, Envelope),
    Answer(SessionId, NodeId, Answer),
    Stored(NodeId, u64, usize),
    Tick(NodeId, u64),
    Boot(NodeId),
    CallerTick(SessionId),
    ManagerTick,
    /// From a node to the cluster manager, of which a node is asked.
    ToManager(NodeId, NodeId, Request),
    FromManager(NodeId, Response),
    RingAsked(SessionId, NodeId, Request),
    RingTold(SessionId, Response),
    /// From a client to the cluster manager, for the operation at a place,
    Order(SessionId, usize, Order),
    /// and the answer, with the snapshot that it is about.
    Ordered(SessionId, usize, Order, SnapshotId),
    /// A node is told how the keyspaces are by the so manieth change.
    Keyspaces(NodeId, u64, Arc<Keyspaces>),
    /// Between voters, or packets of gossip.
    Letter(NodeId, Letter),
    /// Somebody writes to the keyspace that is dropped, for the so manieth time, or has it dropped.
    Doom(u64),
    Fault,
    /// Of a fault that has several parts: a node crashes for so long.
    Crash(NodeId, u64),
    /// Likewise: nothing gets from one node to another until then.
    Cut(NodeId, NodeId, u64),
}

impl Event {
    /// Its kind and whom it concerns, as numbers.
    pub(super) fn subject(&self) -> (u64, u64) {
        match self {
            Event::Deliver(node, envelope) => {
                (1, u64::from(node.0) ^ u64::from(envelope.partition.index) << 8)
            }
            Event::Answer(session, node, _) => (2, session.0 ^ u64::from(node.0) << 8),
            Event::Stored(node, ..) => (3, u64::from(node.0)),
            Event::Tick(node, _) => (4, u64::from(node.0)),
            Event::Boot(node) => (5, u64::from(node.0)),
            Event::CallerTick(session) => (6, session.0),
            Event::ManagerTick => (7, 0),
            Event::ToManager(node, ..) => (8, u64::from(node.0)),
            Event::FromManager(node, _) => (9, u64::from(node.0)),
            Event::RingAsked(session, ..) => (10, session.0),
            Event::RingTold(session, _) => (11, session.0),
            Event::Doom(number) => (19, *number),
            Event::Fault => (12, 0),
            Event::Letter(node, _) => (13, u64::from(node.0)),
            Event::Crash(node, _) => (14, u64::from(node.0)),
            Event::Order(session, ..) => (16, session.0),
            Event::Ordered(session, ..) => (17, session.0),
            Event::Keyspaces(node, version, _) => (18, u64::from(node.0) ^ version << 8),
            Event::Cut(from, to, _) => (15, u64::from(from.0) ^ u64::from(to.0) << 8),
        }
    }

    /// Whether it is worth a line of the trace.
    pub(super) fn is_shown(&self) -> bool {
        !matches!(
            self,
            Event::Tick(..)
                | Event::CallerTick(_)
                | Event::ManagerTick
                | Event::Letter(_, Letter::Gossip(..))
        )
    }
}
