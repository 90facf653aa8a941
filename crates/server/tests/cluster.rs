//! Three servers in one process, on loopback: they find one another, serve, and lose nothing that was acknowledged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kit;

use std::{path::Path, time::Duration};

use kit::{Driver, Growing};
use tempfile::TempDir;
use tyr_net::Address;
use tyr_proto::{
    ClassId, Outcome, Refusal, Use,
    cluster::{ClassSettings, Command, Fact, Request, Response},
};
use tyr_server::{Guarding, Server, Settings, Timing};
use tyr_types::{ErrorKind, KeyspaceName, KeyspaceSettings};

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
    let mut blobs = Growing::new(&mut driver, &["a", "b", "c", "d", "e"]);
    blobs.append(&mut driver, 0..50);
    let address = second.address().clone();
    second.stop().unwrap();
    blobs.append(&mut driver, 50..100);
    let again = Settings { listen: address, ..settings(directories[1].path(), &[]) };
    let second = Server::start(again).unwrap();
    assert_eq!(second.node().0, 2, "it is who it was");
    assert!(second.wait(Duration::from_secs(60), |status| status.is_ready));
    settle(&mut driver, &third, 3);
    blobs.append(&mut driver, 100..150);
    drop(first);
    blobs.append(&mut driver, 150..200);
    second.stop().unwrap();
    third.stop().unwrap();
}

#[test]
fn what_nodes_hold_is_told_by_nodes_only() {
    kit::log();
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = start(&directories[0], &[]);
    let second = start(&directories[1], &[first.address().clone()]);
    // Whoever does not lead carries what a client asks for, as its own.
    for server in [&first, &second] {
        let mut driver = Driver::new(&[server.address().clone()], 5 + u64::from(server.node().0));
        let files = driver.keyspace(&format!("files-{}", server.node().0));
        driver.command(Command::SetQuota { id: files, quota: Some(1 << 30) }).unwrap();
        let forged = [(files, Use { blobs: 1, bytes: 1 << 40 })].into();
        let Response::Uses(total) = driver.ask(&Request::Uses(forged)) else { panic!("no total") };
        assert_eq!(total.get(&files).copied().unwrap_or_default(), Use::default());
    }
}

#[test]
fn who_founds_a_cluster_holds_something() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { weight: 0, ..settings(directory.path(), &[]) };
    let error = Server::start(settings).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    // It has founded nothing.
    start(&directory, &[]).stop().unwrap();
}

