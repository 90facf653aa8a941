//! What must hold in a world at every moment, and no client can see.

use tyr_proto::{
    BlobName, Chunk, NodeId, Operation, Partition, PartitionId, SessionId, TransactionId, message::RequestId,
};

use std::collections::BTreeSet;

use super::World;
use crate::{
    Blob, Outcome,
    check::documents::Deed,
    cluster::{
        caller::Edited,
        layout::{KEYSPACE, name},
        pins::Grant,
    },
};

/// Microseconds after which a node has heard of a change of the ring, or serves no more.
const HEARD_AFTER: u64 = 3_000_000;

impl World {
    /// No incarnation whose end the cluster manager has logged holds a lease.
    pub(super) fn check_fenced(&self) -> Result<(), String> {
        for (node, server) in &self.servers {
            let replica = server.replica();
            let cluster = self.manager.cluster();
            let is_known =
                cluster.member(*node).is_some_and(|known| known.incarnation >= replica.incarnation);
            if is_known && !cluster.is_present(replica) && server.has_lease(self.now) {
                return Err(format!("{replica:?} serves though it was evicted"));
            }
        }
        Ok(())
    }

    /// Where only the latest versions are kept, nothing else is, and nobody holds anything.
    pub(super) fn check_versions(&mut self, node: NodeId) {
        if self.profile.multi_version {
            return;
        }
        let partitions = self.servers[&node].node().into_iter().flat_map(|node| node.partitions());
        let keeps = |(_, chunk): (_, &Chunk)| chunk.version_count() > 1;
        let keeping = partitions.filter(|partition| partition.state().chunks().any(keeps));
        if let Some(id) = keeping.map(|partition| partition.id()).next() {
            self.broken
                .get_or_insert(format!("former version kept: {node} keeps superseded versions in {id}"));
        }
    }

    /// A freeze goes on only when everything that it sees is decided.
    pub(super) fn check_freezes(&mut self, node: NodeId) {
        let mut partitions = self.servers[&node].node().into_iter().flat_map(|node| node.partitions());
        if let Some(id) =
            partitions.find(|partition| !partition.has_frozen_rightly()).map(|partition| partition.id())
        {
            self.broken.get_or_insert(format!("freeze of what is undecided: {node} in {id}"));
        }
    }

    /// What was done to documents, with the numbers at which nodes have done it.
    pub fn deeds(&self) -> Result<Vec<Deed>, String> {
        self.edited.iter().map(|edited| self.deed(edited)).collect()
    }

    fn deed(&self, edited: &Edited) -> Result<Deed, String> {
        let Edited { place, id, seen, steps, .. } = edited;
        let outcome = self.history.operations()[*place].outcome;
        let is_committed = id.map_or(outcome == Outcome::Committed, |id| self.committed.contains(&id));
        let is_contradicted = match outcome {
            Outcome::Committed => !is_committed,
            Outcome::Conflict => is_committed,
            Outcome::Unknown => false,
        };
        if is_contradicted {
            return Err(format!("told otherwise than decided: {id:?} is {outcome}"));
        }
        let mut numbers = seen.clone();
        if let (Some(id), true) = (id, is_committed) {
            let all: BTreeSet<Blob> = steps.iter().map(|(blob, _)| *blob).collect();
            for blob in all {
                let partition = self.keyspaces[&KEYSPACE].partition_of(&name(blob), 0);
                let number = self.prepared.number(partition, *id);
                let number =
                    number.ok_or_else(|| format!("committed and not promised: {id} at {partition}"))?;
                numbers.insert(blob, number);
            }
        }
        Ok(Deed { place: *place, happened: is_committed, numbers, steps: steps.clone() })
    }

    /// A stop votes only when everything before the transaction is decided.
    pub(super) fn check_vote(&mut self, node: NodeId, id: PartitionId, transaction: TransactionId) {
        let partition = self.servers[&node].node().and_then(|node| node.partition(id));
        if partition.is_some_and(|partition| !partition.is_settled(transaction)) {
            self.broken.get_or_insert(format!("vote behind what is undecided: {node} in {id}"));
        }
    }

