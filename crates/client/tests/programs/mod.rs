//! Programs that are told the same by every store: what they do, and what they hear, in words that do not depend on the store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fmt::Debug, ops::Range};

use tyr_client::{
    Check, Entry, ErrorKind, KeyspaceSettings, Operand, Outcome, Result, Seek, Stat, Transform,
    blocking::{Keyspace, Store, Transaction},
};

/// What a program was told, in words that do not depend on the store.
#[derive(Default)]
pub struct Told(pub Vec<String>);

impl Told {
    fn note<T: Debug>(&mut self, what: &str, result: Result<T>) {
        let result = result.map_err(|error| error.kind());
        self.0.push(format!("{what}: {result:?}"));
    }

    fn end(&mut self, what: &str, result: Result<Outcome>) {
        let word = |outcome| match outcome {
            Outcome::Committed(_) => "committed",
            Outcome::Conflict(_) => "conflict",
        };
        self.note(what, result.map(word));
    }
}

/// A program.
pub type Program = fn(&Store, &Keyspace, &mut Told);

/// Runs a program on the store of a name, which is left as it was.
pub fn run(name: &str, program: Program) -> Vec<String> {
    let settings = KeyspaceSettings { chunk_size: 64 << 10, ..KeyspaceSettings::default() };
    let (store, mut told) = (Store::open(name).unwrap(), Told::default());
    let keyspace = store.create_keyspace("files", settings).unwrap();
    program(&store, &keyspace, &mut told);
    drop(keyspace);
    drop(store);
    let store = Store::open(name).unwrap();
    store.keyspaces().iter().for_each(|known| store.drop_keyspace(&known.name).unwrap());
    store.close().unwrap();
    assert!(!told.0.is_empty());
    told.0
}

/// All of them.
pub const ALL: [(&str, Program); 16] = [
    ("lone_operations_do_the_same", lone_operations_do_the_same),
    ("attributes_are_the_same", attributes_are_the_same),
    (
        "transactions_see_their_own_changes_and_happen_as_a_whole",
        transactions_see_their_own_changes_and_happen_as_a_whole,
    ),
    (
        "appends_of_a_transaction_are_not_read_before_their_place_is_known",
        appends_of_a_transaction_are_not_read_before_their_place_is_known,
    ),
    (
        "what_was_read_and_has_changed_is_a_conflict_and_the_rest_is_not",
        what_was_read_and_has_changed_is_a_conflict_and_the_rest_is_not,
    ),
    ("checks_hold_or_the_commit_is_a_conflict", checks_hold_or_the_commit_is_a_conflict),
    ("runs_are_repeated_until_they_commit", runs_are_repeated_until_they_commit),
    ("large_payload_is_whole", large_payload_is_whole),
    ("holes_are_punched_and_found", holes_are_punched_and_found),
    ("bytes_are_copied_from_blob_to_blob", bytes_are_copied_from_blob_to_blob),
    ("lists_are_in_order_and_complete", lists_are_in_order_and_complete),
    ("a_snapshot_stays_as_it_is", a_snapshot_stays_as_it_is),
    ("a_snapshot_with_a_name_stays_until_it_is_dropped", a_snapshot_with_a_name_stays_until_it_is_dropped),
    ("keyspaces_are_created_listed_altered_and_dropped", keyspaces_are_created_listed_altered_and_dropped),
    ("keyspaces_without_versions_are_read_and_written", keyspaces_without_versions_are_read_and_written),
    ("a_closed_store_says_so", a_closed_store_says_so),
];

fn add(number: u64) -> Transform {
    Transform::add(Operand::U64(number))
}

