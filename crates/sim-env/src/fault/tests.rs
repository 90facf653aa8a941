use std::{collections::BTreeSet, sync::Arc};

use tyr_env::{Access, Disk, Write};

use super::*;
use crate::{
    CrashMode, SimDisk,
    disk::tests::{BLOCK, disk_with, filled, marks},
};

fn is_eio<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(5))
}

/// One of every operation that changes something.
fn everything(disk: &SimDisk) -> io::Result<()> {
    let a = disk.open("a", Access::Write)?;
    a.write_at(0, filled(2, 2).as_bytes())?;
    a.sync()?;
    a.reserve(6 * BLOCK)?;
    let three = filled(3, 1);
    let write = Write { file: &*a, position: 2 * BLOCK, bytes: three.as_bytes() };
    disk.write_durably(&[write, Write { position: 3 * BLOCK, ..write }])?;
    drop(disk.open("b", Access::Create)?);
    disk.rename("a", "c")?;
    disk.remove("b")?;
    disk.sync_names()
}

/// What a disk holds: names and marks.
fn state(disk: &SimDisk) -> String {
    let mut names = disk.names().expect("lists");
    names.sort();
    names.iter().map(|name| format!("{name}{:?}", marks(disk, name))).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_operation_is_a_crash_point() {
    let base = disk_with("a", 1);
    let whole = base.snapshot();
    everything(&whole).expect("nothing fails");
    let expected = [
        ("write of 8192 bytes at 0 of 'a'", "a[1, 1, 1, 1]", "a[2, 2, 1, 1]"),
        ("sync 'a'", "a[1, 1, 1, 1]", "a[2, 2, 1, 1]"),
        ("reserve 24576 bytes for 'a'", "a[2, 2, 1, 1]", "a[2, 2, 1, 1, 0, 0]"),
        ("write of 4096 bytes at 8192 of 'a'", "a[2, 2, 1, 1]", "a[2, 2, 3, 3, 0, 0]"),
        ("write of 4096 bytes at 12288 of 'a'", "a[2, 2, 3, 1]", "a[2, 2, 3, 3, 0, 0]"),
        ("create 'b'", "a[2, 2, 3, 3]", "a[2, 2, 3, 3, 0, 0] b[]"),
        ("rename 'a' to 'c'", "a[2, 2, 3, 3]", "b[] c[2, 2, 3, 3, 0, 0]"),
        ("remove 'b'", "a[2, 2, 3, 3]", "c[2, 2, 3, 3, 0, 0]"),
        ("sync names", "a[2, 2, 3, 3]", "c[2, 2, 3, 3, 0, 0]"),
    ];
    assert_eq!(whole.operations(), expected.len() as u64);
    for (n, (what, lost, kept)) in (0..).zip(expected) {
        let disk = base.snapshot();
        disk.fail_at(n, Fault::Crash);
        everything(&disk).expect_err("crashes");
        assert!(disk.is_crashed());
        assert_eq!(disk.strikes(), [Strike { operation: n, what: what.into(), fault: Fault::Crash }]);
        assert_eq!(state(&disk.crash(CrashMode::LoseAll)), lost, "{what}");
        assert_eq!(state(&disk.crash(CrashMode::KeepAll)), kept, "{what}");
        disk.crash(CrashMode::Random).names().expect("is alive");
    }
}

#[test]
fn a_crash_within_a_batch_may_leave_any_part_of_it() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..300 {
        let disk = disk_with("a", 1);
        disk.reseed(seed);
        let a = disk.open("a", Access::Write).expect("opens");
        let two = filled(2, 1);
        let writes = [0, 1, 2].map(|n| Write { file: &*a, position: n * BLOCK, bytes: two.as_bytes() });
        disk.fail_at(seed % 3, Fault::Crash);
        disk.write_durably(&writes).expect_err("crashes");
        let found = disk.crash(CrashMode::Random).read_file("a").expect("exists");
        let whole = |block: &[u8]| block.iter().all(|byte| *byte == block[0]).then_some(block[0]);
        outcomes.extend(found.chunks(4096).map(whole).collect::<Option<Vec<_>>>());
    }
    assert_eq!(outcomes.len(), 8, "every subset of the three: {outcomes:?}");
}

#[test]
fn a_crash_strikes_even_where_space_is_short() {
    let disk = disk_with("a", 1);
    disk.set_capacity(4 * BLOCK);
    let a = disk.open("a", Access::Write).expect("opens");
    for copy in [0, 1] {
        let disk = disk.snapshot();
        let a = disk.open("a", Access::Write).expect("opens");
        disk.fail_at(0, Fault::Crash);
        let result =
            if copy == 0 { a.reserve(5 * BLOCK) } else { a.write_at(4 * BLOCK, filled(2, 1).as_bytes()) };
        assert!(result.is_err() && disk.is_crashed());
    }
    a.reserve(5 * BLOCK).expect_err("is full");
}

