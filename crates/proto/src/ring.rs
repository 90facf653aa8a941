//! The ring of a placement class: which members hold each partition. Computed from nothing but the arguments.
//!
//! [`plan_ring`] decides where replicas *should* be. Moving there, epoch by epoch, and never losing a copy on the way, is the
//! cluster manager's business. In order of importance, a plan
//!
//! 1. keeps the zone rule, and puts no partition twice on one member;
//! 2. gives every member its fair share of the replicas, rounded down or up, in every band of load too;
//! 3. moves as few replicas from the old assignment as 1 and 2 allow, which is exact: a flow finds it;
//! 4. gives every member its share of primaries, rounded down or up, and changes as few of them as that allows.
//!
//! Where all this leaves a choice, each partition prefers members in an order of its own, so the partitions of one member have
//! their other replicas on many others: these share the work when it fails.

mod flow;
mod selection;
mod share;

use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::{fmt, num::NonZeroU8};

use crate::{KeyspaceSeed, NodeId, PartitionCount, placement_hash};
use selection::{Candidate, Selection};
use share::{Demand, Share};

/// A set of nodes that may fail together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ZoneId(pub u32);

/// A kind of target, for instance solid-state or rotating disks: the tier that a class asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetKind(pub u8);

/// A target, as far as placement knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// What kind it is.
    pub kind: TargetKind,
    /// How much of a class it should hold, in proportion to all targets of its kind: its capacity in any unit, or 0 for nothing.
    pub weight: u32,
}

/// Whether a member takes part in new plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It holds partitions.
    Active,
    /// It is to be emptied, and gets nothing.
    Draining,
}

/// A node of the cluster, as placement sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The zone that it is in.
    pub zone: ZoneId,
    /// Whether it takes part.
    pub state: MemberState,
    /// What it offers. A class sees the sum of the weights of the targets of its kind.
    pub targets: Vec<Target>,
}

/// What a class asks for if there are fewer zones than replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRule {
    /// Two replicas of a partition are never in one zone: such a class cannot be placed.
    Require,
    /// A zone holds as few replicas of a partition as possible. With enough zones that is one, as for [`ZoneRule::Require`].
    Prefer,
}

/// The settings of a placement class that the ring depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// The number of partitions.
    pub partitions: PartitionCount,
    /// The number of replicas of each partition.
    pub replicas: NonZeroU8,
    /// The kind of target that its data is stored on.
    pub target: TargetKind,
    /// What two replicas may share.
    pub zone_rule: ZoneRule,
}

/// The replica set of each partition of a class, by partition index. The first of a set is the primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment(pub Vec<Vec<NodeId>>);

impl Assignment {
    /// How many replicas must be copied to come here from an old assignment.
    pub fn copies_from(&self, old: &Assignment) -> usize {
        let copies = |(index, set): (usize, &Vec<NodeId>)| {
            let had = old.set(index);
            set.iter().filter(|node| !had.contains(node)).count()
        };
        self.0.iter().enumerate().map(copies).sum()
    }

    fn set(&self, index: usize) -> &[NodeId] {
        self.0.get(index).map_or(&[], Vec::as_slice)
    }
}

/// Why there is no plan for a class. What it has should stay where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// Fewer members than replicas are active and offer the class's kind of target with a weight above 0.
    TooFewMembers {
        /// How many the class needs.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// These members are in fewer zones than there are replicas, and the class requires distinct ones.
    TooFewZones {
        /// How many the class needs.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// Two of the members are the same node.
    MemberTwice(NodeId),
    /// Partitions times members are more than a plan may take memory for.
    TooLarge {
        /// The number of partitions.
        partitions: u32,
        /// The number of members that may hold them.
        members: usize,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingError::TooFewMembers { needed, found } => write!(
                f,
                "the class has {needed} replicas, but only {found} active members offer its kind of target; \
                 add members or targets, or lower the number of replicas"
            ),
            RingError::TooFewZones { needed, found } => write!(
                f,
                "the class has {needed} replicas and requires distinct zones, but the active members that offer its kind of \
                 target are in {found}; add members in other zones, or let the class prefer distinct zones"
            ),
            RingError::MemberTwice(node) => write!(f, "{node} is listed twice; list every member once"),
            RingError::TooLarge { partitions, members } => write!(
                f,
                "{partitions} partitions times {members} members are more than {PAIRS_MAX}; \
                 let fewer members offer the class's kind of target"
            ),
        }
    }
}

