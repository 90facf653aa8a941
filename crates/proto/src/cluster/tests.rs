//! Named cases of the cluster; random ones are in the child modules.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod data;
mod departure;
mod random;

use alloc::{format, vec};

use super::*;
use crate::{Configuration, Incarnation};
use tyr_types::KeyspaceName;

const CLASS: ClassId = ClassId(0);
const P: PartitionId = PartitionId { class: CLASS, index: 0 };

fn replica(node: u32, incarnation: u64) -> Replica {
    Replica { node: NodeId(node), incarnation: Incarnation(incarnation) }
}

fn registration(node: u32, incarnation: u64, memory_since: u64) -> Command {
    Command::Register {
        identity: Identity(u128::from(node)),
        incarnation: Incarnation(incarnation),
        memory_since: Incarnation(memory_since),
        zone: Zone::new(&format!("zone {node}")).unwrap(),
        weight: 1,
        address: Address::new(&format!("host{node}:{incarnation}")).unwrap(),
    }
}

fn start(node: u32, incarnation: u64) -> Command {
    registration(node, incarnation, incarnation)
}

fn settings(replicas: u8, durability: Durability) -> ClassSettings {
    ClassSettings { partitions: 1, durability, ..ClassSettings::new(replicas) }
}

/// One partition on nodes 1 to `nodes`, each in incarnation 1; the first is the primary.
fn cluster(nodes: u32, settings: ClassSettings) -> Cluster {
    let mut cluster = Cluster::new(ClusterId(7));
    accept(&mut cluster, Command::Found(vec![]));
    for node in 1..=nodes {
        let answer = cluster.apply(start(node, 1)).unwrap();
        assert_eq!(answer, Answer::Registered(NodeId(node), cluster.version()));
    }
    accept(&mut cluster, Command::CreateClass(CLASS, settings));
    let first: Vec<u32> = (1..=nodes.min(u32::from(settings.replicas))).collect();
    if nodes > 0 {
        accept(&mut cluster, retarget(&first, settings.partitions));
    }
    cluster
}

/// All partitions are to be held by these nodes.
fn retarget(nodes: &[u32], partitions: u32) -> Command {
    let target: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
    Command::Retarget { class: CLASS, targets: (0..partitions).map(|_| target.clone()).collect() }
}

fn plan(cluster: &mut Cluster) {
    let command = cluster.plan(CLASS, &[]).unwrap().unwrap();
    accept(cluster, command);
}

fn accept(cluster: &mut Cluster, command: Command) {
    let said = format!("{command:?}");
    assert!(cluster.apply(command).is_ok(), "{said} was refused");
    cluster.check();
}

fn held(cluster: &Cluster) -> &Configuration {
    &cluster.partition(P).unwrap().configuration
}

fn proposal(cluster: &Cluster) -> Option<&Proposal> {
    cluster.partition(P).unwrap().proposal.as_ref()
}

fn release(cluster: &Cluster, replica: Replica, handed_to: Option<Replica>) -> Command {
    Command::Release { partition: P, epoch: held(cluster).epoch, replica, handed_to }
}

fn complete(cluster: &Cluster, learner: Replica) -> Command {
    let now = held(cluster);
    Command::LearnerComplete { partition: P, epoch: now.epoch, by: now.primary().unwrap(), learner }
}

fn keyspace(name: &str, seed: u64) -> Command {
    let name = KeyspaceName::new(name).unwrap();
    Command::CreateKeyspace { name, class: CLASS, seed, settings: KeyspaceSettings::default() }
}

#[test]
fn zones_and_addresses_are_lines() {
    for wrong in ["", "a\nb", "a\0", "\u{85}", &"a".repeat(256)] {
        assert!(Zone::new(wrong).is_err(), "{wrong:?}");
        assert!(Address::new(wrong).is_err(), "{wrong:?}");
    }
    assert!(Zone::new("rack 7, Zürich").is_ok() && Address::new("unix:/run/tyr node").is_ok());
}

#[test]
fn a_new_class_is_held_by_its_first_target_set_at_once() {
    let cluster = cluster(3, settings(3, Durability::Disk));
    assert_eq!(held(&cluster).epoch, Epoch(1));
    assert_eq!(held(&cluster).replicas, vec![replica(1, 1), replica(2, 1), replica(3, 1)]);
}

