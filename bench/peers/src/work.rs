//! The works that are compared: what each operation does, and on which blobs.

use serde::Serialize;

use crate::{
    load::Caller,
    payload::Pool,
    system::{Lane, Outcome},
};

/// A work, as chosen on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Durable replacement of random whole blobs of the size.
    Write,
    /// Reads of random whole blobs of the size.
    Get,
    /// Reads of the size at random offsets of large blobs.
    Read,
    /// Durable appends of 64 to 512 bytes to one blob by several clients.
    Append,
    /// Additions to one counter of 8 bytes by several clients.
    Counter,
    /// Transactions that move one from a counter to another, of few.
    HotTransfer,
    /// Transactions that move one from a counter to another, of many.
    ColdTransfer,
}

impl Work {
    /// What runs if nothing is chosen.
    pub const ALL: [Work; 7] = [
        Work::Write,
        Work::Get,
        Work::Read,
        Work::Append,
        Work::Counter,
        Work::HotTransfer,
        Work::ColdTransfer,
    ];

    /// Whether operations of several sizes and numbers in flight are measured; else those of several clients, each with one in flight.
    pub fn has_sizes(self) -> bool {
        matches!(self, Work::Write | Work::Get | Work::Read)
    }

    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Work::Write => "write",
            Work::Get => "get",
            Work::Read => "read",
            Work::Append => "append",
            Work::Counter => "counter",
            Work::HotTransfer => "hot transfer",
            Work::ColdTransfer => "cold transfer",
        }
    }

    /// How many counters there are.
    fn accounts(self) -> u64 {
        if self == Work::HotTransfer { 4 } else { 4096 }
    }
}

/// A work with its parameters.
#[derive(Clone, Copy)]
pub struct Job {
    /// What is done.
    pub work: Work,
    /// Bytes of each operation, of a work that has sizes.
    pub size: usize,
    /// Bytes of the data set of a size, at most.
    pub set_size: u64,
    /// Whether the data set is made, rather than used.
    pub is_filling: bool,
    /// Payload.
    pub pool: Pool,
}

impl Job {
    /// Does the work once, as the `turn`th of this caller; the payload bytes that it carried.
    pub async fn step(&self, caller: &mut Caller, turn: u64) -> Outcome<u64> {
        if self.is_filling {
            let number = turn * caller.count as u64 + caller.index as u64;
            return self.fill(caller, number).await;
        }
        let Caller { lane, rng, .. } = caller;
        match self.work {
            Work::Write => {
                let blob = self.small_blob(rng.u64(..self.blobs()));
                lane.put(blob, self.pool.take(self.size, rng)).await?;
            }
            Work::Get => {
                let blob = self.small_blob(rng.u64(..self.blobs()));
                whole(lane.get(blob, self.size).await?, self.size)?;
            }
            Work::Read => {
                let offset = rng.u64(..=LARGE_SIZE - self.size as u64);
                let blob = LARGE | rng.u64(..self.large_blobs());
                whole(lane.read(blob, offset, self.size).await?, self.size)?;
            }
            Work::Append => {
                let payload = self.pool.take(rng.usize(APPEND_SIZES), rng);
                lane.append(LOG, payload).await?;
                return Ok(payload.len() as u64);
            }
            Work::Counter => {
                lane.add(COUNTER).await?;
                return Ok(8);
            }
            Work::HotTransfer | Work::ColdTransfer => {
                let (from, to) = pair(rng, self.work.accounts());
                lane.transfer(self.account(from), self.account(to)).await?;
                return Ok(16);
            }
        }
        Ok(self.size as u64)
    }

    /// Operations that make the data set, of all callers together.
    pub fn fillings(&self) -> u64 {
        match self.work {
            Work::Write | Work::Get => self.blobs(),
            Work::Read => self.large_blobs() * (LARGE_SIZE / PIECE_SIZE),
            Work::HotTransfer | Work::ColdTransfer => self.work.accounts(),
            Work::Counter => 1,
            Work::Append => 0,
        }
    }

    /// What tells data sets apart.
    pub fn set(&self) -> u64 {
        match self.work {
            Work::Write | Work::Get => self.small_blob(0),
            Work::Read => LARGE,
            Work::Append => LOG,
            Work::Counter => COUNTER,
            Work::HotTransfer | Work::ColdTransfer => self.account(0),
        }
    }

    async fn fill(&self, caller: &mut Caller, number: u64) -> Outcome<u64> {
        if number >= self.fillings() {
            return Ok(0);
        }
        let Caller { lane, rng, .. } = caller;
        match self.work {
            Work::Write | Work::Get => {
                lane.put(self.small_blob(number), self.pool.take(self.size, rng)).await?;
            }
            Work::Read => {
                let pieces = LARGE_SIZE / PIECE_SIZE;
                let payload = self.pool.take(usize::try_from(PIECE_SIZE)?, rng);
                lane.write(
                    LARGE | (number % self.large_blobs()),
                    number / self.large_blobs() % pieces * PIECE_SIZE,
                    payload,
                )
                .await?;
            }
            Work::Counter => lane.open(COUNTER).await?,
            _ => lane.open(self.account(number)).await?,
        }
        Ok(self.size as u64)
    }

    /// What must be the same before and after, but for the operations that were done: the counter, or the sum of the accounts. `None` of
    /// a work in which nothing is counted, or of a system that cannot tell.
    pub async fn sum(&self, lane: &mut dyn Lane) -> Outcome<Option<i64>> {
        match self.work {
            Work::Counter => lane.counter(COUNTER).await,
            Work::HotTransfer => {
                let mut sum = Some(0);
                for account in 0..self.work.accounts() {
                    let counter = lane.counter(self.account(account)).await?;
                    sum = sum.zip(counter).map(|(sum, counter)| sum + counter);
                }
                Ok(sum)
            }
            _ => Ok(None),
        }
    }

    /// By how much [`Job::sum`] rises with so many operations.
    pub fn sum_of(&self, operations: u64) -> i64 {
        if self.work == Work::Counter { i64::try_from(operations).unwrap_or(i64::MAX) } else { 0 }
    }

    fn blobs(&self) -> u64 {
        (self.set_size / self.size as u64).clamp(BLOBS_MIN, BLOBS_MAX)
    }

    fn small_blob(&self, number: u64) -> u64 {
        (self.size as u64) << 32 | number
    }

    fn large_blobs(&self) -> u64 {
        (self.set_size / LARGE_SIZE).max(1)
    }

    fn account(&self, number: u64) -> u64 {
        ACCOUNT | self.work.accounts() << 32 | number
    }
}

fn pair(rng: &mut fastrand::Rng, count: u64) -> (u64, u64) {
    let from = rng.u64(..count);
    (from, (from + rng.u64(1..count)) % count)
}

fn whole(found: usize, size: usize) -> Outcome<()> {
    if found == size { Ok(()) } else { Err(format!("{found} bytes instead of {size}").into()) }
}

/// Bytes of a blob that is read at random offsets.
const LARGE_SIZE: u64 = 64 << 20;
/// Such a blob is made in pieces of this size.
const PIECE_SIZE: u64 = 4 << 20;
const APPEND_SIZES: std::ops::RangeInclusive<usize> = 64..=512;
const BLOBS_MIN: u64 = 16;
const BLOBS_MAX: u64 = 4096;
const LARGE: u64 = 1 << 62;
const LOG: u64 = 1 << 61;
const COUNTER: u64 = 1 << 60;
const ACCOUNT: u64 = 1 << 59;
