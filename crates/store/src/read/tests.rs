use std::sync::Arc;

use tyr_sim_env::{SimClock, SimDisk};
use tyr_types::{ErrorKind, KeyspaceName, KeyspaceSettings};
use tyr_wire::record::Existence;

use super::*;
use crate::{
    options::{Create, Options},
    payload::Payload,
    transact::{BlobChange, Stop},
};

fn store_with(name: &str, bytes: &[u8]) -> (Arc<Store>, KeyspaceId, Key) {
    let options =
        Options { segment_size: 256 << 10, inline_max: 8 << 10, data_cache: 0, ..Options::default() };
    let store = Store::open(SimDisk::new(1), SimClock::new(), Create::New, options).expect("opens");
    let name_of_space = KeyspaceName::new("k").expect("valid");
    let space = store.create_keyspace(name_of_space, KeyspaceSettings::default()).expect("creates");
    let key = Key::new(name).expect("valid");
    let change = BlobChange {
        existence: Existence::Create,
        cut: None,
        holes: Vec::new(),
        size: bytes.len() as u64,
        attributes: None,
        writes: vec![(0, Payload::new(bytes))],
    };
    let committed = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        writer.put(space, &key, change.clone());
        Ok(())
    });
    committed.expect("commits").1.wait().expect("durable");
    (Arc::new(store), space, key)
}

#[test]
fn bytes_in_a_segment_that_is_not_there_are_an_error_and_not_an_endless_loop() {
    let (store, space, key) = store_with("a", &[7; 20_000]);
    let bulk =
        store.segments.all().into_iter().find(|segment| segment.kind != tyr_wire::frame::SegmentKind::Log);
    store.segments.empty(&[bulk.expect("is there").id]);
    match store.read(space, &key, Number::MAX, 0, &mut [0; 100], Wait::Allowed) {
        Err(Miss::Failed(error)) => {
            assert_eq!(
                (error.kind(), error.message().contains("'a'")),
                (ErrorKind::Corrupt, true),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_reads_while_a_keyspace_is_dropped_is_told_so_and_not_that_something_is_damaged() {
    let (store, space, key) = store_with("a", &[7; 20_000]);
    store.checkpoint().expect("checkpoints");
    let keyspace = store.keyspaces.find(space).expect("is there");
    store.drop_keyspace(space).expect("drops");
    store.checkpoint().expect("checkpoints");
    match store.read_in(&keyspace.state, &key, Number::MAX, 0, &mut [0; 100], Wait::Allowed) {
        Err(Miss::Failed(error)) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        other => panic!("{other:?}"),
    }
}
