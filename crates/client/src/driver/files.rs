//! Reads of files of nodes on this host, in place of having the nodes send what is in them.
//!
//! A node whose hatch is open is asked where bytes lie rather than for the bytes, unless they are few. What it has said is read here at
//! once if that needs no waiting, and on a thread that may wait if it does, or if it is much and something else is to be done meanwhile. Whatever does
//! not work is asked of the node as bytes.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::mpsc::UnboundedReceiver;
use tyr_net::{Address, HatchOwner, Patience};
use tyr_proto::{
    NodeId, SPOT_MIN, Time,
    cluster::{self, Request},
    message::{Answer, Envelope, Message, RequestId},
};

use super::{
    Driver,
    hatches::{self, Counts, Found, Hatches, Heard, Located},
    links::Origin,
};

/// What a driver needs to read files of nodes on its host.
#[derive(Debug)]
pub struct Files {
    /// Whether that is wanted.
    is_wanted: bool,
    /// Where nodes hand their files.
    pub hatches: Hatches,
    /// Requests for which a node is to send bytes, wherever they are.
    plain: BTreeSet<RequestId>,
    /// How reads were answered.
    pub counts: Arc<Counts>,
}

/// The number of the question where a node hands its files to readers: no other one gets so far.
const HATCH_QUESTION: u64 = u64::MAX;

impl Files {
    /// No hatch is open yet. What happens at them is told to the receiver.
    pub fn new(is_wanted: bool, counts: Arc<Counts>) -> (Self, UnboundedReceiver<Heard>) {
        let (hatches, shown) = Hatches::new();
        (Files { is_wanted, hatches, plain: BTreeSet::new(), counts }, shown)
    }

    /// A node has sent bytes.
    pub fn note_sent(&mut self, request: RequestId, bytes: usize) {
        self.plain.remove(&request);
        self.counts.read_network(bytes);
    }

    /// A message as it is sent: a node whose files can be read here is asked where bytes are, and for all of a blob only if that is little.
    pub fn in_form(&self, node: NodeId, envelope: Envelope) -> Envelope {
        let Envelope { partition, message } = envelope;
        let message = match message {
            Message::Read { request, chunk, range, at }
                if range.end - range.start >= SPOT_MIN as u64
                    && self.hatches.is_open(node)
                    && !self.plain.contains(&request) =>
            {
                Message::Locate { request, chunk, range, at }
            }
            Message::Get { request, blob, size_max } if self.hatches.is_open(node) => {
                Message::Get { request, blob, size_max: size_max.min(SPOT_MIN as u64) }
            }
            Message::GetWith { request, blob, size_max, others } if self.hatches.is_open(node) => {
                Message::GetWith { request, blob, size_max: size_max.min(SPOT_MIN as u64), others }
            }
            message => message,
        };
        Envelope { partition, message }
    }
}

impl Driver {
    /// Forgets files that nobody reads and requests that nobody waits for, and looks for hatches.
    pub(super) fn tidy_files(&mut self, now: Time) {
        self.files.hatches.tidy(now);
        self.seek_hatches(now);
        let client = &self.client;
        self.files.plain.retain(|request| client.waits_for(*request));
    }

    /// Asks nodes whose hatch is not open where it is: it may be about to be.
    pub(super) fn seek_hatches(&mut self, now: Time) {
        for node in self.files.hatches.take_due(now).into_iter().filter(|_| self.files.is_wanted) {
            if self.links.reaches(node) {
                self.links.ask(Origin::Node(node), HATCH_QUESTION, &Request::Hatch);
            }
        }
    }

    /// A node says where it hands its files to readers: on this host, if it is there and it is the node's.
    pub(super) fn go_to_hatch(
        &mut self,
        node: NodeId,
        address: Option<cluster::Address>,
        ticket: Option<u128>,
    ) {
        let Some(Ok(Address::Unix(path))) = address.map(|address| address.as_str().parse()) else { return };
        if let Some(cluster) = self.links.cluster().filter(|_| self.files.is_wanted) {
            self.files.hatches.go_to(path, HatchOwner { cluster, node: node.0 }, ticket);
        }
    }

    /// Something has happened at the hatch of a node.
    pub(super) fn hear_hatch(&mut self, mut heard: Heard) {
        let (now, node) = (self.now(), heard.node);
        if !self.files.hatches.note(now, &mut heard) {
            if let hatches::What::Read(located, _) = heard.what {
                self.fall_back(now, located.request, false);
            }
            return;
        }
        match heard.what {
            hatches::What::Opened | hatches::What::Closed => {
                let is_here = matches!(self.members.get(&node), Some(Address::Unix(_)));
                self.nearness.set_here(node, is_here || self.files.hatches.is_open(node));
                self.show_rank(now, node);
            }
            hatches::What::File(..) => {}
            hatches::What::Read(located, found) => self.take_found(now, node, located, found),
        }
        self.handle_events();
    }

    /// A node has said where what was to be read lies.
    pub(super) fn hear_located(&mut self, now: Time, node: NodeId, answer: Answer) {
        let Answer::Located { request, version, stretches, whole } = answer else { return };
        if !self.client.waits_for(request) {
            return;
        }
        match self.files.hatches.locate(now, node, (request, version, whole), stretches) {
            Some(located) if self.has_mail() && self.files.hatches.may_read_apart(&located) => {
                self.files.hatches.read_apart(node, located);
            }
            Some(located) => {
                let found = located.read(Patience::None);
                self.take_found(now, node, located, found);
            }
            None => self.fall_back(now, request, false),
        }
    }

    fn take_found(&mut self, now: Time, node: NodeId, located: Located, found: Found) {
        let Located { request, version, whole, .. } = located;
        match found {
            Found::Bytes(bytes) => {
                self.files.counts.read_files(bytes.len());
                self.client.handle_answer(
                    now,
                    node,
                    Answer::Bytes { request, version, bytes: bytes.into(), whole },
                );
                self.flush(None);
            }
            Found::Slow => self.files.hatches.read_apart(node, located),
            Found::Unreadable => self.fall_back(now, request, false),
            Found::Damaged => self.fall_back(now, request, true),
        }
    }

    /// Has a node send what could not be read here.
    fn fall_back(&mut self, now: Time, request: RequestId, is_damaged: bool) {
        if self.client.waits_for(request) {
            self.files.counts.fall_back(is_damaged);
            self.files.plain.insert(request);
            self.client.ask_again(now, request);
            self.flush(None);
        }
    }
}
