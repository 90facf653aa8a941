//! A loop over a file that was written before, past the page cache: what the disk and the file system can do. Nothing is found by name.
//!
//! A thread for each operation in flight writes with `O_DSYNC`, so that a write has returned when it is durable, or reads; at multiples of
//! 4 KiB, as direct I/O demands. What is smaller is rounded up, but counted as it is.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use crate::{
    case::Case,
    load::{Calls, Measured},
    meter::Meter,
    payload,
    scratch::Scratch,
    system::{Bound, Doing, Lane, Manner, Outcome, System},
    work::{Job, Work},
};

/// The file.
pub struct Device {
    file: Arc<File>,
    directory: PathBuf,
    size: u64,
}

impl Device {
    /// Writes the file once, so that later writes find their blocks there.
    pub fn start(size: u64, scratch: &Scratch) -> Outcome<Self> {
        let directory = scratch.directory("device")?;
        let flags = (OFlags::DIRECT | OFlags::DSYNC).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).custom_flags(flags);
        let file = options.open(directory.join("blocks"))?;
        let mut bytes = vec![0; PIECE_SIZE + BLOCK_SIZE];
        let piece = payload::aligned(&mut bytes, PIECE_SIZE);
        fastrand::Rng::with_seed(5).fill(piece);
        for offset in (0..size).step_by(PIECE_SIZE) {
            file.write_all_at(piece, offset)?;
        }
        Ok(Device { file: Arc::new(file), directory, size: size.next_multiple_of(PIECE_SIZE as u64) })
    }
}

impl System for Device {
    fn name(&self) -> &'static str {
        "device"
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        match case.work {
            Work::Write | Work::Get | Work::Read | Work::Patch => vec![Manner::Usual],
            _ => Vec::new(),
        }
    }

    fn connect(&self, _manner: Manner, _clients: usize, _lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn bound(&self) -> Option<&dyn Bound> {
        Some(self)
    }
}

impl Bound for Device {
    fn run(&self, job: &Job, time: Duration) -> Doing<'_, Measured> {
        let job = *job;
        Box::pin(async move {
            let meter = Meter::start(Vec::new())?;
            let spawn = |index| {
                let (file, size) = (self.file.clone(), self.size);
                thread::spawn(move || repeat(&file, size, job, index, time))
            };
            let threads: Vec<_> = (0..job.case.in_flight as u64).map(spawn).collect();
            // Nothing else runs here meanwhile, but a signal is to be heard.
            while !threads.iter().all(thread::JoinHandle::is_finished) {
                tokio::time::sleep(GLANCE).await;
            }
            let mut calls = Calls::default();
            for thread in threads {
                calls.add(thread.join().map_err(|_| "a thread of the loop has panicked")??);
            }
            let operations = calls.latencies.len() as u64;
            let mut cost = meter.cost()?;
            cost.seconds = cost.seconds.min(time.as_secs_f64());
            Ok(calls.summarize(cost, operations))
        })
    }
}

/// The loop of a thread.
fn repeat(file: &File, file_size: u64, job: Job, index: u64, time: Duration) -> std::io::Result<Calls> {
    let size = job.case.bytes();
    let room = size.next_multiple_of(BLOCK_SIZE);
    let mut bytes = vec![0; room + BLOCK_SIZE];
    let buffer = payload::aligned(&mut bytes, room);
    let mut rng = fastrand::Rng::with_seed(index + 1);
    rng.fill(buffer);
    let places = (file_size - room as u64) / BLOCK_SIZE as u64;
    let mut calls = Calls::default();
    let start = Instant::now();
    let mut before = start;
    while before - start < time {
        let offset = rng.u64(..=places) * BLOCK_SIZE as u64;
        match job.case.work {
            Work::Get | Work::Read => file.read_exact_at(buffer, offset)?,
            _ => file.write_all_at(buffer, offset)?,
        }
        let after = Instant::now();
        calls.note(size as u64, after - before);
        before = after;
    }
    Ok(calls)
}

const PIECE_SIZE: usize = 4 << 20;
const BLOCK_SIZE: usize = 4 << 10;
const GLANCE: Duration = Duration::from_millis(1);
