//! The storage engine on a simulated disk that nothing ever happens to.

use std::hint::black_box;

use tyr_sim_env::{SimClock, SimDisk};
use tyr_store::{
    BlobChange, Create, Existence, Maintained, Options, Payload, Stop, Store, Wait,
    index::{Index, IndexOptions},
};
use tyr_types::{Error, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number};

use crate::collected::counted;

const BLOBS: usize = 64;
const INDEX_ENTRIES: u64 = 4096;

/// Counts these paths.
pub fn count() {
    let store = Store::open(SimDisk::new(1), SimClock::new(), Create::New, Options::default())
        .expect("an empty disk takes a store");
    let name = KeyspaceName::new("counted").expect("a valid name");
    let space = store.create_keyspace(name, KeyspaceSettings::default()).expect("is the first");
    let keys = || (0..BLOBS).map(key);
    keys().for_each(|key| commit(&store, space, &key, Existence::Create, 4096));
    while store.maintain().expect("nothing fails") == Maintained::Worked {}

    counted("commit of 100 bytes to the store", keys(), |key| {
        commit(&store, space, &key, Existence::Keep, 100);
    });
    counted("commit of 4 KiB to the store", keys(), |key| {
        commit(&store, space, &key, Existence::Keep, 4096);
    });
    let mut buffer = vec![0; 4096];
    counted("read of 4 KiB from the store", keys(), |key| {
        let read = store.read(space, &key, Number::MAX, 0, black_box(&mut buffer), Wait::Never);
        assert!(matches!(read, Ok(Some((_, 4096)))), "{:?}", read.err());
    });
    count_index();
}

/// Lookups of keys that lie in the cached pages of one table.
fn count_index() {
    let index = Index::open(SimDisk::new(1), Vec::new(), IndexOptions::default()).expect("is empty");
    let table =
        index.build((0..INDEX_ENTRIES).map(|n| (index_key(n), Some([7; 70])))).expect("nothing fails");
    index.install(table, &[]);
    let spread = (0..64).map(|n| n * (INDEX_ENTRIES / 64));
    for n in spread.clone() {
        index.get(&index_key(n)).expect("nothing fails");
    }
    counted("lookup in the index", spread.clone().map(index_key), |key| {
        let found = index.get(&key).expect("nothing fails");
        assert!(found.is_some());
        found
    });
    let absent = spread.map(index_key).map(|mut key| {
        key[19] ^= 1;
        key
    });
    counted("lookup in the index in vain", absent, |key| index.get(&key).expect("nothing fails"));
}

fn commit(store: &Store, space: KeyspaceId, key: &Key, existence: Existence, size: usize) {
    let change = BlobChange {
        existence,
        cut: None,
        holes: Vec::new(),
        size: 4096,
        attributes: None,
        writes: vec![(0, Payload::new(&vec![7; size]))],
    };
    let committed = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        writer.head(space, key)?;
        writer.put(space, key, change.clone());
        Ok(())
    });
    let ((), ticket) = committed.expect("nothing fails");
    ticket.wait().expect("nothing fails");
}

fn key(number: usize) -> Key {
    Key::new(format!("users/{number:010}/profile")).expect("a short key")
}

/// Ascends with the number, and looks scattered behind that.
fn index_key(number: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..16].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}
