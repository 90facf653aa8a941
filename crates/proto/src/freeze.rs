//! A freeze: what a client asks for that wants to see several blobs at one point, or to change them before anybody else does.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use tyr_types::{Key, KeyspaceId};

use crate::{
    BlobName, Epoch, KeepName, Keyspace, Keyspaces, PartitionId, SnapshotId, keyspace::is_placed,
    message::RequestId,
};

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
    /// All blobs of these keyspaces whose keys begin so, in every partition of their classes. In the order of keyspaces and prefixes.
    Prefixes(Vec<(KeyspaceId, Arc<[u8]>)>),
    /// All blobs of a keyspace, of which a snapshot with a name is being taken.
    Keyspace(KeyspaceId, SnapshotId),
}

/// Names one time that a freeze stood at one stop. Never used again, not even after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stand {
    /// The epoch of the stop's partition.
    pub epoch: Epoch,
    /// Counts them within the epoch.
    pub count: u64,
}

/// A freeze stands, and waits, at one stop for at most this many microseconds,
pub const FREEZE_MAX: u64 = 1_000_000;
/// and as many more for each stop.
const STOP_MAX: u64 = 1_000;
/// A freeze names at most so many blobs.
pub const FREEZE_BLOBS_MAX: usize = 4096;
/// A freeze names at most so many prefixes.
pub const FREEZE_PREFIXES_MAX: usize = 1024;

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
            Extent::Prefixes(prefixes) => {
                if prefixes.len() > FREEZE_PREFIXES_MAX || !prefixes.is_sorted_by(|one, other| one < other) {
                    return Vec::new();
                }
                let placement = |(keyspace, _): &(KeyspaceId, _)| {
                    existing(keyspaces, *keyspace).map(|keyspace| &keyspace.placement)
                };
                // All or none: a part of a snapshot is none.
                let classes: Option<BTreeMap<_, _>> = prefixes
                    .iter()
                    .map(|prefix| placement(prefix).map(|placed| (placed.class, placed.partitions.get())))
                    .collect();
                let all = |(class, count)| (0..count).map(move |index| PartitionId { class, index });
                classes.unwrap_or_default().into_iter().flat_map(all).collect()
            }
            Extent::Keyspace(keyspace, _) => {
                existing(keyspaces, *keyspace).map(Keyspace::partitions).unwrap_or_default()
            }
        }
    }

    /// Whether it names its blobs where their heads are, as far as that is known. At a stop where there is no such head nothing freezes, and at the others
    /// writers would wait in vain.
    pub fn is_placed(&self, keyspaces: &Keyspaces) -> bool {
        let Extent::Blobs(blobs) = &self.extent else { return true };
        blobs.iter().all(|(partition, blob)| is_placed(keyspaces, blob, *partition))
    }

    /// What its stops keep when it stands at a point, if it takes a snapshot with a name.
    pub fn keep_at(&self, point: Stand) -> Option<KeepName> {
        match self.extent {
            Extent::Keyspace(keyspace, snapshot) => Some(KeepName { keyspace, snapshot, point }),
            Extent::Blobs(_) | Extent::Prefixes(_) => None,
        }
    }

    /// Whether it is of keyspaces as a whole, or of what begins with prefixes in them: if one of them is dropped it cannot stand.
    pub fn is_of_keyspaces(&self) -> bool {
        match &self.extent {
            Extent::Blobs(_) => false,
            Extent::Prefixes(prefixes) => !prefixes.is_empty(),
            Extent::Keyspace(..) => true,
        }
    }

    /// Whether it takes a snapshot with a name.
    pub fn takes_snapshot(&self) -> bool {
        matches!(self.extent, Extent::Keyspace(..))
    }

    /// Whether it may stand, as far as its stop knows: one that takes a snapshot is let in if that has been begun and is not complete.
    pub fn is_due(&self, keyspaces: &Keyspaces) -> bool {
        let Extent::Keyspace(keyspace, snapshot) = self.extent else { return true };
        let is_of_use = |known: &Keyspace| known.multi_version && known.snapshots.is_being_taken(snapshot);
        !self.stays && existing(keyspaces, keyspace).is_some_and(is_of_use)
    }

    /// For how many microseconds it stands, and waits, at each of so many stops at the most: the first stands as long as it takes to come to
    /// the last one and back.
    pub fn lasts(&self, stops: usize) -> u64 {
        FREEZE_MAX + STOP_MAX * stops as u64
    }

    /// How many blobs it names.
    pub fn names(&self) -> usize {
        match &self.extent {
            Extent::Blobs(blobs) => blobs.len(),
            Extent::Prefixes(_) | Extent::Keyspace(..) => 0,
        }
    }

    /// Whether it keeps writers away from a blob whose head is in this partition.
    pub fn covers(&self, partition: PartitionId, blob: &BlobName) -> bool {
        match &self.extent {
            Extent::Blobs(blobs) => {
                blobs.binary_search_by(|(at, own)| (at, own).cmp(&(&partition, blob))).is_ok()
            }
            Extent::Prefixes(prefixes) => prefixes.iter().any(|(keyspace, prefix)| {
                blob.keyspace == *keyspace && blob.key.as_bytes().starts_with(prefix)
            }),
            Extent::Keyspace(keyspace, _) => blob.keyspace == *keyspace,
        }
    }

    /// Whether there is a blob that both cover.
    pub fn meets(&self, other: &Freeze) -> bool {
        match (&self.extent, &other.extent) {
            (Extent::Blobs(blobs), _) => blobs.iter().any(|(at, blob)| other.covers(*at, blob)),
            (_, Extent::Blobs(blobs)) => blobs.iter().any(|(at, blob)| self.covers(*at, blob)),
            (Extent::Prefixes(own), Extent::Prefixes(others)) => own.iter().any(|(keyspace, prefix)| {
                let mut of_keyspace = others.iter().filter(|(other, _)| other == keyspace);
                of_keyspace.any(|(_, other)| prefix.starts_with(other) || other.starts_with(prefix))
            }),
            (Extent::Prefixes(prefixes), Extent::Keyspace(whole, _))
            | (Extent::Keyspace(whole, _), Extent::Prefixes(prefixes)) => {
                prefixes.iter().any(|(keyspace, _)| keyspace == whole)
            }
            (Extent::Keyspace(own, _), Extent::Keyspace(other, _)) => own == other,
        }
    }
}

