//! Three blind writes over {a, b}, {a, c}, and {b, c}, each head in a partition of its own, in every interleaving of the messages of
//! their chains: pairwise ordering at the first common partition would cycle here, ordering by lock points cannot.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use tyr_proto::{
    BlobName, ClassId, Configuration, Epoch, HeadPlan, Incarnation, Keyspace, KeyspaceSeed, Keyspaces,
    Layout, NodeId, Operation, Outcome, Output, PartitionCount, PartitionId, Placement, Plan, RESEND_AFTER,
    Replica, RingVersion, Router, SessionId, Snapshots, Time, TransactionId,
    canary::{Canary, plant},
    entry::Entry,
    message::{Answer, Envelope, Message},
};
use tyr_types::{Key, KeyspaceId, KeyspaceSettings, Number};

const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// Three nodes, each the only replica of a partition, and what is on its way between them.
struct Cluster {
    routers: BTreeMap<NodeId, Router>,
    /// Messages of chains, which a schedule chooses from.
    chains: Vec<(NodeId, Envelope)>,
    others: VecDeque<(NodeId, Envelope)>,
    /// What is said now is said again, because time has passed: no schedule chooses from that.
    now: Time,
    /// By head: the transactions in the order of their numbers.
    orders: BTreeMap<BlobName, BTreeMap<Number, TransactionId>>,
    committed: BTreeSet<TransactionId>,
}

impl Cluster {
    fn new(keyspaces: &Arc<Keyspaces>, heads: &[(PartitionId, BlobName)]) -> Self {
        let replica = |node| Replica { node, incarnation: Incarnation(1) };
        let node_of = |place: usize| NodeId(u32::try_from(place).unwrap() + 1);
        let mut cluster = Cluster {
            routers: (0..heads.len())
                .map(|place| (node_of(place), Router::new(replica(node_of(place)), keyspaces.clone())))
                .collect(),
            chains: Vec::new(),
            others: VecDeque::new(),
            now: Time(0),
            orders: BTreeMap::new(),
            committed: BTreeSet::new(),
        };
        let nodes: Vec<NodeId> = cluster.routers.keys().copied().collect();
        for (place, (partition, _)) in heads.iter().enumerate() {
            let configuration = Configuration {
                epoch: Epoch(1),
                since: RingVersion(1),
                floor: RingVersion(1),
                replicas: vec![replica(node_of(place))],
                learners: Vec::new(),
            };
            for node in &nodes {
                let router = cluster.routers.get_mut(node).unwrap();
                router.handle_configuration(Time(0), true, *partition, configuration.clone());
                cluster.take(*node);
            }
        }
        cluster
    }

    /// Takes what a node wants done; its disk is at once done.
    fn take(&mut self, node: NodeId) {
        while let Some(output) = self.routers.get_mut(&node).unwrap().poll_output() {
            match output {
                Output::Send(to, envelope) => match envelope.message {
                    Message::Pass { .. } | Message::Release { .. } if self.now == Time(0) => {
                        self.chains.push((to, envelope))
                    }
                    _ => self.others.push_back((to, envelope)),
                },
                Output::Answer(_, Answer::Outcome { id, outcome: Some((Outcome::Committed, _)) }) => {
                    self.committed.insert(id);
                }
                Output::Store { partition, index, epoch, entry } => {
                    if let Entry::Prepare(prepare) = &*entry {
                        for position in prepare.stop().heads.clone() {
                            let blob = prepare.plan.heads[position].blob.clone();
                            self.orders.entry(blob).or_default().insert(prepare.stop().number, prepare.id());
                        }
                    }
                    let router = self.routers.get_mut(&node).unwrap();
                    router.handle_stored(self.now, true, partition, index, epoch);
                }
                _ => {}
            }
        }
    }

    fn deliver(&mut self, (node, envelope): (NodeId, Envelope)) {
        self.routers.get_mut(&node).unwrap().handle_message(self.now, true, envelope);
        self.take(node);
    }

    fn deliver_others(&mut self) {
        while let Some(next) = self.others.pop_front() {
            self.deliver(next);
        }
    }

    /// Lets time pass until everybody is answered, or would have been.
    fn come_to_rest(&mut self) {
        for _ in 0..20 {
            self.now = self.now.after(2 * RESEND_AFTER);
            for node in self.routers.keys().copied().collect::<Vec<_>>() {
                self.routers.get_mut(&node).unwrap().handle_tick(self.now, true);
                self.take(node);
            }
            self.deliver_others();
        }
    }

    /// Whether the orders of all heads together have a cycle.
    fn has_cycle(&self) -> bool {
        let mut after: BTreeMap<TransactionId, BTreeSet<TransactionId>> = BTreeMap::new();
        for order in self.orders.values() {
            let ids: Vec<TransactionId> = order.values().copied().collect();
            for (place, id) in ids.iter().enumerate() {
                after.entry(*id).or_default().extend(&ids[place + 1..]);
            }
        }
        // Takes away whatever nobody left precedes, until nothing is left but cycles.
        loop {
            let preceded: BTreeSet<TransactionId> = after.values().flatten().copied().collect();
            let Some(first) = after.keys().find(|id| !preceded.contains(id)).copied() else { break };
            after.remove(&first);
        }
        !after.is_empty()
    }
}

