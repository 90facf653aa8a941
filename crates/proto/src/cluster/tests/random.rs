//! Random commands, sensible and not, with an audit of what each changed.

use alloc::{collections::BTreeMap, collections::BTreeSet, format, vec, vec::Vec};

use proptest::prelude::*;

use super::super::*;
use super::{accept, keyspace, registration};
use crate::{Configuration, Incarnation};

const NODES: u32 = 5;

/// A command to be made of the state that it meets.
#[derive(Clone, Debug)]
enum Act {
    Start(u32),
    Continue(u32),
    Evict(u32),
    GiveUp(u32),
    Plan(u8),
    Drain(u32),
    Restore(u32),
    Replace(u32, u32),
    Abandon(u32),
    Lose(u32, u32),
    Leave(u32),
    Remove(u32, usize),
    Complete(u32),
    /// Whoever is awaited releases; a primary hands over to the next primary or not.
    Release(u32, bool),
    /// Anybody claims anything.
    Claim(u32, u32, u32, u32),
    Keyspace(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let node = 1..=NODES;
    let partition = 0..4_u32;
    prop_oneof![
        4 => node.clone().prop_map(Act::Start),
        2 => node.clone().prop_map(Act::Continue),
        4 => node.clone().prop_map(Act::Evict),
        2 => node.clone().prop_map(Act::GiveUp),
        4 => (0..2_u8).prop_map(Act::Plan),
        1 => node.clone().prop_map(Act::Drain),
        1 => node.clone().prop_map(Act::Restore),
        1 => (node.clone(), node.clone()).prop_map(|(old, new)| Act::Replace(old, new)),
        1 => node.clone().prop_map(Act::Abandon),
        1 => (node.clone(), 0..3_u32).prop_map(|(node, shard)| Act::Lose(node, shard)),
        1 => node.clone().prop_map(Act::Leave),
        3 => (partition.clone(), 0..3_usize).prop_map(|(p, which)| Act::Remove(p, which)),
        8 => partition.clone().prop_map(Act::Complete),
        8 => (partition.clone(), any::<bool>()).prop_map(|(p, hands)| Act::Release(p, hands)),
        2 => (partition, 0..8_u32, node.clone(), node).prop_map(|(p, e, a, b)| Act::Claim(p, e, a, b)),
        1 => (0..3_u64).prop_map(Act::Keyspace),
    ]
}

fn class(replicas: u8, partitions: u32, durability: Durability) -> ClassSettings {
    ClassSettings { partitions, durability, ..ClassSettings::new(replicas) }
}

fn id(partition: u32) -> PartitionId {
    // Two partitions of a class of three replicas on disk, two of one of two in memory.
    PartitionId { class: ClassId(u8::from(partition >= 2)), index: partition % 2 }
}

fn founded() -> Cluster {
    let mut cluster = Cluster::new(ClusterId(1));
    accept(&mut cluster, Command::Found(vec![]));
    (1..=4).for_each(|node| accept(&mut cluster, registration(node, 1, 1)));
    accept(&mut cluster, Command::CreateClass(ClassId(0), class(3, 2, Durability::Disk)));
    accept(&mut cluster, Command::CreateClass(ClassId(1), class(2, 2, Durability::Memory)));
    plan(&mut cluster);
    cluster
}

fn plan(cluster: &mut Cluster) {
    for class in 0..2 {
        let command = cluster.plan(ClassId(class), &[]).unwrap().unwrap();
        accept(cluster, command);
    }
}

fn newest(cluster: &Cluster, node: u32) -> u64 {
    let identity = Identity(u128::from(node));
    let known = cluster.members().find(|(_, member)| member.identity == identity);
    known.map_or(0, |(_, member)| member.incarnation.0)
}

fn command(cluster: &Cluster, act: &Act) -> Option<Command> {
    let incarnation = |node: u32| Replica {
        node: NodeId(node),
        incarnation: cluster.member(NodeId(node)).map_or(Incarnation(0), |member| member.incarnation),
    };
    let configuration = |p: u32| &cluster.partition(id(p)).unwrap().configuration;
    Some(match *act {
        Act::Start(node) => registration(node, newest(cluster, node) + 1, newest(cluster, node) + 1),
        Act::Continue(node) => {
            let member = cluster.member(NodeId(node))?;
            registration(node, newest(cluster, node) + 1, member.memory_since.0)
        }
        Act::Evict(node) => Command::Evict(incarnation(node)),
        Act::GiveUp(node) => Command::GiveUp(NodeId(node)),
        Act::Plan(class) => cluster.plan(ClassId(class), &[]).unwrap()?,
        Act::Drain(node) => Command::Drain(NodeId(node)),
        Act::Restore(node) => Command::Restore(NodeId(node)),
        Act::Replace(old, new) => Command::Replace { old: NodeId(old), new: NodeId(new) },
        Act::Abandon(node) => Command::Abandon(NodeId(node)),
        Act::Lose(node, shard) => Command::Lose { replica: incarnation(node), shard, shards: 2 },
        Act::Leave(node) => Command::Leave(NodeId(node)),
        Act::Remove(p, which) => {
            let now = configuration(p);
            let others: Vec<Replica> = now.replicas.iter().skip(1).chain(&now.learners).copied().collect();
            let replica = *others.get(which)?;
            Command::RemoveReplica { partition: id(p), epoch: now.epoch, by: now.primary()?, replica }
        }
        Act::Complete(p) => {
            let now = configuration(p);
            let learner = *now.learners.first()?;
            Command::LearnerComplete { partition: id(p), epoch: now.epoch, by: now.primary()?, learner }
        }
        Act::Release(p, hands) => {
            let partition = cluster.partition(id(p)).unwrap();
            let replica = *partition.awaited().first()?;
            let now = &partition.configuration;
            let next = partition.proposal.as_ref()?.replicas.first().copied();
            let handed_to = next.filter(|_| hands && now.primary() == Some(replica));
            Command::Release { partition: id(p), epoch: now.epoch, replica, handed_to }
        }
        Act::Claim(p, epoch, a, b) => {
            let (partition, epoch) = (id(p), Epoch(epoch));
            let (by, other) = (incarnation(a), incarnation(b));
            match (a + b) % 3 {
                0 => Command::RemoveReplica { partition, epoch, by, replica: other },
                1 => Command::LearnerComplete { partition, epoch, by, learner: other },
                _ => {
                    let handed_to = (a != b).then_some(other);
                    Command::Release { partition, epoch, replica: by, handed_to }
                }
            }
        }
        Act::Keyspace(0) => Command::DropKeyspace(KeyspaceId(1)),
        Act::Keyspace(seed) => keyspace(&format!("k{seed}"), seed),
    })
}

/// What the audit itself remembers: who released in which epoch, and what was reported.
#[derive(Default)]
struct Audit {
    released: BTreeMap<(PartitionId, Epoch, Replica), Option<Replica>>,
    reported: BTreeSet<(PartitionId, Epoch, Replica)>,
    /// By the remainder of the partitions.
    lost: BTreeSet<(u32, Replica)>,
}

impl Audit {
    fn note(&mut self, command: &Command) {
        match *command {
            Command::Release { partition, epoch, replica, handed_to } => {
                self.released.entry((partition, epoch, replica)).or_insert(handed_to);
            }
            Command::LearnerComplete { partition, epoch, learner, .. } => {
                self.reported.insert((partition, epoch, learner));
            }
            Command::Lose { replica, shard, .. } => {
                self.lost.insert((shard, replica));
            }
            _ => {}
        }
    }

