//! Runs seeds of the simulator: `tyr-sim swarm FIRST COUNT`, `tyr-sim replay SEED`; measures it: `tyr-sim figures`.

use std::{process::ExitCode, time::Instant};

use tyr_sim::cluster::run::swarm;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<u64>().ok());
    match (arguments.first().map(String::as_str), number(1), number(2)) {
        (Some("swarm"), Some(first), count) => {
            let begun = Instant::now();
            let (mut failed, mut committed) = (0, 0);
            let count = count.unwrap_or(1000);
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
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        (Some("replay"), Some(seed), _) => {
            let report = swarm(seed, true);
            println!("{}", report.trace);
            println!("{:?}\n{:?}\n{:?}", report.profile, report.counts, report.ended);
            println!("digest {:016x}", report.digest);
            match report.failure {
                None => ExitCode::SUCCESS,
                Some(failure) => {
                    println!("{failure}");
                    ExitCode::FAILURE
                }
            }
        }
        (Some("figures"), None, None) => {
            print!("{}", tyr_sim::figures::all());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: tyr-sim swarm FIRST [COUNT] | tyr-sim replay SEED | tyr-sim figures");
            ExitCode::from(2)
        }
    }
}
