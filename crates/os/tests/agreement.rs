//! The simulated disk behaves as the real one does, as long as nothing breaks: the same calls have the same results.

use std::{io, sync::Arc};

use tempfile::TempDir;
use tyr_env::{Access, BLOCK_SIZE, Blocks, Disk, File, Write};
use tyr_os::{IoMode, OsDisk, OsOptions};
use tyr_sim_env::SimDisk;

const NAMES: [&str; 5] = ["a", "b", "c", "lock", "x/y"];
const BLOCK: u64 = BLOCK_SIZE as u64;

/// A repeatable sequence of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn name(&mut self) -> &'static str {
        // Valid names are more fun.
        let index = if self.below(10) == 0 { self.below(5) } else { self.below(3) };
        NAMES[usize::try_from(index).expect("small")]
    }

    fn access(&mut self) -> Access {
        [Access::Read, Access::Write, Access::Create][usize::try_from(self.below(3)).expect("small")]
    }

    /// Mostly a block's position.
    fn position(&mut self) -> u64 {
        let position = self.below(12) * BLOCK;
        if self.below(10) == 0 { position + self.below(BLOCK) } else { position }
    }

    /// Whole blocks, now and then not aligned.
    fn blocks<'a>(&mut self, memory: &'a mut Blocks) -> &'a [u8] {
        let byte = u8::try_from(self.below(256)).expect("a byte");
        memory.as_bytes_mut().fill(byte);
        let length = usize::try_from(self.below(4)).expect("small") * BLOCK_SIZE;
        let start = if self.below(20) == 0 { 512 } else { 0 };
        &memory.as_bytes()[start..start + length]
    }
}

/// The same thing done to a simulated and a real disk.
struct Pair<T: ?Sized>(Arc<T>, Arc<T>);

/// What a call returned, as far as both disks should agree.
fn outcome<T>(result: io::Result<T>) -> Result<T, io::ErrorKind> {
    result.map_err(|error| error.kind())
}

fn sorted_names(disk: &dyn Disk) -> Vec<String> {
    let mut names = disk.names().expect("lists");
    names.sort();
    names
}

/// Reads from both into memory of the same alignment.
fn compare_reads(file: &Pair<dyn File>, numbers: &mut Numbers, what: &str) {
    let position = numbers.below(14 * BLOCK);
    let length = usize::try_from(numbers.below(3 * BLOCK)).expect("small");
    let [mut one, mut two] = [vec![0; length], vec![0; length]];
    let results = [outcome(file.0.read_at(position, &mut one)), outcome(file.1.read_at(position, &mut two))];
    assert_eq!(results[0], results[1], "{what}: read of {length} bytes at {position}");
    assert!(results[0].is_err() || one == two, "{what}: content of {length} bytes at {position}");
}

fn compare_files(file: &Pair<dyn File>, disks: &Pair<dyn Disk>, numbers: &mut Numbers, what: &str) {
    let mut memory = Blocks::zeroed(5 * BLOCK_SIZE);
    let position = numbers.position();
    let results = match numbers.below(6) {
        0 => [&file.0, &file.1].map(|file| outcome(file.sync())),
        1 => [&file.0, &file.1].map(|file| outcome(file.reserve(position))),
        2 | 3 => {
            let bytes = numbers.blocks(&mut memory);
            [&file.0, &file.1].map(|file| outcome(file.write_at(position, bytes)))
        }
        _ => {
            let bytes = numbers.blocks(&mut memory);
            let other = numbers.below(12) * BLOCK;
            [(&file.0, &disks.0), (&file.1, &disks.1)].map(|(file, disk)| {
                let write = Write { file: &**file, position, bytes };
                // Overlapping writes have no defined order, so both are of the same bytes.
                outcome(disk.write_durably(&[write, Write { position: other, ..write }]))
            })
        }
    };
    assert_eq!(results[0], results[1], "{what}: at {position}");
    assert_eq!(outcome(file.0.length()), outcome(file.1.length()), "{what}: length after {results:?}");
    compare_reads(file, numbers, what);
}

fn compare(disks: &Pair<dyn Disk>, seed: u64) {
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let mut files: Vec<Pair<dyn File>> = Vec::new();
    for step in 0..400 {
        let what = format!("{}, seed {seed}, step {step}", disks.1.describe());
        let (name, other) = (numbers.name(), numbers.name());
        match numbers.below(12) {
            0..=2 => {
                let access = numbers.access();
                match (disks.0.open(name, access), disks.1.open(name, access)) {
                    (Ok(one), Ok(two)) => files.push(Pair(one, two)),
                    (one, two) => {
                        let kinds = [one, two].map(|result| result.err().map(|error| error.kind()));
                        assert_eq!(kinds[0], kinds[1], "{what}: open '{name}' {access:?}");
                    }
                }
            }
            3 => {
                let results = [&disks.0, &disks.1].map(|disk| outcome(disk.rename(name, other)));
                assert_eq!(results[0], results[1], "{what}: rename '{name}' to '{other}'");
            }
            4 if numbers.below(3) == 0 => {
                let results = [&disks.0, &disks.1].map(|disk| outcome(disk.remove(name)));
                assert_eq!(results[0], results[1], "{what}: remove '{name}'");
            }
            5 => [&disks.0, &disks.1].iter().for_each(|disk| disk.sync_names().expect("syncs")),
            6 if files.len() > 3 => drop(files.remove(0)),
            _ if !files.is_empty() => {
                let index = usize::try_from(numbers.below(files.len() as u64)).expect("small");
                compare_files(&files[index], disks, &mut numbers, &what);
            }
            _ => {}
        }
        assert_eq!(sorted_names(&*disks.0), sorted_names(&*disks.1), "{what}");
    }
    assert!(files.len() > 1, "the test opens files");
}

#[test]
fn the_simulated_disk_and_the_real_one_have_the_same_results() {
    for io in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
        for seed in 1..8 {
            let directory = TempDir::new().expect("a temporary directory");
            match OsDisk::open(directory.path(), OsOptions { create: false, io }) {
                Ok(real) => compare(&Pair(SimDisk::new(seed), real), seed),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{io:?}"),
            }
        }
    }
}
