//! The engine from outside, on a simulated disk.

use std::{sync::Arc, time::Duration};

use tyr_sim_env::{CrashMode, SimClock, SimDisk};
use tyr_store::{BlobChange, Create, Existence, Maintained, Options, Payload, Refused, Stop, Store, Wait};
use tyr_types::{Error, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number};

fn options() -> Options {
    Options {
        segment_size: 256 << 10,
        inline_max: 16 << 10,
        checkpoint_size: 512 << 10,
        ..Options::default()
    }
}

fn open(disk: &Arc<SimDisk>) -> Arc<Store> {
    Arc::new(Store::open(disk.clone(), SimClock::new(), Create::IfMissing, options()).expect("opens"))
}

fn keyspace(store: &Store) -> KeyspaceId {
    store
        .create_keyspace(KeyspaceName::new("k").expect("valid"), KeyspaceSettings::default())
        .expect("creates")
}

fn key(name: &str) -> Key {
    Key::new(name).expect("valid")
}

/// Writes a range, creating the blob if need be; waits until it is durable.
fn write(store: &Store, ks: KeyspaceId, name: &str, offset: u64, bytes: &[u8]) -> Number {
    let payload = Payload::new(bytes);
    let key = key(name);
    let ((), ticket) = store
        .transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
            let head = writer.head(ks, &key)?;
            let end = offset + bytes.len() as u64;
            writer.put(
                ks,
                &key,
                BlobChange {
                    existence: if head.is_some() { Existence::Keep } else { Existence::Create },
                    cut: None,
                    holes: Vec::new(),
                    size: head.map_or(0, |head| head.size).max(end),
                    attributes: None,
                    writes: vec![(offset, payload.clone())],
                },
            );
            Ok(())
        })
        .expect("commits");
    let number = ticket.number();
    ticket.wait().expect("durable");
    number
}

fn change(store: &Store, ks: KeyspaceId, name: &str, change: &BlobChange) {
    let key = key(name);
    let result = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        writer.head(ks, &key)?;
        writer.put(ks, &key, change.clone());
        Ok(())
    });
    let ((), ticket) = result.expect("commits");
    ticket.wait().expect("durable");
}

fn read(store: &Store, ks: KeyspaceId, name: &str, at: Number) -> Option<Vec<u8>> {
    let key = key(name);
    let head = store.head(ks, &key, at, Wait::Allowed).expect("reads")?;
    let mut buffer = vec![0xee; usize::try_from(head.size).expect("small") + 10];
    let (_, len) = store.read(ks, &key, at, 0, &mut buffer, Wait::Allowed).expect("reads").expect("exists");
    buffer.truncate(len);
    Some(buffer)
}

fn settle(store: &Store) {
    while store.maintain().expect("maintains") == Maintained::Worked {}
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 7 + usize::from(seed) * 31) % 251).expect("small")).collect()
}

#[test]
fn what_was_written_is_read_before_and_after_a_crash() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let ks = keyspace(&store);
    let sizes = [1, 100, 4095, 4096, 5000, 16 << 10, 64 << 10, 100_000];
    for (seed, size) in (0..).zip(sizes) {
        write(&store, ks, &format!("b{size}"), 0, &pattern(seed, size));
    }
    write(&store, ks, "b100000", 50_000, b"overwritten");
    let check = |store: &Store| {
        for (seed, size) in (0..).zip(sizes) {
            let mut expected = pattern(seed, size);
            if size == 100_000 {
                expected[50_000..50_011].copy_from_slice(b"overwritten");
            }
            assert!(read(store, ks, &format!("b{size}"), Number::MAX) == Some(expected), "{size}");
        }
        assert_eq!(read(store, ks, "none", Number::MAX), None);
    };
    check(&store);
    drop(store);
    let disk = disk.crash(CrashMode::LoseAll);
    let store = open(&disk);
    check(&store);
    store.close().expect("closes");
    check(&open(&disk));
}

