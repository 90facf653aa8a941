//! Snapshots that have names, and archives of a store in a directory.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    kit::Kit,
    support::{Run, Scratch},
};

/// A store whose keyspace `k` has a small blob, a large one, and one with a hole.
fn filled() -> Scratch {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k", "--chunk-size", "64KiB"]).ok();
    scratch.run_with_input(["blob", "put", "k/small"], "first").ok();
    scratch.run_with_input(["blob", "put", "k/large"], content(3_000_000, 1)).ok();
    scratch.run_with_input(["blob", "put", "k/hole"], content(10, 2)).ok();
    scratch.run(["blob", "truncate", "k/hole", "50000000"]).ok();
    scratch
}

fn content(length: usize, seed: u32) -> Vec<u8> {
    let byte =
        |number: usize| u32::try_from(number).expect("short").wrapping_mul(seed + 6007).to_le_bytes()[2];
    (0..length).map(byte).collect()
}

fn size_of(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).expect("is there");
    files.map(|file| file.expect("is there").metadata().expect("is there").len()).sum()
}

#[test]
fn a_named_snapshot_stays_as_it_was_until_it_is_removed() {
    let scratch = filled();
    scratch.run(["snapshot", "create", "k@monday"]).ok();
    scratch.run(["snapshot", "create", "k@monday"]).fails(14, "has a snapshot 'monday' already");
    scratch.run(["keyspace", "alter", "k", "--multi-version", "off"]).fails(15, "drop its snapshots first");
    scratch.run_with_input(["blob", "put", "k/small"], "second").ok();
    scratch.run(["blob", "rm", "k/large"]).ok();
    scratch.run(["snapshot", "create", "k@tuesday"]).ok();
    scratch.run(["blob", "rm", "k/hole"]).ok();
    scratch.run(["compact"]).ok();
    let listed = scratch.run(["snapshot", "ls", "--json"]).ok().json();
    let names = listed["snapshots"].as_array().expect("a list").iter().map(|one| one["snapshot"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["monday", "tuesday"]);
    let shown = scratch.run(["snapshot", "show", "k@monday", "--json"]).ok().json();
    assert_eq!((&shown["blobs"], &shown["bytes"]), (&3.into(), &(5 + 3_000_000 + 50_000_000).into()));
    // Also with an index that was made again from the log.
    scratch.run(["check", "--rebuild-index"]).ok();
    scratch.run(["snapshot", "export", "k@monday", "archive"]).ok();
    scratch.run(["snapshot", "restore", "k@monday", "--yes"]).ok();
    scratch.run(["snapshot", "verify", "archive", "--against", "k"]).ok();
    assert_eq!(scratch.run(["blob", "cat", "k/small"]).ok().stdout, b"first");
    assert!(scratch.run(["blob", "cat", "k/large"]).ok().stdout == content(3_000_000, 1));
    // The other one is as it was, too.
    scratch
        .run(["snapshot", "verify", "archive", "--against", "k@tuesday"])
        .fails(1, "2 of its blobs differ");
    scratch.run(["snapshot", "rm", "k@monday"]).ok();
    scratch.run(["snapshot", "export", "k@monday", "other"]).fails(13, "no snapshot 'monday'");
    scratch.run(["snapshot", "rm", "k@tuesday"]).ok();
    scratch.run(["snapshot", "rm", "k@tuesday"]).fails(13, "no snapshot 'tuesday'");
    assert_eq!(scratch.run(["check"]).ok().code, Some(0));
}

#[test]
fn what_is_wrong_with_a_snapshots_name_is_said() {
    let scratch = filled();
    scratch.run(["snapshot", "create", "k"]).fails(2, "write k@NAME");
    scratch.run(["snapshot", "create", "k@a/b"]).fails(2, "no name of a snapshot");
    scratch.run(["snapshot", "restore", "k"]).fails(2, "--from");
    scratch.run(["snapshot", "restore", "k@monday", "--from", "archive"]).fails(2, "not both");
    scratch.run(["keyspace", "create", "latest", "--multi-version", "off"]).ok();
    scratch.run(["snapshot", "create", "latest@monday"]).fails(15, "keeps no versions");
}

#[test]
fn archives_of_another_keyspace_are_restored_only_if_it_is_named() {
    let scratch = filled();
    scratch.run(["snapshot", "export", "k", "archive"]).ok();
    scratch.run(["keyspace", "create", "other"]).ok();
    scratch.run_with_input(["blob", "put", "other/own"], "kept").ok();
    let restore = ["snapshot", "restore", "other", "--from", "archive", "--yes"];
    scratch.run(restore).fails(2, "of keyspace 'k', not of 'other'");
    scratch.run([&restore[..], &["--of", "n"]].concat()).fails(2, "not of 'n'");
    scratch.run(["blob", "cat", "other/own"]).ok();
    scratch.run([&restore[..], &["--of", "k"]].concat()).ok();
    scratch.run(["blob", "cat", "other/small"]).ok();
    scratch.run(["blob", "cat", "other/own"]).fails(13, "no blob");
}

#[test]
fn half_of_an_import_is_nothing_to_restore() {
    let scratch = filled();
    // As if one were under way.
    scratch.run_with_input(["blob", "put", "k/.tyr-import"], "").ok();
    for state in ["importing", "following", "restoring"] {
        scratch.run(["blob", "attr", "set", "k/.tyr-import", "state", state]).ok();
        scratch.run(["snapshot", "create", &format!("k@{state}")]).ok();
    }
    scratch.run(["blob", "attr", "set", "k/.tyr-import", "state", "standby"]).ok();
    scratch.run(["snapshot", "create", "k@standby"]).ok();
    scratch.run(["blob", "rm", "k/.tyr-import"]).ok();
    for state in ["importing", "following", "restoring"] {
        let name = format!("k@{state}");
        scratch
            .run(["snapshot", "restore", &name, "--yes"])
            .fails(15, "was not whole when that snapshot was taken");
    }
    scratch.run(["snapshot", "restore", "k@standby", "--yes"]).ok();
}

#[test]
fn a_cluster_has_named_snapshots_too() {
    let scratch = filled();
    let kit = Kit::start(3);
    let cluster = |arguments: &[&str]| scratch.run(["--store", kit.url()].iter().chain(arguments));
    cluster(&["keyspace", "create", "k"]).ok();
    scratch.run_with_input(["--store", kit.url(), "blob", "put", "k/small"], "first").ok();
    scratch.run_with_input(["--store", kit.url(), "blob", "put", "k/other"], "other").ok();
    cluster(&["snapshot", "create", "k@monday"]).ok();
    cluster(&["keyspace", "create", "latest", "--multi-version", "off"]).ok();
    let listed = cluster(&["snapshot", "ls", "--json"]).ok().json();
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1, "{listed}");
    cluster(&["snapshot", "create", "k@monday"]).fails(14, "has a snapshot 'monday' already");
    scratch.run_with_input(["--store", kit.url(), "blob", "put", "k/small"], "second").ok();
    cluster(&["blob", "rm", "k/other"]).ok();
    let shown = cluster(&["snapshot", "show", "k@monday", "--json"]).ok().json();
    assert_eq!((&shown["blobs"], &shown["bytes"]), (&2.into(), &10.into()));
    cluster(&["snapshot", "export", "k@monday", "archive"]).ok();
    cluster(&["snapshot", "verify", "archive", "--against", "k"]).fails(1, "2 of its blobs differ");
    let same = cluster(&["snapshot", "verify", "archive", "--against", "k@monday"]).ok();
    assert!(String::from_utf8_lossy(&same.stdout).contains("snapshot 'monday' of keyspace 'k' has the same"));
    cluster(&["keyspace", "alter", "k", "--multi-version", "off"]).fails(15, "drop its snapshots first");
    cluster(&["snapshot", "restore", "k@monday", "--yes"]).ok();
    assert_eq!(cluster(&["blob", "cat", "k/small"]).ok().stdout, b"first");
    cluster(&["snapshot", "verify", "archive", "--against", "k"]).ok();
    cluster(&["snapshot", "rm", "k@monday"]).ok();
    cluster(&["snapshot", "show", "k@monday"]).fails(13, "no snapshot 'monday'");
    assert_eq!(cluster(&["snapshot", "ls", "--json"]).ok().json()["snapshots"], serde_json::json!([]));
}

