//! A freeze: what a client asks for that wants to see several blobs at one point, or to change them before anybody else does.

use alloc::{sync::Arc, vec::Vec};

use tyr_types::{Key, KeyspaceId};

use crate::{BlobName, Epoch, Keyspaces, PartitionId, message::RequestId};

/// Keeps writers from getting a number at some heads, for a bounded time (`docs/protocol/paths.md`, "Snapshot").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Names it. One that is asked for again has another name.
    pub request: RequestId,
    /// Whether it stays after all its heads are frozen, until the transaction comes that names it: a reserve. Else it is a snapshot.
    pub stays: bool,
    /// Which heads.
    pub extent: Extent,
}

/// The heads of a freeze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// These blobs, in the order of chains: partition, keyspace, key.
    Blobs(Vec<(PartitionId, BlobName)>),
    /// All blobs of a keyspace whose keys begin so, in every partition of its class.
    Prefix(KeyspaceId, Arc<[u8]>),
}

/// Names one time that a freeze stood at one stop. Never used again, not even after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stand {
    /// The epoch of the stop's partition.
    pub epoch: Epoch,
    /// Counts them within the epoch.
    pub count: u64,
}

/// A freeze names at most so many blobs.
pub const FREEZE_BLOBS_MAX: usize = 4096;

impl Freeze {
    /// The partitions that it visits, in order; none if it is not in order itself.
    pub fn stops(&self, keyspaces: &Keyspaces) -> Vec<PartitionId> {
        match &self.extent {
            Extent::Blobs(blobs) => {
                if blobs.len() > FREEZE_BLOBS_MAX || !blobs.is_sorted_by(|one, other| one < other) {
                    return Vec::new();
                }
                let mut stops: Vec<PartitionId> = blobs.iter().map(|(partition, _)| *partition).collect();
                stops.dedup();
                stops
            }
            Extent::Prefix(keyspace, _) => {
                let placement = keyspaces.get(keyspace).map(|keyspace| &keyspace.placement);
                let all = |class, count| (0..count).map(move |index| PartitionId { class, index }).collect();
                placement
                    .map(|placement| all(placement.class, placement.partitions.get()))
                    .unwrap_or_default()
            }
        }
    }

    /// How many blobs it names.
    pub fn names(&self) -> usize {
        match &self.extent {
            Extent::Blobs(blobs) => blobs.len(),
            Extent::Prefix(..) => 0,
        }
    }

    /// Whether it keeps writers away from a blob whose head is in this partition.
    pub fn covers(&self, partition: PartitionId, blob: &BlobName) -> bool {
        match &self.extent {
            Extent::Blobs(blobs) => {
                blobs.binary_search_by(|(at, own)| (at, own).cmp(&(&partition, blob))).is_ok()
            }
            Extent::Prefix(keyspace, prefix) => {
                blob.keyspace == *keyspace && blob.key.as_bytes().starts_with(prefix)
            }
        }
    }

    /// Whether there is a blob that both cover.
    pub fn meets(&self, other: &Freeze) -> bool {
        match (&self.extent, &other.extent) {
            (Extent::Blobs(blobs), _) => blobs.iter().any(|(at, blob)| other.covers(*at, blob)),
            (_, Extent::Blobs(blobs)) => blobs.iter().any(|(at, blob)| self.covers(*at, blob)),
            (Extent::Prefix(own, one), Extent::Prefix(keyspace, other)) => {
                own == keyspace && (one.starts_with(other) || other.starts_with(one))
            }
        }
    }
}

/// The first name that a blob with a prefix can have.
pub fn first_name(keyspace: KeyspaceId, prefix: &[u8]) -> Option<BlobName> {
    let least: &[u8] = if prefix.is_empty() { &[0] } else { prefix };
    Key::new(least).ok().map(|key| BlobName { keyspace, key })
}
