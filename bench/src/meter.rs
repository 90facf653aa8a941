//! What an interval cost this process: time, processor time, bytes handed to the disk.
//!
//! Bytes come from `/proc/self/io`: direct writes count when they are submitted, buffered ones when a page becomes dirty. The file
//! system's own journal is not in it, so it is a lower bound for every system alike. Reading it costs microseconds.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::system::Outcome;

/// A moment, with the counters as they were.
pub struct Meter {
    at: Instant,
    processor: Duration,
    machine: Duration,
    written: u64,
}

/// The difference between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time on the wall.
    pub seconds: f64,
    /// Processor time of all threads of the process, in user space and in the kernel.
    pub processor_seconds: f64,
    /// Processor time that the rest of the machine took: kernel threads that work for us, and whoever else disturbs us.
    pub other_seconds: f64,
    /// Bytes that the process caused to be written.
    pub written: u64,
}

impl Meter {
    /// Begins an interval.
    pub fn start() -> Outcome<Self> {
        Ok(Meter {
            at: Instant::now(),
            processor: processor_time(),
            machine: machine_time()?,
            written: written_bytes()?,
        })
    }

    /// The cost since the start.
    pub fn cost(&self) -> Outcome<Cost> {
        let processor = processor_time() - self.processor;
        let machine = machine_time()? - self.machine;
        Ok(Cost {
            seconds: self.at.elapsed().as_secs_f64(),
            processor_seconds: processor.as_secs_f64(),
            other_seconds: machine.saturating_sub(processor).as_secs_f64(),
            written: written_bytes()?.saturating_sub(self.written),
        })
    }
}

/// Bytes that the files in a directory and below it occupy on the disk.
pub fn disk_use(directory: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // A file may vanish between listing and looking: the system under test is running.
        let Ok(metadata) = entry.metadata() else { continue };
        total += if metadata.is_dir() { disk_use(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(total)
}

/// A value of `/proc/<process>/status` in bytes, for instance `VmHWM`.
pub fn memory(process: &str, field: &str) -> Outcome<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = field_of(&status, field).ok_or_else(|| format!("no field {field}"))?;
    Ok(kib * 1024)
}

/// Bytes that the process has caused to be written since it began.
pub fn written_bytes() -> Outcome<u64> {
    let counters = fs::read_to_string("/proc/self/io")?;
    field_of(&counters, "write_bytes").ok_or_else(|| "no write_bytes in /proc/self/io".into())
}

fn field_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Time that all processors of the machine were busy, in steps of 10 ms. Fields of `/proc/stat`: user, nice, system, idle, iowait,
/// irq, softirq, steal.
fn machine_time() -> Outcome<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let ticks = text.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let busy = ticks.enumerate().filter(|(field, _)| ![3, 4].contains(field));
    let busy: u64 = busy.filter_map(|(_, ticks)| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(busy * 10))
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