    fn compare(&self, before: &Cluster, after: &Cluster, abandoned: Option<NodeId>) {
        assert!(before.version() <= after.version() && after.version().0 <= before.version().0 + 1);
        for (id, was) in before.partitions() {
            let is = after.partition(id).expect("partitions do not vanish");
            if is.configuration.epoch == was.configuration.epoch {
                assert_eq!(is.configuration, was.configuration, "{id} changed within its epoch");
            } else {
                self.new_epoch(id, was, is, after, abandoned);
            }
        }
    }

    fn new_epoch(
        &self,
        id: PartitionId,
        was: &Partition,
        is: &Partition,
        after: &Cluster,
        abandoned: Option<NodeId>,
    ) {
        let (then, now) = (&was.configuration, &is.configuration);
        assert_eq!(now.epoch.0, then.epoch.0 + 1, "{id} skipped an epoch");
        assert_eq!(now.since, after.version());
        let released = |replica: Replica| self.released.get(&(id, then.epoch, replica)).copied();
        for replica in &then.replicas {
            let demoted = then.primary() == Some(*replica) && now.primary() != Some(*replica);
            let removed = !now.replicas.contains(replica);
            let is_lost = self.lost.contains(&(id.index % 2, *replica));
            let is_over = is_lost || !after.is_present(*replica) || released(*replica).is_some();
            assert!(is_over || !(demoted || removed), "{id}: {replica:?} lost a role that it still has");
        }
        self.compare_numbers(id, then, now, after);
        for replica in &now.replicas {
            let stays = |known: &Replica| known.node == replica.node && Self::remembers(id, *known, after);
            let was_complete = then.replicas.iter().any(stays);
            let has_learnt = self.reported.contains(&(id, then.epoch, *replica));
            let is_heir = Self::is_heir(id, was, *replica, after);
            // Abandoned, before it began anew or by that.
            let is_lost = was.last_complete().iter().all(|last| !Self::remembers(id, *last, after))
                || (then.replicas.is_empty() && abandoned.is_some_and(|node| was.waits_for(node)));
            let is_first = then.epoch == Epoch(0) || is_lost;
            assert!(was_complete || has_learnt || is_heir || is_first, "{id}: {replica:?} is incomplete");
            let leads = now.primary() == Some(*replica);
            assert!(!leads || was_complete || is_heir || is_first, "{id}: {replica:?} has just learnt");
        }
        let handed = then.primary().map(released);
        let continues = match handed {
            Some(Some(Some(receiver))) => now.primary() == Some(receiver),
            Some(Some(None)) => false,
            Some(None) => now.primary() == then.primary(),
            None => now.primary().is_none(),
        };
        assert_eq!(now.floor, if continues { then.floor } else { now.since }, "{id}: floor after {then:?}");
    }

