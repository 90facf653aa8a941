//! Members that come, go, and stay away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{format, vec};

use super::*;
use crate::{
    Incarnation, Replica,
    cluster::{Address, ClassSettings, ClusterId, Identity, Partition, Zone},
};

const CLASS: ClassId = ClassId(0);
const TERMS: UpkeepTerms = UpkeepTerms { absence_max: 1_000, moving_max: 2, plan_every: 100_000 };

fn register(node: u32) -> Command {
    Command::Register {
        identity: Identity(u128::from(node)),
        incarnation: Incarnation(1),
        memory_since: Incarnation(1),
        zone: Zone::new(&format!("z{node}")).unwrap(),
        weight: 1,
        address: Address::new(&format!("host{node}:1")).unwrap(),
    }
}

/// Nodes 1 to `nodes` hold 16 partitions, two replicas each.
fn cluster(nodes: u32, upkeep: &mut Upkeep) -> Cluster {
    let mut cluster = Cluster::new(ClusterId(7));
    cluster.apply(Command::Found(vec![])).unwrap();
    for node in 1..=nodes {
        cluster.apply(register(node)).unwrap();
    }
    let settings = ClassSettings { partitions: 16, ..ClassSettings::new(2) };
    cluster.apply(Command::CreateClass(CLASS, settings)).unwrap();
    follow(&mut cluster, upkeep, 0);
    cluster
}

fn follow(cluster: &mut Cluster, upkeep: &mut Upkeep, now: u64) -> usize {
    let due = upkeep.due(cluster, Time(now));
    let count = due.len();
    for command in due {
        cluster.apply(command).unwrap();
        cluster.check();
    }
    count
}

fn moving(cluster: &Cluster) -> impl Iterator<Item = (crate::PartitionId, &Partition)> {
    cluster.partitions().filter(|(_, partition)| !partition.configuration.learners.is_empty())
}

/// Those that copy have copied, and those who are to release do.
fn finish(cluster: &mut Cluster) {
    let copying: Vec<_> =
        moving(cluster).map(|(id, partition)| (id, partition.configuration.clone())).collect();
    for (partition, now) in copying {
        let by = now.primary().unwrap();
        for learner in now.learners {
            let command = Command::LearnerComplete { partition, epoch: now.epoch, by, learner };
            let _superseded = cluster.apply(command);
        }
    }
    let waiting: Vec<_> = cluster.partitions().map(|(id, partition)| (id, partition.clone())).collect();
    for (id, partition) in waiting {
        for replica in partition.awaited() {
            let epoch = partition.configuration.epoch;
            let command = Command::Release { partition: id, epoch, replica, handed_to: None };
            let _superseded = cluster.apply(command);
        }
    }
}

/// Has everybody do what is due until nothing is. Says how many rounds that took.
fn settle(cluster: &mut Cluster, upkeep: &mut Upkeep) -> u64 {
    let mut rounds = 0;
    while follow(cluster, upkeep, 10 + rounds) > 0 || moving(cluster).count() > 0 {
        assert!(moving(cluster).count() <= 2, "more copy at once than may");
        finish(cluster);
        rounds += 1;
        assert!(rounds < 100, "it never ends");
    }
    rounds
}

fn holds(cluster: &Cluster, node: u32) -> usize {
    let is_held = |partition: &Partition| {
        partition.configuration.replicas.iter().any(|replica| replica.node == NodeId(node))
    };
    cluster.partitions().filter(|(_, partition)| is_held(partition)).count()
}

#[test]
fn the_first_members_hold_everything_at_once_and_then_nothing_is_due() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(2, &mut upkeep);
    assert_eq!((holds(&cluster, 1), holds(&cluster, 2)), (16, 16));
    assert_eq!(follow(&mut cluster, &mut upkeep, 10), 0);
}

#[test]
fn a_member_that_joins_gets_its_share_a_few_partitions_at_a_time() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(2, &mut upkeep);
    cluster.apply(register(3)).unwrap();
    let rounds = settle(&mut cluster, &mut upkeep);
    assert!((10..=11).contains(&holds(&cluster, 3)), "a third of 32, not {}", holds(&cluster, 3));
    assert!(rounds >= 5, "it took its time");
}

#[test]
fn a_node_that_stays_away_is_given_up_and_its_replicas_are_rebuilt_elsewhere() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(3, &mut upkeep);
    let dead = Replica { node: NodeId(2), incarnation: Incarnation(1) };
    cluster.apply(Command::Evict(dead)).unwrap();
    assert_eq!(follow(&mut cluster, &mut upkeep, 500), 0);
    assert_eq!(follow(&mut cluster, &mut upkeep, 1_499), 0, "it may come back");
    assert_eq!(follow(&mut cluster, &mut upkeep, 1_500), 1);
    assert_eq!(cluster.member(NodeId(2)).unwrap().presence, Presence::GivenUp);
    for now in 0..40 {
        follow(&mut cluster, &mut upkeep, 1_600 + now);
        assert!(moving(&cluster).count() <= 2);
        finish(&mut cluster);
    }
    assert_eq!((holds(&cluster, 1), holds(&cluster, 3)), (16, 16));
}

