//! A chunk at one replica: writes that wait for their fate, in the order of their numbers, and the versions that they left.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tyr_types::{Number, Seek};

use crate::{
    Outcome, PartitionId, Stretch, TransactionId,
    canary::{Canary, planted},
    content::Content,
    entry::{ChunkOperation, ChunkWrite, Link},
    layout,
    payload::Lost,
};

/// A chunk.
///
/// Invariants: every write up to the last arrival in the head's order has been logged here, or is dead. Writes are applied in the order
/// of their numbers, each once. A version never changes.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Where in the log the last writes were taken, so that cutting it takes them back.
    arrivals: VecDeque<(u64, Number)>,
    pending: BTreeMap<Number, PendingWrite>,
    versions: BTreeMap<Number, Content>,
    collected: Number,
    kept: BTreeSet<Number>,
    /// Where in the log versions were last dropped.
    dropped_at: u64,
    /// The log lost an entry by which versions were dropped here, so that other replicas may still have them: what they were told since.
    told_since_loss: Option<(Number, Vec<Number>)>,
}

/// A write that is logged and not applied.
#[derive(Clone, Debug)]
pub struct PendingWrite {
    /// Its transaction.
    pub id: TransactionId,
    /// Who knows its outcome.
    pub decider: PartitionId,
    /// Where in this partition's log it is.
    pub log_index: u64,
    operations: Vec<ChunkOperation>,
    drops_former: bool,
    outcome: Option<Outcome>,
}

/// What a reader gets of a chunk: its bytes, with zeros where nothing was written, or where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkBytes<T = Vec<u8>> {
    /// The version that was read, what was read of it, and whether all of that was written.
    Found(Number, T, bool),
    /// The version has been collected.
    Expired,
    /// They cannot be read.
    Lost,
}

/// The old value of a transform: which transaction, which of its answers, and the bytes.
pub type Old = (TransactionId, (u16, u16), Arc<[u8]>);

impl Chunk {
    /// Whether the write that a new one follows is here.
    pub fn has_arrived(&self, link: Option<Link>) -> bool {
        link.is_none_or(|link| self.has_passed(link.number))
    }

    /// Whether this number took its place already.
    pub fn has_passed(&self, number: Number) -> bool {
        number <= self.arrived()
    }

    /// An entry of the log that is not before the one by which this number took its place, if it did.
    pub fn passed_at(&self, number: Number) -> Option<u64> {
        self.arrivals.iter().find(|(_, arrived)| *arrived >= number).map(|(index, _)| *index)
    }

    /// The number of the last write that took its place here.
    pub fn last_arrival(&self) -> Number {
        self.arrived()
    }

    fn arrived(&self) -> Number {
        self.arrivals.back().map_or(Number::ZERO, |(_, number)| *number)
    }

    /// Takes a logged write.
    pub fn log(
        &mut self,
        number: Number,
        id: TransactionId,
        decider: PartitionId,
        write: &ChunkWrite,
        log_index: u64,
    ) {
        if self.has_passed(number) {
            return;
        }
        self.arrivals.push_back((log_index, number));
        let (operations, drops_former) = (write.operations.clone(), write.drops_former);
        self.pending
            .insert(number, PendingWrite { id, decider, log_index, operations, drops_former, outcome: None });
    }

    /// Forgets writes that were logged past a place at which the log was cut.
    pub fn cut_log(&mut self, last: u64) {
        while self.arrivals.back().is_some_and(|(index, _)| *index > last) {
            self.arrivals.pop_back();
        }
        self.pending.retain(|_, write| write.log_index <= last);
        if self.dropped_at > last {
            self.told_since_loss = Some((Number::ZERO, Vec::new()));
        }
    }

    /// Whether it says no more than if it were not there.
    pub fn is_blank(&self) -> bool {
        self.arrivals.is_empty() && self.pending.is_empty() && self.versions.is_empty()
    }

    /// Forgets where writes were logged up to an index that the log is never cut before.
    pub fn trim_log(&mut self, start: u64) {
        while self.arrivals.get(1).is_some_and(|(index, _)| *index <= start) {
            self.arrivals.pop_front();
        }
    }

    /// Learns how the transaction of a number ended and applies what has its turn. Returns the old values of transforms.
    pub fn learn(&mut self, number: Number, id: TransactionId, outcome: Outcome) -> Vec<Old> {
        if let Some(write) = self.pending.get_mut(&number).filter(|write| write.id == id) {
            write.outcome = Some(outcome);
        }
        let mut olds = Vec::new();
        while let Some(first) = self.pending.first_entry() {
            let Some(outcome) = first.get().outcome else { break };
            let (number, write) = first.remove_entry();
            if outcome == Outcome::Committed {
                self.apply(number, &write, &mut olds);
            }
        }
        olds
    }

