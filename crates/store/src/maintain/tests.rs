use std::{
    any::Any,
    io,
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use tyr_env::{Access, BLOCK_SIZE, Disk, File, Space, Write};
use tyr_sim_env::{CrashMode, SimClock, SimDisk};
use tyr_types::{BlobId, Key, KeyspaceId, KeyspaceName, Number};
use tyr_wire::{extent::LEAF_SPAN, frame::FrameHeader, record::Existence};

use super::*;
use crate::{
    garbage::Garbage,
    index_key,
    miss::Wait,
    options::{Create, Options},
    payload::Payload,
    segment::{Segment, parse_segment_name},
    store::entry_key,
    testing::{commit, key, keyspace, open, options, put, settle, store},
    transact::BlobChange,
};

fn read(store: &Store, space: KeyspaceId, name: &str, len: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0xee; len];
    let read = store.loaded(store.read(space, &key(name), Number::MAX, 0, &mut buffer, Wait::Allowed))?;
    assert!(read.is_some_and(|(head, read)| (head.size, read) == (len as u64, len)));
    Ok(buffer)
}

/// Puts something into the index that is no entry.
fn spoil_entry(store: &Store, space: KeyspaceId, name: &str) {
    let item = (index_key::entry_key(&entry_key(space, &key(name))), Some(vec![0xff; 3]));
    let table = store.index.build(std::iter::once(item)).expect("builds");
    store.index.install(table, &[]);
}

#[test]
fn a_history_that_cannot_be_loaded_does_not_keep_others_from_being_forgotten() {
    let (store, space) = store();
    for name in ["b", "c"] {
        commit(&store, space, name, Existence::Create, &[1; 100]);
    }
    // Looks once after every start.
    assert_eq!(store.forget_histories(), Ok(false));
    let pin = store.pin_keyspaces(&[space]).expect("pins");
    for name in ["b", "c"] {
        commit(&store, space, name, Existence::Keep, &[2; 100]);
    }
    let histories = |store: &Store| -> Vec<Key> {
        store.backlog.lock().historic_entries.iter().map(|(_, key)| key.clone()).collect()
    };
    assert_eq!(histories(&store), ["b", "c"].map(key));
    spoil_entry(&store, space, "a");
    store.backlog.add_historic_entry(&entry_key(space, &key("a")));
    assert!(!store.forget_histories().expect("has nothing to do while the pin is held"));
    drop(pin);
    let error = store.forget_histories().expect_err("one cannot be loaded");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(histories(&store), ["a"].map(key), "only that one is left for the next time");
    let entry = store.loaded(store.entry(&entry_key(space, &key("c")), Wait::Allowed)).expect("loads");
    assert_eq!(entry.blobs[0].heads.len(), 1);
    // Told once for every pin that is released, so that it does not keep maintenance from all else.
    assert_eq!(store.forget_histories(), Ok(false));
}

#[test]
fn a_checkpoint_in_the_middle_knows_the_histories_that_are_not_yet_forgotten() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    commit(&store, space, "b", Existence::Create, &[1; 100]);
    let pin = store.pin_keyspaces(&[space]).expect("pins");
    commit(&store, space, "b", Existence::Keep, &[2; 100]);
    spoil_entry(&store, space, "a");
    store.backlog.add_historic_entry(&entry_key(space, &key("a")));
    drop(pin);
    store.forget_histories().expect_err("one cannot be loaded");
    store.checkpoint().expect("checkpoints");
    let known = store.checkpoint.lock().manifest.historic_entries.clone();
    assert_eq!(known, [entry_key(space, &key("a"))]);
}

