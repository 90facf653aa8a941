//! Writers wait for room: the more of the disk holds what nobody can read any more, the more of them wait for a step of maintenance.
//!
//! Without this, writers that overwrite faster than space is reclaimed would fill any disk. Nobody waits unless a step is
//! being done at that moment, so that nobody waits for what never comes.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// How crowded the disk is, and the step that is being done about it.
#[derive(Debug, Default)]
pub struct Pace {
    /// So many of [`ALL`] transactions wait.
    crowding: AtomicU64,
    turn: AtomicU64,
    step: Mutex<Step>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Step {
    /// How many threads do one.
    under_way: u32,
    /// How many have been done.
    done: u64,
}

/// What files use. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Of files, with those that are kept for recycling.
    pub files: u64,
    /// What of them is live.
    pub live: u64,
    /// What files may use however little is live.
    pub slack: u64,
    /// What is free on the device.
    pub free: u64,
}

/// A step of maintenance that is being done; it ends when this is dropped.
#[derive(Debug)]
pub struct Working<'a>(&'a Pace);

/// Transactions of which some wait.
const ALL: u64 = 16;

/// A device is about to be full if so much as this part of what is live is not free.
const SCARCE: u64 = 4;

impl Pace {
    /// Begins a step.
    pub fn begin(&self) -> Working<'_> {
        self.step.lock().under_way += 1;
        Working(self)
    }

    /// Notes what files use. Nobody waits until that is as much as [`Use::soft`] says; everybody waits when it is twice that.
    pub fn note(&self, now: Use) {
        let soft = now.soft();
        let crowding = now.files.saturating_sub(soft).saturating_mul(ALL) / soft.max(1);
        self.crowding.store(crowding.min(ALL), Ordering::Relaxed);
    }

    /// Whether it is the caller's turn to wait for the end of a step, if one is under way.
    pub fn is_to_wait(&self) -> bool {
        let crowding = self.crowding.load(Ordering::Relaxed);
        crowding > 0 && self.turn.fetch_add(1, Ordering::Relaxed) % ALL < crowding
    }

    /// Waits until a step ends, if one is under way.
    pub fn wait(&self) {
        let mut step = self.step.lock();
        let seen = step.done;
        while step.under_way > 0 && step.done == seen {
            self.ended.wait(&mut step);
        }
    }
}

impl Use {
    /// As much as files may use before writers wait: twice what is live, and the slack.
    fn soft(self) -> u64 {
        2 * self.live + self.slack
    }

    /// Whether it is time to move what is live together. To do so as soon as a segment is half dead would move what is about to die, again and
    /// again: with time most segments empty themselves. So files may use half of what they may before writers wait, beyond what is live,
    /// unless the device is about to be full.
    pub fn is_wasteful(self) -> bool {
        self.files > self.live + (self.soft() - self.live) / 2 || self.free < self.live / SCARCE
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut step = self.0.step.lock();
        step.under_way -= 1;
        step.done += 1;
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn using(files: u64, live: u64, slack: u64) -> Use {
        Use { files, live, slack, free: u64::MAX }
    }

    fn waiting(pace: &Pace) -> usize {
        (0..ALL).filter(|_| pace.is_to_wait()).count()
    }

    #[test]
    fn the_more_crowded_the_more_wait() {
        let pace = Pace::default();
        assert_eq!(waiting(&pace), 0);
        pace.note(using(300, 100, 100));
        assert_eq!(waiting(&pace), 0);
        pace.note(using(450, 100, 100));
        assert_eq!(waiting(&pace), 8);
        pace.note(using(10_000, 100, 100));
        assert_eq!(waiting(&pace), 16);
        pace.note(using(0, 0, 0));
        assert_eq!(waiting(&pace), 0);
    }

    #[test]
    fn waste_is_stopped_halfway_to_where_writers_wait_and_before_the_device_is_full() {
        assert!(!using(200, 100, 100).is_wasteful());
        assert!(using(201, 100, 100).is_wasteful());
        let last = |free| Use { free, ..using(150, 100, 100) };
        assert!(!last(25).is_wasteful());
        assert!(last(24).is_wasteful());
    }

    #[test]
    fn nobody_waits_for_a_step_that_is_not_being_done() {
        let pace = Pace::default();
        drop(pace.begin());
        pace.wait();
    }

    #[test]
    fn who_waits_goes_on_when_the_step_ends() {
        let pace = Pace::default();
        let working = pace.begin();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| pace.wait());
            drop(working);
            waiter.join().expect("it does not panic");
        });
        assert_eq!(pace.step.lock().done, 1);
    }
}
