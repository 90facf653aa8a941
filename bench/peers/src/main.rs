//! Compares a cluster of Týr with other systems: all of them on this machine, in turns, in one run.
//!
//! `docs/benchmarks.md` says how to run it and how to read the figures.

mod aims;
mod case;
mod comparison;
mod course;
mod load;
mod meter;
mod payload;
mod plot;
mod process;
mod report;
mod scratch;
mod system;
mod systems;
mod work;

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    task::LocalSet,
};

use crate::{
    case::{Case, Durability, Ranges},
    comparison::Comparison,
    payload::Pool,
    report::Report,
    scratch::Scratch,
    system::{Outcome, System},
    systems::{Peer, Setting},
    work::Work,
};

/// Compares a cluster of Týr with other systems: all of them on this machine, in turns, in one run.
#[derive(Parser)]
struct Options {
    /// What to do, separated by commas [default: everything]
    #[arg(long, value_delimiter = ',', value_name = "WORK")]
    work: Vec<Work>,
    /// With what Týr is compared, separated by commas [default: everything but minio]
    #[arg(long, value_delimiter = ',', value_name = "PEER")]
    peers: Vec<Peer>,
    /// Run Týr alone, for instance to look at it with a profiler
    #[arg(long, conflicts_with = "peers")]
    alone: bool,
    /// Only the cases for which it was said how fast Týr should be
    #[arg(long)]
    aims: bool,
    /// Bytes of an operation, separated by commas, each with KiB or MiB; for write, get, and read
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SIZE",
        value_parser = parse_size,
        default_value = "800,4KiB,64KiB,100KiB,1MiB,4MiB"
    )]
    size: Vec<usize>,
    /// Operations under way at a time, separated by commas; for write, get, read, and patch
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "1,16,64")]
    in_flight: Vec<usize>,
    /// Clients, separated by commas, each with one operation at a time; for append, counter, transfers, batch, and shared
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "8,64")]
    clients: Vec<usize>,
    /// Blobs that are appended to, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "1,8")]
    blobs: Vec<u64>,
    /// Blobs of a transaction, separated by commas; for transfers and batch
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "2,4,16")]
    span: Vec<u64>,
    /// Of 100 callers of mixed, those that read, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", default_value = "95,50,5")]
    readers: Vec<usize>,
    /// When operations are acknowledged, separated by commas [default: disk; without --work also memory, for write, get, and read]
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    durability: Vec<Durability>,
    /// Copies of everything, separated by commas; systems that keep one copy are compared with one
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "1,3")]
    replicas: Vec<u32>,
    /// How long each contender runs in each round
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,
    /// How long each contender runs before its first round, unmeasured: caches are as full then as they get in that time
    #[arg(long, default_value_t = 0.3, value_name = "SECONDS")]
    warm_up: f64,
    /// Rounds per case; medians are over these
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// MiB of each data set
    #[arg(long, default_value_t = 256, value_name = "MIB")]
    set: u64,
    /// Threads of each server of Týr that work on partitions; a third of the processors of this machine if it is not said
    #[arg(long, default_value_t = a_third_of_processors(), value_name = "COUNT")]
    shards: u32,
    /// Partitions of Týr, and placement groups of RADOS
    #[arg(long, default_value_t = 32, value_name = "COUNT")]
    partitions: u32,
    /// The tyr command
    #[arg(long, default_value = "target/release/tyr", value_name = "FILE")]
    tyr: PathBuf,
    /// Directory on the file system to measure; what is made in it is removed again
    #[arg(long, default_value = "target/bench-scratch")]
    directory: PathBuf,
    /// Where the results go
    #[arg(long, default_value = "target/peers.json", value_name = "FILE")]
    json: PathBuf,
    /// Where the drawing of them goes
    #[arg(long, default_value = "target/peers.html", value_name = "FILE")]
    plot: PathBuf,
    /// Only draw what is in the file of --json
    #[arg(long)]
    draw: bool,
    /// Be the echo server on this port
    #[arg(long, hide = true)]
    serve_echo: Option<u16>,
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
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(async {
        if let Some(port) = options.serve_echo {
            return systems::serve_echo(port).await;
        }
        if options.draw {
            return Report::read(&options.json)?.draw(&options.plot);
        }
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // What was started and made is ended and removed in any case: by being dropped.
        tokio::select! {
            result = compare(options) => result,
            _ = interrupt.recv() => Err("interrupted".into()),
            _ = terminate.recv() => Err("terminated".into()),
        }
    }))
}

