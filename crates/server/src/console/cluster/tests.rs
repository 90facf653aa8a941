#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tyr_proto::{
    Configuration, Epoch, Incarnation, PartitionId, Replica, RingVersion,
    cluster::{Address, Identity, Position, Zone},
};

use super::*;
use crate::console::view::{Sample, ShardView};

fn replica(node: u32) -> Replica {
    Replica { node: NodeId(node), incarnation: Incarnation(1) }
}

fn member(node: u32, presence: Presence) -> Fact {
    let member = Member {
        identity: Identity(node.into()),
        incarnation: Incarnation(1),
        memory_since: Incarnation(1),
        zone: Zone::new("z").unwrap(),
        weight: 100,
        address: Address::new(&format!("host{node}:7700")).unwrap(),
        state: MemberState::Active,
        presence,
    };
    Fact::Member(NodeId(node), member)
}

fn partition(index: u32, replicas: &[u32], learners: &[u32]) -> Fact {
    let held = |nodes: &[u32]| nodes.iter().copied().map(replica).collect();
    let configuration = Configuration {
        epoch: Epoch(index + 1),
        since: RingVersion(1),
        floor: RingVersion(1),
        replicas: held(replicas),
        learners: held(learners),
    };
    Fact::Partition(PartitionId { class: ClassId(0), index }, configuration, None)
}

fn told(facts: Vec<Fact>) -> Difference {
    let class = Fact::Class(ClassId(0), ClassSettings::new(3));
    let facts = [vec![class], facts].concat();
    Difference { facts, next: Position::default(), reached: Some(RingVersion(9)) }
}

fn node(node: u32) -> NodeView {
    let sample = |at: u64, committed| Sample {
        at_ms: at * EVERY_MS,
        seconds: 2.0,
        work: Work { committed, transaction_times: vec![0, committed], ..Work::default() },
    };
    NodeView {
        version: VERSION,
        node,
        ready: true,
        program: "1".into(),
        samples: (1..=5).map(|at| sample(at, 10 * u64::from(node))).collect(),
        shards: vec![ShardView { pins: 2, ..ShardView::default() }],
        hot: vec![HeatView {
            keyspace: 1,
            blob: "a".into(),
            per_second: f64::from(node),
            ..HeatView::default()
        }],
        ..NodeView::default()
    }
}

fn view(facts: Vec<Fact>, nodes: &[NodeView]) -> ClusterView {
    cluster_view(NodeId(1), ClusterId(7), &told(facts), nodes)
}

#[test]
fn what_all_nodes_tell_is_added_up() {
    let members = (1..=3).map(|node| member(node, Presence::Present));
    let facts = members.chain([partition(0, &[1, 2, 3], &[]), partition(1, &[2, 3, 1], &[])]).collect();
    let view = view(facts, &[node(1), node(2), node(3)]);
    assert_eq!((view.health, view.troubles.len(), view.ring_version), ("well", 0, 9));
    assert_eq!((view.partitions.complete, view.partitions.epoch_max, view.pins), (2, 2, 6));
    assert_eq!((view.hot.len(), view.hot[0].per_second), (1, 6.0));
    assert_eq!((view.samples.len(), view.samples[0].transactions), (5, 30.0));
    assert!(view.samples[4].transaction_p99.unwrap() <= 0.000_25);
    assert_eq!((view.nodes[1].leads, view.nodes[1].holds, view.nodes[2].rates.transactions), (1, 2, 15.0));
}

#[test]
fn a_node_that_does_not_answer_is_a_trouble_and_holds_nothing_up() {
    let facts = vec![
        member(1, Presence::Present),
        member(2, Presence::Present),
        member(3, Presence::Evicted),
        partition(0, &[1, 2], &[]),
        partition(1, &[2], &[1]),
        partition(2, &[], &[]),
    ];
    let mut late = node(1);
    late.samples.pop();
    let lost = NodeView { version: VERSION, node: 9, ..NodeView::default() };
    let view = view(facts, &[late, lost]);
    assert_eq!(view.health, "unserved");
    assert_eq!(
        view.troubles,
        [
            "1 partition is served by nobody",
            "2 partitions lack replicas",
            "1 partition is being copied or handed over",
            "node 2 does not answer",
            "node 3 is away",
        ]
    );
    assert_eq!(
        (view.rebuilds.len(), view.rebuilds[0].from, &view.rebuilds[0].to[..]),
        (1, Some(2), &[1][..])
    );
    assert_eq!(view.samples.len(), 4);
}

#[test]
fn nothing_is_well_as_long_as_nothing_is_known() {
    let view = cluster_view(
        NodeId(1),
        ClusterId(7),
        &Difference { facts: Vec::new(), next: Position::default(), reached: None },
        &[],
    );
    assert_eq!((view.health, view.nodes.len(), view.samples.len()), ("unserved", 0, 0));
    assert_eq!(view.troubles, ["the cluster manager has told nothing yet"]);
}
