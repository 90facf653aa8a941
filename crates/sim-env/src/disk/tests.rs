use tyr_env::{BLOCK_SIZE, Blocks};

use super::*;

pub(crate) const BLOCK: u64 = BLOCK_SIZE as u64;

pub(crate) fn filled(byte: u8, blocks: usize) -> Blocks {
    let mut memory = Blocks::zeroed(blocks * BLOCK_SIZE);
    memory.as_bytes_mut().fill(byte);
    memory
}

/// A disk with a durable file of four blocks of `byte`.
pub(crate) fn disk_with(name: &str, byte: u8) -> Arc<SimDisk> {
    let disk = SimDisk::new(1);
    disk.write_file(name, filled(byte, 4).as_bytes()).expect("plants");
    disk
}

/// The first byte of each block.
pub(crate) fn marks(disk: &SimDisk, name: &str) -> Vec<u8> {
    disk.read_file(name).expect("exists").chunks(BLOCK_SIZE).map(|block| block[0]).collect()
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn files_behave_as_the_trait_says() {
    let disk = SimDisk::new(1);
    assert_eq!(kind(disk.open("a", Access::Read)), Some(io::ErrorKind::NotFound));
    let a = disk.open("a", Access::Create).expect("creates");
    assert_eq!(kind(disk.open("a", Access::Create)), Some(io::ErrorKind::AlreadyExists));
    a.write_at(BLOCK, filled(1, 2).as_bytes()).expect("writes");
    assert_eq!((a.length().expect("has one"), marks(&disk, "a")), (3 * BLOCK, vec![0, 1, 1]));
    let mut buffer = [9; 4000];
    a.read_at(4000, &mut buffer).expect("reads");
    assert!(buffer[..96].iter().all(|byte| *byte == 0) && buffer[96..].iter().all(|byte| *byte == 1));
    assert_eq!(kind(a.read_at(3 * BLOCK - 1, &mut [0; 2])), Some(io::ErrorKind::UnexpectedEof));
    assert_eq!(kind(a.read_at(u64::MAX, &mut [0; 2])), Some(io::ErrorKind::UnexpectedEof));
    a.reserve(3 * BLOCK + 1).expect("reserves");
    assert_eq!(marks(&disk, "a"), [0, 1, 1, 0]);
    disk.open("b", Access::Create).expect("creates");
    disk.rename("a", "b").expect("replaces");
    assert_eq!(disk.names().expect("lists"), ["b"]);
    disk.remove("b").expect("removes");
    assert_eq!(
        (kind(disk.remove("b")), kind(disk.rename("b", "c"))),
        (Some(io::ErrorKind::NotFound), Some(io::ErrorKind::NotFound))
    );
    a.write_at(0, filled(2, 1).as_bytes()).expect("an open file stays valid");
}

#[test]
fn mistakes_are_refused_and_change_nothing() {
    let (disk, other) = (disk_with("a", 1), disk_with("a", 1));
    let [a, reader, foreign] = [(&disk, Access::Write), (&disk, Access::Read), (&other, Access::Write)]
        .map(|(disk, access)| disk.open("a", access).expect("opens"));
    let two = filled(2, 1);
    let good = Write { file: &*a, position: 0, bytes: two.as_bytes() };
    let wrong = [
        (Write { file: &*reader, ..good }, io::ErrorKind::PermissionDenied),
        (Write { file: &*foreign, ..good }, io::ErrorKind::InvalidInput),
        (Write { position: 1, ..good }, io::ErrorKind::InvalidInput),
        (Write { bytes: &two.as_bytes()[1..], ..good }, io::ErrorKind::InvalidInput),
    ];
    for (wrong, expected) in wrong {
        assert_eq!(kind(disk.write_durably(&[good, wrong])), Some(expected));
    }
    assert_eq!(kind(reader.write_at(0, two.as_bytes())), Some(io::ErrorKind::PermissionDenied));
    assert_eq!(kind(reader.reserve(1 << 20)), Some(io::ErrorKind::PermissionDenied));
    assert_eq!(kind(a.write_at(512, two.as_bytes())), Some(io::ErrorKind::InvalidInput));
    assert_eq!(kind(a.reserve(u64::MAX)), Some(io::ErrorKind::InvalidInput));
    for name in ["lock", "", "a/b"] {
        assert_eq!(kind(disk.open(name, Access::Create)), Some(io::ErrorKind::InvalidInput));
        assert_eq!(kind(disk.rename("a", name)), Some(io::ErrorKind::InvalidInput));
    }
    assert_eq!((marks(&disk, "a"), disk.operations()), (vec![1; 4], 0));
}

#[test]
fn after_a_crash_the_old_disk_is_dead_and_the_new_one_alive() {
    let disk = disk_with("a", 1);
    let file = disk.open("a", Access::Write).expect("opens");
    let found = disk.crash(CrashMode::KeepAll);
    let block = filled(2, 1);
    assert!(disk.is_crashed() && !found.is_crashed());
    assert!(file.read_at(0, &mut [0]).is_err() && file.length().is_err() && file.sync().is_err());
    assert!(
        file.write_at(0, block.as_bytes()).is_err()
            && file.write_at(0, &[]).is_err()
            && file.reserve(1).is_err()
    );
    assert!(
        disk.names().is_err()
            && disk.open("a", Access::Read).is_err()
            && disk.open("b", Access::Create).is_err()
    );
    assert!(disk.rename("a", "b").is_err() && disk.remove("a").is_err() && disk.sync_names().is_err());
    assert!(disk.space().is_err() && disk.write_durably(&[]).is_err());
    drop(file);
    let file = found.open("a", Access::Write).expect("opens");
    file.write_at(0, block.as_bytes()).expect("writes");
    assert_eq!((marks(&found, "a"), found.operations()), (vec![2, 1, 1, 1], 1));
}

#[test]
fn a_file_needs_a_durable_name_and_durable_content() {
    let disk = SimDisk::new(1);
    let a = disk.open("a", Access::Create).expect("creates");
    disk.write_durably(&[Write { file: &*a, position: 0, bytes: filled(1, 1).as_bytes() }]).expect("writes");
    assert!(disk.snapshot().crash(CrashMode::LoseAll).names().expect("lists").is_empty());
    disk.sync_names().expect("syncs");
    let b = disk.open("b", Access::Create).expect("creates");
    b.write_at(0, filled(2, 1).as_bytes()).expect("writes");
    disk.sync_names().expect("syncs");
    let found = disk.snapshot().crash(CrashMode::LoseAll);
    assert_eq!((marks(&found, "a"), marks(&found, "b")), (vec![1], vec![]));
    b.sync().expect("syncs");
    assert_eq!(marks(&disk.crash(CrashMode::LoseAll), "b"), [2]);
}

#[test]
fn a_removed_file_may_come_back_whole() {
    let disk = disk_with("a", 1);
    drop(disk.open("a", Access::Read).expect("opens"));
    disk.remove("a").expect("removes");
    assert_eq!(marks(&disk.crash(CrashMode::LoseAll), "a"), [1; 4]);
    assert!(disk.crash(CrashMode::KeepAll).names().expect("lists").is_empty(), "one crash, another outcome");
}

#[test]
fn space_is_taken_until_a_removed_file_is_closed() {
    let disk = disk_with("a", 1);
    disk.set_capacity(10 * BLOCK);
    let free = || disk.space().expect("has space").free / BLOCK;
    let full = Some(io::ErrorKind::StorageFull);
    let b = disk.open("b", Access::Create).expect("creates");
    assert_eq!(kind(b.reserve(7 * BLOCK)), full);
    b.reserve(5 * BLOCK).expect("fits");
    assert_eq!((disk.space().expect("has space").total / BLOCK, free()), (10, 1));
    assert_eq!(kind(b.write_at(5 * BLOCK, filled(2, 2).as_bytes())), full);
    assert_eq!(
        kind(disk.write_durably(&[Write { file: &*b, position: 5 * BLOCK, bytes: filled(2, 2).as_bytes() }])),
        full
    );
    b.write_at(0, filled(2, 5).as_bytes()).expect("what is reserved can be written");
    let a = disk.open("a", Access::Read).expect("opens");
    disk.remove("a").expect("removes");
    assert_eq!(free(), 1);
    drop(a);
    assert_eq!(free(), 5);
    disk.set_capacity(3 * BLOCK);
    assert_eq!((free(), kind(b.reserve(6 * BLOCK))), (0, full));
    disk.set_capacity(6 * BLOCK);
    b.reserve(6 * BLOCK).expect("fits");
}

#[test]
fn a_snapshot_is_independent_and_starts_counting_anew() {
    let disk = disk_with("a", 1);
    let a = disk.open("a", Access::Write).expect("opens");
    a.write_at(0, filled(2, 1).as_bytes()).expect("writes");
    disk.fail_at(9, Fault::Error);
    let copy = disk.snapshot();
    a.write_at(BLOCK, filled(3, 1).as_bytes()).expect("writes");
    copy.open("a", Access::Write)
        .expect("opens")
        .write_at(2 * BLOCK, filled(4, 1).as_bytes())
        .expect("writes");
    assert_eq!((marks(&disk, "a"), marks(&copy, "a")), (vec![2, 3, 1, 1], vec![2, 1, 4, 1]));
    assert_eq!((disk.operations(), copy.operations(), copy.faults_pending()), (2, 1, 0));
    assert_eq!(marks(&copy.crash(CrashMode::LoseAll), "a"), [1; 4], "what was not durable still is not");
    a.sync().expect("the original lives on");
}

#[test]
fn counts_tell_what_was_written_and_read() {
    let disk = SimDisk::new(1);
    let a = disk.open("a", Access::Create).expect("creates");
    let two = filled(1, 2);
    let write = Write { file: &*a, position: 0, bytes: two.as_bytes() };
    let empty = Write { bytes: &[], ..write };
    disk.write_durably(&[write, empty, Write { position: 4 * BLOCK, ..write }]).expect("writes");
    a.write_at(0, two.as_bytes()).expect("writes");
    a.reserve(8 * BLOCK).expect("reserves");
    a.sync().expect("syncs");
    disk.sync_names().expect("syncs");
    disk.rename("a", "b").expect("renames");
    a.read_at(100, &mut [0; 800]).expect("reads");
    let expected = Counts {
        operations: 8,
        writes: 3,
        bytes_written: 6 * BLOCK,
        batches: 1,
        syncs: 1,
        name_syncs: 1,
        reads: 1,
        bytes_read: 800,
    };
    assert_eq!(disk.counts(), expected);
}

/// Does many things that the seed chooses, crashes, and writes down all that can be seen.
fn transcript(seed: u64) -> String {
    let disk = SimDisk::new(seed);
    let mut random = Random::new(seed);
    let mut lines = Vec::new();
    for step in 0..200u8 {
        let name = format!("file{}", random.below(4));
        let result = match random.below(8) {
            0 => disk.open(&name, Access::Create).map(drop),
            1 => disk.rename(&name, &format!("file{}", random.below(4))),
            2 => disk.remove(&name),
            3 => disk.sync_names(),
            4 => disk.open(&name, Access::Write).and_then(|file| file.sync()),
            5 => disk.open(&name, Access::Write).and_then(|file| {
                let blocks = filled(step, 3);
                let write =
                    Write { file: &*file, position: random.below(4) * BLOCK, bytes: blocks.as_bytes() };
                disk.write_durably(&[write, Write { position: 9 * BLOCK, ..write }])
            }),
            _ => disk
                .open(&name, Access::Write)
                .and_then(|file| file.write_at(random.below(16) * BLOCK, filled(step, 3).as_bytes())),
        };
        lines.push(format!("{:?} {:?}", kind(result), disk.names().expect("lists")));
    }
    disk.flip_random_bit();
    let found = disk.crash(CrashMode::Random);
    let mut names = found.names().expect("lists");
    names.sort();
    for name in names {
        lines.push(format!("{name}: {:?}", found.read_file(&name).expect("reads")));
    }
    lines.join("\n")
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    for seed in 0..20 {
        assert!(transcript(seed) == transcript(seed), "seed {seed}");
    }
    assert!(transcript(1) != transcript(2), "the seed matters");
}
