//! Which paths are ours, and what is inherited, without the functions that stand before those of the C library.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the modules are those of the library, which uses all of them")]

#[path = "../src/paths.rs"]
mod paths;
#[path = "../src/record.rs"]
mod record;

use paths::{Mounted, Options, Place, descriptor_named, may_name_descriptor, place};
use record::{Record, Use};
use tyr_fs::{Inode, Kind, site::Site};

fn ours(path: &str) -> Place {
    Place::Ours(path.as_bytes().to_vec())
}

fn out(path: &str) -> Place {
    Place::Out(path.as_bytes().to_vec())
}

#[test]
fn a_descriptor_is_named_by_the_paths_that_the_kernel_has_of_it() {
    let named = |path: &str| descriptor_named(path.as_bytes(), 77);
    for (path, number, rest) in [
        ("/dev/stdin", 0, ""),
        ("/dev/stdout", 1, ""),
        ("/dev//stderr", 2, ""),
        ("/dev/fd/12", 12, ""),
        ("/dev/fd/12/", 12, ""),
        ("/proc/self/fd/3/sub/file", 3, "/sub/file"),
        ("/proc/./77/fd/3", 3, ""),
        ("/proc/thread-self/fd/3", 3, ""),
        ("/proc/self/task/78/fd/3", 3, ""),
    ] {
        assert!(may_name_descriptor(path.as_bytes()), "{path}");
        assert_eq!(named(path), Some((number, rest.as_bytes().to_vec())), "{path}");
    }
    for path in [
        "/proc/78/fd/3",
        "/dev/fd",
        "/dev/fd/x",
        "/dev/fd/../fd",
        "/proc/self/fdinfo/3",
        "dev/fd/3",
        "/tmp/fd/3",
    ] {
        assert_eq!(named(path), None, "{path}");
    }
    assert!(may_name_descriptor(b"3") && may_name_descriptor(b"3/sub") && !may_name_descriptor(b"file-3"));
}

#[test]
fn a_path_from_a_directory_of_the_kernel_leads_below_the_prefix_if_it_names_its_end() {
    let mounted = Mounted::parse(b"/mnt/tyr=files").unwrap();
    for path in ["mnt/tyr/a", "tyr", "../mnt/tyr/"] {
        assert!(mounted.may_be_entered(path.as_bytes()), "{path}");
    }
    for path in ["mnt/tyrant", "a", "mnt", ""] {
        assert!(!mounted.may_be_entered(path.as_bytes()), "{path}");
    }
}

#[test]
fn a_path_is_ours_if_it_leads_below_the_prefix() {
    for (path, expected) in [
        ("/mnt/tyr", ours("/")),
        ("/mnt/tyr/", ours("/")),
        ("/mnt//tyr/a/./b/", ours("/a/./b/")),
        ("/mnt/./x/../tyr/a", ours("/a")),
        ("/mnt/tyr/a/../b", ours("/a/../b")),
        ("/mnt/tyr/a/../../x", out("/mnt/x")),
        ("/mnt/tyr/../tyr/b", ours("/b")),
        ("/mnt/tyr/a/../../../mnt/tyr/c", ours("/c")),
        ("/mnt/tyrant", Place::Theirs),
        ("/mnt/ty", Place::Theirs),
        ("/../mnt/tyr/..", out("/mnt")),
        ("/", Place::Theirs),
    ] {
        assert_eq!(place(b"/mnt/tyr", path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn what_is_mounted_is_understood() {
    let mounted = Mounted::parse(b"/mnt/tyr/=tyr://a:1,b:2/files/sub/,create,flat").unwrap();
    let options = Options { creates: true, is_flat: true, ..Options::default() };
    assert_eq!(
        mounted,
        Mounted {
            prefix: b"/mnt/tyr".to_vec(),
            store: Some("tyr://a:1,b:2".into()),
            keyspace: "files".to_owned(),
            directory: b"/sub".to_vec(),
            options,
        }
    );
    let mounted = Mounted::parse(b"/t=files,ro").unwrap();
    assert_eq!((mounted.store, mounted.keyspace, mounted.directory), (None, "files".to_owned(), Vec::new()));
    assert!(mounted.options.is_read_only);
}

#[test]
fn a_prefix_is_known_although_what_follows_is_wrong() {
    for (wrong, prefix) in [
        ("", None),
        ("/x", None),
        ("=files", None),
        ("/=files", None),
        ("x=files", None),
        ("/x=", Some("/x")),
        ("/x/=tyr://a:1", Some("/x")),
        ("/x=tyr://a:1/", Some("/x")),
        ("/x/./y=files,fast", Some("/x/y")),
    ] {
        let mistake = Mounted::parse(wrong.as_bytes()).unwrap_err();
        assert_eq!(mistake.prefix, prefix.map(|prefix| prefix.as_bytes().to_vec()), "{wrong}");
    }
}

#[test]
fn a_record_is_what_it_was_and_other_bytes_are_none() {
    let inode = Inode { number: 77, kind: Kind::Directory, site: Site::fresh(5) };
    let record =
        Record { mount: b"/m=files".to_vec(), use_: Use::Open(libc::O_RDWR), inode, path: b"/a".to_vec() };
    let bytes = record.encode();
    assert_eq!(Record::decode(&bytes), Some(record.clone()));
    let record = Record { use_: Use::WorkingDirectory(b"tyr-nowhere-abcdef".to_vec()), ..record };
    assert_eq!(Record::decode(&record.encode()), Some(record));
    for length in 0..bytes.len() {
        assert_eq!(Record::decode(&bytes[..length]), None, "{length}");
    }
}
