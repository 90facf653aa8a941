//! Real servers, in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{path::Path, time::Duration};

use tempfile::TempDir;
use tyr_net::Address;
use tyr_proto::cluster::ClassSettings;
use tyr_server::{Server, Settings, Timing};

/// Servers with their directories; each partition has a replica at every one of them.
pub struct Servers {
    /// What they keep, by place.
    pub directories: Vec<TempDir>,
    running: Vec<Server>,
    settings: fn(&Path) -> Settings,
}

impl Servers {
    /// So many, with these settings but for what makes them one cluster on this machine.
    pub fn start(count: u8, settings: fn(&Path) -> Settings) -> Servers {
        let directories = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        let mut servers = Servers { directories, running: Vec::new(), settings };
        for place in 0..servers.directories.len() {
            let join = servers.running.first().map(|first| first.address().clone());
            let settings = Settings { join: join.into_iter().collect(), ..servers.settings(place) };
            servers.running.push(start(settings));
        }
        servers
    }

    fn settings(&self, place: usize) -> Settings {
        let replicas = u8::try_from(self.directories.len()).unwrap();
        let usual = (self.settings)(self.directories[place].path());
        let class = ClassSettings { replicas, min_replicas: 1, ..usual.class };
        Settings { class, timing: Timing::near(), ..usual }
    }

    /// What clients open.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.running.iter().map(|server| server.address().to_string()).collect();
        format!("tyr://{}", addresses.join(","))
    }

    /// Ends a server as if its process was killed, and starts it again at its place.
    pub fn kill_and_start(&mut self, place: usize) {
        let listen: Address = self.running[place].address().clone();
        drop(self.running.remove(place));
        let again = Settings { listen, ..self.settings(place) };
        self.running.insert(place, start(again));
    }
}

fn start(settings: Settings) -> Server {
    let server = Server::start(settings).unwrap();
    assert!(server.wait(Duration::from_secs(60), |status| status.is_ready), "it becomes ready");
    server
}
