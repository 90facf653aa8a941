//! The command on a cluster: the transcript in `docs/client.md`, and what a cluster refuses.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tyr_client::{KeyspaceSettings, Outcome, blocking::Store};

use crate::{
    kit::Kit,
    support::{Run, Scratch},
};

/// Runs a line in a shell that finds the command, and returns what it prints to standard output.
fn shell(scratch: &Scratch, url: &str, line: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_tyr"));
    let others = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{others}", binary.parent().expect("is in a directory").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(scratch.path("")).env("PATH", path).env("TYR_STORE", url);
    let output = shell.output().expect("a shell is there");
    String::from_utf8(output.stdout).expect("is text")
}

#[test]
fn the_transcript_in_the_documents_is_what_happens() {
    let (scratch, kit) = (Scratch::new(), Kit::start(3));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/client.md");
    let text = fs::read_to_string(file).expect("is there");
    let transcript =
        text.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).expect("has one");
    let mut steps = transcript.split("$ ").skip(1).map(|step| step.split_once('\n').expect("a line"));
    assert!(steps.next().is_some_and(|(line, _)| line.starts_with("export TYR_STORE=tyr://")));
    for (line, expected) in steps {
        assert_eq!(shell(&scratch, kit.url(), line), expected, "{line}");
    }
}

#[test]
fn a_cluster_in_the_configuration_file_is_opened() {
    let (scratch, kit) = (Scratch::new(), Kit::start(1));
    scratch.write("tyr.toml", format!("[store]\npath = \"{}\"\n", kit.url()));
    let run = |arguments: &[&str]| {
        let output = scratch.command(arguments).env_remove("TYR_STORE").output().expect("runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("is text"))
    };
    assert_eq!(run(&["keyspace", "create", "k"]).0, Some(0));
    let (code, shown) = run(&["keyspace", "show", "k", "--json"]);
    assert_eq!(code, Some(0));
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("is JSON");
    assert_eq!((&shown["name"], &shown["blobs"]), (&"k".into(), &serde_json::Value::Null));
}

#[test]
fn a_throw_away_cluster_takes_no_directory_that_is_there_and_lets_nobody_into_its_own() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("tmp")).expect("created");
    // The shell becomes the command, so its number is known before.
    let line = "mkdir $TMPDIR/tyr-dev-$$; exec \"$0\" dev -n 1 --json";
    let mut shell = Command::new("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_tyr")]).env("TMPDIR", scratch.path("tmp"));
    let mut dev = shell.stdout(Stdio::piped()).spawn().expect("a shell is there");
    let prepared = scratch.path("tmp").join(format!("tyr-dev-{}", dev.id()));
    let mut line = String::new();
    BufReader::new(dev.stdout.take().expect("is piped")).read_line(&mut line).expect("reads");
    let ready: serde_json::Value = serde_json::from_str(&line).expect("is JSON");
    let directory = Path::new(ready["directory"].as_str().expect("is text"));
    let mode = fs::metadata(directory).map(|metadata| metadata.permissions().mode() & 0o7777);
    kill_process(Pid::from_child(&dev), Signal::TERM).expect("can be signalled");
    assert!(dev.wait().expect("ends").success());
    assert_eq!(mode.expect("was there"), 0o700);
    assert_eq!(directory.parent(), prepared.parent());
    assert!(directory != prepared && !directory.exists());
    assert_eq!(fs::read_dir(&prepared).expect("is there").count(), 0);
}