#[test]
fn an_error_strikes_once_or_for_ever() {
    let base = disk_with("a", 1);
    let count = {
        let disk = base.snapshot();
        everything(&disk).expect("nothing fails");
        disk.operations()
    };
    for n in 0..count {
        let disk = base.snapshot();
        disk.fail_at(n, Fault::Error);
        assert!(is_eio(everything(&disk)));
        disk.open("x", Access::Create).expect("later operations work");
        assert_eq!((disk.strikes()[0].operation, disk.faults_pending(), disk.is_crashed()), (n, 0, false));

        let disk = base.snapshot();
        disk.fail_at(n, Fault::ErrorForEver);
        assert!(is_eio(everything(&disk)));
        assert!(is_eio(disk.open("x", Access::Create)) && is_eio(disk.sync_names()));
        let name = disk.names().expect("lists").into_iter().find(|name| name != "b").expect("'a' or 'c'");
        disk.open(&name, Access::Read).expect("opens").read_at(0, &mut [0]).expect("reads go on");
        disk.crash(CrashMode::LoseAll).open("x", Access::Create).expect("the next machine is well");
    }
}

#[test]
fn a_failed_sync_is_not_mended_by_the_next() {
    let disk = disk_with("a", 1);
    let a = disk.open("a", Access::Write).expect("opens");
    a.write_at(0, filled(2, 1).as_bytes()).expect("writes");
    disk.fail_at(1, Fault::Error);
    assert!(is_eio(a.sync()));
    a.sync().expect("claims to work");
    assert_eq!((marks(&disk, "a")[0], marks(&disk.crash(CrashMode::LoseAll), "a")[0]), (2, 1));

    let disk = SimDisk::new(1);
    disk.open("a", Access::Create).expect("creates");
    disk.fail_at(1, Fault::Error);
    assert!(is_eio(disk.sync_names()));
    disk.sync_names().expect("claims to work");
    assert!(disk.crash(CrashMode::LoseAll).names().expect("lists").is_empty());
}

#[test]
fn a_failed_write_may_have_written_any_part() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk_with("a", 1);
        disk.reseed(seed);
        let a = disk.open("a", Access::Write).expect("opens");
        disk.fail_at(0, Fault::Error);
        assert!(is_eio(a.write_at(0, filled(2, 3).as_bytes())));
        outcomes.insert(marks(&disk, "a"));
        assert_eq!(marks(&disk.crash(CrashMode::LoseAll), "a"), [1; 4], "and nothing of it is durable");
    }
    assert_eq!(outcomes.len(), 8);
}

#[test]
fn want_of_space_strikes_one_operation() {
    let disk = disk_with("a", 1);
    let a = disk.open("a", Access::Write).expect("opens");
    disk.fail_at(0, Fault::Full);
    assert_eq!(a.reserve(6 * BLOCK).expect_err("is full").kind(), io::ErrorKind::StorageFull);
    a.reserve(6 * BLOCK).expect("space came back");
}

fn durable_write(disk: &Arc<SimDisk>, position: u64, byte: u8) {
    let a = disk.open("a", Access::Write).expect("opens");
    disk.write_durably(&[Write { file: &*a, position, bytes: filled(byte, 1).as_bytes() }])
        .expect("is acknowledged");
}

#[test]
fn a_lost_write_is_acknowledged_and_strikes_the_next_write_only() {
    let disk = disk_with("a", 1);
    disk.fail_at(0, Fault::LostWrite);
    disk.sync_names().expect("is no write");
    assert_eq!(disk.faults_pending(), 1);
    durable_write(&disk, 0, 2);
    durable_write(&disk, BLOCK, 3);
    durable_write(&disk, 4 * BLOCK, 4);
    assert_eq!(marks(&disk, "a"), [1, 3, 1, 1, 4]);
    assert_eq!((disk.strikes()[0].operation, disk.faults_pending()), (1, 0));
    disk.fail_at(0, Fault::LostWrite);
    durable_write(&disk, 5 * BLOCK, 5);
    assert_eq!(marks(&disk.crash(CrashMode::LoseAll), "a"), [1, 3, 1, 1, 4, 0], "the file grew all the same");
}

#[test]
fn a_misdirected_write_lands_where_it_was_sent() {
    let disk = disk_with("a", 1);
    disk.write_file("b", filled(7, 1).as_bytes()).expect("plants");
    let place = Place { name: "b".into(), position: 0 };
    disk.fail_at(0, Fault::MisdirectedWrite(Some(place)));
    durable_write(&disk, 0, 2);
    durable_write(&disk, BLOCK, 3);
    let found = disk.crash(CrashMode::LoseAll);
    assert_eq!((marks(&found, "a"), marks(&found, "b")), (vec![1, 3, 1, 1], vec![2]));
}

#[test]
fn a_misdirected_write_lands_anywhere_but_in_its_place() {
    let mut hit = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk_with("a", 1);
        disk.write_file("b", filled(1, 2).as_bytes()).expect("plants");
        disk.reseed(seed);
        disk.fail_at(0, Fault::MisdirectedWrite(None));
        durable_write(&disk, BLOCK, 2);
        let all = [marks(&disk, "a"), marks(&disk, "b")].concat();
        assert_eq!(all.iter().filter(|mark| **mark == 2).count(), 1);
        hit.insert(all.iter().position(|mark| *mark == 2));
    }
    assert_eq!(hit, [0, 2, 3, 4, 5].map(Some).into());
    let disk = SimDisk::new(1);
    disk.write_file("a", filled(1, 1).as_bytes()).expect("plants");
    disk.fail_at(0, Fault::MisdirectedWrite(None));
    durable_write(&disk, 0, 2);
    assert_eq!(marks(&disk, "a"), [1], "where there is no other place it is lost");
}
