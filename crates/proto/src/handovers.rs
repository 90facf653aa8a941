//! Which roles may be given up now: the leader of the cluster manager takes a release only if everybody who stays has asked for a lease
//! in the knowledge of the change. One that has not may be dead, and what both held would be lost with it.
//!
//! What is permitted rests on a proposal; if that changes before
//! the release is applied, the release must not be applied (compare [`Awaited`]). A node says again that it has released until the epoch
//! ends, so what is not permitted now is only put off.

use crate::{Leases, PartitionId, RingVersion, cluster::Cluster};

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

/// What a release of a role in this partition would rest on, if it may be taken now; none if it is too early. A release for which nothing
/// waits concerns nobody else, so nobody has to be heard of.
pub fn permit_release(cluster: &Cluster, leases: &Leases, id: PartitionId) -> Option<Awaited> {
    let proposal = cluster.partition(id).and_then(|partition| partition.proposal.as_ref());
    let is_heard = proposal.is_none_or(|proposal| {
        proposal.replicas.iter().all(|heir| leases.has_reached(*heir, proposal.since))
    });
    is_heard.then(|| Awaited::of(cluster, id))
}

#[cfg(test)]
mod tests;
