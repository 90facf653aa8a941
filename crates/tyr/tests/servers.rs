//! Nodes as processes: one is killed, and is served on; it comes back, and nothing that was acknowledged is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../server/tests/kit/mod.rs"]
mod kit;

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
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
        let mut command =
            tyr(["server", "--json", "--log", "warn", "--partitions", "16", "--segment-size", "1MiB"]);
        command.arg("--directory").arg(directory).args(["--listen", listen]);
        if !join.is_empty() {
            command.args(["--join", &join.join(",")]);
        }
        let mut node = Node::run(command);
        node.address = node.wait_for("listening")["address"].as_str().unwrap().to_owned();
        node
    }

    fn run(mut command: Command) -> Node {
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Node { process, lines, address: String::new() }
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

/// The command, without anything of this machine's environment.
fn tyr(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tyr"));
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// What the command prints as JSON, when it succeeds.
fn json(url: &str, arguments: &[&str]) -> Value {
    let output = tyr(["--json", "--store", url].iter().chain(arguments)).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
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

#[test]
fn a_throw_away_cluster_works_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = tyr(["dev", "-n", "3", "--json", "--log", "warn"]);
    command.env("TMPDIR", directory.path());
    let mut cluster = Node::run(command);
    let ready = cluster.wait_for("ready");
    let url = ready["url"].as_str().unwrap();
    json(url, &["keyspace", "create", "notes"]);
    json(url, &["blob", "transform", "notes/visits", "add", "u64", "0", "1"]);
    let status = json(url, &["cluster", "status"]);
    assert_eq!((status["nodes"].as_array().unwrap().len(), &status["keyspaces"]), (3, &1.into()));
    assert_eq!(json(url, &["cluster", "ring"])["partitions"].as_array().unwrap().len(), 32);
    let refused = tyr(["--store", url, "cluster", "drain", "9"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no such node"), "{refused:?}");
    assert!(cluster.stop().success());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn health_and_metrics_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        tyr(["server", "--json", "--log", "warn", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.args(["--partitions", "16", "--segment-size", "1MiB", "--directory"]).arg(directory.path());
    let mut node = Node::run(command);
    let http = node.wait_for("listening")["http"].as_str().unwrap().to_owned();
    node.wait_for("ready");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {http}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/live").starts_with("HTTP/1.1 200"));
    assert!(get("/ready").ends_with("ready\n"));
    assert!(get("/elsewhere").starts_with("HTTP/1.1 404"));
    let metrics = get("/metrics");
    assert!(metrics.contains("\ntyr_ready 1\n") && metrics.contains("channel=\"manager\""), "{metrics}");
    assert!(node.stop().success());
}
