//! The bundles of a journal that are on the disk, and which of them a restart still needs.
//!
//! Bundles are numbered as they are written, and go from the front only: so a cut outlives the entries that it has ended, and what a restart
//! reads is what was logged, from some point on. A partition that logs little therefore keeps the bundles of all others since its oldest
//! entry; when that is too much it is checkpointed, and what its log still has is logged anew ([`Bundles::oldest`]). What is too much is weighed,
//! since each bundle costs the store something however small it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tyr_proto::PartitionId;

/// What the bundles of a journal have.
#[derive(Debug)]
pub struct Bundles {
    /// What one costs beside its bytes: it is a blob of its own, which the store moves whenever it moves what lies beside it.
    each: u64,
    next: u64,
    /// Those that are there, from the first one on.
    kept: VecDeque<Bundle>,
    weight: u64,
    /// What entries that are needed weigh, with their bundles.
    needed: u64,
    /// Where those are.
    spans: BTreeMap<PartitionId, VecDeque<Span>>,
    /// The first bundle of each partition.
    firsts: BTreeSet<(u64, PartitionId)>,
}

/// A bundle that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Its number.
    pub number: u64,
    /// Its bytes.
    size: u64,
    /// Entries of so many logs are needed of it, or so many pieces of logs.
    spans: u32,
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
    /// None yet; each weighs so much beside its bytes.
    pub fn new(each: u64) -> Bundles {
        Bundles {
            each,
            next: 0,
            kept: VecDeque::new(),
            weight: 0,
            needed: 0,
            spans: BTreeMap::new(),
            firsts: BTreeSet::new(),
        }
    }

    /// The number of the next bundle.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// What all that are there weigh.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// What of that is needed, about.
    pub fn needed(&self) -> u64 {
        self.needed
    }

    /// The bundle with the next number was written, or found.
    pub fn push(&mut self, size: u64) {
        self.kept.push_back(Bundle { number: self.next, size, spans: 0 });
        self.weight += size + self.each;
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
                    None => {
                        spans.push_back(Span { bundle, first: index, last: index, size });
                        self.needed += self.each * u64::from(count_span(&mut self.kept, bundle));
                    }
                }
            }
            Note::Cut(_, last) => {
                while let Some(span) = spans.pop_back_if(|span| span.first > last) {
                    let is_last = discount_span(&mut self.kept, span.bundle);
                    self.needed -= span.size + self.each * u64::from(is_last);
                }
                if let Some(span) = spans.back_mut() {
                    span.last = span.last.min(last);
                }
            }
            Note::Start(_, start) => {
                while let Some(span) = spans.pop_front_if(|span| span.last <= start) {
                    let is_last = discount_span(&mut self.kept, span.bundle);
                    self.needed -= span.size + self.each * u64::from(is_last);
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
    pub fn pop_needless(&mut self) -> Option<Bundle> {
        let first_needed = self.firsts.first().map_or(u64::MAX, |(bundle, _)| *bundle);
        let popped = self.kept.pop_front_if(|bundle| bundle.number < first_needed)?;
        self.weight -= popped.size + self.each;
        Some(popped)
    }

    /// They could not be deleted: they are there still.
    pub fn put_back(&mut self, popped: Vec<Bundle>) {
        for bundle in popped.into_iter().rev() {
            self.weight += bundle.size + self.each;
            self.kept.push_front(bundle);
        }
    }
}

/// Notes that entries of a bundle are needed; whether none of it was.
fn count_span(kept: &mut VecDeque<Bundle>, number: u64) -> bool {
    let Some(bundle) = find(kept, number) else { return false };
    bundle.spans += 1;
    bundle.spans == 1
}

/// Notes that some of these are not needed; whether none of it is now.
fn discount_span(kept: &mut VecDeque<Bundle>, number: u64) -> bool {
    let Some(bundle) = find(kept, number) else { return false };
    bundle.spans -= 1;
    bundle.spans == 0
}

/// One that is there. They are numbered without gaps.
fn find(kept: &mut VecDeque<Bundle>, number: u64) -> Option<&mut Bundle> {
    let first = kept.front()?.number;
    kept.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
}

#[cfg(test)]
mod tests {
    use tyr_proto::ClassId;

    use super::*;

    const EACH: u64 = 100;

    fn partition(index: u32) -> PartitionId {
        PartitionId { class: ClassId(0), index }
    }

    fn needless(bundles: &mut Bundles) -> Vec<u64> {
        std::iter::from_fn(|| bundles.pop_needless()).map(|bundle| bundle.number).collect()
    }

    /// What so many bundles of ten bytes weigh.
    fn weight(bundles: u64) -> u64 {
        bundles * (10 + EACH)
    }

    /// Bundles of ten bytes, each with such notes.
    fn written(transactions: &[&[Note]]) -> Bundles {
        let mut bundles = Bundles::new(EACH);
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
        assert_eq!(
            (needless(&mut bundles), bundles.oldest(), bundles.weight()),
            (vec![], Some(two), weight(3))
        );
        bundles.note(Note::Start(two, 1));
        assert_eq!(
            (needless(&mut bundles), bundles.oldest(), bundles.weight()),
            (vec![0, 1], Some(two), weight(1))
        );
        bundles.note(Note::Start(two, 2));
        assert_eq!((needless(&mut bundles), bundles.oldest(), bundles.weight()), (vec![2], None, 0));
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
    fn what_is_needed_weighs_as_many_bundles_as_it_is_in() {
        let (one, two) = (partition(1), partition(2));
        let mut bundles = written(&[
            &[Note::Entry(one, 1, 3), Note::Entry(two, 1, 4), Note::Entry(one, 2, 3)],
            &[Note::Entry(one, 3, 3)],
            &[Note::Entry(one, 4, 3)],
        ]);
        assert_eq!(bundles.needed(), 16 + 3 * EACH);
        bundles.note(Note::Start(one, 3));
        assert_eq!(bundles.needed(), 7 + 2 * EACH);
        bundles.note(Note::Cut(one, 3));
        assert_eq!(bundles.needed(), 4 + EACH);
        bundles.note(Note::Start(two, 1));
        assert_eq!((bundles.needed(), needless(&mut bundles)), (0, vec![0, 1, 2]));
    }

    #[test]
    fn what_could_not_be_deleted_is_there_still() {
        let one = partition(1);
        let mut bundles = written(&[&[Note::Entry(one, 1, 3)], &[Note::Entry(one, 2, 3)]]);
        bundles.note(Note::Start(one, 2));
        let popped = std::iter::from_fn(|| bundles.pop_needless()).collect();
        bundles.put_back(popped);
        assert_eq!((bundles.weight(), needless(&mut bundles)), (weight(2), vec![0, 1]));
    }
}
