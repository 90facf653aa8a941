//! Whether transactions wait for one another in a circle: heads are visited in one order, so they never do.
//!
//! Nobody would see it from outside: a client that gives up has its transaction refused, and so ends the circle.

use std::collections::{BTreeMap, BTreeSet};

use tyr_proto::{NodeId, Partition, TransactionId};

use super::World;

/// Who waits for whom.
type Waits = BTreeMap<TransactionId, BTreeSet<TransactionId>>;

impl World {
    /// No transaction that waits at a node waits for itself. Called at every tick of every node.
    pub(super) fn check_circles(&mut self, node: NodeId) {
        let mut here = Waits::new();
        self.primaries(node).for_each(|partition| note(&mut here, partition));
        if here.is_empty() {
            return;
        }
        let mut all = Waits::new();
        for node in self.servers.keys() {
            self.primaries(*node).for_each(|partition| note(&mut all, partition));
        }
        if let Some(id) = here.keys().find(|id| waits_for_itself(&all, **id)) {
            self.broken.get_or_insert(format!("circle of waits: {id} waits for itself; {all:?}"));
        }
    }

    /// The partitions that a node leads, whatever it knows itself.
    fn primaries(&self, node: NodeId) -> impl Iterator<Item = &Partition> {
        let cluster = self.manager.cluster();
        let partitions = self.servers[&node].node().into_iter().flat_map(|node| node.partitions());
        partitions.filter(move |partition| {
            let current = cluster.partition(partition.id()).map(|known| known.configuration.epoch);
            partition.is_established() && current == Some(partition.configuration().epoch)
        })
    }
}

/// Notes who waits at a partition.
fn note(waits: &mut Waits, partition: &Partition) {
    for (waiter, holder) in partition.waits() {
        waits.entry(waiter).or_default().insert(holder);
    }
}

fn waits_for_itself(waits: &Waits, id: TransactionId) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![id];
    while let Some(waiter) = next.pop() {
        for holder in waits.get(&waiter).into_iter().flatten() {
            if *holder == id {
                return true;
            }
            if seen.insert(*holder) {
                next.push(*holder);
            }
        }
    }
    false
}
