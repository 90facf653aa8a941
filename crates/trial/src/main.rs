//! `tyr-trial`: tries a real cluster, and judges what its clients were told. See docs/failure-tests.md.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use tyr_sim::random::Random;
use tyr_trial::{
    course::{self, Plan},
    enclosure::Enclosure,
    failure::{Failure, Result},
    fault::{Fault, Strike},
    report::{began, say},
};

/// Starts a cluster of processes in network namespaces, does to it what can happen to one, and judges the history of its clients.
#[derive(Parser)]
struct Arguments {
    /// The command that is tried; by default the one beside this program. Of several the last one.
    #[arg(long, value_name = "PATH", overrides_with = "tyr")]
    tyr: Option<PathBuf>,
    /// The outside checker, built from checkers/porcupine.
    #[arg(long, value_name = "PATH")]
    checker: Option<PathBuf>,
    /// From which all choices are drawn; by default another one each time. It is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// The faults, in this order; by default the short course.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = strike)]
    faults: Vec<Strike>,
    /// Draw so many faults instead.
    #[arg(long, value_name = "COUNT", conflicts_with = "faults")]
    draw: Option<u64>,
    /// Nodes at the beginning.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=32))]
    nodes: u64,
    /// Clients.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Fail where namespaces are not permitted, instead of trying less.
    #[arg(long)]
    require_namespaces: bool,
    /// Keep the history, and the nodes' logs.
    #[arg(long)]
    keep: bool,
    /// Print the faults that there are, and end.
    #[arg(long)]
    list: bool,
    /// Where this process runs already; the program tells that to itself.
    #[arg(long, hide = true, value_parser = enclosure)]
    inside: Option<Enclosure>,
}

fn strike(text: &str) -> std::result::Result<Strike, String> {
    text.parse()
}

fn enclosure(name: &str) -> std::result::Result<Enclosure, String> {
    Enclosure::named(name).ok_or_else(|| "there is no such place".to_owned())
}

fn main() -> ExitCode {
    began();
    let arguments = Arguments::parse();
    if arguments.list {
        Fault::ALL.into_iter().for_each(|fault| say(fault.name()));
        return ExitCode::SUCCESS;
    }
    let result = match arguments.inside {
        Some(enclosure) => attempt(arguments, enclosure).map(|()| ExitCode::SUCCESS),
        None => enclose(&arguments),
    };
    result.unwrap_or_else(|failure| {
        say(format!("FAILED: {failure}"));
        ExitCode::FAILURE
    })
}

/// Starts this program again, where as much as possible is permitted.
fn enclose(arguments: &Arguments) -> Result<ExitCode> {
    let (enclosure, refusal) = Enclosure::find();
    if enclosure == Enclosure::Loopback {
        let text = format!("namespaces are NOT PERMITTED here ({refusal})");
        if arguments.require_namespaces {
            return Err(Failure::new(text));
        }
        say(format!(
            "{text}: the nodes are on the loopback address, and faults of links and disks are LEFT OUT"
        ));
    }
    let program = std::env::current_exe()?;
    let seed = arguments.seed.unwrap_or_else(|| Random::new(std::process::id().into()).below(1_000_000));
    let mut again: Vec<String> = std::env::args().skip(1).collect();
    if arguments.seed.is_none() {
        again.extend(["--seed".to_owned(), seed.to_string()]);
    }
    again.extend(["--inside".to_owned(), enclosure.name().to_owned()]);
    let status = enclosure.run(&program.to_string_lossy(), &again)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn attempt(arguments: Arguments, enclosure: Enclosure) -> Result<()> {
    end_when_asked()?;
    let seed = arguments.seed.ok_or_else(|| Failure::new("the seed is missing"))?;
    let faults = match arguments.draw {
        Some(count) => Fault::draw(count, arguments.nodes, &mut Random::new(seed)),
        None if arguments.faults.is_empty() => SHORT.iter().copied().map(Strike::from).collect(),
        None => arguments.faults.clone(),
    };
    let (faults, left_out): (Vec<Strike>, Vec<Strike>) =
        faults.into_iter().partition(|strike: &Strike| strike.fault.is_possible(enclosure));
    if !left_out.is_empty() {
        say(format!("LEFT OUT, since they are not possible here: {left_out:?}"));
    }
    let beside = std::env::current_exe()?.with_file_name("tyr");
    let plan = Plan {
        enclosure,
        tyr: arguments.tyr.unwrap_or(beside),
        checker: arguments.checker,
        seed,
        nodes: usize::try_from(arguments.nodes).expect("it has bounds"),
        clients: arguments.clients,
        faults,
        keeps: arguments.keep,
    };
    let names = plan.faults.iter().map(Strike::to_string).collect::<Vec<_>>().join(",");
    say(format!("--seed {seed} --nodes {} --clients {} --faults {names}", plan.nodes, plan.clients));
    course::run(&plan)?;
    say("passed");
    Ok(())
}

/// The first process of a namespace hears only the signals that it has asked for.
fn end_when_asked() -> Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked)?;
    }
    Ok(())
}

/// What is tried by every run of the gate: each kind of fault that behaves in a way of its own.
const SHORT: &[Fault] = &[
    Fault::Kill,
    Fault::Part,
    Fault::Shatter,
    Fault::Deafen,
    Fault::Pause,
    Fault::KillAll,
    Fault::Fill,
    Fault::Lose,
    Fault::Join,
    Fault::Drain,
];