pub fn lone_operations_do_the_same(_: &Store, files: &Keyspace, told: &mut Told) {
    told.note("read nothing", files.read("a", ..));
    told.note("write", files.write("a", 3, b"abc"));
    told.note("read", files.read("a", ..));
    told.note("read a part", files.read("a", 2..5));
    told.note("read past the end", files.read("a", 5..100));
    told.note("read far away", files.read("a", 1000..2000));
    told.note("create", files.create("a"));
    told.note("create another", files.create("b"));
    told.note("append", files.append("a", b"more"));
    told.note("append nothing", files.append("a", b""));
    told.note("append anew", files.append("c", b"first"));
    told.note("write nothing", files.write("d", 100, b""));
    told.note("size of nothing", files.stat("d").map(|stat| stat.size));
    let sizes = |stats: Vec<Option<Stat>>| -> Vec<_> {
        stats.into_iter().map(|stat| stat.map(|stat| stat.size)).collect()
    };
    told.note("sizes", files.stats(&["a", "d", "b", "c", "a"]).map(sizes));
    let with = files.get_with_stats("a", &["d", "b", "c", "a"]);
    told.note("with sizes", with.map(|(blob, stats)| (blob.bytes, sizes(stats))));
    let many: Vec<String> =
        (0..70).map(|number| if number % 7 == 0 { "b".into() } else { format!("no {number}") }).collect();
    told.note("with many", files.get_with_stats("a", &many).map(|(_, stats)| sizes(stats)));
    told.note("of nothing", files.get_with_stats("d", &["a"]).map(|(_, stats)| sizes(stats)));
    told.note("truncate", files.truncate("a", 4));
    told.note("grow", files.truncate("a", 70_000));
    told.note("size", files.stat("a").map(|stat| stat.size));
    told.note("the end", files.read("a", 69_990..));
    told.note("put", files.put("a", b"anew"));
    told.note("whole", files.get("a").map(|blob| (blob.bytes, blob.stat.size)));
    told.note("transform", files.transform("n", 8, add(5)));
    told.note("again", files.transform("n", 8, add(2)));
    told.note("across chunks", files.transform("n", (64 << 10) - 4, add(7)));
    told.note("and again", files.transform("n", (64 << 10) - 4, add(1)));
    told.note("exists", files.exists("n"));
    told.note("delete", files.delete("n"));
    told.note("delete again", files.delete("n"));
    told.note("exists no more", files.exists("n"));
    told.note("truncate nothing", files.truncate("n", 1));
    told.note("no key", files.read("", ..));
    told.note("too far", files.write("a", u64::MAX, b"x"));
    let mut buffer = [7; 10];
    told.note("into a buffer", files.read_into("a", 1, &mut buffer));
    told.note("that buffer", Ok(buffer));
}

pub fn attributes_are_the_same(store: &Store, files: &Keyspace, told: &mut Told) {
    told.note("of nothing", files.attribute("a", "type"));
    told.note("set on nothing", files.set_attribute("a", "type", Some(b"x")));
    files.put("a", b"{}").unwrap();
    told.note("unset", files.attribute("a", "type"));
    told.note("set", files.set_attribute("a", "type", Some(b"json")));
    told.note("get", files.attribute("a", "type"));
    told.note("stat", files.stat("a").map(|stat| stat.attributes));
    files.put("a", b"kept").unwrap();
    told.note("kept", files.attribute("a", "type"));
    let mut transaction = store.begin();
    told.note("seen", transaction.attribute(files, "a", "type"));
    told.note("removed", transaction.set_attribute(files, "a", "type", None));
    told.note("another", transaction.set_attribute(files, "a", "size", Some(b"4")));
    told.note("laid over", transaction.attribute(files, "a", "type"));
    told.note("stat", transaction.stat(files, "a").map(|stat| stat.attributes));
    told.end("commit", transaction.commit());
    told.note("stat", files.stat("a").map(|stat| stat.attributes));
    files.delete("a").unwrap();
    files.create("a").unwrap();
    told.note("gone", files.attribute("a", "size"));
    // More than there is room for is refused whoever sets it, and nothing of it happens.
    let large = [7; 40_000];
    files.set_attribute("a", "one", Some(&large)).unwrap();
    told.note("too many", files.set_attribute("a", "two", Some(&large)));
    let mut transaction = store.begin();
    let set = transaction.set_attribute(files, "a", "two", Some(&large));
    told.note("now or at the commit", set.and_then(|()| transaction.commit()).map(drop));
    let mut transaction = store.begin();
    transaction.set_attribute(files, "a", "one", None).unwrap();
    transaction.set_attribute(files, "a", "two", Some(&large)).unwrap();
    told.end("in its place", transaction.commit());
    told.note(
        "names",
        files
            .stat("a")
            .map(|stat| stat.attributes.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()),
    );
}