#[test]
fn a_class_without_members_is_held_when_a_plan_finds_some() {
    let mut cluster = cluster(0, settings(3, Durability::Disk));
    assert_eq!(held(&cluster).epoch, Epoch(0));
    accept(&mut cluster, start(1, 1));
    assert_eq!(held(&cluster).epoch, Epoch(0));
    plan(&mut cluster);
    assert_eq!(held(&cluster).replicas, vec![replica(1, 1)]);
    assert!(!cluster.class(CLASS).unwrap().takes_writes(held(&cluster)));
}

#[test]
fn an_evicted_backup_is_gone_and_the_floor_stays() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    let floor = held(&cluster).floor;
    accept(&mut cluster, Command::Evict(replica(2, 1)));
    assert_eq!(held(&cluster).replicas, vec![replica(1, 1), replica(3, 1)]);
    assert_eq!(held(&cluster).floor, floor);
    assert!(cluster.class(CLASS).unwrap().takes_writes(held(&cluster)));
}

#[test]
fn an_evicted_primary_is_followed_by_a_complete_replica_and_raises_the_floor() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    accept(&mut cluster, Command::Evict(replica(1, 1)));
    assert_eq!(held(&cluster).primary(), Some(replica(2, 1)));
    assert_eq!(held(&cluster).floor, cluster.version());
}

#[test]
fn a_restarted_node_that_held_it_in_memory_loses_its_roles_and_returns_as_a_learner() {
    let mut cluster = cluster(2, settings(2, Durability::Memory));
    accept(&mut cluster, start(1, 2));
    assert_eq!(held(&cluster).replicas, vec![replica(2, 1)]);
    assert_eq!(held(&cluster).learners, vec![replica(1, 2)]);

    let report = complete(&cluster, replica(1, 2));
    accept(&mut cluster, report);
    assert_eq!(held(&cluster).replicas, vec![replica(2, 1), replica(1, 2)]);
    // The plan wants node 1 to be the primary: node 2 must hand over first.
    assert_eq!(proposal(&cluster).unwrap().replicas, vec![replica(1, 2), replica(2, 1)]);
    let floor = held(&cluster).floor;
    let hand_over = release(&cluster, replica(2, 1), Some(replica(1, 2)));
    accept(&mut cluster, hand_over);
    assert_eq!(held(&cluster).primary(), Some(replica(1, 2)));
    assert_eq!(held(&cluster).floor, floor, "a complete hand-over aborts nobody");
    assert_eq!(proposal(&cluster), None);
}

#[test]
fn a_restarted_node_that_has_it_on_its_disk_stays_complete_and_one_that_ran_on_leads() {
    let mut cluster = cluster(2, settings(2, Durability::Disk));
    let floor = held(&cluster).floor;
    accept(&mut cluster, start(2, 2));
    assert_eq!(held(&cluster).replicas, vec![replica(1, 1), replica(2, 2)]);
    assert_eq!(held(&cluster).floor, floor, "the primary goes on");
    accept(&mut cluster, start(1, 2));
    assert_eq!(held(&cluster).replicas, vec![replica(2, 2), replica(1, 2)]);
    assert_eq!(held(&cluster).learners, vec![]);
    assert_eq!(held(&cluster).floor, cluster.version());
    // The plan wants node 1 to be the primary, which takes no more than a hand-over.
    assert_eq!(proposal(&cluster).unwrap().replicas, vec![replica(1, 2), replica(2, 2)]);
}

#[test]
fn when_all_stop_and_one_does_not_start_again_the_others_that_have_it_on_their_disks_go_on() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    accept(&mut cluster, start(2, 2));
    accept(&mut cluster, start(3, 2));
    accept(&mut cluster, Command::Evict(replica(1, 1)));
    assert_eq!(held(&cluster).replicas, vec![replica(2, 2), replica(3, 2)]);
    // In memory the first to start again has nothing, and the others wait for those that are not known to be over.
    let mut cluster = self::cluster(3, settings(3, Durability::Memory));
    accept(&mut cluster, start(2, 2));
    accept(&mut cluster, start(3, 2));
    accept(&mut cluster, Command::Evict(replica(1, 1)));
    assert_eq!(held(&cluster).replicas, vec![]);
    accept(&mut cluster, start(1, 2));
    assert_eq!(held(&cluster).replicas, vec![replica(1, 2), replica(2, 2), replica(3, 2)], "anew");
}

