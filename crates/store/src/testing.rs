//! What the tests inside of the engine share: a small store on which nobody does maintenance but the test.

use std::sync::Arc;

use tyr_sim_env::{SimClock, SimDisk};
use tyr_types::{Error, Key, KeyspaceId, KeyspaceName, KeyspaceSettings};
use tyr_wire::record::Existence;

use crate::{
    maintain::Maintained,
    miss::Wait,
    options::{Create, Options},
    payload::Payload,
    store::Store,
    transact::{BlobChange, Stop},
};

/// Small segments; payload above 16 KiB is bulk; caches that hold nothing for long.
pub(crate) fn options() -> Options {
    Options {
        segment_size: 256 << 10,
        inline_max: 16 << 10,
        index_cache: 64 << 10,
        data_cache: 0,
        ..Options::default()
    }
}

pub(crate) fn open(disk: &Arc<SimDisk>) -> Store {
    Store::open(disk.clone(), SimClock::new(), Create::IfMissing, options()).expect("opens")
}

/// A new store with one keyspace.
pub(crate) fn store() -> (Store, KeyspaceId) {
    let store = open(&SimDisk::new(1));
    let space = keyspace(&store, "k");
    (store, space)
}

pub(crate) fn keyspace(store: &Store, name: &str) -> KeyspaceId {
    let name = KeyspaceName::new(name).expect("valid");
    store.create_keyspace(name, KeyspaceSettings::default()).expect("creates")
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).expect("valid")
}

/// Makes these the bytes of a blob, or writes them over its first ones, or deletes it, durably.
pub(crate) fn commit(store: &Store, space: KeyspaceId, name: &str, existence: Existence, bytes: &[u8]) {
    let writes = bytes.chunks(PIECE).zip(0..);
    let change = BlobChange {
        existence,
        cut: None,
        holes: Vec::new(),
        size: bytes.len() as u64,
        attributes: None,
        writes: writes.map(|(piece, index)| (index * PIECE as u64, Payload::new(piece))).collect(),
    };
    put(store, space, name, &change);
}

/// Makes one change, durably.
pub(crate) fn put(store: &Store, space: KeyspaceId, name: &str, change: &BlobChange) {
    let key = key(name);
    let committed = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        writer.head(space, &key)?;
        writer.put(space, &key, change.clone());
        Ok(())
    });
    committed.expect("commits").1.wait().expect("durable");
}

/// Maintains until nothing is left to do, and checks.
pub(crate) fn settle(store: &Store) {
    while store.maintain().expect("maintains") == Maintained::Worked {}
    let report = store.check().expect("checks");
    assert_eq!((report.damage, report.miscounted), (Vec::new(), 0));
}

/// A longer write is made of several payloads.
const PIECE: usize = 100_000;
