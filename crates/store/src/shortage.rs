//! Room on the device that some work did not find: it is not tried again before that can have changed.
//!
//! Whoever maintains a store calls again and again, and so does whoever commits what waits. Each try of what has no room would write a file
//! as far as it gets, and remove it, or encode a transaction for nothing.
//! What fails for want of space though the device has enough (a quota, for instance) is tried whenever it is its turn.

use std::sync::atomic::Ordering;

use tyr_types::{Error, ErrorKind, Result};

use crate::{log::LogPosition, store::Store};

/// What was known before a try that failed for want of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// Bytes that were free on the device.
    free: u64,
    /// Bytes of objects that the index did not have.
    dirty: u64,
    /// Bytes that had been written to the log since opening.
    log_bytes: u64,
}

/// All that a commit could have used. As long as it is the same, what found no room finds none, nor does a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhaustion {
    free: u64,
    stock: (usize, usize, bool),
    position: LogPosition,
    bulk_bytes: u64,
}

impl Store {
    /// What is left for a commit that has found no room. `None` if the device has enough, so that it was something else.
    pub fn exhaustion(&self) -> Option<Exhaustion> {
        let free = self.disk.space().ok()?.free;
        let bulk_bytes = self.log.counters().bulk_bytes.load(Ordering::Relaxed);
        let (stock, position) = (self.segments.stock(), self.log.position());
        let is_short = free < SLACK_SEGMENTS * u64::from(self.segments.capacity());
        is_short.then_some(Exhaustion { free, stock, position, bulk_bytes })
    }

    /// What there will have been a shortage of, should what needs at most so many bytes find no room now; `None` if there is enough.
    pub(crate) fn expected_shortage(&self, needed: u64) -> Option<Shortage> {
        let slack = SLACK_SEGMENTS * u64::from(self.segments.capacity());
        self.shortage().filter(|shortage| shortage.free < needed.saturating_add(slack))
    }

    /// Fails if what found no room surely would find none again: nothing has been given back since, there is not less to write, and
    /// little has been done.
    pub(crate) fn check_room(&self, lacked: Option<Shortage>) -> Result<()> {
        let Some((then, now)) = lacked.zip(self.shortage()) else { return Ok(()) };
        let has_changed = now.free > then.free
            || now.dirty < then.dirty
            || now.log_bytes > then.log_bytes + self.options.checkpoint_size;
        if has_changed {
            return Ok(());
        }
        Err(Error::full(
            "there was no room to write the index, and nothing has changed since; free space on the device, or delete blobs and run 'tyr compact', then try again",
        ))
    }

    fn shortage(&self) -> Option<Shortage> {
        let free = self.disk.space().ok()?.free;
        let log_bytes = self.log.counters().log_bytes.load(Ordering::Relaxed);
        Some(Shortage { free, dirty: self.dirty_bytes(), log_bytes })
    }
}

/// The shortage that was expected, if that is what a try has met.
pub(crate) fn met<T>(result: &Result<T>, expected: Option<Shortage>) -> Option<Shortage> {
    expected.filter(|_| result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full))
}

/// So many segments beside what is to be written: what other work takes and gives back meanwhile.
const SLACK_SEGMENTS: u64 = 8;
