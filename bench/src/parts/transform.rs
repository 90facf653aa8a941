//! One counter that many threads increment.
//!
//! RocksDB uses its own merge operator for 64-bit sums. The bare log just writes 8 bytes. At the end the counter must be the number
//! of increments.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    bench::{Bench, Contender, Opened, Run},
    load::{self, Limit},
    system::{Durability, Outcome, Temperature},
    systems::{Family, Ground, Kind},
};

const THREADS: [usize; 3] = [1, 8, 16];

/// Measures.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    let disk = [Kind::BareLog(Ground::Written), Kind::Rocks, Kind::Tyr];
    let memory = [Kind::Rocks, Kind::Tyr];
    counter(bench, Durability::Disk, "disk", &disk)?;
    counter(bench, Durability::Memory, "memory", &memory)
}

struct Counter {
    opened: Opened,
    increments: AtomicU64,
}

fn counter(bench: &mut Bench, durability: Durability, name: &str, kinds: &[Kind]) -> Outcome<()> {
    let open = |kind| {
        let opened = bench.open(kind, durability, Temperature::Usual)?;
        Ok(Counter { opened, increments: AtomicU64::new(0) })
    };
    let counters = bench.chosen(kinds).into_iter().map(open).collect::<Outcome<Vec<_>>>()?;
    for count in THREADS {
        let contenders = counters.iter().map(|counter| {
            let bench = &*bench;
            Contender::new(counter.opened.kind, move || counter.run(bench, count))
        });
        let case = format!("increment, {name}, {count} thread{}", if count == 1 { "" } else { "s" });
        let rows = bench.compare("transform", &case, contenders.collect())?;
        bench.report.rows(rows);
    }
    counters.iter().try_for_each(Counter::check)
}

impl Counter {
    fn run(&self, bench: &Bench, threads: usize) -> Outcome<Run> {
        let run = self.opened.run(|system| {
            load::run(threads, Limit::Time(bench.time), |_| {
                system.increment()?;
                Ok(8)
            })
        })?;
        self.increments.fetch_add(run.measured.operations, Ordering::Relaxed);
        Ok(run)
    }

    fn check(&self) -> Outcome<()> {
        if self.opened.kind.family() == Family::Bare {
            return Ok(());
        }
        let (expected, found) = (self.increments.load(Ordering::Relaxed), self.opened.system.counter()?);
        if expected == found {
            return Ok(());
        }
        Err(format!("{}: {expected} increments, but the counter is {found}", self.opened.kind.name()).into())
    }
}
