//! What tests of the driver's parts need.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::oneshot::{self, Receiver},
    time::Instant,
};
use tyr_proto::{
    BlobName, ClassId, Client, Keyspace, KeyspaceSeed, Layout, Operation, PartitionCount, PartitionId,
    Placement, ResultValue, SessionId, Time,
};
use tyr_types::{Key, KeyspaceId, KeyspaceSettings, Result};

use super::applies::Apply;

/// What the caller of a change gets.
pub type Answer = Receiver<Result<BTreeMap<u16, ResultValue>>>;

/// A client of a cluster that it never hears of, and a blob there.
pub fn unheard() -> (Client, BlobName) {
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(1).unwrap(),
        seed: KeyspaceSeed([0; 16]),
        layout: Layout::of(&KeyspaceSettings::default()).unwrap(),
    };
    let keyspaces = BTreeMap::from([(
        KeyspaceId(1),
        Keyspace {
            placement,
            multi_version: true,
            snapshots: tyr_proto::Snapshots::default(),
            is_dropped: false,
        },
    )]);
    let blob = BlobName { keyspace: KeyspaceId(1), key: Key::new("a").unwrap() };
    (Client::new(SessionId(1), Arc::new(keyspaces)), blob)
}

/// A partition.
pub fn partition(index: u32) -> PartitionId {
    PartitionId { class: ClassId(0), index }
}

/// A change of so many KiB.
pub fn apply(
    blob: &BlobName,
    partition: PartitionId,
    size: u32,
    until: Instant,
    gives_up_at: Time,
) -> (Apply, Answer) {
    let (reply, answer) = oneshot::channel();
    let operations = vec![Operation::Append { bytes: vec![0; size as usize * 1024].into() }];
    (Apply::new((blob.clone(), partition), operations, (until, gives_up_at), reply), answer)
}
