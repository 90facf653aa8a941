//! Opening, closing, keyspaces that come and go, and quotas.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::Command;

use common::{durable, in_memory, keyspaces, kind, on_each_disk, on_each_store};
use tyr_embed::blocking::{Store, Transaction};
use tyr_embed::{Check, Create, ErrorKind, KeyspaceSettings, Operand, Outcome, Transform};

#[test]
fn what_was_committed_is_there_after_opening_again() {
    on_each_disk(|path, options| {
        let store = options.clone().open(path).unwrap();
        let [disk, memory, latest] = keyspaces(&store);
        for keyspace in [&disk, &memory, &latest] {
            keyspace.put("a", vec![7; 200_000]).unwrap();
            keyspace.set_attribute("a", "type", Some(b"x")).unwrap();
            keyspace.write("a", 199_999, b"end").unwrap();
        }
        let stats = [&disk, &memory, &latest].map(|keyspace| keyspace.stat("a").unwrap());
        drop((disk, memory, latest));
        store.close().unwrap();

        let store = options.create(Create::Never).open(path).unwrap();
        for (name, stat) in ["durable", "memory", "unversioned"].into_iter().zip(stats) {
            let keyspace = store.keyspace(name).unwrap();
            let blob = keyspace.get("a").unwrap();
            assert_eq!(blob.stat, stat);
            assert_eq!((blob.bytes.len(), &blob.bytes[199_998..]), (200_002, &b"\x07end"[..]));
            let before = blob.stat.version;
            keyspace.write("a", 0, b"x").unwrap();
            assert!(keyspace.stat("a").unwrap().version > before);
        }
    });
}

#[test]
fn a_store_with_small_segments_opens_with_any_options() {
    on_each_disk(|path, options| {
        let large = vec![7; 500_000];
        for segment_size in [128 << 10, 64 << 20] {
            let store = options.clone().segment_size(segment_size).open(path).unwrap();
            let files = store.create_keyspace(&format!("files-{segment_size}"), durable()).unwrap();
            files.put("alone", &large).unwrap();
            let mut transaction = store.begin();
            transaction.append(&files, "a", &large).unwrap();
            transaction.write(&files, "a", 100_000, [8]).unwrap();
            for n in 0..50 {
                transaction.write(&files, "b", n * 1000, [9; 600]).unwrap();
            }
            assert!(matches!(transaction.commit(), Ok(Outcome::Committed(_))));
            let changed = files.read("a", ..).unwrap();
            assert_eq!((changed.len(), &changed[99_999..100_002]), (500_000, &[7, 8, 7][..]));
            assert_eq!(files.read("alone", ..).unwrap(), large);
            assert_eq!(files.read("b", 49_000..).unwrap(), [9; 600]);
            drop(files);
            store.close().unwrap();
        }
    });
}

#[test]
fn dropping_the_last_handle_stops_the_store() {
    on_each_disk(|path, options| {
        let store = options.clone().open(path).unwrap();
        let [_, memory, _] = keyspaces(&store);
        let clone = store.clone();
        drop(store);
        memory.put("a", b"content").unwrap();
        let snapshot = clone.snapshot(&[&memory]).unwrap();
        let mut transaction = clone.begin();
        transaction.read(&memory, "a", ..).unwrap();
        drop((clone, memory, transaction));
        assert_eq!(kind(options.clone().open(path)), ErrorKind::Unavailable);
        drop(snapshot);
        let store = options.open(path).unwrap();
        assert_eq!(store.keyspace("memory").unwrap().read("a", ..).unwrap(), b"content");
    });
}

#[test]
fn creating_is_as_asked_for() {
    on_each_disk(|path, options| {
        let path = path.join("store");
        assert_eq!(kind(options.clone().create(Create::Never).open(&path)), ErrorKind::NotFound);
        options.clone().create(Create::New).open(&path).unwrap().close().unwrap();
        assert_eq!(kind(options.clone().create(Create::New).open(&path)), ErrorKind::Exists);
        options.clone().create(Create::Never).open(&path).unwrap().close().unwrap();
        options.create(Create::IfMissing).open(&path).unwrap().close().unwrap();
    });
}

