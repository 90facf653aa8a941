use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tyr_client::{Seek, blocking::Store};

use crate::support::{Run, Scratch, describe_tree};

/// A tree with everything that is odd about files.
fn odd_tree(scratch: &Scratch) -> PathBuf {
    let root = scratch.path("tree");
    let name = |bytes: &[u8]| Path::new(OsStr::from_bytes(bytes)).to_owned();
    for directory in ["empty", "a/b/c/d", "read-only", ".hidden"] {
        fs::create_dir_all(root.join(directory)).expect("created");
    }
    let large: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
    let files: [(&[u8], &[u8]); 10] = [
        (b"empty-file", b""),
        (b"a/b/c/d/deep", b"deep"),
        (b"a!", b"sorts between a and a/"),
        (b"new\nline", b"odd"),
        (b"not-utf8-\xff\xfe", b"odd"),
        (b" spaces ", b"odd"),
        (b"-dash", b"odd"),
        (b"..dots..", b"odd"),
        (b"read-only/file", b"odd"),
        (b"large", &large),
    ];
    for (path, content) in files {
        fs::write(root.join(name(path)), content).expect("written");
    }
    symlink("a/b", root.join("link")).expect("linked");
    symlink("/nowhere/\u{e9}", root.join("dangling")).expect("linked");
    symlink(".", root.join("a/self")).expect("linked");
    let set_mode =
        |path: &str, mode| fs::set_permissions(root.join(path), Permissions::from_mode(mode)).expect("set");
    set_mode("-dash", 0o755);
    set_mode("empty-file", 0o400);
    set_mode("empty", 0o1777);
    for (path, seconds) in [("a!", 1), ("a/b", 1_000_000_000), ("read-only/file", 86400)] {
        let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
        File::open(root.join(path)).expect("opens").set_modified(time).expect("set");
    }
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
    File::open(root.join(" spaces ")).expect("opens").set_modified(before_1970).expect("set");
    set_mode("read-only", 0o555);
    root
}