#[test]
fn holes_truncates_and_deletes_are_exact() {
    let disk = SimDisk::new(2);
    let store = open(&disk);
    let ks = keyspace(&store);
    write(&store, ks, "a", 200_000, b"far");
    let mut expected = vec![0; 200_003];
    expected[200_000..].copy_from_slice(b"far");
    assert!(read(&store, ks, "a", Number::MAX) == Some(expected));
    let keep = BlobChange {
        existence: Existence::Keep,
        cut: Some(200_001),
        holes: Vec::new(),
        size: 200_001,
        attributes: None,
        writes: vec![],
    };
    change(&store, ks, "a", &keep);
    change(&store, ks, "a", &BlobChange { cut: None, size: 300_000, ..keep.clone() });
    settle(&store);
    let mut expected = vec![0; 300_000];
    expected[200_000] = b'f';
    assert!(read(&store, ks, "a", Number::MAX) == Some(expected));
    change(&store, ks, "a", &BlobChange { existence: Existence::Delete, cut: None, size: 0, ..keep });
    assert_eq!(read(&store, ks, "a", Number::MAX), None);
    write(&store, ks, "a", 10, b"new");
    settle(&store);
    assert_eq!(read(&store, ks, "a", Number::MAX), Some(b"\0\0\0\0\0\0\0\0\0\0new".to_vec()));
}

#[test]
fn a_pinned_version_outlives_overwrites_deletes_and_compaction() {
    let disk = SimDisk::new(3);
    let store = open(&disk);
    let ks = keyspace(&store);
    write(&store, ks, "a", 0, &pattern(1, 150_000));
    write(&store, ks, "b", 0, b"gone soon");
    let pin = store.pin_keyspaces(&[ks]).expect("pins");
    for round in 0..40 {
        write(&store, ks, "a", u64::from(round) * 1000, &pattern(round, 100_000));
    }
    change(
        &store,
        ks,
        "b",
        &BlobChange {
            existence: Existence::Delete,
            cut: None,
            holes: Vec::new(),
            size: 0,
            attributes: None,
            writes: vec![],
        },
    );
    settle(&store);
    store.compact().expect("compacts");
    assert!(read(&store, ks, "a", pin.number()) == Some(pattern(1, 150_000)));
    assert_eq!(read(&store, ks, "b", pin.number()), Some(b"gone soon".to_vec()));
    assert_eq!(read(&store, ks, "b", Number::MAX), None);
    drop(pin);
    settle(&store);
    let report = store.compact().expect("compacts");
    assert!(report.bytes_after < 2 << 20, "{report:?}");
    assert_eq!(store.check().expect("checks").damage, Vec::<String>::new());
}

#[test]
fn disk_use_stays_bounded_under_overwrites() {
    let disk = SimDisk::new(4);
    let store = open(&disk);
    let ks = keyspace(&store);
    for round in 0..60u8 {
        for blob in 0..4 {
            write(&store, ks, &format!("b{blob}"), 0, &pattern(round, 60_000));
            write(&store, ks, &format!("s{blob}"), u64::from(round) * 8, &pattern(round, 900));
        }
        settle(&store);
    }
    let stats = store.stats();
    let files = (stats.log_segments + stats.bulk_segments) as u64 * stats.segment_size + stats.idle;
    assert!(files < 6 << 20, "{stats:?}");
    for blob in 0..4 {
        assert!(read(&store, ks, &format!("b{blob}"), Number::MAX) == Some(pattern(59, 60_000)));
    }
}

#[test]
fn a_refused_plan_changes_nothing() {
    let store = open(&SimDisk::new(5));
    let ks = keyspace(&store);
    let result = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<&str>> {
        let change = BlobChange {
            existence: Existence::Create,
            cut: None,
            holes: Vec::new(),
            size: 1,
            attributes: None,
            writes: vec![(0, Payload::new(b"x"))],
        };
        writer.put(ks, &key("a"), change);
        Err(Stop::Refuse("no"))
    });
    assert!(matches!(result, Err(Refused::Refused("no"))));
    assert_eq!(read(&store, ks, "a", Number::MAX), None);
}

