//! When to say again what was said and not answered.

use crate::Time;

/// How often something was said, and when last. Each time without an answer the next is waited for twice as long: what is not answered
/// may just as well wait its turn, and saying it again makes that wait longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tries {
    at: Time,
    count: u32,
}

/// The wait doubles so many times.
const DOUBLINGS_MAX: u32 = 4;

impl Tries {
    /// Said for the first time, or to somebody else, or with progress since.
    pub fn first(at: Time) -> Self {
        Tries { at, count: 0 }
    }

    /// Whether it is to be said again, which the first time it is after `after` microseconds.
    pub fn is_due(self, now: Time, after: u64) -> bool {
        now.since(self.at) >= self.wait(after)
    }

    /// It is said again.
    pub fn again(&mut self, at: Time) {
        (self.at, self.count) = (at, self.count.saturating_add(1));
    }

    /// The wait for an answer begins anew.
    pub fn waits_from(&mut self, at: Time) {
        self.at = at;
    }

    /// For how many microseconds an answer is waited for.
    fn wait(self, after: u64) -> u64 {
        after << self.count.min(DOUBLINGS_MAX)
    }

    /// How often it was said again.
    pub fn count(self) -> u32 {
        self.count
    }

    /// From when on it is due.
    pub fn due_at(self, after: u64) -> Time {
        self.at.after(self.wait(after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_as_long_up_to_a_bound() {
        let mut tries = Tries::first(Time(100));
        let mut waits = alloc::vec::Vec::new();
        for _ in 0..6 {
            let (said_at, due_at) = (tries.at, tries.due_at(10));
            assert!(!tries.is_due(Time(due_at.0 - 1), 10) && tries.is_due(due_at, 10));
            waits.push(due_at.since(said_at));
            tries.again(due_at);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 160]);
    }
}
