//! What all this is for: a small model of replicas with stale views of the ring, cut off and restarted at random, that write, copy,
//! serve, and acknowledge by the rules of the data path. Whatever was acknowledged must be on every replica that the cluster calls
//! complete, and in every answer that a lease permits; in memory until all processes that had it are over.

use alloc::{collections::BTreeSet, vec, vec::Vec};

use proptest::prelude::*;

use super::super::*;
use super::{CLASS, P, accept, registration, settings};
use crate::Configuration;

const NODES: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A node learns the newest ring.
    Learn(usize),
    /// The lease runs out, because the node is cut off.
    Cut(usize),
    /// The lease is granted anew, if the incarnation may have one.
    Renew(usize),
    Evict(usize),
    Restart(usize),
    /// The process finds that it was evicted and goes on as another incarnation.
    Continue(usize),
    Plan,
    Drain(usize),
    GiveUp(usize),
    /// A primary that begins its epoch makes a backup's log equal to its own.
    Sync(usize, usize),
    Write(usize),
    /// A record reaches a replica, and its acknowledgement the primary.
    Deliver(usize, usize),
    /// A primary copies its log to a learner and waits for it from now on.
    Copy(usize, usize),
    Report(usize, usize),
    Release(usize),
    AskRemoval(usize, usize),
}

fn act() -> impl Strategy<Value = Act> {
    let node = 0..NODES;
    let pair = (0..NODES, 0..NODES);
    prop_oneof![
        12 => node.clone().prop_map(Act::Learn),
        2 => node.clone().prop_map(Act::Cut),
        6 => node.clone().prop_map(Act::Renew),
        3 => node.clone().prop_map(Act::Evict),
        1 => node.clone().prop_map(Act::Restart),
        2 => node.clone().prop_map(Act::Continue),
        2 => Just(Act::Plan),
        1 => node.clone().prop_map(Act::Drain),
        1 => node.clone().prop_map(Act::GiveUp),
        16 => pair.clone().prop_map(|(a, b)| Act::Sync(a, b)),
        12 => node.clone().prop_map(Act::Write),
        24 => (0..8_usize, node.clone()).prop_map(|(record, node)| Act::Deliver(record, node)),
        8 => pair.clone().prop_map(|(a, b)| Act::Copy(a, b)),
        8 => pair.clone().prop_map(|(a, b)| Act::Report(a, b)),
        8 => node.prop_map(Act::Release),
        1 => pair.prop_map(|(a, b)| Act::AskRemoval(a, b)),
    ]
}

#[derive(Clone, Debug, Default)]
struct Node {
    incarnation: u64,
    memory_since: u64,
    has_lease: bool,
    view: Option<(Configuration, Option<Proposal>)>,
    log: BTreeSet<u64>,
    /// The highest epoch from whose primary it has taken anything; older ones are refused.
    epoch: Epoch,
    /// The epoch in which it gave up its role.
    released: Option<Epoch>,
    /// As the primary of its view: who has its log, and which learners it waits for.
    synced: BTreeSet<Replica>,
    waits_for: BTreeSet<Replica>,
}

/// A record that a primary has sent out.
#[derive(Clone, Debug)]
struct Sent {
    record: u64,
    by: usize,
    epoch: Epoch,
    missing: BTreeSet<Replica>,
}

struct World {
    cluster: Cluster,
    nodes: Vec<Node>,
    sent: Vec<Sent>,
    records: u64,
    acknowledged: BTreeSet<u64>,
}

impl World {
    fn new(durability: Durability) -> Self {
        let cluster = super::cluster(3, settings(3, durability));
        let node = Node { incarnation: 1, memory_since: 1, ..Node::default() };
        let mut nodes = vec![node; NODES];
        nodes[3].incarnation = 0;
        World { cluster, nodes, sent: vec![], records: 0, acknowledged: BTreeSet::new() }
    }

    fn replica(&self, node: usize) -> Replica {
        super::replica(u32::try_from(node + 1).unwrap(), self.nodes[node].incarnation)
    }

    fn place(replica: Replica) -> usize {
        usize::try_from(replica.node.0 - 1).unwrap()
    }

    /// The view of a node that leads by it and has not given that up.
    fn leads(&self, node: usize) -> Option<&Configuration> {
        let (view, _) = self.nodes[node].view.as_ref()?;
        let leads =
            view.primary() == Some(self.replica(node)) && self.nodes[node].released != Some(view.epoch);
        leads.then_some(view)
    }

