//! `tyr fs`, and what `tyr mount` refuses before it mounts anything.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::support::Scratch;

#[test]
fn files_are_made_listed_renamed_read_and_removed() {
    let scratch = Scratch::new();
    scratch.run(["fs", "ls", "files"]).fails(13, "no store");
    scratch.run(["fs", "create", "files"]).ok();
    scratch.run(["fs", "mkdir", "files/logs"]).ok();
    scratch.run_with_input(["fs", "put", "files/logs/today"], "a line\n").ok();
    scratch.run(["fs", "ln", "logs/today", "files/link"]).ok();
    scratch.run(["fs", "mv", "files/logs", "/archive"]).ok();
    scratch.run(["fs", "cat", "files/link"]).fails(13, "files/link: ");
    scratch.run(["fs", "mv", "files/archive/today", "files/archive/later"]).ok();
    scratch.run(["fs", "mv", "files/archive/later", "other/archive/today"]).fails(2, "files/PATH");
    scratch
        .run(["fs", "mv", "files/archive/later", "today"])
        .fails(2, "'today' is not in the keyspace 'files'");
    scratch.run(["fs", "mv", "files/archive/later", "files/archive/today"]).ok();
    assert_eq!(scratch.run(["fs", "cat", "files/archive/today"]).ok().stdout, b"a line\n");
    let listed = scratch.run(["fs", "ls", "files", "--json"]).ok().json();
    let names = listed["entries"].as_array().expect("a list").iter().map(|entry| entry["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["archive", "link"]);
    scratch.run(["fs", "rm", "files/archive"]).fails(15, "ENOTEMPTY");
    scratch.run(["fs", "rm", "files/archive/today"]).ok();
    scratch.run(["fs", "rm", "files/archive"]).ok();
    scratch.run(["fs", "stat", "files/archive"]).fails(13, "ENOENT");
    scratch.run(["fs", "mkdir", "files/link"]).fails(14, "EEXIST");
}

#[test]
fn a_put_that_fails_leaves_the_file_as_it_was() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "files", "--quota", "1MiB"]).ok();
    scratch.run(["fs", "create", "files"]).ok();
    scratch.run_with_input(["fs", "put", "files/notes"], "what was there").ok();
    let before = scratch.run(["fs", "stat", "files/notes", "--json"]).ok().json();
    scratch.run_with_input(["fs", "put", "files/notes"], vec![b'x'; 2 << 20]).fails(17, "quota");
    assert_eq!(scratch.run(["fs", "cat", "files/notes"]).ok().text(), "what was there");
    scratch.run_with_input(["fs", "put", "files/notes"], "less").ok();
    assert_eq!(scratch.run(["fs", "cat", "files/notes"]).ok().text(), "less");
    let after = scratch.run(["fs", "stat", "files/notes", "--json"]).ok().json();
    assert_eq!((&after["inode"], &after["size"]), (&before["inode"], &4.into()));
}

#[test]
fn names_and_targets_that_are_no_text_are_told_in_hexadecimal_digits() {
    let scratch = Scratch::new();
    scratch.run(["fs", "create", "files"]).ok();
    let odd = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let arguments = ["fs", "ln"].map(OsStr::new);
    let link = [odd(b"to\xfe"), odd(b"files/a\xff")];
    scratch.run(arguments.into_iter().chain(link.iter().map(AsRef::as_ref))).ok();
    let listed = scratch.run(["fs", "ls", "files", "--json"]).ok().json();
    let entry = &listed["entries"][0];
    assert_eq!((entry.get("name"), &entry["name_hex"]), (None, &"61ff".into()));
    assert_eq!(scratch.run(["fs", "ls", "files"]).ok().text(), "a\\xff\n");
    let shown = ["fs", "stat", "--json"].map(OsStr::new);
    let run = scratch.run(shown.into_iter().chain([link[1].as_ref()])).ok();
    let told = run.json();
    assert_eq!((told.get("target"), &told["target_hex"]), (None, &"746ffe".into()));
}

#[test]
fn a_mount_of_what_is_no_file_system_or_with_unknown_options_is_refused() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "plain"]).ok();
    scratch
        .run(["mount", "plain", "."])
        .fails(15, "holds no file system; make one first, with 'tyr mount --create'");
    scratch.run(["mount", "missing", "."]).fails(13, "--create");
    scratch.run(["mount", "plain", ".", "-o", "colour"]).fails(2, "'colour' is no option");
    scratch.run(["mount", "plain", ".", "--mount-threads", "0"]).fails(2, "--mount-threads");
    let store = "tyr://127.0.0.1:1";
    scratch
        .run(["mount", store, "."])
        .fails(2, "'tyr://127.0.0.1:1' has no keyspace; write KEYSPACE, or tyr://HOST");
    scratch.run(["blob", "put", "plain/x", "/dev/null"]).ok();
    scratch.run(["mount", "plain", "."]).fails(15, "--flat");
    scratch.run(["fs", "create", "plain"]).fails(15, "not empty");
}

#[test]
fn what_is_not_there_is_named() {
    let scratch = Scratch::new();
    scratch.run(["fs", "create", "files"]).ok();
    scratch.run(["fs", "mkdir", "files/a"]).ok();
    scratch.run(["fs", "ls", "missing"]).fails(13, "missing: there is no keyspace");
    scratch.run(["mount", "files/a/x", "."]).fails(13, "files/a/x: there is nothing of that name");
    scratch.run(["mount", "--subdir", "x", "files/a", "."]).fails(13, "files/a/x: there is nothing of that");
    let missing = "files/a/b/c/d: there is no directory 'b' on the way";
    scratch.run_with_input(["fs", "put", "files/a/b/c/d"], "").fails(13, missing);
    for verb in ["ls", "mkdir", "cat", "rm"] {
        scratch.run(["fs", verb, "files/a/b/c/d"]).fails(13, missing);
    }
    scratch.run(["mount", "files/a/b/c/d", "."]).fails(13, missing);
}

#[test]
fn a_large_file_is_printed_piece_by_piece_as_it_was_put() {
    let scratch = Scratch::new();
    scratch.run(["fs", "create", "files"]).ok();
    let content: Vec<u8> = (0..(65_u32 << 20) / 4 + 1).flat_map(u32::to_le_bytes).collect();
    scratch.run_with_input(["fs", "put", "files/large", "-"], content.clone()).ok();
    assert!(scratch.run(["fs", "cat", "files/large"]).ok().stdout == content);
}