fn allow_removal(root: &Path) {
    fs::set_permissions(root.join("read-only"), Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn holes_of_files_stay_holes() {
    const MIB: u64 = 1 << 20;
    let scratch = Scratch::new();
    let tree = scratch.path("tree");
    fs::create_dir(&tree).expect("created");
    // Data between two holes, a hole at the end, and zeros that were written.
    for (name, data, size) in
        [("between", 40 * MIB, 64 * MIB), ("whole", 0, 64 * MIB), ("end", 40 * MIB, 40 * MIB + 3)]
    {
        let file = File::create(tree.join(name)).expect("created");
        file.write_all_at(b"abc", data).expect("written");
        file.set_len(size).expect("set");
    }
    scratch.write("tree/zeros", vec![0; 5 << 20]);
    scratch.run(["import", "tree", "k", "--create", "--verify"]).ok();
    {
        let store = Store::open(scratch.path("store")).expect("opens");
        let keyspace = store.keyspace("k").expect("is there");
        let seek = |key, what, from| keyspace.seek(key, what, from).expect("is there");
        assert_eq!(seek("between", Seek::Hole, 0), Some(MIB));
        assert_eq!(seek("between", Seek::Data, MIB), Some(40 * MIB));
        assert_eq!(seek("between", Seek::Hole, 40 * MIB), Some(41 * MIB));
        assert_eq!(seek("between", Seek::Data, 41 * MIB), None);
        assert_eq!(keyspace.stat("between").expect("is there").size, 64 * MIB);
        assert_eq!(seek("end", Seek::Data, MIB), Some(40 * MIB));
    }
    scratch.run(["export", "k", "copy", "--verify"]).ok();
    assert_eq!(describe_tree(&scratch.path("copy")), describe_tree(&tree));
    for name in ["between", "whole", "end", "zeros"] {
        let blocks = fs::metadata(scratch.path("copy").join(name)).expect("is there").blocks();
        assert!(blocks * 512 < MIB, "{name} takes {blocks} blocks");
    }
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let scratch = Scratch::new();
    let tree = odd_tree(&scratch);
    for (target, threads) in [("k", "1"), ("other/some/prefix", "4")] {
        let import = scratch
            .run(["import", "tree", target, "--create", "--verify", "--json", "-j", threads])
            .ok()
            .json();
        let counts = ["files", "directories", "symlinks", "skipped", "failed", "verified"]
            .map(|field| import[field].as_u64());
        assert_eq!(counts, [10, 8, 3, 0, 0, 21].map(Some), "{import}");
        let copy = format!("copy-{threads}");
        let export = scratch.run(["export", target, &copy, "--verify", "--json", "-j", threads]).ok().json();
        assert_eq!((&export["files"], &export["verified"]), (&10.into(), &10.into()), "{export}");
        assert_eq!(describe_tree(&scratch.path(&copy)), describe_tree(&tree));
        allow_removal(&scratch.path(&copy));
    }
    allow_removal(&tree);
}

#[test]
fn what_is_there_is_skipped_and_what_changed_is_not() {
    let scratch = Scratch::new();
    let tree = odd_tree(&scratch);
    let counts = |run: Run| {
        let json = run.ok().json();
        (json["files"].as_u64().expect("a number"), json["skipped"].as_u64().expect("a number"))
    };
    let import = |flags: &[&str]| {
        counts(scratch.run([&["import", "tree", "k", "--create", "--json"], flags].concat()))
    };
    let export = || counts(scratch.run(["export", "k", "copy", "--json"]));
    assert_eq!((import(&[]), export()), ((10, 0), (10, 0)));
    assert_eq!((import(&["--verify"]), export()), ((0, 21), (0, 13)));

    // Content that changed without changing size and time is found by its checksum, on both sides.
    let change = |path: PathBuf, content: &[u8]| {
        let time = fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("has a time");
        fs::write(&path, content).expect("written");
        File::open(&path).expect("opens").set_modified(time).expect("set");
    };
    change(tree.join("new\nline"), b"ODD");
    let mut large = fs::read(tree.join("large")).expect("reads");
    large[2_000_000] ^= 1;
    change(tree.join("large"), &large);
    assert_eq!((import(&[]), export()), ((2, 19), (2, 11)));
    change(scratch.path("copy/-dash"), b"ODD");
    assert_eq!(export(), (1, 12));
    // A mode alone needs no content; a time alone does.
    fs::set_permissions(scratch.path("copy/-dash"), Permissions::from_mode(0o600)).expect("set");
    File::open(scratch.path("copy/a!")).expect("opens").set_modified(SystemTime::now()).expect("set");
    assert_eq!(export(), (1, 12));
    assert_eq!(describe_tree(&scratch.path("copy")), describe_tree(&tree));
    allow_removal(&scratch.path("copy"));
    allow_removal(&tree);
}

#[test]
fn a_file_that_another_export_is_writing_is_left_to_it() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["blob", "put", "k/ab"], "whole").ok();
    let sum = |bytes: &[u8]| format!("{:08x}", tyr_wire::checksum::crc32c(bytes));
    let partial = scratch.write(format!("out/.{}{}.tyr-partial", sum(b"ab"), sum(b"ba")), "half");
    let other = File::options().write(true).open(&partial).expect("opens");
    other.lock().expect("is locked");
    scratch.run(["export", "k", "out"]).fails(12, "another run of this command is writing");
    assert_eq!(fs::read(&partial).expect("is there"), b"half");
    // One that was killed holds no lock.
    drop(other);
    fs::set_permissions(&partial, Permissions::from_mode(0o400)).expect("set");
    scratch.run(["export", "k", "out"]).ok();
    assert!(!partial.exists());
    assert_eq!(fs::read(scratch.path("out/ab")).expect("is there"), b"whole");
}

#[test]
fn keys_that_are_no_paths_within_the_directory_are_told_of_and_the_others_exported() {
    let scratch = Scratch::with_keyspace();
    for key in ["../escaped", "a/../../escaped", "/escaped", "a//b", "a/./b", "..", "zero\\x00byte"] {
        let script = format!("put k/\"t/aaa\" good\nput k/\"t/{key}\" evil\n");
        scratch.run_with_input(["tx", "run", "-q"], script).ok();
        let run =
            scratch.run(["export", "k/t", "out/inner"]).fails(1, "1 of the files could not be exported");
        assert!(run.stderr.contains("is no path within a directory: "), "{key}: {}", run.stderr);
        assert_eq!(describe_tree(&scratch.path("out")).len(), 3, "{key}: two directories and the file");
        fs::remove_dir_all(scratch.path("out")).expect("removed");
        scratch.run(["blob", "rm", "k/t/aaa"]).ok();
        scratch.run(["export", "k/t", "out/inner"]).fails(15, "nothing is exported, because no key");
        assert!(!scratch.path("out").exists(), "{key}");
        scratch.run(["blob", "rm", "-r", "k"]).ok();
    }
    assert!(!scratch.path("escaped").exists());
}