    /// A stop promises nothing of a head whose payload did not come with the transaction.
    pub(super) fn check_payload(&mut self, node: NodeId, transaction: TransactionId) {
        let lacks = |partition: &Partition| {
            let prepare = partition.state().record(transaction).and_then(|record| record.prepare.as_ref());
            prepare.is_some_and(|(_, prepare)| {
                let own = prepare.plan.heads[prepare.stop().heads.clone()].iter();
                own.flat_map(|head| &head.operations).any(|done| matches!(done, Operation::Lost { .. }))
            })
        };
        let mut partitions = self.servers[&node].node().into_iter().flat_map(|node| node.partitions());
        if let Some(id) = partitions.find(|partition| lacks(partition)).map(Partition::id) {
            self.broken.get_or_insert(format!("promise without payload: {node} in {id}"));
        }
    }

    /// A replica has answered a look: from now on it holds the number.
    pub(super) fn note_pin(&mut self, node: NodeId, look: RequestId) {
        let server = &self.servers[&node];
        let partition = server.node().into_iter().flat_map(|node| node.partitions());
        for partition in partition.filter(|partition| partition.holds_pin(look)) {
            let epoch = partition.configuration().epoch;
            self.pins.grant(look, Grant { node, start: server.start, partition: partition.id(), epoch });
        }
    }

    /// Who has answered a look holds what it told of, where anything is held.
    pub(super) fn check_held(&mut self, node: NodeId, id: PartitionId, look: RequestId) {
        let partition = self.servers[&node].node().and_then(|node| node.partition(id));
        if self.profile.multi_version && !partition.is_some_and(|partition| partition.holds_pin(look)) {
            let (session, number) = (look.session.0, look.number);
            self.broken.get_or_insert(format!(
                "nothing held for a reader: look {number} of client {session} at {node} in {id}"
            ));
        }
    }

    /// A reader was told that its version is gone: that must not be as long as its pin stands.
    pub(super) fn check_expired(&mut self, look: RequestId, blob: &BlobName) {
        if !self.profile.multi_version {
            // Nobody holds anything, though a node that has not heard of the keyspace yet believes so.
            return;
        }
        let head = self.keyspaces[&KEYSPACE].partition_of(blob, 0);
        let Some(Grant { node, start, partition: id, epoch }) = self.pins.grant_of(look, head) else {
            return;
        };
        let server = &self.servers[&node];
        let partition = server.node().and_then(|node| node.partition(id));
        let stands = server.start == start && partition.is_some_and(|partition| partition.holds_pin(look));
        let set = self.manager.cluster().partitions().find(|(other, _)| *other == id);
        if stands && set.is_some_and(|(_, partition)| partition.configuration.epoch == epoch) {
            let (session, number) = (look.session.0, look.number);
            self.broken.get_or_insert(format!(
                "version collected under a reader: look {number} of client {session} is pinned at {node} in {id}"
            ));
        }
    }

    /// A client was told that nobody knows any more how a transaction ended: that must not be as long as no session was forgotten.
    pub(super) fn check_forgotten(&mut self, session: SessionId) {
        if !self.counts().contains_key("forgot a session") {
            self.broken.get_or_insert(format!("outcome forgotten: of a transaction of client {}", session.0));
        }
    }

    /// A transaction was refused by conflict whose blobs were reserved for it: that must not be as long as the reserve stands.
    pub(super) fn check_refused_reserve(&mut self, session: SessionId, since: u64) {
        // By then everybody who serves has heard of the change: a lease lasts no longer.
        if self.ring_changed_at + HEARD_AFTER < since {
            let (client, now) = (session.0, self.now);
            self.broken.get_or_insert(format!(
                "reserve broken: client {client} reserved at {since} and was refused by conflict until {now}"
            ));
        }
    }

    /// Notes when the ring changes: whoever then loses a role loses what it held for clients.
    pub(super) fn note_ring(&mut self) {
        let version = self.manager.cluster().version();
        if version != self.ring_version {
            (self.ring_version, self.ring_changed_at) = (version, self.now);
        }
    }
}
