//! What a partition keeps of its heads for snapshots that have names.
//!
//! A *keep* is one entry of the log, whatever the keyspace holds: its place is a number that is above those of all transactions that the
//! snapshot sees and below all later ones. What a head was is noted when the first transaction after that replaces it, so that a keep costs what has
//! changed since. Chunks keep what is seen at its number like what a reader has pinned.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tyr_types::{KeyspaceId, Number};

use crate::{
    BlobName, SnapshotId, Stand,
    encoding::{Decode, Decoder, Encode, Encoder, Malformed},
    gone::ANNOUNCED,
    layout,
    message::Looked,
};

/// Names a keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeepName {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The point of the freeze that took it: what two of them saw is never put together.
    pub point: Stand,
}

/// A keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Keep {
    number: Number,
    /// Blobs that were replaced or deleted since, as they were.
    replaced: BTreeMap<BlobName, Arc<Looked>>,
    /// Where in the log it was let go of, for as long as that may be cut.
    let_go_at: Option<u64>,
}

/// The keeps of a partition.
#[derive(Clone, Debug, Default)]
pub struct Keeps {
    keeps: BTreeMap<KeepName, Keep>,
}

impl Keep {
    /// At which its blobs are read.
    pub fn number(&self) -> Number {
        self.number
    }

    /// Blobs that were replaced or deleted since, from one on, as they were.
    pub fn replaced_from(&self, first: &BlobName) -> impl Iterator<Item = (&BlobName, &Looked)> + use<'_> {
        self.replaced.range(first.clone()..).map(|(blob, looked)| (blob, &**looked))
    }
}

impl Keeps {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keeps.is_empty()
    }

    /// All that hold something.
    pub fn held(&self) -> impl Iterator<Item = (&KeepName, &Keep)> {
        self.keeps.iter().filter(|(_, keep)| keep.let_go_at.is_none())
    }

    /// One that holds something.
    pub fn get(&self, name: &KeepName) -> Option<&Keep> {
        self.keeps.get(name).filter(|keep| keep.let_go_at.is_none())
    }

    /// The numbers at which a blob is kept that has been replaced since, in order.
    pub fn numbers_of(&self, blob: &BlobName) -> Vec<Number> {
        let mut numbers = Vec::new();
        if !self.keeps.is_empty() {
            let of_blob = self.held().filter(|(_, keep)| keep.replaced.contains_key(blob));
            numbers.extend(of_blob.map(|(_, keep)| keep.number));
            numbers.sort_unstable();
            numbers.dedup();
        }
        numbers
    }

    /// Whether a blob that has been replaced or deleted is kept.
    pub fn hold(&self, blob: &BlobName) -> bool {
        self.held().any(|(_, keep)| keep.replaced.contains_key(blob))
    }

    /// Begins a keep at a number.
    pub fn begin(&mut self, name: KeepName, number: Number) {
        let keep = Keep { number, replaced: BTreeMap::new(), let_go_at: None };
        self.keeps.entry(name).or_insert(keep);
    }

    /// Lets go of a keep. Returns the blobs of which it kept something.
    pub fn let_go(&mut self, name: &KeepName, log_index: u64) -> BTreeSet<BlobName> {
        let Some(keep) = self.keeps.get_mut(name) else { return BTreeSet::new() };
        keep.let_go_at.get_or_insert(log_index);
        keep.replaced.keys().cloned().collect()
    }

    /// Whether a head at a number was not replaced since a keep began: what it is has to be [noted](Keeps::note) when it is.
    pub fn need(&self, keyspace: KeyspaceId, newest: Number) -> bool {
        self.of(keyspace).any(|(_, keep)| keep.number > newest)
    }

    /// A blob has been replaced that was this from a number on, up to another one. Whatever was decided below a keep is in the log before it, so
    /// that no keep has a number in between that began later.
    pub fn note(&mut self, blob: &BlobName, during: Range<Number>, was: Looked) {
        let was = Arc::new(was);
        let of_keyspace = self.keeps.iter_mut().filter(|(name, _)| name.keyspace == blob.keyspace);
        for (_, keep) in of_keyspace.filter(|(_, keep)| keep.number > during.start) {
            debug_assert!(keep.number < during.end, "a write below a keep is decided after it");
            keep.replaced.entry(blob.clone()).or_insert_with(|| was.clone());
        }
    }

    fn of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = (&KeepName, &Keep)> {
        self.keeps.iter().filter(move |(name, _)| name.keyspace == keyspace)
    }

    /// Notes that the log will not be cut before an index.
    pub fn trim_log(&mut self, start: u64) {
        self.keeps.retain(|_, keep| keep.let_go_at.is_none_or(|index| index > start));
    }

    /// Takes back what was folded from entries after an index.
    pub fn cut_log(&mut self, last: u64) {
        self.keeps.retain(|_, keep| keep.number.index() <= last);
        for keep in self.keeps.values_mut() {
            keep.let_go_at.take_if(|index| *index > last);
        }
    }
}