#[test]
fn garbage_is_collected_to_the_last_leaf_while_others_push_it_out_of_memory() {
    const BLOBS: u64 = 40;
    let (store, space) = store();
    let long = vec![1; 4 * 65_536];
    let live = |store: &Store| store.segments.all().iter().map(|segment| segment.live()).sum::<u64>();
    for n in 0..BLOBS {
        commit(&store, space, &format!("kept-{n}"), Existence::Create, &long);
    }
    let kept = live(&store);
    for n in 0..BLOBS {
        commit(&store, space, &format!("gone-{n}"), Existence::Create, &long);
    }
    store.checkpoint().expect("checkpoints");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = SetOnDrop(&stop);
        for thread in 0..2 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                // Loads leaves all the time, so that the small cache forgets those of others.
                let mut n = thread;
                while !stop.load(Ordering::Relaxed) {
                    n = (n + 1) % BLOBS;
                    assert!(
                        read(store, space, &format!("kept-{n}"), 4 * 65_536).expect("reads")[65_536] == 1
                    );
                }
            });
        }
        for n in 0..BLOBS {
            commit(&store, space, &format!("gone-{n}"), Existence::Delete, &[]);
            while store.collect_garbage().expect("collects") {}
        }
    });
    assert_eq!(live(&store), kept);
    settle(&store);
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_keyspace_may_be_dropped_while_a_deleted_blob_of_it_waits_to_be_collected() {
    let (store, space) = store();
    for name in ["a", "b"] {
        commit(&store, space, name, Existence::Create, &vec![1; 200_000]);
    }
    store.checkpoint().expect("checkpoints");
    commit(&store, space, "a", Existence::Delete, &[]);
    store.drop_keyspace(space).expect("drops");
    settle(&store);
    assert_eq!(store.segments.all().iter().map(|segment| segment.live()).sum::<u64>(), 0);
}

/// A store with two blobs in one bulk segment, most of which is dead, and a bit of the first damaged.
fn damaged_bulk() -> (Arc<SimDisk>, Store, KeyspaceId, String) {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    for name in ["a", "b", "c"] {
        commit(&store, space, name, Existence::Create, &[1; 60_000]);
    }
    commit(&store, space, "c", Existence::Delete, &[]);
    store.log.close_all_bulk();
    store.checkpoint().expect("checkpoints");
    let all = store.segments.all();
    let bulk = all.iter().find(|segment| segment.kind != SegmentKind::Log).expect("is there");
    disk.flip_bit(&bulk.name(), 4096 + 100, 0).expect("flips");
    let name = bulk.name();
    (disk, store, space, name)
}

#[test]
fn a_damaged_bulk_segment_is_told_once_and_kept_and_the_rest_of_it_is_read() {
    let (disk, store, space, name) = damaged_bulk();
    let error = store.compact().expect_err("cannot move what is damaged");
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains(&name), "{error}");
    // It comes to an end, then and in passing.
    store.compact().expect("compacts the rest");
    while store.maintain().expect("maintains") == Maintained::Worked {}
    drop(store);
    for mode in CrashMode::ALL {
        let store = open(&disk.crash(mode));
        assert!(disk.read_file(&name).is_ok(), "the file is kept");
        assert_eq!(read(&store, space, "b", 60_000), Ok(vec![1; 60_000]));
        assert_eq!(read(&store, space, "a", 60_000).expect_err("is damaged").kind(), ErrorKind::Corrupt);
        // What lies behind the damage is there still.
        let mut rest = vec![0; 20_000];
        store.read(space, &key("a"), Number::MAX, 40_000, &mut rest, Wait::Allowed).expect("reads");
        assert_eq!(rest, vec![1; 20_000]);
        // Once for every opening.
        store.compact().expect_err("tells it again");
        store.compact().expect("compacts the rest");
        // Nothing refers to the damage any more: the segment goes.
        commit(&store, space, "a", Existence::Delete, &[]);
        drop(store.compact());
    }
}

#[test]
fn a_damaged_log_segment_is_told_once_and_kept_and_the_rest_of_it_is_read() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    // Several segments of the log, of which little is live.
    for round in 0..12u8 {
        for name in ["a", "b", "c", "d", "e", "f"] {
            let existence = if round == 0 { Existence::Create } else { Existence::Replace };
            commit(&store, space, name, existence, &[round; 9000]);
        }
    }
    commit(&store, space, "last", Existence::Create, &[7; 9000]);
    store.checkpoint().expect("checkpoints");
    let all = store.segments.all();
    let oldest = all.iter().find(|segment| segment.kind == SegmentKind::Log).expect("is there").name();
    let bytes = disk.read_file(&oldest).expect("is there");
    let blocks = (0..bytes.len()).step_by(BLOCK_SIZE);
    let frame = blocks.filter(|start| FrameHeader::peek(&bytes[*start..]).is_some()).nth(5).expect("many");
    disk.flip_bit(&oldest, frame as u64 + 20, 3).expect("flips");
    let error = store.compact().expect_err("cannot tell what the damaged frame mentions");
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains(&oldest), "{error}");
    store.compact().expect("compacts the rest");
    while store.maintain().expect("maintains") == Maintained::Worked {}
    drop(store);
    for mode in CrashMode::ALL {
        let store = open(&disk.crash(mode));
        assert!(disk.read_file(&oldest).is_ok(), "the file is kept");
        for name in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(read(&store, space, name, 9000), Ok(vec![11; 9000]), "{name}");
        }
        assert_eq!(read(&store, space, "last", 9000), Ok(vec![7; 9000]));
    }
}

