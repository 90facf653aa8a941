use std::path::Path;

use tyr_env::{Access, Disk};

use super::*;
use crate::testing::{block, disks, next, open, pattern};

fn assert_reads(
    file: &dyn File,
    model: &[u8],
    position: usize,
    length: usize,
    shift: usize,
    memory: &mut [u8],
) {
    let buffer = &mut memory[shift..shift + length];
    buffer.fill(0xa5);
    let result = file.read_at(position as u64, buffer);
    if position + length > model.len() {
        assert_eq!(result.expect_err("past the end").kind(), io::ErrorKind::UnexpectedEof);
        return buffer.fill(0);
    }
    result.expect("within the file");
    assert!(*buffer == model[position..position + length], "{length} bytes at {position} to shift {shift}");
    buffer.fill(0);
    assert!(
        memory[shift + length..].iter().take(BLOCK_SIZE).all(|byte| *byte == 0),
        "memory behind is untouched"
    );
}

#[test]
fn reads_of_any_alignment_agree_with_a_model() {
    let content = pattern(1, 3 << 20);
    let model = content.as_bytes();
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        file.write_at(0, model).expect("writes");
        let mut memory = Blocks::zeroed(model.len() + 2 * BLOCK_SIZE);
        let mut assert_reads = |position, length, shift| {
            assert_reads(&*file, model, position, length, shift, memory.as_bytes_mut());
        };
        let edges =
            [0, 1, 511, 512, 4095, 4096, 4097, 8192, 12_288, BOUNCE_SIZE_MAX - 1, BOUNCE_SIZE_MAX + 1];
        for position in edges {
            for length in edges {
                assert_reads(position, length, 0);
                assert_reads(position, length, 512);
                assert_reads(position, length, 1);
            }
        }
        assert_reads(0, model.len(), 0);
        assert_reads(1, model.len() - 1, 3);
        assert_reads(1, model.len(), 0);
        let mut state = 7;
        for _ in 0..300 {
            let mut below = |bound: usize| usize::try_from(next(&mut state)).expect("64 bits") % bound;
            let (position, size) = (below(model.len()), 1 << below(22));
            assert_reads(position, below(size), below(BLOCK_SIZE));
        }
    }
}

#[test]
fn many_threads_read_one_file() {
    let content = pattern(2, 256 << 10);
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        file.write_at(0, content.as_bytes()).expect("writes");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (file, content) = (&file, content.as_bytes());
                scope.spawn(move || {
                    let mut buffer = vec![0; 5000];
                    for position in (thread..content.len() - buffer.len()).step_by(9973) {
                        file.read_at(position as u64, &mut buffer).expect("reads");
                        assert!(buffer == content[position..position + buffer.len()]);
                    }
                });
            }
        });
    }
}

/// Cuts the file to a length that is not one of whole blocks, as only damage does.
fn cut(directory: &Path, name: &str, length: u64) {
    let file = std::fs::File::options().write(true).open(directory.join(name)).expect("opens");
    file.set_len(length).expect("cuts");
}

#[test]
fn a_file_that_ends_inside_a_block_is_read_up_to_its_end() {
    let content = pattern(3, 3 * BLOCK_SIZE);
    for (directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        file.write_at(0, content.as_bytes()).expect("writes");
        let length = 2 * BLOCK_SIZE + 100;
        cut(directory.path(), "a", length as u64);
        let model = &content.as_bytes()[..length];
        assert_eq!(file.length().expect("has one"), length as u64);
        let mut memory = Blocks::zeroed(4 * BLOCK_SIZE);
        for position in [0, 1, BLOCK_SIZE, 2 * BLOCK_SIZE, 2 * BLOCK_SIZE + 1, 2 * BLOCK_SIZE + 99, length] {
            for end in [length - 1, length, length + 1, 3 * BLOCK_SIZE] {
                for shift in [0, 8] {
                    let wanted = end.saturating_sub(position);
                    assert_reads(&*file, model, position, wanted, shift, memory.as_bytes_mut());
                }
            }
        }
        file.reserve(3 * BLOCK_SIZE as u64).expect("reserves");
        let mut model = model.to_vec();
        model.resize(3 * BLOCK_SIZE, 0);
        assert_reads(&*file, &model, 0, 3 * BLOCK_SIZE, 0, memory.as_bytes_mut());
    }
}