#[test]
fn a_node_that_stops_hands_over_long_before_its_lease_is_over() {
    kit::log();
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    // Nobody here waits for as long as a lease lasts.
    let patient = |directory: &TempDir, join: &[Address]| {
        let mut settings = settings(directory.path(), join);
        settings.timing.lease.length = 600_000_000;
        settings.timing.manager.lease = settings.timing.lease;
        settings
    };
    let first = Server::start(patient(&directories[0], &[])).unwrap();
    let join = [first.address().clone()];
    let second = Server::start(patient(&directories[1], &join)).unwrap();
    let third = Server::start(patient(&directories[2], &join)).unwrap();
    let addresses = [&first, &second, &third].map(|server| server.address().clone());
    let mut driver = Driver::new(&addresses, 82);
    settle(&mut driver, &third, 3);
    for server in [&first, &second, &third] {
        assert!(server.wait(Duration::from_secs(60), |status| status.voters == 3));
    }
    let keyspace = driver.keyspace("events");
    let keys = ["a", "b", "c", "d", "e"];
    let write = |driver: &mut Driver| assert_eq!(driver.append(keyspace, &keys, b"1"), Outcome::Committed);
    write(&mut driver);
    let listen = second.address().clone();
    second.stop().unwrap();
    write(&mut driver);
    let second = Server::start(Settings { listen, ..patient(&directories[1], &[]) }).unwrap();
    assert!(second.wait(Duration::from_secs(60), |status| status.is_ready));
    settle(&mut driver, &third, 3);
    // It has led the cluster manager, unless another one was elected meanwhile.
    first.stop().unwrap();
    write(&mut driver);
    for key in keys {
        assert_eq!(driver.read(keyspace, key).as_deref(), Some(&b"111"[..]), "{key}");
    }
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

/// Three nodes of one cluster, and where they are.
fn start_three(directories: &[TempDir; 3]) -> ([Server; 3], [Address; 3]) {
    let first = start(&directories[0], &[]);
    let join = [first.address().clone()];
    let servers = [first, start(&directories[1], &join), start(&directories[2], &join)];
    let addresses = servers.each_ref().map(|server| server.address().clone());
    (servers, addresses)
}

#[test]
fn when_all_are_killed_and_one_does_not_start_again_the_others_serve_all_that_was_acknowledged() {
    kit::log();
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let (servers, addresses) = start_three(&directories);
    let mut driver = Driver::new(&addresses, 80);
    settle(&mut driver, &servers[0], 3);
    let keyspace = driver.keyspace("events");
    let keys: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
    for key in &keys {
        assert_eq!(driver.append(keyspace, &[key], key.as_bytes()), Outcome::Committed);
    }
    drop(servers);
    let servers = [1, 2].map(|place: usize| {
        let again =
            Settings { listen: addresses[place].clone(), ..settings(directories[place].path(), &addresses) };
        Server::start(again).unwrap()
    });
    for key in &keys {
        assert_eq!(driver.append(keyspace, &[key], b"!"), Outcome::Committed);
        assert_eq!(driver.read(keyspace, key), Some(format!("{key}!").into_bytes()));
    }
    servers.into_iter().for_each(|server| server.stop().unwrap());
}

#[test]
fn nodes_that_all_come_back_at_other_addresses_find_one_another() {
    kit::log();
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let (servers, addresses) = start_three(&directories);
    let mut driver = Driver::new(&addresses, 79);
    settle(&mut driver, &servers[0], 3);
    servers.into_iter().for_each(|server| server.stop().unwrap());
    // Each knows where the next one is now, and nobody knows more.
    let addresses: [Address; 3] = free_addresses();
    let servers = [0, 1, 2].map(|place: usize| {
        let join = [addresses[(place + 1) % 3].clone()];
        let listen = addresses[place].clone();
        let again = Settings { listen, ..settings(directories[place].path(), &join) };
        Server::start(again).unwrap()
    });
    for server in &servers {
        assert!(server.wait(Duration::from_secs(60), |status| status.is_ready));
    }
    servers.into_iter().for_each(|server| server.stop().unwrap());
}

/// Addresses at which nobody listens.
fn free_addresses<const COUNT: usize>() -> [Address; COUNT] {
    let sockets = [(); COUNT].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| Address::Tcp(socket.local_addr().unwrap().to_string()))
}

#[test]
fn a_node_can_join_by_one_that_has_only_just_joined() {
    kit::log();
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let addresses: [Address; 3] = free_addresses();
    let wait_to_join = |place: usize| {
        let join = [addresses[place - 1].clone()];
        let listen = addresses[place].clone();
        let settings = Settings { listen, ..settings(directories[place].path(), &join) };
        std::thread::spawn(move || Server::start(settings).unwrap())
    };
    // The third asks the second while that belongs to nobody.
    let second = wait_to_join(1);
    let third = wait_to_join(2);
    wait_for_connection(&addresses[2]);
    let listen = addresses[0].clone();
    let first = Server::start(Settings { listen, ..settings(directories[0].path(), &[]) }).unwrap();
    let servers = [first, second.join().unwrap(), third.join().unwrap()];
    for server in &servers {
        assert!(server.wait(Duration::from_secs(60), |status| status.is_ready));
    }
    servers.into_iter().for_each(|server| server.stop().unwrap());
}

/// Waits until somebody listens there, and so has opened its directories.
fn wait_for_connection(address: &Address) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(address.to_string()).is_err() {
        assert!(std::time::Instant::now() < end, "nobody listens at {address}");
        std::thread::yield_now();
    }
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
fn a_stranger_at_an_address_to_join_by_ends_no_node_that_has_others() {
    kit::log();
    let directories = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let first = start(&directories[0], &[]);
    let second = start(&directories[1], &[first.address().clone()]);
    let stranger = start(&directories[2], &[]);
    second.stop().unwrap();
    let join = [stranger.address().clone(), first.address().clone()];
    let second = start(&directories[1], &join);
    assert_eq!(second.cluster(), first.cluster());
    let mut driver = Driver::new(&[second.address().clone()], 81);
    let id = driver.keyspace("served");
    assert_eq!(driver.append(id, &["blob"], b"."), Outcome::Committed);
    assert!(!second.status().has_ended);
    for server in [second, stranger, first] {
        server.stop().unwrap();
    }
}

