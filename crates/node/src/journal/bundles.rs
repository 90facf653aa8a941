//! The bundles of a journal that are on the disk, and which of them a restart still needs.
//!
//! Bundles are numbered as they are written, and go from the front only: so a cut outlives the entries that it has ended, and what a restart
//! reads is what was logged, from some point on. A partition that logs little therefore keeps the bundles of all others since its oldest
//! entry; when that is too much it is checkpointed, and what its log still has is logged anew ([`Bundles::oldest`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tyr_proto::PartitionId;

/// What the bundles of a journal have.
#[derive(Debug, Default)]
pub struct Bundles {
    next: u64,
    /// Those that are there, from the first one on, each with its bytes.
    kept: VecDeque<(u64, u64)>,
    size: u64,
    /// Bytes of entries that are needed, about.
    needed: u64,
    /// Where those are.
    spans: BTreeMap<PartitionId, VecDeque<Span>>,
    /// The first bundle of each partition.
    firsts: BTreeSet<(u64, PartitionId)>,
}

/// Entries of a partition that are next to each other in one bundle.
#[derive(Debug)]
struct Span {
    bundle: u64,
    first: u64,
    last: u64,
    size: u64,
}

/// What becomes of a log when a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It has an entry more, of so many bytes.
    Entry(PartitionId, u64, u64),
    /// It has none after this one any more.
    Cut(PartitionId, u64),
    /// Those up to this one are not needed any more.
    Start(PartitionId, u64),
}

impl Bundles {
    /// The number of the next bundle.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of all that are there.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of the entries that are needed, about.
    pub fn needed(&self) -> u64 {
        self.needed
    }

    /// The bundle with the next number was written, or found.
    pub fn push(&mut self, size: u64) {
        self.kept.push_back((self.next, size));
        self.size += size;
        self.next += 1;
    }

    /// The first bundle that was found has this number.
    pub fn begin_at(&mut self, number: u64) {
        self.next = number;
    }

    /// Takes note of what a transaction does to logs, in its order. Its bundle, if it has one, is the last that was pushed.
    pub fn note(&mut self, note: Note) {
        let (Note::Entry(partition, ..) | Note::Cut(partition, _) | Note::Start(partition, _)) = note;
        let spans = self.spans.entry(partition).or_default();
        let first = spans.front().map(|span| span.bundle);
        match note {
            Note::Entry(_, index, size) => {
                let bundle = self.next - 1;
                self.needed += size;
                match spans.back_mut().filter(|span| span.bundle == bundle && span.last + 1 == index) {
                    Some(span) => (span.last, span.size) = (index, span.size + size),
                    None => spans.push_back(Span { bundle, first: index, last: index, size }),
                }
            }
            Note::Cut(_, last) => {
                while let Some(span) = spans.pop_back_if(|span| span.first > last) {
                    self.needed -= span.size;
                }
                if let Some(span) = spans.back_mut() {
                    span.last = span.last.min(last);
                }
            }
            Note::Start(_, start) => {
                while let Some(span) = spans.pop_front_if(|span| span.last <= start) {
                    self.needed -= span.size;
                }
            }
        }
        let now = spans.front().map(|span| span.bundle);
        if first != now {
            first.map(|bundle| self.firsts.remove(&(bundle, partition)));
            now.map(|bundle| self.firsts.insert((bundle, partition)));
        }
    }

    /// The partition that needs the oldest bundle, if any is needed.
    pub fn oldest(&self) -> Option<PartitionId> {
        self.firsts.first().map(|(_, partition)| *partition)
    }

    /// The next that nobody needs, to be deleted.
    pub fn pop_needless(&mut self) -> Option<(u64, u64)> {
        let first_needed = self.firsts.first().map_or(u64::MAX, |(bundle, _)| *bundle);
        let (_, size) = *self.kept.front().filter(|(bundle, _)| *bundle < first_needed)?;
        self.size -= size;
        self.kept.pop_front()
    }

    /// They could not be deleted: they are there still.
    pub fn put_back(&mut self, popped: Vec<(u64, u64)>) {
        for (bundle, size) in popped.into_iter().rev() {
            self.size += size;
            self.kept.push_front((bundle, size));
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

    fn needless(bundles: &mut Bundles) -> Vec<u64> {
        std::iter::from_fn(|| bundles.pop_needless()).map(|(bundle, _)| bundle).collect()
    }

    /// Bundles of ten bytes, each with such notes.
    fn written(transactions: &[&[Note]]) -> Bundles {
        let mut bundles = Bundles::default();
        for notes in transactions {
            bundles.push(10);
            notes.iter().for_each(|note| bundles.note(*note));
        }
        bundles
    }

    #[test]
    fn a_bundle_is_needed_as_long_as_a_partition_needs_an_entry_of_it_or_of_an_earlier_one() {
        let (one, two) = (partition(1), partition(2));
        let mut bundles = written(&[
            &[Note::Entry(one, 1, 3), Note::Entry(two, 1, 3), Note::Entry(one, 2, 3)],
            &[Note::Entry(one, 3, 3)],
            &[Note::Entry(two, 2, 3)],
        ]);
        bundles.note(Note::Start(one, 3));
        assert_eq!((needless(&mut bundles), bundles.oldest(), bundles.size()), (vec![], Some(two), 30));
        bundles.note(Note::Start(two, 1));
        assert_eq!((needless(&mut bundles), bundles.oldest(), bundles.size()), (vec![0, 1], Some(two), 10));
        bundles.note(Note::Start(two, 2));
        assert_eq!((needless(&mut bundles), bundles.oldest(), bundles.size()), (vec![2], None, 0));
    }

    #[test]
    fn entries_that_were_cut_need_no_bundle_but_those_in_their_place_do() {
        let one = partition(1);
        let mut bundles = written(&[
            &[Note::Entry(one, 1, 3), Note::Entry(one, 2, 3)],
            &[Note::Entry(one, 3, 3), Note::Entry(one, 4, 3)],
            &[Note::Cut(one, 1), Note::Entry(one, 2, 3)],
        ]);
        bundles.note(Note::Start(one, 1));
        assert_eq!(needless(&mut bundles), [0, 1]);
        bundles.note(Note::Start(one, 2));
        assert_eq!(needless(&mut bundles), [2]);
    }

    #[test]
    fn what_could_not_be_deleted_is_there_still() {
        let one = partition(1);
        let mut bundles = written(&[&[Note::Entry(one, 1, 3)], &[Note::Entry(one, 2, 3)]]);
        bundles.note(Note::Start(one, 2));
        let popped = std::iter::from_fn(|| bundles.pop_needless()).collect();
        bundles.put_back(popped);
        assert_eq!((bundles.size(), needless(&mut bundles)), (20, vec![0, 1]));
    }
}