pub fn transactions_see_their_own_changes_and_happen_as_a_whole(
    store: &Store,
    files: &Keyspace,
    told: &mut Told,
) {
    files.write("a", 0, b"content").unwrap();
    let mut transaction = store.begin();
    told.note("read", transaction.read(files, "a", ..));
    transaction.write(files, "a", 3, b"XYZ").unwrap();
    transaction.truncate(files, "a", 5).unwrap();
    told.note("laid over", transaction.read(files, "a", ..));
    told.note("size", transaction.stat(files, "a").map(|stat| stat.size));
    transaction.put(files, "b", b"new").unwrap();
    told.note("new", transaction.read(files, "b", ..));
    told.note("new blob", transaction.stat(files, "b").map(|stat| (stat.blob, stat.version)));
    told.note("created", transaction.create(files, "c"));
    told.note("twice", transaction.create(files, "c"));
    told.note("delete", transaction.delete(files, "c"));
    told.note("is gone", transaction.exists(files, "c"));
    told.note("is not there", transaction.read(files, "c", ..));
    let first = transaction.append(files, "log", b"one").unwrap();
    let second = transaction.append(files, "log", b"two").unwrap();
    let count = transaction.transform(files, "count", 0, add(3)).unwrap();
    told.note("nobody sees it", files.exists("b"));
    let Outcome::Committed(receipt) = transaction.commit().unwrap() else { panic!("nobody else is there") };
    told.note("offsets", Ok((receipt.offset(first), receipt.offset(second), receipt.old(count))));
    told.note("other slots", Ok((receipt.old(first), receipt.offset(count))));
    for key in ["a", "b", "log"] {
        told.note(key, files.read(key, ..));
    }
    told.note("c", files.exists("c"));
    let mut transaction = store.begin();
    transaction.delete(files, "a").unwrap();
    transaction.rollback();
    told.note("rolled back", files.exists("a"));
}

pub fn appends_of_a_transaction_are_not_read_before_their_place_is_known(
    store: &Store,
    files: &Keyspace,
    told: &mut Told,
) {
    files.write("a", 0, b"0123456789").unwrap();
    let mut transaction = store.begin();
    transaction.append(files, "a", b"end").unwrap();
    told.note("before it", transaction.read(files, "a", ..10));
    told.note("may be in it", transaction.read(files, "a", ..11));
    told.note("size", transaction.stat(files, "a").map(|stat| stat.size));
    told.note("now it is known", transaction.read(files, "a", 8..));
    told.end("commit", transaction.commit());
    let mut transaction = store.begin();
    transaction.truncate(files, "a", 2).unwrap();
    transaction.append(files, "a", b"end").unwrap();
    told.note("its place is certain", transaction.read(files, "a", ..));
    told.end("commit", transaction.commit());
}

pub fn what_was_read_and_has_changed_is_a_conflict_and_the_rest_is_not(
    store: &Store,
    files: &Keyspace,
    told: &mut Told,
) {
    files.write("a", 0, [0; 100]).unwrap();
    let reads = |what: &dyn Fn(&mut Transaction), change: &dyn Fn()| {
        let mut transaction = store.begin();
        what(&mut transaction);
        transaction.put(files, "result", b"x").unwrap();
        change();
        transaction.commit()
    };
    let read = |transaction: &mut Transaction| drop(transaction.read(files, "a", 0..10).unwrap());
    let stat = |transaction: &mut Transaction| drop(transaction.stat(files, "a").unwrap());
    let exists = |transaction: &mut Transaction| assert!(transaction.exists(files, "a").unwrap());
    told.end("same bytes", reads(&read, &|| files.write("a", 5, b"x").unwrap()));
    told.end("other bytes", reads(&read, &|| files.write("a", 50, b"x").unwrap()));
    told.end("size", reads(&stat, &|| files.truncate("a", 101).unwrap()));
    told.end("still exists", reads(&exists, &|| files.write("a", 5, b"x").unwrap()));
    told.end("exists no more", reads(&exists, &|| files.delete("a").unwrap()));
    told.end("blind", reads(&|_| {}, &|| files.write("a", 5, b"x").unwrap()));
}