#[test]
fn a_new_node_that_cannot_be_where_it_is_to_be_reached_makes_nothing() {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let somebody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = somebody.local_addr().unwrap().to_string();
    let nowhere = directories[0].path().join("new");
    for (there, directory) in [(false, nowhere.as_path()), (true, directories[1].path())] {
        let http = Some(taken.clone());
        let refused = Server::start(Settings { http, ..settings(directory, &[]) }).err().unwrap();
        assert!(refused.message().contains("cannot serve HTTP at 127.0.0.1:"), "{refused}");
        let refused = Server::start(Settings { weight: 0, ..settings(directory, &[]) }).err().unwrap();
        assert!(refused.message().contains("nobody holds anything"), "{refused}");
        // An address of another machine, and a port that somebody has.
        for listen in ["192.0.2.1:0", &taken] {
            let (listen, guarding) = (listen.parse().unwrap(), Guarding::Insecure);
            let refused = Settings { listen, guarding, ..settings(directory, &[]) };
            let refused = Server::start(refused).err().unwrap();
            assert!(refused.message().contains("cannot listen at "), "{refused}");
            assert_eq!(directory.exists(), there);
        }
    }
    assert_eq!(std::fs::read_dir(directories[1].path()).unwrap().count(), 0);
    // So that it can join another cluster.
    let first = start(&directories[0], &[]);
    let second = start(&directories[1], &[first.address().clone()]);
    assert_eq!(first.cluster(), second.cluster());
    second.stop().unwrap();
    first.stop().unwrap();
}

#[test]
fn a_server_that_cannot_keep_the_cluster_managers_journal_ends_and_says_why() {
    kit::log();
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path(), &[]);
    settings.timing.manager.snapshot_after = 5;
    let server = Server::start(settings).unwrap();
    assert!(server.wait(Duration::from_secs(60), |status| status.is_ready));
    let mut driver = Driver::new(&[server.address().clone()], 80);
    // No other file can be begun there, which each snapshot does.
    let manager = directory.path().join("manager");
    while manager.exists() {
        // One that is being begun meanwhile is in the way.
        let _once_more = std::fs::remove_dir_all(&manager);
    }
    let has_ended = (0..500).any(|number: u32| {
        let name = KeyspaceName::new(&format!("keyspace-{number}")).unwrap();
        let settings = KeyspaceSettings::default();
        let create = Command::CreateKeyspace { name, class: ClassId(0), seed: 5, settings };
        driver.send_request(&Request::Command(create));
        server.wait(Duration::from_millis(100), |status| status.has_ended)
    });
    assert!(has_ended, "it does not go on without its journal");
    let error = server.stop().unwrap_err();
    assert!(error.to_string().contains("journal"), "{error}");
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

#[test]
fn a_directory_that_is_missing_or_moved_is_not_taken_for_a_new_one() {
    kit::log();
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    start(&directory, &[]).stop().unwrap();
    start(&other, &[]).stop().unwrap();
    let node = directory.path().join("node");
    std::fs::rename(&node, other.path().join("away")).unwrap();
    let error = Server::start(settings(directory.path(), &[])).err().expect("it is refused");
    assert!(error.to_string().contains("does not say which one"), "{error}");
    assert!(!node.exists(), "no cluster is founded with what is there");
    std::fs::rename(other.path().join("away"), &node).unwrap();
    let refused = || Server::start(settings(directory.path(), &[])).err().expect("it is refused");
    let part = |name: &str| directory.path().join(name);
    for name in ["shard-0", "shard-1", "manager"] {
        std::fs::rename(part(name), part("away")).unwrap();
        let error = refused();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(name), "{error}");
        assert!(!part(name).exists(), "nothing is made in its place");
        std::fs::create_dir(part(name)).unwrap();
        assert_eq!(refused().kind(), ErrorKind::NotFound, "nor in an empty one");
        std::fs::remove_dir(part(name)).unwrap();
        std::fs::rename(other.path().join(name), part(name)).unwrap();
        assert_eq!(refused().kind(), ErrorKind::Invalid, "nor is another node's taken for it");
        std::fs::rename(part(name), other.path().join(name)).unwrap();
        std::fs::rename(part("away"), part(name)).unwrap();
    }
    std::fs::rename(part("shard-0"), part("away")).unwrap();
    std::fs::rename(part("shard-1"), part("shard-0")).unwrap();
    std::fs::rename(part("away"), part("shard-1")).unwrap();
    let error = refused();
    assert!(error.to_string().contains("shard 1 of 2"), "{error}");
    std::fs::rename(part("shard-1"), part("away")).unwrap();
    std::fs::rename(part("shard-0"), part("shard-1")).unwrap();
    std::fs::rename(part("away"), part("shard-0")).unwrap();
    start(&directory, &[]).stop().unwrap();
}

