//! The works that are compared: what each operation does, and on which blobs.

use serde::{Deserialize, Serialize};

use crate::{
    case::Case,
    load::Caller,
    payload::Pool,
    system::{Lane, Outcome},
};

/// A work, as chosen on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Replacement of random whole blobs of the size.
    Write,
    /// Reads of random whole blobs of the size.
    Get,
    /// Reads of the size at random offsets of large blobs.
    Read,
    /// Overwrites of 4 KiB at random offsets of large blobs.
    Patch,
    /// Appends of 64 to 512 bytes to one or several blobs by several clients.
    Append,
    /// Additions to one counter of 8 bytes by several clients.
    Counter,
    /// Transactions that move numbers between counters, of few.
    HotTransfer,
    /// Transactions that move numbers between counters, of many.
    ColdTransfer,
    /// Replacement of several whole blobs of 4 KiB, in a transaction and without one.
    Batch,
    /// Reads and writes of 64 KiB at random offsets of one large blob, with and without the other.
    Mixed,
    /// One blob that several clients write at once, each its own parts.
    Shared,
    /// Overwrites for a long time, with the rate and the disk in use in each part of it; only if it is asked for.
    Overwrites,
}

/// What a caller does in a work that not all do alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The only one.
    Any,
    /// Reads.
    Reader,
    /// Writes.
    Writer,
}

impl Work {
    /// What runs if nothing is chosen.
    pub const USUAL: [Work; 11] = [
        Work::Write,
        Work::Get,
        Work::Read,
        Work::Patch,
        Work::Append,
        Work::Counter,
        Work::HotTransfer,
        Work::ColdTransfer,
        Work::Batch,
        Work::Mixed,
        Work::Shared,
    ];

    /// What of that runs in memory.
    pub const IN_MEMORY: [Work; 3] = [Work::Write, Work::Get, Work::Read];

    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Work::Write => "write",
            Work::Get => "get",
            Work::Read => "read",
            Work::Patch => "patch",
            Work::Append => "append",
            Work::Counter => "counter",
            Work::HotTransfer => "hot transfer",
            Work::ColdTransfer => "cold transfer",
            Work::Batch => "batch",
            Work::Mixed => "mixed",
            Work::Shared => "shared",
            Work::Overwrites => "overwrites",
        }
    }

    /// Whether it does nothing but write and read parts of blobs, or whole ones.
    pub fn is_plain(self) -> bool {
        use Work::{Get, Mixed, Overwrites, Patch, Read, Shared, Write};
        matches!(self, Write | Get | Read | Patch | Mixed | Shared | Overwrites)
    }

    /// Whether it is about numbers, which a system may keep in another way for each manner.
    pub fn counts(self) -> bool {
        matches!(self, Work::Counter | Work::HotTransfer | Work::ColdTransfer)
    }

    /// Whether it needs the atomicity of several blobs.
    pub fn is_transfer(self) -> bool {
        matches!(self, Work::HotTransfer | Work::ColdTransfer)
    }
}

/// A case with what it is done with.
#[derive(Clone, Copy)]
pub struct Job {
    /// What is done.
    pub case: Case,
    /// Bytes of the data set of a size, at most.
    pub set_size: u64,
    /// Whether the data set is made, rather than used.
    pub is_filling: bool,
    /// Payload.
    pub pool: Pool,
}

impl Job {
    /// What a caller does.
    pub fn role(&self, index: usize) -> Role {
        match self.case.work {
            Work::Mixed if self.is_filling => Role::Any,
            Work::Mixed if index < self.case.reader_count() => Role::Reader,
            Work::Mixed => Role::Writer,
            _ => Role::Any,
        }
    }

