use std::sync::Arc;

use tyr_env::{Access, BLOCK_SIZE, Blocks, Disk, File};

use super::*;
use crate::testing::{disks, pattern};

const BLOCK: u64 = BLOCK_SIZE as u64;

fn write<'a>(file: &'a Arc<dyn File>, block: u64, bytes: &'a [u8]) -> Write<'a> {
    Write { file: &**file, position: block * BLOCK, bytes }
}

#[test]
fn adjacent_writes_of_one_file_are_joined() {
    let (_directory, disk) = disks().remove(0);
    let [a, b] = ["a", "b"].map(|name| disk.open(name, Access::Create).expect("creates"));
    let bytes = pattern(1, 3 * BLOCK_SIZE);
    let (one, two) = (&bytes.as_bytes()[..BLOCK_SIZE], &bytes.as_bytes()[BLOCK_SIZE..]);
    let writes = [
        write(&a, 0, one),
        write(&a, 1, two),
        write(&a, 3, &[]),
        write(&a, 3, one),
        write(&b, 4, one),
        write(&a, 4, one),
        write(&a, 6, one),
    ];
    let runs = plan_runs(&writes).expect("valid");
    let shapes: Vec<_> = runs.iter().map(|run| (&*run.file.name, run.position / BLOCK, run.length)).collect();
    let expected = [("a", 0, 4), ("b", 4, 1), ("a", 4, 1), ("a", 6, 1)];
    assert_eq!(shapes, expected.map(|(name, block, blocks)| (name, block, blocks * BLOCK_SIZE)));
    assert_eq!(runs[0].slices.len(), 3);
}

#[test]
fn a_run_has_no_more_slices_than_one_call_takes() {
    let (_directory, disk) = disks().remove(0);
    let file = disk.open("a", Access::Create).expect("creates");
    let bytes = Blocks::zeroed(BLOCK_SIZE);
    let writes: Vec<_> = (0..1500).map(|block| write(&file, block, bytes.as_bytes())).collect();
    let runs = plan_runs(&writes).expect("valid");
    assert_eq!(runs.iter().map(|run| run.slices.len()).collect::<Vec<_>>(), [1024, 476]);
    disk.write_durably(&writes).expect("writes");
    assert_eq!(file.length().expect("has one"), 1500 * BLOCK);
}

#[test]
fn a_run_that_was_cut_short_goes_on_where_it_stopped() {
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        let bytes = pattern(5, 6 * BLOCK_SIZE);
        let parts: Vec<_> = bytes.as_bytes().chunks(2 * BLOCK_SIZE).collect();
        let writes: Vec<_> =
            (0u64..).step_by(2).zip(&parts).map(|(block, part)| write(&file, block, part)).collect();
        for done in 0..=6 {
            let mut runs = plan_runs(&writes).expect("valid");
            file.write_at(0, Blocks::zeroed(bytes.len()).as_bytes()).expect("writes");
            runs[0].advance(done * BLOCK_SIZE);
            runs[0].write().expect("writes");
            let mut read = vec![0; bytes.len()];
            file.read_at(0, &mut read).expect("reads");
            assert!(read[..done * BLOCK_SIZE].iter().all(|byte| *byte == 0), "was not written again");
            assert!(read[done * BLOCK_SIZE..] == bytes.as_bytes()[done * BLOCK_SIZE..]);
        }
    }
}

#[test]
fn where_durable_writes_are_refused_a_sync_follows() {
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        let bytes = pattern(6, 4 * BLOCK_SIZE);
        let ours = file.as_any().downcast_ref::<OsFile>().expect("our own");
        assert!(!ours.durable_writes.refuses(Errno::IO) && !ours.durable_writes.are_refused());
        assert!(ours.durable_writes.refuses(Errno::OPNOTSUPP) && ours.durable_writes.are_refused());
        disk.write_durably(&[write(&file, 0, bytes.as_bytes())]).expect("writes");
        let mut read = vec![0; bytes.len()];
        file.read_at(0, &mut read).expect("reads");
        assert!(read == bytes.as_bytes());
    }
}