#[test]
fn the_last_complete_replica_on_disk_comes_back_alone_and_no_other_does() {
    let mut cluster = cluster(2, settings(2, Durability::Disk));
    accept(&mut cluster, Command::Evict(replica(2, 1)));
    accept(&mut cluster, Command::Evict(replica(1, 1)));
    assert_eq!(held(&cluster).primary(), None);
    accept(&mut cluster, start(2, 2));
    assert_eq!(held(&cluster).primary(), None, "node 2 lacks what node 1 acknowledged alone");
    assert_eq!(held(&cluster).learners, vec![]);
    accept(&mut cluster, start(1, 2));
    assert_eq!(held(&cluster).replicas, vec![replica(1, 2)]);
    assert_eq!(held(&cluster).learners, vec![replica(2, 2)]);
    assert_eq!(held(&cluster).floor, cluster.version());
}

#[test]
fn the_last_complete_replica_in_memory_comes_back_if_its_process_ran_on_and_else_it_begins_anew() {
    let alone = || {
        let mut cluster = cluster(2, settings(2, Durability::Memory));
        accept(&mut cluster, Command::Evict(replica(2, 1)));
        accept(&mut cluster, Command::Evict(replica(1, 1)));
        accept(&mut cluster, registration(2, 2, 1));
        assert_eq!(held(&cluster).primary(), None, "node 2 lacks what node 1 acknowledged alone");
        cluster
    };
    let mut cluster = alone();
    accept(&mut cluster, registration(1, 2, 1));
    assert_eq!(
        (&held(&cluster).replicas, &held(&cluster).learners),
        (&vec![replica(1, 2)], &vec![replica(2, 2)])
    );
    let mut cluster = alone();
    accept(&mut cluster, start(1, 2));
    assert_eq!(held(&cluster).replicas, vec![replica(1, 2), replica(2, 2)], "nobody has that any more");
    assert_eq!(held(&cluster).floor, cluster.version());
}

#[test]
fn a_sole_replica_on_disk_that_restarts_goes_on_in_one_epoch() {
    let mut cluster = cluster(1, settings(1, Durability::Disk));
    accept(&mut cluster, start(1, 2));
    assert_eq!((held(&cluster).epoch, held(&cluster).primary()), (Epoch(2), Some(replica(1, 2))));
    assert_eq!(held(&cluster).floor, cluster.version());
}

#[test]
fn a_slow_backup_is_removed_when_it_has_released_its_role() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    let removal = |by, replica| Command::RemoveReplica { partition: P, epoch: Epoch(1), by, replica };
    assert_eq!(cluster.apply(removal(replica(2, 1), replica(3, 1))), Err(Refusal::NotEntitled));
    accept(&mut cluster, removal(replica(1, 1), replica(3, 1)));
    assert_eq!(held(&cluster).epoch, Epoch(1));
    assert_eq!(cluster.partition(P).unwrap().awaited(), vec![replica(3, 1)]);
    assert_eq!(cluster.apply(removal(replica(1, 1), replica(2, 1))), Err(Refusal::TooFew));
    let released = release(&cluster, replica(3, 1), None);
    accept(&mut cluster, released);
    assert_eq!(held(&cluster).replicas, vec![replica(1, 1), replica(2, 1)]);
    assert_eq!(proposal(&cluster), None);
}

#[test]
fn a_primary_that_is_slow_itself_hands_the_lead_over_unless_too_few_would_remain() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    let removal = |replica| Command::RemoveReplica { partition: P, epoch: Epoch(1), by: replica, replica };
    assert!(cluster.is_news(&removal(replica(1, 1))));
    accept(&mut cluster, removal(replica(1, 1)));
    assert!(!cluster.is_news(&removal(replica(1, 1))));
    assert_eq!(held(&cluster).primary(), Some(replica(1, 1)), "until it has released its role");
    let released = release(&cluster, replica(1, 1), None);
    accept(&mut cluster, released);
    assert_eq!(held(&cluster).replicas, vec![replica(2, 1), replica(3, 1)]);
    let next = Command::RemoveReplica {
        partition: P,
        epoch: held(&cluster).epoch,
        by: replica(2, 1),
        replica: replica(2, 1),
    };
    assert_eq!(cluster.apply(next), Err(Refusal::TooFew));
}

