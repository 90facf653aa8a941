//! How members go.

use alloc::vec;

use super::super::*;
use super::{CLASS, P, accept, cluster, complete, held, plan, proposal, release, replica, settings, start};

fn away(cluster: &mut Cluster, node: u32) {
    accept(cluster, Command::Evict(replica(node, 1)));
    accept(cluster, Command::GiveUp(NodeId(node)));
}

#[test]
fn a_drained_node_that_is_restored_gets_its_share_again() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    accept(&mut cluster, Command::Drain(NodeId(3)));
    plan(&mut cluster);
    accept(&mut cluster, Command::Restore(NodeId(3)));
    accept(&mut cluster, Command::Restore(NodeId(3)));
    plan(&mut cluster);
    assert!(cluster.partition(P).unwrap().target().contains(&NodeId(3)));
    accept(&mut cluster, Command::Drain(NodeId(3)));
    plan(&mut cluster);
    let third = proposal(&cluster).and(Some(release(&cluster, replica(3, 1), None)));
    third.into_iter().for_each(|command| accept(&mut cluster, command));
    accept(&mut cluster, Command::Leave(NodeId(3)));
    assert_eq!(cluster.apply(Command::Restore(NodeId(3))), Err(Refusal::NotFound));
    assert_eq!(cluster.apply(start(3, 9)), Err(Refusal::NotFound), "it never comes back");
}

#[test]
fn a_successor_takes_the_place_of_whom_it_replaces() {
    let mut cluster = cluster(2, settings(2, Durability::Disk));
    accept(&mut cluster, start(3, 1));
    accept(&mut cluster, start(4, 1));
    accept(&mut cluster, Command::Replace { old: NodeId(1), new: NodeId(4) });
    plan(&mut cluster);
    let target = cluster.partition(P).unwrap().target().to_vec();
    assert!(target.contains(&NodeId(2)) && target.contains(&NodeId(4)), "{target:?}");
    let learnt = complete(&cluster, replica(4, 1));
    accept(&mut cluster, learnt);
    let released = release(&cluster, replica(1, 1), None);
    accept(&mut cluster, released);
    accept(&mut cluster, Command::Leave(NodeId(1)));
    assert_eq!(cluster.successor(NodeId(1)), None);
}

#[test]
fn who_replaces_whom_is_checked() {
    let mut cluster = cluster(3, settings(2, Durability::Disk));
    let replace = |old, new| Command::Replace { old: NodeId(old), new: NodeId(new) };
    assert_eq!(cluster.apply(replace(1, 9)), Err(Refusal::NotFound));
    assert_eq!(cluster.apply(replace(9, 1)), Err(Refusal::NotFound));
    assert_eq!(cluster.apply(replace(1, 1)), Err(Refusal::Invalid));
    accept(&mut cluster, Command::Drain(NodeId(3)));
    assert_eq!(cluster.apply(replace(1, 3)), Err(Refusal::Invalid), "who goes takes nobody's place");
    accept(&mut cluster, start(4, 1));
    accept(&mut cluster, start(5, 1));
    accept(&mut cluster, replace(1, 4));
    accept(&mut cluster, replace(4, 5));
    assert_eq!(cluster.successor(NodeId(1)), Some(NodeId(5)));
}

#[test]
fn what_only_a_dead_node_had_is_lost_when_it_is_abandoned_and_not_before() {
    let mut cluster = cluster(2, settings(1, Durability::Disk));
    away(&mut cluster, 1);
    plan(&mut cluster);
    assert!(held(&cluster).replicas.is_empty(), "nobody else has it");
    assert_eq!(cluster.apply(Command::Leave(NodeId(1))), Err(Refusal::LastCopy));
    assert_eq!(cluster.apply(Command::Abandon(NodeId(2))), Err(Refusal::Busy));
    accept(&mut cluster, Command::Abandon(NodeId(1)));
    assert_eq!(held(&cluster).replicas, vec![replica(2, 1)]);
    assert_eq!(held(&cluster).floor, held(&cluster).since, "nothing that was born before goes on");
    accept(&mut cluster, Command::Leave(NodeId(1)));
    assert_eq!(cluster.class(CLASS).unwrap().replicas, 1);
}

#[test]
fn nothing_is_lost_by_abandoning_a_node_whose_data_others_have() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    away(&mut cluster, 3);
    let before = held(&cluster).clone();
    accept(&mut cluster, Command::Abandon(NodeId(3)));
    assert_eq!(*held(&cluster), before);
    assert_eq!(cluster.apply(Command::Leave(NodeId(3))), Err(Refusal::Busy), "it is still to come back");
    plan(&mut cluster);
    accept(&mut cluster, Command::Leave(NodeId(3)));
}

