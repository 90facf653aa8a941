//! What the membership's task hears of.

use tokio::sync::mpsc;
use tyr_net::{Address, Link};
use tyr_proto::{
    NodeId,
    cluster::{ClusterId, Command, Request, Response},
};
use tyr_types::Error;
use tyr_wire::connection::Party;

/// Something that concerns the node as a member of its cluster.
#[derive(Debug)]
pub(crate) enum Event {
    /// Somebody asks the cluster manager through this node, under a number.
    Asked(Party, Link, u64, Request),
    /// The cluster manager answers this node; and who was asked.
    Answered(NodeId, Response),
    /// A packet of gossip.
    Gossip(Vec<u8>),
    /// A shard has something to report.
    Report(Command),
    /// A client knows more than this node.
    Behind,
    /// At an address of the settings is this node of this cluster, as far as it knows either.
    Met(Address, Option<ClusterId>, Option<NodeId>),
}

/// Where events are told. Handles are equal.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: mpsc::Sender<Event>,
    failed: mpsc::UnboundedSender<Error>,
}

/// Where they are heard.
pub(crate) struct Heard {
    pub events: mpsc::Receiver<Event>,
    pub failed: mpsc::UnboundedReceiver<Error>,
}

impl Events {
    /// Both ends.
    pub fn new() -> (Events, Heard) {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (failing, failed) = mpsc::unbounded_channel();
        (Events { sender, failed: failing }, Heard { events, failed })
    }

    /// Tells of something. What is too much is lost, and comes again.
    pub fn tell(&self, event: Event) {
        let _lost = self.sender.try_send(event);
    }

    /// The node cannot go on.
    pub fn fail(&self, error: Error) {
        let _ended = self.failed.send(error);
    }
}

/// The most events that wait.
const EVENTS_MAX: usize = 4096;
