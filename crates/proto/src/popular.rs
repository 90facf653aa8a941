//! Which blobs are asked for most, in bounded memory: the *Space-Saving* summary of Metwally, Agrawal, and El Abbadi (2005) over the
//! present window of time, and what the one before it has left.
//!
//! A blob that is asked for more often than the least counted of a full summary takes that one's place and its count, so counts are
//! never too low, and too high by at most the requests of a window divided by the blobs that are counted.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{BlobName, Time};

/// Counts of what was asked for in the last two windows.
#[derive(Debug, Default)]
pub struct Popular {
    now: Summary,
    before: Summary,
    began: Time,
}

/// How long a window is, in microseconds.
pub const WINDOW: u64 = 1_000_000;
/// What was asked for less often in two windows is not popular.
const POPULAR_MIN: u64 = 3;

impl Popular {
    /// Notes a request, and returns whether the blob is among the `most` popular ones.
    pub fn note(&mut self, now: Time, blob: &BlobName, most: usize) -> bool {
        self.turn(now);
        self.now.note(blob, most);
        self.contains(blob)
    }

    /// Whether a blob is among those that were asked for most.
    pub fn contains(&self, blob: &BlobName) -> bool {
        self.now.count(blob) + self.before.count(blob) >= POPULAR_MIN
    }

    /// Begins a window if the present one is over.
    pub fn turn(&mut self, now: Time) {
        let gone = now.since(self.began);
        if gone >= WINDOW {
            let last = core::mem::take(&mut self.now);
            self.before = if gone < 2 * WINDOW { last } else { Summary::default() };
            self.began = now;
        }
    }
}

/// Invariant: `order` holds every blob of `counts` with its count.
#[derive(Debug, Default)]
struct Summary {
    counts: BTreeMap<BlobName, u64>,
    order: BTreeSet<(u64, BlobName)>,
}

impl Summary {
    fn count(&self, blob: &BlobName) -> u64 {
        self.counts.get(blob).copied().unwrap_or(0)
    }

    fn note(&mut self, blob: &BlobName, most: usize) {
        let mut count = self.count(blob);
        if count > 0 {
            self.order.remove(&(count, blob.clone()));
        } else if self.counts.len() >= most {
            let Some((least, replaced)) = self.order.pop_first() else { return };
            self.counts.remove(&replaced);
            count = least;
        }
        self.counts.insert(blob.clone(), count + 1);
        self.order.insert((count + 1, blob.clone()));
    }
}

#[cfg(test)]
mod tests;
