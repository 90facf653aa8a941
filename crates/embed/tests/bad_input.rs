//! Calls that are wrong get a clear error, change nothing, and break nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{durable, kind, on_each_store, unversioned};
use tyr_embed::blocking::{Keyspace, Store};
use tyr_embed::{Check, ErrorKind, KeyspaceSettings, Operand, Outcome, Transform};

const FAR: u64 = i64::MAX as u64;

fn transform() -> Transform {
    Transform::add(Operand::U64(1))
}

fn files(store: &Store) -> Keyspace {
    store.create_keyspace("files", durable()).unwrap()
}

#[test]
fn keys_have_1_to_4096_bytes() {
    on_each_store(|store| {
        let files = files(store);
        for key in [vec![], vec![0; 4097]] {
            assert_eq!(kind(files.create(&key)), ErrorKind::Invalid);
            assert_eq!(kind(files.read(&key, ..)), ErrorKind::Invalid);
            assert_eq!(kind(files.write(&key, 0, b"x")), ErrorKind::Invalid);
            assert_eq!(kind(files.stat(&key)), ErrorKind::Invalid);
            assert_eq!(kind(store.begin().append(&files, &key, b"x")), ErrorKind::Invalid);
            assert_eq!(kind(store.begin().check(&files, &key, Check::Exists)), ErrorKind::Invalid);
        }
        let longest = vec![0xff; 4096];
        files.put(&longest, b"content").unwrap();
        assert_eq!(files.scan(&longest, None, 10).unwrap().len(), 1);
        assert_eq!(files.scan([0xff; 4097], None, 10).unwrap().len(), 0);
        assert_eq!(files.scan("", Some(&[0xff; 5000]), 10).unwrap().len(), 0);
    });
}

