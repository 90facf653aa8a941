//! What comes by the connections: answers of nodes, what has changed in the cluster, and whom this client can reach.

use std::time::Duration;

use tokio::time::Instant;
use tyr_net::Address;
use tyr_proto::{
    NodeId, RingVersion, Time,
    cluster::{Difference, Fact, MemberState, Response},
    message::Answer,
};

use super::{
    Driver, Meeting,
    links::{Heard, Origin, What},
};
use crate::words;

/// Whoever is at an address that is not in the ring is waited for so long.
const MEETING_MAX: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn hear(&mut self, heard: Heard) {
        if !self.links.note(&heard) {
            return self.settle_meeting(Instant::now());
        }
        let now = self.now();
        match (heard.what, heard.origin) {
            (What::Answer(answer), Origin::Node(node)) => self.hear_answer(now, node, answer),
            (What::Response(_, Response::Hatch(address)), Origin::Node(node)) => {
                self.go_to_hatch(node, address, None)
            }
            (What::Response(_, Response::Ticket(address, ticket)), Origin::Node(node)) => {
                self.go_to_hatch(node, Some(address), Some(ticket))
            }
            (What::Response(number, response), _) => {
                if let Some(Response::Ring(difference)) = self.manager.hear(now, number, response) {
                    self.learn(difference);
                }
            }
            (What::Opened(_) | What::Closed(_), origin) => {
                if let Origin::Node(node) = origin {
                    self.note_reach(now, node);
                    self.seek_hatches(now);
                }
                if let Some(reason) = self.links.denial() {
                    let reason = reason.to_owned();
                    self.deny_all(&reason);
                }
                if !self.is_in_touch() {
                    self.manager.want_ring();
                }
                self.settle_meeting(Instant::now());
                self.keep_seeds();
            }
            (What::Answer(_), _) => {}
        }
        self.handle_events();
    }

    fn hear_answer(&mut self, now: Time, node: NodeId, answer: Answer) {
        if let Some((request, how)) = answer.read() {
            self.nearness.hears(now, node, request);
            self.show_rank(now, node);
            self.traces.iter_mut().for_each(|traces| traces.hears(request, node, how));
        }
        match answer {
            Answer::Located { .. } => return self.hear_located(now, node, answer),
            Answer::Bytes { request, ref bytes, .. } => self.files.note_sent(request, bytes.len()),
            _ => {}
        }
        self.client.handle_answer(now, node, answer);
        self.flush(None);
    }

    /// Whether it has learned everything once, and can reach a member.
    fn is_in_touch(&self) -> bool {
        self.whole > RingVersion(0) && self.links.reaches_a_member()
    }

    /// A connection to a node has opened or closed: what it was to read others can read.
    fn note_reach(&mut self, now: Time, node: NodeId) {
        let is_open = self.links.reaches(node);
        self.nearness.set_open(node, is_open);
        self.show_rank(now, node);
        match is_open {
            true => self.files.hatches.seek(now, node),
            false => {
                self.client.handle_unreachable(now, node);
                self.flush(None);
            }
        }
    }

    /// Tells the protocol's client how far away a node is.
    pub(super) fn show_rank(&mut self, now: Time, node: NodeId) {
        if let Some(rank) = self.nearness.rank(now, node) {
            self.client.set_rank(node, rank);
        }
    }

    /// Keeps connections to the addresses that the caller named as long as no member can be reached at its own: all may have moved.
    fn keep_seeds(&mut self) {
        if self.links.reaches_a_member() {
            if self.meeting == Meeting::Done {
                self.links.hang_up(|origin| matches!(origin, Origin::Seed(_)));
            }
            return;
        }
        for (place, address) in self.seeds.iter().enumerate() {
            self.links.dial(Origin::Seed(place), address.clone());
        }
    }

    /// Takes note of what has changed in the cluster.
    fn learn(&mut self, difference: Difference) {
        let mut has_keyspaces = false;
        for fact in difference.facts {
            match fact {
                Fact::Class(id, settings) => {
                    has_keyspaces = true;
                    self.catalog.note_class(id, settings);
                }
                Fact::Keyspace(id, keyspace) => {
                    has_keyspaces = true;
                    self.catalog.note_keyspace(id, keyspace);
                }
                Fact::Member(node, member) if member.state == MemberState::Left => {
                    self.members.remove(&node);
                    self.nearness.remove_member(node);
                    self.files.hatches.leave(node);
                }
                Fact::Member(node, member) => {
                    // Whatever it is: that text parses as an address is the type's promise.
                    let Ok(address) = member.address.as_str().parse();
                    self.nearness.set_member(node, member.zone);
                    let is_here = matches!(address, Address::Unix(_)) || self.files.hatches.is_open(node);
                    self.nearness.set_here(node, is_here);
                    self.members.insert(node, address);
                }
                Fact::Partition(id, configuration, _) => self.client.handle_configuration(id, configuration),
                Fact::Account(..) | Fact::Seal(..) => {}
            }
        }
        if has_keyspaces {
            self.placed = self.catalog.placed();
            self.client.handle_keyspaces(self.placed.clone());
        }
        for (node, address) in &self.members {
            self.links.dial(Origin::Node(*node), address.clone());
        }
        let members = &self.members;
        self.links.hang_up(|origin| matches!(origin, Origin::Node(node) if !members.contains_key(&node)));
        self.keep_seeds();
        self.manager.set_members(self.members.keys().copied().collect());
        match difference.reached {
            Some(version) => {
                self.whole = self.whole.max(version);
                self.client.handle_ring_version(version);
            }
            None => self.manager.want_ring(),
        }
        self.settle_meeting(Instant::now());
        if self.meeting == Meeting::Done {
            self.manager.fetched();
        }
    }

    /// Whether all addresses that the caller named are of one cluster, as far as can be known; who opened the store waits for that.
    pub(super) fn settle_meeting(&mut self, at: Instant) {
        if self.meeting == Meeting::Done || self.whole == RingVersion(0) {
            return;
        }
        let until = match self.meeting {
            Meeting::Waits(until) => until,
            Meeting::Begins | Meeting::Done => at + MEETING_MAX,
        };
        let is_known = |address: &Address| self.members.values().any(|member| member == address);
        let strangers = (0..).zip(&self.seeds).filter(|(_, address)| !is_known(address));
        let strangers: Vec<Origin> = strangers.map(|(place, _)| Origin::Seed(place)).collect();
        if strangers.iter().any(|stranger| self.links.is_foreign(*stranger)) {
            let addresses: Vec<String> = self.seeds.iter().map(Address::to_string).collect();
            let error = || words::two_clusters(&addresses);
            return self.manager.fail(error, error);
        }
        let is_over = at >= until || strangers.iter().all(|stranger| self.links.has_heard(*stranger));
        if is_over {
            self.meeting = Meeting::Done;
            self.keep_seeds();
            self.manager.fetched();
        } else {
            self.meeting = Meeting::Waits(until);
        }
    }
}
