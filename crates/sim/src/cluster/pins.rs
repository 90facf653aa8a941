//! Whether collection keeps what readers hold: a reader whose pin stands, at a replica that was in the set all the while, is never
//! told that its version has been collected.

use std::collections::BTreeMap;

use tyr_proto::{Epoch, NodeId, PartitionId, message::RequestId};

/// The pins that clients were told of: of a look one, of a freeze one for each partition that it passes.
#[derive(Debug, Default)]
pub struct Pins {
    grants: BTreeMap<(RequestId, PartitionId, NodeId), Grant>,
    accepted: BTreeMap<(RequestId, PartitionId), NodeId>,
}

/// A number that a replica holds for a reader.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// The node.
    pub node: NodeId,
    /// Which start of it.
    pub start: u64,
    /// The head's partition.
    pub partition: PartitionId,
    /// Its epoch at the replica when the number was taken.
    pub epoch: Epoch,
}

impl Pins {
    /// A replica has answered.
    pub fn grant(&mut self, request: RequestId, grant: Grant) {
        self.grants.entry((request, grant.partition, grant.node)).or_insert(grant);
    }

    /// The client has the answer: of several, the first one counts.
    pub fn accept(&mut self, request: RequestId, partition: PartitionId, node: NodeId) {
        self.accepted.entry((request, partition)).or_insert(node);
    }

    /// Who holds the number for a client that reads at it.
    pub fn grant_of(&self, request: RequestId, partition: PartitionId) -> Option<Grant> {
        let node = self.accepted.get(&(request, partition))?;
        self.grants.get(&(request, partition, *node)).copied()
    }
}
