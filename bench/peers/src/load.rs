//! Closed-loop load: lanes that each do one operation after the other, and how long it took.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{
    meter::{Cost, Meter},
    system::{Lane, Outcome},
    work::{Job, Role},
};

/// One of the callers.
pub struct Caller {
    /// Its lane to the system.
    pub lane: Box<dyn Lane>,
    /// An own source of randomness.
    pub rng: fastrand::Rng,
    /// Which of the callers it is.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

/// The callers of one contender in one case.
pub struct Callers(Vec<Caller>);

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After this time.
    Time(Duration),
    /// After so many operations of each caller.
    Operations(u64),
}

/// What a turn gave, of all callers of a role.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Operations that were completed.
    pub operations: u64,
    /// Payload bytes that they carried.
    pub bytes: u64,
    /// What the interval cost.
    pub cost: Cost,
    /// The operations, those of other roles included, that this was the cost of.
    pub cost_operations: u64,
    /// Half of the operations took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
}

impl Measured {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        if self.cost.seconds > 0.0 { float(self.operations) / self.cost.seconds } else { 0.0 }
    }

    /// Payload bytes per second.
    pub fn byte_rate(&self) -> f64 {
        if self.cost.seconds > 0.0 { float(self.bytes) / self.cost.seconds } else { 0.0 }
    }

    /// Seconds for each operation, in microseconds.
    pub fn each_us(&self, seconds: f64) -> f64 {
        if self.cost_operations == 0 { 0.0 } else { seconds * 1e6 / float(self.cost_operations) }
    }
}

impl Callers {
    /// One for each lane.
    pub fn new(lanes: Vec<Box<dyn Lane>>) -> Self {
        let count = lanes.len();
        let lanes = lanes.into_iter().enumerate();
        let caller =
            |(index, lane)| Caller { lane, rng: fastrand::Rng::with_seed(index as u64 + 1), index, count };
        Callers(lanes.map(caller).collect())
    }

    /// Any of the lanes.
    pub fn lane(&mut self) -> Outcome<&mut dyn Lane> {
        Ok(&mut *self.0.first_mut().ok_or("there are no callers")?.lane)
    }

    /// Has the callers of these roles do the job again and again; `servers` are the processes that do it. What each role gave, in the
    /// same order. The first failure ends the run.
    pub async fn run(
        &mut self,
        job: &Job,
        roles: &[Role],
        limit: Limit,
        servers: Vec<u32>,
    ) -> Outcome<Vec<Measured>> {
        let meter = Meter::start(servers)?;
        let mut tasks = JoinSet::new();
        for caller in std::mem::take(&mut self.0) {
            if roles.contains(&job.role(caller.index)) {
                tasks.spawn_local(call_until(caller, *job, limit));
            } else {
                self.0.push(caller);
            }
        }
        let mut calls: Vec<Calls> = roles.iter().map(|_| Calls::default()).collect();
        while let Some(ended) = tasks.join_next().await {
            let (caller, own) = ended??;
            let place = roles.iter().position(|&role| role == job.role(caller.index));
            let place = place.ok_or("a caller of another role has run")?;
            calls[place].add(own);
            self.0.push(caller);
        }
        let cost = meter.cost()?;
        self.0.sort_unstable_by_key(|caller| caller.index);
        let operations = calls.iter().map(|calls| calls.latencies.len() as u64).sum();
        Ok(calls.into_iter().map(|calls| calls.summarize(cost, operations)).collect())
    }
}

/// Operations that were completed.
#[derive(Default)]
pub struct Calls {
    /// Payload bytes that they carried.
    pub bytes: u64,
    /// How long each took, in nanoseconds.
    pub latencies: Vec<u64>,
}

async fn call_until(mut caller: Caller, job: Job, limit: Limit) -> Outcome<(Caller, Calls)> {
    let mut calls = Calls::default();
    let start = Instant::now();
    let mut before = start;
    for turn in 0.. {
        match limit {
            Limit::Time(time) if before - start >= time => break,
            Limit::Operations(operations) if turn >= operations => break,
            _ => {}
        }
        let bytes = job.step(&mut caller, turn).await?;
        let after = Instant::now();
        calls.note(bytes, after - before);
        before = after;
    }
    Ok((caller, calls))
}

impl Calls {
    /// Notes an operation.
    pub fn note(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.latencies.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds those of another caller.
    pub fn add(&mut self, other: Calls) {
        self.bytes += other.bytes;
        self.latencies.extend(other.latencies);
    }

    /// What they come to; the cost was that of so many operations, of whatever role.
    pub fn summarize(mut self, cost: Cost, cost_operations: u64) -> Measured {
        let latencies = &mut self.latencies;
        latencies.sort_unstable();
        let at = |hundredths: usize| {
            let index = (latencies.len() * hundredths / 100).min(latencies.len().saturating_sub(1));
            Duration::from_nanos(latencies.get(index).copied().unwrap_or(0))
        };
        let operations = latencies.len() as u64;
        Measured { operations, bytes: self.bytes, cost, cost_operations, p50: at(50), p99: at(99) }
    }
}

/// Counts here are far below 2^53.
fn float(count: u64) -> f64 {
    count as f64
}
