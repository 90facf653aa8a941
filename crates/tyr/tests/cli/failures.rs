use std::{fs, io::Write, process::Command};

use serde_json::Value;

use crate::support::{Run, Scratch};

#[test]
fn a_failure_is_json_on_standard_error_if_asked_for() {
    let scratch = Scratch::with_keyspace();
    for (arguments, code, kind) in [
        (["blob", "cat", "k/missing"], 13, "not-found"),
        (["blob", "cat", "nokey"], 2, "usage"),
        (["blob", "put", "k/a"], 0, ""),
        (["keyspace", "create", "k"], 14, "exists"),
    ] {
        let run = scratch.run(arguments.into_iter().chain(["--json"]));
        assert_eq!(run.code, Some(code), "{arguments:?}");
        if code != 0 {
            let error: Value = serde_json::from_str(&run.stderr).expect("is one document");
            assert_eq!(error["error"]["kind"], kind, "{arguments:?}");
            assert!(!error["error"]["message"].as_str().expect("is text").contains("For more information"));
            assert_eq!(run.text(), "", "{arguments:?}");
        }
    }
}

#[test]
fn a_store_that_is_missing_is_not_made_by_reading() {
    let scratch = Scratch::new();
    for arguments in [&["keyspace", "list"][..], &["blob", "ls", "k"], &["check"], &["stats"], &["compact"]] {
        scratch.run(arguments).fails(13, "tyr keyspace create");
    }
    assert!(!scratch.path("store").exists());
}

#[test]
fn a_store_of_more_files_than_the_soft_limit_allows_is_opened() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k", "--segment-size", "128KiB"]).ok();
    scratch.run_with_input(["blob", "put", "k/a"], vec![7; 8 << 20]).ok();
    assert!(fs::read_dir(scratch.path("store")).expect("reads").count() > 64);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 40; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tyr"), "--store"]);
    shell.arg(scratch.path("store")).args(["blob", "stat", "k/a", "--json"]);
    Run::from(shell.output().expect("a shell is there")).ok();
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let scratch = Scratch::new();
    scratch.write("store/thesis.tex", "years of work");
    scratch.run(["keyspace", "create", "k"]).fails(15, "thesis.tex");
    assert_eq!(fs::read(scratch.path("store/thesis.tex")).expect("reads"), b"years of work");
    assert_eq!(fs::read_dir(scratch.path("store")).expect("lists").count(), 1, "nothing is left behind");
    scratch.run(["--store", "store/thesis.tex", "keyspace", "list"]).fails(15, "not a directory");
}

#[test]
fn a_second_process_is_told_that_the_store_is_in_use() {
    let scratch = Scratch::with_keyspace();
    let mut holder = scratch.spawn(["blob", "put", "k/a", "-"]);
    let mut stdin = holder.stdin.take().expect("is piped");
    // More than a pipe holds: when it is written, the other process is reading, so it has the store open.
    stdin.write_all(&vec![1; 1 << 20]).expect("is read");
    scratch.run(["blob", "ls", "k"]).fails(12, "store");
    drop(stdin);
    assert!(holder.wait().expect("ends").success());
    assert_eq!(scratch.run(["blob", "ls", "k"]).ok().text(), "a\n");
}

#[test]
fn keys_that_are_too_long_or_missing_are_refused() {
    let scratch = Scratch::with_keyspace();
    let long = format!("k/{}", "x".repeat(4097));
    scratch.run(["blob", "cat", &long]).fails(2, "1 to 4096 bytes");
    scratch.run(["blob", "cat", "k/"]).fails(2, "write k/KEY");
    scratch.run(["blob", "cat", "/k/a"]).fails(2, "KEYSPACE/KEY");
    scratch.run(["blob", "cat", "nothing/a"]).fails(13, "nothing");
    scratch.run(["blob", "get", "k/a", "--range", "5..1"]).fails(2, "ends before it starts");
    scratch.run(["blob", "truncate", "k/a", "9EiB"]).fails(2, "is no size");
    scratch.run(["blob", "truncate", "k/a", "-1"]).fails(2, "'-1' is no size");
    scratch.run(["blob", "put", "k/a", "--at", "-1"]).fails(2, "'-1' is no size");
    scratch.run(["blob", "get", "k/a", "--range", "-5.."]).fails(2, "'-5' is no size");
    scratch.run(["blob", "ls", "k", "--limit", "-1"]).fails(2, "no number from 0 to");
    scratch.run(["blob", "ls", "k", "--threads", "-1"]).fails(2, "'-1' is not a number from 1 to 256");
    scratch.run(["cluster", "drain", "-1"]).fails(2, "-1 is not in 0..");
    scratch.run(["blob", "truncate", "k/a", "9000PiB"]).fails(2, "2^63-1");
}

