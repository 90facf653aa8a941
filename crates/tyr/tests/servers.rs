//! Nodes as processes: one is killed, and is served on; it comes back, and nothing that was acknowledged is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "servers/devices.rs"]
mod devices;
#[path = "../../server/tests/kit/mod.rs"]
mod kit;
#[path = "servers/minority.rs"]
mod minority;
#[path = "servers/observability.rs"]
mod observability;
#[path = "servers/quotas.rs"]
mod quotas;
#[path = "servers/streams.rs"]
mod streams;

use std::{
    ffi::OsStr,
    fs::Permissions,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use kit::Driver;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
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
        Node::start_with(directory, listen, join, &[])
    }

    fn start_with(directory: &Path, listen: &str, join: &[&str], more: &[&str]) -> Node {
        let mut command =
            tyr(["server", "--json", "--log", "warn", "--partitions", "16", "--segment-size", "1MiB"]);
        command.arg("--directory").arg(directory).args(["--listen", listen]).args(more);
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

/// What the command says on standard error, when it fails.
fn refused(url: &str, arguments: &[&str]) -> String {
    let output = tyr(["--store", url].iter().chain(arguments)).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// What the doctor finds of a cluster and a directory.
fn findings(url: &str, directory: &Path) -> String {
    let mut doctor = tyr(["doctor", "--listen", "127.0.0.1:0", "--store", url, "--directory"]);
    String::from_utf8(doctor.arg(directory).output().unwrap().stdout).unwrap()
}

/// Waits until the cluster manager has evicted a node.
fn wait_until_missed(url: &str, number: u32) {
    let is_present = |node: &Value| node["node"] == number && node["presence"] == "present";
    while json(url, &["cluster", "status"])["nodes"].as_array().unwrap().iter().any(is_present) {}
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
fn nodes_come_are_replaced_and_are_forgotten_for_good() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: u32| directory.path().join(number.to_string());
    let mut nodes: Vec<Node> = Vec::new();
    for number in 1..=4 {
        let join: Vec<&str> = nodes.first().map(|first| first.address.as_str()).into_iter().collect();
        let mut node = Node::start(&place(number), "127.0.0.1:0", &join);
        node.wait_for("ready");
        nodes.push(node);
    }
    let url =
        format!("tyr://{}", nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(","));
    let url = url.as_str();
    assert_eq!(json(url, &["cluster", "add", &nodes[3].address])["node"], 4);
    json(url, &["keyspace", "create", "notes"]);
    json(url, &["blob", "transform", "notes/visits", "add", "u64", "0", "41"]);
    let status = json(url, &["node", "status", "4"]);
    let partitions = status[0]["shards"]
        .as_array()
        .unwrap()
        .iter()
        .map(|shard| shard["partitions"].as_array().unwrap().len());
    assert!(status[0]["ready"] == true && partitions.sum::<usize>() >= 12, "{status}");
    assert!(status[0]["shards"][0]["free_bytes"].as_u64().unwrap() > 0);
    let all = json(url, &["node", "status"]);
    assert_eq!(all.as_array().unwrap().len(), 4);
    assert_eq!(all.as_array().unwrap().iter().filter(|node| node["leads_manager"] == true).count(), 1);

    assert!(refused(url, &["cluster", "remove", "1"]).contains("drain it first"));
    assert!(refused(url, &["cluster", "replace", "1", "1"]).contains("another one"));
    json(url, &["cluster", "drain", "2", "--wait", "60"]);
    assert!(refused(url, &["cluster", "add", &nodes[1].address]).contains("is drained: 'tyr cluster add 2'"));
    json(url, &["cluster", "add", "2"]);
    // The one that leads the cluster manager, and knows of its end.
    json(url, &["cluster", "replace", "1", "4"]);
    let ended = nodes[0].process.wait().unwrap();
    assert!(!ended.success(), "a node that was removed does not go on");
    let mut killed = nodes.remove(1);
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    wait_until_missed(url, 2);
    json(url, &["cluster", "remove", "2"]);
    let status = json(url, &["cluster", "status"]);
    let left: Vec<&Value> = status["nodes"].as_array().unwrap().iter().map(|node| &node["node"]).collect();
    assert_eq!(left, [3, 4]);
    assert_eq!(status["partitions"]["unserved"], 0);
    assert_eq!(
        status["partitions"]["complete"], status["partitions"]["total"],
        "it was not forgotten before"
    );
    assert_eq!(json(url, &["blob", "transform", "notes/visits", "add", "u64", "0", "1"])["old"], 41);
    let left = findings(url, &place(2));
    assert!(left.contains("WRONG    node of the directory: node 2 was removed from the cluster"), "{left}");
    let mut back = Node::start(&place(2), "127.0.0.1:0", &[]);
    assert!(!back.process.wait().unwrap().success(), "its number never comes back");
}

#[test]
fn nodes_of_two_clusters_are_not_taken_for_one() {
    let directory = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let mut node = Node::start(&directory.path().join(name), "127.0.0.1:0", &[]);
        node.wait_for("ready");
        node
    };
    let (one, other) = (start("one"), start("other"));
    let url = format!("tyr://{},{}", one.address, other.address);
    for words in [["cluster", "status"], ["keyspace", "list"], ["keyspace", "create"]].repeat(5) {
        let mut command = tyr(["--store", &url].iter().copied().chain(words));
        command.args((words[1] == "create").then_some("lost"));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(15), "{words:?}: {said}");
        assert!(said.contains("of 2 clusters; name nodes of one"), "{words:?}: {said}");
    }
    let found = findings(&format!("tyr://{}", one.address), &directory.path().join("other"));
    assert!(found.contains("which is not the one that --store names"), "{found}");
    // Nobody is waited for where nobody can be.
    let url = format!("tyr://127.0.0.1:1,{}", one.address);
    assert!(tyr(["--store", &url, "keyspace", "list"]).status().unwrap().success());
    for node in [one, other] {
        assert!(node.stop().success());
    }
}