fn existing(keyspaces: &Keyspaces, keyspace: KeyspaceId) -> Option<&Keyspace> {
    keyspaces.get(&keyspace).filter(|known| !known.is_dropped)
}

/// The first name that a blob with a prefix can have.
pub fn first_name(keyspace: KeyspaceId, prefix: &[u8]) -> Option<BlobName> {
    let least: &[u8] = if prefix.is_empty() { &[0] } else { prefix };
    Key::new(least).ok().map(|key| BlobName { keyspace, key })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use alloc::vec;

    use tyr_types::KeyspaceSettings;

    use super::*;
    use crate::{ClassId, Keyspace, cluster};

    /// Keyspaces 1 and 3 are of class 0 with two partitions, 2 is of class 1 with one.
    fn keyspaces() -> Keyspaces {
        let keyspace = |class, partitions| {
            let settings = KeyspaceSettings::default();
            let name = tyr_types::KeyspaceName::new("files").unwrap();
            let state = cluster::KeyspaceState::Exists;
            let known = cluster::Keyspace {
                name,
                class: ClassId(class),
                seed: 1,
                settings,
                state,
                snapshots: Default::default(),
            };
            let class = cluster::ClassSettings { partitions, ..cluster::ClassSettings::new(1) };
            Keyspace::of(&known, &class).unwrap()
        };
        let all = [(1, keyspace(0, 2)), (2, keyspace(1, 1)), (3, keyspace(0, 2))];
        all.into_iter().map(|(id, keyspace)| (KeyspaceId(id), keyspace)).collect()
    }

    fn freeze(prefixes: &[(u32, &[u8])]) -> Freeze {
        let prefixes = prefixes.iter().map(|(keyspace, prefix)| (KeyspaceId(*keyspace), Arc::from(*prefix)));
        let request = RequestId { session: crate::SessionId(1), number: 1 };
        Freeze { request, stays: false, extent: Extent::Prefixes(prefixes.collect()) }
    }

    #[test]
    fn a_freeze_of_prefixes_visits_every_partition_of_their_classes_once_and_in_order() {
        let stop = |class, index| PartitionId { class: ClassId(class), index };
        let stops = |prefixes: &[(u32, &[u8])]| freeze(prefixes).stops(&keyspaces());
        assert_eq!(stops(&[(1, b""), (2, b"a"), (3, b"")]), vec![stop(0, 0), stop(0, 1), stop(1, 0)]);
        assert_eq!(stops(&[(2, b"")]), vec![stop(1, 0)]);
        assert_eq!(stops(&[(1, b""), (9, b"")]), vec![], "one of them is not known here yet");
        assert_eq!(stops(&[(2, b""), (1, b"")]), vec![], "they are not in order");
        assert_eq!(stops(&[(1, b""), (1, b"")]), vec![], "one of them comes twice");
    }

    #[test]
    fn freezes_of_prefixes_meet_where_they_have_a_keyspace_and_the_beginning_of_a_prefix_in_common() {
        let some = freeze(&[(1, b"a"), (2, b"b")]);
        assert!(some.meets(&freeze(&[(2, b"")])) && some.meets(&freeze(&[(1, b"x"), (2, b"bc")])));
        assert!(!some.meets(&freeze(&[(1, b"b"), (2, b"a"), (3, b"")])));
        let covers = |keyspace, key: &[u8]| {
            let blob = BlobName { keyspace: KeyspaceId(keyspace), key: Key::new(key).unwrap() };
            some.covers(PartitionId { class: ClassId(0), index: 0 }, &blob)
        };
        assert!(covers(1, b"a") && covers(2, b"bb") && !covers(1, b"b") && !covers(3, b"a"));
    }
}