/// Three blobs whose heads are in three partitions, in the order of chains.
fn heads(keyspaces: &Keyspaces) -> Vec<(PartitionId, BlobName)> {
    let mut by_partition = BTreeMap::new();
    for number in 0..100 {
        let blob = BlobName { keyspace: KEYSPACE, key: Key::new(format!("b{number}")).unwrap() };
        by_partition.entry(keyspaces[&KEYSPACE].partition_of(&blob, 0)).or_insert(blob);
    }
    by_partition.into_iter().take(3).collect()
}

fn keyspaces() -> Arc<Keyspaces> {
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(4).unwrap(),
        seed: KeyspaceSeed([1; 16]),
        layout: Layout::of(&KeyspaceSettings::default()).unwrap(),
    };
    Arc::new(
        [(
            KEYSPACE,
            Keyspace { placement, multi_version: true, snapshots: Snapshots::default(), is_dropped: false },
        )]
        .into(),
    )
}

fn blind_write(sequence: u64, heads: &[(PartitionId, BlobName)], which: &[usize]) -> Arc<Plan> {
    let id = TransactionId { session: SessionId(sequence), sequence: 1, birth: RingVersion(1) };
    let operations = vec![Operation::Write { offset: 0, bytes: [1, 2, 3][..].into() }];
    let head = |place: usize| {
        let (partition, blob) = heads[place].clone();
        HeadPlan::blind(partition, blob, operations.clone())
    };
    Arc::new(Plan { id, answered: 1, reserve: None, heads: which.iter().copied().map(head).collect() })
}

/// Runs one schedule: at each step, which of the messages on their way is next. Messages that belong to no chain come at once, or
/// after everything else. Returns the cluster, and how many messages there were to choose from at each step.
fn run(schedule: &[usize], at_once: bool) -> (Cluster, Vec<usize>) {
    let keyspaces = keyspaces();
    let heads = heads(&keyspaces);
    let mut cluster = Cluster::new(&keyspaces, &heads);
    // Blobs that exist: else a write waits for the one that may make its blob.
    for place in 0..heads.len() {
        let plan = blind_write(9 + place as u64, &heads, &[place]);
        let partition = plan.heads[0].partition;
        let node = NodeId(u32::try_from(place).unwrap() + 1);
        cluster.deliver((node, Envelope { partition, message: Message::Start(plan) }));
    }
    cluster.orders.clear();
    cluster.committed.clear();
    for (sequence, which) in [[0, 1], [0, 2], [1, 2]].into_iter().enumerate() {
        let plan = blind_write(sequence as u64 + 1, &heads, &which);
        let partition = plan.heads[0].partition;
        let node = NodeId(u32::try_from(which[0]).unwrap() + 1);
        cluster.chains.push((node, Envelope { partition, message: Message::Start(plan) }));
    }
    let mut choices = Vec::new();
    loop {
        if at_once || cluster.chains.is_empty() {
            cluster.deliver_others();
        }
        if cluster.chains.is_empty() {
            cluster.come_to_rest();
            return (cluster, choices);
        }
        let choice = schedule.get(choices.len()).copied().unwrap_or(0);
        choices.push(cluster.chains.len());
        let next = cluster.chains.remove(choice);
        cluster.deliver(next);
    }
}

/// Runs every schedule, and returns how many there are and how many of them end in a cycle or without every answer.
fn run_all(at_once: bool) -> (u64, u64) {
    let (mut count, mut wrong) = (0, 0);
    let mut schedule: Vec<usize> = Vec::new();
    loop {
        let (cluster, choices) = run(&schedule, at_once);
        count += 1;
        wrong += u64::from(cluster.has_cycle() || cluster.committed.len() != 3);
        // The next schedule: the last step that has another choice takes it.
        schedule.resize(choices.len(), 0);
        while schedule.last().is_some_and(|last| last + 1 == choices[schedule.len() - 1]) {
            schedule.pop();
        }
        let Some(last) = schedule.last_mut() else { return (count, wrong) };
        *last += 1;
    }
}

#[test]
fn three_blind_writes_have_one_order_however_their_messages_meet() {
    for at_once in [true, false] {
        let (count, wrong) = run_all(at_once);
        assert_eq!(wrong, 0, "of {count} schedules");
        assert!(count > 50, "there are only {count} schedules");
    }
}

#[test]
fn without_slots_some_schedule_orders_them_in_a_cycle() {
    let _planted = plant(Some(Canary::SlotNotHeld));
    assert!(run_all(false).1 > 0);
}
