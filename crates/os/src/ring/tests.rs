use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;
use tyr_env::{Access, BLOCK_SIZE, Blocks, Disk, File};

use super::*;
use crate::{
    IoMode,
    file::OsFile,
    run::DurableWrites,
    testing::{block, open},
};

/// A run of one block to the file.
fn run<'a>(file: &'a OsFile, position: u64, block: &'a Blocks) -> Run<'a> {
    Run { file, position, slices: vec![io::IoSlice::new(block.as_bytes())], length: block.len() }
}

fn byte(file: &dyn File, position: u64) -> u8 {
    let mut byte = [0];
    file.read_at(position, &mut byte).expect("reads");
    byte[0]
}

/// Runs the test with a new file, its directory, and rings, where there are any.
fn with_rings(test: impl FnOnce(&TempDir, &OsFile, &Rings)) {
    let directory = TempDir::new().expect("a temporary directory");
    let disk = open(directory.path(), IoMode::Auto).expect("opens");
    let file = disk.open("a", Access::Create).expect("creates");
    file.reserve(1 << 20).expect("reserves");
    let rings = Rings::default();
    if rings.are_available() {
        test(&directory, file.as_any().downcast_ref().expect("our own"), &rings);
    }
}

#[test]
fn runs_are_written_and_nothing_is_left() {
    with_rings(|_, file, rings| {
        let (one, two) = (block(1), block(2));
        let mut runs = [run(file, 0, &one), run(file, 8192, &two)];
        rings.write(&mut runs).expect("writes");
        assert_eq!(runs.map(|run| (run.length, run.slices.len())), [(0, 0); 2]);
        assert_eq!([0, 4096, 8192].map(|position| byte(file, position)), [1, 0, 2]);
    });
}

#[test]
fn a_ring_that_the_kernel_refuses_leaves_everything_to_the_caller() {
    with_rings(|_, file, rings| {
        rings.forbid();
        let one = block(1);
        let mut runs = [run(file, 0, &one), run(file, 8192, &one)];
        rings.write(&mut runs).expect("is no failure of a write");
        assert_eq!(runs.each_ref().map(|run| run.length), [BLOCK_SIZE; 2]);
        assert!(!rings.are_available(), "is remembered");
        rings.write(&mut runs).expect("nor is doing without");
        assert_eq!((runs[0].length, byte(file, 0)), (BLOCK_SIZE, 0));
    });
}

#[test]
fn a_failed_write_is_reported_when_the_others_are_over() {
    with_rings(|directory, file, rings| {
        let fd = rustix::fs::open(directory.path().join("a"), OFlags::RDONLY, Mode::empty()).expect("opens");
        let lock = file.lock.clone();
        let broken =
            OsFile { fd, name: "a".into(), direct: None, lock, durable_writes: DurableWrites::default() };
        let one = block(1);
        let mut runs = [run(file, 0, &one), run(&broken, 4096, &one), run(file, 8192, &one)];
        let error = rings.write(&mut runs).expect_err("cannot be written");
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
        assert_eq!(runs.map(|run| run.length), [0, BLOCK_SIZE, 0]);
        assert_eq!([0, 4096, 8192].map(|position| byte(file, position)), [1, 0, 1]);
        let mut runs = [run(file, 4096, &one)];
        rings.write(&mut runs).expect("another ring works");
        assert_eq!((runs[0].length, byte(file, 4096)), (0, 1));
    });
}

#[test]
fn what_did_not_begin_is_left_and_what_failed_is_a_failure() {
    with_rings(|_, file, _| {
        let one = block(1);
        let left_by = |result: i32| {
            let mut run = run(file, 0, &one);
            settle(&mut run, result).map(|()| (run.position, run.length))
        };
        assert_eq!(left_by(4096), Ok((4096, 0)));
        assert_eq!(left_by(512), Ok((512, 3584)));
        assert_eq!(left_by(0), Ok((0, 4096)));
        for errno in [Errno::INTR, Errno::AGAIN, Errno::OPNOTSUPP] {
            assert_eq!(left_by(-errno.raw_os_error()), Ok((0, 4096)), "{errno}");
        }
        for errno in [Errno::IO, Errno::NOSPC, Errno::BADF, Errno::CANCELED] {
            assert_eq!(left_by(-errno.raw_os_error()), Err(errno));
        }
    });
}

#[test]
fn few_rings_are_kept_however_many_were_used_at_once() {
    with_rings(|_, _, rings| {
        let taken: Vec<_> = (0..3 * IDLE_MAX).filter_map(|_| rings.take()).collect();
        assert!(taken.len() > IDLE_MAX);
        taken.into_iter().for_each(|ring| rings.give_back(ring));
        assert_eq!(rings.0.lock().rings.len(), IDLE_MAX);
    });
}