#[test]
fn archives_hold_what_changed_and_no_holes() {
    let scratch = filled();
    scratch.run(["snapshot", "export", "k", "full"]).ok();
    assert!(size_of(&scratch.path("full")) < 3_100_000, "the hole takes no space");
    scratch.run(["snapshot", "export", "k", "full"]).fails(14, "a whole archive");
    scratch.run_with_input(["tx", "run", "-"], "write k/large 1500000 text:changed\ndelete k/small\n").ok();
    scratch.run_with_input(["blob", "put", "k/new"], "new").ok();
    let made = scratch.run(["snapshot", "export", "k", "more", "--since", "full", "--json"]).ok().json();
    assert_eq!(made["data"], (64 << 10) + "new".len());
    scratch.run(["snapshot", "verify", "full", "more", "--against", "k"]).ok();
    scratch.run(["snapshot", "verify", "full", "--against", "k"]).fails(1, "3 of its blobs differ");
    // Into another store, in any of the ways.
    let other = |arguments: &[&str]| {
        let store = scratch.path("other");
        scratch.run(["--store", store.to_str().expect("is text")].iter().chain(arguments))
    };
    other(&["snapshot", "import", "more", "k"]).fails(15, "only what changed since");
    other(&["snapshot", "import", "more", "full", "k"]).fails(15, "does not follow");
    other(&["snapshot", "import", "full", "more", "k", "--verify"]).ok();
    other(&["snapshot", "import", "full", "follower", "--standby"]).ok();
    other(&["snapshot", "export", "follower", "none"]).fails(15, "is not whole");
    other(&["snapshot", "import", "full", "more", "follower", "--verify"]).ok();
    other(&["snapshot", "import", "full", "more", "k"]).fails(14, "has blobs");
    for keyspace in ["k", "follower"] {
        assert_eq!(other(&["blob", "ls", keyspace]).ok().text(), "hole\nlarge\nnew\n");
        let mut expected = content(3_000_000, 1);
        expected[1_500_000..1_500_007].copy_from_slice(b"changed");
        assert!(other(&["blob", "cat", &format!("{keyspace}/large")]).ok().stdout == expected);
    }
    // What was not taken of this keyspace tells nothing of its changes.
    other(&["snapshot", "export", "k", "wrong", "--since", "full"]).fails(15, "of another keyspace");
}

