//! Which roles may be given up now: the leader of the cluster manager takes a release only if everybody who stays has been heard of
//! since the change was proposed. One that was not may be dead, and what both held would be lost with it.
//!
//! Volatile, as the [`Leases`] are: a new leader begins with nothing seen. What is permitted rests on a proposal; if that changes before
//! the release is applied, the release must not be applied (compare [`Awaited`]). A node says again that it has released until the epoch
//! ends, so what is not permitted now is only put off.

use alloc::collections::BTreeMap;

use crate::{Leases, PartitionId, RingVersion, Time, cluster::Cluster};

/// The change that a partition waits with: what a permission to release rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    /// The partition.
    pub partition: PartitionId,
    /// The ring version that proposed the change; none if nothing waits.
    pub since: Option<RingVersion>,
}

impl Awaited {
    /// What a partition waits with now.
    pub fn of(cluster: &Cluster, partition: PartitionId) -> Self {
        let proposal = cluster.partition(partition).and_then(|known| known.proposal.as_ref());
        Awaited { partition, since: proposal.map(|proposal| proposal.since) }
    }
}

/// When a leader first saw each change that waits for those who lose a role.
#[derive(Clone, Debug, Default)]
pub struct Handovers {
    seen: BTreeMap<PartitionId, (RingVersion, Time)>,
}

impl Handovers {
    /// Nothing seen: what a new leader begins with.
    pub fn new() -> Self {
        Handovers::default()
    }

    /// This node leads no more, or is not sure.
    pub fn step_down(&mut self) {
        self.seen.clear();
    }

    /// Notes what waits now. To be called as often as the leader looks after its leases.
    pub fn observe(&mut self, cluster: &Cluster, now: Time) {
        for (id, partition) in cluster.partitions() {
            match &partition.proposal {
                Some(proposal) => self.note(id, proposal.since, now),
                None => drop(self.seen.remove(&id)),
            }
        }
    }

    fn note(&mut self, id: PartitionId, since: RingVersion, now: Time) {
        let seen = self.seen.entry(id).or_insert((since, now));
        if seen.0 != since {
            *seen = (since, now);
        }
    }

    /// What a release of a role in this partition would rest on, if it may be taken now; none if it is too early. A release for which
    /// nothing waits concerns nobody else, so nobody has to be heard of.
    pub fn permit(
        &mut self,
        cluster: &Cluster,
        leases: &Leases,
        id: PartitionId,
        now: Time,
    ) -> Option<Awaited> {
        let awaited = Awaited::of(cluster, id);
        let proposal = cluster.partition(id).and_then(|partition| partition.proposal.as_ref());
        let Some(proposal) = proposal else { return Some(awaited) };
        self.note(id, proposal.since, now);
        let since = self.seen.get(&id).map_or(now, |(_, at)| *at);
        let is_heard = proposal.replicas.iter().all(|heir| leases.is_heard_since(*heir, since));
        is_heard.then_some(awaited)
    }
}

#[cfg(test)]
mod tests;
