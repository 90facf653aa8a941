//! Overwrites for a long time: how rate, disk in use, and memory change while it lasts.
//!
//! Here contenders do not take turns, for what one does of its own accord, such as compacting, would be done while it is the turn of others.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    case::Case,
    load::{Callers, Limit, Measured},
    meter,
    report::quotient,
    system::{Outcome, System},
    work::{Job, Role},
};

/// What a contender did in a long time.
#[derive(Serialize, Deserialize)]
pub struct Course {
    /// What was done.
    #[serde(flatten)]
    pub case: Case,
    /// Who did it, and how.
    pub system: String,
    /// Bytes that are live, in one copy.
    pub live: u64,
    /// Parts of the time, in order.
    pub slices: Vec<Slice>,
    /// By how much the rate changed from the beginning to the end, of a straight line through it; a part of the mean.
    pub slope: f64,
    /// The largest distance of a slice's rate from the mean; a part of the mean.
    pub deviation: f64,
}

/// A part of the time.
#[derive(Serialize, Deserialize)]
pub struct Slice {
    /// When it ended, from the beginning.
    pub seconds: f64,
    /// Operations per second.
    pub rate: f64,
    /// Half of the operations took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// Bytes on disk at its end.
    pub disk: u64,
    /// Bytes of the servers' memory at its end.
    pub memory: u64,
}

/// Has the callers work for this time, and looks at the system meanwhile.
pub async fn follow(
    job: &Job,
    callers: &mut Callers,
    system: &dyn System,
    time: Duration,
) -> Outcome<Vec<Slice>> {
    let part = time / slice_count(time);
    let (mut slices, mut seconds) = (Vec::new(), 0.0);
    for _ in 0..slice_count(time) {
        let measured = callers.run(job, &[Role::Any], Limit::Time(part), system.processes()).await?;
        let measured = measured.first().ok_or("nothing was measured")?;
        seconds += measured.cost.seconds;
        slices.push(Slice {
            seconds,
            rate: Measured::rate(measured),
            p50_us: measured.p50.as_secs_f64() * 1e6,
            p99_us: measured.p99.as_secs_f64() * 1e6,
            disk: disk_usage(&system.places())?,
            memory: meter::resident(&system.processes())?,
        });
    }
    Ok(slices)
}

impl Course {
    /// Judges how even it was.
    pub fn new(job: &Job, system: String, slices: Vec<Slice>) -> Self {
        let (slope, deviation) = evenness(&slices);
        Course { case: job.case, system, live: job.live_size(), slices, slope, deviation }
    }

    /// Prints every slice, and how even it was.
    pub fn print(&self) {
        println!("\n{}, {}: {:.0} MB are live", self.case.title(), self.system, mb(self.live));
        println!(
            "{:>8} {:>8} {:>9} {:>9} {:>9} {:>9}",
            "s", "op/s", "p50 us", "p99 us", "disk MB", "memory MB"
        );
        for slice in &self.slices {
            println!(
                "{:>8.2} {:>8.0} {:>9.1} {:>9.1} {:>9.0} {:>9.0}",
                slice.seconds,
                slice.rate,
                slice.p50_us,
                slice.p99_us,
                mb(slice.disk),
                mb(slice.memory)
            );
        }
        let disk = self.slices.iter().map(|slice| slice.disk).max().unwrap_or(0);
        println!(
            "    the rate changed by {:+.1} % from the beginning to the end, and was at most {:.1} % from its mean; disk at most {:.2} times \
             what is live in {} cop{}",
            self.slope * 100.0,
            self.deviation * 100.0,
            quotient(mb(disk), mb(self.live * u64::from(self.case.replicas))),
            self.case.replicas,
            if self.case.replicas == 1 { "y" } else { "ies" },
        );
    }
}

/// Slope over the whole time, by least squares, and the largest deviation: parts of the mean.
fn evenness(slices: &[Slice]) -> (f64, f64) {
    let mean = |value: &dyn Fn(&Slice) -> f64| quotient(slices.iter().map(value).sum(), slices.len() as f64);
    let (time, rate) = (mean(&|slice| slice.seconds), mean(&|slice| slice.rate));
    let covariance = mean(&|slice| (slice.seconds - time) * (slice.rate - rate));
    let variance = mean(&|slice| (slice.seconds - time).powi(2));
    let length = slices.last().map_or(0.0, |slice| slice.seconds);
    let farthest = slices.iter().map(|slice| (slice.rate - rate).abs()).fold(0.0, f64::max);
    (quotient(quotient(covariance, variance) * length, rate), quotient(farthest, rate))
}

/// One a minute, but at least ten.
fn slice_count(time: Duration) -> u32 {
    u32::try_from(time.as_secs() / 60).unwrap_or(u32::MAX).clamp(SLICES_MIN, SLICES_MAX)
}

/// Bytes that files below these directories take, each file once.
fn disk_usage(places: &[PathBuf]) -> Outcome<u64> {
    let mut seen = BTreeSet::new();
    let mut total = 0;
    for place in places {
        add_usage(place, &mut seen, &mut total)?;
    }
    Ok(total)
}

fn add_usage(path: &Path, seen: &mut BTreeSet<(u64, u64)>, total: &mut u64) -> Outcome<()> {
    // Files come and go while one looks.
    let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            add_usage(&entry.path(), seen, total)?;
        } else if seen.insert((metadata.dev(), metadata.ino())) {
            *total += metadata.blocks() * BLOCK_SIZE;
        }
    }
    Ok(())
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

const SLICES_MIN: u32 = 10;
const SLICES_MAX: u32 = 240;
/// The unit in which file systems tell how much a file takes.
const BLOCK_SIZE: u64 = 512;
