//! Heads and chunks that were dropped since nothing is left of their blobs.
//!
//! They are kept as long as the log may be cut before the entry that did it: a replica that had dropped a head which the others still have
//! would refuse what was read there, for it could not tell that nothing has been written since. And the names of the last heads are kept,
//! so that who has seen that a blob is not there is not refused because another one's head was dropped meanwhile.

use alloc::collections::{BTreeMap, VecDeque};

use tyr_types::Number;

use crate::{
    BlobName, ChunkName,
    chunk::Chunk,
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    head::Head,
    layout,
};

/// Heads and chunks that were dropped, each in the order in which that was logged.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    heads: VecDeque<GoneHead>,
    chunks: VecDeque<GoneChunk>,
    names: Names,
}

/// The names of the heads that were dropped last. No part of the bytes of a state, nor of copies: it makes refusals fewer, and none is missing
/// without it.
#[derive(Clone, Debug)]
struct Names {
    /// The last number of each.
    newest: BTreeMap<BlobName, Number>,
    order: VecDeque<BlobName>,
    /// Of the others, no number was higher.
    others: Number,
}

/// So many names are kept. A round of collection drops 64 heads at the most.
const NAMES_MAX: usize = 256;

impl Default for Names {
    /// Nothing is known.
    fn default() -> Self {
        Names { newest: BTreeMap::new(), order: VecDeque::new(), others: Number::MAX }
    }
}

impl Names {
    fn push(&mut self, gone: &GoneHead) {
        // At which everything was refused: what was known of the blob before stays true.
        if gone.head.newest() == Number::ZERO {
            return;
        }
        self.others = self.others.min(gone.heads_after);
        self.newest.insert(gone.blob.clone(), gone.head.newest());
        self.order.push_back(gone.blob.clone());
        if self.order.len() > NAMES_MAX
            && let Some(number) = self.order.pop_front().and_then(|name| self.newest.remove(&name))
        {
            self.others = self.others.max(number);
        }
    }
}

/// A head that was dropped.
#[derive(Clone, Debug)]
pub struct GoneHead {
    /// The entry that did it.
    pub index: u64,
    /// The number at which blobs without a head were read before.
    pub heads_after: Number,
    /// Whose head it is.
    pub blob: BlobName,
    /// What it was.
    pub head: Head,
}

/// A chunk that was dropped.
#[derive(Clone, Debug)]
pub struct GoneChunk {
    /// The entry that did it.
    pub index: u64,
    /// Which one.
    pub name: ChunkName,
    /// What it was.
    pub chunk: Chunk,
}

impl Gone {
    /// Notes a chunk that is dropped.
    pub fn push_chunk(&mut self, gone: GoneChunk) {
        self.chunks.push_back(gone);
    }

    /// Notes a head that is dropped.
    pub fn push(&mut self, gone: GoneHead) {
        self.names.push(&gone);
        self.heads.push_back(gone);
    }

    /// The number after which nothing was written to a blob without a head, where `heads_after` is that of all such blobs.
    pub fn newest_of(&self, blob: &BlobName, heads_after: Number) -> Number {
        let newest = self.names.newest.get(blob).copied().unwrap_or(self.names.others);
        // The log may have been cut since.
        newest.min(heads_after)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.chunks.is_empty()
    }

    /// What chunks of a name were that were dropped, the last one first.
    pub fn chunks_of(&self, name: &ChunkName) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().rev().filter(move |gone| gone.name == *name).map(|gone| &gone.chunk)
    }

    /// Whether the head of a blob was dropped by an entry after an index, so that it is there again if the log loses that.
    pub fn may_come_back(&self, blob: &BlobName, last: u64) -> bool {
        self.heads.iter().rev().take_while(|gone| gone.index > last).any(|gone| gone.blob == *blob)
    }

    /// Notes that the log will not be cut before an index.
    pub fn trim_log(&mut self, start: u64) {
        while self.heads.pop_front_if(|gone| gone.index <= start).is_some() {}
        while self.chunks.pop_front_if(|gone| gone.index <= start).is_some() {}
    }

    /// The last head that was dropped by an entry after an index, which the log loses.
    pub fn pop_lost(&mut self, last: u64) -> Option<GoneHead> {
        self.heads.pop_back_if(|gone| gone.index > last)
    }

    /// The last chunk that was dropped by such an entry.
    pub fn pop_lost_chunk(&mut self, last: u64) -> Option<GoneChunk> {
        self.chunks.pop_back_if(|gone| gone.index > last)
    }
}

