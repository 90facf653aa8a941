//! How a replica is doing, in numbers. Cheap enough to be asked every second.

use super::{Partition, Role};
use crate::{
    BlobName, PartitionId, Time,
    cluster::{PartitionReport, PartitionRole},
    message::RequestId,
};

/// The number that a reader has held for longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestPin {
    /// The partition where it holds it.
    pub partition: PartitionId,
    /// Who holds it, and by which request.
    pub request: RequestId,
    /// One of the blobs that it keeps readable.
    pub blob: Option<BlobName>,
    /// For how long, in microseconds.
    pub age: u64,
}

impl Partition {
    /// The number that a reader has held for longest here.
    pub fn oldest_pin(&self, now: Time) -> Option<OldestPin> {
        let (request, blob, since) = self.readers.oldest()?;
        Some(OldestPin { partition: self.id, request, blob: blob.cloned(), age: now.since(since) })
    }

    /// How it is doing.
    pub fn report(&self, now: Time) -> PartitionReport {
        let count = |count: usize| count as u64;
        let (lag, copying) = self.followers();
        let (readers, pins, pinned_since) = self.readers.counts();
        PartitionReport {
            partition: self.id,
            epoch: self.configuration.epoch,
            role: self.role(),
            last: self.log.last(),
            stored: self.stored,
            lag,
            copying,
            waiting: count(self.chain.len()),
            held: count(self.held.len()),
            driven: count(self.drives.len()),
            readers: count(readers),
            pins: count(pins),
            pin_age: pinned_since.map_or(0, |since| now.since(since)),
            backlog: count(self.collection.backlog()),
        }
    }

    fn role(&self) -> PartitionRole {
        match &self.role {
            Role::None => PartitionRole::None,
            Role::Primary { established: true, .. } => PartitionRole::Primary,
            Role::Primary { .. } => PartitionRole::NewPrimary,
            Role::Backup { synced: true, .. } => PartitionRole::Backup,
            Role::Backup { .. } => PartitionRole::NewBackup,
        }
    }

    /// How far the last replica is behind, and how many are not complete yet, if this one leads.
    fn followers(&self) -> (u64, u64) {
        let Role::Primary { peers, .. } = &self.role else { return (0, 0) };
        let last = self.log.last();
        let lag = peers.values().map(|peer| last.saturating_sub(peer.stored())).max().unwrap_or(0);
        let copying = peers.values().filter(|peer| !peer.is_complete(self.durable)).count();
        (lag, copying as u64)
    }
}