impl core::error::Error for RingError {}

/// Plans the replica sets of a class: see the head of this module for what makes a plan good.
///
/// `old` is the assignment to move from, empty for a new class. `load` is the load of each partition in any unit, or empty if
/// none is known; what counts is how many times the load has doubled from the mean, so that only hot partitions move something.
/// A partition past the end of either is new, or has no load. The order of `members` does not matter.
///
/// Takes the time of some dozens of passes over partitions times members, and some 50 bytes for each such pair: seconds for 4096
/// partitions and 256 members. Not for a thread that serves.
///
/// Fails if the class cannot be placed; then what it has should stay where it is.
pub fn plan_ring(
    members: &[Member],
    class: &ClassSettings,
    old: &Assignment,
    load: &[u32],
) -> Result<Assignment, RingError> {
    let field = Field::new(members, class)?;
    let bands = Bands::new(load, class.partitions);
    let sets = field.select_sets(old, &bands);
    let primaries = field.select_primaries(&sets, old, &bands);
    let ordered = |(index, (set, primary)): (usize, (Vec<usize>, usize))| {
        let mut nodes: Vec<_> = set.iter().map(|&member| field.nodes[member]).collect();
        nodes.sort_by_key(|&node| {
            let place = old.set(index).iter().position(|&had| had == node).unwrap_or(usize::MAX);
            (node != field.nodes[primary], place, node)
        });
        nodes
    };
    Ok(Assignment(sets.into_iter().zip(primaries).enumerate().map(ordered).collect()))
}

/// The members that may hold replicas of a class, ordered by node, and what the class asks of them.
struct Field {
    nodes: Vec<NodeId>,
    weights: Vec<u64>,
    zone_of: Vec<usize>,
    zones: usize,
    partitions: u32,
    replicas: u32,
    /// The most replicas of one partition in one zone: the smallest number with which all can be placed.
    zone_max: u32,
}

impl Field {
    fn new(members: &[Member], class: &ClassSettings) -> Result<Self, RingError> {
        let mut weights = BTreeMap::new();
        for member in members {
            if weights.insert(member.node, (weight_of(member, class.target), member.zone)).is_some() {
                return Err(RingError::MemberTwice(member.node));
            }
        }
        weights.retain(|_, (weight, _)| *weight > 0);
        let partitions = class.partitions.get();
        if weights.len() as u64 * u64::from(partitions) > PAIRS_MAX {
            return Err(RingError::TooLarge { partitions, members: weights.len() });
        }
        let mut zones: Vec<_> = weights.values().map(|&(_, zone)| zone).collect();
        zones.sort_unstable();
        zones.dedup();
        let zone_of: Vec<_> = weights.values().map(|(_, zone)| zones.partition_point(|z| z < zone)).collect();
        Ok(Field {
            zone_max: zone_max(&zone_of, zones.len(), class)?,
            nodes: weights.keys().copied().collect(),
            weights: weights.values().map(|&(weight, _)| weight).collect(),
            zone_of,
            zones: zones.len(),
            partitions,
            replicas: class.replicas.get().into(),
        })
    }

    fn select_sets(&self, old: &Assignment, bands: &Bands) -> Vec<Vec<usize>> {
        let demand = Demand {
            weights: &self.weights,
            zone_of: &self.zone_of,
            zones: self.zones,
            partitions: self.partitions,
            replicas: self.replicas,
            zone_max: self.zone_max,
        };
        let shares = demand.fair_shares();
        let in_band = |&size: &u32| shares.iter().map(|share| share.part(size, self.partitions)).collect();
        let band_shares: Vec<Vec<_>> = bands.sizes.iter().map(in_band).collect();
        let candidates: Vec<_> =
            (0..self.partitions).map(|index| self.candidates(index, old.set(index as usize))).collect();
        let selection = Selection {
            candidates: &candidates,
            take: self.replicas,
            zone_of: &self.zone_of,
            zone_max: self.zone_max,
            band_of: &bands.band_of,
            shares: &shares,
            band_shares: &band_shares,
        };
        selection.solve()
    }

