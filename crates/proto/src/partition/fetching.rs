//! Fetches the bytes that a transaction's turn depends on: of a number that lies in two chunks, which none of them can transform alone.
//!
//! The head's partition reads the number at the last write of its head and works out a plain write. While it waits for the bytes the
//! transaction keeps its place in the queue and holds back others on the same head, so nothing is written in between; if something was,
//! the bytes are of another version and are fetched again.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::Range;

use tyr_types::Number;

use super::{Partition, RESEND_AFTER};
use crate::{
    ChunkName, PartitionId, Time, TransactionId,
    chunk::{Chunk, ChunkBytes},
    effects::Context,
    message::Message,
};

/// Bytes of a chunk at a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The chunk.
    pub chunk: ChunkName,
    /// The bytes within it: their beginning and their end.
    pub within: (u64, u64),
    /// The number.
    pub at: Number,
}

/// What waiting transactions want, and what has come of it.
#[derive(Debug, Default)]
pub struct Fetches {
    of: BTreeMap<TransactionId, Fetch>,
}

#[derive(Debug, Default)]
struct Fetch {
    missing: BTreeSet<Wanted>,
    found: BTreeMap<Wanted, Vec<u8>>,
    sent_at: Time,
}

/// No number that is transformed has more bytes.
const NUMBER_SIZE_MAX: u64 = 8;

impl Fetches {
    /// Whether nothing is wanted.
    pub fn are_none(&self) -> bool {
        self.of.is_empty()
    }

    /// The bytes that a transaction wanted, if they have come.
    pub fn found(&self, id: TransactionId, wanted: &Wanted) -> Option<&Vec<u8>> {
        self.of.get(&id).and_then(|fetch| fetch.found.get(wanted))
    }

    /// Forgets what a transaction wanted.
    pub fn end(&mut self, id: TransactionId) {
        self.of.remove(&id);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.of.clear();
    }
}

impl Partition {
    /// Asks for bytes that a transaction waits for. What it has found for its other heads stays; what is of another version than wanted goes.
    pub(super) fn fetch(&mut self, cx: &mut Context<'_>, id: TransactionId, wanted: Vec<Wanted>) {
        let fetch = self.fetches.of.entry(id).or_default();
        let is_stale = |found: &Wanted| {
            wanted
                .iter()
                .any(|one| (&one.chunk, one.within) == (&found.chunk, found.within) && one.at != found.at)
        };
        fetch.found.retain(|found, _| !is_stale(found));
        let missing: BTreeSet<Wanted> =
            wanted.into_iter().filter(|wanted| !fetch.found.contains_key(wanted)).collect();
        if missing != fetch.missing {
            (fetch.missing, fetch.sent_at) = (missing, cx.now);
            self.send_fetch(cx, id);
        }
    }

    fn send_fetch(&self, cx: &mut Context<'_>, id: TransactionId) {
        let Some(fetch) = self.fetches.of.get(&id) else { return };
        for Wanted { chunk, within, at } in &fetch.missing {
            let Some(keyspace) = cx.keyspaces.get(&chunk.blob.keyspace) else { continue };
            let to = keyspace.partition_of(&chunk.blob, chunk.index);
            let (chunk, range, partition) = (chunk.clone(), within.0..within.1, self.id);
            cx.to_primary(to, Message::Fetch { id, chunk, range, at: *at, partition });
        }
    }

    /// A head's partition wants bytes of a chunk. If not everything up to the number is applied, it asks again.
    pub fn handle_fetch(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        name: ChunkName,
        range: Range<u64>,
        at: Number,
        partition: PartitionId,
    ) {
        let is_number = range.end.saturating_sub(range.start) <= NUMBER_SIZE_MAX;
        if !self.is_established() || !cx.has_lease || !is_number {
            return;
        }
        let nothing = Chunk::default();
        let chunk = self.state.chunk(&name).unwrap_or(&nothing);
        if chunk.pending_up_to(at).next().is_some() {
            return;
        }
        if let ChunkBytes::Found(_, bytes, _) = chunk.read_at(at, &range) {
            cx.to_primary(partition, Message::Fetched { id, chunk: name, range, at, bytes });
        }
    }

    /// A chunk's partition sends bytes.
    pub fn handle_fetched(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        chunk: ChunkName,
        range: Range<u64>,
        at: Number,
        bytes: Vec<u8>,
    ) {
        let Some(fetch) = self.fetches.of.get_mut(&id) else { return };
        let wanted = Wanted { chunk, within: (range.start, range.end), at };
        if bytes.len() as u64 == range.end.saturating_sub(range.start) && fetch.missing.remove(&wanted) {
            fetch.found.insert(wanted, bytes);
            self.chain.stir();
            self.settle(cx);
        }
    }

    /// Asks again for bytes that have not come.
    pub(super) fn tick_fetches(&mut self, cx: &mut Context<'_>) {
        let is_late =
            |fetch: &Fetch| !fetch.missing.is_empty() && cx.now.since(fetch.sent_at) >= RESEND_AFTER;
        let late: Vec<TransactionId> =
            self.fetches.of.iter().filter(|(_, fetch)| is_late(fetch)).map(|(id, _)| *id).collect();
        for id in late {
            if let Some(fetch) = self.fetches.of.get_mut(&id) {
                fetch.sent_at = cx.now;
            }
            self.send_fetch(cx, id);
        }
    }
}
