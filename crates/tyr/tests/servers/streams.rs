//! What a node says on standard output and standard error, and who does not read it.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, ErrorKind, PipeWriter, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::{Pid, Signal, kill_process},
};

use super::{Node, json, tyr};

/// A process that runs a node, of which nobody reads standard output.
struct Unread(Child);

impl Unread {
    fn stop(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// What runs a node that listens at a socket in the directory, and the URL of its cluster.
fn server(directory: &Path) -> (Command, String) {
    let address = format!("unix:{}", directory.join("socket").display());
    let mut command = tyr(["server", "--partitions", "16", "--listen", &address, "--directory"]);
    command.arg(directory.join("node"));
    (command, format!("tyr://{address}"))
}

#[test]
fn a_node_goes_on_when_nobody_reads_what_it_tells_on_standard_output() {
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    for out in [Stdio::from(closed), Stdio::from(full)] {
        let directory = tempfile::tempdir().unwrap();
        let (mut command, url) = server(directory.path());
        let mut node = Unread(command.stdout(out).stderr(Stdio::piped()).spawn().unwrap());
        let log = BufReader::new(node.0.stderr.take().unwrap()).lines().map(Result::unwrap);
        let told = log.filter(|line| line.contains("is not heard")).take(1).count();
        assert_eq!(told, 1, "it has ended");
        // It serves.
        while json(&url, &["cluster", "status"])["nodes"].as_array().unwrap().is_empty() {}
        assert!(node.stop().success());
    }
}

/// Writes as much as there is room for.
fn fill(pipe: &mut PipeWriter) {
    let flags = fcntl_getfl(&*pipe).unwrap();
    fcntl_setfl(&*pipe, flags | OFlags::NONBLOCK).unwrap();
    let full = std::iter::repeat_with(|| pipe.write_all(b".")).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    fcntl_setfl(&*pipe, flags).unwrap();
}

#[test]
fn a_node_serves_and_stops_though_the_reader_of_its_log_stands_still() {
    let directory = tempfile::tempdir().unwrap();
    let (mut command, url) = server(directory.path());
    let (reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    command.args(["--json", "--log", "trace"]).stderr(writer);
    let mut node = Node::run(command);
    node.wait_for("ready");
    json(&url, &["keyspace", "create", "notes"]);
    assert!(node.stop().success());
    // It was there to the end.
    drop(reader);
}

#[test]
fn a_node_that_is_stopped_before_it_has_joined_ends_well() {
    let directory = tempfile::tempdir().unwrap();
    let (mut command, _) = server(directory.path());
    let nobody = format!("unix:{}", directory.path().join("nobody").display());
    command.args(["--log", "debug", "--join", &nobody]).stderr(Stdio::piped());
    let mut node = Unread(command.spawn().unwrap());
    let log = BufReader::new(node.0.stderr.take().unwrap());
    let mut lines = log.lines().map(Result::unwrap);
    let waits = lines.find(|line| line.contains("not connected to a node that is named to join by"));
    assert!(waits.is_some(), "it has ended");
    assert!(node.stop().success());
    let told = lines.find(|line| line.contains("stopped before it had joined"));
    assert!(told.is_some(), "it says why it ends");
}

#[test]
fn a_node_that_stops_says_what_nobody_else_holds() {
    for (replicas, durability, expected) in [
        ("2", "memory", "what the node held is handed over"),
        ("1", "memory", "nobody else holds these partitions, which are in memory"),
        ("1", "disk", "they are served when the node is started again"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let place = |number: u32| directory.path().join(number.to_string());
        let more = ["--replicas", replicas, "--durability", durability];
        let mut first = Node::start_with(&place(1), "127.0.0.1:0", &[], &more);
        first.wait_for("ready");
        let mut command = tyr(["server", "--json", "--log", "info", "--listen", "127.0.0.1:0"]);
        command.args(["--join", &first.address, "--directory"]).arg(place(2)).stderr(Stdio::piped());
        let mut second = Node::run(command);
        let address = second.wait_for("listening")["address"].as_str().unwrap().to_owned();
        second.wait_for("ready");
        json(&format!("tyr://{}", first.address), &["cluster", "add", &address]);
        let log = BufReader::new(second.process.stderr.take().unwrap());
        assert!(second.stop().success());
        let said: Vec<String> = log.lines().map(Result::unwrap).collect();
        assert!(said.iter().any(|line| line.contains(expected)), "{replicas} {durability}: {said:#?}");
        let is_handed_over = said.iter().any(|line| line.contains("handed over"));
        assert_eq!(is_handed_over, replicas == "2", "{said:#?}");
        drop(first);
    }
}

#[test]
fn a_node_that_can_take_no_connection_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = server(directory.path());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 200 && exec \"$@\"", "sh"]).arg(server.get_program());
    command.args(server.get_args()).args(["--json", "--log", "warn", "--shards", "1"]).env_clear();
    let mut node = Node::run({
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    });
    node.wait_for("ready");
    let socket = directory.path().join("socket");
    let dialed: Vec<_> =
        (0..200).map_while(|_| std::os::unix::net::UnixStream::connect(&socket).ok()).collect();
    let log = BufReader::new(node.process.stderr.take().unwrap());
    let told = log.lines().map(Result::unwrap).find(|line| line.contains("no connection can be taken"));
    assert!(told.is_some_and(|line| line.contains("WARN") && line.contains("Too many open files")));
    drop(dialed);
}
