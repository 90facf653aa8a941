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
