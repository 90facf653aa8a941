use crate::support::Scratch;

#[test]
fn a_keyspace_is_created_with_its_settings_listed_and_shown() {
    let scratch = Scratch::new();
    let created = scratch.run([
        "keyspace",
        "create",
        "k",
        "--durability",
        "memory",
        "--chunk-size",
        "1MiB",
        "--multi-version",
        "off",
        "--quota",
        "10GiB",
    ]);
    assert_eq!(created.ok().text(), "created keyspace 'k'\n");
    let shown = scratch.run(["keyspace", "show", "k", "--json"]).ok().json();
    assert_eq!((&shown["durability"], &shown["chunk_size"]), (&"memory".into(), &(1 << 20).into()));
    assert_eq!((&shown["multi_version"], &shown["quota"]), (&false.into(), &(10_u64 << 30).into()));
    let listed = scratch.run(["keyspace", "list"]).ok().text();
    assert!(listed.contains("10GiB") && listed.contains("memory"), "{listed}");
    assert!(scratch.run(["keyspace", "show", "k"]).ok().text().contains("multi-version  off"));
}

#[test]
fn altering_changes_what_was_given_and_nothing_else() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k", "--quota", "1MiB", "--durability", "memory"]).ok();
    scratch.run(["keyspace", "alter", "k", "--quota", "none"]).ok();
    let shown = scratch.run(["keyspace", "show", "k", "--json"]).ok().json();
    assert_eq!((&shown["quota"], &shown["durability"]), (&serde_json::Value::Null, &"memory".into()));
    scratch.run(["keyspace", "alter", "k"]).fails(2, "nothing to alter");
    scratch.run(["keyspace", "alter", "k", "--chunk-size", "1MiB"]).fails(15, "chunk");
    scratch.run(["keyspace", "alter", "nothing", "--quota", "1"]).fails(13, "nothing");
}

#[test]
fn dropping_asks_first() {
    let scratch = Scratch::with_keyspace();
    let refused = scratch.run_with_input(["keyspace", "drop", "k"], "no\n").fails(2, "was not dropped");
    assert!(refused.stderr.contains("Drop keyspace 'k' with 0 blobs"), "{}", refused.stderr);
    scratch.run(["keyspace", "drop", "k"]).fails(2, "--yes");
    scratch.run(["keyspace", "drop", "k", "--json"]).fails(2, "--yes");
    let dropped = scratch.run_with_input(["keyspace", "drop", "k"], "yes\n");
    assert_eq!(dropped.code, Some(0), "{}", dropped.stderr);
    scratch.run(["keyspace", "show", "k"]).fails(13, "k");
    scratch.run(["keyspace", "create", "k"]).ok();
    scratch.run(["keyspace", "drop", "k", "--yes"]).ok();
}

#[test]
fn names_and_settings_are_checked() {
    let scratch = Scratch::with_keyspace();
    let taken = "keyspace 'k' exists already; choose another name or drop it first";
    scratch.run(["keyspace", "create", "k"]).fails(14, taken);
    scratch.run(["keyspace", "create", "a/b"]).fails(2, "keyspace name");
    scratch.run(["keyspace", "create", "x", "--chunk-size", "100"]).fails(2, "power of two");
    scratch.run(["keyspace", "create", "x", "--quota", "12 bananas"]).fails(2, "is no size");
    scratch.run(["keyspace", "create", "x", "--durability", "paper"]).fails(2, "memory");
}

#[test]
fn a_quota_refuses_what_is_too_much() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k", "--quota", "1KiB"]).ok();
    scratch.run_with_input(["blob", "put", "k/a"], [7; 1024]).ok();
    scratch.run_with_input(["blob", "append", "k/a"], "x").fails(17, "quota");
}