#[test]
fn what_a_cluster_cannot_do_is_said() {
    let (scratch, kit) = (Scratch::new(), Kit::start(1));
    for arguments in [&["check"][..], &["check", "--rebuild-index"], &["stats"], &["compact"]] {
        scratch.run(["--store", kit.url()].iter().chain(arguments)).fails(15, "cluster");
    }
    scratch.run(["--store", kit.url(), "blob", "cat", "k/a"]).fails(13, "no keyspace 'k'");
    scratch.run(["--store", kit.url(), "cluster", "add", "node4"]).fails(2, "nor an address, HOST:PORT");
    scratch.run(["--store", kit.url(), "keyspace", "create", "k"]).ok();
    let taken = "keyspace 'k' exists already; choose another name or drop it first";
    scratch.run(["--store", kit.url(), "keyspace", "create", "k"]).fails(14, taken);
    let large = File::create(scratch.path("large")).expect("created");
    large.set_len((1 << 30) + 1).expect("grows");
    scratch.run(["--store", kit.url(), "blob", "put", "k/large", "large"]).fails(15, "tyr import");
    scratch.run(["--store", kit.url(), "blob", "rm", "k/large"]).fails(13, "no blob k/large, so nothing is");
    let for_ever = u64::MAX.to_string();
    scratch.run(["--store", kit.url(), "cluster", "drain", "1", "--wait", &for_ever]).fails(2, "--wait");
}

#[test]
fn trees_of_many_files_go_in_and_come_out() {
    let (scratch, kit) = (Scratch::new(), Kit::start(3));
    for number in 0..40u32 {
        let size = usize::try_from(number * number * 100).expect("small");
        scratch.write(format!("tree/{}/{number}", number % 7), vec![1; size]);
    }
    scratch.write("tree/large", vec![7; 9 << 20]);
    let at = ["--store", kit.url()];
    scratch.run(at.iter().chain(&["import", "tree", "k", "--create", "--verify"])).ok();
    scratch.run(at.iter().chain(&["export", "k", "copy"])).ok();
    let same = Command::new("diff").args(["-r", "tree", "copy"]).current_dir(scratch.path("")).status();
    assert!(same.expect("diff is there").success());
}

#[test]
fn a_prefix_that_several_remove_at_once_is_gone_and_with_force_nobody_complains() {
    let (scratch, kit) = (Scratch::new(), Kit::start(1));
    let store = Store::open(kit.url()).expect("opens");
    let keyspace = store.create_keyspace("k", KeyspaceSettings::default()).expect("created");
    let mut transaction = store.begin();
    for number in 0..3000 {
        transaction.put(&keyspace, format!("d/{number:04}"), "x").expect("put");
    }
    assert!(matches!(transaction.commit(), Ok(Outcome::Committed(_))));
    let remove = || scratch.spawn(["--store", kit.url(), "--json", "blob", "rm", "-r", "-f", "k/d/"]);
    let runs = [remove(), remove(), remove()];
    let ended = runs.map(|run| Run::from(run.wait_with_output().expect("ends")).ok().json());
    let removed: u64 = ended.iter().map(|told| told["removed"].as_u64().expect("a number")).sum();
    assert_eq!(removed, 3000, "each is counted by who removed it");
    assert!(keyspace.scan("d/", None, 1).expect("reads").is_empty());
}

