//! That a node of several shards does what a node of one does, and that it stops when its journal does.

use std::{num::NonZeroU32, sync::Arc};

use tyr_proto::{
    ClassId, Configuration, Epoch, Keyspaces, LeaseTerms, NodeId, Output, PartitionId, RingVersion, Time,
    cluster::{Address, ClassSettings, Difference, Fact, Identity, Position, Request, Response, Zone},
};
use tyr_types::{Durability, Error};

use super::Node;
use crate::{Member, Settings, Stored};

const PARTITIONS: u32 = 8;

fn partition(index: u32) -> PartitionId {
    PartitionId { class: ClassId(0), index }
}

fn node(shards: u32) -> Node {
    let settings = Settings {
        identity: Identity(1),
        zone: Zone::new("z").expect("a short name"),
        weight: 1,
        address: Address::new("host:1").expect("a short address"),
        terms: LeaseTerms::default(),
        renew_after: 1,
    };
    let member = Member::new(settings, NodeId(1), 1);
    let count = NonZeroU32::new(shards).expect("not zero");
    Node::new(member, count, &Arc::new(Keyspaces::new()), Vec::new())
}

/// Registers the node and makes it the only replica of all partitions.
fn lead(node: &mut Node) {
    node.handle_tick(Time(1));
    node.handle_response(Time(1), Response::Registered(NodeId(1)));
    let Some(Request::Lease(request, _)) = node.handle_tick(Time(2)) else { panic!("it is registered") };
    let settings = ClassSettings { durability: Durability::Memory, ..ClassSettings::new(1) };
    let configuration = Configuration {
        epoch: Epoch(1),
        since: RingVersion(1),
        floor: RingVersion(1),
        replicas: vec![node.replica()],
        learners: Vec::new(),
    };
    let hold = |index| Fact::Partition(partition(index), configuration.clone(), None);
    let facts = [Fact::Class(ClassId(0), settings)].into_iter().chain((0..PARTITIONS).map(hold)).collect();
    let version = RingVersion(1);
    let difference = Difference { facts, next: Position::whole(version), reached: Some(version) };
    node.handle_response(Time(3), Response::Granted(request, difference));
}

/// What the node wants stored.
fn to_store(node: &mut Node) -> Vec<Stored> {
    let outputs = std::iter::from_fn(|| node.poll_output());
    let stored = outputs.filter_map(|output| match output {
        Output::Store { partition, index, epoch, .. } => Some(Stored { partition, index, epoch }),
        _ => None,
    });
    stored.collect()
}

#[test]
fn every_partition_is_run_by_one_shard() {
    for shards in [1, 3, 8, 20] {
        let mut node = node(shards);
        lead(&mut node);
        assert_eq!(node.durability_of(partition(0)), Durability::Memory);
        let stored = to_store(&mut node);
        assert_eq!(stored.len(), PARTITIONS as usize, "one marker for each");
        node.handle_stored(Time(4), &stored);
        assert_eq!(node.partitions().count(), PARTITIONS as usize);
        let is_led =
            |index| node.partition(partition(index)).is_some_and(tyr_proto::Partition::is_established);
        assert!((0..PARTITIONS).all(is_led));
    }
}

#[test]
fn a_node_whose_journal_has_failed_promises_nothing_and_gives_up_its_lease() {
    let mut node = node(2);
    lead(&mut node);
    let stored = to_store(&mut node);
    assert!(node.has_lease(Time(5)));
    node.handle_failure(Time(5), Error::unavailable("the disk is broken"));
    node.handle_stored(Time(6), &stored);
    assert!(!node.partitions().any(tyr_proto::Partition::is_established));
    assert!(!node.has_lease(Time(6)) && node.failure().is_some());
    assert!(node.handle_tick(Time(7)).is_none(), "it asks for no lease");
}