    /// Whether the replica takes something from the primary of an epoch.
    fn takes(&mut self, replica: Replica, epoch: Epoch) -> bool {
        let is_same = self.replica(Self::place(replica)) == replica;
        let node = &mut self.nodes[Self::place(replica)];
        let takes = is_same && node.epoch <= epoch && node.released != Some(epoch);
        if takes {
            node.epoch = epoch;
        }
        takes
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Learn(node) => self.learn(node),
            Act::Cut(node) => self.nodes[node].has_lease = false,
            Act::Renew(node) => self.nodes[node].has_lease = self.cluster.is_present(self.replica(node)),
            Act::Evict(node) if !self.nodes[node].has_lease => self.tell(Command::Evict(self.replica(node))),
            Act::Restart(node) => self.restart(node, false),
            Act::Continue(node) => self.restart(node, true),
            Act::Plan => self.cluster.plan(CLASS, &[]).unwrap().into_iter().for_each(|plan| self.tell(plan)),
            // Two stay, so that there is always somewhere to go.
            Act::Drain(node) if node >= 2 => self.tell(Command::Drain(self.replica(node).node)),
            Act::GiveUp(node) => self.tell(Command::GiveUp(self.replica(node).node)),
            Act::Sync(from, to) => self.sync(from, to),
            Act::Write(node) => self.write(node),
            Act::Deliver(record, node) => self.deliver(record, node),
            Act::Copy(from, to) => self.copy(from, to),
            Act::Report(from, to) => self.report(from, to),
            Act::Release(node) => self.release(node),
            Act::AskRemoval(by, node) => {
                if let Some(epoch) = self.leads(by).map(|view| view.epoch) {
                    let (by, replica) = (self.replica(by), self.replica(node));
                    self.tell(Command::RemoveReplica { partition: P, epoch, by, replica });
                }
            }
            _ => {}
        }
        self.check();
    }

    fn tell(&mut self, command: Command) {
        let _refused = self.cluster.apply(command);
    }

    fn learn(&mut self, node: usize) {
        let partition = self.cluster.partition(P).unwrap();
        let view = (partition.configuration.clone(), partition.proposal.clone());
        let node = &mut self.nodes[node];
        if node.view.as_ref().is_none_or(|known| known.0.epoch < view.0.epoch) {
            node.synced.clear();
            node.waits_for.clear();
        }
        node.view = Some(view);
    }

    fn restart(&mut self, place: usize, continues: bool) {
        let node = &mut self.nodes[place];
        let before = node.clone();
        *node = Node { incarnation: before.incarnation + 1, epoch: before.epoch, ..Node::default() };
        node.memory_since = if continues { before.memory_since } else { node.incarnation };
        node.log = before.log;
        let (incarnation, since) = (node.incarnation, node.memory_since);
        let is_in_memory = self.cluster.class(CLASS).unwrap().durability == Durability::Memory;
        if is_in_memory && !continues {
            node.log.clear();
            let had = self.cluster.partition(P).unwrap().last_complete();
            let is_over = |had: &Replica| self.nodes[Self::place(*had)].memory_since > had.incarnation.0;
            if had.iter().all(is_over) {
                self.acknowledged.clear();
                // What an evicted primary says later of what they had stored was lost with them.
                self.sent.clear();
            }
        }
        let number = u32::try_from(place + 1).unwrap();
        accept(&mut self.cluster, registration(number, incarnation, since));
    }

    fn sync(&mut self, from: usize, to: usize) {
        let Some((epoch, to)) = self.backup(from, to, |view| &view.replicas) else { return };
        // It refuses older epochs itself before it truncates anybody's log.
        if self.takes(self.replica(from), epoch) && self.takes(to, epoch) {
            self.nodes[Self::place(to)].log = self.nodes[from].log.clone();
            self.nodes[from].synced.insert(to);
        }
    }

    fn write(&mut self, place: usize) {
        let Some(view) = self.leads(place).cloned() else { return };
        let node = &self.nodes[place];
        if !view.replicas.iter().all(|replica| node.synced.contains(replica)) {
            return;
        }
        self.records += 1;
        let record = self.records;
        let missing = view.replicas.iter().chain(&node.waits_for).copied().collect();
        self.nodes[place].log.insert(record);
        self.sent.push(Sent { record, by: place, epoch: view.epoch, missing });
        self.sent.drain(..self.sent.len().saturating_sub(8));
    }

    /// A record is acknowledged when nobody misses it, by a primary that has not given up its role and runs.
    fn deliver(&mut self, which: usize, to: usize) {
        let Some(sent) = self.sent.get(which).cloned() else { return };
        let to = self.replica(to);
        if !sent.missing.contains(&to) || !self.takes(to, sent.epoch) {
            return;
        }
        self.nodes[Self::place(to)].log.insert(sent.record);
        self.sent[which].missing.remove(&to);
        let sender = &self.nodes[sent.by];
        let decides = sender.released != Some(sent.epoch) && sender.log.contains(&sent.record);
        if self.sent[which].missing.is_empty() && decides {
            self.acknowledged.insert(sent.record);
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        let Some((epoch, to)) = self.backup(from, to, |view| &view.learners) else { return };
        let view = self.leads(from).unwrap();
        let has_begun = view.replicas.iter().all(|replica| self.nodes[from].synced.contains(replica));
        if has_begun && self.takes(to, epoch) {
            self.nodes[Self::place(to)].log = self.nodes[from].log.clone();
            self.nodes[from].waits_for.insert(to);
        }
    }

    fn report(&mut self, from: usize, to: usize) {
        let (by, learner) = (self.replica(from), self.replica(to));
        let Some(epoch) = self.leads(from).map(|view| view.epoch) else { return };
        if self.nodes[from].waits_for.contains(&learner) {
            self.tell(Command::LearnerComplete { partition: P, epoch, by, learner });
        }
    }

    fn release(&mut self, place: usize) {
        let replica = self.replica(place);
        let Some((view, Some(proposal))) = self.nodes[place].view.clone() else { return };
        let leads = view.primary() == Some(replica);
        let stays = proposal.replicas.contains(&replica) && (!leads || proposal.replicas[0] == replica);
        if stays || !view.replicas.contains(&replica) {
            return;
        }
        let next = proposal.replicas[0];
        let is_ready = leads && next != replica && self.nodes[place].synced.contains(&next);
        let handed = is_ready && self.takes(next, view.epoch);
        if handed {
            self.nodes[Self::place(next)].log = self.nodes[place].log.clone();
        }
        self.nodes[place].released = Some(view.epoch);
        let handed_to = handed.then_some(next);
        self.tell(Command::Release { partition: P, epoch: view.epoch, replica, handed_to });
    }

    /// The epoch of the one's view, and the other, if the one leads and its view has the other among these.
    fn backup(
        &self,
        from: usize,
        to: usize,
        among: impl Fn(&Configuration) -> &Vec<Replica>,
    ) -> Option<(Epoch, Replica)> {
        let to = self.replica(to);
        self.leads(from).filter(|view| among(view).contains(&to)).map(|view| (view.epoch, to))
    }

    fn check(&self) {
        self.cluster.check();
        let partition = self.cluster.partition(P).unwrap();
        for replica in &partition.configuration.replicas {
            let node = &self.nodes[Self::place(*replica)];
            assert!(self.acknowledged.is_subset(&node.log), "{replica:?} lacks what was acknowledged");
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if self.may_serve(place) {
                assert!(self.acknowledged.is_subset(&node.log), "node {} serves stale reads", place + 1);
            }
        }
    }

    /// A complete replica serves under a lease, from when the primary of its epoch has brought it in line.
    fn may_serve(&self, place: usize) -> bool {
        let node = &self.nodes[place];
        let Some((view, _)) = &node.view else { return false };
        let is_held = view.replicas.contains(&self.replica(place));
        let is_current = node.epoch == view.epoch && node.released != Some(view.epoch);
        node.has_lease && is_held && is_current
    }
}

fn run(durability: Durability, acts: Vec<Act>) -> usize {
    let mut world = World::new(durability);
    for node in 0..3 {
        world.act(Act::Learn(node));
        world.act(Act::Renew(node));
    }
    (0..3).for_each(|node| world.act(Act::Sync(0, node)));
    acts.into_iter().for_each(|act| world.act(act));
    world.acknowledged.len()
}

proptest! {
    #[test]
    fn what_was_acknowledged_is_on_every_complete_replica(acts in prop::collection::vec(act(), 1..400)) {
        run(Durability::Disk, acts);
    }

    #[test]
    fn what_was_acknowledged_in_memory_is_on_every_complete_replica(
        acts in prop::collection::vec(act(), 1..400)
    ) {
        run(Durability::Memory, acts);
    }
}