#[test]
fn leaves_in_many_pieces_are_found_again_after_a_start() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    commit(&store, space, "a", Existence::Create, &vec![1; 140_000]);
    for n in 0..200 {
        for leaf in [0, LEAF_SPAN] {
            let write = (leaf + n * 300, Payload::new(&[2; 100]));
            let change = BlobChange {
                existence: Existence::Keep,
                cut: None,
                holes: Vec::new(),
                size: 140_000,
                attributes: None,
                writes: vec![write],
            };
            put(&store, space, "a", &change);
        }
    }
    assert_eq!(store.stats().fragmented, 2);
    let content = read(&store, space, "a", 140_000).expect("reads");
    store.close().expect("closes");
    drop(store);
    let store = open(&disk);
    assert_eq!(store.stats().fragmented, 0);
    assert!(read(&store, space, "a", 140_000).expect("reads") == content);
    assert_eq!(store.stats().fragmented, 2, "both were met");
    settle(&store);
    let entry = store.loaded(store.entry(&entry_key(space, &key("a")), Wait::Allowed)).expect("loads");
    let leaf = store.loaded(store.leaf(&(space, entry.blobs[0].id, 1), Wait::Allowed)).expect("loads");
    assert_eq!((entry.blobs[0].leaf.len(), leaf.extents.len()), (1, 1));
    assert!(read(&store, space, "a", 140_000).expect("reads") == content);
}

/// The largest id of a segment file.
fn last_segment(disk: &SimDisk) -> u64 {
    let ids = disk.names().expect("lists").into_iter().filter_map(|name| parse_segment_name(&name));
    ids.map(|(id, _)| id.0).max().expect("there is a log")
}

#[test]
fn what_is_collected_of_a_dropped_keyspace_does_not_count_in_a_segment_that_came_later() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let (kept, dropped) = (keyspace(&store, "kept"), keyspace(&store, "dropped"));
    // A file that waits to be used, with a smaller id than those of the keyspace that is dropped.
    store.segments.prepare(SegmentKind::Log).expect("there is room");
    for name in ["a", "b", "c"] {
        commit(&store, dropped, name, Existence::Create, &[1; 200_000]);
    }
    store.checkpoint().expect("checkpoints");
    let last = last_segment(&disk);
    store.drop_keyspace(dropped).expect("drops");
    store.close().expect("closes");
    assert!(last_segment(&disk) < last, "the files of the keyspace are gone");

    let store = open(&disk);
    for name in ["a", "b", "c"] {
        commit(&store, kept, name, Existence::Create, &[2; 200_000]);
    }
    let segments = store.segments.all();
    let of_kept = segments.iter().filter(|segment| segment.kind == SegmentKind::Bulk(kept));
    assert!(of_kept.clone().count() > 0 && of_kept.clone().all(|segment| segment.id.0 > last));
    settle(&store);
    for name in ["a", "b", "c"] {
        assert_eq!(read(&store, kept, name, 200_000), Ok(vec![2; 200_000]));
    }
}

#[test]
fn what_is_live_is_moved_from_segments_that_are_all_but_dead_and_else_only_to_save_much() {
    let (store, space) = store();
    for number in 0..60 {
        commit(&store, space, &number.to_string(), Existence::Create, &[1; 16_000]);
    }
    let delete = |store: &Store, are_kept: fn(u32) -> bool| {
        for name in (0..60).filter(|number| !are_kept(*number)).map(|number| number.to_string()) {
            if store
                .loaded(store.head(space, &key(&name), Number::MAX, Wait::Allowed))
                .expect("reads")
                .is_some()
            {
                commit(store, space, &name, Existence::Delete, &[]);
            }
        }
        settle(store);
    };
    let sparse = || {
        let all = store.segments.all();
        let capacity = u64::from(store.segments.capacity());
        all.iter().filter(|segment| (1..capacity / 2).contains(&segment.live())).count()
    };
    delete(&store, |number| number % 3 == 0);
    assert!(!store.using().is_wasteful());
    assert!(sparse() >= 3, "two thirds of four segments are dead, which is worth no move");
    delete(&store, |number| number % 15 == 0);
    assert!(sparse() <= 1, "all but one of fifteen are");
    let report = store.compact().expect("compacts");
    assert!(report.bytes_after <= report.bytes_before);
    assert_eq!(read(&store, space, "15", 16_000), Ok(vec![1; 16_000]));
}