    /// All members, in an order that is the partition's own.
    fn candidates(&self, index: u32, had: &[NodeId]) -> Vec<Candidate> {
        let rank =
            |&member: &usize| placement_hash(&RANK_SEED, &self.nodes[member].0.to_le_bytes(), index.into());
        let mut order: Vec<_> = (0..self.nodes.len()).collect();
        order.sort_by_cached_key(rank);
        order
            .into_iter()
            .map(|member| Candidate { member, kept: had.contains(&self.nodes[member]) })
            .collect()
    }

    /// The primary of each set. A member's share is that of the sets that it is in, divided by the replicas.
    fn select_primaries(&self, sets: &[Vec<usize>], old: &Assignment, bands: &Bands) -> Vec<usize> {
        let mut held = vec![0; self.nodes.len()];
        let mut held_in = vec![held.clone(); bands.sizes.len()];
        let mut candidates = Vec::with_capacity(sets.len());
        for (index, set) in sets.iter().enumerate() {
            let was = old.set(index).first();
            for &member in set {
                held[member] += 1;
                held_in[bands.band_of[index]][member] += 1;
            }
            let candidate = |&member: &usize| Candidate { member, kept: was == Some(&self.nodes[member]) };
            candidates.push(set.iter().map(candidate).collect());
        }
        let share_of = |held: &u64| Share::new(*held, self.replicas.into());
        let selection = Selection {
            candidates: &candidates,
            take: 1,
            zone_of: &self.zone_of,
            zone_max: 1,
            band_of: &bands.band_of,
            shares: &held.iter().map(share_of).collect::<Vec<_>>(),
            band_shares: &held_in.iter().map(|held| held.iter().map(share_of).collect()).collect::<Vec<_>>(),
        };
        selection.solve().into_iter().map(|selected| selected[0]).collect()
    }
}

/// The weight of a member for a class: 0 if it is to hold nothing of it.
fn weight_of(member: &Member, kind: TargetKind) -> u64 {
    match member.state {
        MemberState::Active => member
            .targets
            .iter()
            .filter(|target| target.kind == kind)
            .map(|target| u64::from(target.weight))
            .sum(),
        MemberState::Draining => 0,
    }
}

fn zone_max(zone_of: &[usize], zones: usize, class: &ClassSettings) -> Result<u32, RingError> {
    let needed = usize::from(class.replicas.get());
    if zone_of.len() < needed {
        return Err(RingError::TooFewMembers { needed, found: zone_of.len() });
    }
    if class.zone_rule == ZoneRule::Require && zones < needed {
        return Err(RingError::TooFewZones { needed, found: zones });
    }
    let mut sizes = vec![0; zones];
    zone_of.iter().for_each(|&zone| sizes[zone] += 1);
    let placed = |most: usize| sizes.iter().map(|&size: &usize| size.min(most)).sum::<usize>();
    let most = (1..=class.replicas.get()).find(|&most| placed(most.into()) >= needed);
    Ok(most.expect("there are as many members as replicas").into())
}

/// Partitions of about the same load: one band of all that have less than twice the mean, then one for each further doubling.
/// Each band is shared out on its own, so the hot partitions are as even as all together.
struct Bands {
    band_of: Vec<usize>,
    /// The number of partitions of each band.
    sizes: Vec<u32>,
}

impl Bands {
    fn new(load: &[u32], partitions: PartitionCount) -> Self {
        let count = partitions.get() as usize;
        let total = load.iter().take(count).map(|&load| u64::from(load)).sum::<u64>().max(1);
        let doublings = |index: usize| {
            let load = load.get(index).map_or(0, |&load| u64::from(load));
            (load * u64::from(partitions.get()) / total).max(1).ilog2()
        };
        let doublings: Vec<_> = (0..count).map(doublings).collect();
        let mut sizes = BTreeMap::new();
        doublings.iter().for_each(|doublings| *sizes.entry(doublings).or_insert(0) += 1);
        let band = |doublings| sizes.keys().take_while(|&&other| other < doublings).count();
        Bands { band_of: doublings.iter().map(band).collect(), sizes: sizes.into_values().collect() }
    }
}

/// The most pairs of a partition and a member that a plan is made for. Some 50 bytes each are 6 GiB, and it keeps the places of
/// nodes and edges, at most four for each pair, within 32 bits.
const PAIRS_MAX: u64 = 1 << 27;

/// Any seed does: it only makes the partitions' orders of members differ.
const RANK_SEED: KeyspaceSeed = KeyspaceSeed(*b"ring preferences");

#[cfg(test)]
mod tests;
