//! What durable writes cost on the file system that holds a directory:
//!
//! `cargo bench -p tyr-os --bench durable_writes -- [DIRECTORY] [SECONDS]`
//!
//! Two questions that decide how a log is laid out: what is a batch worth over one write at a time, in each mode, and how much
//! slower is it to write into space that was only reserved than into blocks that were written before. Alternatives take
//! turns write by write, so that a change in the machine's load meets all of them. Medians, in microseconds.

#![allow(clippy::print_stdout, reason = "the figures are the purpose")]

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tyr_env::{Access, Blocks, Disk, File, Write};
use tyr_os::{IoMode, OsDisk, OsOptions};

const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
const BATCHES: [usize; 5] = [1, 2, 4, 8, 16];
const MODES: [IoMode; 3] = [IoMode::DirectRing, IoMode::Direct, IoMode::Buffered];
/// Bytes of each file that is written to.
const FILE_SIZE: usize = 64 << 20;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(2.0);
    let directory = tempfile::TempDir::new_in(directory)?;
    println!(
        "directory {}, {seconds} s for each line, files of {FILE_SIZE} bytes",
        directory.path().display()
    );
    let time = Duration::from_secs_f64(seconds);
    measure_batches(directory.path(), time)?;
    measure_reserved(directory.path(), time)
}

fn open(path: &Path, io: IoMode) -> io::Result<Arc<OsDisk>> {
    OsDisk::open(path, OsOptions { create: true, io })
}

/// Files whose blocks have all been written.
fn written_files(disk: &OsDisk, count: usize) -> io::Result<Vec<Arc<dyn File>>> {
    let ones = Blocks::zeroed(FILE_SIZE);
    (0..count)
        .map(|index| {
            let file = disk.open(&index.to_string(), Access::Create)?;
            file.reserve(FILE_SIZE as u64)?;
            file.write_at(0, ones.as_bytes())?;
            file.sync()?;
            Ok(file)
        })
        .collect()
}

/// Batches of writes, each to a file of its own.
fn measure_batches(directory: &Path, time: Duration) -> io::Result<()> {
    let mut disks = Vec::new();
    for mode in MODES {
        match open(&directory.join(format!("{mode:?}")), mode) {
            Ok(disk) => disks.push((mode, written_files(&disk, BATCHES[BATCHES.len() - 1])?, disk)),
            Err(error) => println!("{mode:?}: {error}"),
        }
    }
    for size in SIZES {
        for batch in BATCHES {
            let blocks = Blocks::zeroed(size);
            let mut times = vec![Vec::new(); disks.len()];
            let start = Instant::now();
            for position in (0..FILE_SIZE).step_by(size).cycle() {
                for ((_, files, disk), times) in disks.iter().zip(&mut times) {
                    let write = |file| Write { file, position: position as u64, bytes: blocks.as_bytes() };
                    let writes: Vec<_> = files[..batch].iter().map(|file| write(&**file)).collect();
                    times.push(timed(|| disk.write_durably(&writes))?);
                }
                if start.elapsed() > time {
                    break;
                }
            }
            let medians =
                disks.iter().zip(&mut times).map(|((mode, ..), times)| (format!("{mode:?}"), median(times)));
            print_line(&format!("{batch:2} x {size:7} bytes"), medians);
        }
    }
    Ok(())
}

/// Single writes into space that was reserved, and into blocks that were written.
fn measure_reserved(directory: &Path, time: Duration) -> io::Result<()> {
    let disk = open(&directory.join("reserved"), IoMode::Auto)?;
    let written = written_files(&disk, 1)?.remove(0);
    for size in SIZES {
        let blocks = Blocks::zeroed(size);
        let mut times = [Vec::new(), Vec::new()];
        let start = Instant::now();
        while start.elapsed() < time {
            let reserved = disk.open("fresh", Access::Create)?;
            reserved.reserve(FILE_SIZE as u64)?;
            reserved.sync()?;
            // Each block of it can be fresh only once.
            for position in (0..FILE_SIZE).step_by(size).take_while(|_| start.elapsed() < time) {
                for (file, times) in [&reserved, &written].into_iter().zip(&mut times) {
                    let write = Write { file: &**file, position: position as u64, bytes: blocks.as_bytes() };
                    times.push(timed(|| disk.write_durably(&[write]))?);
                }
            }
            disk.remove("fresh")?;
        }
        let [reserved, written] = &mut times;
        print_line(
            &format!(" 1 x {size:7} bytes"),
            [("reserved".into(), median(reserved)), ("written".into(), median(written))].into_iter(),
        );
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn print_line(what: &str, medians: impl Iterator<Item = (String, Duration)>) {
    let columns: Vec<_> =
        medians.map(|(name, time)| format!("{name} {:7.1}", time.as_secs_f64() * 1e6)).collect();
    println!("{what}: {}", columns.join("  "));
}