#[test]
fn a_target_that_fails_takes_only_its_own_partitions_with_it() {
    kit::log();
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let first = start(&directories[0], &[]);
    let join = [first.address().clone()];
    let targets =
        [1, 2].map(|number| tyr_server::TargetSettings::new(directories[1].path().join(number.to_string())));
    let second = Settings { targets: targets.to_vec(), ..settings(directories[1].path(), &join) };
    let second = Server::start(second).unwrap();
    let third = start(&directories[2], &join);
    let addresses = [&first, &second, &third].map(|server| server.address().clone());
    let mut driver = Driver::new(&addresses, 81);
    settle(&mut driver, &third, 3);
    let keyspace = driver.keyspace("events");
    // No other file can be begun on the second target, which a log does when a segment is full.
    while targets[1].path.exists() {
        // A file that is being begun meanwhile is in the way.
        let _once_more = std::fs::remove_dir_all(&targets[1].path);
    }
    let keys: Vec<String> = (0..96).map(|number| format!("key {number}")).collect();
    let mut expected = Vec::new();
    let is_missed = |driver: &mut Driver| {
        let second = second.node();
        let holds = |fact: &Fact, shard: u32| match fact {
            Fact::Partition(id, configuration, _) if id.index % 2 == shard => {
                configuration.replicas.iter().any(|replica| replica.node == second)
            }
            _ => false,
        };
        let facts = driver.ring().facts;
        let [even, odd] = [0, 1].map(|shard| facts.iter().filter(|fact| holds(fact, shard)).count());
        assert_eq!(even, 8, "the other target's partitions stay");
        odd == 0
    };
    for round in 0.. {
        let bytes = [u8::try_from(round).expect("it fails before"); 4 << 10];
        for key in &keys {
            assert_eq!(driver.append(keyspace, &[key], &bytes), Outcome::Committed);
        }
        expected.extend(bytes);
        if is_missed(&mut driver) {
            break;
        }
    }
    for key in &keys {
        assert_eq!(driver.read(keyspace, key).as_ref(), Some(&expected), "{key}");
    }
    assert!(second.status().is_ready && !second.status().has_ended);
    let error = second.stop().unwrap_err();
    assert!(error.to_string().contains("shard 1"), "{error}");
}

#[test]
fn what_a_keyspace_held_is_deleted_when_that_is_dropped_and_nothing_else() {
    kit::log();
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory, &[]);
    let mut driver = Driver::new(&[server.address().clone()], 78);
    let [kept, dropped] = ["kept", "dropped"].map(|name| driver.keyspace(name));
    let keys: Vec<String> = (0..300).map(|number| format!("b{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for keyspace in [kept, dropped] {
        assert_eq!(driver.append(keyspace, &keys, b"x"), Outcome::Committed);
    }
    driver.command(Command::DropKeyspace(dropped)).unwrap();
    // A client that has not heard of it looks at the heads themselves.
    for key in &keys {
        while driver.read(dropped, key).is_some() {}
    }
    assert_eq!(driver.append(dropped, &["new"], b"x"), Outcome::Refused(Refusal::NotFound));
    for key in &keys {
        assert_eq!(driver.read(kept, key).as_deref(), Some(&b"x"[..]), "{key}");
    }
    server.stop().unwrap();
}