#[test]
fn a_store_that_cannot_be_leaves_no_directory() {
    let place = tempfile::tempdir().unwrap();
    let opened = Store::options().segment_size(100).open(place.path().join("store"));
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn ranges_end_before_two_to_the_63() {
    on_each_store(|store| {
        let files = files(store);
        files.put("a", b"content").unwrap();
        let mut transaction = store.begin();
        for offset in [FAR - 3, FAR, FAR + 1, u64::MAX] {
            assert_eq!(kind(files.write("a", offset, b"four")), ErrorKind::Invalid);
            assert_eq!(kind(files.transform("a", offset, transform())), ErrorKind::Invalid);
            assert_eq!(kind(files.read_into("a", offset, &mut [0; 4])), ErrorKind::Invalid);
            assert_eq!(kind(transaction.write(&files, "a", offset, b"four")), ErrorKind::Invalid);
            assert_eq!(kind(transaction.transform(&files, "a", offset, transform())), ErrorKind::Invalid);
            assert_eq!(kind(transaction.read_into(&files, "a", offset, &mut [0; 4])), ErrorKind::Invalid);
        }
        assert_eq!(kind(files.truncate("a", FAR + 1)), ErrorKind::Invalid);
        assert_eq!(kind(files.read("a", ..FAR + 1)), ErrorKind::Invalid);
        assert_eq!(kind(files.read("a", ..=u64::MAX)), ErrorKind::Invalid);
        let (three, five) = (3, 5);
        assert_eq!(kind(files.read("a", five..three)), ErrorKind::Invalid);
        let far = Check::Bytes { offset: FAR, bytes: vec![1] };
        assert_eq!(kind(transaction.check(&files, "a", far)), ErrorKind::Invalid);
        // Nothing of this counts.
        assert!(matches!(transaction.commit(), Ok(Outcome::Committed(_))));
        assert_eq!(files.read("a", ..).unwrap(), b"content");
    });
}

#[test]
fn the_largest_blob_works_and_cannot_grow() {
    on_each_store(|store| {
        let files = files(store);
        files.write("a", FAR - 4, b"last").unwrap();
        assert_eq!(files.stat("a").unwrap().size, FAR);
        assert_eq!(files.read("a", FAR - 6..).unwrap(), b"\0\0last");
        assert_eq!(files.read("a", FAR..).unwrap(), b"");
        assert_eq!(kind(files.append("a", b"x")), ErrorKind::Invalid);
        assert_eq!(files.append("a", b"").unwrap(), FAR);
        let mut transaction = store.begin();
        transaction.append(&files, "a", b"x").unwrap();
        assert_eq!(kind(transaction.commit()), ErrorKind::Invalid);
        // More than fits in memory is refused, not tried.
        assert_eq!(kind(files.read("a", ..)), ErrorKind::Invalid);
        assert_eq!(kind(files.get("a")), ErrorKind::Invalid);
        assert_eq!(kind(store.begin().read(&files, "a", ..)), ErrorKind::Invalid);
        files.truncate("a", 3).unwrap();
        assert_eq!(files.read("a", ..).unwrap(), [0; 3]);
    });
}

#[test]
fn operations_without_bytes_only_create() {
    on_each_store(|store| {
        let files = files(store);
        files.write("written", 1000, b"").unwrap();
        files.append("appended", b"").unwrap();
        files.put("put", b"").unwrap();
        for key in ["written", "appended", "put"] {
            assert_eq!(files.stat(key).unwrap().size, 0);
        }
        files.put("a", b"content").unwrap();
        let before = files.stat("a").unwrap();
        files.write("a", 1000, b"").unwrap();
        assert_eq!(files.append("a", b"").unwrap(), 7);
        assert_eq!(files.stat("a").unwrap(), before);
        assert_eq!(files.read("a", 3..3).unwrap(), b"");
        assert_eq!(files.read_into("a", 100, &mut [0; 4]).unwrap(), 0);
        assert_eq!(kind(files.read("missing", 3..3)), ErrorKind::NotFound);
    });
}

#[test]
fn attributes_are_bounded() {
    on_each_store(|store| {
        let files = files(store);
        files.create("a").unwrap();
        let half = vec![0; 33 << 10];
        assert_eq!(kind(files.set_attribute("a", "", Some(b"x"))), ErrorKind::Invalid);
        assert_eq!(kind(files.set_attribute("a", &"n".repeat(256), None)), ErrorKind::Invalid);
        files.set_attribute("a", "one", Some(&half)).unwrap();
        assert_eq!(kind(files.set_attribute("a", "two", Some(&half))), ErrorKind::Invalid);
        let mut transaction = store.begin();
        transaction.set_attribute(&files, "a", "two", Some(&half)).unwrap();
        assert_eq!(kind(transaction.commit()), ErrorKind::Invalid);
        let mut transaction = store.begin();
        transaction.set_attribute(&files, "a", "one", None).unwrap();
        transaction.set_attribute(&files, "a", "two", Some(&half)).unwrap();
        assert!(matches!(transaction.commit(), Ok(Outcome::Committed(_))));
        assert_eq!(files.attribute("a", "two").unwrap().unwrap(), half);
    });
}

#[test]
fn a_transaction_that_grows_too_large_says_so_and_can_still_commit() {
    on_each_store(|store| {
        let files = files(store);
        let mut transaction = store.begin();
        let part = vec![7; 16 << 10];
        let mut written = 0;
        let error = loop {
            // Far apart, so that the pieces stay small.
            match transaction.write(&files, "a", written * (1 << 20), &part) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("too large"), "{error}");
        let slot = transaction.append(&files, "a", vec![8; 1 << 20]).unwrap();
        let Outcome::Committed(receipt) = transaction.commit().unwrap() else { panic!("alone") };
        let size = (written - 1) * (1 << 20) + (16 << 10);
        assert_eq!(receipt.offset(slot), Some(size));
        assert_eq!(files.stat("a").unwrap().size, size + (1 << 20));
        assert_eq!(files.read("a", size - 1..size + 1).unwrap(), [7, 8]);
    });
}

#[test]
fn what_is_missing_or_there_already_is_named() {
    on_each_store(|store| {
        let files = files(store);
        for result in [
            files.delete("gone"),
            files.truncate("gone", 1),
            files.set_attribute("gone", "a", None),
            files.read("gone", ..).map(drop),
            files.read_into("gone", 0, &mut [0; 8]).map(drop),
            files.stat("gone").map(drop),
            files.get("gone").map(drop),
            files.attribute("gone", "a").map(drop),
            store.begin().delete(&files, "gone"),
            store.begin().truncate(&files, "gone", 1),
            store.begin().set_attribute(&files, "gone", "a", None),
            store.begin().read(&files, "gone", ..).map(drop),
            store.begin().stat(&files, "gone").map(drop),
            store.begin().attribute(&files, "gone", "a").map(drop),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.message().contains("'gone'") && error.message().contains("'files'"), "{error}");
        }
        files.create("there").unwrap();
        for result in [files.create("there"), store.begin().create(&files, "there")] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Exists);
            assert!(error.message().contains("'there'"), "{error}");
        }
    });
}

