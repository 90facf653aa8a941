//! How long what is sent in a world is on its way, and whether it arrives.

use tyr_proto::{
    NodeId, SessionId, Time,
    cluster::{Fact, Request, Response},
    encoding::{Decode, Encode, detached, from_bytes, to_bytes},
    message::Envelope,
};

use super::{World, event::Event};
use crate::cluster::voters::{Asker, Letter, Way};

/// Nodes, clients, and the cluster manager talk within at most this many microseconds, if nothing is wrong.
pub(super) const MANAGER_DELAY: u64 = 500;

impl World {
    /// What voters and gossip want carried goes on its way.
    pub(super) fn carry(&mut self) {
        while let Some(letter) = self.manager.voters().and_then(|voters| voters.poll()) {
            match letter {
                Letter::Voter(Way { from, to }, _) | Letter::Gossip(Way { from, to }, _) => {
                    self.send_letter(from, to, letter);
                }
                Letter::Node(Way { from, to }, response) => {
                    let is_cut = self.is_cut(from, to);
                    if from == to {
                        self.after(1, Event::FromManager(to, response));
                    } else if let Some(delay) = self.delay().filter(|_| !is_cut) {
                        self.after(delay, Event::FromManager(to, response));
                    }
                }
                Letter::Client(to, response) => {
                    if let Some(delay) = self.delay() {
                        self.after(delay, Event::RingTold(to, response));
                    }
                }
            }
        }
    }

    fn send_letter(&mut self, from: NodeId, to: NodeId, letter: Letter) {
        let now = self.now;
        let is_voter = matches!(letter, Letter::Voter(..));
        let is_muted = self.manager.voters().is_some_and(|voters| is_voter && voters.is_muted(from, to, now));
        if !self.servers.contains_key(&to) || is_muted || (self.is_faulty && self.is_cut(from, to)) {
            return;
        }
        let comes_twice = self.is_faulty && self.random.happens(self.profile.duplication);
        for _ in 0..=u32::from(comes_twice) {
            if let Some(delay) = self.delay() {
                self.after(delay, Event::Letter(to, letter.clone()));
            }
        }
    }

    /// What came over the network is what was sent, if it has gone there as bytes, too.
    pub(super) fn arrived<T: Encode + Decode>(&self, sent: T) -> T {
        if self.profile.as_bytes {
            return from_bytes(&to_bytes(&sent)).expect("what was encoded can be decoded");
        }
        sent
    }

    /// What is sent does not share payload with its sender, which may keep it on a disk of its own. None if it cannot be read there.
    pub(super) fn sent(&self, envelope: Envelope) -> Option<Envelope> {
        if self.profile.storage.store.is_some() { detached(&envelope) } else { Some(envelope) }
    }

    /// How long a message takes; `None` if it is lost.
    pub(super) fn delay(&mut self) -> Option<u64> {
        let (least, usual, slow) = self.profile.delay;
        if self.is_faulty && self.random.happens(self.profile.loss) {
            return None;
        }
        let is_slow = self.is_faulty && self.random.happens(self.profile.slow);
        Some(least + self.random.below(if is_slow { slow } else { usual }.max(1)))
    }

    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.links_cut.get(&(from, to)).is_some_and(|until| *until > self.now)
    }

    pub(super) fn send(&mut self, from: NodeId, to: NodeId, envelope: Envelope) {
        if !self.servers.contains_key(&to) || (self.is_faulty && self.is_cut(from, to)) {
            return;
        }
        let Some(envelope) = self.sent(envelope) else { return };
        if self.is_faulty
            && self.random.happens(self.profile.duplication)
            && let Some(delay) = self.delay()
        {
            self.after(delay, Event::Deliver(to, envelope.clone()));
        }
        if let Some(delay) = self.delay() {
            self.after(delay, Event::Deliver(to, envelope));
        }
    }

    /// Node 0 of a link stands for a cluster manager that is an actor.
    pub(super) fn ask_manager(&mut self, node: NodeId, request: Request) {
        let time = Time(self.now);
        let voter = self.manager.voters().map(|voters| voters.contact(Asker::Node(node), time));
        let to = voter.unwrap_or(NodeId(0));
        let is_cut = self.is_cut(node, to);
        if to == node {
            self.after(1, Event::ToManager(node, to, request));
        } else if let Some(delay) = self.delay().filter(|_| !is_cut) {
            self.after(delay.min(MANAGER_DELAY * 4), Event::ToManager(node, to, request));
        }
    }

    pub(super) fn answer_node(&mut self, node: NodeId, reply: Response) {
        if matches!(reply, Response::Evicted(_)) {
            self.record.count("evicted a node");
        }
        let is_cut = self.is_cut(NodeId(0), node);
        if let Some(delay) = self.delay().filter(|_| !is_cut) {
            self.after(delay, Event::FromManager(node, reply));
        }
    }

    pub(super) fn tell_ring(&mut self, session: SessionId, reply: Response) {
        let Response::Ring(difference) = reply else { return };
        let Some(caller) = self.callers.get_mut(&session) else { return };
        for fact in difference.facts {
            if let Fact::Partition(id, configuration, _) = fact {
                caller.client.handle_configuration(id, configuration);
            }
        }
        if let Some(version) = difference.reached {
            caller.client.handle_ring_version(version);
        }
    }
}
