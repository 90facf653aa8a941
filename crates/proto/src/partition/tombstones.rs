//! Purges what is left of chunks whose blobs are gone ([ADR 0030](../../../../docs/adr/0031-purging-tombstones.md)).
//!
//! A deleted chunk leaves a tombstone: an empty version, and the number of its last write, which a later one may follow and by which copies of earlier
//! ones are known. Once the head is gone from every replica of its partition no write follows those any more, since a new head begins with none.
//! So the chunk's primary asks for heads, long after the chunk was collected, and logs what may go.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::Bound;

use super::{Partition, collection::DISCARDS_MAX};
use crate::{
    ChunkName, PartitionId, Time,
    canary::{Canary, planted},
    effects::Context,
    entry::{Entry, Tombstone},
    message::Message,
};

/// Chunks that may be tombstones whose blobs are gone. The primary alone asks; a new one begins with all tombstones that there are.
#[derive(Debug, Default)]
pub struct Tombstones {
    candidates: BTreeSet<ChunkName>,
    /// The last one that was asked about: the others have their turn first.
    asked: Option<ChunkName>,
    asked_at: Time,
}

/// They are asked about at most this often, in microseconds: by then their heads are gone, if they go.
const ASK_EVERY: u64 = 500_000;
/// As many at a time.
const ASKED_MAX: usize = 4096;

impl Tombstones {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.candidates.is_empty()
    }

    /// The next ones to be asked about, in the order of names, and after the last one the first again.
    fn next(&mut self) -> Vec<ChunkName> {
        let after = match &self.asked {
            Some(asked) => Bound::Excluded(asked),
            None => Bound::Unbounded,
        };
        let behind = self.candidates.range((after, Bound::Unbounded));
        let next: Vec<_> = behind.chain(&self.candidates).take(ASKED_MAX).cloned().collect();
        // Where they begin again, those that came first are not asked about twice.
        let count = next.len().min(self.candidates.len());
        self.asked = next[..count].last().cloned();
        next[..count].to_vec()
    }
}

impl Partition {
    /// Notes a chunk that was told to drop versions, if nothing else may be left of it.
    pub(super) fn note_tombstone(&mut self, name: &ChunkName) {
        let may_be = self.state.chunk(name).is_some_and(|chunk| chunk.may_be_tombstone());
        if may_be && self.is_established() && !planted(Canary::TombstonesStay) {
            self.tombstones.candidates.insert(name.clone());
        }
    }

    /// Notes all that there are: whom a former primary would have asked about is not known.
    pub(super) fn note_tombstones(&mut self) {
        let names = self.state.chunks().filter(|(_, chunk)| chunk.may_be_tombstone()).map(|(name, _)| name);
        self.tombstones.candidates = names.filter(|_| !planted(Canary::TombstonesStay)).cloned().collect();
    }

    pub(super) fn tick_tombstones(&mut self, cx: &mut Context<'_>) {
        if self.tombstones.are_none() || cx.now.since(self.tombstones.asked_at) < ASK_EVERY {
            return;
        }
        self.tombstones.asked_at = cx.now;
        let mut by_head: BTreeMap<PartitionId, Vec<Tombstone>> = BTreeMap::new();
        for name in self.tombstones.next() {
            let Some(chunk) = self.state.chunk(&name).filter(|chunk| chunk.may_be_tombstone()) else {
                self.tombstones.candidates.remove(&name);
                continue;
            };
            // Where heads of a keyspace are that was not heard of yet is not known.
            if let Some(keyspace) = cx.keyspaces.get(&name.blob.keyspace).filter(|_| chunk.is_tombstone()) {
                let tombstone = Tombstone { last: chunk.last_arrival(), chunk: name };
                by_head.entry(keyspace.partition_of(&tombstone.chunk.blob, 0)).or_default().push(tombstone);
            }
        }
        for (head, tombstones) in by_head {
            for tombstones in tombstones.chunks(DISCARDS_MAX) {
                let message = Message::AskPurge { tombstones: tombstones.to_vec(), partition: self.id };
                cx.to_primary(head, message);
            }
        }
    }

    /// A chunk's primary asks which blobs are gone. Of those whose heads may come back by a failure it hears nothing, and asks again.
    pub fn handle_ask_purge(
        &mut self,
        cx: &mut Context<'_>,
        tombstones: Vec<Tombstone>,
        partition: PartitionId,
    ) {
        if !self.knows_what_is_not_there(cx) {
            return;
        }
        let has_head = |tombstone: &Tombstone| self.state.head(&tombstone.chunk.blob).is_some();
        let (alive, mut gone): (Vec<_>, Vec<_>) = tombstones.into_iter().partition(has_head);
        gone.retain(|tombstone| self.state.is_gone(&tombstone.chunk.blob, self.durable));
        if !(gone.is_empty() && alive.is_empty()) {
            cx.to_primary(partition, Message::Purge { gone, alive });
        }
    }

    /// A head's primary says which blobs are gone, and which are not: when they are, their chunks are told to drop versions once more. Of chunks that were
    /// written since it says nothing.
    pub fn handle_purge(&mut self, cx: &mut Context<'_>, gone: Vec<Tombstone>, alive: &[Tombstone]) {
        if !self.is_established() {
            return;
        }
        let is_as_asked = |partition: &Partition, tombstone: &Tombstone| {
            let chunk = partition.state.chunk(&tombstone.chunk);
            chunk.is_some_and(|chunk| chunk.is_tombstone() && chunk.last_arrival() == tombstone.last)
        };
        for tombstone in alive {
            if is_as_asked(self, tombstone) {
                self.tombstones.candidates.remove(&tombstone.chunk);
            }
        }
        let mut purged = gone;
        purged.retain(|tombstone| {
            is_as_asked(self, tombstone) && self.tombstones.candidates.remove(&tombstone.chunk)
        });
        if !purged.is_empty() {
            self.append(cx, Entry::Purge(purged));
        }
    }
}