#[test]
fn a_directory_is_opened_once_at_a_time() {
    on_each_disk(|path, options| {
        let _store = options.clone().open(path).unwrap();
        let error = options.open(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains(&*path.to_string_lossy()), "{error}");

        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "opens_for_another_process", "--nocapture"])
            .env(CHILD_DIRECTORY, path)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        assert!(output.contains("refused as unavailable"), "{output}");
    });
}

const CHILD_DIRECTORY: &str = "TYR_TEST_DIRECTORY";

/// The other process of the test above; by itself it does nothing.
#[test]
fn opens_for_another_process() {
    let Some(path) = std::env::var_os(CHILD_DIRECTORY) else { return };
    match Store::open(path) {
        Ok(_) => println!("opened"),
        Err(error) => println!("refused as {}: {error}", error.kind()),
    }
}

#[test]
fn after_closing_every_handle_is_unavailable() {
    on_each_disk(|path, options| {
        let store = options.open(path).unwrap();
        let [files, _, _] = keyspaces(&store);
        files.put("a", b"content").unwrap();
        let mut transaction = store.begin();
        transaction.write(&files, "a", 0, b"x").unwrap();
        let mut reader = store.begin();
        reader.read(&files, "a", ..).unwrap();
        let snapshot = store.snapshot(&[&files]).unwrap();
        let other = store.clone();
        store.close().unwrap();

        let results = [
            files.read("a", ..).map(drop),
            files.write("a", 0, b"x"),
            files.write("a", 0, vec![1; 1 << 20]),
            files.scan("", None, 1).map(drop),
            transaction.commit().map(drop),
            reader.read(&files, "a", ..).map(drop),
            snapshot.read(&files, "a", ..).map(drop),
            other.begin().exists(&files, "a").map(drop),
            other.create_keyspace("new", durable()).map(drop),
            other.drop_keyspace("durable"),
            other.snapshot(&[&files]).map(drop),
            other.run(|transaction| transaction.read(&files, "a", ..)).map(drop),
            other.flush(),
            other.check().map(drop),
            other.compact().map(drop),
        ];
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::Unavailable), "result {n}");
        }
        assert_eq!(other.keyspaces().len(), 3);
        other.close().unwrap();
    });
}

#[test]
fn handles_of_a_dropped_keyspace_find_nothing() {
    on_each_store(|store| {
        let old = store.create_keyspace("files", in_memory()).unwrap();
        old.put("a", vec![1; 100_000]).unwrap();
        let mut transaction = store.begin();
        transaction.read(&old, "a", ..).unwrap();
        transaction.write(&old, "a", 0, b"x").unwrap();
        let mut blind = store.begin();
        blind.append(&old, "a", b"x").unwrap();
        store.drop_keyspace("files").unwrap();
        let new = store.create_keyspace("files", in_memory()).unwrap();
        let results = [
            old.read("a", ..).map(drop),
            old.exists("a").map(drop),
            old.write("a", 0, b"x"),
            old.put("a", vec![1; 100_000]),
            old.scan("", None, 1).map(drop),
            transaction.commit().map(drop),
            blind.commit().map(drop),
            store.begin().exists(&old, "a").map(drop),
            store.snapshot(&[&old]).map(drop),
        ];
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::NotFound), "result {n}");
        }
        assert!(!new.exists("a").unwrap());
        new.put("a", b"new").unwrap();
        assert_eq!(new.read("a", ..).unwrap(), b"new");
    });
}

#[test]
fn keyspaces_are_listed_with_what_they_hold() {
    on_each_store(|store| {
        let [durable, memory, _] = keyspaces(store);
        durable.put("a", vec![1; 1000]).unwrap();
        durable.write("b", 5000, b"x").unwrap();
        memory.create("c").unwrap();
        durable.truncate("a", 10).unwrap();
        let listed =
            store.keyspaces().into_iter().map(|summary| (summary.name, summary.blobs, summary.bytes));
        let expected = [("durable", 2, 5011), ("memory", 1, 0), ("unversioned", 0, 0)];
        assert_eq!(listed.collect::<Vec<_>>(), expected.map(|(name, b, s)| (name.to_owned(), b, s)));
        durable.delete("b").unwrap();
        assert_eq!(store.keyspaces()[0].bytes, 10);
    });
}