#[test]
fn of_two_processes_that_run_from_copies_of_a_directory_one_ends() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let start = |name: &str, address: &str, founder: &[&str]| {
        let mut command = tyr(["server", "--json", "--log", "off", "--partitions", "16"]);
        command.arg("--directory").arg(place(name)).args(["--listen", address]).stderr(Stdio::piped());
        command.args(founder.iter().flat_map(|founder| ["--join", founder]));
        let mut node = Node::run(command);
        node.address = node.wait_for("listening")["address"].as_str().unwrap().to_owned();
        node
    };
    let ends = |mut node: Node, other: &str| {
        let mut told = String::new();
        node.process.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(node.process.wait().unwrap().code(), Some(14), "{told}");
        assert!(told.contains("another process") && told.contains(other), "{told}");
    };
    let mut founder = start("founder", "127.0.0.1:0", &[]);
    founder.wait_for("ready");
    let url = format!("tyr://{}", founder.address);
    let add =
        |number: &str| assert!(tyr(["--store", &url, "cluster", "add", number]).status().unwrap().success());
    add("1");
    let mut node = start("node", "127.0.0.1:0", &[&founder.address]);
    node.wait_for("ready");
    add("2");
    let address = node.address.clone();
    assert!(node.stop().success());
    assert!(Command::new("cp").arg("-a").args([place("node"), place("copy")]).status().unwrap().success());

    // As often as the directory was started, so was the copy: it has what belongs to the other one.
    let mut copy = start("copy", "127.0.0.1:0", &[]);
    copy.wait_for("ready");
    ends(start("node", &address, &[]), &copy.address);
    // Who is started anew goes on, and the one that was there ends.
    let mut node = start("node", &address, &[]);
    node.wait_for("ready");
    ends(copy, &address);
    add("2");
    let status = json(&url, &["cluster", "status"]);
    assert_eq!(status["nodes"][1]["address"], address.as_str(), "{status}");
    let of_copy = findings(&url, &place("copy"));
    assert!(of_copy.contains("only 2 times from this directory: it is an older copy"), "{of_copy}");
    let of_node = findings(&url, &place("node"));
    assert!(of_node.contains("good     node of the directory: it is node 2 of this cluster"), "{of_node}");
    for node in [node, founder] {
        assert!(node.stop().success());
    }
}