#[test]
fn what_slow_replicas_have_left_of_a_target_is_no_reason_to_give_up_others() {
    let mut cluster = cluster(4, settings(3, Durability::Disk));
    accept(&mut cluster, Command::Drain(NodeId(1)));
    plan(&mut cluster);
    let report = complete(&cluster, replica(4, 1));
    accept(&mut cluster, report);
    let (epoch, by) = (held(&cluster).epoch, replica(1, 1));
    for slow in [replica(2, 1), replica(3, 1)] {
        accept(&mut cluster, Command::RemoveReplica { partition: P, epoch, by, replica: slow });
    }
    for slow in [replica(2, 1), replica(3, 1)] {
        let released = release(&cluster, slow, None);
        accept(&mut cluster, released);
    }
    assert_eq!(held(&cluster).replicas, vec![replica(1, 1), replica(4, 1)]);
    plan(&mut cluster);
    assert_eq!(held(&cluster).learners, vec![replica(2, 1), replica(3, 1)]);
    for learner in [replica(2, 1), replica(3, 1)] {
        let report = complete(&cluster, learner);
        accept(&mut cluster, report);
    }
    let released = release(&cluster, replica(1, 1), None);
    accept(&mut cluster, released);
    assert_eq!(held(&cluster).replicas.len(), 3);
    assert!(!held(&cluster).replicas.contains(&replica(1, 1)));
}

#[test]
fn a_partition_whose_only_learner_was_given_up_keeps_no_other_from_moving() {
    let settings = ClassSettings { partitions: 2, ..settings(1, Durability::Disk) };
    let mut cluster = cluster(1, settings);
    accept(&mut cluster, start(2, 1));
    let second = PartitionId { class: CLASS, index: 1 };
    let targets = vec![vec![NodeId(1)], vec![NodeId(2)]];
    accept(&mut cluster, Command::Retarget { class: CLASS, targets });
    let epoch = cluster.partition(second).unwrap().configuration.epoch;
    let (by, slow) = (replica(1, 1), replica(2, 1));
    accept(&mut cluster, Command::RemoveReplica { partition: second, epoch, by, replica: slow });
    assert!(cluster.partition(second).unwrap().target().is_empty());
    accept(&mut cluster, Command::Drain(NodeId(1)));
    let step = cluster.plan_step(CLASS, &[], 1).unwrap();
    accept(&mut cluster, step.command.expect("there is room for one"));
    for partition in [P, second] {
        assert_eq!(cluster.partition(partition).unwrap().target(), [NodeId(2)]);
    }
}

#[test]
fn a_partition_that_goes_back_to_who_holds_it_takes_no_room() {
    let mut cluster = cluster(2, ClassSettings { partitions: 2, ..settings(1, Durability::Disk) });
    accept(&mut cluster, retarget(&[2], 2));
    assert_eq!(held(&cluster).learners, vec![replica(2, 1)]);
    accept(&mut cluster, Command::Drain(NodeId(2)));
    let step = cluster.plan_step(CLASS, &[], 3).unwrap();
    accept(&mut cluster, step.command.unwrap());
    assert!(step.is_whole, "nothing has to be copied");
}

#[test]
fn a_slow_replica_stays_as_long_as_too_few_are_left_without_it() {
    let mut cluster = cluster(3, settings(3, Durability::Disk));
    let slow = replica(3, 1);
    accept(
        &mut cluster,
        Command::RemoveReplica { partition: P, epoch: Epoch(1), by: replica(1, 1), replica: slow },
    );
    accept(&mut cluster, Command::Evict(replica(2, 1)));
    assert_eq!(held(&cluster).replicas, vec![replica(1, 1), slow]);
    assert_eq!(proposal(&cluster), None);
}

