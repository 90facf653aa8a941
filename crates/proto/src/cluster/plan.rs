//! A simple plan of the ring: even by weight, keeping what is in place.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{ClassSettings, Member, Zone, ZoneRule};
use crate::NodeId;

/// For each partition the nodes that should hold it, the primary first. A partition keeps its eligible nodes; the missing ones are
/// those with the least load for their weight.
pub(super) fn plan(
    class: &ClassSettings,
    members: &BTreeMap<NodeId, Member>,
    before: &[&[NodeId]],
) -> Vec<Vec<NodeId>> {
    let mut loads: Vec<Load<'_>> = members
        .iter()
        .filter(|(_, member)| member.is_eligible())
        .map(|(node, member)| Load { node: *node, member, held: 0, led: 0 })
        .collect();
    let replicas = usize::from(class.replicas).min(loads.len());
    let quota = (before.len() * replicas).div_ceil(loads.len().max(1));
    let mut targets: Vec<Vec<NodeId>> = Vec::with_capacity(before.len());
    for nodes in before {
        let kept = keep(&mut loads, nodes, quota, replicas);
        targets.push(kept);
    }
    for target in &mut targets {
        fill(&mut loads, target, replicas, class.zones);
        lead(&mut loads, target);
    }
    targets
}

struct Load<'a> {
    node: NodeId,
    member: &'a Member,
    held: usize,
    led: usize,
}

/// The nodes that stay: eligible, and not above their even share.
fn keep(loads: &mut [Load<'_>], nodes: &[NodeId], quota: usize, replicas: usize) -> Vec<NodeId> {
    let mut kept = Vec::new();
    for node in nodes {
        let load = loads.iter_mut().find(|load| load.node == *node && load.held < quota);
        if let Some(load) = load.filter(|_| kept.len() < replicas) {
            load.held += 1;
            kept.push(*node);
        }
    }
    kept
}

fn fill(loads: &mut [Load<'_>], target: &mut Vec<NodeId>, replicas: usize, zones: ZoneRule) {
    while target.len() < replicas {
        let used: Vec<Zone> = loads
            .iter()
            .filter(|load| zones == ZoneRule::Distinct && target.contains(&load.node))
            .map(|load| load.member.zone.clone())
            .collect();
        let free = loads.iter_mut().filter(|load| !target.contains(&load.node));
        let next = free.min_by_key(|load| {
            let shared = used.contains(&load.member.zone);
            (shared, share(load.held, load.member.weight), load.node)
        });
        let Some(next) = next else { return };
        next.held += 1;
        target.push(next.node);
    }
}

/// Puts the node first that leads least for its weight; the one in place wins a tie.
fn lead(loads: &mut [Load<'_>], target: &mut [NodeId]) {
    let led = |node: &NodeId| {
        let load = loads.iter().find(|load| load.node == *node);
        load.map_or(0, |load| share(load.led, load.member.weight))
    };
    let Some(place) = (0..target.len()).min_by_key(|place| led(&target[*place])) else { return };
    target[..=place].rotate_right(1);
    if let Some(load) = loads.iter_mut().find(|load| load.node == target[0]) {
        load.led += 1;
    }
}

/// A count relative to a weight, in units that order as fractions do.
fn share(count: usize, weight: u32) -> u64 {
    (count as u64).saturating_mul(1 << 20) / u64::from(weight.max(1))
}