#[test]
fn a_node_that_is_to_join_by_itself_ends_and_what_it_leaves_is_told_from_what_belongs_to_a_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (node, socket) = (place("node"), format!("unix:{}", place("socket")));
    let start = |more: &[&str]| {
        let settings = ["server", "--directory", &node, "--listen", &socket, "--join", &socket];
        let output = tyr(settings.iter().chain(more)).output().unwrap();
        assert_eq!(output.status.code(), Some(15), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = start(&["--shards", "1"]);
    assert!(said.contains("that is its own address"), "{said}");
    let said = start(&["--shards", "2"]);
    assert!(said.contains("shard-0' was left by a start that never joined a cluster"), "{said}");
    std::fs::remove_dir_all(place("node")).unwrap();
    let said = start(&["--shards", "2"]);
    assert!(said.contains("that is its own address"), "{said}");
}

#[test]
fn a_node_that_is_not_at_its_address_is_told_from_the_one_that_is() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: u32| directory.path().join(number.to_string());
    let mut first = Node::start(&place(1), "127.0.0.1:0", &[]);
    first.wait_for("ready");
    let more = ["--advertise", &first.address];
    let second = Node::start_with(&place(2), "127.0.0.1:0", &[&first.address], &more);
    let url = format!("tyr://{}", first.address);
    let all = json(&url, &["node", "status"]);
    let told: Vec<_> =
        all.as_array().unwrap().iter().map(|node| [&node["node"], &node["other_node"]]).collect();
    assert_eq!(told, [[&Value::from(1), &Value::Null], [&2.into(), &1.into()]], "{all}");
    let said = refused(&url, &["node", "status", "2"]);
    assert!(said.contains("node 2 does not answer: node 1 is at its address"), "{said}");
    let found = findings(&url, &place(3));
    let expected = format!("WRONG    node 2 at {}: node 1 is at this address", first.address);
    assert!(found.contains(&expected), "{found}");
    drop(second);
}

#[test]
fn the_stores_of_a_node_are_checked_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::start(directory.path(), "127.0.0.1:0", &[]);
    node.wait_for("ready");
    assert!(node.stop().success());
    let place = directory.path().to_str().unwrap();
    let said = refused(place, &["check"]);
    let shard = format!("{place}/shard-0");
    assert!(said.contains("is a node's directory") && said.contains(&shard), "{said}");
    let checked = tyr(["check", "--store", &shard]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let keyspaces = || json(&shard, &["stats"])["keyspaces"].clone();
    let before = keyspaces();
    for changing in [&["keyspace", "drop", "node", "--yes"][..], &["keyspace", "create", "other"]] {
        let said = refused(&shard, changing);
        assert!(said.contains("is the store of a node"), "{said}");
    }
    assert_eq!(keyspaces(), before);
}

#[test]
fn the_only_copy_is_lost_by_force_alone() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: u32| directory.path().join(number.to_string());
    let mut first = Node::start_with(&place(1), "127.0.0.1:0", &[], &["--replicas", "1"]);
    first.wait_for("ready");
    let mut second = Node::start(&place(2), "127.0.0.1:0", &[&first.address]);
    second.wait_for("ready");
    let url = format!("tyr://{}", first.address);
    json(&url, &["cluster", "add", &second.address]);
    json(&url, &["keyspace", "create", "notes"]);
    second.process.kill().unwrap();
    second.process.wait().unwrap();
    wait_until_missed(&url, 2);
    let said = refused(&url, &["cluster", "remove", "2"]);
    assert!(said.contains("only copy") && said.contains("--force"), "{said}");
    assert!(json(&url, &["cluster", "status"])["partitions"]["unserved"].as_u64().unwrap() > 0);
    let told = tyr(["--store", &url, "cluster", "status"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("served by nobody") && told.contains("'tyr cluster remove 2'"), "{told}");
    json(&url, &["cluster", "remove", "2", "--force"]);
    let status = json(&url, &["cluster", "status"]);
    assert_eq!(
        (&status["partitions"]["unserved"], &status["partitions"]["complete"]),
        (&0.into(), &16.into())
    );
    for key in 0..8 {
        json(&url, &["blob", "transform", &format!("notes/{key}"), "add", "u64", "0", "1"]);
    }
    assert!(first.stop().success());
}

