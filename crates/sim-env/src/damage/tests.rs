use tyr_env::{Access, Disk};

use super::*;
use crate::{
    CrashMode,
    disk::tests::{BLOCK, disk_with, filled, marks},
};

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn planted_files_of_any_length_are_durable() {
    let disk = disk_with("a", 1);
    let open = disk.open("a", Access::Read).expect("opens");
    disk.write_file("a", b"hello").expect("plants");
    disk.write_file("b", &[]).expect("plants");
    for disk in [disk.snapshot(), disk.crash(CrashMode::LoseAll)] {
        assert_eq!(disk.read_file("a").expect("exists"), b"hello");
        assert_eq!(disk.read_file("b").expect("exists"), b"");
        let file = disk.open("a", Access::Read).expect("opens");
        assert_eq!(file.length().expect("has one"), 5);
        assert_eq!(kind(file.read_at(4, &mut [0; 2])), Some(io::ErrorKind::UnexpectedEof));
    }
    drop(open);
    assert_eq!(kind(disk.read_file("c")), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(disk.write_file("lock", b"")), Some(io::ErrorKind::InvalidInput));
}

#[test]
fn an_open_file_keeps_its_content_when_another_is_planted() {
    let disk = disk_with("a", 1);
    let old = disk.open("a", Access::Read).expect("opens");
    disk.write_file("a", b"new").expect("plants");
    let mut byte = [0];
    old.read_at(BLOCK, &mut byte).expect("reads");
    assert_eq!(byte, [1]);
}

#[test]
fn a_truncated_file_ends_early_for_open_files_too() {
    let disk = disk_with("a", 1);
    let file = disk.open("a", Access::Write).expect("opens");
    file.write_at(0, filled(2, 4).as_bytes()).expect("writes");
    disk.truncate("a", BLOCK + 10).expect("cuts");
    assert_eq!(kind(file.read_at(BLOCK, &mut [0; 11])), Some(io::ErrorKind::UnexpectedEof));
    file.read_at(BLOCK, &mut [0; 10]).expect("reads");
    disk.truncate("a", 3 * BLOCK).expect("extends");
    assert_eq!((marks(&disk, "a"), disk.operations()), (vec![2, 2, 0], 1));
    assert_eq!(marks(&disk.crash(CrashMode::LoseAll), "a"), [1, 1, 0]);
    assert_eq!(kind(disk.truncate("b", 0)), Some(io::ErrorKind::NotFound));
}

#[test]
fn one_bit_is_flipped_where_it_was_asked_for() {
    let disk = disk_with("a", 0);
    disk.flip_bit("a", BLOCK + 3, 6).expect("flips");
    for disk in [disk.snapshot(), disk.crash(CrashMode::LoseAll)] {
        let bytes = disk.read_file("a").expect("exists");
        let wrong: Vec<_> = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0).collect();
        assert_eq!(wrong, [(4099, &0x40)]);
    }
    assert_eq!(kind(disk.flip_bit("a", 4 * BLOCK, 0)), Some(io::ErrorKind::UnexpectedEof));
}

#[test]
fn a_random_flip_says_what_it_hit() {
    let disk = disk_with("a", 1);
    disk.write_file("b", b"xyz").expect("plants");
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let before = |name: &str| disk.read_file(name).expect("exists");
        let old = [before("a"), before("b")];
        let (name, position, bit) = disk.flip_random_bit().expect("there are blocks");
        let new = [before("a"), before("b")];
        let changed: Vec<_> = old.concat().into_iter().zip(new.concat()).map(|(a, b)| a ^ b).collect();
        let offset = if name == "a" { 0 } else { old[0].len() };
        let at = offset + usize::try_from(position).expect("small");
        assert_eq!(changed.iter().filter(|byte| **byte != 0).count(), 1);
        assert_eq!(changed[at], 1 << bit);
        names.insert(name);
    }
    assert_eq!(names.len(), 2);
    assert_eq!(SimDisk::new(1).flip_random_bit(), None);
}

#[test]
fn unreadable_ranges_fail_until_healed() {
    let disk = disk_with("a", 1);
    disk.fail_reads("a", BLOCK..BLOCK + 100).expect("damages");
    disk.rename("a", "b").expect("renames");
    disk.sync_names().expect("syncs");
    for disk in [disk.snapshot(), disk.crash(CrashMode::LoseAll)] {
        let file = disk.open("b", Access::Read).expect("opens");
        let mut buffer = [0; 10];
        for position in [BLOCK - 9, BLOCK, BLOCK + 99] {
            let error = file.read_at(position, &mut buffer).expect_err("cannot be read");
            assert_eq!(error.raw_os_error(), Some(5));
        }
        file.read_at(BLOCK - 10, &mut buffer).expect("reads before");
        file.read_at(BLOCK + 100, &mut buffer).expect("reads behind");
        disk.heal_reads();
        file.read_at(BLOCK, &mut buffer).expect("reads again");
    }
}