pub fn checks_hold_or_the_commit_is_a_conflict(store: &Store, files: &Keyspace, told: &mut Told) {
    files.write("a", 0, b"abc").unwrap();
    files.set_attribute("a", "type", Some(b"t")).unwrap();
    let version = files.stat("a").unwrap().version;
    let attribute =
        |value: Option<&[u8]>| Check::Attribute { name: "type".into(), value: value.map(Into::into) };
    let checks = [
        ("a", Check::Exists),
        ("b", Check::Exists),
        ("a", Check::Missing),
        ("b", Check::Missing),
        ("a", Check::Version(version)),
        ("a", Check::Size(3)),
        ("a", Check::Size(4)),
        ("a", Check::Bytes { offset: 1, bytes: b"bc".to_vec() }),
        ("a", Check::Bytes { offset: 1, bytes: b"bcd".to_vec() }),
        ("a", attribute(Some(b"t"))),
        ("a", attribute(None)),
    ];
    for (key, check) in checks {
        let mut transaction = store.begin();
        told.note(&format!("{key} {check:?}").replace(&version.to_string(), "V"), Ok(()));
        told.0.pop();
        let word = format!("{key} {}", told.0.len());
        transaction.check(files, key, check).unwrap();
        transaction.put(files, "result", b"x").unwrap();
        told.end(&word, transaction.commit());
    }
    files.write("a", 0, b"x").unwrap();
    let mut transaction = store.begin();
    transaction.check(files, "a", Check::Version(version)).unwrap();
    told.end("another version", transaction.commit());
    let mut transaction = store.begin();
    let nameless = Check::Attribute { name: String::new(), value: None };
    told.note("no name", transaction.check(files, "a", nameless));
}

pub fn runs_are_repeated_until_they_commit(store: &Store, files: &Keyspace, told: &mut Told) {
    files.write("n", 0, 0u64.to_le_bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let ran = store.run(|transaction| {
                        let bytes = transaction.read(files, "n", ..)?;
                        let number = u64::from_le_bytes(bytes.try_into().unwrap());
                        transaction.write(files, "n", 0, (number + 1).to_le_bytes())
                    });
                    ran.unwrap();
                }
            });
        }
    });
    told.note("count", files.read("n", ..));
    let mut tries = 0;
    let failed = store.run(|transaction| {
        tries += 1;
        transaction.put(files, "never", b"x")?;
        transaction.read(files, "missing", ..)
    });
    told.note("an error", failed.map(|committed| committed.value));
    told.note("tries", Ok(tries));
    told.note("nothing of it", files.exists("never"));
    let failed = store.run(|transaction| {
        transaction.check(files, "missing", Check::Exists)?;
        transaction.read(files, "missing", ..)
    });
    told.note("an error with a check that does not hold", failed.map(|committed| committed.value));
}

pub fn large_payload_is_whole(store: &Store, files: &Keyspace, told: &mut Told) {
    let bytes: Vec<u8> = (0..5_000_000u32).map(|place| u8::try_from(place * 7 % 251).unwrap()).collect();
    let digest = |bytes: &[u8]| {
        bytes.iter().fold(bytes.len() as u64, |sum, byte| sum * 31 % 1_000_003 + u64::from(*byte))
    };
    files.put("large", &bytes).unwrap();
    told.note("read", files.read("large", ..).map(|read| (read == bytes, digest(&read))));
    told.note("a part", files.read("large", 100_000..4_000_000).map(|read| digest(&read)));
    told.note("append", files.append("large", &bytes));
    told.note("get", files.get("large").map(|blob| (blob.stat.size, digest(&blob.bytes))));
    let mut transaction = store.begin();
    let slot = transaction.append(files, "large", &bytes[..3_000_000]).unwrap();
    transaction.write(files, "other", 12_345, &bytes).unwrap();
    told.note("own", transaction.read(files, "other", ..).map(|read| digest(&read)));
    let Outcome::Committed(receipt) = transaction.commit().unwrap() else { panic!("nobody else is there") };
    told.note("offset", Ok(receipt.offset(slot)));
    told.note("other", files.read("other", ..).map(|read| digest(&read)));
    told.note("the end", files.read("large", 9_000_000..).map(|read| digest(&read)));
    files.truncate("large", 1 << 62).unwrap();
    told.note("too much at once", files.read("large", ..).map(|read| read.len()));
    told.note("a hole", files.read("large", (1 << 61)..(1 << 61) + 4));
}

