//! Who is suspected of having failed: SWIM, by foca, without I/O.
//!
//! Packets and the time come in as calls; packets to be sent and changes of opinion are taken out. Its opinion decides nothing: the
//! leader of the cluster manager evicts a node only if its lease has run out, too. Equal seeds and calls give equal effects.

mod codec;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    num::{NonZeroU8, NonZeroUsize},
    time::Duration,
};

use foca::{Config, Foca, NoCustomBroadcast, Notification, PeriodicParams, Runtime, Timer};
use tyr_proto::{Incarnation, NodeId, Time};

use codec::PeerCodec;

/// One start of a node, as gossip knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    /// The node: where packets for it go.
    pub node: NodeId,
    /// Which start of it.
    pub incarnation: Incarnation,
    /// How often it found itself given up and said that it is alive.
    pub revival: u32,
}

impl foca::Identity for Peer {
    type Addr = NodeId;

    fn renew(&self) -> Option<Self> {
        Some(Peer { revival: self.revival.checked_add(1)?, ..*self })
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, other: &Self) -> bool {
        (self.incarnation, self.revival) > (other.incarnation, other.revival)
    }
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GossipEffect {
    /// Send a packet to a node. It may be lost.
    Send(NodeId, Vec<u8>),
    /// A node was heard of again.
    Trust(NodeId),
    /// A node has not answered anybody for a while.
    Suspect(NodeId),
}

/// How often it probes, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipTiming {
    /// Between two probes of one node each.
    pub probe: u64,
    /// How long an answer may take before others are asked to try; at most half of `probe`.
    pub answer: u64,
    /// How long a node that answered nobody may refute that before it counts as suspected.
    pub refute: u64,
    /// Between two rounds of news to three nodes.
    pub news: u64,
}

impl Default for GossipTiming {
    fn default() -> Self {
        GossipTiming { probe: 500_000, answer: 200_000, refute: 1_000_000, news: 200_000 }
    }
}

/// One node's part of the gossip.
pub struct Gossip {
    foca: Foca<Peer, PeerCodec, Random, NoCustomBroadcast>,
    pending: Pending,
}

impl Gossip {
    /// A node that knows nobody yet.
    pub fn new(me: Peer, timing: GossipTiming, seed: u64) -> Self {
        let foca = Foca::new(me, config(timing), Random(seed), PeerCodec);
        Gossip { foca, pending: Pending::default() }
    }

    /// Makes itself known to a node, and through it to all whom that one knows. To be repeated with the members of the cluster that this
    /// one does not [know](Gossip::knows): two groups that know only themselves would stay two, and suspect nobody of the other one.
    pub fn join(&mut self, through: Peer, now: Time) {
        self.pending.now = now;
        // Fails only if there is nothing to be sent.
        let _nothing = self.foca.announce(through, &mut self.pending);
    }

    /// Takes a packet. False if it made no sense, whoever sent it; nothing has changed then.
    pub fn handle_packet(&mut self, packet: &[u8], now: Time) -> bool {
        self.pending.now = now;
        self.foca.handle_data(packet, &mut self.pending).is_ok()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(entry) = self.pending.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let timer = entry.remove();
            self.pending.now = now;
            // A late timer makes it skip a round and go on, which it reports as an error.
            let _skipped = self.foca.handle_timer(timer, &mut self.pending);
        }
    }

    /// When something is due next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.pending.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// What is to be done next.
    pub fn poll_effect(&mut self) -> Option<GossipEffect> {
        self.pending.effects.pop_front()
    }

    /// Whether it has heard of a node, if only that it is held for dead.
    pub fn knows(&self, node: NodeId) -> bool {
        self.foca.iter_membership_state().any(|member| member.id().node == node)
    }

    /// The nodes that are not suspected, without this one.
    pub fn trusted(&self) -> impl Iterator<Item = Peer> {
        self.foca.iter_members().map(|member| *member.id())
    }
}

#[derive(Default)]
struct Pending {
    now: Time,
    effects: VecDeque<GossipEffect>,
    timers: BTreeMap<(Time, u64), Timer<Peer>>,
    timer_count: u64,
}

impl Runtime<Peer> for Pending {
    fn notify(&mut self, notification: Notification<'_, Peer>) {
        self.effects.extend(match notification {
            Notification::MemberUp(peer) => Some(GossipEffect::Trust(peer.node)),
            Notification::MemberDown(peer) => Some(GossipEffect::Suspect(peer.node)),
            _ => None,
        });
    }

    fn send_to(&mut self, to: Peer, packet: &[u8]) {
        self.effects.push_back(GossipEffect::Send(to.node, packet.to_vec()));
    }

    fn submit_after(&mut self, timer: Timer<Peer>, after: Duration) {
        let after = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.timer_count += 1;
        self.timers.insert((self.now.after(after), self.timer_count), timer);
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Random(u64);

impl rand_core_10::TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let number = self.try_next_u64()?;
        Ok(u32::try_from(number >> 32).expect("32 bits are left"))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(z ^ (z >> 31))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.try_next_u64()?.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

fn config(timing: GossipTiming) -> Config {
    let three = NonZeroUsize::new(3).expect("not zero");
    let probe = Duration::from_micros(timing.probe);
    let to_down = PeriodicParams { frequency: probe * 10, num_members: three };
    Config {
        probe_period: probe,
        probe_rtt: Duration::from_micros(timing.answer),
        num_indirect_probes: three,
        max_transmissions: NonZeroU8::new(10).expect("not zero"),
        suspect_to_down_after: Duration::from_micros(timing.refute),
        max_packet_size: NonZeroUsize::new(PACKET_SIZE_MAX).expect("not zero"),
        notify_down_members: true,
        periodic_announce_to_down_members: Some(to_down),
        periodic_gossip: Some(PeriodicParams {
            frequency: Duration::from_micros(timing.news),
            num_members: three,
        }),
        ..Config::simple()
    }
}

/// The largest packet, in bytes: it fits into one Ethernet frame.
pub const PACKET_SIZE_MAX: usize = 1400;