#[test]
fn of_many_keys_that_are_no_paths_the_first_are_told_of_and_the_rest_counted() {
    let scratch = Scratch::with_keyspace();
    let script: String = (0..12).map(|number| format!("put k/a//{number:02} x\n")).collect();
    scratch.run_with_input(["tx", "run", "-q"], script + "put k/good x\n").ok();
    let run = scratch.run(["-j", "1", "--json", "export", "k", "out"]).fails(1, "7 more are not exported");
    assert_eq!(run.stderr.matches("is not exported").count(), 5, "{}", run.stderr);
    assert!(run.stderr.contains("k/a//04") && !run.stderr.contains("k/a//05"), "{}", run.stderr);
    let told = run.json();
    assert_eq!((&told["files"], &told["failed"], &told["damaged"]), (&1.into(), &12.into(), &0.into()));
}

#[test]
fn nothing_is_written_through_symbolic_links() {
    let scratch = Scratch::with_keyspace();
    fs::create_dir(scratch.path("elsewhere")).expect("created");
    fs::create_dir(scratch.path("source")).expect("created");
    symlink(scratch.path("elsewhere"), scratch.path("source/a")).expect("linked");
    scratch.run(["import", "source", "k"]).ok();
    scratch.run_with_input(["blob", "put", "k/a/file"], "evil").ok();
    // Whichever of the link and the directory comes first, the other is refused.
    for _ in 0..2 {
        scratch.run(["export", "k", "out"]).fails(1, "warning");
        assert_eq!(fs::read_dir(scratch.path("elsewhere")).expect("reads").count(), 0);
    }
    fs::create_dir(scratch.path("prepared")).expect("created");
    symlink(scratch.path("elsewhere"), scratch.path("prepared/a")).expect("linked");
    scratch.run(["export", "k", "prepared"]).fails(1, "is in the way");
    assert_eq!(fs::read_dir(scratch.path("elsewhere")).expect("reads").count(), 0);
}

#[test]
fn blobs_that_were_not_imported_become_plain_files() {
    let scratch = Scratch::with_keyspace();
    scratch.run_with_input(["tx", "run", "-q"], "put k/a/b \"content\"\nput k/c \"\"\n").ok();
    scratch.run(["export", "k", "out"]).ok();
    assert_eq!(fs::read(scratch.path("out/a/b")).expect("is there"), b"content");
    assert_eq!(fs::metadata(scratch.path("out/c")).expect("is there").permissions().mode() & 0o777, 0o644);
    scratch.run_with_input(["blob", "put", "k/d/"], "a file with a slash").ok();
    scratch.run(["export", "k", "out"]).fails(1, "k/d/ is not exported");
}

#[test]
fn what_was_written_to_since_it_was_imported_is_exported_as_it_is_and_imported_again() {
    let scratch = Scratch::with_keyspace();
    scratch.write("tree/file", "content");
    scratch.write("tree/other", "content");
    scratch.run(["import", "tree", "k"]).ok();
    let export = || {
        let json = scratch.run(["export", "k", "out", "--json"]).ok().json();
        ["files", "skipped", "changed"].map(|count| json[count].as_u64().expect("a number"))
    };
    assert_eq!(export(), [2, 0, 0]);
    // Size, mode, time, and recorded checksum are those of the file, so only reading the blob tells.
    scratch.run_with_input(["blob", "put", "k/file", "--at", "3"], "X").ok();
    assert_eq!(export(), [1, 1, 1]);
    assert_eq!(fs::read_to_string(scratch.path("out/file")).expect("reads"), "conXent");
    let time =
        |path| fs::metadata(scratch.path(path)).and_then(|metadata| metadata.modified()).expect("has a time");
    assert_ne!(time("out/file"), time("tree/file"));
    assert_eq!(time("out/other"), time("tree/other"));

    let again = scratch.run(["import", "tree", "k", "--verify", "--json"]).ok().json();
    // The other file, and the directory.
    assert_eq!((again["files"].as_u64(), again["skipped"].as_u64()), (Some(1), Some(2)));
    assert_eq!(export(), [1, 1, 0]);
    assert_eq!(fs::read_to_string(scratch.path("out/file")).expect("reads"), "content");
}

