//! A partition's log as a replica holds it in memory: its end, and what its epochs were.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use tyr_types::Number;

use crate::{
    Epoch,
    canary::{Canary, planted},
    entry::Entry,
};

/// The entries of a log. Indexes count from 1; what is before `start` has been folded into the state and dropped.
///
/// Two logs that hold an entry of the same epoch at the same index are equal up to there: one primary wrote the entries of an epoch,
/// in order, after what it had.
#[derive(Clone, Debug, Default)]
pub struct Log {
    start: u64,
    entries: VecDeque<(Epoch, Arc<Entry>)>,
    epochs: Vec<(Epoch, u64)>,
    /// That of the entries together.
    breadth: usize,
    size: usize,
}

impl Log {
    /// A log whose entries up to `start` are not here, but known by their epochs.
    pub fn after(start: u64, epochs: Vec<(Epoch, u64)>) -> Self {
        Log { start, entries: VecDeque::new(), epochs, breadth: 0, size: 0 }
    }

    /// The index of the last entry; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.start + self.entries.len() as u64
    }

    /// The index after which entries are here.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Each epoch with the index of its last entry, ascending.
    pub fn epochs(&self) -> &[(Epoch, u64)] {
        &self.epochs
    }

    /// As [`Log::epochs`], of a log that ends with `last`.
    pub fn epochs_up_to(&self, last: u64) -> Vec<(Epoch, u64)> {
        cut_epochs(&self.epochs, last)
    }

    /// Adds an entry and returns its index.
    pub fn push(&mut self, epoch: Epoch, entry: Arc<Entry>) -> u64 {
        self.breadth += entry.breadth();
        self.size += entry.size();
        self.entries.push_back((epoch, entry));
        let last = self.last();
        match self.epochs.last_mut() {
            Some((same, end)) if *same == epoch => *end = last,
            _ => self.epochs.push((epoch, last)),
        }
        last
    }

    /// An entry that is here, with its epoch.
    pub fn entry(&self, index: u64) -> Option<(Epoch, Arc<Entry>)> {
        let place = index.checked_sub(self.start + 1)?;
        self.entries.get(usize::try_from(place).ok()?).cloned()
    }

    /// The epoch of an entry, here or dropped.
    pub fn epoch_at(&self, index: u64) -> Option<Epoch> {
        if index == 0 {
            return None;
        }
        self.epochs.iter().find(|(_, end)| index <= *end).map(|(epoch, _)| *epoch)
    }

    /// Whether the entry that gave out a number is part of this log.
    pub fn contains(&self, number: Number) -> bool {
        let is_of = |epoch: Epoch| u64::from(epoch.0) == number.epoch() || planted(Canary::NumbersReused);
        self.epoch_at(number.index()).is_some_and(is_of)
    }

    /// Drops everything after an index.
    pub fn cut(&mut self, last: u64) {
        let keep = usize::try_from(last.saturating_sub(self.start)).unwrap_or(usize::MAX);
        for (_, entry) in self.entries.drain(keep.min(self.entries.len())..) {
            self.breadth -= entry.breadth();
            self.size -= entry.size();
        }
        self.epochs = cut_epochs(&self.epochs, last);
    }

    /// Drops everything up to an index: it is folded into the state for good.
    pub fn trim(&mut self, start: u64) {
        while self.start < start
            && let Some((_, entry)) = self.entries.pop_front()
        {
            self.start += 1;
            self.breadth -= entry.breadth();
            self.size -= entry.size();
        }
    }

    /// [How many heads and chunks](Entry::breadth) the entries that are here are about.
    pub fn breadth(&self) -> usize {
        self.breadth
    }

    /// [How many bytes](Entry::size) the entries that are here take, about.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The index after which at most so many entries are, that are about no more than so many heads and chunks and take no more than so many
    /// bytes together.
    pub fn light_end(&self, entries: u64, breadth: usize, size: usize) -> u64 {
        let first = self.last().saturating_sub(entries).max(self.start);
        let (mut end, mut left) = (self.last(), (breadth, size));
        while end > first
            && let Some((_, entry)) = self.entry(end)
            && let Some(rest) = left.0.checked_sub(entry.breadth()).zip(left.1.checked_sub(entry.size()))
        {
            (end, left) = (end - 1, rest);
        }
        end
    }

    /// The last index up to which this log equals one with the given epochs.
    pub fn common_with(&self, epochs: &[(Epoch, u64)]) -> u64 {
        let end_of = |epoch: Epoch| self.epochs.iter().find(|(own, _)| *own == epoch).map(|(_, end)| *end);
        let common = epochs.iter().filter_map(|(epoch, end)| Some(end_of(*epoch)?.min(*end)));
        common.max().unwrap_or(0)
    }
}

/// The epochs of a log that is cut after an index.
fn cut_epochs(epochs: &[(Epoch, u64)], last: u64) -> Vec<(Epoch, u64)> {
    let mut kept = Vec::new();
    let mut before = 0;
    for (epoch, end) in epochs {
        if before < last {
            kept.push((*epoch, (*end).min(last)));
        }
        before = *end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(epochs: &[u32]) -> Log {
        let mut log = Log::default();
        for epoch in epochs {
            log.push(Epoch(*epoch), Arc::new(Entry::Marker));
        }
        log
    }

    #[test]
    fn logs_agree_up_to_the_last_entry_of_a_shared_epoch() {
        let one = log(&[1, 1, 1, 1]);
        assert_eq!(one.common_with(log(&[1, 1]).epochs()), 2);
        assert_eq!(one.common_with(log(&[1, 1, 2, 2]).epochs()), 2);
        assert_eq!(log(&[1, 1, 3]).common_with(log(&[1, 1, 1, 2]).epochs()), 2);
        assert_eq!(log(&[3]).common_with(one.epochs()), 0);
    }

    #[test]
    fn a_cut_log_has_the_epochs_of_what_is_left() {
        let mut cut = log(&[1, 1, 2, 3]);
        cut.cut(2);
        assert_eq!((cut.last(), cut.epochs()), (2, &[(Epoch(1), 2)][..]));
        assert!(cut.contains(Number::new(1, 2)) && !cut.contains(Number::new(2, 3)));
        cut.push(Epoch(4), Arc::new(Entry::Marker));
        assert!(!cut.contains(Number::new(2, 3)) && cut.contains(Number::new(4, 3)));
    }
}