    fn apply(&mut self, number: Number, write: &PendingWrite, olds: &mut Vec<Old>) {
        let mut content =
            self.versions.last_key_value().map(|(_, content)| content.clone()).unwrap_or_default();
        for operation in &write.operations {
            // What is lost ends the node before it says anything that follows from this.
            let Ok(old) = content.apply(operation) else { continue };
            if let (Some(old), ChunkOperation::Transform { answers, .. }) = (old, operation) {
                olds.push((write.id, *answers, old));
            }
        }
        if write.drops_former && !planted(Canary::FormerKept) {
            self.versions.clear();
            self.kept.clear();
            self.collected = number;
        }
        self.versions.insert(number, content);
    }

    /// The number of the last write that is applied.
    pub fn newest(&self) -> Number {
        self.versions.last_key_value().map_or(Number::ZERO, |(number, _)| *number)
    }

    /// Writes that are not applied and whose numbers are at or below one.
    pub fn pending_up_to(&self, number: Number) -> impl Iterator<Item = (Number, &PendingWrite)> {
        self.pending.range(..=number).map(|(number, write)| (*number, write))
    }

    /// Of those, the ones of which it is not known how they ended.
    pub fn undecided_up_to(&self, number: Number) -> impl Iterator<Item = &PendingWrite> {
        self.pending.range(..=number).map(|(_, write)| write).filter(|write| write.outcome.is_none())
    }

    /// The number up to which a reader of a range has to wait: that of the last pending write that touches it.
    pub fn pending_on(&self, range: &Range<u64>) -> Option<Number> {
        let touches =
            |write: &PendingWrite| write.operations.iter().any(|operation| operation.touches(range));
        self.pending.iter().rev().find(|(_, write)| touches(write)).map(|(number, _)| *number)
    }

    /// All writes that are not applied.
    pub fn pending(&self) -> impl Iterator<Item = (Number, &PendingWrite)> {
        self.pending_up_to(Number::MAX)
    }

    /// The newest version at or below a number. The caller has made sure that nothing pending is at or below it.
    pub fn read_at(&self, number: Number, range: &Range<u64>) -> ChunkBytes {
        self.read_with(number, |content| content.read(range))
    }

    /// The same, of what lies in files only where.
    pub fn locate_at(&self, number: Number, range: &Range<u64>) -> ChunkBytes<Vec<Stretch>> {
        self.read_with(number, |content| content.locate(range))
    }

    /// Where in a range data or a hole begins.
    pub fn seek_at(&self, number: Number, range: &Range<u64>, what: Seek) -> ChunkBytes<Option<u64>> {
        self.read_with(number, |content| Ok((content.seek(range, what), false)))
    }

    fn read_with<T>(
        &self,
        number: Number,
        read: impl FnOnce(&Content) -> Result<(T, bool), Lost>,
    ) -> ChunkBytes<T> {
        if !self.is_kept(number) && !planted(Canary::CollectedIsRead) {
            return ChunkBytes::Expired;
        }
        let version = self.versions.range(..=number).next_back();
        let (version, read) = match version {
            Some((version, content)) => (*version, read(content)),
            None => (Number::ZERO, read(&Content::default())),
        };
        match read {
            Ok((bytes, whole)) => ChunkBytes::Found(version, bytes, whole),
            Err(Lost) => ChunkBytes::Lost,
        }
    }

    /// Drops superseded versions up to a number, except those that readers at the numbers in `keep` see.
    ///
    /// A list that is older than one that was followed comes late, and is not followed: what it keeps may be gone, and what was kept
    /// since must stay.
    pub fn collect(&mut self, log_index: u64, up_to: Number, keep: &[Number]) {
        if up_to >= self.collected {
            self.dropped_at = log_index;
            // Whoever keeps nothing but the newest has no more than this replica.
            self.told_since_loss.take_if(|_| keep.is_empty());
            if let Some(told) = &mut self.told_since_loss {
                *told = (up_to, keep.to_vec());
            }
            let seen = self.seen_at(up_to, keep);
            self.versions.retain(|version, _| *version > up_to || seen.contains(version));
            self.kept =
                keep.iter().copied().filter(|number| *number < up_to && self.is_kept(*number)).collect();
            self.collected = up_to;
        }
    }

    /// Whether collecting would drop anything, here or at a replica that has not been told.
    pub fn would_collect(&self, up_to: Number, keep: &[Number]) -> bool {
        let drops = || self.versions.range(..=up_to).count() > self.seen_at(up_to, keep).len();
        let is_news = |(told, kept): &(Number, Vec<Number>)| (*told, kept.as_slice()) != (up_to, keep);
        up_to >= self.collected && (self.told_since_loss.as_ref().is_some_and(is_news) || drops())
    }

