//! Imports and exports that are stopped in the middle.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Run, Scratch, describe_tree};

const FILES: u64 = 40;
const FILE_SIZE: usize = 2 << 20;

/// A tree that takes a while.
fn large_tree(scratch: &Scratch) -> PathBuf {
    for file in 0..FILES {
        let content: Vec<u8> =
            (0..FILE_SIZE).map(|n| u8::try_from((n as u64 * 7 + file) % 251).expect("small")).collect();
        scratch.write(format!("tree/{file:02}"), content);
    }
    scratch.path("tree")
}

/// Waits until there are so many files in the directory. The child, which makes them, must not end before.
fn wait_for_files(directory: PathBuf, count: usize, child: &mut Child) {
    while fs::read_dir(&directory).map_or(0, Iterator::count) < count {
        if child.try_wait().expect("can be asked").is_some() {
            return;
        }
        std::thread::yield_now();
    }
}

fn start(scratch: &Scratch, arguments: &[&str]) -> Child {
    scratch.command(arguments).stdin(Stdio::null()).spawn().expect("starts")
}

fn finish(child: Child) -> Run {
    Run::from(child.wait_with_output().expect("ends"))
}

fn import_arguments() -> [&'static str; 6] {
    ["import", "tree", "k", "--json", "-j", "1"]
}

#[test]
fn an_import_that_was_killed_goes_on_where_it_stopped() {
    let scratch = Scratch::with_keyspace();
    let tree = large_tree(&scratch);
    let mut child = start(&scratch, &import_arguments());
    // Segments have 1 MiB, so several files are in when there are this many.
    wait_for_files(scratch.path("store"), 20, &mut child);
    child.kill().expect("can be killed");
    let killed = finish(child);
    assert_eq!(killed.code, None, "it was killed before it was done");

    // What is there is whole: each blob is skipped or written, none is half a file.
    let resumed = scratch.run(import_arguments().into_iter().chain(["--verify"])).ok().json();
    let (written, skipped) = (resumed["files"].as_u64(), resumed["skipped"].as_u64());
    let (written, skipped) = (written.expect("a number"), skipped.expect("a number"));
    assert!(skipped > 0 && written > 0, "{resumed}");
    let directories = resumed["directories"].as_u64().expect("a number");
    assert_eq!(written + skipped + directories, FILES + 1, "{resumed}");
    scratch.run(["check"]).ok();
    scratch.run(["export", "k", "copy"]).ok();
    assert_eq!(describe_tree(&scratch.path("copy")), describe_tree(&tree));
}

#[test]
fn an_import_that_was_interrupted_ends_cleanly_and_goes_on() {
    let scratch = Scratch::with_keyspace();
    large_tree(&scratch);
    let mut child = start(&scratch, &import_arguments());
    wait_for_files(scratch.path("store"), 20, &mut child);
    kill_process(Pid::from_child(&child), Signal::INT).expect("can be signalled");
    let interrupted = finish(child).fails(130, r#""kind":"interrupted""#);
    let summary = interrupted.json();
    assert_eq!(summary["complete"], false);
    let before = summary["files"].as_u64().expect("a number");
    let resumed = scratch.run(import_arguments()).ok().json();
    assert_eq!(
        resumed["skipped"].as_u64(),
        Some(before + summary["directories"].as_u64().expect("a number"))
    );
    assert_eq!(resumed["files"].as_u64(), Some(FILES - before));
}

#[test]
fn an_export_that_was_killed_goes_on_and_leaves_nothing_behind() {
    let scratch = Scratch::with_keyspace();
    let tree = large_tree(&scratch);
    scratch.run(import_arguments()).ok();
    let mut child = start(&scratch, &["export", "k", "copy", "-j", "1"]);
    wait_for_files(scratch.path("copy"), 5, &mut child);
    child.kill().expect("can be killed");
    finish(child);
    for entry in fs::read_dir(scratch.path("copy")).expect("reads") {
        let entry = entry.expect("reads");
        let name = entry.file_name().into_string().expect("is text");
        if !name.ends_with(".tyr-partial") {
            assert_eq!(entry.metadata().expect("is there").len(), FILE_SIZE as u64, "{name} is whole");
        }
    }
    let resumed = scratch.run(["export", "k", "copy", "--json"]).ok().json();
    assert!(resumed["skipped"].as_u64() > Some(0), "{resumed}");
    assert_eq!(describe_tree(&scratch.path("copy")), describe_tree(&tree));
}