pub fn holes_are_punched_and_found(store: &Store, files: &Keyspace, told: &mut Told) {
    let both = |told: &mut Told, from| {
        told.note("data", files.seek("sparse", Seek::Data, from));
        told.note("hole", files.seek("sparse", Seek::Hole, from));
    };
    told.note("of nothing", files.punch("sparse", 0..10));
    told.note("in nothing", files.seek("sparse", Seek::Data, 0));
    told.note("data of nothing", files.data_size("sparse"));
    files.write("sparse", 1 << 40, b"far").unwrap();
    (0..(1 << 40) + 4).step_by((1 << 38) + 1).for_each(|from| both(told, from));
    both(told, (1 << 40) + 2);
    told.note("backwards", files.punch("sparse", Range { start: 10, end: 9 }));
    told.note("too far", files.punch("sparse", 10..u64::MAX));
    // From here on what is there is known byte by byte, in chunks of 64 KiB.
    let mut model: Vec<Option<u8>> = vec![None; 300_000];
    let mut random = 1u64;
    let mut number = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let place = |offset: u64| usize::try_from(offset).unwrap();
    for step in 0..120u8 {
        let start = number(300_000);
        let end = start + number(if step % 3 == 0 { 150_000 } else { 5_000 }).min(300_000 - start);
        let bytes = vec![step; place(end - start)];
        match number(5) {
            0 | 1 => {
                files.write("sparse", start, &bytes).unwrap();
                model[place(start)..place(end)].fill(Some(step));
            }
            2 | 3 => {
                files.punch("sparse", start..end).unwrap();
                model[place(start)..place(end)].fill(None);
            }
            _ => {
                // The last one of a transaction counts.
                let mut transaction = store.begin();
                transaction.punch(files, "sparse", start..end).unwrap();
                transaction.write(files, "sparse", start, &bytes[bytes.len() / 3..]).unwrap();
                transaction.punch(files, "sparse", start + 7..start + 10).unwrap();
                let shown = transaction.read(files, "sparse", ..300_000).unwrap();
                assert!(matches!(transaction.commit(), Ok(Outcome::Committed(_))));
                model[place(start)..place(end)].fill(None);
                model[place(start)..][..bytes.len() - bytes.len() / 3].fill(Some(step));
                let hole = place(start + 7).min(300_000)..place(start + 10).min(300_000);
                model[hole].fill(None);
                assert_eq!(shown, files.read("sparse", ..300_000).unwrap());
            }
        }
        let expected: Vec<u8> = model.iter().map(|byte| byte.unwrap_or(0)).collect();
        assert!(files.read("sparse", ..300_000).unwrap() == expected, "step {step}");
        both(told, number(300_000));
    }
    for from in (0..300_000).step_by(1013) {
        let next = |is_wanted: fn(&Option<u8>) -> bool| {
            let found = model[place(from)..].iter().position(is_wanted);
            found.map(|distance| from + distance as u64)
        };
        assert_eq!(files.seek("sparse", Seek::Data, from).unwrap(), next(Option::is_some).or(Some(1 << 40)));
        assert_eq!(files.seek("sparse", Seek::Hole, from).unwrap(), next(Option::is_none).or(Some(300_000)));
    }
    let data = model.iter().flatten().count() as u64 + 3;
    assert_eq!(files.data_size("sparse").unwrap(), data);
    told.note("size", files.stat("sparse").map(|stat| stat.size));
    files.truncate("sparse", 200_000).unwrap();
    files.truncate("sparse", 250_000).unwrap();
    both(told, 199_999);
    both(told, 200_000);
    told.note("all", files.punch("sparse", 0..1 << 50));
    both(told, 0);
    told.note("data", files.data_size("sparse"));
    told.note("a seek past the end", files.seek("sparse", Seek::Hole, 250_000));
    told.note("size", files.stat("sparse").map(|stat| stat.size));
    told.note("rest", files.read("sparse", 249_990..));
    // What is read and punched by somebody else is a conflict.
    files.write("read", 0, [1; 100]).unwrap();
    for punched in [40..50, 60..70] {
        let mut transaction = store.begin();
        told.note("read", transaction.read(files, "read", 0..45));
        files.punch("read", punched).unwrap();
        transaction.write(files, "other", 0, b"x").unwrap();
        told.end("commit", transaction.commit());
    }
}

