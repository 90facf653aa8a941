//! Payload that a partition received before the transaction that it belongs to begins (design, section 5).
//!
//! A stage is an entry of the log. It goes when its transaction has ended, or is known never to begin. Invariant: a transaction that
//! its decider has prepared finds its stages, see [`docs/protocol/invariants.md`](../../../docs/protocol/invariants.md).

use alloc::{borrow::Cow, collections::BTreeMap, sync::Arc, vec::Vec};
use core::ops::{Range, RangeInclusive};

use tyr_types::Number;

use crate::{
    Answered, ChunkName, PartitionId, Payload, RingVersion, SessionId, TransactionId,
    encoding::{Decode, Decoder, Encode, Encoder, Malformed},
    entry::{ChunkOperation, ChunkWrite},
    layout,
};

/// A part of a transaction's payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The transaction.
    pub id: TransactionId,
    /// Who knows how it ended.
    pub decider: PartitionId,
    /// Which payload: the blob in the plan and its operation.
    pub payload: (u16, u16),
    /// Where in the payload it begins.
    pub from: u64,
    /// The bytes: a part of these.
    pub bytes: Payload,
    /// Which part.
    pub part: Range<usize>,
}

/// A part of a transaction's payload that is to be taken from a chunk, by the nodes among themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct StageCopy {
    /// The transaction.
    pub id: TransactionId,
    /// Who knows how it ended.
    pub decider: PartitionId,
    /// Which payload: the blob in the plan and its operation.
    pub payload: (u16, u16),
    /// Where in the payload it begins.
    pub from: u64,
    /// Which chunk has the bytes,
    pub chunk: ChunkName,
    /// where in it they are,
    pub range: Range<u64>,
    /// and in which version: the newest one that is not after this number.
    pub at: Number,
}

impl StageCopy {
    /// The stage that these bytes are.
    pub fn stage(&self, bytes: Vec<u8>) -> Stage {
        let part = 0..bytes.len();
        Stage {
            id: self.id,
            decider: self.decider,
            payload: self.payload,
            from: self.from,
            bytes: bytes.into(),
            part,
        }
    }
}

/// The most bytes of a stage: payload is cut at multiples of this, and at the borders of chunks where these are known.
pub const STAGE_SIZE_MAX: u64 = 1 << 20;
/// A partition holds at most so many stages.
pub const STAGES_MAX: usize = 64 << 10;

/// The ranges into which payload is cut for its way.
pub fn stage_parts(length: u64) -> impl Iterator<Item = Range<u64>> {
    let step = usize::try_from(STAGE_SIZE_MAX).expect("some megabytes");
    (0..length).step_by(step).map(move |from| from..length.min(from + STAGE_SIZE_MAX))
}

/// The stages of a partition at one replica. Of a name there may be several, of which all but the last have ended: when the log is cut
/// the last one goes, and the one before it may not have ended any more.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    held: BTreeMap<(Name, u64), Held>,
    /// Bytes of those that have not ended,
    size: u64,
    /// and of these those of each session that has any.
    sizes: BTreeMap<SessionId, u64>,
    /// How many have not ended.
    count: usize,
}

/// The transaction, which payload, and where in it the stage begins. With it stands where the stage is logged.
type Name = (TransactionId, (u16, u16), u64);

#[derive(Clone, Debug)]
struct Held {
    /// Where in the log it is said that nobody needs it.
    ended: Option<u64>,
    stage: Arc<Stage>,
}

impl Stage {
    fn name(&self) -> Name {
        (self.id, self.payload, self.from)
    }

    fn end(&self) -> u64 {
        self.from + self.part.len() as u64
    }

    /// A part of it.
    pub fn within(&self, range: &Range<u64>) -> Option<Stage> {
        let inside = self.from <= range.start && range.start <= range.end && range.end <= self.end();
        let place = |at: u64| self.part.start + usize::try_from(at - self.from).expect("payload fits memory");
        inside.then(|| Stage {
            from: range.start,
            part: place(range.start)..place(range.end),
            bytes: self.bytes.clone(),
            ..*self
        })
    }
}

impl Held {
    fn size(&self) -> u64 {
        self.stage.part.len() as u64
    }

    /// Nobody needs it, as the entry at an index says. How many bytes that are, if somebody needed it.
    fn end(&mut self, index: u64) -> Option<u64> {
        let was_needed = self.ended.is_none();
        self.ended.get_or_insert(index);
        was_needed.then(|| self.size())
    }
}

impl Stages {
    /// Takes a logged stage, unless one of its name is here that has not ended.
    pub fn put(&mut self, log_index: u64, stage: &Arc<Stage>) {
        if self.log_index(stage).is_none() {
            let held = Held { ended: None, stage: stage.clone() };
            self.grow(stage.id.session, held.size());
            self.held.insert((stage.name(), log_index), held);
        }
    }

    fn grow(&mut self, session: SessionId, size: u64) {
        self.size += size;
        self.count += 1;
        *self.sizes.entry(session).or_default() += size;
    }