/// Changes many blobs, some of them by each transaction.
fn change_many(store: &Store, space: KeyspaceId, names: std::ops::Range<u32>, existence: Existence) {
    let change =
        BlobChange { existence, cut: None, holes: Vec::new(), size: 0, attributes: None, writes: Vec::new() };
    for some in names.collect::<Vec<_>>().chunks(100) {
        let committed = store.transact(Wait::Allowed, |writer| -> Result<(), crate::transact::Stop<Error>> {
            for name in some {
                let key = key(&format!("one-of-many-that-come-and-go-{name}"));
                writer.head(space, &key)?;
                writer.put(space, &key, change.clone());
            }
            Ok(())
        });
        committed.expect("commits").1.wait().expect("durable");
    }
}

/// Maintains until nothing is left to do; how much was written meanwhile, in segments.
fn rests_after(store: &Store) -> u64 {
    let counters = store.log.counters();
    let written = || counters.log_bytes.load(Ordering::Relaxed) + counters.bulk_bytes.load(Ordering::Relaxed);
    let (before, mut steps) = (written(), 0);
    while store.maintain().expect("maintains") == Maintained::Worked {
        steps += 1;
        assert!(steps < 1000, "it goes on and on");
    }
    (written() - before) / u64::from(store.segments.capacity())
}

#[test]
fn compaction_ends_though_what_it_says_of_free_keys_has_to_be_said_for_older_segments() {
    let (store, space) = store();
    // The oldest segment keeps something for ever.
    for n in 0..10 {
        commit(&store, space, &format!("kept-{n}"), Existence::Create, &[1; 10_000]);
    }
    for round in 0..20 {
        let names = round * 2000..(round + 1) * 2000;
        change_many(&store, space, names.clone(), Existence::Create);
        change_many(&store, space, names, Existence::Delete);
    }
    store.checkpoint().expect("checkpoints");
    let said = rests_after(&store);
    assert!(said < 60, "{said} segments were written");
    assert_eq!(rests_after(&store), 0, "nobody has written anything since");
    // When others write it goes on, and the keys that are free are forgotten in the end.
    for round in 0..10 {
        for n in 0..30 {
            commit(&store, space, &format!("kept-{}", n % 3), Existence::Keep, &[round; 10_000]);
        }
        store.checkpoint().expect("checkpoints");
        rests_after(&store);
    }
    let segments = store.segments.all().len();
    assert!(segments < 12, "{segments} segments are left");
    settle(&store);
    for n in 3..10 {
        assert_eq!(read(&store, space, &format!("kept-{n}"), 10_000), Ok(vec![1; 10_000]));
    }
}

#[test]
fn compaction_ends_though_nothing_that_is_there_has_payload() {
    let (store, space) = store();
    for round in 0..20 {
        change_many(&store, space, round * 2000..(round + 1) * 2000, Existence::Create);
    }
    store.checkpoint().expect("checkpoints");
    let said = rests_after(&store);
    assert!(said < 60, "{said} segments were written");
    assert_eq!(rests_after(&store), 0, "nobody has written anything since");
    settle(&store);
}

#[test]
fn files_of_a_dropped_keyspace_are_given_back_though_nobody_writes_any_more() {
    let (store, kept) = store();
    let dropped = keyspace(&store, "dropped");
    for n in 0..30 {
        commit(&store, dropped, &format!("large-{n}"), Existence::Create, &[1; 100_000]);
        // Deleted later, so its segments are emptied and not left to the drop.
        commit(&store, kept, &format!("large-{n}"), Existence::Create, &[2; 100_000]);
    }
    commit(&store, kept, "small", Existence::Create, &[3; 100]);
    settle(&store);
    let files = || store.using().files / u64::from(store.segments.capacity());
    let before = files();
    store.drop_keyspace(dropped).expect("drops");
    for n in 0..30 {
        commit(&store, kept, &format!("large-{n}"), Existence::Delete, &[]);
    }
    settle(&store);
    assert!(before > 24 && files() <= 8, "of {before} files {} are left", files());
    assert_eq!(read(&store, kept, "small", 100), Ok(vec![3; 100]));
}

