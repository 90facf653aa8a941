//! Runs seeds of the simulator, and looks for planted bugs.

use std::{process::ExitCode, time::Instant};

use tyr_proto::canary::{Canary, plant};
use tyr_sim::cluster::{canaries, run::swarm};

const USAGE: &str = "usage: tyr-sim swarm FIRST [COUNT]          run seeds, and show those that fail
       tyr-sim replay SEED [CANARY]         run one seed, and show all that happens
       tyr-sim canaries [SEEDS] [CANARY]    plant bugs, and find them within so many seeds";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize| arguments.get(place).map(String::as_str);
    let number = |place: usize| word(place).and_then(|text| text.parse::<u64>().ok());
    let canary = |place: usize| {
        Canary::ALL.into_iter().find(|canary| word(place).is_some_and(|name| format!("{canary:?}") == name))
    };
    match (word(0), number(1)) {
        (Some("swarm"), Some(first)) => run_swarm(first, number(2).unwrap_or(1000)),
        (Some("replay"), Some(seed)) => replay(seed, canary(2)),
        (Some("canaries"), seeds) => find_canaries(seeds.unwrap_or(20_000), canary(2)),
        _ => usage(),
    }
}

#[expect(clippy::print_stderr, reason = "this is a command")]
fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn exit(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn run_swarm(first: u64, count: u64) -> ExitCode {
    let begun = Instant::now();
    let (mut failed, mut committed) = (0, 0);
    for seed in first..first + count {
        let report = swarm(seed, false);
        committed += report.ended.values().map(|counts| counts[0]).sum::<u64>();
        if let Some(failure) = report.failure {
            failed += 1;
            println!("seed {seed}: {}", failure.chars().take(600).collect::<String>());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{count} seeds, {failed} failed, {committed} committed, {seconds:.1} s");
    exit(failed == 0)
}

#[expect(clippy::print_stdout, reason = "this is a command")]
fn replay(seed: u64, canary: Option<Canary>) -> ExitCode {
    let _planted = plant(canary);
    let report = swarm(seed, true);
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
                println!("{name:<20} seed {:>6} {seconds:>7.1} s  {}", found.seed, found.rule());
            }
            None => {
                missed += 1;
                println!("{name:<20} not found {seconds:>7.1} s");
            }
        }
    }
    exit(missed == 0)
}