    /// Does the work once, as the `turn`th of this caller; the payload bytes that it carried.
    pub async fn step(&self, caller: &mut Caller, turn: u64) -> Outcome<u64> {
        let number = turn * caller.count as u64 + caller.index as u64;
        if self.is_filling {
            return self.fill(caller, number).await;
        }
        let role = self.role(caller.index);
        let Caller { lane, rng, .. } = caller;
        let size = self.case.bytes();
        match self.case.work {
            Work::Write => {
                let blob = self.small_blob(rng.u64(..self.blobs()));
                lane.put(blob, self.pool.take(size, rng)).await?;
            }
            Work::Get => {
                let blob = self.small_blob(rng.u64(..self.blobs()));
                whole(lane.get(blob, size).await?, size)?;
            }
            Work::Read => {
                let offset = rng.u64(..=LARGE_SIZE - size as u64);
                let blob = LARGE | rng.u64(..self.large_blobs());
                whole(lane.read(blob, offset, size).await?, size)?;
            }
            Work::Patch | Work::Overwrites | Work::Mixed => {
                let offset = rng.u64(..=(LARGE_SIZE - size as u64) / ALIGNMENT) * ALIGNMENT;
                let blob = self.large_base() | rng.u64(..self.large_blobs());
                if role == Role::Reader {
                    whole(lane.read(blob, offset, size).await?, size)?;
                } else {
                    lane.write(blob, offset, self.pool.take(size, rng)).await?;
                }
            }
            Work::Shared => {
                let offset = number * size as u64 % SHARED_SIZE;
                lane.write(SHARED, offset, self.pool.take(size, rng)).await?;
            }
            _ => return self.step_together(lane.as_mut(), rng).await,
        }
        Ok(size as u64)
    }

    /// Steps of works in which callers meet at a few blobs, or that change several at once.
    async fn step_together(&self, lane: &mut dyn Lane, rng: &mut fastrand::Rng) -> Outcome<u64> {
        match self.case.work {
            Work::Append => {
                let payload = self.pool.take(rng.usize(APPEND_SIZES), rng);
                lane.append(self.log(rng.u64(..self.span())), payload).await?;
                Ok(payload.len() as u64)
            }
            Work::Counter => {
                lane.add(COUNTER).await?;
                Ok(8)
            }
            Work::Batch => {
                let size = self.case.bytes();
                let blobs = distinct(rng, self.span(), self.blobs());
                let puts = blobs.iter().map(|&blob| (self.small_blob(blob), self.pool.take(size, rng)));
                lane.put_all(puts.collect()).await?;
                Ok(self.span() * size as u64)
            }
            _ => {
                let accounts = distinct(rng, self.span(), self.accounts());
                let taker = rng.usize(..accounts.len());
                let given = i64::try_from(accounts.len() - 1)?;
                let change = |(place, &account): (usize, &u64)| {
                    (self.account(account), if place == taker { -given } else { 1 })
                };
                lane.transfer(accounts.iter().enumerate().map(change).collect()).await?;
                Ok(8 * self.span())
            }
        }
    }

    /// Operations that make the data set, of all callers together.
    pub fn fillings(&self) -> u64 {
        match self.case.work {
            Work::Write | Work::Get | Work::Batch => self.blobs(),
            Work::Read | Work::Patch | Work::Mixed | Work::Overwrites => {
                self.large_blobs() * (LARGE_SIZE / PIECE_SIZE)
            }
            Work::HotTransfer | Work::ColdTransfer => self.accounts(),
            Work::Counter => 1,
            Work::Append | Work::Shared => 0,
        }
    }

    /// What tells data sets apart.
    pub fn set(&self) -> u64 {
        match self.case.work {
            Work::Write | Work::Get | Work::Batch => self.small_blob(0),
            Work::Read | Work::Patch | Work::Mixed | Work::Overwrites => self.large_base(),
            Work::Append => self.log(0),
            Work::Counter => COUNTER,
            Work::HotTransfer | Work::ColdTransfer => self.account(0),
            Work::Shared => SHARED,
        }
    }

    /// Bytes of the data set, in one copy.
    pub fn live_size(&self) -> u64 {
        match self.case.work {
            Work::Write | Work::Get | Work::Batch => self.blobs() * self.case.bytes() as u64,
            _ => self.large_blobs() * LARGE_SIZE,
        }
    }