#[test]
fn an_archive_is_for_its_owner_alone_and_a_directory_that_is_there_stays_as_it_is() {
    let scratch = filled();
    let there = scratch.path("there");
    fs::create_dir(&there).expect("created");
    fs::set_permissions(&there, Permissions::from_mode(0o755)).expect("set");
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o7777;
    for (archive, expected) in [("on/the/way", 0o700), ("there", 0o755)] {
        scratch.run(["snapshot", "export", "k", archive]).ok();
        let archive = scratch.path(archive);
        assert_eq!(mode(&archive), expected);
        let files: Vec<_> =
            fs::read_dir(&archive).expect("is there").map(|file| file.expect("is there")).collect();
        assert!(files.len() > 2);
        for file in files {
            assert_eq!(mode(&file.path()), 0o600, "{file:?}");
        }
    }
    // What leads to an archive is no part of it.
    fs::create_dir(scratch.path("plain")).expect("created");
    assert_eq!(mode(&scratch.path("on/the")), mode(&scratch.path("plain")));
}

#[test]
fn an_export_that_is_killed_goes_on_and_its_half_is_no_archive() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k"]).ok();
    for blob in 0..12 {
        scratch.run_with_input(["blob", "put", &format!("k/{blob}")], content(2_000_000, blob)).ok();
    }
    let mut child = scratch.spawn(["snapshot", "export", "k", "archive"]);
    let first = scratch.path("archive/volume-000000");
    while !fs::metadata(&first).is_ok_and(|file| file.len() > 1 << 20) {
        if child.try_wait().expect("can be asked").is_some() {
            break;
        }
    }
    child.kill().expect("can be killed");
    child.wait().expect("ends");
    if !scratch.path("archive/manifest").exists() {
        scratch.run(["snapshot", "verify", "archive"]).fails(15, "its export was interrupted");
        scratch.run(["snapshot", "import", "archive", "half"]).fails(15, "its export was interrupted");
        scratch.run(["keyspace", "show", "half"]).fails(13, "no keyspace 'half'");
        // What changes meanwhile is part of what is exported then.
        scratch.run(["blob", "rm", "k/0"]).ok();
        scratch.run_with_input(["blob", "append", "k/1"], "more").ok();
        scratch.run(["keyspace", "create", "other"]).ok();
        scratch.run(["snapshot", "export", "other", "archive"]).fails(15, "a part of another archive");
        let went_on = scratch.run(["snapshot", "export", "k", "archive", "--json"]).ok().json();
        assert_eq!(went_on["continued"], true);
    }
    scratch.run(["snapshot", "verify", "archive", "--against", "k"]).ok();
}