pub fn bytes_are_copied_from_blob_to_blob(store: &Store, files: &Keyspace, told: &mut Told) {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|place| u8::try_from(place * 7 % 251).unwrap()).collect();
    files.put("from", &bytes).unwrap();
    let other = store.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    let mut transaction = store.begin();
    told.note("much", transaction.copy((files, "from"), 5..2_500_000, (&other, "to"), 100_001));
    told.note("past the end", transaction.copy((files, "from"), 2_999_000.., (&other, "to"), 0));
    told.note("after the end", transaction.copy((files, "from"), 4_000_000..5_000_000, (files, "none"), 0));
    told.note("of nothing", transaction.copy((files, "nothing"), .., (files, "none"), 0));
    let slot = transaction.append(&other, "to", b"appended").unwrap();
    told.note("size", transaction.stat(&other, "to").map(|stat| stat.size));
    let Outcome::Committed(receipt) = transaction.commit().unwrap() else { panic!("nobody else is there") };
    told.note("offset", Ok(receipt.offset(slot)));
    let expected = [&bytes[2_999_000..], &[0; 99_001], &bytes[5..2_500_000], b"appended"].concat();
    told.note("copied", other.get("to").map(|blob| blob.bytes == expected));
    told.note("where nothing was copied", files.get("none").map(|blob| blob.bytes));

    let mut transaction = store.begin();
    transaction.write(files, "from", 10, b"changed").unwrap();
    told.note("of what was changed", transaction.copy((files, "from"), 5..20, (files, "small"), 3));
    told.note("within a blob", transaction.copy((&other, "to"), ..200, (&other, "to"), 100));
    told.end("commit", transaction.commit());
    told.note("small", files.get("small").map(|blob| blob.bytes));
    told.note("within", other.read("to", 95..305));

    for place in [150_000, 2_900_000] {
        let mut transaction = store.begin();
        told.note("read", transaction.copy((files, "from"), 100_000..200_000, (files, "small"), 0));
        files.write("from", place, b"meanwhile").unwrap();
        told.end("what was copied has changed, or something else", transaction.commit());
    }
    let run = store.run(|transaction| transaction.copy((files, "from"), .., (files, "again"), 0));
    told.note("run", run.map(|committed| committed.value));
    told.note("the same", files.get("again").map(|again| again.bytes == files.get("from").unwrap().bytes));
}

pub fn lists_are_in_order_and_complete(_: &Store, files: &Keyspace, told: &mut Told) {
    for number in 0..300 {
        files.write(format!("a/{number:03}"), 0, vec![1; number]).unwrap();
    }
    files.create("b/1").unwrap();
    files.create("a").unwrap();
    let names = |prefix: &str, after: Option<&[u8]>, limit: usize| {
        let entries = files.scan(prefix, after, limit)?;
        Ok(entries.into_iter().map(|entry| (entry.key.to_string(), entry.size)).collect::<Vec<_>>())
    };
    told.note("all", names("", None, 1000));
    told.note("with a prefix", names("a/", None, 1000));
    told.note("some", names("a/", None, 7));
    told.note("after", names("a/", Some(b"a/006"), 7));
    told.note("after all", names("a/", Some(b"a/299"), 7));
    told.note("before all", names("a/", Some(b"0"), 2));
    told.note("none", names("c", None, 7));
    told.note("no limit at all", names("a/29", None, usize::MAX));
    told.note("a long prefix", names(&"x".repeat(5000), None, 1));
}