#[test]
fn files_that_no_checkpoint_has_known_are_given_back_though_nobody_writes_any_more() {
    // So that nothing but what is dead calls for a checkpoint.
    let options = Options { index_cache: 4 << 20, ..options() };
    let store = Store::open(SimDisk::new(1), SimClock::new(), Create::IfMissing, options).expect("opens");
    let space = keyspace(&store, "k");
    commit(&store, space, "small", Existence::Create, &[3; 100]);
    for n in 0..30 {
        commit(&store, space, &format!("large-{n}"), Existence::Create, &[1; 100_000]);
    }
    let files = || store.using().files / u64::from(store.segments.capacity());
    let before = files();
    for n in 0..30 {
        commit(&store, space, &format!("large-{n}"), Existence::Delete, &[]);
    }
    let steps = (0..1000).take_while(|_| store.maintain().expect("works") == Maintained::Worked).count();
    assert!(steps < 1000, "it comes to an end");
    assert!(before > 14 && files() <= 6, "of {before} files {} are left", files());
    assert_eq!(read(&store, space, "small", 100), Ok(vec![3; 100]));
}

#[test]
fn compaction_ends_though_the_log_says_much_of_keyspaces_with_many_snapshots() {
    let (store, space) = store();
    let name = |n: u32| KeyspaceName::new(&format!("{n:0>100}")).expect("valid");
    for n in 0..200 {
        store.create_snapshot(space, name(n), 0).expect("creates");
    }
    for _ in 0..100 {
        store.create_snapshot(space, name(200), 0).expect("creates");
        store.drop_snapshot(space, &name(200)).expect("drops");
    }
    store.checkpoint().expect("checkpoints");
    assert!(store.segments.all().len() > 15, "the keyspace was logged again and again");
    assert_eq!(rests_after(&store), 0);
    let segments = store.segments.all().len();
    assert!(segments < 4, "{segments} segments are left");
    assert_eq!(store.snapshots(space).expect("is there").len(), 200);
}

#[test]
fn the_snapshots_of_a_keyspace_outlive_the_segments_that_said_them() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let (kept, dropped) = (keyspace(&store, "kept"), keyspace(&store, "dropped"));
    let name = |n: u32| KeyspaceName::new(&format!("{n:0>100}")).expect("valid");
    for n in 0..100 {
        store.create_snapshot(kept, name(n), 0).expect("creates");
    }
    store.drop_keyspace(dropped).expect("drops");
    settle(&store);
    store.compact().expect("compacts");
    drop(store);
    for mode in CrashMode::ALL {
        let disk = disk.crash(mode);
        drop(open(&disk));
        let store = Store::open_rebuilding(disk, SimClock::new(), options()).expect("rebuilds");
        assert_eq!(store.snapshots(kept).expect("is there").len(), 100);
        assert_eq!(store.snapshots(dropped).expect_err("was dropped").kind(), ErrorKind::NotFound);
    }
}

#[test]
fn what_counts_as_live_in_a_segment_never_keeps_a_manifest_from_being_read() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    commit(&store, space, "a", Existence::Create, &[1; 100]);
    store.log.segment().add_live(5 << 32);
    store.close().expect("closes");
    drop(store);
    let store = open(&disk);
    assert_eq!(read(&store, space, "a", 100), Ok(vec![1; 100]));
}

/// A disk some of whose sectors cannot be read any more.
struct Worn {
    disk: Arc<SimDisk>,
    sectors: Arc<Mutex<Vec<(String, u64)>>>,
}

