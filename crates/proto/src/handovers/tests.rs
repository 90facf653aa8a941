//! Releases before and after those who stay were heard of.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{vec, vec::Vec};

use super::*;
use crate::{
    ClassId, Grant, Incarnation, LeaseRequest, LeaseTerms, NodeId, Replica, Time,
    cluster::{Address, ClassSettings, ClusterId, Command, Identity, Zone},
};

const P: PartitionId = PartitionId { class: ClassId(0), index: 0 };
const TERMS: LeaseTerms = LeaseTerms { length: 1_000, drift_max: 10_000 };

fn replica(node: u32) -> Replica {
    Replica { node: NodeId(node), incarnation: Incarnation(1) }
}

fn retarget(nodes: &[u32]) -> Command {
    Command::Retarget { class: ClassId(0), targets: vec![nodes.iter().copied().map(NodeId).collect()] }
}

/// Nodes 1 to 3 hold one partition, and node 1 is to lose it, for it is drained.
fn leaving() -> Cluster {
    let mut cluster = Cluster::new(ClusterId(7));
    let mut commands = vec![Command::Found(Vec::new())];
    commands.extend((1..=3_u32).map(|node| Command::Register {
        identity: Identity(u128::from(node)),
        incarnation: Incarnation(1),
        memory_since: Incarnation(1),
        zone: Zone::new("z").unwrap(),
        weight: 1,
        address: Address::new("host:1").unwrap(),
    }));
    let settings = ClassSettings { partitions: 1, min_replicas: 1, ..ClassSettings::new(3) };
    commands.extend([Command::CreateClass(ClassId(0), settings), retarget(&[1, 2, 3])]);
    commands.extend([Command::Drain(NodeId(1)), retarget(&[2, 3])]);
    for command in commands {
        cluster.apply(command).unwrap();
    }
    assert_eq!(cluster.partition(P).unwrap().awaited(), [replica(1)]);
    cluster
}

fn leading() -> Leases {
    let mut leases = Leases::new(TERMS, 500);
    leases.lead(Time(0));
    leases
}

/// A node asks for a lease when it has everything up to a ring version.
fn hear(leases: &mut Leases, node: u32, reached: RingVersion) {
    let request = LeaseRequest { holder: replica(node), sent: Time(0) };
    assert_eq!(leases.grant(request, Time(5)), Grant::Granted(request));
    leases.note_reached(request.holder, reached);
}

fn proposed(cluster: &Cluster) -> RingVersion {
    cluster.partition(P).unwrap().proposal.as_ref().unwrap().since
}

#[test]
fn a_release_waits_until_every_heir_has_asked_in_the_knowledge_of_the_proposal() {
    let (cluster, mut leases) = (leaving(), leading());
    let since = proposed(&cluster);
    let before = RingVersion(since.0 - 1);
    hear(&mut leases, 2, before);
    hear(&mut leases, 3, before);
    assert_eq!(permit_release(&cluster, &leases, P), None, "both may be dead since");
    hear(&mut leases, 2, since);
    assert_eq!(permit_release(&cluster, &leases, P), None, "node 3 may be dead");
    hear(&mut leases, 3, before);
    assert_eq!(permit_release(&cluster, &leases, P), None, "that was said before, and came late");
    hear(&mut leases, 3, since);
    hear(&mut leases, 3, before);
    let permitted = permit_release(&cluster, &leases, P).unwrap();
    assert_eq!(permitted, Awaited::of(&cluster, P));
    assert!(permitted.since.is_some());
}

#[test]
fn another_proposal_begins_anew() {
    let (mut cluster, mut leases) = (leaving(), leading());
    [2, 3].into_iter().for_each(|node| hear(&mut leases, node, proposed(&cluster)));
    let before = permit_release(&cluster, &leases, P).unwrap();
    cluster.apply(Command::Drain(NodeId(3))).unwrap();
    cluster.apply(retarget(&[2])).unwrap();
    assert_ne!(Awaited::of(&cluster, P), before, "what was permitted before does not hold for it");
    assert_eq!(permit_release(&cluster, &leases, P), None);
    hear(&mut leases, 2, proposed(&cluster));
    assert!(permit_release(&cluster, &leases, P).is_some(), "node 3 does not stay");
}

#[test]
fn a_new_leader_must_hear_of_everybody_itself() {
    let (cluster, mut leases) = (leaving(), leading());
    [2, 3].into_iter().for_each(|node| hear(&mut leases, node, proposed(&cluster)));
    leases.lead(Time(20));
    assert_eq!(permit_release(&cluster, &leases, P), None);
    [2, 3].into_iter().for_each(|node| hear(&mut leases, node, proposed(&cluster)));
    assert!(permit_release(&cluster, &leases, P).is_some());
}

#[test]
fn a_release_for_which_nothing_waits_is_taken_at_once() {
    let (mut cluster, leases) = (leaving(), leading());
    cluster.apply(retarget(&[1, 2, 3])).unwrap();
    assert_eq!(cluster.partition(P).unwrap().proposal, None);
    let permitted = permit_release(&cluster, &leases, P).unwrap();
    assert_eq!(permitted, Awaited { partition: P, since: None });
}
