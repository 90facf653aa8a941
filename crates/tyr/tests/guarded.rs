//! A guarded cluster of three processes, as its operators and users see it: by the command.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cli/shape.rs"]
mod shape;

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use shape::{Part, examples, shape};

/// A process that runs a node, and all that it says on standard error.
struct Node {
    process: Child,
    lines: BufReader<ChildStdout>,
    log: Option<JoinHandle<String>>,
    address: String,
}

impl Node {
    fn start(directory: &Path, secret: &Path, join: &[&str]) -> Node {
        let mut command =
            tyr(&["server", "--json", "--log", "trace", "--partitions", "16", "--segment-size", "1MiB"]);
        command.arg("--directory").arg(directory).args(["--listen", "127.0.0.1:0"]);
        command.arg("--secret-file").arg(secret).stderr(Stdio::piped());
        if !join.is_empty() {
            command.args(["--join", &join.join(",")]);
        }
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut errors = process.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            errors.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Node { process, lines, log: Some(log), address: String::new() }
    }

    /// Waits until it says that something has happened, and returns what it says.
    fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it has ended before it was {event}");
            let said: Value = serde_json::from_str(&line).unwrap();
            if event == "ready" && said["event"] == "listening" || said["event"] == event {
                if let Some(address) = said["address"].as_str() {
                    self.address = address.to_owned();
                }
                if said["event"] == event {
                    return said;
                }
            }
        }
    }

    /// Stops it, and tells what it has logged.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
        self.log.take().unwrap().join().unwrap()
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
fn tyr(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tyr"));
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Somebody who uses the command, and all that it has said to him.
struct Person<'a> {
    url: &'a str,
    variable: &'static str,
    file: PathBuf,
    heard: String,
}

impl<'a> Person<'a> {
    fn new(url: &'a str, variable: &'static str, file: PathBuf) -> Self {
        Person { url, variable, file, heard: String::new() }
    }

    fn run(&mut self, arguments: &[&str]) -> Output {
        let mut command = tyr(&["--json", "--store", self.url]);
        let output = command.args(arguments).env(self.variable, &self.file).output().unwrap();
        self.heard += &String::from_utf8_lossy(&output.stdout);
        self.heard += &String::from_utf8_lossy(&output.stderr);
        output
    }

    /// What is printed when it succeeds.
    fn does(&mut self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// It fails for want of rights.
    fn may_not(&mut self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(16), "{arguments:?}: {output:?}");
    }
}