#[test]
fn a_node_that_is_away_with_the_only_copy_is_not_drained_before_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: u32| directory.path().join(number.to_string());
    let mut first = Node::start_with(&place(1), "127.0.0.1:0", &[], &["--replicas", "1"]);
    first.wait_for("ready");
    let mut second = Node::start(&place(2), "127.0.0.1:0", &[&first.address]);
    second.wait_for("ready");
    let url = format!("tyr://{}", first.address);
    json(&url, &["cluster", "add", &second.address]);
    second.process.kill().unwrap();
    second.process.wait().unwrap();
    wait_until_missed(&url, 2);
    let said = refused(&url, &["cluster", "drain", "2", "--wait", "1"]);
    assert!(said.contains("only copy") && said.contains("start it again"), "{said}");
    let told = tyr(["--store", &url, "cluster", "status"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("draining") && told.contains("is away: start it again"), "{told}");
    let second = Node::start(&place(2), &second.address.clone(), &[]);
    json(&url, &["cluster", "drain", "2", "--wait", "60"]);
    let status = json(&url, &["cluster", "status"]);
    let partitions = &status["partitions"];
    assert_eq!((&partitions["unserved"], &partitions["complete"]), (&0.into(), &16.into()));
    for node in [first, second] {
        assert!(node.stop().success());
    }
}

#[test]
fn a_cluster_in_memory_has_keyspaces_in_memory_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::start_with(directory.path(), "127.0.0.1:0", &[], &["--durability", "memory"]);
    node.wait_for("ready");
    let url = format!("tyr://{}", node.address);
    let said = refused(&url, &["keyspace", "create", "notes"]);
    assert!(said.contains("no placement class of durability 'disk'"), "{said}");
    json(&url, &["keyspace", "create", "notes", "--durability", "memory"]);
    json(&url, &["blob", "transform", "notes/visits", "add", "u64", "0", "41"]);
    assert_eq!(json(&url, &["blob", "transform", "notes/visits", "add", "u64", "0", "1"])["old"], 41);
    assert!(node.stop().success());
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
    let drained = tyr(["--store", url, "cluster", "drain", "3"]).output().unwrap();
    let warning = String::from_utf8_lossy(&drained.stderr);
    assert!(
        drained.status.success() && warning.contains("2 remain, and there should be 3 replicas"),
        "{warning}"
    );
    assert!(cluster.stop().success());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_cluster_that_is_kept_goes_on_at_the_same_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let run = || {
        let mut command = tyr(["dev", "-n", "3", "--json", "--log", "warn", "--keep"]);
        command.arg(directory.path());
        let mut cluster = Node::run(command);
        let url = cluster.wait_for("ready")["url"].as_str().unwrap().to_owned();
        (cluster, url)
    };
    let (cluster, first) = run();
    json(&first, &["keyspace", "create", "notes"]);
    json(&first, &["blob", "transform", "notes/visits", "add", "u64", "0", "41"]);
    assert!(cluster.stop().success());
    let (cluster, second) = run();
    assert_eq!(second, first);
    assert_eq!(json(&second, &["blob", "transform", "notes/visits", "add", "u64", "0", "1"])["old"], 41);
    assert!(cluster.stop().success());
}