#[test]
fn a_quota_refuses_growth_and_nothing_else() {
    on_each_store(|store| {
        let quota = |quota| KeyspaceSettings { quota, ..in_memory() };
        let files = store.create_keyspace("files", quota(Some(100))).unwrap();
        files.put("a", [1; 60]).unwrap();
        assert_eq!(kind(files.put("b", [1; 41])), ErrorKind::Full);
        assert_eq!(kind(files.append("a", [1; 41])), ErrorKind::Full);
        assert_eq!(kind(files.write("b", 1 << 40, b"x")), ErrorKind::Full);
        assert_eq!(kind(files.truncate("a", 101)), ErrorKind::Full);
        assert_eq!(kind(files.transform("b", 40, Transform::add(Operand::U8(1)))), ErrorKind::Full);
        assert!(!files.exists("b").unwrap());
        files.put("b", [2; 40]).unwrap();
        // Overwriting, shrinking, and moving within the quota go on.
        files.write("a", 0, [3; 60]).unwrap();
        files.create("c").unwrap();
        let mut transaction = store.begin();
        transaction.append(&files, "c", [4; 40]).unwrap();
        transaction.delete(&files, "b").unwrap();
        assert!(matches!(transaction.commit(), Ok(Outcome::Committed(_))));
        let mut transaction = store.begin();
        transaction.append(&files, "c", [4; 40]).unwrap();
        assert_eq!(kind(transaction.commit()), ErrorKind::Full);
        // A quota below what is there refuses only more.
        store.alter_keyspace("files", quota(Some(10))).unwrap();
        assert_eq!(files.settings().quota, Some(10));
        files.truncate("a", 50).unwrap();
        assert_eq!(kind(files.append("a", b"x")), ErrorKind::Full);
        // What makes room may note that elsewhere.
        let ends = |noted: usize, change: &dyn Fn(&mut Transaction)| {
            let mut transaction = store.begin();
            change(&mut transaction);
            transaction.append(&files, "c", vec![5; noted]).unwrap();
            transaction.commit().map(|outcome| matches!(outcome, Outcome::Committed(_)))
        };
        let punch = |transaction: &mut Transaction| transaction.punch(&files, "a", 1 << 40..1 << 41).unwrap();
        assert!(ends(8192, &punch).unwrap());
        assert_eq!(kind(ends(8193, &punch)), ErrorKind::Full);
        let delete = |transaction: &mut Transaction| transaction.delete(&files, "b").unwrap();
        files.create("b").unwrap();
        assert_eq!(kind(ends(8193, &delete)), ErrorKind::Full);
        assert!(ends(8192, &delete).unwrap());
        let writes = |transaction: &mut Transaction| transaction.write(&files, "a", 0, b"x").unwrap();
        assert_eq!(kind(ends(1, &writes)), ErrorKind::Full);
        store.alter_keyspace("files", quota(None)).unwrap();
        files.append("a", [1; 1000]).unwrap();
    });
}

#[test]
fn compaction_and_checks_leave_the_content_alone() {
    on_each_store(|store| {
        let [files, _, _] = keyspaces(store);
        for n in 0..40u8 {
            files.put([n % 8], vec![n; 300_000]).unwrap();
        }
        let snapshot = store.snapshot(&[&files]).unwrap();
        for n in 0..4u8 {
            files.delete([n]).unwrap();
        }
        store.compact().unwrap();
        for n in 0..8u8 {
            assert_eq!(snapshot.read(&files, [n], ..).unwrap(), vec![32 + n; 300_000]);
            assert_eq!(files.exists([n]).unwrap(), n >= 4);
        }
        drop(snapshot);
        store.compact().unwrap();
        store.flush().unwrap();
        let mut transaction = store.begin();
        for n in 4..8u8 {
            let bytes = vec![32 + n; 300_000];
            transaction.check(&files, [n], Check::Bytes { offset: 0, bytes }).unwrap();
        }
        assert!(matches!(transaction.commit(), Ok(Outcome::Committed(_))));
        let report = store.check().unwrap();
        assert!(report.damage.is_empty(), "{report:?}");
    });
}

#[test]
fn a_directory_that_holds_no_store_is_left_as_it_was() {
    for create in [Create::IfMissing, Create::Never, Create::New] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("thesis.tex"), "years of work").unwrap();
        let error = Store::options().create(create).open(directory.path()).unwrap_err();
        let expected = if create == Create::Never { ErrorKind::NotFound } else { ErrorKind::Invalid };
        assert_eq!(error.kind(), expected, "{error}");
        let names: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["thesis.tex"]);
    }
}
