//! What tests of the driver's parts need.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use tyr_proto::{
    BlobName, ClassId, Client, Keyspace, KeyspaceSeed, Layout, PartitionCount, Placement, SessionId,
};
use tyr_types::{Key, KeyspaceId, KeyspaceSettings};

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
