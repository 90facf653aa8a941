//! Clients on the host of servers read what these have in files themselves, and see what they would be sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod patience;
mod real;

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use patience::until;
use real::Servers;
use tyr_client::{
    KeyspaceSettings,
    blocking::{Keyspace, Store},
};
use tyr_proto::cluster::ClassSettings;
use tyr_server::Settings;

fn settings(directory: &Path) -> Settings {
    let usual = Settings::new(directory);
    let mut store = usual.store.clone();
    // So that compaction has something to do.
    (store.segment_size, store.inline_max) = (1 << 20, 16 << 10);
    Settings { class: ClassSettings { partitions: 4, ..usual.class }, store, ..usual }
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from((index + seed) * 7 % 251).unwrap()).collect()
}

fn open(url: &str) -> (Store, Keyspace) {
    let store = Store::open(url).unwrap();
    let files = store.create_keyspace("files", KeyspaceSettings::default()).unwrap();
    (store, files)
}

/// Reads a blob until some of that was read from files, and compares it each time.
fn read_from_files(store: &Store, files: &Keyspace, key: &str, expected: &[u8]) {
    let before = store.reads().from_files;
    until("a read from files", || {
        assert!(files.read(key, ..).unwrap() == expected, "{key} is what was written");
        store.reads().from_files > before
    });
}

#[test]
fn what_is_read_from_files_is_what_is_sent() {
    let servers = Servers::start(1, settings);
    let (store, files) = open(&servers.url());
    let plain = Store::options().without_files().open(servers.url()).unwrap();
    let sent = plain.keyspace("files").unwrap();
    let mut large = bytes(1, 300_000);
    files.put("large", &large).unwrap();
    read_from_files(&store, &files, "large", &large);
    // A hole, something small in the middle, and something large over that.
    files.write("large", 50_000, bytes(2, 100)).unwrap();
    files.write("large", 400_000, bytes(3, 100_000)).unwrap();
    files.write("large", 120_000, bytes(4, 90_001)).unwrap();
    large.resize(500_000, 0);
    large[50_000..50_100].copy_from_slice(&bytes(2, 100));
    large[400_000..].copy_from_slice(&bytes(3, 100_000));
    large[120_000..210_001].copy_from_slice(&bytes(4, 90_001));
    read_from_files(&store, &files, "large", &large);
    for range in [0..500_000, 1..20_000, 49_999..80_001, 119_000..300_001, 250_000..450_000, 499_999..500_000]
    {
        let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
        assert!(files.read("large", range.clone()).unwrap() == large[start..end], "{range:?}");
        assert!(
            sent.read("large", range.clone()).unwrap() == large[start..end],
            "{range:?} over the network"
        );
    }
    files.put("small", b"small").unwrap();
    assert_eq!(files.read("small", ..).unwrap(), b"small");
    assert_eq!((plain.reads().from_files, store.reads().damaged), (0, 0));
    assert!(plain.reads().from_network > 0);
}

#[test]
fn readers_of_what_is_compacted_away_meanwhile_see_one_version_or_the_next() {
    let servers = Servers::start(1, settings);
    let (store, files) = open(&servers.url());
    let length = 100_000;
    files.put("a", vec![0; length]).unwrap();
    read_from_files(&store, &files, "a", &vec![0; length]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..=200u8 {
                files.put("a", vec![round; length]).unwrap();
                files.put(format!("other/{round}"), vec![round; length]).unwrap();
                files.delete(format!("other/{}", round / 2)).ok();
            }
        });
        let mut last = 0;
        while !writer.is_finished() {
            let read = files.read("a", ..).unwrap();
            assert!(read.len() == length && read.iter().all(|byte| *byte == read[0]), "it is one version");
            assert!(read[0] >= last, "no earlier version is shown after a later one");
            last = read[0];
        }
    });
    read_from_files(&store, &files, "a", &vec![200; length]);
    assert_eq!(store.reads().damaged, 0, "nothing is written over what somebody may read");
}

#[test]
fn a_server_that_was_killed_and_is_back_is_read_from_again() {
    let mut servers = Servers::start(1, settings);
    let (store, files) = open(&servers.url());
    let (one, two) = (bytes(1, 100_000), bytes(2, 100_000));
    files.put("one", &one).unwrap();
    read_from_files(&store, &files, "one", &one);
    servers.kill_and_start(0);
    assert!(files.read("one", ..).unwrap() == one);
    files.put("two", &two).unwrap();
    read_from_files(&store, &files, "two", &two);
    read_from_files(&store, &files, "one", &one);
    assert_eq!(store.reads().damaged, 0);
}

/// The files of bulk payload below a directory.
fn bulk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_bulk = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("bulk-");
    let deeper = directories.iter().flat_map(|directory| bulk(directory));
    files.into_iter().filter(is_bulk).chain(deeper).collect()
}

#[test]
fn damage_in_a_file_is_found_by_who_reads_it_and_another_replica_answers() {
    let servers = Servers::start(3, settings);
    let (store, files) = open(&servers.url());
    let content = bytes(5, 100_000);
    files.put("a", &content).unwrap();
    // Only who has a complete replica by now is asked.
    until("a read from a file of each server", || {
        assert!(files.read("a", ..).unwrap() == content);
        (0..3).all(|place| servers.handed(place) > 0)
    });
    // In one server's files, wherever the blob is in them: one that was slow may have been sent it twice, and one of the two is read by nobody.
    let overwrite = |place: usize, bytes: &[u8]| {
        let after = &content[5000 + bytes.len()..5064];
        let mut copies = 0;
        for path in bulk(servers.directories[place].path()) {
            let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
            let mut found = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
            file.read_exact_at(&mut found, 0).unwrap();
            for (place, _) in found.windows(after.len()).enumerate().filter(|(_, window)| *window == after) {
                file.write_all_at(bytes, (place - bytes.len()) as u64).unwrap();
                copies += 1;
            }
        }
        copies
    };
    let mut place = 0;
    // Whose files the reader reads only it knows, so one after the other is damaged for a while. A server that is asked for bytes, since its file
    // was let go meanwhile, finds the damage itself.
    until("a read of damaged bytes", || {
        assert!(overwrite(place, b"damage") > 0, "the blob is in a file");
        let is_found = (0..2_000).any(|_| {
            assert!(files.read("a", ..).unwrap() == content, "nobody is shown damaged bytes");
            store.reads().damaged > 0 || servers.has_ended(place)
        });
        if !is_found {
            overwrite(place, &content[5000..5006]);
            place = (place + 1) % 3;
        }
        is_found
    });
    assert!(files.read("a", ..).unwrap() == content);
}
