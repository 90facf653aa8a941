//! Runs a transaction until it commits: with growing pauses after refusals, and after a few of them with its blobs reserved.

use alloc::collections::BTreeSet;

use super::{Client, Event, FrozenBlob, Transaction};
use crate::{BlobName, Refusal, Time, is_final, message::RequestId};

/// The tries of one transaction.
#[derive(Debug)]
pub struct Run {
    tries: u32,
    conflicts: u32,
    random: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The next try may begin.
    Ready,
    /// The next try begins then.
    Pausing(Time),
    /// The next try begins when its blobs are reserved.
    Reserving(RequestId),
    /// They are.
    Reserved(RequestId, alloc::vec::Vec<FrozenBlob>),
}

/// What a refusal means for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another try follows after a pause.
    Again,
    /// Another try follows, when what this one touched is reserved.
    Reserves,
    /// No try can do better.
    Ends,
}

/// After so many conflicts a run reserves what its last try touched.
const CONFLICTS_MAX: u32 = 3;
/// Half the longest pause after the first try, in microseconds. It doubles with every try,
const PAUSE_MIN: u64 = 500;
/// so many times at the most: to half a second.
const DOUBLINGS_MAX: u32 = 10;

impl Run {
    /// No try yet. The seed draws the pauses: it is not zero, and another one for each run.
    pub fn new(seed: u64) -> Self {
        Run { tries: 0, conflicts: 0, random: seed.max(1), stage: Stage::Ready }
    }

    /// The next try, if it is its time.
    pub fn begin(&mut self, now: Time) -> Option<Transaction> {
        let turn = usize::try_from(self.draw(3)).unwrap_or(0);
        match core::mem::replace(&mut self.stage, Stage::Ready) {
            Stage::Ready => Some(Transaction::begin(turn)),
            Stage::Pausing(until) if until <= now => Some(Transaction::begin(turn)),
            Stage::Reserved(reserve, blobs) => Some(Transaction::begin_reserved(turn, reserve, blobs)),
            waits => {
                self.stage = waits;
                None
            }
        }
    }

    /// A try of these blobs was refused, or lost what it had read.
    pub fn handle_refusal(
        &mut self,
        client: &mut Client,
        now: Time,
        refusal: Refusal,
        touched: &BTreeSet<BlobName>,
    ) -> Next {
        if is_final(refusal) {
            return Next::Ends;
        }
        self.tries += 1;
        self.conflicts += u32::from(refusal == Refusal::Conflict);
        // Who refuses for another reason has enough to do.
        if refusal == Refusal::Conflict && self.conflicts >= CONFLICTS_MAX {
            self.stage = Stage::Reserving(client.reserve(now, touched));
            return Next::Reserves;
        }
        let longest = PAUSE_MIN << self.tries.min(DOUBLINGS_MAX);
        self.stage = Stage::Pausing(now.after(self.draw(longest)));
        Next::Again
    }

    /// Takes what the client was told, if it concerns the next try.
    pub fn handle(&mut self, event: &mut Event) -> bool {
        match (&self.stage, event) {
            (Stage::Reserving(asked), Event::Frozen(told, blobs)) if asked == told => {
                self.stage = Stage::Reserved(*asked, core::mem::take(blobs));
                true
            }
            // The next try is told what it may not do.
            (Stage::Reserving(asked), Event::Denied(told)) if asked == told => {
                self.stage = Stage::Ready;
                true
            }
            _ => false,
        }
    }

    /// Wants no further try.
    pub fn end(&mut self, client: &mut Client) {
        if let Stage::Reserving(asked) | Stage::Reserved(asked, _) = self.stage {
            client.let_go(asked);
        }
        self.stage = Stage::Ready;
    }

    /// A number below a bound: xorshift64 (G. Marsaglia, "Xorshift RNGs", 2003).
    fn draw(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound.max(1)
    }
}