fn keys_and_sizes(list: Vec<Entry>) -> Vec<(String, u64)> {
    list.into_iter().map(|entry| (entry.key.to_string(), entry.size)).collect()
}

pub fn a_snapshot_with_a_name_stays_until_it_is_dropped(store: &Store, files: &Keyspace, told: &mut Told) {
    for key in ["a", "b", "c"] {
        files.put(key, format!("old {key}")).unwrap();
    }
    files.set_attribute("a", "type", Some(b"t")).unwrap();
    files.put("gone before", b"x").unwrap();
    files.delete("gone before").unwrap();
    files.write("wide", 300 << 10, vec![3; 100 << 10]).unwrap();
    told.note("create", store.create_snapshot(files, "monday"));
    told.note("twice", store.create_snapshot(files, "monday"));
    told.note("no name", store.create_snapshot(files, "a/b"));
    files.put("a", b"newer").unwrap();
    files.delete("b").unwrap();
    files.put("d", b"later").unwrap();
    files.write("wide", 310 << 10, b"changed").unwrap();
    told.note("create", store.create_snapshot(files, "tuesday"));
    files.put("b", b"again").unwrap();
    files.put("a", b"newest").unwrap();
    let listed = store.snapshots(files);
    told.note("listed", listed.map(|list| list.into_iter().map(|one| one.name).collect::<Vec<_>>()));
    for name in ["monday", "tuesday", "sunday"] {
        let snapshot = match store.open_snapshot(files, name) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                told.note(name, Err::<(), _>(error));
                continue;
            }
        };
        for key in ["a", "b", "c", "d", "gone before"] {
            told.note(key, snapshot.read(files, key, ..));
            told.note(key, snapshot.exists(files, key));
        }
        told.note("wide", snapshot.read(files, "wide", (309 << 10)..(311 << 10)));
        told.note("attribute", snapshot.attribute(files, "a", "type"));
        told.note("list", snapshot.scan(files, "", None, 10).map(keys_and_sizes));
    }
    told.note("drop", store.drop_snapshot(files, "monday"));
    told.note("drop again", store.drop_snapshot(files, "monday"));
    told.note("open", store.open_snapshot(files, "monday").map(drop));
    told.note("the other", store.open_snapshot(files, "tuesday").and_then(|it| it.read(files, "a", ..)));
    told.note("the name again", store.create_snapshot(files, "monday"));
    told.note("now", store.open_snapshot(files, "monday").and_then(|it| it.read(files, "a", ..)));
    let settings = KeyspaceSettings { multi_version: false, ..KeyspaceSettings::default() };
    let flat = store.create_keyspace("flat", settings).unwrap();
    told.note("no versions", store.create_snapshot(&flat, "monday"));
}

pub fn a_snapshot_stays_as_it_is(store: &Store, files: &Keyspace, told: &mut Told) {
    files.put("a", b"old").unwrap();
    files.put("b", b"also").unwrap();
    files.set_attribute("a", "type", Some(b"t")).unwrap();
    let snapshot = store.snapshot(&[files]).unwrap();
    files.put("a", b"newer").unwrap();
    files.delete("b").unwrap();
    files.create("c").unwrap();
    for key in ["a", "b", "c"] {
        told.note(key, snapshot.read(files, key, ..));
        told.note(key, snapshot.exists(files, key));
        told.note(key, snapshot.stat(files, key).map(|stat| stat.size));
    }
    told.note("a part", snapshot.read(files, "a", 1..2));
    told.note("whole", snapshot.get(files, "a").map(|blob| blob.bytes));
    told.note("attribute", snapshot.attribute(files, "a", "type"));
    told.note("list", snapshot.scan(files, "", None, 10).map(keys_and_sizes));
    let listed = snapshot.scan(files, "", Some(b"a"), 10);
    told.note("list", listed.map(|list| list.len()));
    let other = store.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    told.note("another keyspace", snapshot.read(&other, "a", ..));
    other.put("a", b"elsewhere").unwrap();
    let both = store.snapshot(&[files, &other, files]).unwrap();
    let mut transaction = store.begin();
    transaction.put(files, "a", b"newest").unwrap();
    transaction.delete(&other, "a").unwrap();
    transaction.put(&other, "z", b"newest").unwrap();
    told.end("two at once", transaction.commit());
    for keyspace in [files, &other] {
        told.note("of two", both.read(keyspace, "a", ..));
        told.note("of two", both.exists(keyspace, "z"));
        let listed = both.scan(keyspace, "", None, 10);
        told.note(
            "list of two",
            listed.map(|list| list.into_iter().map(|entry| entry.key).collect::<Vec<_>>()),
        );
    }
    let settings = KeyspaceSettings { multi_version: false, ..KeyspaceSettings::default() };
    let flat = store.create_keyspace("flat", settings).unwrap();
    told.note("no versions", store.snapshot(&[&flat]).map(drop));
    told.note("of nothing", store.snapshot(&[]).map(drop));
}