#[test]
fn no_node_is_drained_without_which_there_are_too_few() {
    let mut cluster = cluster(2, settings(2, Durability::Disk));
    accept(&mut cluster, Command::Drain(NodeId(1)));
    assert_eq!(cluster.apply(Command::Drain(NodeId(2))), Err(Refusal::TooFew));
}

#[test]
fn nodes_that_are_away_take_nothing_from_one_that_is_drained() {
    let mut cluster = cluster(2, settings(2, Durability::Disk));
    accept(&mut cluster, Command::Evict(replica(2, 1)));
    assert_eq!(cluster.apply(Command::Drain(NodeId(1))), Err(Refusal::TooFew));
    // What is away itself can go.
    accept(&mut cluster, Command::Drain(NodeId(2)));
}

#[test]
fn a_drained_primary_hands_over_after_its_successor_is_complete() {
    let mut cluster = cluster(1, settings(1, Durability::Disk));
    accept(&mut cluster, start(2, 1));
    accept(&mut cluster, Command::Drain(NodeId(1)));
    assert_eq!(cluster.apply(Command::Leave(NodeId(1))), Err(Refusal::Busy));
    plan(&mut cluster);
    assert_eq!(held(&cluster).learners, vec![replica(2, 1)]);
    let report = complete(&cluster, replica(2, 1));
    accept(&mut cluster, report);
    let floor = held(&cluster).floor;
    let hand_over = release(&cluster, replica(1, 1), Some(replica(2, 1)));
    accept(&mut cluster, hand_over);
    assert_eq!(held(&cluster).replicas, vec![replica(2, 1)]);
    assert_eq!(held(&cluster).floor, floor);
    accept(&mut cluster, Command::Leave(NodeId(1)));
    assert_eq!(cluster.apply(start(1, 2)), Err(Refusal::NotFound));
}

#[test]
fn a_primary_that_handed_over_to_a_node_that_died_leads_again_above_the_floor() {
    let mut cluster = cluster(2, settings(2, Durability::Disk));
    accept(&mut cluster, start(1, 2));
    // Node 1 is evicted in the moment in which node 2 has handed over to it.
    let mut other = cluster.clone();
    let hand_over = release(&cluster, replica(2, 1), Some(replica(1, 2)));
    accept(&mut other, hand_over);
    accept(&mut other, Command::Evict(replica(1, 2)));
    assert_eq!(held(&other).replicas, vec![replica(2, 1)]);
    assert_eq!(held(&other).floor, other.version());
    // Without the hand-over node 2 has led all the time.
    let floor = held(&cluster).floor;
    accept(&mut cluster, Command::Evict(replica(1, 2)));
    assert_eq!((held(&cluster).primary(), held(&cluster).floor), (Some(replica(2, 1)), floor));
}

#[test]
fn a_node_given_up_is_replaced_by_the_next_plan() {
    let mut cluster = cluster(4, settings(3, Durability::Disk));
    assert_eq!(cluster.apply(Command::GiveUp(NodeId(2))), Err(Refusal::Busy));
    accept(&mut cluster, Command::Evict(replica(2, 1)));
    plan(&mut cluster);
    assert_eq!(held(&cluster).learners, vec![], "it may come back");
    accept(&mut cluster, Command::GiveUp(NodeId(2)));
    plan(&mut cluster);
    assert_eq!(held(&cluster).learners, vec![replica(4, 1)]);
}

#[test]
fn commands_of_another_epoch_or_incarnation_are_refused() {
    let mut cluster = cluster(2, settings(2, Durability::Disk));
    accept(&mut cluster, start(1, 2));
    let late =
        Command::LearnerComplete { partition: P, epoch: Epoch(1), by: replica(2, 1), learner: replica(1, 2) };
    assert_eq!(cluster.apply(late), Err(Refusal::Stale));
    assert_eq!(cluster.apply(start(1, 1)), Err(Refusal::Stale));
    assert_eq!(cluster.apply(Command::Evict(replica(1, 1))), Err(Refusal::Stale));
    let version = cluster.version();
    accept(&mut cluster, start(1, 2));
    assert_eq!(cluster.version(), version, "the same registration again changes nothing");
}

