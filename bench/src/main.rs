//! Measures Týr beside RocksDB and what the bare disk can do, on one file system, in one run.
//!
//! `docs/benchmarks.md` says how to run it and how to read the figures.

mod bench;
mod load;
mod meter;
mod parts;
mod payload;
mod report;
mod scratch;
mod system;
mod systems;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;

use crate::{
    bench::Bench,
    parts::{
        Part,
        ten_million::{self, Step},
    },
    payload::Pool,
    report::Report,
    system::Outcome,
    systems::Family,
};

/// Measures Týr beside RocksDB and the bare disk, on one file system, in one run.
#[derive(Parser)]
struct Options {
    /// What to measure [default: all that is quick]
    parts: Vec<Part>,
    /// How long each contender runs in each round
    #[arg(long, default_value_t = 0.7, value_name = "SECONDS")]
    seconds: f64,
    /// Rounds per case; medians are over these
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// MiB of the data sets that are overwritten and read
    #[arg(long, default_value_t = 256, value_name = "MIB")]
    set: u64,
    /// Only cases whose name contains this, of the part `write`
    #[arg(long, default_value = "", value_name = "TEXT")]
    only: String,
    /// Which systems take part, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "bare,rocks,tyr")]
    systems: Vec<Family>,
    /// Directory on the file system to measure; what is made in it is removed again
    #[arg(long, default_value = "target/bench-scratch")]
    directory: PathBuf,
    /// Where the results go
    #[arg(long, default_value = "target/bench.json", value_name = "FILE")]
    json: PathBuf,
    #[command(flatten)]
    step: Step,
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Outcome<()> {
    if ten_million::run_step(&options.step, &options.systems)? {
        return Ok(());
    }
    let time = Duration::try_from_secs_f64(options.seconds)?;
    if options.rounds == 0 || options.set < 64 {
        return Err("take at least one round and a set of at least 64 MiB".into());
    }
    std::fs::create_dir_all(&options.directory)?;
    let mut bench = Bench {
        directory: options.directory.clone(),
        families: options.systems.clone(),
        time,
        rounds: options.rounds,
        set_size: options.set << 20,
        blobs: options.step.blobs,
        only: options.only.clone(),
        pool: Pool::new(),
        report: Report::default(),
    };
    describe(&mut bench.report, &options)?;
    let parts = if options.parts.is_empty() { Part::DEFAULT.to_vec() } else { options.parts };
    for part in parts {
        part.run(&mut bench)?;
    }
    bench.report.write(&options.json)
}

/// Prints the parameters and the machine, as figures mean nothing without them.
fn describe(report: &mut Report, options: &Options) -> Outcome<()> {
    let kernel = rustix::system::uname();
    report.parameter("kernel", kernel.release().to_string_lossy());
    report.parameter("cores", std::thread::available_parallelism()?);
    report.parameter("memory", format!("{} MiB", rustix::system::sysinfo().totalram >> 20));
    report.parameter("file system", file_system(&options.directory)?);
    report.parameter("systems", format!("{:?}", options.systems));
    report.parameter("time", format!("{} s per turn, median of {} rounds", options.seconds, options.rounds));
    report.parameter("set", format!("{} MiB", options.set));
    Ok(())
}

fn file_system(directory: &std::path::Path) -> Outcome<String> {
    let known: [(i64, _); 4] =
        [(0xef53, "ext4"), (0x5846_5342, "xfs"), (0x9123_683e, "btrfs"), (0x0102_1994, "tmpfs")];
    let found = rustix::fs::statfs(directory)?.f_type;
    let name = known.iter().find(|(magic, _)| *magic == found);
    Ok(name.map_or_else(|| format!("{found:#x}"), |(_, name)| (*name).to_owned()))
}