#[test]
fn three_nodes_with_a_secret_serve_users_by_their_rights() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let secret = place("secret");
    assert!(tyr(&["secret"]).arg(&secret).status().unwrap().success());
    assert!(!tyr(&["secret"]).arg(&secret).stderr(Stdio::null()).status().unwrap().success(), "it is kept");
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["one", "two", "three"] {
        let join: Vec<&str> = nodes.first().map(|first| first.address.as_str()).into_iter().collect();
        let mut node = Node::start(&place(name), &secret, &join);
        node.wait_for("ready");
        nodes.push(node);
    }
    let urls: Vec<String> = nodes.iter().map(|node| format!("tyr://{}", node.address)).collect();

    // The same whichever node is asked: one carries to the other what it cannot do.
    let mut operator = Person::new(&urls[1], "TYR_SECRET_FILE", secret.clone());
    operator.does(&["keyspace", "create", "events"]);
    operator.does(&["keyspace", "create", "hidden"]);
    operator.does(&["blob", "transform", "hidden/n", "add", "u64", "0", "7"]);
    assert_eq!(operator.does(&["user", "list"])["accounts"], Value::Array(Vec::new()), "there are none yet");
    operator.does(&["user", "create", "ada"]);
    operator.does(&["group", "create", "writers"]);
    operator.does(&["group", "add", "writers", "ada"]);
    operator.does(&["grant", "writers", "read,write", "events"]);
    let users = operator.does(&["user", "list"]);
    assert_eq!(users["accounts"][0]["groups"][0], "writers");
    let token = place("ada.token");
    operator.does(&["token", "create", "ada", "--output", token.to_str().unwrap()]);
    assert_eq!(fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);

    let mut heard = String::new();
    for url in &urls {
        let mut ada = Person::new(url, "TYR_TOKEN_FILE", token.clone());
        ada.does(&["blob", "transform", "events/n", "add", "u64", "0", "1"]);
        ada.may_not(&["blob", "transform", "hidden/n", "add", "u64", "0", "1"]);
        ada.may_not(&["blob", "stat", "hidden/n"]);
        ada.may_not(&["keyspace", "create", "mine"]);
        ada.may_not(&["cluster", "drain", "2"]);
        assert_eq!(ada.does(&["cluster", "status"])["nodes"].as_array().unwrap().len(), 3);
        ada.may_not(&["user", "list"]);
        for command in ["token create ada", "user remove ada", "grant ada read events"] {
            ada.may_not(&command.split(' ').collect::<Vec<_>>());
        }
        // She may not look into nodes, but they tell her their versions.
        let seen = ada.does(&["doctor"])["findings"].clone();
        let about = |subject: &str, verdict: &str| {
            let seen = seen.as_array().unwrap().iter();
            let is_so = |one: &&Value| {
                one["subject"].as_str().unwrap().starts_with(subject) && one["verdict"] == verdict
            };
            seen.filter(is_so).map(|one| one["found"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(about("node ", "skipped").len(), 3, "{seen}");
        assert_eq!(about("versions", "good"), ["all nodes and this command have the same"]);
        heard += &ada.heard;
    }

    // What was not granted is not revoked, and it is said by what it stays.
    let output = operator.run(&["revoke", "ada", "write", "events"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(13) && complaint.contains("granted to 'writers'"), "{complaint}");

    // Taken away at one node, it is gone at all of them in a moment. Of all rights those go that were granted.
    operator.does(&["grant", "writers", "read,write", "events"]);
    operator.does(&["revoke", "writers", "all", "events"]);
    operator.does(&["grant", "writers", "read", "events"]);
    for url in &urls {
        let mut ada = Person::new(url, "TYR_TOKEN_FILE", token.clone());
        while ada.run(&["blob", "transform", "events/n", "add", "u64", "0", "1"]).status.code() != Some(16) {}
        heard += &ada.heard;
    }
    operator.does(&["token", "revoke", "ada"]);
    for url in &urls {
        let mut ada = Person::new(url, "TYR_TOKEN_FILE", token.clone());
        while ada.run(&["cluster", "status", "--timeout", "5"]).status.code() != Some(16) {}
        heard += &ada.heard;
    }
    assert!(heard.contains("revoked"), "{heard}");

    // A file that others can read is no secret, and no token.
    for (variable, path) in [("TYR_TOKEN_FILE", &token), ("TYR_SECRET_FILE", &secret)] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut careless = Person::new(&urls[0], variable, path.clone());
        let output = careless.run(&["keyspace", "list"]);
        assert!(!output.status.success());
        assert!(careless.heard.contains("chmod 600"), "{}", careless.heard);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    // What was done is written down by the node through which it was.
    let lines = |name: &str| {
        let output = tyr(&["--json", "audit"]).arg(place(name)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let audited = lines("two");
    assert!(audited.contains("\"granted\":\"read,write\""), "{audited}");
    let all = ["one", "two", "three"].map(lines).concat();
    assert!(all.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    let denied = all.lines().filter(|line| line.contains("\"drain\"") && line.contains("\"denied\""));
    assert_eq!(denied.count(), 3, "{all}");

    // Nothing that anybody has said or logged, and nothing but what is meant to keep it, has a secret in it.
    let secrets = [fs::read_to_string(&secret).unwrap(), fs::read_to_string(&token).unwrap()];
    let seed = secrets[1][5..69].to_owned();
    let logs: String = nodes.into_iter().map(Node::stop).collect();
    assert!(logs.contains("TRACE"));
    for text in [logs, heard, operator.heard, all] {
        for secret in secrets.iter().map(|text| text.trim()).chain([&seed[..]]) {
            assert!(!text.contains(secret));
        }
    }
}

#[test]
fn all_earlier_tokens_are_voided_by_one_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let text = |name: &str| place(name).to_str().unwrap().to_owned();
    assert!(tyr(&["secret", &text("secret")]).status().unwrap().success());
    let mut node = Node::start(&place("one"), &place("secret"), &[]);
    node.wait_for("ready");
    let url = format!("tyr://{}", node.address);
    let mut operator = Person::new(&url, "TYR_SECRET_FILE", place("secret"));
    for command in ["user create root", "user create ada", "grant root administer --cluster"] {
        operator.does(&command.split(' ').collect::<Vec<_>>());
    }
    operator.does(&["token", "create", "root", "--output", &text("root.token")]);
    operator.does(&["token", "rotate"]);
    operator.does(&["token", "create", "ada", "--output", &text("ada.token")]);
    let mut root = Person::new(&url, "TYR_TOKEN_FILE", place("root.token"));
    let mut ada = Person::new(&url, "TYR_TOKEN_FILE", place("ada.token"));
    ada.does(&["cluster", "status"]);
    let lasting = root.run(&["token", "create", "ada", "--lifetime", "99999d"]);
    assert!(String::from_utf8(lasting.stderr).unwrap().contains("days at most"));
    // Its own among them, on which its right to do so rests.
    let rotated = root.does(&["token", "rotate", "--revoke-earlier"]);
    assert_eq!(rotated["removed"].as_array().unwrap().len(), 2, "{rotated}");
    ada.may_not(&["cluster", "status"]);
    root.may_not(&["cluster", "status"]);
}

#[test]
fn a_node_that_others_reach_does_not_start_without_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = tyr(&["server", "--listen", "0.0.0.0:0", "--advertise", "localhost:7700"]);
    let output = command.arg("--directory").arg(directory.path().join("node")).output().unwrap();
    assert_eq!(output.status.code(), Some(15));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--insecure") && said.contains("tyr secret"), "{said}");
    assert!(!directory.path().join("node").exists(), "nothing was done");
}

#[test]
fn what_is_printed_on_a_cluster_has_the_documented_shape() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let documented = examples(Part::Clusters);
    let mut checked = BTreeSet::new();
    let mut check = |command: &str, printed: &Value| {
        let headings =
            documented.keys().filter(|heading| format!("{command} ").starts_with(&format!("{heading} ")));
        let heading = headings
            .max_by_key(|heading| heading.len())
            .unwrap_or_else(|| panic!("{command} is not documented"));
        assert_eq!(shape(printed), shape(&documented[heading]), "{command}: {printed}");
        checked.insert(heading.clone());
    };
    let secret = place("secret");
    let output = tyr(&["secret", "--json", &secret]).output().unwrap();
    check("tyr secret", &serde_json::from_slice(&output.stdout).unwrap());
    let mut first = Node::start(Path::new(&place("one")), Path::new(&secret), &[]);
    check("tyr server", &first.wait_for("listening"));
    first.wait_for("ready");
    let mut second = Node::start(Path::new(&place("two")), Path::new(&secret), &[&first.address]);
    second.wait_for("ready");
    let url = format!("tyr://{}", first.address);
    let mut operator = Person::new(&url, "TYR_SECRET_FILE", secret.into());
    operator.does(&["keyspace", "create", "events", "--quota", "1KiB"]);
    while operator.does(&["keyspace", "show", "events"])["bytes"] != 0 {}
    let (token, one) = (place("ada.token"), place("one"));
    let add = format!("cluster add {}", second.address);
    for command in [
        "keyspace show events",
        &add,
        "cluster status",
        "cluster ring",
        "node status",
        "user create ada",
        "group create analysts",
        "group add analysts ada",
        "grant ada read,write events",
        "user list",
        "group list",
        &format!("token create ada --output {token}"),
        "revoke ada write events",
        "group dismiss analysts ada",
        "token revoke ada",
        "token rotate",
        "group remove analysts",
        "user remove ada",
        "cluster drain 2 --wait 600",
        "cluster remove 2",
    ] {
        let printed = operator.does(&command.split(' ').collect::<Vec<_>>());
        check(&format!("tyr {command}"), &printed);
    }
    let shown = tyr(&["token", "show", "--json", "--token-file", &token]).output().unwrap();
    check("tyr token show", &serde_json::from_slice(&shown.stdout).unwrap());
    let lines = String::from_utf8(tyr(&["audit", "--json", &one]).output().unwrap().stdout).unwrap();
    check("tyr audit", &serde_json::from_str(lines.lines().next().unwrap()).unwrap());
    let found = tyr(&["doctor", "--json", "--directory", &one]).output().unwrap();
    check("tyr doctor", &serde_json::from_slice(&found.stdout).unwrap());
    let mut dev = tyr(&["dev", "-n", "1", "--json", "--keep", &place("dev")]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(dev.stdout.take().unwrap()).read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&dev), Signal::TERM).unwrap();
    assert!(dev.wait().unwrap().success());
    check("tyr dev", &serde_json::from_str(&line).unwrap());
    let unchecked: Vec<_> = documented.keys().filter(|heading| !checked.contains(*heading)).collect();
    assert!(unchecked.is_empty(), "{unchecked:?}");
}