#[test]
fn scans_meet_every_key_once_in_order() {
    let disk = SimDisk::new(6);
    let store = open(&disk);
    let ks = keyspace(&store);
    let names: Vec<String> = (0..300).map(|n| format!("k{:04}", n * 7 % 300)).collect();
    for (position, name) in names.iter().enumerate() {
        write(&store, ks, name, 0, b"x");
        if position % 100 == 50 {
            store.checkpoint().expect("checkpoints");
        }
    }
    let mut sorted = names;
    sorted.sort();
    let (mut met, mut after): (Vec<String>, Option<Vec<u8>>) = (Vec::new(), None);
    loop {
        let page = store.scan(ks, b"k", after.as_deref(), 17, Number::MAX).expect("scans");
        let Some((last, _)) = page.last() else { break };
        after = Some(last.as_bytes().to_vec());
        met.extend(page.iter().map(|(key, _)| key.to_string()));
    }
    assert_eq!(met, sorted);
    assert_eq!(store.scan(ks, b"k001", None, 100, Number::MAX).expect("scans").len(), 10);
}

#[test]
fn truncating_and_extending_for_ever_does_not_grow_the_entry() {
    let disk = SimDisk::new(7);
    let store = open(&disk);
    let ks = keyspace(&store);
    let mut expected = Vec::new();
    for round in 0..200u64 {
        let cut = expected.len();
        write(&store, ks, "a", cut as u64, &pattern(3, 1500));
        expected.extend(pattern(3, 1500));
        expected.truncate(cut + 1000);
        let size = expected.len() as u64;
        let change_size = BlobChange {
            existence: Existence::Keep,
            cut: Some(size),
            holes: Vec::new(),
            size,
            attributes: None,
            writes: vec![],
        };
        change(&store, ks, "a", &change_size);
        if round % 50 == 49 {
            settle(&store);
        }
    }
    assert!(read(&store, ks, "a", Number::MAX).as_ref() == Some(&expected));
    let grown = BlobChange {
        existence: Existence::Keep,
        cut: None,
        holes: Vec::new(),
        size: 300_000,
        attributes: None,
        writes: vec![],
    };
    change(&store, ks, "a", &grown);
    expected.resize(300_000, 0);
    settle(&store);
    store.checkpoint().expect("checkpoints");
    assert!(read(&store, ks, "a", Number::MAX).as_ref() == Some(&expected));
    let entry_bytes = store.stats().index.bytes;
    assert!(entry_bytes < 100_000, "{entry_bytes}");
    drop(store);
    let store = open(&disk.crash(CrashMode::LoseAll));
    assert!(read(&store, ks, "a", Number::MAX).as_ref() == Some(&expected));
}

#[test]
fn a_store_that_is_closed_or_crashes_before_anything_was_written_can_be_opened() {
    let disk = SimDisk::new(1);
    for _ in 0..3 {
        open(&disk).close().expect("closes");
    }
    let store = open(&disk);
    settle(&store);
    drop(store);
    for mode in CrashMode::ALL {
        open(&disk.crash(mode)).close().expect("closes");
    }
}

#[test]
fn the_age_of_the_oldest_pin_is_told_by_the_clock_that_was_given() {
    let clock = SimClock::new();
    let store = Store::open(SimDisk::new(1), clock.clone(), Create::New, options()).expect("opens");
    let ks = keyspace(&store);
    let ages = || (store.stats().pins, store.stats().oldest_pin);
    assert_eq!(ages(), (0, None));
    let first = store.pin_keyspaces(&[ks]).expect("pins");
    clock.advance(Duration::from_secs(20));
    let second = store.pin_blob(ks, &key("a"), Wait::Allowed).expect("pins");
    assert_eq!(ages(), (2, Some(20.0)));
    clock.advance(Duration::from_millis(1500));
    drop(first);
    assert_eq!(ages(), (1, Some(1.5)));
    drop(second);
    assert_eq!(ages(), (0, None));
}
