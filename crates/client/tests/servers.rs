//! Real servers, in this process: what programs see of them is what they see of a directory, also while one of them is away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod programs;

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tempfile::TempDir;
use tyr_client::{ErrorKind, KeyspaceSettings, blocking::Store};
use tyr_net::Address;
use tyr_proto::cluster::ClassSettings;
use tyr_server::{Server, Settings, Timing};

/// Three servers with their directories.
struct Servers {
    directories: [TempDir; 3],
    running: Vec<Server>,
    url: String,
}

fn settings(directory: &Path, join: &[Address]) -> Settings {
    Settings {
        join: join.to_vec(),
        class: ClassSettings { partitions: 16, min_replicas: 1, ..ClassSettings::new(3) },
        timing: Timing::near(),
        ..Settings::new(directory)
    }
}

fn start(settings: Settings) -> Server {
    let server = Server::start(settings).unwrap();
    assert!(server.wait(Duration::from_secs(60), |status| status.is_ready), "it becomes ready");
    server
}

impl Servers {
    fn start() -> Servers {
        let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let first = start(settings(directories[0].path(), &[]));
        let join = [first.address().clone()];
        let mut running = vec![first];
        running.extend(directories[1..].iter().map(|directory| start(settings(directory.path(), &join))));
        let addresses: Vec<_> = running.iter().map(|server| server.address().to_string()).collect();
        let url = format!("tyr://{}", addresses.join(","));
        Servers { directories, running, url }
    }

    /// Ends a server as if its process was killed, and starts it again at its place.
    fn kill_and_start(&mut self, place: usize) {
        let address = self.running[place].address().clone();
        drop(self.running.remove(place));
        let again = Settings { listen: address, ..settings(self.directories[place].path(), &[]) };
        self.running.insert(place, start(again));
    }
}

#[test]
fn programs_are_told_by_servers_what_a_directory_tells_them() {
    let servers = Servers::start();
    for (name, program) in programs::ALL {
        let directory = tempfile::tempdir().unwrap();
        let embedded = programs::run(directory.path().to_str().unwrap(), program);
        assert_eq!(embedded, programs::run(&servers.url, program), "{name}");
    }
}

#[test]
fn writers_go_on_while_servers_are_killed_and_nothing_acknowledged_is_lost() {
    let mut servers = Servers::start();
    let store = Store::open(&servers.url).unwrap();
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