#[test]
fn an_archive_to_which_an_export_is_writing_is_left_to_it() {
    let (scratch, kit) = (Scratch::new(), Kit::start(1));
    let cluster = |arguments: &[&str]| {
        let mut command = scratch.command(arguments);
        command.env("TYR_STORE", kit.url());
        command
    };
    let run = |arguments: &[&str]| Run::from(cluster(arguments).output().expect("runs"));
    run(&["keyspace", "create", "k"]).ok();
    let content = scratch.write("content", content(2_000_000, 1));
    let content = content.to_str().expect("is text");
    for blob in 0..12 {
        run(&["blob", "put", &format!("k/{blob}"), content]).ok();
    }
    let export = ["snapshot", "export", "k", "archive"];
    let mut first = cluster(&export).spawn().expect("starts");
    while !scratch.path("archive/volume-000000").exists() && first.try_wait().expect("can be asked").is_none()
    {
    }
    // The first waits, with volumes that have no end yet.
    kill_process(Pid::from_child(&first), Signal::STOP).expect("can be signalled");
    let second = run(&export);
    kill_process(Pid::from_child(&first), Signal::CONT).expect("can be signalled");
    Run::from(first.wait_with_output().expect("ends")).ok();
    second.fails(12, "another export is writing to the archive");
    run(&["snapshot", "verify", "archive", "--against", "k"]).ok();
    run(&export).fails(14, "a whole archive");
    assert!(!scratch.path("archive/export.lock").exists());
}

#[test]
fn an_import_that_is_killed_goes_on_and_says_until_then_that_it_is_not_whole() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k"]).ok();
    for blob in 0..12 {
        scratch.run_with_input(["blob", "put", &format!("k/{blob}")], content(2_000_000, blob)).ok();
    }
    scratch.run(["snapshot", "export", "k", "archive"]).ok();
    let store = scratch.path("other");
    let other = |arguments: &[&str]| {
        scratch.run(["--store", store.to_str().expect("is text")].iter().chain(arguments))
    };
    let mut child = scratch
        .command(["--store", store.to_str().expect("is text"), "snapshot", "import", "archive", "k"])
        .spawn()
        .expect("starts");
    // The store's own files grow as it is written to.
    let is_written = || fs::read_dir(&store).is_ok_and(|files| files.count() > 6);
    while !is_written() && child.try_wait().expect("can be asked").is_none() {}
    child.kill().expect("can be killed");
    child.wait().expect("ends");
    let listed = other(&["blob", "ls", "k"]);
    if listed.text().contains(".tyr-import") {
        other(&["snapshot", "export", "k", "copy"]).fails(15, "is not whole");
    }
    if listed.code != Some(0) || listed.text().contains(".tyr-import") || listed.text().is_empty() {
        other(&["snapshot", "import", "archive", "k"]).ok();
    }
    other(&["snapshot", "verify", "archive", "--against", "k"]).ok();
    assert!(!other(&["blob", "ls", "k"]).ok().text().contains(".tyr-import"));
}