struct WornFile {
    name: String,
    file: Arc<dyn File>,
    sectors: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Disk for Worn {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(name, access)?;
        Ok(Arc::new(WornFile { name: name.into(), file, sectors: self.sectors.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }

    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }

    fn write_durably(&self, writes: &[Write<'_>]) -> io::Result<()> {
        let inner = |write: &Write<'_>| {
            write.file.as_any().downcast_ref::<WornFile>().expect("of this disk").file.clone()
        };
        let files: Vec<Arc<dyn File>> = writes.iter().map(inner).collect();
        let writes = writes.iter().zip(&files).map(|(write, file)| Write { file: &**file, ..*write });
        self.disk.write_durably(&writes.collect::<Vec<_>>())
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

impl File for WornFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let range = position..position + buffer.len() as u64;
        match self.sectors.lock().iter().any(|(name, at)| *name == self.name && range.contains(at)) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => self.file.read_at(position, buffer),
        }
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(position, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.file.reserve(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Maintains until nothing is left to do, whatever fails; the failures.
fn failures_until_idle(store: &Store) -> Vec<Error> {
    let mut failures = Vec::new();
    for _ in 0..1000 {
        match store.maintain() {
            Ok(Maintained::Worked) => {}
            Ok(Maintained::Idle) => return failures,
            Err(error) => failures.push(error),
        }
    }
    panic!("it goes on and on: {:?}", failures.last());
}

fn files(store: &Store) -> u64 {
    store.using().files / u64::from(store.segments.capacity())
}

#[test]
fn segments_are_emptied_though_a_pin_is_released_before_each_step_while_a_snapshot_keeps_much() {
    let (store, space) = store();
    commit(&store, space, "kept", Existence::Create, &[1; 100]);
    let _kept = store.pin_keyspaces(&[space]).expect("pins");
    commit(&store, space, "kept", Existence::Keep, &[2; 100]);
    let busy = keyspace(&store, "busy");
    for n in 0..200 {
        let existence = if n == 0 { Existence::Create } else { Existence::Replace };
        commit(&store, busy, "a", existence, &[3; 20_000]);
    }
    store.checkpoint().expect("checkpoints");
    let before = files(&store);
    for _ in 0..500 {
        drop(store.loaded(store.pin_blob(busy, &key("a"), Wait::Allowed)).expect("pins"));
        store.maintain().expect("works");
    }
    assert!(files(&store) * 2 < before, "{} of {before} files are left", files(&store));
}

#[test]
fn a_sector_that_cannot_be_read_keeps_its_segment_and_no_other() {
    let sectors = Arc::new(Mutex::new(Vec::new()));
    let disk = Arc::new(Worn { disk: SimDisk::new(1), sectors: sectors.clone() });
    let store = Store::open(disk, SimClock::new(), Create::IfMissing, options()).expect("opens");
    let space = keyspace(&store, "k");
    for n in 0..30 {
        commit(&store, space, &format!("a{n}"), Existence::Create, &[1; 20_000]);
    }
    store.checkpoint().expect("checkpoints");
    let all = store.segments.all();
    let first = all.iter().find(|segment| segment.kind != SegmentKind::Log).expect("is there");
    sectors.lock().push((first.name(), 4096 + 100));
    for n in (1..30).filter(|n| ![15, 25].contains(n)) {
        commit(&store, space, &format!("a{n}"), Existence::Delete, &[]);
    }
    let failures = failures_until_idle(&store);
    assert_eq!(failures.iter().map(Error::kind).collect::<Vec<_>>(), [ErrorKind::Unavailable]);
    assert!(store.stats().maintenance_failure.is_some_and(|why| why.contains(&first.name())));
    assert!(store.segments.find(first.id).is_some(), "it is kept");
    let bulk = |segment: &&Arc<Segment>| segment.kind != SegmentKind::Log;
    assert_eq!(store.segments.all().iter().filter(bulk).count(), 2, "the others were emptied");
    for n in [15, 25] {
        assert_eq!(read(&store, space, &format!("a{n}"), 20_000), Ok(vec![1; 20_000]));
    }
}

#[test]
fn a_merge_that_fails_does_not_keep_segments_from_being_emptied() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    commit(&store, space, "rotten", Existence::Create, &[1; 100]);
    store.checkpoint().expect("checkpoints");
    let rotten = store.index.tables()[0].id.file_name();
    for n in 0..30 {
        commit(&store, space, &format!("large-{n}"), Existence::Create, &[1; 100_000]);
    }
    disk.flip_bit(&rotten, 20, 0).expect("flips");
    let before = files(&store);
    for n in 0..30 {
        commit(&store, space, &format!("large-{n}"), Existence::Delete, &[]);
        store.checkpoint().expect("checkpoints");
    }
    let failures = failures_until_idle(&store);
    assert!((1..6).contains(&failures.len()), "{failures:?}");
    assert!(failures.iter().all(|error| error.kind() == ErrorKind::Corrupt), "{failures:?}");
    assert!(before > 14 && files(&store) <= 8, "of {before} files {} are left", files(&store));
    assert!(store.stats().maintenance_failure.is_some_and(|why| why.contains("table")));
}

#[test]
fn garbage_that_cannot_be_collected_waits_for_the_next_opening_and_lets_the_rest_go() {
    let (store, space) = store();
    let lost = BlobId::from_u64(77);
    let item = (index_key::leaf_key(&(space, lost, 1)), Some(vec![0xff; 3]));
    let table = store.index.build(std::iter::once(item)).expect("builds");
    store.index.install(table, &[]);
    let garbage = Garbage::Blob { keyspace: space, blob: lost, from: 1 };
    store.backlog.add_garbage(Some(garbage.clone()));
    commit(&store, space, "a", Existence::Create, &vec![1; 200_000]);
    commit(&store, space, "a", Existence::Delete, &[]);
    let failures = failures_until_idle(&store);
    assert_eq!(failures.iter().map(Error::kind).collect::<Vec<_>>(), [ErrorKind::Corrupt]);
    assert_eq!(store.segments.all().iter().map(|segment| segment.live()).sum::<u64>(), 0);
    store.checkpoint().expect("checkpoints");
    assert_eq!(store.checkpoint.lock().manifest.garbage, [garbage]);
    assert!(store.stats().maintenance_failure.is_some());
}

/// Bytes of so many segments.
fn segments(count: u64) -> u64 {
    count * options().segment_size
}

/// Leaves so many bytes of the disk free.
fn crowd(disk: &SimDisk, free: u64) {
    let space = disk.space().expect("is there");
    disk.set_capacity(space.total - space.free + free);
}

/// Writes so many blobs of so many bytes, and deletes every third.
fn thin_out(store: &Store, space: KeyspaceId, count: u32, len: usize) {
    for n in 0..count {
        commit(store, space, &format!("b{n}"), Existence::Create, &vec![1; len]);
    }
    store.checkpoint().expect("checkpoints");
    for n in (0..count).step_by(3) {
        commit(store, space, &format!("b{n}"), Existence::Delete, &[]);
    }
}

#[test]
fn a_third_that_was_deleted_here_and_there_is_given_back_where_room_is_short() {
    // In bulk segments, and in the log.
    for (count, len) in [(720, 20_000), (1500, 9_000)] {
        let disk = SimDisk::new(1);
        // So many that what is dead is no waste.
        let options = Options { slack_segments: 40, ..options() };
        let store = Store::open(disk.clone(), SimClock::new(), Create::IfMissing, options).expect("opens");
        let space = keyspace(&store, "k");
        thin_out(&store, space, count, len);
        settle(&store);
        let before = files(&store);
        let live = store.using().live;
        crowd(&disk, segments(20));
        assert!(!store.using().is_wasteful() && disk.space().expect("is there").free > live / 4);
        settle(&store);
        assert_eq!(files(&store), before, "there is room enough for who wants none");
        store.keep_free(segments(16));
        settle(&store);
        let free = disk.space().expect("is there").free;
        assert!(free >= segments(16 + 8), "of {before} files {} are left, free are {free}", files(&store));
        // Everything that can be had: payload fills whole blocks.
        store.keep_free(segments(100));
        settle(&store);
        let filled = u64::from(count - count / 3) * (len as u64).next_multiple_of(BLOCK_SIZE as u64);
        let (files, filled) = (files(&store), filled / segments(1));
        assert!(files <= filled * 10 / 9 + 6, "{files} files hold what fills {filled}");
        for n in (0..count).filter(|n| n % 3 > 0) {
            assert_eq!(read(&store, space, &format!("b{n}"), len), Ok(vec![1; len]));
        }
    }
}

#[test]
fn where_room_is_short_compaction_ends_though_padding_leaves_every_segment_sparse() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    crowd(&disk, segments(200));
    store.keep_free(segments(300));
    // One block of the five of each holds hardly anything.
    thin_out(&store, space, 400, 16_400);
    let said = rests_after(&store);
    assert!((1..60).contains(&said), "{said} segments were written");
    assert_eq!(rests_after(&store), 0, "nothing has died since");
    let count = files(&store);
    store.close().expect("closes");
    drop(store);
    let store = open(&disk);
    store.keep_free(segments(300));
    rests_after(&store);
    assert_eq!(rests_after(&store), 0, "what was found has been looked at once");
    assert!(files(&store) <= count + 2, "{count} files became {}", files(&store));
    settle(&store);
}