#[test]
fn an_export_of_what_has_no_snapshots_writes_no_file_that_never_was_and_passes_over_what_is_gone() {
    const SIZE: usize = 16 << 20;
    let (scratch, kit) = (Scratch::new(), Kit::start(1));
    let store = Store::open(kit.url()).expect("opens");
    let settings = KeyspaceSettings { multi_version: false, ..KeyspaceSettings::default() };
    let keyspace = store.create_keyspace("k", settings).expect("created");
    keyspace.put("a", vec![0; SIZE]).expect("put");
    for key in ["b", "c"] {
        keyspace.put(key, "x").expect("put");
    }
    let arguments = ["--store", kit.url(), "-j", "1", "--json", "export", "k", "copy", "--verify"];
    let mut child = scratch.spawn(arguments);
    let mut is_begun = false;
    for round in (1..=u8::MAX).cycle() {
        if child.try_wait().expect("can be asked").is_some() {
            break;
        }
        // All three are in one page of keys, so it has looked for them when it writes the first.
        if !is_begun && fs::read_dir(scratch.path("copy")).is_ok_and(|mut there| there.next().is_some()) {
            is_begun = true;
            keyspace.delete("b").expect("deleted");
        }
        if is_begun {
            let size = if round % 2 == 0 { SIZE } else { SIZE / 4 };
            keyspace.put("a", vec![round; size]).expect("put");
        }
    }
    let run = Run::from(child.wait_with_output().expect("ends"));
    assert!(is_begun, "{}", run.stderr);
    let told = run.json();
    assert_eq!(told["complete"], true);
    assert!(!scratch.path("copy/b").exists() && scratch.path("copy/c").exists(), "{}", run.stderr);
    if run.code == Some(0) {
        let found = fs::read(scratch.path("copy/a")).expect("is there");
        assert!(found.iter().all(|byte| *byte == found[0]), "it is one of those that were there");
        assert!([SIZE, SIZE / 4].contains(&found.len()), "{}", found.len());
    } else {
        let run = run.fails(1, "could not be exported");
        assert!(run.stderr.contains("k/a is not exported: it changed each of the"), "{}", run.stderr);
        assert_eq!(told["failed"], 1);
        assert!(!scratch.path("copy/a").exists());
    }
    assert_eq!(
        fs::read_dir(scratch.path("copy")).expect("reads").count() as u64,
        told["files"],
        "no more is left"
    );
}

#[test]
fn a_large_file_comes_into_a_cluster_by_several_transactions_and_is_exported_once_it_is_whole() {
    const MIB: u64 = 1 << 20;
    let (scratch, kit) = (Scratch::new(), Kit::start(1));
    let huge = File::create(scratch.write("tree/huge", "")).expect("created");
    // What is zeros in all of a piece is no data; this is more than two transactions write.
    let places = || (0..1024).step_by(7);
    for place in places() {
        huge.write_all_at(b"x", place * MIB).expect("written");
    }
    huge.set_len(1030 * MIB).expect("ends in a hole");
    scratch.write("tree/small", "content");
    let import =
        || scratch.run(["--store", kit.url(), "-j", "1", "--json", "import", "tree", "k", "--create"]);
    let told = import().ok().json();
    assert_eq!((&told["files"], &told["failed"]), (&2.into(), &0.into()));
    assert_eq!(import().ok().json()["skipped"], 3, "both, and their directory");

    // As an import leaves it that was killed between two of its transactions, but for what is in it.
    let keyspace = Store::open(kit.url()).and_then(|store| store.keyspace("k")).expect("opens");
    let is_unfinished = || {
        let stat = keyspace.stat("huge").expect("is there");
        stat.attributes.value("tyr.unfinished").is_some()
    };
    assert!(!is_unfinished());
    keyspace.set_attribute("huge", "tyr.unfinished", Some(b"")).expect("set");
    let export = || scratch.run(["--store", kit.url(), "--json", "export", "k", "copy"]);
    let run = export().fails(1, "1 of the files could not be exported");
    assert!(run.stderr.contains("k/huge is not exported: it is not whole"), "{}", run.stderr);
    assert_eq!(run.json()["damaged"], 0);
    assert_eq!(fs::read_to_string(scratch.path("copy/small")).expect("is there"), "content");

    assert_eq!(import().ok().json()["files"], 1, "it is written anew");
    assert!(!is_unfinished());
    export().ok();
    let copy = File::open(scratch.path("copy/huge")).expect("is there");
    assert_eq!(copy.metadata().expect("has some").len(), 1030 * MIB);
    for place in 0..1030 {
        let mut bytes = [0; 2];
        copy.read_exact_at(&mut bytes, place * MIB).expect("reads");
        assert_eq!(bytes[0] == b'x', places().any(|written| written == place), "{place}");
        assert_eq!(bytes[1], 0, "{place}");
    }
}
