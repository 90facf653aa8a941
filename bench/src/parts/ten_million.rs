//! Ten million blobs of 100 bytes: how fast they load, what they take in memory and on disk, how long opening takes after a clean
//! stop and after a kill.
//!
//! Each step runs in a process of its own, this program started again, so that memory is that of the step and a kill is a kill.
//! Every acknowledged put is durable; a hundred are one transaction.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use clap::Args;

use crate::{
    bench::Bench,
    load::{self, Limit},
    meter::{disk_use, memory},
    payload::Pool,
    report::Fact,
    scratch::Scratch,
    system::{Durability, Outcome, Setting, System, Temperature},
    systems::Family,
};

const BLOB_SIZE: usize = 100;
const BATCH: u64 = 100;
const WRITERS: usize = 16;
/// Blobs that are read to check that an opened store has its content.
const SAMPLES: u64 = 1000;
/// Blobs put before the kill, of a hundred loaded ones.
const PUT_BEFORE_KILL_PERCENT: u64 = 10;

/// One step, in a process of its own.
#[derive(Args)]
pub struct Step {
    #[arg(long, hide = true)]
    step: Option<StepKind>,
    #[arg(long, hide = true, requires = "step")]
    store: Option<PathBuf>,
    /// Blobs that ten-million loads
    #[arg(long, default_value_t = 10_000_000)]
    pub blobs: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StepKind {
    Load,
    Open,
    Kill,
}

/// Measures.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    for family in [Family::Rocks, Family::Tyr] {
        if bench.families.contains(&family) {
            run_family(bench, family)?;
        }
    }
    Ok(())
}

fn run_family(bench: &mut Bench, family: Family) -> Outcome<()> {
    println!("\nten-million, {} blobs of {BLOB_SIZE} B", bench.blobs);
    let scratch = Scratch::new(&bench.directory)?;
    step(bench, family, scratch.path(), StepKind::Load, "load")?;
    step(bench, family, scratch.path(), StepKind::Open, "open after a clean stop")?;
    step(bench, family, scratch.path(), StepKind::Kill, "puts until the kill")?;
    step(bench, family, scratch.path(), StepKind::Open, "open after a kill")
}

/// Starts a step and takes over the figures that it prints: `value unit name`.
fn step(bench: &mut Bench, family: Family, store: &Path, kind: StepKind, title: &str) -> Outcome<()> {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--step")
        .arg(name(&|| clap::ValueEnum::to_possible_value(&kind)))
        .arg("--systems")
        .arg(name(&|| clap::ValueEnum::to_possible_value(&family)))
        .arg("--store")
        .arg(store)
        .arg("--blobs")
        .arg(bench.blobs.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("the step has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        let Some((value, unit, name)) = fact(&line) else { continue };
        bench.report.fact(Fact::new(family.name(), &format!("{title}: {name}"), value, unit));
        if kind == StepKind::Kill {
            child.kill()?;
        }
    }
    let status = child.wait()?;
    if status.success() || kind == StepKind::Kill {
        return Ok(());
    }
    Err(format!("{title} of {} ended with {status}", family.name()).into())
}

fn fact(line: &str) -> Option<(f64, &str, &str)> {
    let mut words = line.splitn(3, ' ');
    let value = words.next()?.parse().ok()?;
    Some((value, words.next()?, words.next()?))
}

/// Runs a step in this process, if the options ask for one.
pub fn run_step(step: &Step, families: &[Family]) -> Outcome<bool> {
    let (Some(kind), Some(store), [family]) = (step.step, &step.store, families) else { return Ok(false) };
    let setting =
        Setting { directory: store.clone(), durability: Durability::Disk, temperature: Temperature::Usual };
    let start = Instant::now();
    let system = family.store().open(&setting)?;
    let opening = start.elapsed();
    match kind {
        StepKind::Load => load_all(system, step.blobs, store)?,
        StepKind::Open => look_around(system, step.blobs, opening)?,
        StepKind::Kill => put_for_ever(&*system, step.blobs)?,
    }
    Ok(true)
}

fn load_all(system: Box<dyn System>, blobs: u64, store: &Path) -> Outcome<()> {
    let pool = Pool::new();
    let measured = load::run(WRITERS, Limit::Operations(blobs / BATCH), |caller| {
        put_batch(&*system, pool, caller.turn * BATCH, &mut caller.rng)
    })?;
    println!("{} blobs/s rate", measured.rate() * BATCH as f64);
    println!("{} us/blob processor time", measured.processor_us() / BATCH as f64);
    println!("{} MB peak memory", megabytes(memory("self", "VmHWM")?));
    let start = Instant::now();
    system.settle()?;
    println!("{} s background work that followed", start.elapsed().as_secs_f64());
    let start = Instant::now();
    system.close()?;
    println!("{} s clean stop", start.elapsed().as_secs_f64());
    println!("{} MB disk use", megabytes(disk_use(store)?));
    Ok(())
}

fn look_around(system: Box<dyn System>, blobs: u64, opening: Duration) -> Outcome<()> {
    println!("{} s time", opening.as_secs_f64());
    println!("{} MB peak memory after opening", megabytes(memory("self", "VmHWM")?));
    let mut rng = fastrand::Rng::with_seed(3);
    let start = Instant::now();
    for _ in 0..SAMPLES {
        system.get(rng.u64(..blobs / BATCH * BATCH), &mut [0; BLOB_SIZE])?;
    }
    println!("{} us mean of {SAMPLES} first reads", start.elapsed().as_secs_f64() * 1e6 / SAMPLES as f64);
    system.close()
}

/// Says so when enough has been put, and goes on until it is killed.
fn put_for_ever(system: &dyn System, blobs: u64) -> Outcome<()> {
    let pool = Pool::new();
    let start = Instant::now();
    let enough = blobs * PUT_BEFORE_KILL_PERCENT / 100 / BATCH;
    let told = AtomicBool::new(false);
    load::run(WRITERS, Limit::Operations(u64::MAX), |caller| {
        let bytes = put_batch(system, pool, blobs + caller.turn * BATCH, &mut caller.rng)?;
        if caller.turn >= enough && !told.swap(true, Ordering::Relaxed) {
            println!("{} s time", start.elapsed().as_secs_f64());
        }
        Ok(bytes)
    })?;
    Ok(())
}

fn put_batch(system: &dyn System, pool: Pool, first: u64, rng: &mut fastrand::Rng) -> Outcome<u64> {
    let payloads: Vec<_> = (0..BATCH).map(|_| pool.take(BLOB_SIZE, rng)).collect();
    system.put_many(first, &payloads)?;
    Ok(BATCH * BLOB_SIZE as u64)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
