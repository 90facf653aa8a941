//! Purges what is left of chunks whose blobs are gone ([ADR 0031](../../../../docs/adr/0031-purging-tombstones.md)).
//!
//! A deleted chunk leaves a tombstone: an empty version, and the number of its last write, which a later one may follow and by which copies of earlier
//! ones are known. Once the head is gone from every replica of its partition no write follows those any more, since a new head begins with none.
//! So the chunk's primary asks for heads some time after the chunk was collected, and logs what may go.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Bound;

use tyr_types::Number;

use super::{Partition, collection::DISCARDS_MAX};
use crate::{
    ChunkName, Epoch, PartitionId, Time,
    canary::{Canary, planted},
    effects::Context,
    entry::{Entry, Tombstone},
    message::Message,
};

/// Chunks that may be tombstones whose blobs are gone. The primary alone asks; a new one begins with all tombstones that there are.
#[derive(Debug, Default)]
pub struct Tombstones {
    /// Each with the last question before it was noted.
    candidates: BTreeMap<ChunkName, u64>,
    /// The last one that was asked about: the others have their turn first.
    asked: Option<ChunkName>,
    asked_at: Time,
    /// How often was asked.
    asks: u64,
    /// Those that are gone, with the numbers of their last writes: they are logged together.
    gone: BTreeMap<ChunkName, Number>,
}

/// They are asked about, and purged, at most this often, in microseconds: by then their heads are gone, if they go.
const ASK_EVERY: u64 = 500_000;
/// As many at a time.
const ASKED_MAX: usize = 4096;

impl Tombstones {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.candidates.is_empty() && self.gone.is_empty()
    }

    /// The next ones to be asked about, in the order of names, and after the last one the first again.
    fn next(&mut self) -> Vec<ChunkName> {
        let after = match &self.asked {
            Some(asked) => Bound::Excluded(asked),
            None => Bound::Unbounded,
        };
        let behind = self.candidates.range((after, Bound::Unbounded));
        let in_turn = behind.chain(&self.candidates).map(|(name, _)| name);
        let next: Vec<_> = in_turn.take(ASKED_MAX).cloned().collect();
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
            self.tombstones.candidates.insert(name.clone(), self.tombstones.asks);
        }
    }

    /// Notes all that there are: whom a former primary would have asked about is not known.
    pub(super) fn note_tombstones(&mut self) {
        let names = self.state.chunks().filter(|(_, chunk)| chunk.may_be_tombstone()).map(|(name, _)| name);
        let names = names.filter(|_| !planted(Canary::TombstonesStay));
        self.tombstones.candidates = names.map(|name| (name.clone(), self.tombstones.asks)).collect();
    }

    pub(super) fn tick_tombstones(&mut self, cx: &mut Context<'_>) {
        if self.tombstones.are_none() || cx.now.since(self.tombstones.asked_at) < ASK_EVERY {
            return;
        }
        self.tombstones.asked_at = cx.now;
        self.purge(cx);
        self.tombstones.asks += 1;
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
                let ask = (self.configuration.epoch, self.tombstones.asks);
                let tombstones = tombstones.to_vec();
                cx.to_primary(head, Message::AskPurge { tombstones, partition: self.id, ask });
            }
        }
    }

    /// A chunk's primary asks which blobs are gone. Of a blob that is about to go it hears nothing, nor of one whose head may come back by a failure, and asks
    /// again. What exists is deleted by a write to all chunks that its head has numbered; and when what is kept is let go of, they are told once more what they may
    /// drop. A head that was made anew knows nothing of chunks that were written before.
    pub fn handle_ask_purge(
        &mut self,
        cx: &mut Context<'_>,
        tombstones: Vec<Tombstone>,
        partition: PartitionId,
        ask: (Epoch, u64),
    ) {
        if !self.knows_what_is_not_there(cx) {
            return;
        }
        let (mut gone, mut alive) = (Vec::new(), Vec::new());
        for tombstone in tombstones {
            let ChunkName { blob, index } = &tombstone.chunk;
            match self.state.head(blob).filter(|head| head.link(*index).is_some()) {
                Some(head) if head.blob().is_some() || self.state.keeps().hold(blob) => alive.push(tombstone),
                None if !self.state.gone().may_come_back(blob, self.durable) => gone.push(tombstone),
                _ => {}
            }
        }
        if !(gone.is_empty() && alive.is_empty()) {
            cx.to_primary(partition, Message::Purge { gone, alive, ask });
        }
    }

    /// A head's primary says which blobs are gone, and which are not: those are noted again before they go. Of chunks that were written, or noted,
    /// since that was asked it says nothing.
    pub fn handle_purge(&mut self, gone: Vec<Tombstone>, alive: &[Tombstone], (epoch, ask): (Epoch, u64)) {
        if !self.is_established() || epoch != self.configuration.epoch {
            return;
        }
        for tombstone in alive {
            let noted = self.tombstones.candidates.get(&tombstone.chunk);
            if noted.is_some_and(|noted| *noted < ask) && self.is_as_asked(tombstone) {
                self.tombstones.candidates.remove(&tombstone.chunk);
            }
        }
        for tombstone in gone {
            if self.is_as_asked(&tombstone) && self.tombstones.candidates.remove(&tombstone.chunk).is_some() {
                self.tombstones.gone.insert(tombstone.chunk, tombstone.last);
            }
        }
    }

    fn is_as_asked(&self, tombstone: &Tombstone) -> bool {
        let chunk = self.state.chunk(&tombstone.chunk);
        chunk.is_some_and(|chunk| chunk.is_tombstone() && chunk.last_arrival() == tombstone.last)
    }

    /// Logs what has come to be gone, unless it was written since.
    fn purge(&mut self, cx: &mut Context<'_>) {
        let gone = core::mem::take(&mut self.tombstones.gone);
        let gone = gone.into_iter().map(|(chunk, last)| Tombstone { chunk, last });
        let gone: Vec<_> = gone.filter(|tombstone| self.is_as_asked(tombstone)).collect();
        for gone in gone.chunks(DISCARDS_MAX) {
            self.append(cx, Entry::Purge(gone.to_vec()));
        }
    }
}