    /// So many ended, of so many bytes.
    fn shrink(&mut self, session: SessionId, (count, size): (usize, u64)) {
        self.size -= size;
        self.count -= count;
        if let Some(of_session) = self.sizes.get_mut(&session) {
            *of_session -= size;
            if *of_session == 0 {
                self.sizes.remove(&session);
            }
        }
    }

    fn reckon(&mut self) {
        (self.size, self.sizes, self.count) = (0, BTreeMap::new(), 0);
        let needed = self.held.iter().filter(|(_, held)| held.ended.is_none());
        let sizes: Vec<_> = needed.map(|(((id, ..), _), held)| (id.session, held.size())).collect();
        sizes.into_iter().for_each(|(session, size)| self.grow(session, size));
    }

    /// Where a stage is logged, if it is here.
    pub fn log_index(&self, stage: &Stage) -> Option<u64> {
        self.log_index_of(stage.id, stage.payload, stage.from)
    }

    /// Where the stage of this name is logged, if it is here.
    pub fn log_index_of(&self, id: TransactionId, payload: (u16, u16), from: u64) -> Option<u64> {
        let name = (id, payload, from);
        let of_name = self.held.range((name, 0)..=(name, u64::MAX));
        of_name.filter(|(_, held)| held.ended.is_none()).map(|((_, index), _)| *index).next_back()
    }

    /// A part of a payload, if all of it is here.
    pub fn find(&self, id: TransactionId, payload: (u16, u16), range: &Range<u64>) -> Option<Stage> {
        let before = self.held.range(((id, payload, 0), 0)..=((id, payload, range.start), u64::MAX));
        let (_, last) = before.rev().find(|(_, held)| held.ended.is_none())?;
        last.stage.within(range)
    }

    /// Whether anything of a transaction is here.
    pub fn has(&self, id: TransactionId) -> bool {
        self.of(id).next().is_some()
    }

    /// Who decides a transaction of which something is here.
    pub fn decider(&self, id: TransactionId) -> Option<PartitionId> {
        self.of(id).next().map(|held| held.stage.decider)
    }

    fn of(&self, id: TransactionId) -> impl Iterator<Item = &Held> {
        self.held.range(all_of(id)).map(|(_, held)| held).filter(|held| held.ended.is_none())
    }

    /// The transactions of which something is here.
    pub fn ids(&self) -> Vec<TransactionId> {
        let needed = self.held.iter().filter(|(_, held)| held.ended.is_none());
        let mut ids: Vec<_> = needed.map(|(((id, ..), _), _)| *id).collect();
        ids.dedup();
        ids
    }

    /// How many are needed.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes that are needed here: all, those of the session of a transaction, and its own.
    pub fn sizes(&self, id: TransactionId) -> [u64; 3] {
        let of_session = self.sizes.get(&id.session).copied().unwrap_or(0);
        [self.size, of_session, self.of(id).map(Held::size).sum()]
    }

    /// Of some transactions the one that has had something here for longest: what was logged first of what is needed.
    pub fn oldest(&self, is_one: impl Fn(TransactionId) -> bool) -> Option<TransactionId> {
        let needed = self.held.iter().filter(|(((id, ..), _), held)| held.ended.is_none() && is_one(*id));
        needed.min_by_key(|((_, index), _)| *index).map(|(((id, ..), _), _)| *id)
    }

    /// Lets go of what a transaction had here, as the entry at an index says.
    pub fn end(&mut self, index: u64, id: TransactionId) {
        let ended = sum(self.held.range_mut(all_of(id)).filter_map(|(_, held)| held.end(index)));
        self.shrink(id.session, ended);
    }

    /// Lets go of what a session's transactions had here whose answers its client has, as the entry at an index says.
    pub fn end_answered(&mut self, index: u64, session: SessionId, answered: &Answered) {
        let of = |sequence, birth| TransactionId { session, sequence, birth: RingVersion(birth) };
        let first = |id| ((id, (0, 0), 0), 0);
        let below = self.held.range_mut(first(of(0, 0))..first(of(answered.mark(), 0)));
        let over = below.filter(|(((id, ..), _), _)| answered.has(id.sequence));
        let ended = sum(over.filter_map(|(_, held)| held.end(index)));
        self.shrink(session, ended);
    }

    /// Takes back what was logged past a place at which the log was cut: also that something has ended, so that the replicas agree on
    /// what is to be let go of.
    pub fn cut_log(&mut self, last: u64) {
        self.held.retain(|(_, index), _| *index <= last);
        self.held.values_mut().for_each(|held| {
            held.ended.take_if(|ended| *ended > last);
        });
        self.reckon();
    }

    /// Drops what has ended, up to an index that the log is never cut before.
    pub fn trim_log(&mut self, start: u64) {
        self.held.retain(|_, held| held.ended.is_none_or(|ended| ended > start));
    }