#[test]
fn a_dropped_keyspace_keeps_its_id_and_frees_its_name() {
    let mut cluster = cluster(1, settings(1, Durability::Disk));
    let created = cluster.apply(keyspace("events", 5)).unwrap();
    assert_eq!(created, Answer::KeyspaceCreated(KeyspaceId(1), cluster.version()));
    assert_eq!(cluster.apply(keyspace("events", 5)), Ok(created));
    assert_eq!(cluster.apply(keyspace("events", 6)), Err(Refusal::Taken));
    accept(&mut cluster, Command::DropKeyspace(KeyspaceId(1)));
    let again = cluster.apply(keyspace("events", 6)).unwrap();
    assert_eq!(again, Answer::KeyspaceCreated(KeyspaceId(2), cluster.version()));
    assert_eq!(cluster.keyspace(KeyspaceId(1)).unwrap().state, KeyspaceState::Dropped);
}

#[test]
fn of_a_keyspace_some_is_fixed_and_its_quota_is_set_by_itself() {
    let mut cluster = cluster(1, settings(1, Durability::Disk));
    accept(&mut cluster, keyspace("events", 5));
    let alter = |settings| Command::AlterKeyspace { id: KeyspaceId(1), settings };
    let base = KeyspaceSettings::default();
    accept(&mut cluster, alter(KeyspaceSettings { multi_version: false, ..base.clone() }));
    let bounded = KeyspaceSettings { quota: Some(1), ..base.clone() };
    assert_eq!(
        cluster.apply(alter(bounded)),
        Err(Refusal::Invalid),
        "who alters a keyspace does not give it more room"
    );
    let set = |quota| Command::SetQuota { id: KeyspaceId(1), quota };
    accept(&mut cluster, set(Some(7)));
    assert_eq!(cluster.keyspace(KeyspaceId(1)).unwrap().settings.quota, Some(7));
    let kept = KeyspaceSettings { quota: Some(7), ..base.clone() };
    accept(&mut cluster, alter(kept));
    accept(&mut cluster, set(None));
    assert_eq!(cluster.apply(set(Some(u64::MAX))), Err(Refusal::Invalid));
    let gone = Command::SetQuota { id: KeyspaceId(2), quota: None };
    assert_eq!(cluster.apply(gone), Err(Refusal::NotFound));
    let resized = KeyspaceSettings { chunk_size: 1 << 20, ..base.clone() };
    assert_eq!(cluster.apply(alter(resized)), Err(Refusal::Invalid));
    let weaker = KeyspaceSettings { durability: Durability::Memory, ..base };
    assert_eq!(cluster.apply(alter(weaker)), Err(Refusal::Invalid));
}

#[test]
fn founders_have_their_numbers_before_they_register_in_any_order() {
    let mut cluster = Cluster::new(ClusterId(1));
    let founders = vec![Identity(30), Identity(20)];
    assert_eq!(cluster.apply(start(10, 1)), Err(Refusal::NotFounded));
    assert_eq!(cluster.apply(Command::Found(vec![Identity(1), Identity(1)])), Err(Refusal::Invalid));
    accept(&mut cluster, Command::Found(founders.clone()));
    accept(&mut cluster, Command::Found(founders));
    assert_eq!(cluster.apply(Command::Found(vec![Identity(20)])), Err(Refusal::Taken));
    for (identity, number) in [(10, 3), (20, 2), (30, 1)] {
        let answer = cluster.apply(start(identity, 1)).unwrap();
        assert_eq!(answer, Answer::Registered(NodeId(number), cluster.version()));
    }
    assert_eq!(cluster.apply(Command::Found(vec![Identity(99)])), Err(Refusal::Taken));
}

