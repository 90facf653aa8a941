//! Ways around links that are cut: what is for a member that is not reached travels through a third one.
//!
//! Two nodes may not reach each other though both reach all others, and nobody is dead then, so nobody takes their place. A frame that
//! would wait for the link is put into an envelope for a third member, which sends it on. Invariants:
//!
//! - One hop: what has been sent on is handed to the node, never sent on again. So nothing goes in circles.
//! - A node sends on only to whom it reaches itself, or says at once that it does not; then another way is tried.
//! - From whom something is says the one who sent it on, who has it from the connection: as trustworthy as that member is.
//! - Nothing is kept here. What does not fit into the outbox of a link is dropped and counted, like anything that is lost.
//!
//! The link itself is dialed all the time, and is used again as soon as anything is heard over it. Messages may overtake one another when
//! the way changes; the protocol stands that, and loss.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tyr_net::{Link, channels::RELAY};
use tyr_proto::{NodeId, Time};
use tyr_wire::connection::{Channel, Frame, Unsent};

use crate::surroundings::now;

/// The links to all members, and the ways around those that are cut.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    ways: Mutex<Ways>,
    pub counts: Counts,
}

/// What was relayed since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Frames of this node that took a way around,
    pub sent: AtomicU64,
    /// frames of others that were sent on here,
    pub carried: AtomicU64,
    /// and those that were not, since their receiver was not reached or had no room.
    pub refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Ways {
    links: BTreeMap<NodeId, Link>,
    detours: BTreeMap<NodeId, Detour>,
}

/// How a member is reached that is not reached directly.
#[derive(Debug, Default)]
struct Detour {
    via: Option<NodeId>,
    /// Who did not reach it either, and when they said so.
    failed: BTreeMap<NodeId, Time>,
}

/// How something goes to a member.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// By its link, which may have to be made first.
    Direct(Link),
    /// By the link to another one.
    Around(Link),
}

/// What travels on the relay's channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relayed<'a> {
    /// To be sent on to a member: what is on a channel.
    Onward(NodeId, Channel, &'a [u8]),
    /// Sent on for a member.
    From(NodeId, Channel, &'a [u8]),
    /// This member is not reached by the one who was to send something on.
    Unreached(NodeId),
}

impl<'a> Relayed<'a> {
    /// What the body of a frame says; `None` if it makes no sense.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (head, rest) = body.split_first_chunk::<HEAD_SIZE>()?;
        let [kind, a, b, c, d, channel] = *head;
        let node = NodeId(u32::from_le_bytes([a, b, c, d]));
        let channel = *Channel::ALL.get(usize::from(channel))?;
        match kind {
            0 => Some(Relayed::Onward(node, channel, rest)),
            1 => Some(Relayed::From(node, channel, rest)),
            2 if rest.is_empty() && channel == RELAY => Some(Relayed::Unreached(node)),
            _ => None,
        }
    }

    /// The body of a frame.
    pub fn write(self, out: &mut Vec<u8>) {
        let (kind, node, channel, body): (u8, _, _, &[u8]) = match self {
            Relayed::Onward(node, channel, body) => (0, node, channel, body),
            Relayed::From(node, channel, body) => (1, node, channel, body),
            Relayed::Unreached(node) => (2, node, RELAY, &[]),
        };
        out.push(kind);
        out.extend_from_slice(&node.0.to_le_bytes());
        out.push(u8::try_from(channel.index()).expect("there are few channels"));
        out.extend_from_slice(body);
    }
}

impl Relay {
    /// There is a link to a member, in place of an older one.
    pub fn learn(&self, node: NodeId, link: Link) {
        self.ways.lock().links.insert(node, link);
    }

    /// A member has left for ever.
    pub fn forget(&self, node: NodeId) {
        let mut ways = self.ways.lock();
        ways.links.remove(&node);
        ways.detours.remove(&node);
    }