#[test]
fn what_a_shard_of_a_node_has_lost_others_hold_until_the_node_starts_again() {
    let settings = ClassSettings { partitions: 2, ..settings(3, Durability::Disk) };
    let mut cluster = cluster(3, settings);
    let other = PartitionId { class: CLASS, index: 1 };
    let lose = Command::Lose { replica: replica(1, 1), shard: 0, shards: 2 };
    assert!(cluster.is_news(&lose));
    let (floor, before) = (held(&cluster).floor, cluster.partition(other).cloned());
    accept(&mut cluster, lose.clone());
    assert!(!cluster.is_news(&lose));
    assert_eq!(held(&cluster).replicas, vec![replica(2, 1), replica(3, 1)]);
    assert!(held(&cluster).floor > floor, "a primary that failed has handed nothing over");
    assert_eq!(cluster.partition(other).cloned(), before, "the other shard goes on");
    plan(&mut cluster);
    assert!(held(&cluster).learners.is_empty(), "it is given nothing that it cannot keep");
    for lost in [2, 3] {
        accept(&mut cluster, Command::Lose { replica: replica(lost, 1), shard: 0, shards: 2 });
    }
    assert!(held(&cluster).replicas.is_empty());
    accept(&mut cluster, start(2, 2));
    assert!(held(&cluster).replicas.is_empty(), "it has not all that was acknowledged");
    accept(&mut cluster, start(3, 2));
    assert_eq!(held(&cluster).replicas, vec![replica(3, 2)]);
    assert_eq!(cluster.apply(lose), Ok(Answer::Done(cluster.version())));
    accept(&mut cluster, start(1, 2));
    let stale = Command::Lose { replica: replica(1, 1), shard: 0, shards: 2 };
    assert_eq!(cluster.apply(stale), Err(Refusal::Stale));
    assert!(held(&cluster).learners.contains(&replica(1, 2)), "it may have it again");
}

fn targets(cluster: &Cluster) -> Vec<Vec<NodeId>> {
    cluster.partitions().map(|(_, partition)| partition.target().to_vec()).collect()
}

/// The index of each target set with the nodes that are new in it.
fn moved(before: &[Vec<NodeId>], after: &[Vec<NodeId>]) -> Vec<(usize, NodeId)> {
    let new = |(index, (before, after)): (usize, (&Vec<NodeId>, &Vec<NodeId>))| {
        let new: Vec<NodeId> = after.iter().copied().filter(|node| !before.contains(node)).collect();
        new.into_iter().map(move |node| (index, node))
    };
    before.iter().zip(after).enumerate().flat_map(new).collect()
}

#[test]
fn a_plan_gives_what_a_node_has_lost_to_others_and_a_later_one_gives_it_its_share_back() {
    let settings = ClassSettings { partitions: 32, ..settings(3, Durability::Disk) };
    let mut cluster = cluster(5, settings);
    plan(&mut cluster);
    let before = targets(&cluster);
    let is_lost = |index: usize| index.is_multiple_of(2) && before[index].contains(&NodeId(1));
    accept(&mut cluster, Command::Lose { replica: replica(1, 1), shard: 0, shards: 2 });
    plan(&mut cluster);
    let after = targets(&cluster);
    for (index, target) in after.iter().enumerate() {
        assert_eq!(target.len(), 3, "{index}");
        assert!(!(is_lost(index) && target.contains(&NodeId(1))), "{index} is to be where it was lost");
    }
    let moved = moved(&before, &after);
    let lost = (0..32).filter(|index| is_lost(*index)).count();
    assert!(lost > 5 && moved.len() <= lost + 2, "{moved:?} for {lost}");
    assert!((0..32).all(|index| !is_lost(index) || moved.iter().any(|(at, _)| *at == index)));
    plan(&mut cluster);
    assert_eq!(targets(&cluster), after, "what is planned stays");
    accept(&mut cluster, start(1, 2));
    plan(&mut cluster);
    let share = targets(&cluster).iter().filter(|target| target.contains(&NodeId(1))).count();
    assert!((19..=20).contains(&share), "a fifth of 96, not {share}");
}

#[test]
fn what_a_node_has_lost_goes_to_another_zone_than_those_of_the_others() {
    let mut cluster = Cluster::new(ClusterId(7));
    accept(&mut cluster, Command::Found(vec![]));
    for (node, name) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c")] {
        let Command::Register { identity, incarnation, memory_since, weight, address, .. } = start(node, 1)
        else {
            unreachable!("it registers")
        };
        let zone = Zone::new(name).unwrap();
        let register = Command::Register { identity, incarnation, memory_since, zone, weight, address };
        accept(&mut cluster, register);
    }
    let settings =
        ClassSettings { partitions: 16, zones: crate::ZoneRule::Require, ..settings(2, Durability::Disk) };
    accept(&mut cluster, Command::CreateClass(CLASS, settings));
    plan(&mut cluster);
    accept(&mut cluster, Command::Lose { replica: replica(5, 1), shard: 0, shards: 2 });
    for _ in 0..3 {
        plan(&mut cluster);
        for (index, target) in targets(&cluster).iter().enumerate() {
            let zones: Vec<_> =
                target.iter().map(|node| cluster.member(*node).unwrap().zone.clone()).collect();
            assert!(target.len() == 2 && zones[0] != zones[1], "{index}: {target:?}");
            assert!(!index.is_multiple_of(2) || !target.contains(&NodeId(5)), "{index}: {target:?}");
        }
    }
}