#[test]
fn a_plan_spreads_partitions_and_primaries_by_weight_and_zone() {
    let mut cluster = Cluster::new(ClusterId(1));
    accept(&mut cluster, Command::Found(vec![]));
    for node in 1..=6_u32 {
        let zone = Zone::new(&format!("{}", node % 3)).unwrap();
        let identity = Identity(u128::from(node));
        let incarnation = Incarnation(1);
        let address = Address::new("host:1").unwrap();
        let memory_since = incarnation;
        let command = Command::Register { identity, incarnation, memory_since, zone, weight: 1, address };
        accept(&mut cluster, command);
    }
    let class = ClassSettings { partitions: 64, ..ClassSettings::new(3) };
    accept(&mut cluster, Command::CreateClass(CLASS, class));
    plan(&mut cluster);
    let zone = |replica: &Replica| cluster.member(replica.node).unwrap().zone.clone();
    for (id, partition) in cluster.partitions() {
        let zones: alloc::collections::BTreeSet<Zone> =
            partition.configuration.replicas.iter().map(zone).collect();
        assert_eq!(zones.len(), 3, "{id} shares a zone");
    }
    for node in (1..=6).map(NodeId) {
        let holds = |replica: &Replica| replica.node == node;
        let held = cluster.partitions().filter(|(_, p)| p.configuration.replicas.iter().any(holds)).count();
        let led =
            cluster.partitions().filter(|(_, p)| p.configuration.primary().is_some_and(|r| r.node == node));
        assert!((30..=34).contains(&held), "{node} holds {held} of 192");
        assert!((9..=12).contains(&led.count()), "{node} leads too many or too few");
    }
}

#[test]
fn targets_that_make_no_sense_are_refused() {
    let mut cluster = cluster(3, settings(2, Durability::Disk));
    for nodes in [&[][..], &[1, 1], &[1, 9], &[1, 2, 3]] {
        assert_eq!(cluster.apply(retarget(nodes, 1)), Err(Refusal::Invalid), "{nodes:?}");
    }
    assert_eq!(cluster.apply(retarget(&[1, 2], 2)), Err(Refusal::Invalid));
    accept(&mut cluster, retarget(&[1, 3], 1));
}

#[test]
fn a_difference_read_in_pieces_has_everything_once() {
    let mut cluster = cluster(3, ClassSettings { partitions: 16, ..ClassSettings::new(3) });
    accept(&mut cluster, keyspace("a", 1));
    let whole = cluster.changes_since(Position::default(), usize::MAX);
    assert_eq!(whole.reached, Some(cluster.version()));
    assert_eq!(whole.facts.len(), 1 + 3 + 1 + 16);
    let mut position = Position::default();
    let mut pieces = vec![];
    let reached = loop {
        let piece = cluster.changes_since(position, 2);
        assert!(piece.facts.len() <= 2);
        pieces.extend(piece.facts);
        position = piece.next;
        if let Some(reached) = piece.reached {
            break reached;
        }
    };
    assert_eq!(pieces, whole.facts);
    assert_eq!(reached, cluster.version());
    let nothing = cluster.changes_since(Position::whole(reached), 2);
    assert_eq!((nothing.facts.len(), nothing.reached), (0, Some(reached)));
    accept(&mut cluster, Command::DropKeyspace(KeyspaceId(1)));
    assert_eq!(cluster.changes_since(Position::whole(reached), 2).facts.len(), 1);
}

#[test]
fn only_the_next_version_is_news() {
    let cluster = cluster(1, ClassSettings { partitions: 1, ..ClassSettings::new(1) });
    let now = cluster.version().0;
    let is_news = |version| cluster.is_news(&Command::Advance(RingVersion(version)));
    assert_eq!([now - 1, now, now + 1, now + 2, u64::MAX].map(is_news), [false, false, true, false, false]);
}

#[test]
fn a_report_is_news_until_it_has_changed_something() {
    let mut cluster = cluster(4, settings(3, Durability::Disk));
    let epoch = held(&cluster).epoch;
    let slow = Command::RemoveReplica { partition: P, epoch, by: replica(1, 1), replica: replica(2, 1) };
    assert!(cluster.is_news(&slow));
    accept(&mut cluster, slow.clone());
    assert!(!cluster.is_news(&slow), "it is on the way");
    let gone = release(&cluster, replica(2, 1), None);
    assert!(cluster.is_news(&gone));
    accept(&mut cluster, gone.clone());
    assert!(!cluster.is_news(&gone) && !cluster.is_news(&slow), "the epoch is over");
    accept(&mut cluster, retarget(&[1, 3, 4], 1));
    let complete = complete(&cluster, replica(4, 1));
    assert!(cluster.is_news(&complete));
    accept(&mut cluster, complete.clone());
    assert!(!cluster.is_news(&complete));
}
