//! Which replica a client reads from.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;
mod patience;

use kit::Kit;
use patience::until;
use tyr_client::{KeyspaceSettings, blocking};

/// A client in the zone of the second node of three, which has read from it, and a keyspace with a blob 'a'.
fn near_the_second(kit: &Kit) -> (blocking::Store, blocking::Keyspace) {
    let store = blocking::Store::options().zone("zone2").open(kit.url()).unwrap();
    let files = store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    files.put("a", b"x").unwrap();
    // The connection to it may be about to open.
    until("a read from it", || {
        files.read("a", ..).unwrap();
        kit.reads(2) > 0
    });
    (store, files)
}

#[test]
fn a_client_reads_from_the_replica_in_its_zone() {
    let kit = Kit::start(3);
    let (_store, files) = near_the_second(&kit);
    let before = [1, 2, 3].map(|node| kit.reads(node));
    for _ in 0..50 {
        assert_eq!(files.read("a", ..).unwrap(), b"x");
        assert!(files.exists("a").unwrap());
    }
    let after = [1, 2, 3].map(|node| kit.reads(node));
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert!(after[1] >= before[1] + 100);
}

#[test]
fn another_replica_is_asked_while_the_nearest_does_not_answer() {
    let kit = Kit::start(3);
    let (_store, files) = near_the_second(&kit);
    kit.set_node_mute(2, true);
    assert_eq!(files.read("a", ..).unwrap(), b"x");
    let before = kit.reads(2);
    for _ in 0..50 {
        assert_eq!(files.read("a", ..).unwrap(), b"x");
    }
    assert!(kit.reads(2) <= before + 10, "who has just let somebody wait is seldom asked");
    kit.set_node_mute(2, false);
    let (others, before) = (|| kit.reads(1) + kit.reads(3), kit.reads(2));
    until("ten reads from it", || {
        files.read("a", ..).unwrap();
        kit.reads(2) >= before + 10
    });
    let before = others();
    for _ in 0..10 {
        files.read("a", ..).unwrap();
    }
    assert_eq!(others(), before);
}
