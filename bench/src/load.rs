//! Closed-loop load: threads that each call one operation again and again, and how long it took.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::ScopedJoinHandle,
    time::{Duration, Instant},
};

use crate::{
    meter::{Cost, Meter},
    system::Outcome,
};

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After this time.
    Time(Duration),
    /// After this many operations of all threads together.
    Operations(u64),
}

/// One of the calling threads.
pub struct Caller {
    /// An own source of randomness.
    pub rng: fastrand::Rng,
    /// Number of this operation among those of all threads; only with [`Limit::Operations`], else among this thread's.
    pub turn: u64,
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Operations that were completed.
    pub operations: u64,
    /// Payload bytes that they carried.
    pub bytes: u64,
    /// What the interval cost.
    pub cost: Cost,
    /// Half of the operations took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
}

impl Measured {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        per(self.operations, self.cost.seconds)
    }

    /// Payload bytes per second.
    pub fn byte_rate(&self) -> f64 {
        per(self.bytes, self.cost.seconds)
    }

    /// Processor time per operation, in microseconds.
    pub fn processor_us(&self) -> f64 {
        if self.operations == 0 { 0.0 } else { self.cost.processor_seconds * 1e6 / float(self.operations) }
    }
}

/// Runs `operation`, which returns the payload bytes that it carried, on `threads` threads. The first failure ends the run.
pub fn run(
    threads: usize,
    limit: Limit,
    operation: impl Fn(&mut Caller) -> Outcome<u64> + Sync,
) -> Outcome<Measured> {
    run_with(threads, limit, || (), |caller, ()| operation(caller))
}

/// The same with something that each thread makes for itself before the clock starts.
pub fn run_with<T>(
    threads: usize,
    limit: Limit,
    make: impl Fn() -> T + Sync,
    operation: impl Fn(&mut Caller, &mut T) -> Outcome<u64> + Sync,
) -> Outcome<Measured> {
    let barrier = Barrier::new(threads + 1);
    let turns = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let call = |index| {
        let mut caller = Caller { rng: fastrand::Rng::with_seed(index as u64 + 1), turn: 0 };
        let mut own = make();
        barrier.wait();
        let result = call_until(limit, &mut caller, &turns, &failed, |caller| operation(caller, &mut own));
        if result.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        result
    };
    let call = &call;
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..threads).map(|index| scope.spawn(move || call(index))).collect();
        let meter = Meter::start();
        barrier.wait();
        let join = |caller: ScopedJoinHandle<'_, _>| caller.join().expect("a caller does not panic");
        let results: Vec<_> = callers.into_iter().map(join).collect();
        summarize(meter?.cost()?, results)
    })
}

/// Bytes carried, and the nanoseconds that each operation took.
type Calls = (u64, Vec<u32>);

fn call_until(
    limit: Limit,
    caller: &mut Caller,
    turns: &AtomicU64,
    failed: &AtomicBool,
    mut operation: impl FnMut(&mut Caller) -> Outcome<u64>,
) -> Outcome<Calls> {
    let mut bytes = 0;
    let mut latencies = Vec::new();
    let start = Instant::now();
    let mut before = start;
    while !failed.load(Ordering::Relaxed) {
        match limit {
            Limit::Time(time) if before - start >= time => break,
            Limit::Time(_) => caller.turn = latencies.len() as u64,
            Limit::Operations(operations) => {
                caller.turn = turns.fetch_add(1, Ordering::Relaxed);
                if caller.turn >= operations {
                    break;
                }
            }
        }
        bytes += operation(caller)?;
        let after = Instant::now();
        latencies.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
    }
    Ok((bytes, latencies))
}

fn summarize(cost: Cost, results: Vec<Outcome<Calls>>) -> Outcome<Measured> {
    let mut latencies = Vec::new();
    let mut bytes = 0;
    for result in results {
        let (carried, mut calls) = result?;
        bytes += carried;
        latencies.append(&mut calls);
    }
    latencies.sort_unstable();
    let at = |hundredths: usize| {
        let index = (latencies.len() * hundredths / 100).min(latencies.len().saturating_sub(1));
        Duration::from_nanos(latencies.get(index).copied().unwrap_or(0).into())
    };
    Ok(Measured { operations: latencies.len() as u64, bytes, cost, p50: at(50), p99: at(99) })
}

fn per(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { float(count) / seconds } else { 0.0 }
}

/// Counts here are far below 2^53.
fn float(count: u64) -> f64 {
    count as f64
}