#[test]
fn own_appends_are_read_only_when_their_offset_is_known() {
    on_each_store(|store| {
        let files = files(store);
        files.put("a", b"content").unwrap();
        let mut transaction = store.begin();
        transaction.append(&files, "a", b"more").unwrap();
        assert_eq!(transaction.read(&files, "a", 0..7).unwrap(), b"content");
        let error = transaction.read(&files, "a", 0..8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("appends"), "{error}");
        assert_eq!(kind(transaction.read(&files, "a", ..)), ErrorKind::Invalid);
        assert_eq!(transaction.stat(&files, "a").unwrap().size, 11);
        assert_eq!(transaction.read(&files, "a", ..).unwrap(), b"contentmore");
    });
}

#[test]
fn handles_of_another_store_are_refused() {
    on_each_store(|store| {
        let directory = tempfile::tempdir().unwrap();
        let other = Store::open(directory.path()).unwrap();
        let foreign = files(&other);
        assert_eq!(kind(store.begin().read(&foreign, "a", ..)), ErrorKind::Invalid);
        assert_eq!(kind(store.snapshot(&[&foreign])), ErrorKind::Invalid);
    });
}

#[test]
fn snapshots_are_of_keyspaces_that_keep_versions_and_of_no_others() {
    on_each_store(|store| {
        let files = files(store);
        let other = store.create_keyspace("other", durable()).unwrap();
        let latest = store.create_keyspace("latest", unversioned()).unwrap();
        assert_eq!(kind(store.snapshot(&[&files, &latest])), ErrorKind::Invalid);
        let snapshot = store.snapshot(&[&files, &files]).unwrap();
        assert_eq!(kind(snapshot.exists(&other, "a")), ErrorKind::Invalid);
        assert_eq!(kind(snapshot.scan(&other, "", None, 1)), ErrorKind::Invalid);
        assert!(!snapshot.exists(&files, "a").unwrap());
    });
}

#[test]
fn settings_and_names_are_checked() {
    on_each_store(|store| {
        let odd = KeyspaceSettings { chunk_size: 100_000, ..durable() };
        assert_eq!(kind(store.create_keyspace("a", odd)), ErrorKind::Invalid);
        assert_eq!(kind(store.create_keyspace("a b", durable())), ErrorKind::Invalid);
        assert_eq!(kind(store.keyspace("a b")), ErrorKind::NotFound);
        assert_eq!(kind(store.alter_keyspace("a", durable())), ErrorKind::NotFound);
        assert_eq!(kind(store.drop_keyspace("a")), ErrorKind::NotFound);
        store.create_keyspace("a", durable()).unwrap();
        assert_eq!(kind(store.create_keyspace("a", durable())), ErrorKind::Exists);
        let other_chunks = KeyspaceSettings { chunk_size: 1 << 20, ..durable() };
        assert_eq!(kind(store.alter_keyspace("a", other_chunks)), ErrorKind::Invalid);
    });
}
