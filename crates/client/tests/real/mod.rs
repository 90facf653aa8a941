//! Real servers, in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use tempfile::TempDir;
use tyr_net::Address;
use tyr_proto::cluster::ClassSettings;
use tyr_server::{Server, Settings, Timing};

/// Servers with their directories; each partition has a replica at every one of them, or at one only.
pub struct Servers {
    /// What they keep, by place.
    pub directories: Vec<TempDir>,
    running: Vec<Option<Server>>,
    addresses: Vec<Address>,
    settings: fn(&Path) -> Settings,
    replicas: u8,
}

impl Servers {
    /// So many, with these settings but for what makes them one cluster on this machine.
    pub fn start(count: u8, settings: fn(&Path) -> Settings) -> Servers {
        Servers::start_with(count, count, settings)
    }

    /// The same, each partition with a replica at one of them only: what that holds is not served while it is away.
    pub fn start_scattered(count: u8, settings: fn(&Path) -> Settings) -> Servers {
        Servers::start_with(count, 1, settings)
    }

    fn start_with(count: u8, replicas: u8, settings: fn(&Path) -> Settings) -> Servers {
        let directories = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        let (running, addresses) = (Vec::new(), Vec::new());
        let mut servers = Servers { directories, running, addresses, settings, replicas };
        for place in 0..servers.directories.len() {
            let join = servers.addresses.first().cloned();
            let settings = Settings { join: join.into_iter().collect(), ..servers.settings(place) };
            let server = start(settings);
            servers.addresses.push(server.address().clone());
            servers.running.push(Some(server));
        }
        servers
    }

    fn settings(&self, place: usize) -> Settings {
        let usual = (self.settings)(self.directories[place].path());
        let class = ClassSettings { replicas: self.replicas, min_replicas: 1, ..usual.class };
        Settings { class, timing: Timing::near(), http: Some("127.0.0.1:0".to_owned()), ..usual }
    }

    /// How many files the server at a place has handed to clients on this host.
    pub fn handed(&self, place: usize) -> u64 {
        sum(&self.metrics(place), "tyr_files_handed_total")
    }

    /// How many readers the server at a place has answered.
    pub fn reads(&self, place: usize) -> u64 {
        sum(&self.metrics(place), "tyr_reads_total")
    }

    /// Whether every partition is held by all servers, as many are led by each as the others lead, and nothing moves any more.
    pub fn partitions_are_settled(&self) -> bool {
        let all: Vec<String> = (0..self.running.len()).map(|place| self.metrics(place)).collect();
        let ring = |state: &str| {
            let name = format!("tyr_ring_partitions{{state=\"{state}\"}}");
            all.iter().map(|metrics| sum(metrics, &name)).sum::<u64>()
        };
        let led = |metrics: &String| {
            let of_primaries = metrics.lines().filter(|line| line.contains("role=\"primary\""));
            of_primaries.map(|line| sum(line, "tyr_partitions")).sum::<u64>()
        };
        let least = all.iter().map(led).min().unwrap();
        let all_led = all.iter().map(led).sum::<u64>();
        all_led > 0
            && ring("total") == all_led
            && ring("complete") == all_led
            && ring("moving") == 0
            && least >= all_led / all.len() as u64
    }

    fn metrics(&self, place: usize) -> String {
        let mut stream = TcpStream::connect(self.server(place).http_address().unwrap()).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics).unwrap();
        metrics
    }

    /// Whether the server at a place has ended by itself.
    pub fn has_ended(&self, place: usize) -> bool {
        self.server(place).status().has_ended
    }

    /// What clients open.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        format!("tyr://{}", addresses.join(","))
    }

    fn server(&self, place: usize) -> &Server {
        self.running[place].as_ref().unwrap()
    }

    /// Ends a server as if its process was killed, and starts it again at its place.
    pub fn kill_and_start(&mut self, place: usize) {
        self.kill(place);
        self.running[place] = Some(start(self.again(place)));
    }

    /// Ends a server as if its process was killed.
    pub fn kill(&mut self, place: usize) {
        drop(self.running[place].take());
    }

    /// Starts a server that was killed again at its place, and does not wait until it is ready.
    pub fn begin(&mut self, place: usize) {
        self.running[place] = Some(Server::start(self.again(place)).unwrap());
    }

    /// Whether the server at a place was killed.
    pub fn is_killed(&self, place: usize) -> bool {
        self.running[place].is_none()
    }

    /// Waits until every server that runs is ready.
    pub fn settle(&self) {
        self.running.iter().flatten().for_each(wait);
    }

    fn again(&self, place: usize) -> Settings {
        Settings { listen: self.addresses[place].clone(), ..self.settings(place) }
    }
}

/// The sum of the values of a metric in what a server tells, whatever their labels are if none are named.
fn sum(metrics: &str, name: &str) -> u64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit_once(' ')?.1.trim().parse::<u64>().ok()
    };
    metrics.lines().filter_map(value).sum()
}

fn start(settings: Settings) -> Server {
    let server = Server::start(settings).unwrap();
    wait(&server);
    server
}

fn wait(server: &Server) {
    assert!(server.wait(Duration::from_secs(60), |status| status.is_ready), "it becomes ready");
}
