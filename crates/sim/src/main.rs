//! Runs seeds of the simulator, and looks for planted bugs.

use std::{process::ExitCode, time::Instant};

use tyr_proto::canary::{Canary, plant};
use tyr_sim::{
    cluster::{canaries, run::Draw},
    files, scale,
};

const USAGE: &str =
    "usage: tyr-sim DRAW FIRST [COUNT]                                 run seeds, and show those that fail
       tyr-sim replay DRAW SEED [CANARY]                          run one seed, and show all that happens
       tyr-sim files FIRST [COUNT]                                run seeds of file systems
       tyr-sim files-replay SEED                                  run one, and show all that happens
       tyr-sim canaries [SEEDS] [CANARY]                          plant bugs, and find them within so many seeds
       tyr-sim figures                                            measure what operations cost
       tyr-sim scale [NODES,NODES,... [SEED [EACH]]]              say what to expect of clusters of so many nodes
       DRAW is swarm, focused, aimed, cached, borrowed, dropping, unheard, or edited";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize| arguments.get(place).map(String::as_str);
    let number = |place: usize| word(place).and_then(|text| text.parse::<u64>().ok());
    let draw = |place: usize| Draw::ALL.into_iter().find(|draw| word(place) == Some(draw.name()));
    let canary = |place: usize| {
        Canary::ALL.into_iter().find(|canary| word(place).is_some_and(|name| format!("{canary:?}") == name))
    };
    match (word(0), draw(0), draw(1)) {
        (_, Some(draw), _) => {
            number(1).map_or_else(usage, |first| run(draw, first, number(2).unwrap_or(1000)))
        }
        (Some("replay"), _, Some(draw)) => number(2).map_or_else(usage, |seed| replay(draw, seed, canary(3))),
        (Some("files"), ..) => {
            number(1).map_or_else(usage, |first| run_files(first, number(2).unwrap_or(1000)))
        }
        (Some("files-replay"), ..) => number(1).map_or_else(usage, replay_files),
        (Some("figures"), ..) => figures(),
        (Some("scale"), ..) => scale_options(&arguments[1..]).map_or_else(usage, |options| scale(&options)),
        (Some("canaries"), ..) => find_canaries(number(1).unwrap_or(10_000), canary(2)),
        _ => usage(),
    }
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn figures() -> ExitCode {
    print!("{}", tyr_sim::figures::all());
    ExitCode::SUCCESS
}

/// Node counts, the seed, and the operations of each client, as far as they are given.
fn scale_options(arguments: &[String]) -> Option<scale::Options> {
    let mut options = scale::Options::default();
    if let Some(nodes) = arguments.first() {
        options.nodes = nodes.split(',').map(|count| count.parse().ok()).collect::<Option<_>>()?;
    }
    if let Some(seed) = arguments.get(1) {
        options.seed = seed.parse().ok()?;
    }
    if let Some(each) = arguments.get(2) {
        options.each = each.parse().ok()?;
    }
    let bounds = u32::from(scale::REPLICAS)..=scale::NODES_MAX;
    (options.each > 0 && options.nodes.iter().all(|nodes| bounds.contains(nodes))).then_some(options)
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn scale(options: &scale::Options) -> ExitCode {
    scale::all(options, |table| println!("{table}"));
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "this is a command")]
fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn exit(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(draw: Draw, first: u64, count: u64) -> ExitCode {
    run_all(first, count, ["committed"], |seed| {
        let report = draw.run(seed, false);
        (report.failure, [report.ended.values().map(|counts| counts[0]).sum()])
    })
}

fn run_files(first: u64, count: u64) -> ExitCode {
    run_all(first, count, ["deeds told", "not told"], |seed| {
        let report = files::run::run(seed, false);
        (report.failure, report.deeds)
    })
}

/// Runs seeds, shows how they fail that do, and says what was counted of all of them.
#[expect(clippy::print_stdout, reason = "this is a command")]
fn run_all<const N: usize>(
    first: u64,
    count: u64,
    names: [&str; N],
    run: impl Fn(u64) -> (Option<String>, [u64; N]),
) -> ExitCode {
    let begun = Instant::now();
    let (mut failed, mut sums) = (0, [0; N]);
    for seed in first..first + count {
        let (failure, counts) = run(seed);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        if let Some(failure) = failure {
            failed += 1;
            println!("seed {seed}: {}", failure.chars().take(600).collect::<String>());
        }
    }
    let sums: String = sums.iter().zip(names).map(|(sum, name)| format!("{sum} {name}, ")).collect();
    println!("{count} seeds, {failed} failed, {sums}{:.1} s", begun.elapsed().as_secs_f64());
    exit(failed == 0)
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn replay_files(seed: u64) -> ExitCode {
    let report = files::run::run(seed, true);
    println!("{}\n{:?}", report.tale, report.counts);
    if let Some(failure) = &report.failure {
        println!("{failure}");
    }
    exit(report.failure.is_none())
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn replay(draw: Draw, seed: u64, canary: Option<Canary>) -> ExitCode {
    let _planted = plant(canary);
    let report = draw.run(seed, true);
    println!("{}", report.trace);
    println!("{:?}\n{:?}\n{:?}", report.profile, report.counts, report.ended);
    println!("digest {:016x}", report.digest);
    if let Some(failure) = &report.failure {
        println!("{failure}");
    }
    exit(report.failure.is_none())
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn find_canaries(seeds: u64, only: Option<Canary>) -> ExitCode {
    // An assertion that a planted bug breaks is a find, not news.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = 0;
    for canary in Canary::ALL.into_iter().filter(|canary| only.is_none_or(|only| only == *canary)) {
        let begun = Instant::now();
        let found = canaries::find(canary, 1..seeds + 1);
        let (name, seconds) = (format!("{canary:?}"), begun.elapsed().as_secs_f64());
        match found {
            Some(found) => {
                let (draw, seed) = (found.draw.name(), found.seed);
                println!("{name:<20} {draw:<7} {seed:>6} {seconds:>7.1} s  {}", found.rule());
            }
            None => {
                missed += 1;
                println!("{name:<20} not found      {seconds:>7.1} s");
            }
        }
    }
    exit(missed == 0)
}
