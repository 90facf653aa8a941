//! Nodes as processes: one is killed, and is served on; it comes back, and nothing that was acknowledged is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../server/tests/kit/mod.rs"]
mod kit;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use kit::Driver;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tyr_proto::{Outcome, cluster::Fact};

/// A process that runs a node.
struct Node {
    process: Child,
    lines: BufReader<ChildStdout>,
    address: String,
}

impl Node {
    /// Starts a node, and waits until it listens.
    fn start(directory: &Path, listen: &str, join: &[&str]) -> Node {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tyr"));
        command.args(["server", "--json", "--log", "warn", "--partitions", "16", "--segment-size", "1MiB"]);
        command.arg("--directory").arg(directory).args(["--listen", listen]);
        if !join.is_empty() {
            command.args(["--join", &join.join(",")]);
        }
        command.env_clear().env("HOME", directory).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut node = Node { process, lines, address: String::new() };
        node.address = node.wait_for("listening")["address"].as_str().unwrap().to_owned();
        node
    }

    /// Waits until it says that something has happened.
    fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it has ended before it was {event}");
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["event"] == event {
                return said;
            }
        }
    }

    /// Asks it to stop, and waits until it has.
    fn stop(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        self.process.wait().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

/// Waits until three nodes hold every partition.
fn settle(driver: &mut Driver) {
    let is_whole = |fact: &Fact| match fact {
        Fact::Partition(_, configuration, proposal) => {
            configuration.replicas.len() == 3 && proposal.is_none()
        }
        _ => true,
    };
    while !driver.ring().facts.iter().all(is_whole) {
        std::thread::yield_now();
    }
}

#[test]
fn a_node_that_is_killed_is_missed_by_nobody_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: u32| directory.path().join(number.to_string());
    let mut first = Node::start(&place(1), "127.0.0.1:0", &[]);
    first.wait_for("ready");
    let mut second = Node::start(&place(2), "127.0.0.1:0", &[&first.address]);
    let mut third = Node::start(&place(3), "127.0.0.1:0", &[&first.address, &second.address]);
    second.wait_for("ready");
    third.wait_for("ready");
    let addresses = [&first, &second, &third].map(|node| node.address.parse().unwrap());
    let mut driver = Driver::new(&addresses, 77);
    settle(&mut driver);
    let keyspace = driver.keyspace("events");
    let keys = ["a", "b", "c", "d"];
    let mut expected = Vec::new();
    let mut write = |driver: &mut Driver, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let bytes = number.to_be_bytes();
            assert_eq!(driver.append(keyspace, &keys, &bytes), Outcome::Committed);
            expected.extend(bytes);
        }
        for key in keys {
            assert_eq!(driver.read(keyspace, key).as_ref(), Some(&expected), "{key}");
        }
    };
    write(&mut driver, 0..20);
    // The process of the node that leads the cluster manager.
    first.process.kill().unwrap();
    first.process.wait().unwrap();
    write(&mut driver, 20..40);
    let mut first = Node::start(&place(1), &first.address.clone(), &[]);
    first.wait_for("ready");
    settle(&mut driver);
    second.process.kill().unwrap();
    second.process.wait().unwrap();
    write(&mut driver, 40..60);
    for node in [first, third] {
        assert!(node.stop().success());
    }
}
