//! Three servers in one process, on loopback: they find one another, serve, and lose nothing that was acknowledged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{path::Path, time::Duration};

use kit::Driver;
use tempfile::TempDir;
use tyr_net::Address;
use tyr_proto::{
    Outcome,
    cluster::{ClassSettings, Fact},
};
use tyr_server::{Server, Settings, Timing};
use tyr_types::ErrorKind;

fn settings(directory: &Path, join: &[Address]) -> Settings {
    Settings {
        join: join.to_vec(),
        class: ClassSettings { partitions: 16, min_replicas: 1, ..ClassSettings::new(3) },
        store: tyr_store::Options {
            segment_size: 1 << 20,
            index_cache: 8 << 20,
            data_cache: 0,
            ..tyr_store::Options::default()
        },
        timing: Timing::near(),
        ..Settings::new(directory)
    }
}

fn start(directory: &TempDir, join: &[Address]) -> Server {
    let server = Server::start(settings(directory.path(), join)).unwrap();
    assert!(server.wait(Duration::from_secs(60), |status| status.is_ready), "it becomes ready");
    server
}

/// Waits until every partition has so many complete replicas, and nothing is about to change.
fn settle(driver: &mut Driver, server: &Server, replicas: usize) {
    for _ in 0..1_000 {
        let difference = driver.ring();
        let partitions = difference.facts.iter().filter_map(|fact| match fact {
            Fact::Partition(_, configuration, proposal) => Some((configuration, proposal)),
            _ => None,
        });
        let partitions: Vec<_> = partitions.collect();
        let is_whole = partitions.iter().all(|(configuration, proposal)| {
            configuration.replicas.len() == replicas
                && configuration.learners.is_empty()
                && proposal.is_none()
        });
        if is_whole && partitions.len() == 16 {
            return;
        }
        let known = difference.reached.unwrap();
        server.wait(Duration::from_secs(1), |status| status.ring_version > known);
    }
    panic!("the partitions do not get their replicas");
}

#[test]
fn three_servers_lose_nothing_that_was_acknowledged_when_one_is_away() {
    kit::log();
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let first = start(&directories[0], &[]);
    let second = start(&directories[1], &[first.address().clone()]);
    let third = start(&directories[2], &[first.address().clone()]);
    assert_eq!([first.node().0, second.node().0, third.node().0], [1, 2, 3]);
    let addresses = [&first, &second, &third].map(|server| server.address().clone());
    let mut driver = Driver::new(&addresses, 77);
    settle(&mut driver, &third, 3);
    let keyspace = driver.keyspace("events");
    let keys = ["a", "b", "c", "d", "e"];
    let mut expected = Vec::new();
    let mut write = |driver: &mut Driver, from: u32, to: u32| {
        for number in from..to {
            let bytes = number.to_be_bytes();
            assert_eq!(driver.append(keyspace, &keys, &bytes), Outcome::Committed);
            expected.extend(bytes);
        }
        for key in keys {
            assert_eq!(driver.read(keyspace, key).as_ref(), Some(&expected), "{key}");
        }
    };
    write(&mut driver, 0, 50);
    let address = second.address().clone();
    second.stop().unwrap();
    write(&mut driver, 50, 100);
    let again = Settings { listen: address, ..settings(directories[1].path(), &[]) };
    let second = Server::start(again).unwrap();
    assert_eq!(second.node().0, 2, "it is who it was");
    assert!(second.wait(Duration::from_secs(60), |status| status.is_ready));
    settle(&mut driver, &third, 3);
    write(&mut driver, 100, 150);
    drop(first);
    write(&mut driver, 150, 200);
    second.stop().unwrap();
    third.stop().unwrap();
}

#[test]
fn a_server_that_is_killed_has_all_that_was_acknowledged_when_it_starts_again() {
    kit::log();
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory, &[]);
    let address = server.address().clone();
    let mut driver = Driver::new(std::slice::from_ref(&address), 78);
    let keyspace = driver.keyspace("events");
    let mut expected = Vec::new();
    for number in 0..20_u32 {
        assert_eq!(driver.append(keyspace, &["a", "b"], &number.to_be_bytes()), Outcome::Committed);
        expected.extend(number.to_be_bytes());
    }
    drop(server);
    let again = Settings { listen: address, ..settings(directory.path(), &[]) };
    let server = Server::start(again).unwrap();
    assert_eq!(driver.read(keyspace, "a"), Some(expected.clone()));
    assert_eq!(driver.read(keyspace, "b"), Some(expected));
    assert_eq!(driver.read(keyspace, "c"), None);
    server.stop().unwrap();
}

#[test]
fn a_directory_of_another_cluster_is_refused() {
    kit::log();
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let ours = start(&directories[0], &[]);
    start(&directories[1], &[]).stop().unwrap();
    let lost = Server::start(settings(directories[1].path(), &[ours.address().clone()])).unwrap();
    assert!(lost.wait(Duration::from_secs(60), |status| status.has_ended));
    let error = lost.stop().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("belongs to cluster"), "{error}");
    ours.stop().unwrap();
}

#[test]
fn a_directory_keeps_its_number_of_shards() {
    kit::log();
    let directory = tempfile::tempdir().unwrap();
    start(&directory, &[]).stop().unwrap();
    let shards = 3.try_into().unwrap();
    let error = Server::start(Settings { shards, ..settings(directory.path(), &[]) }).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("2 shards"), "{error}");
}