#[test]
fn a_read_past_the_end_says_where_the_file_ends() {
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        file.write_at(0, block(1).as_bytes()).expect("writes");
        for position in [4095, 4096, 5000, 1 << 40, i64::MAX as u64, u64::MAX] {
            let error = file.read_at(position, &mut [0; 2]).expect_err("past the end");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
            assert!(error.to_string().contains("the end of 'a' at byte 4096"), "{position}: {error}");
        }
        file.read_at(5000, &mut []).expect("nothing is everywhere");
    }
}

#[test]
fn reserved_space_reads_as_zeros_and_keeps_what_was_there() {
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        file.reserve(0).expect("reserves nothing");
        assert_eq!(file.length().expect("has one"), 0);
        file.write_at(0, block(1).as_bytes()).expect("writes");
        file.reserve(3 * BLOCK_SIZE as u64 - 1).expect("reserves");
        file.reserve(1).expect("has more than that");
        assert_eq!(file.length().expect("has one"), 3 * BLOCK_SIZE as u64);
        let mut model = vec![0; 3 * BLOCK_SIZE];
        model[..BLOCK_SIZE].fill(1);
        let mut memory = Blocks::zeroed(3 * BLOCK_SIZE);
        assert_reads(&*file, &model, 0, model.len(), 0, memory.as_bytes_mut());
        assert!(file.reserve(u64::MAX).is_err());
    }
}

#[test]
fn where_space_cannot_be_reserved_zeros_are_written() {
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        file.write_at(0, block(1).as_bytes()).expect("writes");
        let length = 2 * ZEROS_SIZE + BLOCK_SIZE;
        let file = file.as_any().downcast_ref::<OsFile>().expect("our own");
        file.reserve_by_writing(length as u64).expect("writes");
        file.reserve_by_writing(BLOCK_SIZE as u64).expect("has more than that");
        let mut model = vec![0; length];
        model[..BLOCK_SIZE].fill(1);
        let mut memory = Blocks::zeroed(length);
        assert_reads(file, &model, 0, length, 0, memory.as_bytes_mut());
        assert_eq!(file.length().expect("has one"), length as u64);
    }
}

#[test]
fn only_whole_aligned_blocks_are_written() {
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        let two = pattern(4, 2 * BLOCK_SIZE);
        let bytes = two.as_bytes();
        for (position, bytes) in [
            (1, &bytes[..BLOCK_SIZE]),
            (512, &bytes[..BLOCK_SIZE]),
            (0, &bytes[..BLOCK_SIZE - 1]),
            (0, &bytes[512..512 + BLOCK_SIZE]),
            (LENGTH_MAX + 1 - BLOCK_SIZE as u64, &bytes[..BLOCK_SIZE]),
            (u64::MAX - 4095, bytes),
        ] {
            let error = file.write_at(position, bytes).expect_err("not whole blocks");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(file.length().expect("has one"), 0);
        file.write_at(BLOCK_SIZE as u64, &[]).expect("nothing to write");
    }
}

#[test]
fn a_file_opened_for_reading_refuses_writes() {
    for (_directory, disk) in disks() {
        disk.open("a", Access::Create).expect("creates").write_at(0, block(1).as_bytes()).expect("writes");
        let file = disk.open("a", Access::Read).expect("opens");
        let denied = |result: io::Result<()>| {
            assert_eq!(result.expect_err("refused").kind(), io::ErrorKind::PermissionDenied);
        };
        denied(file.write_at(0, block(2).as_bytes()));
        denied(file.reserve(8192));
        denied(disk.write_durably(&[tyr_env::Write {
            file: &*file,
            position: 0,
            bytes: block(2).as_bytes(),
        }]));
        let mut byte = [0];
        file.read_at(4095, &mut byte).expect("reads");
        assert_eq!(byte, [1]);
    }
}

#[test]
fn what_one_mode_wrote_another_reads() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    for (index, mode) in crate::testing::MODES.into_iter().enumerate() {
        let Ok(disk) = open(directory.path(), mode) else { continue };
        let name = index.to_string();
        let file = disk.open(&name, Access::Create).expect("creates");
        file.write_at(0, pattern(index as u64, 8192).as_bytes()).expect("writes");
        for (index, name) in disk.names().expect("lists").iter().map(|name| (name.parse::<u64>(), name)) {
            let mut bytes = [0; 8000];
            disk.open(name, Access::Read).expect("opens").read_at(192, &mut bytes).expect("reads");
            assert!(bytes == pattern(index.expect("a number"), 8192).as_bytes()[192..]);
        }
    }
}