    /// As long as there are enough that run to take writes, they are not made too few.
    fn compare_numbers(&self, id: PartitionId, then: &Configuration, now: &Configuration, after: &Cluster) {
        let is_lost = |replica: &&Replica| self.lost.contains(&(id.index % 2, **replica));
        let running = then.replicas.iter().filter(|replica| after.is_present(**replica) && !is_lost(replica));
        let holders = after.members().filter(|(_, member)| member.is_eligible());
        let min_replicas = usize::from(after.class(id.class).unwrap().min_replicas);
        let least = min_replicas.min(running.count()).min(holders.count());
        assert!(now.replicas.len() >= least, "{id} has too few replicas in {now:?} after {then:?}");
    }

    /// Whether it is the same node as the only one of the last complete set, with everything that set had.
    fn is_heir(id: PartitionId, was: &Partition, replica: Replica, after: &Cluster) -> bool {
        let [last] = was.last_complete() else { return false };
        last.node == replica.node && Self::remembers(id, *last, after)
    }

    /// Whether the node of a replica still has what that held.
    fn remembers(id: PartitionId, replica: Replica, after: &Cluster) -> bool {
        let member = after.member(replica.node).unwrap();
        let on_disk = after.class(id.class).unwrap().durability == Durability::Disk;
        on_disk || member.memory_since <= replica.incarnation
    }
}

/// A reader that takes small pieces while the cluster changes has, once it is told so, exactly what the cluster has.
#[derive(Default)]
struct Reader {
    position: Position,
    facts: BTreeMap<Subject, Fact>,
}

impl Reader {
    fn read(&mut self, cluster: &Cluster, count_max: usize) {
        let piece = cluster.changes_since(self.position, count_max);
        for fact in piece.facts {
            self.facts.insert(subject(&fact), fact);
        }
        self.position = piece.next;
        if piece.reached.is_some() {
            let whole = cluster.changes_since(Position::default(), usize::MAX).facts;
            let whole: BTreeMap<Subject, Fact> =
                whole.into_iter().map(|fact| (subject(&fact), fact)).collect();
            assert_eq!(self.facts, whole);
        }
    }
}

fn subject(fact: &Fact) -> Subject {
    match fact {
        Fact::Class(id, _) => Subject::Class(*id),
        Fact::Member(node, _) => Subject::Member(*node),
        Fact::Keyspace(id, _) => Subject::Keyspace(*id),
        Fact::Partition(id, ..) => Subject::Partition(*id),
        Fact::Account(id, _) => Subject::Account(*id),
        Fact::Seal(id, _) => Subject::Seal(*id),
    }
}

proptest! {
    #[test]
    fn no_role_is_lost_without_release_and_none_is_given_to_the_incomplete(
        acts in prop::collection::vec(act(), 1..80)
    ) {
        let mut cluster = founded();
        let mut audit = Audit::default();
        let mut reader = Reader::default();
        for (round, act) in acts.iter().enumerate() {
            let Some(command) = command(&cluster, act) else { continue };
            let before = cluster.clone();
            if cluster.apply(command.clone()).is_ok() {
                audit.note(&command);
            } else {
                prop_assert_eq!(&cluster, &before, "a refused command changed something");
            }
            cluster.check();
            let abandoned = match command {
                Command::Abandon(node) => Some(node),
                _ => None,
            };
            audit.compare(&before, &cluster, abandoned);
            reader.read(&cluster, 1 + round % 5);
        }
    }

    #[test]
    fn when_everybody_comes_back_and_answers_the_ring_is_as_planned(
        acts in prop::collection::vec(act(), 1..60)
    ) {
        let mut cluster = founded();
        for act in acts.iter().filter(|act| !matches!(act, Act::Drain(_) | Act::Replace(..) | Act::Leave(_))) {
            if let Some(command) = command(&cluster, act) {
                let _refused = cluster.apply(command);
            }
        }
        for node in 1..=NODES {
            let back = registration(node, newest(&cluster, node) + 1, 0);
            accept(&mut cluster, back);
        }
        plan(&mut cluster);
        for _ in 0..20 {
            for p in 0..4 {
                for act in [Act::Complete(p), Act::Release(p, true)] {
                    command(&cluster, &act).into_iter().for_each(|command| accept(&mut cluster, command));
                }
            }
            plan(&mut cluster);
        }
        for (id, partition) in cluster.partitions() {
            let nodes: Vec<NodeId> = partition.configuration.replicas.iter().map(|r| r.node).collect();
            let mut sorted = (nodes.clone(), partition.target().to_vec());
            sorted.0.sort();
            sorted.1.sort();
            prop_assert_eq!(&sorted.0, &sorted.1, "{} is not where it should be", id);
            prop_assert_eq!(nodes.first(), partition.target().first());
            prop_assert!(partition.proposal.is_none() && partition.configuration.learners.is_empty());
        }
    }
}