#[test]
fn a_node_that_comes_back_in_time_keeps_what_it_has() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(3, &mut upkeep);
    let targets = |cluster: &Cluster| -> Vec<_> {
        cluster.partitions().map(|(_, partition)| partition.target().to_vec()).collect()
    };
    let before = targets(&cluster);
    let dead = Replica { node: NodeId(2), incarnation: Incarnation(1) };
    cluster.apply(Command::Evict(dead)).unwrap();
    follow(&mut cluster, &mut upkeep, 500);
    let Command::Register { identity, zone, weight, address, .. } = register(2) else { unreachable!() };
    let again = Incarnation(2);
    let back = Command::Register { identity, incarnation: again, memory_since: again, zone, weight, address };
    cluster.apply(back).unwrap();
    assert_eq!(follow(&mut cluster, &mut upkeep, 2_000), 0);
    assert_eq!(targets(&cluster), before);
}

#[test]
fn a_new_leader_counts_an_absence_anew() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(3, &mut upkeep);
    cluster.apply(Command::Evict(Replica { node: NodeId(2), incarnation: Incarnation(1) })).unwrap();
    follow(&mut cluster, &mut upkeep, 500);
    upkeep.step_down();
    follow(&mut cluster, &mut upkeep, 1_500);
    assert_eq!(cluster.member(NodeId(2)).unwrap().presence, Presence::Evicted);
}

#[test]
fn a_replica_that_was_removed_for_being_slow_comes_back_by_a_later_plan() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(2, &mut upkeep);
    let (id, partition) = cluster.partitions().map(|(id, partition)| (id, partition.clone())).next().unwrap();
    let [by, slow] = partition.configuration.replicas[..] else { panic!("two replicas") };
    let epoch = partition.configuration.epoch;
    cluster.apply(Command::RemoveReplica { partition: id, epoch, by, replica: slow }).unwrap();
    finish(&mut cluster);
    assert_eq!(cluster.partition(id).unwrap().configuration.replicas, [by]);
    assert_eq!(follow(&mut cluster, &mut upkeep, 10), 0, "at once it would be as slow as before");
    assert_eq!(follow(&mut cluster, &mut upkeep, 100_000), 1);
    assert_eq!(cluster.partition(id).unwrap().configuration.learners, [slow]);
}

#[test]
fn what_a_shard_of_a_node_has_lost_is_rebuilt_by_others_at_once_a_few_partitions_at_a_time() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(4, &mut upkeep);
    let of_shard = |id: &crate::PartitionId| id.index.is_multiple_of(2);
    let replica = Replica { node: NodeId(2), incarnation: Incarnation(1) };
    cluster.apply(Command::Lose { replica, shard: 0, shards: 2 }).unwrap();
    let rounds = settle(&mut cluster, &mut upkeep);
    assert!(rounds >= 2, "it took its time");
    for (id, partition) in cluster.partitions() {
        let held = &partition.configuration.replicas;
        assert_eq!(held.len(), 2, "{id}");
        assert!(!(of_shard(&id) && held.contains(&replica)), "{id}");
    }
    let Command::Register { identity, zone, weight, address, .. } = register(2) else { unreachable!() };
    let again = Incarnation(2);
    let back = Command::Register { identity, incarnation: again, memory_since: again, zone, weight, address };
    cluster.apply(back).unwrap();
    for now in 0..40 {
        follow(&mut cluster, &mut upkeep, 1_000 + now);
        finish(&mut cluster);
    }
    assert_eq!(holds(&cluster, 2), 8, "its share, as before");
}

#[test]
fn a_node_that_stops_and_hands_over_is_counted_on() {
    let mut upkeep = Upkeep::new(TERMS);
    let mut cluster = cluster(4, &mut upkeep);
    let replica = Replica { node: NodeId(2), incarnation: Incarnation(1) };
    cluster.apply(Command::Lose { replica, shard: 0, shards: 1 }).unwrap();
    assert_eq!(follow(&mut cluster, &mut upkeep, 10), 0);
    cluster.apply(Command::Evict(replica)).unwrap();
    assert_eq!(follow(&mut cluster, &mut upkeep, 20), 0);
    assert_eq!(holds(&cluster, 2), 0);
}