#[test]
fn a_node_starts_without_a_target_that_is_lost_and_others_serve_and_rebuild_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let mut nodes: Vec<Node> = Vec::new();
    for number in 1..=3 {
        let join: Vec<&str> = nodes.first().map(|first| first.address.as_str()).into_iter().collect();
        let more = ["--replicas", "2"];
        let mut node = Node::start_with(&place(&number.to_string()), "127.0.0.1:0", &join, &more);
        node.wait_for("ready");
        nodes.push(node);
    }
    let join = nodes[0].address.clone();
    let targets = format!("{},{}", place("one").display(), place("other").display());
    let more = ["--targets", &targets, "--shards", "2"];
    let start = || {
        let mut node = Node::start_with(&place("4"), "127.0.0.1:0", &[&join], &more);
        node.wait_for("ready");
        node
    };
    let mut several = start();
    let url = format!("tyr://{join},{}", nodes[1].address);
    let whole = || {
        let status = json(&url, &["cluster", "status"]);
        let partitions = &status["partitions"];
        let is_settled = partitions["unserved"] == 0 && partitions["moving"] == 0;
        let all = is_settled && partitions["complete"] == partitions["total"];
        let four = &status["nodes"][3];
        (all && four["presence"] == "present" && four["holds"].as_u64() > Some(0)).then_some(())
    };
    let settle = || std::iter::repeat_with(whole).find(Option::is_some);
    settle();
    json(&url, &["keyspace", "create", "notes"]);
    let add = |by: &str| {
        let old = |key: u32| {
            json(&url, &["blob", "transform", &format!("notes/{key}"), "add", "u64", "0", by])["old"].clone()
        };
        (0..8).map(old).collect::<Vec<Value>>()
    };
    add("41");
    let lost = place("other").join("shard-1");
    let mut kept = place("kept");
    for case in ["gone", "empty", "another node's", "damaged"] {
        assert!(several.stop().success() || case != "gone", "nothing is lost yet");
        match case {
            "gone" => std::fs::rename(&lost, &kept).unwrap(),
            "empty" => std::fs::create_dir(&lost).unwrap(),
            "another node's" => {
                std::fs::write(lost.join("label"), "tyr-label 1\nidentity 7\npart shard 1 of 2\n").unwrap();
            }
            _ => {
                std::fs::remove_dir_all(&lost).unwrap();
                std::fs::rename(&kept, &lost).unwrap();
                kept = place("nowhere");
                for entry in std::fs::read_dir(&lost).unwrap() {
                    let path = entry.unwrap().path();
                    if path.file_name() != Some(OsStr::new("label")) {
                        std::fs::write(&path, vec![7; 8 << 10]).unwrap();
                    }
                }
            }
        }
        several = start();
        settle();
        let shards = json(&url, &["node", "status", "4"])[0]["shards"].clone();
        assert_eq!((&shards[0]["failed"], &shards[1]["failed"]), (&false.into(), &true.into()), "{case}");
        assert_eq!(add("0"), vec![Value::from(41); 8], "{case}");
    }
    drop(several);
    for node in nodes {
        assert!(node.stop().success());
    }
}

/// Makes an authority, and a certificate of it for this host.
pub fn certificates(directory: &Path) {
    certificates_as(directory, "127.0.0.1", |_| {});
}

/// The same for another name, and as the test wants it.
pub fn certificates_as(directory: &Path, name: &str, alter: impl FnOnce(&mut CertificateParams)) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    alter(&mut params);
    let certificate = params.signed_by(&key, &authority).unwrap();
    std::fs::create_dir_all(directory).unwrap();
    for (name, text) in
        [("ca.pem", authority.pem()), ("node.pem", certificate.pem()), ("node.key", key.serialize_pem())]
    {
        std::fs::write(directory.join(name), text).unwrap();
    }
    std::fs::set_permissions(directory.join("node.key"), Permissions::from_mode(0o600)).unwrap();
}

/// The flags that name them.
pub fn certificate_flags(directory: &Path) -> [String; 6] {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    [
        "--tls-authority".into(),
        path("ca.pem"),
        "--tls-certificate".into(),
        path("node.pem"),
        "--tls-key".into(),
        path("node.key"),
    ]
}

