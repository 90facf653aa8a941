//! Each partition selects some of its candidates, so that every member gets its share and as little as possible changes.
//!
//! The network, with the capacity of each edge, and its cost if it has one:
//!
//! ```text
//! source --take--> partition --zone_max--> zone of the partition --1--> member and band --share--> member --share--> sink
//!                            \------------------ 1 -----------------/
//! ```
//!
//! The edge to a member costs nothing if the partition keeps it, else 1. An edge of a share is two: one for the whole number
//! below the share, and, for what is left, one that lets a single unit through for more than all changes together would cost. So
//! the cheapest flow first gives every member its share, rounded down or up, and then changes least. Shares and bounds have a
//! fractional solution (all partitions alike), so they have an integral one, as all capacities are whole numbers.

use alloc::{vec, vec::Vec};

use super::{
    flow::{EdgeId, Flow, Node},
    share::Share,
};

/// Who may be selected for a partition.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) member: usize,
    /// Whether it is what the partition has now.
    pub(super) kept: bool,
}

/// The question that a selection answers.
pub(super) struct Selection<'a> {
    /// For each partition. Where nothing else decides, later ones are taken first.
    pub(super) candidates: &'a [Vec<Candidate>],
    /// How many each partition takes.
    pub(super) take: u32,
    /// The zone of each member.
    pub(super) zone_of: &'a [usize],
    /// The most of one zone that a partition takes.
    pub(super) zone_max: u32,
    /// The band of load of each partition.
    pub(super) band_of: &'a [usize],
    /// The share of each member.
    pub(super) shares: &'a [Share],
    /// The share of each member in the partitions of each band, by band, then member.
    pub(super) band_shares: &'a [Vec<Share>],
}

impl Selection<'_> {
    /// The members that each partition selects, in the order of its candidates.
    pub(super) fn solve(&self) -> Vec<Vec<usize>> {
        let mut network = Network::new(self);
        network.add_shares();
        let edges: Vec<Vec<EdgeId>> =
            (0..self.candidates.len()).map(|partition| network.add_partition(partition)).collect();
        let sent = network.flow.send(network.source, network.sink);
        assert_eq!(sent, network.slots(), "the fractional solution sends everything");
        let selected = |(candidates, edges): (&Vec<Candidate>, &Vec<EdgeId>)| {
            let both = candidates.iter().zip(edges);
            both.filter(|(_, edge)| network.flow.over(**edge) > 0)
                .map(|(candidate, _)| candidate.member)
                .collect()
        };
        self.candidates.iter().zip(&edges).map(selected).collect()
    }
}

/// The network of a selection. Nodes are numbered: source, sink, members, members in bands, partitions, their zones.
struct Network<'a> {
    of: &'a Selection<'a>,
    flow: Flow,
    source: Node,
    sink: Node,
    /// The number of members of each zone.
    zone_sizes: Vec<u32>,
    /// Above the cost of all changes together.
    excess_cost: i32,
}

impl<'a> Network<'a> {
    fn new(of: &'a Selection<'a>) -> Self {
        let zones = of.zone_of.iter().max().map_or(0, |zone| zone + 1);
        let mut zone_sizes = vec![0; zones];
        of.zone_of.iter().for_each(|&zone| zone_sizes[zone] += 1);
        let members = of.shares.len();
        let partitions = of.candidates.len();
        let nodes = 2 + members * (1 + of.band_shares.len()) + partitions * (1 + zones);
        let mut network =
            Network { of, flow: Flow::new(number(nodes)), source: 0, sink: 1, zone_sizes, excess_cost: 0 };
        let excess = i32::try_from(network.slots() + 1);
        network.excess_cost = excess.expect("2^16 partitions take at most 2^8 members each");
        network
    }

    fn slots(&self) -> u64 {
        self.of.candidates.len() as u64 * u64::from(self.of.take)
    }

    fn member(&self, member: usize) -> Node {
        number(2 + member)
    }

    fn member_in(&self, band: usize, member: usize) -> Node {
        number(2 + self.of.shares.len() * (1 + band) + member)
    }

    fn partition(&self, partition: usize) -> Node {
        number(2 + self.of.shares.len() * (1 + self.of.band_shares.len()) + partition)
    }

    fn zone_in(&self, partition: usize, zone: usize) -> Node {
        let first = self.partition(self.of.candidates.len());
        first + number(partition * self.zone_sizes.len() + zone)
    }

    fn add_shares(&mut self) {
        for (member, &share) in self.of.shares.iter().enumerate() {
            self.add_share(self.member(member), self.sink, share);
        }
        for (band, shares) in self.of.band_shares.iter().enumerate() {
            for (member, &share) in shares.iter().enumerate() {
                self.add_share(self.member_in(band, member), self.member(member), share);
            }
        }
    }

    fn add_share(&mut self, from: Node, to: Node, share: Share) {
        self.flow.add(from, to, share.floor(), 0);
        if share.has_fraction() {
            self.flow.add(from, to, 1, self.excess_cost);
        }
    }

    /// Returns the edges to the partition's candidates.
    fn add_partition(&mut self, partition: usize) -> Vec<EdgeId> {
        let node = self.partition(partition);
        self.flow.add(self.source, node, self.of.take, 0);
        let mut met = vec![false; self.zone_sizes.len()];
        let mut edges = Vec::with_capacity(self.of.candidates[partition].len());
        for candidate in &self.of.candidates[partition] {
            let zone = self.of.zone_of[candidate.member];
            let mut from = node;
            if self.bounds(zone) {
                from = self.zone_in(partition, zone);
                if !core::mem::replace(&mut met[zone], true) {
                    self.flow.add(node, from, self.of.zone_max, 0);
                }
            }
            let to = self.member_in(self.of.band_of[partition], candidate.member);
            edges.push(self.flow.add(from, to, 1, i32::from(!candidate.kept)));
        }
        edges
    }

    /// Whether a partition could take more of the zone than it may.
    fn bounds(&self, zone: usize) -> bool {
        self.zone_sizes[zone].min(self.of.take) > self.of.zone_max
    }
}

fn number(node: usize) -> Node {
    u32::try_from(node).expect("pairs of partition and member are bounded")
}