    /// A write with its payload. What is not here is left out: then the transaction has been refused.
    pub fn resolve<'a>(&self, id: TransactionId, write: &'a ChunkWrite) -> Cow<'a, ChunkWrite> {
        if !write.operations.iter().any(|operation| matches!(operation, ChunkOperation::Staged { .. })) {
            return Cow::Borrowed(write);
        }
        let resolved = |operation: &ChunkOperation| match operation {
            ChunkOperation::Staged { offset, payload, part } => {
                let Stage { bytes, part, .. } = self.find(id, *payload, part)?;
                Some(ChunkOperation::Write { offset: *offset, bytes, part })
            }
            other => Some(other.clone()),
        };
        let operations = write.operations.iter().filter_map(resolved).collect();
        Cow::Owned(ChunkWrite { operations, ..*write })
    }
}

/// How many sizes, and what they come to.
fn sum(sizes: impl Iterator<Item = u64>) -> (usize, u64) {
    sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size))
}

/// Where the stages of a transaction are.
fn all_of(id: TransactionId) -> RangeInclusive<(Name, u64)> {
    ((id, (0, 0), 0), 0)..=((id, (u16::MAX, u16::MAX), u64::MAX), u64::MAX)
}

layout!(struct StageCopy { id, decider, payload, from, chunk, range, at });
layout!(struct Held { ended, stage });

impl Encode for Stages {
    fn encode(&self, out: &mut Encoder) {
        self.held.encode(out);
    }
}

impl Decode for Stages {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut stages = Stages { held: Decode::decode(input)?, ..Stages::default() };
        stages.reckon();
        Ok(stages)
    }
}

/// Of the payload only the part that it is.
impl Encode for Stage {
    fn encode(&self, out: &mut Encoder) {
        (self.id, self.decider).encode(out);
        self.payload.encode(out);
        out.varint(self.from);
        out.payload_part(&self.bytes, &self.part);
    }
}

impl Decode for Stage {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (id, decider) = Decode::decode(input)?;
        let (payload, from) = (Decode::decode(input)?, input.varint()?);
        let (bytes, part) = input.payload_part()?;
        let end = from.checked_add(part.len() as u64);
        crate::encoding::ensure(end.is_some(), "a stage is out of bounds")?;
        Ok(Stage { id, decider, payload, from, bytes, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassId;

    fn stage(sequence: u64, from: u64, bytes: &[u8]) -> Arc<Stage> {
        let id = TransactionId { session: SessionId(1), sequence, birth: RingVersion(0) };
        let decider = PartitionId { class: ClassId(0), index: 0 };
        Arc::new(Stage { id, decider, payload: (0, 1), from, bytes: bytes.into(), part: 0..bytes.len() })
    }

    #[test]
    fn a_part_of_a_payload_is_found_in_the_stage_that_has_all_of_it() {
        let mut stages = Stages::default();
        let id = stage(1, 0, b"").id;
        stages.put(1, &stage(1, 0, b"abcd"));
        stages.put(2, &stage(1, 4, b"efgh"));
        let found = |range: Range<u64>| {
            let found = stages.find(id, (0, 1), &range)?;
            Some(found.bytes.in_memory()?[found.part].to_vec())
        };
        assert_eq!(found(1..3).as_deref(), Some(&b"bc"[..]));
        assert_eq!(found(4..8).as_deref(), Some(&b"efgh"[..]));
        assert_eq!(found(3..5), None, "no stage has both");
        assert_eq!(found(7..9), None);
        assert_eq!(stages.find(id, (0, 2), &(0..1)), None);
    }

    #[test]
    fn what_a_log_loses_was_never_staged_and_what_has_ended_is_not_kept() {
        let mut stages = Stages::default();
        for (index, sequence) in [(1, 1), (2, 2), (3, 3)] {
            stages.put(index, &stage(sequence, 0, b"abcd"));
        }
        assert_eq!(stages.count(), 3);
        let left = |stages: &Stages| stages.ids().iter().map(|id| id.sequence).collect::<Vec<_>>();
        stages.end_answered(4, SessionId(1), &Answered::below(2));
        assert_eq!(stages.count(), 2, "what is kept only because the log may be cut counts for nothing");
        stages.end(5, stage(2, 0, b"").id);
        assert_eq!(left(&stages), [3]);
        stages.cut_log(4);
        assert_eq!(left(&stages), [2, 3], "that it has ended is lost, too");
        stages.cut_log(2);
        stages.trim_log(2);
        assert_eq!((left(&stages), stages.sizes(stage(2, 0, b"").id)), (Vec::from([1, 2]), [8, 8, 4]));
        stages.end_answered(3, SessionId(1), &Answered::below(3));
        stages.trim_log(3);
        assert!(stages.held.is_empty());
    }

    #[test]
    fn what_was_staged_before_comes_back_when_the_log_loses_that_it_ended_and_was_staged_again() {
        let mut stages = Stages::default();
        let (first, id) = (stage(1, 0, b"abcd"), stage(1, 0, b"").id);
        stages.put(1, &first);
        stages.end(2, id);
        stages.put(3, &first);
        assert_eq!((stages.log_index(&first), stages.sizes(id)), (Some(3), [4; 3]));
        stages.cut_log(1);
        assert_eq!((stages.log_index(&first), stages.sizes(id)), (Some(1), [4; 3]));
        assert!(stages.find(id, (0, 1), &(0..4)).is_some());
    }
}
