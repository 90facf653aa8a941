//! What must hold of every cluster that a log can build. A violation is a bug, so it panics.

use alloc::{collections::BTreeSet, vec::Vec};

use super::{Cluster, KeyspaceState, Partition};
use crate::{NodeId, PartitionId, Replica, RingVersion};

impl Cluster {
    /// Asserts the invariants that one state can show.
    pub fn check(&self) {
        for (id, partition) in self.partitions() {
            self.check_partition(id, partition);
        }
        let mut names = BTreeSet::new();
        for (id, keyspace) in self.keyspaces() {
            assert!(self.class(keyspace.class).is_some(), "keyspace {id:?} has no class");
            let is_unique = keyspace.state == KeyspaceState::Dropped || names.insert(&keyspace.name);
            assert!(is_unique, "two keyspaces are named {}", keyspace.name);
        }
        let identities: BTreeSet<_> = self.members().map(|(_, member)| member.identity).collect();
        assert_eq!(identities.len(), self.members.len(), "two members have the same identity");
        assert!(self.stamps.newest() <= Some(self.version) || self.stamps.newest().is_none());
    }

    fn check_partition(&self, id: PartitionId, partition: &Partition) {
        let now = &partition.configuration;
        let held: Vec<Replica> = now.replicas.iter().chain(&now.learners).copied().collect();
        assert!(are_distinct(held.iter().map(|replica| replica.node)), "{id} has a node twice: {now:?}");
        assert!(are_distinct(partition.target.iter().copied()), "{id} has a node twice in its target");
        assert!(held.iter().all(|replica| self.is_present(*replica)), "{id} is held by the dead: {now:?}");
        let lost = &partition.lost;
        assert!(
            !held.iter().any(|replica| lost.contains(replica)),
            "{id} is held by who has lost it: {now:?}"
        );
        assert!(
            now.floor <= now.since && now.since <= self.version,
            "{id} has versions out of order: {now:?}"
        );
        assert_eq!(now.epoch.0 == 0, now.since == RingVersion(0), "{id} began no first epoch: {now:?}");
        let last = &partition.last_complete;
        let is_remembered = if now.replicas.is_empty() { last.len() <= 1 } else { *last == now.replicas };
        assert!(is_remembered, "{id} forgot its last complete set {last:?}: {now:?}");
        assert!(partition.joined.is_empty(), "{id} has complete learners outside of its epoch");
        assert!(
            partition.released.is_empty() || partition.proposal.is_some(),
            "{id} was released for nothing"
        );
        self.check_proposal(id, partition);
    }

    fn check_proposal(&self, id: PartitionId, partition: &Partition) {
        let Some(proposal) = &partition.proposal else { return };
        let held = &partition.configuration.replicas;
        assert!(!partition.awaited().is_empty(), "{id} waits for nobody");
        assert!(!proposal.replicas.is_empty(), "{id} is to be held by nobody");
        assert!(proposal.replicas.iter().all(|next| held.contains(next)), "{id} is promised to a newcomer");
        let named = proposal.replicas.iter().chain(&proposal.learners);
        assert!(are_distinct(named.map(|replica| replica.node)), "{id} is promised to a node twice");
        assert!(proposal.since <= self.version, "{id} was proposed in the future");
    }
}

fn are_distinct(nodes: impl Iterator<Item = NodeId>) -> bool {
    let mut seen = BTreeSet::new();
    nodes.into_iter().all(|node| seen.insert(node))
}