    /// Whether what is seen at a number has never been dropped.
    fn is_kept(&self, number: Number) -> bool {
        number >= self.collected || self.kept.contains(&number)
    }

    fn seen_at(&self, up_to: Number, keep: &[Number]) -> BTreeSet<Number> {
        let version_at =
            |number: &Number| self.versions.range(..=*number).next_back().map(|(version, _)| *version);
        keep.iter().filter(|number| self.is_kept(**number)).chain([&up_to]).filter_map(version_at).collect()
    }

    /// Whether nothing is in its newest version.
    pub fn is_empty(&self) -> bool {
        self.versions.last_key_value().is_none_or(|(_, content)| content.is_empty())
    }

    /// Whether nothing is left but the number of its last write.
    pub fn is_tombstone(&self) -> bool {
        self.pending.is_empty() && self.may_be_tombstone()
    }

    /// Whether that is so once the fate of what is pending is known, if that is refused.
    pub fn may_be_tombstone(&self) -> bool {
        self.versions.len() <= 1 && self.versions.values().all(Content::is_empty)
    }

    /// How many versions are held.
    pub fn version_count(&self) -> usize {
        self.versions.len()
    }

    /// What is there now, to compare replicas.
    pub fn content(&self) -> Content {
        self.versions.last_key_value().map(|(_, content)| content.clone()).unwrap_or_default()
    }
}

impl ChunkOperation {
    fn touches(&self, range: &Range<u64>) -> bool {
        let (start, end) = match self {
            ChunkOperation::Write { offset, part, .. } => (*offset, offset + part.len() as u64),
            ChunkOperation::Transform { offset, transform, .. } => {
                (*offset, offset + transform.number_type().size() as u64)
            }
            ChunkOperation::Staged { offset, part, .. } => (*offset, offset + (part.end - part.start)),
            ChunkOperation::Cut { range } => (range.start, range.end),
        };
        start < range.end && range.start < end
    }
}

layout!(struct Chunk { arrivals, pending, versions, collected, kept, dropped_at, told_since_loss });
layout!(struct PendingWrite { id, decider, log_index, operations, drops_former, outcome });

#[cfg(test)]
mod tests {
    use super::*;

    fn with_versions(numbers: &[u64]) -> Chunk {
        let versions = numbers.iter().map(|index| (Number::new(1, *index), Content::default())).collect();
        Chunk { versions, ..Chunk::default() }
    }

    fn is_expired(chunk: &Chunk, index: u64) -> bool {
        chunk.read_at(Number::new(1, index), &(0..1)) == ChunkBytes::Expired
    }

    #[test]
    fn a_list_of_pins_that_comes_late_brings_no_version_back() {
        let mut chunk = with_versions(&[1, 2, 3]);
        let (held, up_to) = (Number::new(1, 1), Number::new(1, 3));
        chunk.collect(9, up_to, &[held]);
        assert!(!is_expired(&chunk, 1) && is_expired(&chunk, 2));
        chunk.collect(9, up_to, &[]);
        chunk.collect(9, up_to, &[held]);
        assert!(is_expired(&chunk, 1), "it has been dropped");
        assert!(!chunk.would_collect(up_to, &[held]));
    }

    #[test]
    fn what_the_log_loses_of_dropping_is_said_again() {
        let mut chunk = with_versions(&[1, 2]);
        let up_to = Number::new(1, 2);
        chunk.collect(7, up_to, &[]);
        assert!(!chunk.would_collect(up_to, &[]));
        chunk.cut_log(7);
        assert!(!chunk.would_collect(up_to, &[]));
        chunk.cut_log(6);
        assert!(chunk.would_collect(up_to, &[]), "the other replicas do not know");
        chunk.collect(7, up_to, &[Number::new(1, 1)]);
        assert!(!chunk.would_collect(up_to, &[Number::new(1, 1)]), "that has been said");
        assert!(chunk.would_collect(up_to, &[]), "they may keep what a reader held");
        chunk.collect(8, up_to, &[]);
        assert!(!chunk.would_collect(up_to, &[]));
    }

    #[test]
    fn a_list_of_pins_of_an_earlier_round_drops_nothing() {
        let mut chunk = with_versions(&[1, 2, 3]);
        chunk.collect(9, Number::new(1, 3), &[Number::new(1, 1)]);
        chunk.collect(9, Number::new(1, 2), &[]);
        assert!(!is_expired(&chunk, 1) && !is_expired(&chunk, 3));
    }
}