#[test]
fn a_standby_into_which_a_part_of_another_archive_was_written_becomes_what_is_named() {
    let scratch = Scratch::with_keyspace();
    let put = |key: &str, length, seed| {
        scratch.run_with_input(["blob", "put", key], content(length, seed)).ok();
    };
    let tag = |tag| scratch.run(["blob", "attr", "set", "k/tagged", "tag", tag]).ok();
    let more: Vec<String> = (0..10).map(|blob| format!("k/more-{blob}")).collect();
    more.iter().for_each(|key| put(key, 300_000, 1));
    put("k/small", 9, 1);
    put("k/tagged", 9, 1);
    tag("red");
    scratch.run(["snapshot", "export", "k", "monday"]).ok();
    more.iter().for_each(|key| put(key, 5, 2));
    put("k/small", 9, 2);
    tag("blue");
    put("k/too-much", 8_000_000, 2);
    scratch.run(["snapshot", "export", "k", "tuesday", "--since", "monday"]).ok();
    more.iter().for_each(|key| put(key, 300_000, 1));
    put("k/small", 9, 1);
    tag("red");
    scratch.run(["blob", "rm", "k/too-much"]).ok();
    scratch.run(["snapshot", "export", "k", "wednesday", "--since", "tuesday"]).ok();

    let import = |archives: &[&str], more: &[&str]| {
        scratch.run([&["snapshot", "import"], archives, &["copy"], more].concat())
    };
    let quota = |quota| scratch.run(["keyspace", "alter", "copy", "--quota", quota]).ok();
    let is_of = |seed, tag| {
        assert!(scratch.run(["blob", "cat", "copy/small"]).ok().stdout == content(9, seed), "{tag}");
        assert_eq!(scratch.run(["blob", "attr", "get", "copy/tagged", "tag"]).ok().text().trim(), tag);
    };
    for last in [&["monday"][..], &["monday", "tuesday", "wednesday"]] {
        import(&["monday"], &["--standby"]).ok();
        quota("4MiB");
        import(&["monday", "tuesday"], &["--standby"]).fails(17, "quota");
        is_of(2, "blue");
        // This one does not come to the small blobs, and the next one goes on from there.
        quota("100KiB");
        import(last, &["--standby"]).fails(17, "quota");
        is_of(2, "blue");
        quota("none");
        import(last, &[]).ok();
        is_of(1, "red");
        scratch.run(["snapshot", "verify"].iter().chain(last).chain(&["--against", "copy"])).ok();
        scratch.run(["keyspace", "drop", "copy", "--yes"]).ok();
    }
}

#[test]
fn an_archive_that_is_damaged_changes_nothing() {
    let scratch = filled();
    scratch.run(["snapshot", "export", "k", "archive"]).ok();
    let volume = scratch.path("archive/volume-000000");
    let bytes = fs::read(&volume).expect("is there");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    for (damaged, words) in [(&flipped[..], "wrong checksum"), (&bytes[..bytes.len() - 1], "bytes and not")] {
        fs::write(&volume, damaged).expect("written");
        scratch.run(["snapshot", "verify", "archive"]).fails(19, words);
        scratch.run(["snapshot", "import", "archive", "copy"]).fails(19, words);
        scratch.run(["snapshot", "restore", "k", "--from", "archive", "--yes"]).fails(19, words);
        scratch.run(["keyspace", "show", "copy"]).fails(13, "no keyspace 'copy'");
        scratch.run(["blob", "stat", "k/.tyr-import"]).fails(13, "no blob");
    }
    fs::write(&volume, bytes).expect("written");
    for file in ["index", "volume-000000"] {
        let (there, elsewhere) = (scratch.path(format!("archive/{file}")), scratch.path("elsewhere"));
        fs::rename(&there, &elsewhere).expect("moved");
        scratch.run(["snapshot", "verify", "archive"]).fails(19, "is missing");
        fs::rename(&elsewhere, &there).expect("moved back");
    }
    scratch.run(["snapshot", "verify", "archive", "--against", "k"]).ok();
}

#[test]
fn a_keyspace_whose_quota_is_used_up_is_restored_when_the_snapshot_fits_into_it() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k", "--quota", "1MiB"]).ok();
    scratch.run_with_input(["blob", "put", "k/a"], vec![b'a'; 900 << 10]).ok();
    scratch.run(["snapshot", "create", "k@then"]).ok();
    scratch.run(["blob", "rm", "k/a"]).ok();
    scratch.run_with_input(["blob", "put", "k/b"], vec![b'b'; 900 << 10]).ok();
    scratch.run(["snapshot", "restore", "k@then", "--yes"]).ok();
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().text().len(), 900 << 10);
    scratch.run(["blob", "cat", "k/b"]).fails(13, "no blob 'b'");
}