#[test]
fn attributes_that_import_did_not_write_are_named() {
    let scratch = Scratch::with_keyspace();
    scratch.write("tree/file", "content");
    scratch.run(["import", "tree", "k"]).ok();
    scratch.run(["blob", "attr", "set", "k/file", "file.mode", "rwx"]).ok();
    scratch.run(["export", "k", "out"]).fails(15, "file.mode");
    scratch.run(["import", "tree", "k"]).ok();
    scratch.run(["export", "k", "out"]).ok();
}

#[test]
fn sockets_and_the_store_itself_are_left_out() {
    let scratch = Scratch::with_keyspace();
    scratch.write("file", "x");
    let _socket = UnixListener::bind(scratch.path("socket")).expect("binds");
    let json = scratch.run(["import", ".", "k", "--json"]).ok().json();
    assert_eq!((&json["files"], &json["left_out"]), (&1.into(), &2.into()), "{json}");
    assert_eq!(scratch.run(["blob", "ls", "k"]).ok().text(), "./\nfile\n");
}

#[test]
fn what_does_not_fit_is_refused_and_the_rest_goes_on() {
    let scratch = Scratch::with_keyspace();
    scratch.write("tree/file", "x");
    let long = "p".repeat(4093);
    let run = scratch.run(["import", "tree", &format!("k/{long}")]).fails(1, "'tree/file' is not imported");
    assert!(run.stderr.contains("1 of the files could not be imported"), "{}", run.stderr);
    assert!(run.text().starts_with("imported 0 files, 1 directories"), "{}", run.text());
    let script = format!("put k/t/{} x\nput k/t/short x\n", "n".repeat(300));
    scratch.run_with_input(["tx", "run", "-q"], script).ok();
    let json = scratch.run(["export", "k/t", "out", "--json"]).fails(1, r#"{"warning":{"message":"#).json();
    assert_eq!((&json["files"], &json["failed"]), (&1.into(), &1.into()));
    assert_eq!(fs::read_dir(scratch.path("out")).expect("reads").count(), 1);
}

#[test]
fn what_is_missing_is_said() {
    let scratch = Scratch::with_keyspace();
    scratch.run(["import", "nowhere", "k"]).fails(1, "cannot import the directory 'nowhere'");
    scratch.write("file", "x");
    scratch.run(["import", "file", "k"]).fails(1, "ot a directory");
    scratch.run(["import", ".", "nothing"]).fails(13, "nothing");
    scratch.run(["export", "k", "out"]).fails(13, "nothing to export");
    scratch.run_with_input(["blob", "put", "k/ab"], "x").ok();
    scratch.run(["export", "k/a", "out"]).fails(13, "nothing to export");
    scratch.run(["export", "k", "file"]).fails(1, "cannot create the directory 'file'");
}

#[test]
fn a_keyspace_without_versions_is_exported_too() {
    let scratch = Scratch::new();
    scratch.run(["keyspace", "create", "k", "--multi-version", "off"]).ok();
    scratch.write("tree/a", "content");
    scratch.run(["import", "tree", "k"]).ok();
    scratch.run(["export", "k", "out"]).ok();
    assert_eq!(describe_tree(&scratch.path("out")), describe_tree(&scratch.path("tree")));
    assert_eq!(scratch.run(["blob", "cat", "k/a"]).ok().stdout, b"content");
}

#[test]
fn trees_in_one_keyspace_are_exported_together() {
    let scratch = Scratch::with_keyspace();
    scratch.write("one/a", "a");
    scratch.write("two/b", "b");
    scratch.run(["import", "one", "k/x"]).ok();
    scratch.run(["import", "two", "k/y/"]).ok();
    scratch.run(["export", "k", "out"]).ok();
    assert_eq!(describe_tree(&scratch.path("out/x")), describe_tree(&scratch.path("one")));
    assert_eq!(describe_tree(&scratch.path("out/y")), describe_tree(&scratch.path("two")));
}