#[test]
fn damage_is_found_reported_and_told_by_the_exit_code() {
    let scratch = Scratch::with_keyspace();
    let needle = b"a needle that is found in the files of the store";
    scratch.run_with_input(["blob", "put", "k/a"], needle).ok();
    // Past the first 64 KiB, of which the index knows the number of the blob only.
    let long = [&vec![7; 150_000][..], &needle[..]].concat();
    scratch.run_with_input(["blob", "put", "k/long"], long).ok();
    assert!(scratch.run(["check"]).ok().text().contains("no damage found"));
    let mut flipped = 0;
    for entry in fs::read_dir(scratch.path("store")).expect("reads") {
        let path = entry.expect("reads").path();
        let mut bytes = fs::read(&path).expect("reads");
        while let Some(position) = bytes.windows(needle.len()).position(|window| window == needle) {
            bytes[position] ^= 1;
            flipped += 1;
        }
        fs::write(&path, bytes).expect("writes");
    }
    assert!(flipped > 0);
    let check = scratch.run(["check", "--json"]).fails(19, r#""kind":"corrupt""#);
    let report = check.json();
    let damage: Vec<&str> =
        report["damage"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // The bytes of both blobs, and the frame of the log that holds those of the small one.
    assert_eq!((&report["damaged"], damage.len()), (&true.into(), 3), "{damage:?}");
    for blob in ["blob 'k/a': ", "blob 'k/long', leaf 2: "] {
        assert!(damage.iter().any(|sentence| sentence.starts_with(blob)), "{blob} {damage:?}");
    }
    assert!(scratch.run(["check"]).fails(19, "export").text().contains("damage: "));
    scratch.run(["blob", "cat", "k/a"]).fails(19, "damaged");
}

#[test]
fn what_is_not_damaged_is_exported_and_what_is_can_be_imported_again() {
    let scratch = Scratch::with_keyspace();
    // Large enough that each lies by itself, with a checksum of its own.
    let content = |number: usize| format!("file {number} ").repeat(10_000);
    let tree = scratch.path("tree");
    fs::create_dir(&tree).expect("made");
    for number in 0..5 {
        fs::write(tree.join(number.to_string()), content(number)).expect("written");
    }
    scratch.run(["import", "tree", "k"]).ok();
    let needle = "file 3 ".repeat(20).into_bytes();
    for entry in fs::read_dir(scratch.path("store")).expect("reads") {
        let path = entry.expect("reads").path();
        let mut bytes = fs::read(&path).expect("reads");
        if let Some(position) = bytes.windows(needle.len()).position(|window| window == needle) {
            bytes[position] ^= 1;
        }
        fs::write(&path, bytes).expect("writes");
    }
    let run =
        scratch.run(["-j", "1", "--json", "export", "k", "out"]).fails(19, "1 of the blobs are damaged");
    assert!(run.stderr.contains("k/3 is not exported"), "{}", run.stderr);
    let told = run.json();
    assert_eq!((&told["files"], &told["failed"], &told["damaged"]), (&4.into(), &1.into(), &1.into()));
    for number in [0, 1, 2, 4] {
        let exported = fs::read_to_string(scratch.path("out").join(number.to_string())).expect("reads");
        assert!(exported == content(number), "{number}");
    }
    scratch.run(["snapshot", "export", "k", "archive"]).fails(19, "k/3");
    // What there is a copy of is made whole by it.
    let told = scratch.run(["--json", "import", "tree", "k", "--verify"]).ok().json();
    // Four files, and the directory itself.
    assert_eq!((&told["files"], &told["skipped"]), (&1.into(), &5.into()));
    scratch.run(["blob", "cat", "k/3"]).ok();
}

#[test]
fn damaged_tables_of_the_index_are_made_anew_from_the_log() {
    let scratch = Scratch::with_keyspace();
    scratch.write("a", "content");
    scratch.run(["blob", "put", "k/a", "a"]).ok();
    let mut damaged = 0;
    for entry in fs::read_dir(scratch.path("store")).expect("lists") {
        let path = entry.expect("reads").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("table-")) {
            let length = fs::read(&path).expect("reads").len();
            fs::write(&path, vec![7; length]).expect("writes");
            damaged += 1;
        }
    }
    assert!(damaged > 0, "there is an index");
    scratch.run(["blob", "cat", "k/a"]).fails(19, "tyr check --rebuild-index");
    scratch.run(["check"]).fails(19, "tyr check --rebuild-index");
    assert!(scratch.run(["check", "--rebuild-index"]).ok().text().contains("no damage found"));
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().text(), "content");
    scratch.run(["--store", "none", "check", "--rebuild-index"]).fails(13, "none");
    assert!(!scratch.path("none").exists());
}

#[test]
fn an_address_that_is_none_is_told_at_once() {
    let scratch = Scratch::new();
    for url in ["tyr://127.0.0.1:99999", "tyr://node1", "tyr://:7700"] {
        scratch.run(["--store", url, "cluster", "status"]).fails(2, "is no address of a node");
    }
}
