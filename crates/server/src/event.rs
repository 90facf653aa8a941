//! What the membership's task hears of.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tyr_net::{Address, Receipt};
use tyr_proto::{
    NodeId, Uses,
    cluster::{ClusterId, Command, Request, Response},
};
use tyr_types::Error;
use tyr_wire::connection::Party;

use crate::{asking::Back, guard::Caller, shard::Ending};

/// Something that concerns the node as a member of its cluster.
#[derive(Debug)]
pub(crate) enum Event {
    /// The cluster manager answers this node; and who was asked.
    Answered(NodeId, Response),
    /// A packet of gossip.
    Gossip(Vec<u8>),
    /// A shard has something to report.
    Report(Command),
    /// What all nodes hold of keyspaces with quotas, and what this one had told of that.
    Uses(Uses, Uses),
    /// Somebody knows more than this node.
    Behind,
    /// At an address is this node of this cluster, as far as whoever is there knows either.
    Met(Address, Option<ClusterId>, Option<NodeId>),
}

/// A question to the cluster manager that somebody asks through this node. As long as it is kept, the bytes of its frame count as held here.
#[derive(Debug)]
pub(crate) struct Question {
    pub party: Party,
    pub back: Back,
    pub request: Request,
    /// None of what came by HTTP, of which there is only so much at once.
    pub receipt: Option<Receipt>,
    /// Of a client that had to be let in: who it is.
    pub caller: Option<Arc<Caller>>,
}

impl Question {
    /// Whether a member of the cluster asks, and not a client or newcomer.
    pub fn is_of_member(&self) -> bool {
        matches!(self.party, Party::Node { .. })
    }
}

/// Where events are told. Handles are equal.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: mpsc::Sender<Event>,
    /// Questions of members, and of others: neither waits behind the other, nor behind what concerns the node itself.
    members: mpsc::Sender<Question>,
    others: mpsc::Sender<Question>,
    failed: mpsc::UnboundedSender<Error>,
    stopped: Arc<watch::Sender<Option<Ending>>>,
}

/// Where they are heard.
pub(crate) struct Heard {
    pub told: Told,
    pub failed: mpsc::UnboundedReceiver<Error>,
}

/// What the membership hears.
pub(crate) struct Told {
    pub events: mpsc::Receiver<Event>,
    pub members: mpsc::Receiver<Question>,
    pub others: mpsc::Receiver<Question>,
    /// Changes when the lease is to be given up. It waits behind nothing else.
    pub stopped: watch::Receiver<Option<Ending>>,
}

impl Events {
    /// Both ends.
    pub fn new() -> (Events, Heard) {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (from_members, members) = mpsc::channel(QUESTIONS_MAX);
        let (from_others, others) = mpsc::channel(QUESTIONS_MAX);
        let (failing, failed) = mpsc::unbounded_channel();
        let (stopping, stopped) = watch::channel(None);
        let tellers = Events {
            sender,
            members: from_members,
            others: from_others,
            failed: failing,
            stopped: Arc::new(stopping),
        };
        (tellers, Heard { told: Told { events, members, others, stopped }, failed })
    }

    /// Asks something. What is too much is lost, and asked again.
    pub fn ask(&self, question: Question) {
        let queue = if question.is_of_member() { &self.members } else { &self.others };
        let _lost = queue.try_send(question);
    }

    /// Tells of something. What is too much is lost, and comes again.
    pub fn tell(&self, event: Event) {
        let _lost = self.sender.try_send(event);
    }

    /// The node is to give up its lease, and serves no more.
    pub fn stop(&self, end: Ending) {
        self.stopped.send_replace(Some(end));
    }

    /// The node cannot go on.
    pub fn fail(&self, error: Error) {
        self.stop(Ending::Stopped);
        let _ended = self.failed.send(error);
    }
}

/// The most events that wait.
const EVENTS_MAX: usize = 4096;
/// The most questions that wait, of members, and of others.
const QUESTIONS_MAX: usize = 1024;
