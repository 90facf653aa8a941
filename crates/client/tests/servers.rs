//! Real servers, in this process: what programs see of them is what they see of a directory, also while one of them is away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod programs;
mod real;

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use real::Servers;
use tyr_client::{ErrorKind, KeyspaceSettings, blocking::Store};
use tyr_proto::cluster::ClassSettings;
use tyr_server::Settings;

fn settings(directory: &Path) -> Settings {
    let usual = Settings::new(directory);
    Settings { class: ClassSettings { partitions: 16, ..usual.class }, ..usual }
}

#[test]
fn programs_are_told_by_servers_what_a_directory_tells_them() {
    let servers = Servers::start(3, settings);
    for (name, program) in programs::ALL {
        let directory = tempfile::tempdir().unwrap();
        let embedded = programs::run(directory.path().to_str().unwrap(), program);
        assert_eq!(embedded, programs::run(&servers.url(), program), "{name}");
    }
}

#[test]
fn a_snapshot_with_a_name_outlives_its_client_and_servers_that_are_killed() {
    let mut servers = Servers::start(3, settings);
    let store = Store::open(servers.url()).unwrap();
    let files = store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    let name = |number: u32| format!("blob/{number:02}");
    for number in 0..40 {
        files.put(name(number), format!("old {number}")).unwrap();
    }
    store.create_snapshot(&files, "monday").unwrap();
    for number in (0..40).filter(|number| number % 3 != 0) {
        files.put(name(number), format!("0 {number}")).unwrap();
    }
    files.delete(name(7)).unwrap();
    store.close().unwrap();
    servers.kill_and_start(0);
    servers.kill_and_start(1);
    servers.kill_and_start(2);
    let store = Store::open(servers.url()).unwrap();
    let files = store.keyspace("files").unwrap();
    let snapshot = store.open_snapshot(&files, "monday").unwrap();
    for turn in 1..4 {
        for number in 0..40 {
            files.put(name(number), format!("{turn} {number}")).unwrap();
        }
        for number in 0..40 {
            let was = snapshot.read(&files, name(number), ..).unwrap();
            assert_eq!(was, format!("old {number}").into_bytes());
        }
    }
    assert_eq!(store.snapshots(&files).unwrap().len(), 1);
    store.drop_snapshot(&files, "monday").unwrap();
    assert_eq!(store.open_snapshot(&files, "monday").unwrap_err().kind(), ErrorKind::NotFound);
    drop(snapshot);
    store.close().unwrap();
}

#[test]
fn a_keyspace_that_somebody_drops_and_makes_anew_is_the_new_one_for_everybody() {
    let servers = Servers::start(3, settings);
    let (store, other) = (Store::open(servers.url()).unwrap(), Store::open(servers.url()).unwrap());
    let old = store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    let beside = store.create_keyspace("beside", KeyspaceSettings::default()).unwrap();
    old.put("a", "old").unwrap();
    let others = other.keyspace("files").unwrap();
    assert_eq!(others.read("a", ..).unwrap(), b"old");
    let mut transaction = store.begin();
    transaction.put(&old, "b", "2").unwrap();
    transaction.put(&beside, "b", "2").unwrap();
    store.drop_keyspace("files").unwrap();
    let error = transaction.commit().unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("dropped"), "{error}");
    assert!(!beside.exists("b").unwrap(), "all of it or nothing");

    let new = store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    new.put("a", "new").unwrap();
    // Nobody tells another client; that something is not there, or is refused, makes it ask.
    let error = loop {
        match others.put("b", "lost") {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("dropped"), "{error}");
    let others = other.keyspace("files").unwrap();
    assert_eq!(others.read("a", ..).unwrap(), b"new");
    others.put("b", "kept").unwrap();
    assert_eq!(new.read("b", ..).unwrap(), b"kept");

    store.drop_keyspace("files").unwrap();
    let new = store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    new.put("c", "there").unwrap();
    while !other.keyspace("files").unwrap().exists("c").unwrap() {}
}

#[test]
fn writers_go_on_while_servers_are_killed_and_nothing_acknowledged_is_lost() {
    let mut servers = Servers::start(3, settings);
    let store = Store::open(servers.url()).unwrap();
    let files = store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    let is_over = AtomicBool::new(false);
    let write = |writer: u8| {
        let mut rounds = 0u32;
        while !is_over.load(Ordering::Relaxed) {
            files.append(format!("log/{writer}"), rounds.to_be_bytes()).unwrap();
            let ran = store.run(|transaction| {
                let count = match transaction.read(&files, "count", ..) {
                    Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                    read => read?,
                };
                let count = count.try_into().map_or(0, u32::from_be_bytes);
                transaction.put(&files, "count", (count + 1).to_be_bytes())
            });
            ran.unwrap();
            rounds += 1;
        }
        rounds
    };
    let rounds = std::thread::scope(|scope| {
        let write = &write;
        let writers = [0, 1, 2].map(|writer| scope.spawn(move || write(writer)));
        servers.kill_and_start(2);
        servers.kill_and_start(0);
        is_over.store(true, Ordering::Relaxed);
        writers.map(|writer| writer.join().unwrap())
    });
    for (writer, rounds) in rounds.into_iter().enumerate() {
        let expected: Vec<u8> = (0..rounds).flat_map(u32::to_be_bytes).collect();
        assert_eq!(files.read(format!("log/{writer}"), ..).unwrap(), expected);
    }
    assert_eq!(files.read("count", ..).unwrap(), rounds.iter().sum::<u32>().to_be_bytes());
    store.close().unwrap();
}