layout!(struct KeepName { keyspace, snapshot, point });
layout!(struct Keep { number, replaced, let_go_at });

/// At the end of a state, whose length is known from outside: there is nothing of it if there are no keeps, as before there were any. A zero
/// is what comes then: heads that are gone.
impl Encode for Keeps {
    fn encode(&self, out: &mut Encoder) {
        if !self.is_empty() {
            self.keeps.encode(out);
        }
    }
}

impl Decode for Keeps {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match input.is_at_end() || input.begins_with(ANNOUNCED) {
            true => Ok(Keeps::default()),
            false => Ok(Keeps { keeps: Decode::decode(input)? }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_types::Key;

    use super::*;
    use crate::{
        ClassId, Epoch, PartitionId, State,
        encoding::{from_bytes, to_bytes},
        entry::Entry,
    };

    fn name(snapshot: u32) -> KeepName {
        let point = Stand { epoch: Epoch(1), count: 1 };
        KeepName { keyspace: KeyspaceId(1), snapshot: SnapshotId(snapshot), point }
    }

    fn blob(key: &str) -> BlobName {
        BlobName { keyspace: KeyspaceId(1), key: Key::new(key).unwrap() }
    }

    fn looked(size: u64) -> Looked {
        Looked { creation: Number::new(1, 1), size, attributes: BTreeMap::new(), written: BTreeMap::new() }
    }

    #[test]
    fn a_blob_is_noted_once_for_each_keep_that_it_is_older_than() {
        let mut keeps = Keeps::default();
        keeps.begin(name(1), Number::new(1, 5));
        keeps.begin(name(2), Number::new(1, 9));
        assert!(keeps.need(KeyspaceId(1), Number::new(1, 7)) && !keeps.need(KeyspaceId(2), Number::ZERO));
        keeps.note(&blob("a"), Number::new(1, 7)..Number::new(1, 11), looked(7));
        keeps.note(&blob("b"), Number::new(1, 3)..Number::new(1, 12), looked(3));
        keeps.note(&blob("b"), Number::new(1, 12)..Number::new(1, 13), looked(12));
        assert!(!keeps.need(KeyspaceId(1), Number::new(1, 12)));
        assert_eq!(keeps.numbers_of(&blob("a")), [Number::new(1, 9)]);
        assert_eq!(keeps.numbers_of(&blob("b")), [Number::new(1, 5), Number::new(1, 9)]);
        let first: Vec<_> = keeps.get(&name(1)).unwrap().replaced_from(&blob("a")).collect();
        assert_eq!(first, [(&blob("b"), &looked(3))]);
    }

    #[test]
    fn what_is_let_go_of_holds_nothing_and_comes_back_with_what_the_log_loses() {
        let mut keeps = Keeps::default();
        keeps.begin(name(1), Number::new(1, 5));
        keeps.note(&blob("a"), Number::new(1, 3)..Number::new(1, 7), looked(3));
        assert_eq!(keeps.let_go(&name(1), 8), [blob("a")].into());
        assert!(!keeps.hold(&blob("a")) && keeps.get(&name(1)).is_none());
        keeps.cut_log(7);
        assert!(keeps.hold(&blob("a")));
        keeps.let_go(&name(1), 8);
        keeps.trim_log(8);
        assert!(keeps.is_empty());
        keeps.begin(name(2), Number::new(1, 9));
        keeps.cut_log(8);
        assert!(keeps.is_empty(), "it was never logged");
    }

    #[test]
    fn a_state_brings_its_keeps_along() {
        let mut state = State::new(PartitionId { class: ClassId(0), index: 3 });
        let without = to_bytes(&state);
        state.apply(4, Epoch(1), &Entry::Keep(name(1)));
        let bytes = to_bytes(&state);
        let read: State = from_bytes(&bytes).unwrap();
        assert_eq!(read.keeps().get(&name(1)).unwrap().number(), Number::new(1, 4));
        assert!(from_bytes::<State>(&without).unwrap().keeps().is_empty());
        assert!(from_bytes::<State>(&[&without[..], &[0]].concat()).is_err());
    }
}