    async fn fill(&self, caller: &mut Caller, number: u64) -> Outcome<u64> {
        if number >= self.fillings() {
            return Ok(0);
        }
        let Caller { lane, rng, .. } = caller;
        match self.case.work {
            Work::Write | Work::Get | Work::Batch => {
                lane.put(self.small_blob(number), self.pool.take(self.case.bytes(), rng)).await?;
            }
            Work::Counter => lane.open(COUNTER).await?,
            Work::HotTransfer | Work::ColdTransfer => lane.open(self.account(number)).await?,
            _ => {
                let (blob, piece) = (number % self.large_blobs(), number / self.large_blobs());
                let payload = self.pool.take(usize::try_from(PIECE_SIZE)?, rng);
                lane.write(self.large_base() | blob, piece * PIECE_SIZE, payload).await?;
            }
        }
        Ok(self.case.bytes() as u64)
    }

    /// What must be the same before and after, but for the operations that were done: the counter, or the sum of the accounts. `None` of
    /// a work in which nothing is counted, or of a system that cannot tell.
    pub async fn sum(&self, lane: &mut dyn Lane) -> Outcome<Option<i64>> {
        match self.case.work {
            Work::Counter => lane.counter(COUNTER).await,
            Work::HotTransfer => {
                let mut sum = Some(0);
                for account in 0..self.accounts() {
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
        if self.case.work == Work::Counter { i64::try_from(operations).unwrap_or(i64::MAX) } else { 0 }
    }

    /// Blobs of an operation, or that are appended to.
    fn span(&self) -> u64 {
        self.case.blobs.unwrap_or(1)
    }

    /// How many counters there are.
    fn accounts(&self) -> u64 {
        if self.case.work == Work::HotTransfer { 2 * self.span() } else { COLD_ACCOUNTS }
    }

    fn blobs(&self) -> u64 {
        (self.set_size / self.case.bytes() as u64).clamp(BLOBS_MIN, BLOBS_MAX)
    }

    fn small_blob(&self, number: u64) -> u64 {
        (self.case.bytes() as u64) << 32 | number
    }

    /// Large blobs that are written in part are not those of which reads are measured.
    fn large_base(&self) -> u64 {
        match self.case.work {
            Work::Read => LARGE,
            Work::Mixed => CONTESTED,
            _ => PATCHED,
        }
    }

    fn large_blobs(&self) -> u64 {
        if self.case.work == Work::Mixed { 1 } else { (self.set_size / LARGE_SIZE).max(1) }
    }

    fn log(&self, number: u64) -> u64 {
        LOG | self.span() << 32 | number
    }

    fn account(&self, number: u64) -> u64 {
        ACCOUNT | self.accounts() << 32 | number
    }
}

/// Some of the numbers below `count`, in order.
fn distinct(rng: &mut fastrand::Rng, some: u64, count: u64) -> Vec<u64> {
    let mut chosen = std::collections::BTreeSet::new();
    while (chosen.len() as u64) < some.min(count) {
        chosen.insert(rng.u64(..count));
    }
    chosen.into_iter().collect()
}

fn whole(found: usize, size: usize) -> Outcome<()> {
    if found == size { Ok(()) } else { Err(format!("{found} bytes instead of {size}").into()) }
}

/// Bytes of a blob that is read and written at random offsets.
const LARGE_SIZE: u64 = 64 << 20;
/// Such a blob is made in pieces of this size.
const PIECE_SIZE: u64 = 4 << 20;
/// Bytes of the blob that all write: the most that an object of RADOS holds.
const SHARED_SIZE: u64 = 128 << 20;
/// Parts that are written begin at multiples of this, which suits disks.
const ALIGNMENT: u64 = 4 << 10;
const APPEND_SIZES: std::ops::RangeInclusive<usize> = 64..=512;
const BLOBS_MIN: u64 = 16;
const BLOBS_MAX: u64 = 4096;
const COLD_ACCOUNTS: u64 = 4096;
const LARGE: u64 = 1 << 62;
const LOG: u64 = 1 << 61;
const COUNTER: u64 = 1 << 60;
const ACCOUNT: u64 = 1 << 59;
const PATCHED: u64 = 1 << 58;
const CONTESTED: u64 = 1 << 57;
const SHARED: u64 = 1 << 56;
