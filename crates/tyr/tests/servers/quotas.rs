//! Keyspaces that may hold so much and no more, on nodes as processes.

use std::{io::Write, process::Stdio};

use tyr_client::{ErrorKind, KeyspaceSettings, blocking::Store};

use super::{Node, json, tyr};

/// Appends so many bytes by the command. What it says if it fails.
fn append(url: &str, key: &str, size: usize) -> Result<(), (Option<i32>, String)> {
    let mut command = tyr(["--store", url, "--quiet", "blob", "append", key]);
    let mut process = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(&vec![b'x'; size]).unwrap();
    let output = process.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err((output.status.code(), String::from_utf8(output.stderr).unwrap())),
    }
}

fn is_full(refused: Result<(), (Option<i32>, String)>) -> bool {
    matches!(refused, Err((Some(17), said)) if said.contains("--quota"))
}

#[test]
fn a_shard_alone_keeps_a_quota_to_the_byte() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::start_with(directory.path(), "127.0.0.1:0", &[], &["--shards", "1"]);
    node.wait_for("ready");
    let url = &format!("tyr://{}", node.address);
    json(url, &["keyspace", "create", "k", "--quota", "1KiB"]);
    append(url, "k/a", 1000).unwrap();
    append(url, "k/b", 24).unwrap();
    // Who counts it has heard of the quota.
    let shown = || json(url, &["keyspace", "show", "k"]);
    while (&shown()["blobs"], &shown()["bytes"]) != (&2.into(), &1024.into()) {}
    assert!(is_full(append(url, "k/a", 1)) && is_full(append(url, "k/new", 1)));
    assert_eq!(shown()["quota"], 1024);

    // Whoever lowers it takes nothing away, and what shrinks goes on.
    json(url, &["keyspace", "alter", "k", "--quota", "100"]);
    json(url, &["blob", "truncate", "k/a", "900"]);
    // Nodes hear of it when they renew their leases.
    while append(url, "k/a", 1).is_ok() {}
    assert!(is_full(append(url, "k/a", 1)));
    json(url, &["blob", "truncate", "k/a", "10"]);
    json(url, &["blob", "rm", "k/b"]);
    append(url, "k/a", 90).unwrap();
    assert!(is_full(append(url, "k/a", 1)));

    // What was there before it was counted counts.
    json(url, &["keyspace", "alter", "k", "--quota", "none"]);
    while append(url, "k/a", 5000).is_err() {}
    json(url, &["keyspace", "alter", "k", "--quota", "5KiB"]);
    while append(url, "k/a", 21).is_ok() {}
    assert!(is_full(append(url, "k/a", 21)));
}

#[test]
fn nodes_hear_of_one_another_what_lies_in_a_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["one", "two", "three"] {
        let join: Vec<&str> = nodes.first().map(|first| first.address.as_str()).into_iter().collect();
        let mut node = Node::start(&directory.path().join(name), "127.0.0.1:0", &join);
        node.wait_for("ready");
        nodes.push(node);
    }
    let leads = |node: &serde_json::Value| node["leads"].as_u64().unwrap() > 0;
    let url = format!("tyr://{}", nodes[0].address);
    while !json(&url, &["cluster", "status"])["nodes"].as_array().unwrap().iter().all(leads) {}
    let store = Store::open(&url).unwrap();
    let settings = KeyspaceSettings { quota: Some(1 << 20), ..KeyspaceSettings::default() };
    let keyspace = store.create_keyspace("k", settings).unwrap();
    let key = |number: usize| format!("b{}", number % BLOBS);
    let append = |number: usize| keyspace.append(key(number), vec![7; 40_000]).map(drop);
    let all = || -> u64 {
        (0..BLOBS).filter_map(|number| keyspace.stat(key(number)).ok()).map(|stat| stat.size).sum()
    };

    // Blobs lie in all partitions. Sooner or later all nodes know that there is no room.
    for number in 0..BLOBS {
        while append(number).is_ok() {}
        assert_eq!(append(number).unwrap_err().kind(), ErrorKind::Full);
    }
    let sum = all();
    assert!(sum > (1 << 20) - 40_000, "the last was refused at {sum} bytes");
    while store.keyspaces()[0].bytes != Some(sum) {}
    (0..BLOBS).for_each(|number| assert!(append(number).is_err()));

    // Room on one node is room on another, as soon as that hears of it.
    let largest = (0..BLOBS).filter(|number| keyspace.stat(key(*number)).is_ok());
    largest.for_each(|number| keyspace.delete(key(number)).unwrap());
    for number in 0..BLOBS {
        while append(number).is_err() {}
        keyspace.delete(key(number)).unwrap();
    }
    assert_eq!(all(), 0);
}

const BLOBS: usize = 24;
