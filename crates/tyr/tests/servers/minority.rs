//! A cluster most of whose voters are away, as who has to mend it sees it.

use serde_json::Value;

use super::{Node, observability::get, tyr};

/// The code that a command ends with, what it prints, and what it says on standard error.
fn ended(url: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = tyr(["--store", url, "--timeout", "2"].iter().chain(arguments)).output().unwrap();
    let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, said)
}

#[test]
fn what_a_node_heard_last_is_shown_when_nobody_leads() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: u32| directory.path().join(number.to_string());
    let command = ["server", "--json", "--log", "warn", "--partitions", "16", "--http", "127.0.0.1:0"];
    let mut command = tyr(command);
    command.args(["--listen", "127.0.0.1:0", "--directory"]).arg(place(1));
    let mut first = Node::run(command);
    let listening = first.wait_for("listening");
    let [address, http] = ["address", "http"].map(|name| listening[name].as_str().unwrap().to_owned());
    first.address = address;
    first.wait_for("ready");
    let mut second = Node::start(&place(2), "127.0.0.1:0", &[&first.address]);
    let mut third = Node::start(&place(3), "127.0.0.1:0", &[&first.address, &second.address]);
    second.wait_for("ready");
    third.wait_for("ready");
    let [gone, lost, left] = [&first, &second, &third].map(|node| node.address.clone());
    let url = &format!("tyr://{gone},{lost},{left}");
    while !get(&http, "/metrics").contains("\ntyr_manager_voters 3\n") {}
    drop(first);
    drop(second);

    let (code, out, said) = ended(url, &["cluster", "status"]);
    assert_eq!(code, Some(12), "{out}{said}");
    assert!(out.starts_with(&format!("as the node at {left} heard it last")), "{out}");
    assert!(out.contains(&gone) && out.contains(&lost), "{out}");
    for part in
        [&format!("there are nodes at {left}, but nobody leads"), &format!("{gone} (Connection refused")]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let (code, out, _) = ended(url, &["--json", "cluster", "ring"]);
    let ring: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((code, &ring["remembered_by"]), (Some(12), &Value::from(left.clone())), "{out}");
    assert_eq!(ring["partitions"].as_array().unwrap().len(), 16, "{out}");

    let (code, out, _) = ended(url, &["doctor"]);
    assert_eq!(code, Some(1), "{out}");
    for part in ["nobody leads the cluster", &format!("node 2 at {lost}: "), "it answers, but does not serve"]
    {
        assert!(out.contains(part), "{part} is not in {out}");
    }
    let (code, out, said) = ended(&format!("tyr://{gone},{lost}"), &["cluster", "status"]);
    assert_eq!((code, out.as_str()), (Some(12), ""));
    assert!(said.contains(&format!("no node answers at {gone} (")), "{said}");
}
