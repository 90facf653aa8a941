//! What happens when: in the order of time, and at one time in the order in which it was added.

use std::collections::BTreeMap;

/// Things that are going to happen, by their times, all in one unit.
#[derive(Debug)]
pub struct Schedule<T> {
    added: u64,
    things: BTreeMap<(u64, u64), T>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Schedule { added: 0, things: BTreeMap::new() }
    }
}

impl<T> Schedule<T> {
    /// Adds something that happens at a time.
    pub fn add(&mut self, at: u64, thing: T) {
        self.added += 1;
        self.things.insert((at, self.added), thing);
    }

    /// When the first thing happens.
    pub fn next(&self) -> Option<u64> {
        self.things.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first thing, if it happens by then.
    pub fn pop_by(&mut self, end: u64) -> Option<T> {
        let first = self.things.first_entry().filter(|first| first.key().0 <= end);
        first.map(|first| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_first_happens_first_at_one_time() {
        let mut schedule = Schedule::default();
        for (at, thing) in [(7, "c"), (3, "a"), (7, "d"), (3, "b")] {
            schedule.add(at, thing);
        }
        assert_eq!((schedule.next(), schedule.pop_by(2)), (Some(3), None));
        let order: Vec<_> = std::iter::from_fn(|| schedule.pop_by(7)).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