pub fn keyspaces_are_created_listed_altered_and_dropped(store: &Store, files: &Keyspace, told: &mut Told) {
    let default = KeyspaceSettings::default();
    told.note("a name that is taken", store.create_keyspace("files", default.clone()).map(drop));
    told.note("no name", store.create_keyspace("a/b", default.clone()).map(drop));
    let odd = KeyspaceSettings { chunk_size: 3, ..default.clone() };
    told.note("no chunk size", store.create_keyspace("odd", odd).map(drop));
    let other = store.create_keyspace("other", default.clone()).unwrap();
    let names = |store: &Store| store.keyspaces().into_iter().map(|known| known.name).collect::<Vec<_>>();
    told.note("list", Ok(names(store)));
    told.note("find", store.keyspace("other").map(|keyspace| keyspace.name().to_owned()));
    told.note("find nothing", store.keyspace("nothing").map(drop));
    let flat = KeyspaceSettings { multi_version: false, ..default.clone() };
    told.note("alter", store.alter_keyspace("other", flat));
    told.note("altered", Ok(other.settings().multi_version));
    let larger = KeyspaceSettings { chunk_size: 1 << 20, ..default.clone() };
    told.note("alter what cannot be", store.alter_keyspace("other", larger));
    told.note("alter nothing", store.alter_keyspace("nothing", default));
    other.put("a", b"x").unwrap();
    told.note("drop", store.drop_keyspace("other"));
    told.note("dropped", other.read("a", ..));
    told.note("and not written", other.write("a", 0, b"y"));
    told.note("drop again", store.drop_keyspace("other"));
    told.note("list", Ok(names(store)));
    let again = store.create_keyspace("other", KeyspaceSettings::default()).unwrap();
    told.note("another of that name", again.exists("a"));
    files.put("still", b"there").unwrap();
    told.note("flush", store.flush());
}

pub fn keyspaces_without_versions_are_read_and_written(store: &Store, files: &Keyspace, told: &mut Told) {
    let settings = KeyspaceSettings { multi_version: false, ..files.settings() };
    let flat = store.create_keyspace("flat", settings).unwrap();
    flat.put("a", b"abc").unwrap();
    told.note("read", flat.read("a", ..));
    let mut transaction = store.begin();
    told.note("read", transaction.read(&flat, "a", ..));
    transaction.put(&flat, "a", b"def").unwrap();
    told.end("commit", transaction.commit());
    let mut transaction = store.begin();
    told.note("read", transaction.read(&flat, "a", 0..1));
    flat.write("a", 0, b"x").unwrap();
    transaction.put(&flat, "b", b"").unwrap();
    told.end("overwritten", transaction.commit());
}

pub fn a_closed_store_says_so(store: &Store, files: &Keyspace, told: &mut Told) {
    files.put("a", b"x").unwrap();
    store.clone().close().unwrap();
    told.note(
        "read",
        files.read("a", ..).inspect_err(|error| {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }),
    );
    told.note("write", files.put("a", b"y"));
}