    /// Sends a message to a member whose link this is, by whatever way there is.
    pub fn send(&self, to: NodeId, link: &Link, frame: Frame) -> Result<(), Unsent> {
        if is_alive(link) {
            return link.send(frame);
        }
        if let Way::Around(other) = self.way(to, link)
            && let Some(envelope) =
                Frame::message(RELAY, |out| Relayed::Onward(to, frame.channel(), &frame.body()).write(out))
            && other.send(envelope).is_ok()
        {
            self.counts.sent.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        link.send(frame)
    }

    /// The way to a member whose link this is: around, if nothing was heard over the link lately, but over one to another member was.
    pub fn way(&self, to: NodeId, link: &Link) -> Way {
        if is_alive(link) {
            return Way::Direct(link.clone());
        }
        let mut ways = self.ways.lock();
        let Ways { links, detours } = &mut *ways;
        match detours.entry(to).or_default().choose(to, links, now()) {
            Some(other) => Way::Around(other),
            None => Way::Direct(link.clone()),
        }
    }

    /// One who was to send something on does not reach its receiver. What is said of others than members is not kept: anything can be
    /// said.
    pub fn failed(&self, to: NodeId, via: NodeId) {
        let mut ways = self.ways.lock();
        let Ways { links, detours } = &mut *ways;
        if !links.contains_key(&to) || !links.contains_key(&via) {
            return;
        }
        detours.entry(to).or_default().failed.insert(via, now());
        tracing::debug!(%to, %via, "no way around");
    }

    /// The link to a member, if it is reached by that: for what is to be sent on.
    pub fn reached(&self, to: NodeId) -> Option<Link> {
        self.ways.lock().links.get(&to).filter(|link| is_alive(link)).cloned()
    }

    /// Sends on what another member has for a third one, and tells it if that is not possible.
    pub fn carry(&self, from: NodeId, back: &Link, to: NodeId, channel: Channel, body: &[u8]) {
        let Some(link) = self.reached(to) else { return self.refuse(back, to) };
        let frame = Frame::message(RELAY, |out| Relayed::From(from, channel, body).write(out));
        let is_sent = frame.is_some_and(|frame| link.send(frame).is_ok());
        let count = if is_sent { &self.counts.carried } else { &self.counts.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells another member that a third one is not reached from here either.
    pub fn refuse(&self, back: &Link, to: NodeId) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(frame) = Frame::message(RELAY, |out| Relayed::Unreached(to).write(out)) {
            // With the next frame it is said again.
            let _lost = back.send(frame);
        }
    }
}

impl Detour {
    /// The link to the one who is to send on, the same as before as long as that may work.
    fn choose(&mut self, to: NodeId, links: &BTreeMap<NodeId, Link>, now: Time) -> Option<Link> {
        self.failed.retain(|_, at| now.since(*at) < FAILED_FOR);
        let may = |node: &NodeId| *node != to && !self.failed.contains_key(node);
        let usable = |node: NodeId| links.get(&node).filter(|link| may(&node) && is_alive(link)).cloned();
        if let Some(link) = self.via.and_then(usable) {
            return Some(link);
        }
        // Each receiver's frames begin with another member, so that not all take the same way.
        let around = links.range(to..).chain(links.range(..to)).map(|(node, _)| *node);
        let found = around.filter_map(|node| Some((node, usable(node)?))).next();
        self.via = found.as_ref().map(|(node, _)| *node);
        if let Some(via) = self.via {
            tracing::debug!(%to, %via, "a member is not reached; messages for it go through another one");
        }
        found.map(|(_, link)| link)
    }
}

/// Whether anything was heard over a link lately. Its other end is asked often enough whether it is there.
fn is_alive(link: &Link) -> bool {
    link.silence().is_some_and(|silence| silence < SILENCE_MAX)
}

/// A member over whose link nothing was heard for so long is asked whether it is there.
pub(crate) const PING_AFTER: Duration = Duration::from_millis(250);
/// A link over which nothing was heard for so long is not used: two pings would have been answered by then, and a ping on a busy machine.
const SILENCE_MAX: Duration = Duration::from_millis(750);
/// Who has not reached a member is asked again after so many microseconds: seldom, for most members that nobody reaches are dead.
const FAILED_FOR: u64 = 10_000_000;
/// The bytes before what is relayed: kind, node, channel.
const HEAD_SIZE: usize = 6;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use tyr_net::{
        Address, Dialer, Handler, Received, Settings,
        channels::{CONSENSUS, DATA},
    };
    use tyr_wire::connection::{Introduction, Party};

    use super::*;

    struct Deaf;

    impl Handler for Deaf {
        fn received(&self, _: &Link, _: Received<'_>) {}
    }

    /// The link to a member that is not there.
    fn unreached() -> Link {
        let me = Introduction::new(Party::Node { node: 1, incarnation: 1 }, Some(7));
        let nowhere = Address::Unix("/nonexistent/socket".into());
        Dialer::new(nowhere, me, Arc::new(Deaf), Settings::default()).link().clone()
    }

    #[tokio::test]
    async fn what_is_said_of_nodes_that_are_no_members_is_not_kept() {
        let relay = Relay::default();
        [2, 3].into_iter().for_each(|number| relay.learn(NodeId(number), unreached()));
        let failures = || {
            let ways = relay.ways.lock();
            ways.detours.values().map(|detour| detour.failed.len()).sum::<usize>()
        };
        relay.failed(NodeId(2), NodeId(3));
        assert_eq!(failures(), 1);
        relay.failed(NodeId(1_000_000), NodeId(3));
        relay.failed(NodeId(2), NodeId(1_000_000));
        assert_eq!((failures(), relay.ways.lock().detours.len()), (1, 1));
        relay.forget(NodeId(2));
        relay.failed(NodeId(2), NodeId(3));
        assert!(relay.ways.lock().detours.is_empty());
    }

    #[test]
    fn what_is_relayed_comes_as_it_was_said() {
        let all = [
            Relayed::Onward(NodeId(7), DATA, b"something"),
            Relayed::From(NodeId(u32::MAX), CONSENSUS, b""),
            Relayed::Unreached(NodeId(0)),
        ];
        for relayed in all {
            let mut bytes = Vec::new();
            relayed.write(&mut bytes);
            assert_eq!(Relayed::parse(&bytes), Some(relayed));
            for size in 0..HEAD_SIZE {
                assert_eq!(Relayed::parse(&bytes[..size]), None);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_relayed() {
        assert_eq!(Relayed::parse(&[3, 1, 0, 0, 0, 3]), None, "another kind");
        assert_eq!(Relayed::parse(&[0, 1, 0, 0, 0, 8]), None, "another channel");
        assert_eq!(Relayed::parse(&[2, 1, 0, 0, 0, 4, 0]), None, "more than that");
        assert_eq!(Relayed::parse(&[2, 1, 0, 0, 0, 3]), None);
    }
}
