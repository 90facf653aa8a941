//! Several nodes gossip over links that lose and are cut.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000;

fn peer(node: u32) -> Peer {
    Peer { node: NodeId(node), incarnation: Incarnation(1), revival: 0 }
}

/// All nodes, and what is on its way. Packets take a millisecond.
struct Net {
    now: Time,
    nodes: BTreeMap<NodeId, Gossip>,
    sent: VecDeque<(Time, NodeId, Vec<u8>)>,
    silent: BTreeSet<NodeId>,
    suspected: BTreeMap<NodeId, BTreeSet<NodeId>>,
    transcript: Vec<(Time, NodeId, GossipEffect)>,
}

impl Net {
    fn new(nodes: u32, seed: u64) -> Self {
        let mut net = Net {
            now: Time(0),
            nodes: BTreeMap::new(),
            sent: VecDeque::new(),
            silent: BTreeSet::new(),
            suspected: BTreeMap::new(),
            transcript: Vec::new(),
        };
        for node in 1..=nodes {
            let mut gossip = Gossip::new(peer(node), GossipTiming::default(), seed + u64::from(node));
            if node > 1 {
                gossip.join(peer(1), Time(0));
            }
            net.nodes.insert(NodeId(node), gossip);
        }
        net
    }

    fn run(&mut self, time: u64) {
        let end = self.now.after(time);
        while self.now < end {
            self.collect();
            let timers = self.nodes.values().filter_map(Gossip::poll_timeout);
            let arrivals = self.sent.front().map(|(at, ..)| *at);
            self.now = timers.chain(arrivals).min().unwrap_or(end).max(self.now).min(end);
            while let Some((_, to, packet)) = self.sent.pop_front_if(|(at, ..)| *at <= self.now) {
                if !self.silent.contains(&to) {
                    assert!(self.nodes.get_mut(&to).unwrap().handle_packet(&packet, self.now));
                }
            }
            self.nodes.values_mut().for_each(|gossip| gossip.handle_timeout(self.now));
        }
        self.collect();
    }

    fn collect(&mut self) {
        for (node, gossip) in &mut self.nodes {
            while let Some(effect) = gossip.poll_effect() {
                self.transcript.push((self.now, *node, effect.clone()));
                let suspected = self.suspected.entry(*node).or_default();
                match effect {
                    GossipEffect::Send(to, packet) if !self.silent.contains(node) => {
                        self.sent.push_back((self.now.after(1_000), to, packet));
                    }
                    GossipEffect::Send(..) => {}
                    GossipEffect::Suspect(other) => drop(suspected.insert(other)),
                    GossipEffect::Trust(other) => drop(suspected.remove(&other)),
                }
            }
        }
    }

    fn suspected_by(&self, node: u32) -> Vec<u32> {
        self.suspected.get(&NodeId(node)).into_iter().flatten().map(|node| node.0).collect()
    }
}

#[test]
fn everybody_hears_of_everybody_and_nobody_is_suspected() {
    let mut net = Net::new(7, 1);
    net.run(20 * SECOND);
    for (node, gossip) in &net.nodes {
        assert_eq!(gossip.trusted().count(), 6, "{node}");
        assert_eq!(net.suspected_by(node.0), [] as [u32; 0]);
    }
}

/// Nodes 1 and 2 know one another, and so do 3 and 4.
fn two_groups() -> Net {
    let mut net = Net::new(0, 0);
    for node in 1..=4 {
        net.nodes.insert(NodeId(node), Gossip::new(peer(node), GossipTiming::default(), u64::from(node)));
    }
    net.nodes.get_mut(&NodeId(2)).unwrap().join(peer(1), Time(0));
    net.nodes.get_mut(&NodeId(4)).unwrap().join(peer(3), Time(0));
    net.run(10 * SECOND);
    net
}

#[test]
fn groups_become_one_when_a_node_makes_itself_known_to_whom_it_does_not_know() {
    let mut net = two_groups();
    let known = |net: &Net, node: u32| -> Vec<u32> {
        (1..=4).filter(|other| net.nodes[&NodeId(node)].knows(NodeId(*other))).collect()
    };
    assert_eq!([known(&net, 1), known(&net, 3)], [[2], [4]], "they know nobody of the other group");
    let now = net.now;
    net.nodes.get_mut(&NodeId(2)).unwrap().join(peer(3), now);
    net.run(10 * SECOND);
    for node in 1..=4 {
        assert_eq!(known(&net, node).len(), 3, "{node}");
    }
}

#[test]
fn a_node_that_is_held_for_dead_is_known() {
    let mut net = two_groups();
    net.silent.insert(NodeId(2));
    net.run(15 * SECOND);
    let gossip = &net.nodes[&NodeId(1)];
    assert!(gossip.trusted().next().is_none() && gossip.knows(NodeId(2)));
}

#[test]
fn a_silent_node_is_suspected_by_all_and_trusted_when_it_is_heard_of_again() {
    let mut net = Net::new(7, 2);
    net.run(10 * SECOND);
    net.silent.insert(NodeId(3));
    net.run(15 * SECOND);
    for node in [1, 2, 4, 5, 6, 7] {
        assert_eq!(net.suspected_by(node), [3], "{node}");
    }
    net.silent.clear();
    net.run(40 * SECOND);
    for node in 1..=7 {
        assert_eq!(net.suspected_by(node), [] as [u32; 0], "{node}");
    }
}

#[test]
fn equal_seeds_give_equal_effects_and_others_do_not() {
    let run = |seed| {
        let mut net = Net::new(5, seed);
        net.run(5 * SECOND);
        net.silent.insert(NodeId(2));
        net.run(10 * SECOND);
        net.transcript
    };
    assert!(run(3) == run(3), "equal seeds differ");
    assert!(run(3) != run(100), "other seeds are equal");
}

proptest! {
    #[test]
    fn no_bytes_panic(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8)) {
        let mut gossip = Gossip::new(peer(1), GossipTiming::default(), 1);
        for packet in packets {
            gossip.handle_packet(&packet, Time(0));
            gossip.handle_timeout(Time(SECOND));
        }
    }

    #[test]
    fn no_damaged_packet_panics(place in 0..60_usize, bit in 0..8, cut in 0..200_usize) {
        let mut net = Net::new(4, 9);
        net.run(3 * SECOND);
        let packets: Vec<Vec<u8>> = net.transcript.iter().filter_map(|(_, _, effect)| match effect {
            GossipEffect::Send(_, packet) => Some(packet.clone()),
            _ => None,
        }).collect();
        for mut packet in packets {
            packet.truncate(cut.max(1));
            let place = place % packet.len();
            packet[place] ^= 1_u8 << bit;
            net.nodes.get_mut(&NodeId(1)).unwrap().handle_packet(&packet, net.now);
        }
    }
}