layout!(struct GoneHead { index, heads_after, blob, head });
layout!(struct GoneChunk { index, name, chunk });

/// The last part of a state, whose length is known from outside: there is nothing of it if nothing is gone, as in states of the first
/// version, and no chunks if none are, as before there were any. What comes before it is never empty, or not there, so that a zero says that this is it.
impl Encode for Gone {
    fn encode(&self, out: &mut Encoder) {
        if !self.is_empty() {
            out.byte(ANNOUNCED);
            self.heads.encode(out);
        }
        if !self.chunks.is_empty() {
            self.chunks.encode(out);
        }
    }
}

impl Decode for Gone {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if input.is_at_end() {
            return Ok(Gone::default());
        }
        ensure(input.byte()? == ANNOUNCED, "what follows a state is no part of it")?;
        let heads = VecDeque::decode(input)?;
        let has_chunks = !input.is_at_end();
        let chunks = if has_chunks { VecDeque::decode(input)? } else { VecDeque::new() };
        ensure(has_chunks != chunks.is_empty(), "no chunk is gone where some are announced")?;
        let gone = Gone { heads, chunks, names: Names::default() };
        ensure(!gone.is_empty(), "nothing is gone where something is announced")?;
        Ok(gone)
    }
}

/// What a state's gone heads and chunks begin with.
pub const ANNOUNCED: u8 = 0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use alloc::{collections::BTreeSet, string::String, sync::Arc, vec, vec::Vec};

    use tyr_types::{Key, KeyspaceId};

    use super::*;
    use crate::{
        ClassId, Epoch, HeadPlan, Operation, Outcome, PartitionId, Plan, Refusal, RingVersion, SessionId,
        State, TransactionId,
        encoding::{from_bytes, to_bytes},
        entry::{ChunkWrite, Entry, ExistenceEffect, HeadEffect, Prepare, Stop},
    };

    const P: PartitionId = PartitionId { class: ClassId(0), index: 0 };

    fn blob(key: &str) -> BlobName {
        BlobName { keyspace: KeyspaceId(1), key: Key::new(key).unwrap() }
    }

    fn number(index: u64) -> Number {
        Number::new(1, index)
    }

    fn id(index: u64) -> TransactionId {
        TransactionId { session: SessionId(1), sequence: index, birth: RingVersion(0) }
    }

    /// A transaction on one head, and what it does to whether there is a blob.
    fn prepare(index: u64, key: &str, operations: Vec<Operation>, existence: ExistenceEffect) -> Entry {
        let id = id(index);
        let head = HeadPlan::blind(P, blob(key), operations);
        let plan = Arc::new(Plan { id, answered: 0, reserve: None, heads: vec![head] });
        let effect = Arc::new(HeadEffect { existence, ..HeadEffect::default() });
        let stop = Stop { partition: P, heads: 0..1, number: number(index), effects: vec![effect] };
        Entry::Prepare(Arc::new(Prepare { plan, stops: vec![stop] }))
    }

    /// A state in which blobs were created and deleted again, and the last index of its log.
    fn state_without(keys: &[&str]) -> (State, u64) {
        let (mut state, mut index) = (State::new(P), 0);
        for key in keys {
            let both =
                [(Operation::Create, ExistenceEffect::Begins), (Operation::Delete, ExistenceEffect::Ends)];
            for (operation, existence) in both {
                index += 1;
                state.apply(index, Epoch(1), &prepare(index, key, vec![operation], existence));
                index += 1;
                let outcome = Entry::Outcomes(vec![(id(index - 1), Outcome::Committed)]);
                state.apply(index, Epoch(1), &outcome);
            }
        }
        (state, index)
    }

    fn heads(state: &State) -> BTreeSet<BlobName> {
        state.heads().map(|(blob, _)| blob.clone()).collect()
    }

    #[test]
    fn a_head_that_was_dropped_comes_back_if_the_log_is_cut_before_that() {
        let (mut state, last) = state_without(&["a", "b"]);
        let [a, b] = ["a", "b"].map(|key| state.head(&blob(key)).unwrap().newest());
        state.apply(last + 1, Epoch(1), &Entry::Collected(vec![(blob("a"), a)]));
        state.apply(last + 2, Epoch(1), &Entry::Collected(vec![(blob("b"), b)]));
        assert_eq!((heads(&state), state.heads_after()), (BTreeSet::new(), b));

        let bytes = to_bytes(&state);
        for state in [&mut state, &mut from_bytes::<State>(&bytes).unwrap()] {
            state.cut_log(last + 1);
            assert_eq!((heads(state), state.heads_after()), ([blob("b")].into(), a));
            assert_eq!(
                state.head(&blob("b")).unwrap().collected(),
                Number::ZERO,
                "it is to be collected again"
            );
            state.cut_log(last);
            assert_eq!((heads(state), state.heads_after()), ([blob("a"), blob("b")].into(), Number::ZERO));
        }
    }

    #[test]
    fn what_the_log_is_never_cut_before_and_what_is_copied_stays_dropped() {
        let (mut state, last) = state_without(&["a"]);
        let without: Vec<u8> = to_bytes(&state);
        let newest = state.head(&blob("a")).unwrap().newest();
        state.apply(last + 1, Epoch(1), &Entry::Collected(vec![(blob("a"), newest)]));
        let mut copy: State = from_bytes(&to_bytes(&*state.to_copy())).unwrap();
        copy.cut_log(last);
        assert_eq!((heads(&copy), copy.heads_after()), (BTreeSet::new(), newest));
        state.trim_log(last + 1);
        state.cut_log(last);
        assert_eq!((heads(&state), state.heads_after()), (BTreeSet::new(), newest));
        for malformed in [&[ANNOUNCED][..], &[ANNOUNCED, 0], &[1]] {
            assert!(from_bytes::<State>(&[&without[..], malformed].concat()).is_err(), "{malformed:?}");
        }
    }

    #[test]
    fn what_comes_late_does_not_bring_a_head_back() {
        let (mut state, last) = state_without(&["a"]);
        let newest = state.head(&blob("a")).unwrap().newest();
        state.apply(last + 1, Epoch(1), &Entry::Collected(vec![(blob("a"), newest)]));
        state.release_slot(&blob("a"), id(last - 1));
        state.learn(id(last - 1), Outcome::Committed);
        assert_eq!(heads(&state), BTreeSet::new());
    }

    #[test]
    fn a_name_that_was_only_asked_for_has_no_head() {
        let mut state = State::new(P);
        state.apply(1, Epoch(1), &prepare(1, "read", vec![], ExistenceEffect::Stays));
        state.apply(2, Epoch(1), &prepare(2, "refused", vec![Operation::Create], ExistenceEffect::Begins));
        state.apply(3, Epoch(1), &prepare(3, "lost", vec![Operation::Create], ExistenceEffect::Begins));
        assert_eq!(heads(&state), ["read", "refused", "lost"].map(blob).into());
        state.learn(id(1), Outcome::Committed);
        state.learn(id(2), Outcome::Refused(Refusal::Conflict));
        assert_eq!(heads(&state), ["lost"].map(blob).into());
        state.cut_log(2);
        assert_eq!(heads(&state), BTreeSet::new());
    }

    /// Drops heads of blobs that are deleted, by an entry each. Returns their last numbers.
    fn drop_heads(state: &mut State, last: u64, keys: &[&str]) -> Vec<Number> {
        let drop_head = |(index, key): (u64, &&str)| {
            let newest = state.head(&blob(key)).unwrap().newest();
            state.apply(index, Epoch(1), &Entry::Collected(vec![(blob(key), newest)]));
            newest
        };
        (last + 1..).zip(keys).map(drop_head).collect()
    }

    #[test]
    fn what_is_known_of_a_blob_without_a_head_is_its_own_last_number() {
        let names: Vec<_> = (0..=NAMES_MAX).map(|key| alloc::format!("b{key}")).collect();
        let keys: Vec<_> = names.iter().map(String::as_str).collect();
        let (mut state, last) = state_without(&keys);
        let newest = drop_heads(&mut state, last, &keys);
        let known = |state: &State, key: &str| state.beginning_of(&blob(key)).read_number();
        assert_eq!((known(&state, "b1"), known(&state, "b2")), (newest[1], newest[2]));
        assert_eq!(known(&state, "b0"), newest[0]);
        assert_eq!(known(&state, "never"), newest[0], "it may be one of those that are not named any more");
        assert_eq!(state.heads_after(), newest[NAMES_MAX], "whoever reads one now has seen them all");

        let copy: State = from_bytes(&to_bytes(&state)).unwrap();
        assert_eq!(known(&copy, "b1"), newest[NAMES_MAX], "bytes have no names");
    }

    #[test]
    fn a_head_at_which_all_was_refused_leaves_known_what_was() {
        let (mut state, last) = state_without(&["a"]);
        let newest = drop_heads(&mut state, last, &["a"])[0];
        let write = ChunkWrite {
            chunk: 1,
            partition: PartitionId { index: 1, ..P },
            previous: None,
            operations: vec![],
            drops_former: false,
        };
        let index = last + 2;
        let Entry::Prepare(prepare) = prepare(index, "a", vec![Operation::Create], ExistenceEffect::Begins)
        else {
            panic!("it is one")
        };
        let mut prepare = Arc::unwrap_or_clone(prepare);
        Arc::make_mut(&mut prepare.stops[0].effects[0]).writes.push(write);
        state.apply(index, Epoch(1), &Entry::Prepare(Arc::new(prepare)));
        let superseded = state.learn(id(index), Outcome::Refused(Refusal::Conflict));
        assert_eq!(superseded, [blob("a")].into(), "nothing is left but a link");
        state.apply(index + 1, Epoch(1), &Entry::Collected(vec![(blob("a"), Number::ZERO)]));
        assert_eq!(heads(&state), BTreeSet::new());
        assert_eq!(state.beginning_of(&blob("a")).read_number(), newest, "who read it before is refused");
    }

    #[test]
    fn what_is_dropped_after_a_copy_says_nothing_of_others() {
        let (mut state, last) = state_without(&["a", "b"]);
        let newest = drop_heads(&mut state, last, &["a"]);
        let mut copy: State = from_bytes(&to_bytes(&*state.to_copy())).unwrap();
        drop_heads(&mut copy, last + 1, &["b"]);
        assert_eq!(copy.beginning_of(&blob("never")).read_number(), newest[0]);
    }

    #[test]
    fn who_reads_a_blob_without_a_head_after_a_cut_knows_as_much_as_is_known() {
        let (mut state, last) = state_without(&["a", "b"]);
        drop_heads(&mut state, last, &["a", "b"]);
        let mut copy: State = from_bytes(&to_bytes(&state)).unwrap();
        for state in [&mut state, &mut copy] {
            state.cut_log(last);
            assert_eq!(state.beginning_of(&blob("never")).read_number(), state.heads_after());
        }
    }
}