async fn compare(mut options: Options) -> Outcome<()> {
    check(&mut options)?;
    let scratch = Scratch::new(&options.directory)?;
    let mut report = Report::default();
    describe(&mut report, &options)?;
    let pool = Pool::new();
    for &durability in &options.durability {
        for &replicas in &options.replicas {
            let cases = cases(&options, replicas, durability);
            if cases.is_empty() {
                continue;
            }
            let mut comparison = Comparison {
                systems: start(&options, replicas, durability, &scratch).await?,
                replicas,
                durability,
                time: Duration::try_from_secs_f64(options.seconds)?,
                warm_up: Duration::try_from_secs_f64(options.warm_up)?,
                rounds: options.rounds,
                set_size: options.set << 20,
                pool,
                report: &mut report,
                filled: BTreeSet::new(),
            };
            comparison.idle().await?;
            for case in cases {
                comparison.case(case).await;
            }
        }
    }
    report.write(&options.json)?;
    report.draw(&options.plot)?;
    match report.failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} of the contenders failed; the others were compared").into()),
    }
}

/// Starts what is compared; Týr is the last.
async fn start(
    options: &Options,
    replicas: u32,
    durability: Durability,
    scratch: &Scratch,
) -> Outcome<Vec<Box<dyn System>>> {
    let Options { shards, partitions, .. } = *options;
    let (tyr, set_size) = (options.tyr.clone(), options.set << 20);
    let setting = Setting { replicas, durability, tyr, shards, partitions, set_size };
    let peers = options.peers.iter().copied().filter(|peer| peer.keeps(replicas, durability));
    let mut systems = systems::start_peers(&peers.collect::<Vec<_>>(), &setting, scratch).await?;
    systems.push(systems::start_tyr(&setting, scratch).await?);
    Ok(systems)
}

/// What is measured with so many replicas.
fn cases(options: &Options, replicas: u32, durability: Durability) -> Vec<Case> {
    let ranges = Ranges {
        sizes: options.size.clone(),
        in_flight: options.in_flight.clone(),
        clients: options.clients.clone(),
        blobs: options.blobs.clone(),
        spans: options.span.clone(),
        readers: options.readers.clone(),
    };
    let usual: &[Work] = match durability {
        Durability::Disk => &Work::USUAL,
        Durability::Memory => &Work::IN_MEMORY,
    };
    let works = if options.work.is_empty() { usual } else { &options.work };
    let cases = works.iter().flat_map(|&work| ranges.cases(work, replicas, durability));
    cases.filter(|case| !options.aims || aims::is_aimed(case)).collect()
}

/// Puts in what was left out, and looks whether it makes sense.
fn check(options: &mut Options) -> Outcome<()> {
    if options.peers.is_empty() && !options.alone {
        options.peers = Peer::PACKAGED.to_vec();
    }
    if options.durability.is_empty() {
        options.durability.push(Durability::Disk);
        if options.work.is_empty() {
            options.durability.push(Durability::Memory);
        }
    }
    let has_none =
        options.clients.contains(&0) || options.in_flight.contains(&0) || options.blobs.contains(&0);
    if options.rounds == 0 || has_none || options.set < 64 {
        return Err(
            "take at least one round, client, blob, and operation in flight, and a set of 64 MiB".into()
        );
    }
    if options.span.iter().any(|span| !(2..=SPAN_MAX).contains(span)) {
        return Err(format!("take 2 to {SPAN_MAX} blobs of a transaction").into());
    }
    if options.readers.iter().any(|readers| !(5..=95).contains(readers)) {
        return Err("take 5 to 95 readers of 100".into());
    }
    if options.size.iter().any(|size| !(1..=SIZE_MAX).contains(size)) {
        return Err("take sizes of 1 byte to 4 MiB".into());
    }
    if !options.tyr.is_file() {
        return Err(format!(
            "{} is missing: build it with cargo build --release -p tyr, or name it with --tyr",
            options.tyr.display()
        )
        .into());
    }
    Ok(())
}

fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];
    let unit = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (number, unit) = unit.ok_or("no number")?;
    number.trim().parse::<usize>().map(|number| number * unit).map_err(|error| error.to_string())
}

/// Prints the parameters and the machine, as figures mean nothing without them.
fn describe(report: &mut Report, options: &Options) -> Outcome<()> {
    let kernel = rustix::system::uname();
    let mib = rustix::system::sysinfo().totalram >> 20;
    report.parameter("kernel", kernel.release().to_string_lossy());
    report.parameter("cores", std::thread::available_parallelism()?);
    report.parameter("memory", format!("{mib} MiB"));
    report.parameter("peers", format!("{:?}", options.peers));
    report.parameter(
        "time",
        format!(
            "{} s per turn, median of {} rounds, after {} s to warm up",
            options.seconds, options.rounds, options.warm_up
        ),
    );
    report.parameter("set", format!("{} MiB", options.set));
    report
        .parameter("Týr", format!("3 nodes of {} shards, {} partitions", options.shards, options.partitions));
    Ok(())
}

/// Payload is taken from a pool, and a data set is made in pieces, of this much at least.
const SIZE_MAX: usize = 4 << 20;
/// What can be locked, or put into a statement, without much ado.
const SPAN_MAX: u64 = 64;

/// Three servers share the machine.
fn a_third_of_processors() -> u32 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(count / 3).unwrap_or(u32::MAX).max(1)
}
