//! The records of a journal that are on the disk, and which of them a restart still needs.
//!
//! Records are numbered as they are written, and go from the front only: so a cut outlives the entries that it has ended, and what a restart
//! reads is what was logged, from some point on. A partition that logs little therefore keeps the records of all others since its oldest
//! entry; when that is too much it is time for its checkpoint ([`Records::oldest`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tyr_proto::PartitionId;

/// What the records of a journal have.
#[derive(Debug, Default)]
pub struct Records {
    next: u64,
    /// Those that are there, from the first one on, each with its bytes.
    kept: VecDeque<(u64, u64)>,
    size: u64,
    /// Where the entries that are needed are.
    spans: BTreeMap<PartitionId, VecDeque<Span>>,
    /// The first record of each partition.
    firsts: BTreeSet<(u64, PartitionId)>,
}

/// Entries of a partition that are next to each other in one record.
#[derive(Debug)]
struct Span {
    record: u64,
    first: u64,
    last: u64,
}

/// What becomes of a log when a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It has an entry more.
    Entry(PartitionId, u64),
    /// It has none after this one any more.
    Cut(PartitionId, u64),
    /// Those up to this one are not needed any more.
    Start(PartitionId, u64),
}

impl Records {
    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of all that are there.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The record with the next number was written, or found.
    pub fn push(&mut self, size: u64) {
        self.kept.push_back((self.next, size));
        self.size += size;
        self.next += 1;
    }

    /// The first record that was found has this number.
    pub fn begin_at(&mut self, number: u64) {
        self.next = number;
    }

    /// Takes note of what a transaction does to logs, in its order. Its record, if it has one, is the last that was pushed.
    pub fn note(&mut self, note: Note) {
        let (Note::Entry(partition, _) | Note::Cut(partition, _) | Note::Start(partition, _)) = note;
        let spans = self.spans.entry(partition).or_default();
        let first = spans.front().map(|span| span.record);
        match note {
            Note::Entry(_, index) => {
                let record = self.next - 1;
                match spans.back_mut().filter(|span| span.record == record && span.last + 1 == index) {
                    Some(span) => span.last = index,
                    None => spans.push_back(Span { record, first: index, last: index }),
                }
            }
            Note::Cut(_, last) => {
                while spans.back().is_some_and(|span| span.first > last) {
                    spans.pop_back();
                }
                if let Some(span) = spans.back_mut() {
                    span.last = span.last.min(last);
                }
            }
            Note::Start(_, start) => {
                while spans.front().is_some_and(|span| span.last <= start) {
                    spans.pop_front();
                }
            }
        }
        let now = spans.front().map(|span| span.record);
        if first != now {
            first.map(|record| self.firsts.remove(&(record, partition)));
            now.map(|record| self.firsts.insert((record, partition)));
        }
    }

    /// The partition that needs the oldest record, if any is needed.
    pub fn oldest(&self) -> Option<PartitionId> {
        self.firsts.first().map(|(_, partition)| *partition)
    }

    /// The next that nobody needs, to be deleted.
    pub fn pop_needless(&mut self) -> Option<(u64, u64)> {
        let first_needed = self.firsts.first().map_or(u64::MAX, |(record, _)| *record);
        let (_, size) = *self.kept.front().filter(|(record, _)| *record < first_needed)?;
        self.size -= size;
        self.kept.pop_front()
    }

    /// They could not be deleted: they are there still.
    pub fn put_back(&mut self, popped: Vec<(u64, u64)>) {
        for (record, size) in popped.into_iter().rev() {
            self.size += size;
            self.kept.push_front((record, size));
        }
    }
}

#[cfg(test)]
mod tests {
    use tyr_proto::ClassId;

    use super::*;

    fn partition(index: u32) -> PartitionId {
        PartitionId { class: ClassId(0), index }
    }

    fn needless(records: &mut Records) -> Vec<u64> {
        std::iter::from_fn(|| records.pop_needless()).map(|(record, _)| record).collect()
    }

    /// Records of ten bytes, each with such notes.
    fn written(transactions: &[&[Note]]) -> Records {
        let mut records = Records::default();
        for notes in transactions {
            records.push(10);
            notes.iter().for_each(|note| records.note(*note));
        }
        records
    }

    #[test]
    fn a_record_is_needed_as_long_as_a_partition_needs_an_entry_of_it_or_of_an_earlier_one() {
        let (one, two) = (partition(1), partition(2));
        let mut records = written(&[
            &[Note::Entry(one, 1), Note::Entry(two, 1), Note::Entry(one, 2)],
            &[Note::Entry(one, 3)],
            &[Note::Entry(two, 2)],
        ]);
        records.note(Note::Start(one, 3));
        assert_eq!((needless(&mut records), records.oldest(), records.size()), (vec![], Some(two), 30));
        records.note(Note::Start(two, 1));
        assert_eq!((needless(&mut records), records.oldest(), records.size()), (vec![0, 1], Some(two), 10));
        records.note(Note::Start(two, 2));
        assert_eq!((needless(&mut records), records.oldest(), records.size()), (vec![2], None, 0));
    }

    #[test]
    fn entries_that_were_cut_need_no_record_but_those_in_their_place_do() {
        let one = partition(1);
        let mut records = written(&[
            &[Note::Entry(one, 1), Note::Entry(one, 2)],
            &[Note::Entry(one, 3), Note::Entry(one, 4)],
            &[Note::Cut(one, 1), Note::Entry(one, 2)],
        ]);
        records.note(Note::Start(one, 1));
        assert_eq!(needless(&mut records), [0, 1]);
        records.note(Note::Start(one, 2));
        assert_eq!(needless(&mut records), [2]);
    }

    #[test]
    fn what_could_not_be_deleted_is_there_still() {
        let one = partition(1);
        let mut records = written(&[&[Note::Entry(one, 1)], &[Note::Entry(one, 2)]]);
        records.note(Note::Start(one, 2));
        let popped = std::iter::from_fn(|| records.pop_needless()).collect();
        records.put_back(popped);
        assert_eq!((records.size(), needless(&mut records)), (20, vec![0, 1]));
    }
}