#[test]
fn a_node_neither_starts_with_certificates_that_nobody_believes_nor_takes_them_at_sighup() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    certificates(&place("good"));
    certificates_as(&place("renamed"), "elsewhere.example", |_| {});
    certificates_as(&place("old"), "127.0.0.1", |params| params.not_after = date_time_ymd(2002, 1, 1));
    certificates_as(&place("listening"), "127.0.0.1", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    certificates(&place("open"));
    std::fs::set_permissions(place("open/node.key"), Permissions::from_mode(0o644)).unwrap();
    certificates(&place("foreign"));
    std::fs::copy(place("good/ca.pem"), place("foreign/ca.pem")).unwrap();
    for (name, reason) in [
        ("renamed", "it is not for '127.0.0.1'"),
        ("old", "it has expired"),
        ("listening", "both extended key usages"),
        ("foreign", "it is of another authority"),
        ("open", "node.key' is open to every user of this machine"),
    ] {
        let node = place("node").to_str().unwrap().to_owned();
        let flags = certificate_flags(&place(name));
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let settings = [&["--directory", &node, "--listen", "127.0.0.1:0"], &flags[..]].concat();
        let output = tyr([&["server"], &settings[..]].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(15), "{name}: {said}");
        let is_believed = !said.contains("node.pem' would be believed by nobody");
        assert!(is_believed == (name == "open") && said.contains(reason), "{said}");
        assert!(!place("node").exists(), "nothing was done");
        let doctor = tyr([&["doctor"], &settings[..]].concat()).output().unwrap();
        let found = String::from_utf8(doctor.stdout).unwrap();
        assert_eq!(doctor.status.code(), Some(1), "{name}: {found}");
        assert!(found.contains("WRONG    TLS: ") && found.contains(reason), "{found}");
    }
    let mut command = tyr(["server", "--json", "--listen", "127.0.0.1:0", "--directory"]);
    command.arg(place("node")).args(certificate_flags(&place("good"))).stderr(Stdio::piped());
    let mut node = Node::run(command);
    node.wait_for("listening");
    for name in ["node.pem", "node.key"] {
        std::fs::copy(place("renamed").join(name), place("good").join(name)).unwrap();
    }
    std::fs::copy(place("renamed/ca.pem"), place("good/ca.pem")).unwrap();
    kill_process(Pid::from_child(&node.process), Signal::HUP).unwrap();
    let lines = BufReader::new(node.process.stderr.take().unwrap()).lines();
    let about = |line: &String| line.contains("certificates");
    let said = lines.map(Result::unwrap).find(about).unwrap();
    assert!(said.contains("cannot be read again") && said.contains("it is not for '127.0.0.1'"), "{said}");
}

#[test]
fn an_encrypted_cluster_takes_nobody_without_its_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let (ours, theirs) = (place("ours"), place("theirs"));
    certificates(&ours);
    certificates(&theirs);
    let (ours, theirs) = (certificate_flags(&ours), certificate_flags(&theirs));
    let with: Vec<&str> = ours.iter().map(String::as_str).collect();
    let mut nodes: Vec<Node> = Vec::new();
    for number in 1..=3 {
        let join: Vec<&str> = nodes.first().map(|first| first.address.as_str()).into_iter().collect();
        let mut node = Node::start_with(&place(&number.to_string()), "127.0.0.1:0", &join, &with);
        node.wait_for("ready");
        nodes.push(node);
    }
    let hosts = nodes.iter().map(|node| node.address.as_str()).collect::<Vec<_>>().join(",");
    let url = format!("tyr+tls://{hosts}");
    let ask = |arguments: &[&str]| json(&url, &[arguments, &with].concat());
    ask(&["keyspace", "create", "notes"]);
    ask(&["blob", "transform", "notes/visits", "add", "u64", "0", "41"]);
    assert_eq!(ask(&["blob", "transform", "notes/visits", "add", "u64", "0", "1"])["old"], 41);
    assert_eq!(ask(&["cluster", "status"])["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(ask(&["node", "status"]).as_array().unwrap().len(), 3);

    let said = refused(&url, &["cluster", "status"]);
    assert!(said.contains("--tls-authority"), "{said}");
    // At once: it will not be otherwise in a while.
    let plain = format!("tyr://{hosts}");
    let foreign: Vec<&str> = theirs.iter().map(String::as_str).collect();
    let cases: [(&str, &[&str], &str); 3] = [
        (&plain, &[], "wants TLS"),
        (&url, &with[..2], "certificate"),
        (&url, &foreign, "another authority"),
    ];
    for (url, flags, reason) in cases {
        for words in [["cluster", "status"], ["keyspace", "list"]] {
            let output = tyr(["--store", url].iter().chain(&words).chain(flags)).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(16), "{words:?} {flags:?}: {said}");
            assert!(said.contains(reason), "{words:?} {flags:?}: {said}");
        }
    }
    for node in nodes {
        assert!(node.stop().success());
    }
}
