//! The rehearsal of a restore: a cluster of processes is backed up while it is written to, destroyed, and made again from its archives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use serde_json::Value;
use tyr_client::{
    KeyspaceSettings,
    blocking::{Keyspace, Store},
};

/// A process that runs a node.
struct Node {
    process: Child,
    lines: BufReader<ChildStdout>,
    address: String,
}

impl Node {
    /// Starts a node, and waits until it listens.
    fn start(directory: &Path, join: &[&str]) -> Node {
        let mut command =
            tyr(["server", "--json", "--log", "warn", "--partitions", "16", "--segment-size", "1MiB"]);
        command.arg("--directory").arg(directory).args(["--listen", "127.0.0.1:0"]);
        if !join.is_empty() {
            command.args(["--join", &join.join(",")]);
        }
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
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

/// Three nodes, and how clients reach them.
struct Cluster {
    nodes: Vec<Node>,
    url: String,
}

impl Cluster {
    fn start(directory: &Path) -> Cluster {
        let mut nodes: Vec<Node> = Vec::new();
        for number in 1..=3 {
            let known: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
            let mut node = Node::start(&directory.join(number.to_string()), &known);
            node.wait_for("ready");
            nodes.push(node);
        }
        let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
        let url = format!("tyr://{}", addresses.join(","));
        Cluster { nodes, url }
    }

    /// Kills all nodes at once; nothing of them is left.
    fn destroy(mut self, directory: &Path) {
        self.nodes.clear();
        fs::remove_dir_all(directory).unwrap();
    }

    /// Runs a verb that succeeds.
    fn run(&self, arguments: &[&str]) -> Value {
        let output = tyr(["--json", "--store", &self.url].iter().chain(arguments)).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// What a verb says that fails.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = tyr(["--store", &self.url].iter().chain(arguments)).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// The command, without anything of this machine's environment.
fn tyr(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tyr"));
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What the keyspace should have: content and one attribute of each blob.
type Model = BTreeMap<String, (Vec<u8>, Option<Vec<u8>>)>;

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        // Knuth's constants for a linear congruence; the high bits are good.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| u8::try_from(self.next(256)).unwrap()).collect()
    }
}

fn write(keyspace: &Keyspace, model: &mut Model, key: &str, offset: usize, bytes: &[u8]) {
    keyspace.write(key, offset as u64, bytes).unwrap();
    let content = &mut model.entry(key.to_owned()).or_default().0;
    content.resize(content.len().max(offset + bytes.len()), 0);
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

fn truncate(keyspace: &Keyspace, model: &mut Model, key: &str, size: usize) {
    keyspace.truncate(key, size as u64).unwrap();
    model.get_mut(key).unwrap().0.resize(size, 0);
}

/// Asserts that a keyspace has what the model has, and the pair of blobs in which the same number was always written together.
fn assert_is(keyspace: &Keyspace, model: &Model) -> u64 {
    let entries = keyspace.scan("", None, usize::MAX).unwrap();
    let keys: Vec<&str> =
        entries.iter().map(|entry| std::str::from_utf8(entry.key.as_bytes()).unwrap()).collect();
    let mut expected: Vec<&str> = model.keys().map(String::as_str).collect();
    expected.extend(PAIR);
    expected.sort_unstable();
    assert_eq!(keys, expected);
    for (key, (content, attribute)) in model {
        let blob = keyspace.get(key).unwrap();
        assert!(blob.bytes == *content, "{key} has other bytes");
        assert_eq!(blob.stat.attributes.value("of").map(<[u8]>::to_vec), *attribute, "{key}");
    }
    let [one, other] = PAIR.map(|key| keyspace.read(key, ..).unwrap());
    assert_eq!(one, other, "both were written in one transaction");
    u64::from_be_bytes(one.try_into().unwrap())
}

const PAIR: [&str; 2] = ["pair/one", "pair/other"];

#[test]
fn a_cluster_that_is_destroyed_is_made_again_from_its_archives() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let archive = |name: &str| place(name).to_str().unwrap().to_owned();
    let (full, more) = (archive("full"), archive("more"));
    let cluster = Cluster::start(&place("old"));
    let store = Store::open(&cluster.url).unwrap();
    let settings = KeyspaceSettings { chunk_size: 64 << 10, ..KeyspaceSettings::default() };
    let keyspace = store.create_keyspace("data", settings).unwrap();
    let (mut numbers, mut model) = (Numbers(7), Model::new());
    for blob in 0..50 {
        let (key, size) = (format!("blob/{blob}"), numbers.next(1 << (1 + blob % 17)));
        let bytes = numbers.bytes(size);
        write(&keyspace, &mut model, &key, 0, &bytes);
        if blob % 3 == 0 {
            keyspace.set_attribute(&key, "of", Some(&blob.to_string().into_bytes())).unwrap();
            model.get_mut(&key).unwrap().1 = Some(blob.to_string().into_bytes());
        }
    }
    // One with holes: before, between, and after what was written.
    for offset in [200_000, 1_000_000] {
        let bytes = numbers.bytes(100_000);
        write(&keyspace, &mut model, "sparse", offset, &bytes);
    }
    truncate(&keyspace, &mut model, "sparse", 3_000_000);

    // Somebody goes on writing all the time.
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (store, keyspace, stop, written) =
            (store.clone(), keyspace.clone(), stop.clone(), written.clone());
        thread::spawn(move || {
            for number in 1_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let bytes = number.to_be_bytes();
                let put = store.run(|transaction| {
                    PAIR.iter().try_for_each(|key| transaction.put(&keyspace, key, bytes))
                });
                put.unwrap();
                written.store(number, Ordering::Relaxed);
            }
        })
    };
    while written.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    let before = written.load(Ordering::Relaxed);
    let exported = cluster.run(&["snapshot", "export", "data", &full]);
    assert_eq!(exported["blobs"], model.len() + 2);
    let first_model = model.clone();
    for blob in [1, 8, 15, 22] {
        let bytes = numbers.bytes(5000);
        write(&keyspace, &mut model, &format!("blob/{blob}"), 100, &bytes);
    }
    write(&keyspace, &mut model, "sparse", 2_000_000, b"something new");
    truncate(&keyspace, &mut model, "blob/16", 70_000);
    truncate(&keyspace, &mut model, "blob/32", 10);
    truncate(&keyspace, &mut model, "blob/32", 100_000);
    keyspace.set_attribute("blob/0", "of", None).unwrap();
    model.get_mut("blob/0").unwrap().1 = None;
    for key in ["blob/2", "blob/3"] {
        keyspace.delete(key).unwrap();
        model.remove(key).unwrap();
    }
    write(&keyspace, &mut model, "blob/3", 0, b"another one of the same name");
    write(&keyspace, &mut model, "new", 0, &numbers.bytes(150_000));
    let exported = cluster.run(&["snapshot", "export", "data", &more, "--since", &full]);
    assert!(exported["data"].as_u64().unwrap() < exported["bytes"].as_u64().unwrap() / 2, "{exported}");
    let between = written.load(Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    cluster.run(&["snapshot", "verify", &full, &more]);
    assert!(cluster.refused(&["snapshot", "verify", &more]).contains("only what changed since"));
    store.close().unwrap();
    drop(keyspace);
    cluster.destroy(&place("old"));

    let cluster = Cluster::start(&place("new"));
    let store = Store::open(&cluster.url).unwrap();
    cluster.run(&["snapshot", "import", &full, &more, "data", "--verify"]);
    let keyspace = store.keyspace("data").unwrap();
    assert_eq!(keyspace.settings().chunk_size, 64 << 10);
    let seen = assert_is(&keyspace, &model);
    assert!(before <= seen && seen <= between + 1, "{before} {seen} {between}");
    // The first archive alone, and then what changed since.
    cluster.run(&["snapshot", "import", &full, "standby", "--standby"]);
    let standby = store.keyspace("standby").unwrap();
    assert!(standby.exists(".tyr-import").unwrap());
    for (key, (content, _)) in &first_model {
        assert!(standby.read(key, ..).unwrap() == *content, "{key} is not what it was");
    }
    cluster.run(&["snapshot", "import", &full, &more, "standby"]);
    assert_eq!(assert_is(&standby, &model), seen);
    // A mistake, and back.
    write(&keyspace, &mut model.clone(), "sparse", 1_050_000, &[0; 1000]);
    write(&keyspace, &mut model.clone(), "mistake", 0, b"nobody wanted this");
    truncate(&keyspace, &mut model.clone(), "new", 5);
    keyspace.delete("blob/1").unwrap();
    assert!(
        cluster
            .refused(&["snapshot", "verify", &full, &more, "--against", "data"])
            .contains("4 of its blobs differ")
    );
    let restored = cluster.run(&["snapshot", "restore", "data", "--from", &full, &more, "--yes"]);
    assert_eq!((&restored["written"], &restored["removed"]), (&3.into(), &1.into()));
    assert_eq!(assert_is(&keyspace, &model), seen);
    store.close().unwrap();
}
