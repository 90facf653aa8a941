//! Drops versions that nobody can read any more (design, section 7).
//!
//! A version may go only by a list of pins taken at every replica of the head after that replica had applied the write that
//! superseded it. Later readers at that replica see the superseding version or a later one.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::Bound;

use tyr_types::Number;

use super::{Partition, RESEND_AFTER, Role};
use crate::{
    BlobName, ChunkName, Epoch, NodeId, PartitionId, Time,
    canary::{Canary, planted},
    chunk::Chunk,
    effects::{Context, Effect},
    entry::{Discard, Entry},
    message::Message,
};

/// Blobs with superseded versions, and the round of collection that is under way.
#[derive(Debug, Default)]
pub struct Collection {
    superseded: BTreeSet<BlobName>,
    /// The last one that was looked at: what is held goes to the end of the queue.
    looked_at: Option<BlobName>,
    round: Option<Round>,
    last_at: Time,
    /// Chunks that were told to drop versions.
    dropping: BTreeMap<ChunkName, Dropping>,
}

/// What a chunk was told to drop.
#[derive(Debug)]
struct Dropping {
    /// Where that is logged.
    index: u64,
    /// Who is to hear when it is durable.
    head: PartitionId,
    /// Whether nothing may be left of it then.
    is_empty: bool,
    discard: Discard,
}

#[derive(Debug)]
struct Round {
    /// Up to which number each is collected, and what readers hold below that.
    blobs: BTreeMap<BlobName, (Number, BTreeSet<Number>)>,
    /// What is kept of them for snapshots with names.
    kept: BTreeMap<BlobName, Vec<Number>>,
    unheard: BTreeSet<NodeId>,
    chunks: BTreeMap<ChunkName, (PartitionId, Discard)>,
    sent_at: Time,
}

/// As many blobs are collected in one round.
const ROUND_MAX: usize = 64;
/// As many chunks are told of by one message, and logged in one entry.
pub(super) const DISCARDS_MAX: usize = 256;
/// A round begins at most this often, in microseconds.
const ROUND_EVERY: u64 = 50_000;

impl Collection {
    /// Whether there is nothing to collect, and nothing on its way.
    pub fn is_done(&self) -> bool {
        self.superseded.is_empty() && self.round.is_none() && self.dropping.is_empty()
    }

    /// Takes the next blob for a round that has room for so many. In the order of names, and after the last one the first again; if there is room
    /// for all, in any order.
    fn take_next(&mut self, room: usize) -> Option<BlobName> {
        if self.superseded.len() <= room {
            return self.superseded.pop_first();
        }
        let after = self.looked_at.as_ref().filter(|after| self.superseded.last() > Some(after));
        let next = match after {
            None => self.superseded.pop_first()?,
            Some(after) => {
                let next =
                    self.superseded.range((Bound::Excluded(after), Bound::Unbounded)).next().cloned()?;
                self.superseded.take(&next)?
            }
        };
        self.looked_at = Some(next.clone());
        Some(next)
    }

    /// How many blobs have versions that may be collected.
    pub fn backlog(&self) -> usize {
        self.superseded.len() + self.round.as_ref().map_or(0, |round| round.blobs.len())
    }
}

impl Partition {
    /// Notes blobs of which versions were superseded. The primary alone collects; a new one begins with all blobs that there are.
    pub(super) fn note_superseded(&mut self, blobs: BTreeSet<BlobName>) {
        if self.is_established() {
            self.collection.superseded.extend(blobs);
        }
    }

    pub(super) fn tick_collection(&mut self, cx: &mut Context<'_>) {
        match &self.collection.round {
            None => self.begin_round(cx),
            Some(round) if cx.now.since(round.sent_at) >= RESEND_AFTER => self.send_round(cx),
            Some(_) => {}
        }
    }

    fn begin_round(&mut self, cx: &mut Context<'_>) {
        if self.collection.superseded.is_empty() || cx.now.since(self.collection.last_at) < ROUND_EVERY {
            return;
        }
        self.collection.last_at = cx.now;
        let mut blobs = BTreeMap::new();
        while blobs.len() < ROUND_MAX
            && let Some(blob) = self.collection.take_next(ROUND_MAX - blobs.len())
        {
            let Some(head) = self.state.head(&blob) else { continue };
            let number = head.newest();
            // Of what is kept nothing goes before it is let go of.
            let may_go = head.is_gone() && !self.state.keeps().hold(&blob);
            if number > head.collected() || may_go {
                let pins = self.pins_of(&blob, number);
                blobs.insert(blob, (number, pins));
            }
        }
        let Role::Primary { peers, .. } = &self.role else { return };
        let learns =
            |node: &&NodeId| self.configuration.learners.iter().any(|learner| learner.node == **node);
        let is_heard = |node: &&NodeId| learns(node) || planted(Canary::PinsOfPrimaryAlone);
        let unheard = peers.keys().filter(|node| !is_heard(node)).copied().collect();
        if !blobs.is_empty() {
            let round =
                Round { blobs, kept: BTreeMap::new(), unheard, chunks: BTreeMap::new(), sent_at: cx.now };
            self.collection.round = Some(round);
            self.send_round(cx);
            self.release_if_heard(cx);
        }
    }

    fn send_round(&mut self, cx: &mut Context<'_>) {
        let Some(round) = &mut self.collection.round else { return };
        round.sent_at = cx.now;
        let epoch = self.configuration.epoch;
        for node in &round.unheard {
            let blobs = round.blobs.iter().map(|(blob, (number, _))| (blob.clone(), *number)).collect();
            cx.push(Effect::ToNode(*node, self.id, Message::AskPins { epoch, blobs }));
        }
        let mut by_partition: BTreeMap<PartitionId, Vec<Discard>> = BTreeMap::new();
        for (partition, discard) in round.chunks.values() {
            by_partition.entry(*partition).or_default().push(discard.clone());
        }
        for (partition, discards) in by_partition {
            for discards in discards.chunks(DISCARDS_MAX) {
                cx.to_primary(partition, Message::Collect { head: self.id, discards: discards.to_vec() });
            }
        }
    }

    /// The primary asks which numbers readers hold at this replica.
    pub fn handle_ask_pins(&mut self, cx: &mut Context<'_>, epoch: Epoch, blobs: &[(BlobName, Number)]) {
        let applied = |(blob, number): &(BlobName, Number)| {
            self.state.head(blob).is_none_or(|head| head.newest() >= *number)
        };
        if epoch != self.configuration.epoch || !blobs.iter().all(applied) {
            return;
        }
        let pins = |(blob, number): &(BlobName, Number)| {
            (blob.clone(), *number, self.pins_of(blob, *number).into_iter().collect())
        };
        let blobs = blobs.iter().map(pins).collect();
        self.to_primary_of_self(cx, Message::Pins { epoch, node: self.me.node, blobs });
    }

    /// A replica says which numbers readers hold there.
    pub fn handle_pins(
        &mut self,
        cx: &mut Context<'_>,
        epoch: Epoch,
        node: NodeId,
        blobs: Vec<(BlobName, Number, Vec<Number>)>,
    ) {
        let Some(round) = self.collection.round.as_mut().filter(|_| epoch == self.configuration.epoch) else {
            return;
        };
        let asked = |(blob, number, _): &(BlobName, Number, Vec<Number>)| {
            round.blobs.get(blob).is_some_and(|(asked, _)| asked == number)
        };
        if blobs.len() != round.blobs.len() || !blobs.iter().all(asked) || !round.unheard.remove(&node) {
            return;
        }
        for (blob, _, pins) in blobs {
            if let Some((_, held)) = round.blobs.get_mut(&blob) {
                held.extend(pins);
            }
        }
        self.release_if_heard(cx);
    }

    /// Once every replica has been heard, tells the chunks what they may drop.
    fn release_if_heard(&mut self, cx: &mut Context<'_>) {
        let Collection { round, superseded, .. } = &mut self.collection;
        let Some(round) = round.as_mut().filter(|round| round.unheard.is_empty()) else { return };
        if round.chunks.is_empty() {
            // Where the chunks are of a keyspace that was not heard of yet is not known: these wait.
            let waiting = round.blobs.extract_if(.., |blob, _| !cx.keyspaces.contains_key(&blob.keyspace));
            superseded.extend(waiting.map(|(blob, _)| blob));
            for (blob, (number, pins)) in &round.blobs {
                let Some(keyspace) = cx.keyspaces.get(&blob.keyspace) else { continue };
                let kept = match planted(Canary::KeepsIgnored) {
                    true => Vec::new(),
                    false => self.state.keeps().numbers_of(blob),
                };
                let mut keep: Vec<Number> = pins.iter().copied().collect();
                if !kept.is_empty() {
                    keep.extend(kept.iter().filter(|kept| *kept < number));
                    keep.sort_unstable();
                    keep.dedup();
                    round.kept.insert(blob.clone(), kept);
                }
                let chunks = self.state.head(blob).into_iter().flat_map(|head| head.linked_chunks());
                for index in chunks {
                    let chunk = ChunkName { blob: blob.clone(), index };
                    let discard = Discard { chunk: chunk.clone(), up_to: *number, keep: keep.clone() };
                    round.chunks.insert(chunk, (keyspace.partition_of(blob, index), discard));
                }
            }
        }
        self.end_round_if_done(cx);
        self.send_round(cx);
    }

    fn end_round_if_done(&mut self, cx: &mut Context<'_>) {
        let done = self.collection.round.as_ref().is_some_and(|round| round.chunks.is_empty());
        let Some(round) = self.collection.round.take_if(|_| done) else { return };
        let mut collected = Vec::new();
        for (blob, (up_to, pins)) in round.blobs {
            let kept = round.kept.get(&blob).map_or(&[][..], |kept| &kept[..]);
            let is_kept_as_before = self.state.keeps().numbers_of(&blob) == kept;
            if pins.is_empty() && is_kept_as_before && !self.is_visited(&blob) {
                collected.push((blob, up_to));
            } else {
                // What readers hold is collected when they have let go. What is kept is not looked at again before it is let go of.
                self.collection.superseded.insert(blob);
            }
        }
        if !collected.is_empty() {
            self.append(cx, Entry::Collected(collected));
        }
    }

    /// Whether a transaction has a place at a head without a blob, so that it stays though all is collected: then nobody would look for it again.
    fn is_visited(&self, blob: &BlobName) -> bool {
        self.state.head(blob).is_some_and(|head| head.blob().is_none() && head.places().len() > 0)
    }

    /// A head's primary says what chunks may drop.
    pub fn handle_collect(&mut self, cx: &mut Context<'_>, head: PartitionId, discards: Vec<Discard>) {
        if !self.knows_what_is_not_there(cx) {
            return;
        }
        let (mut drops, mut dropped, mut tombstones) = (Vec::new(), Vec::new(), Vec::new());
        for discard in discards {
            let here = self.state.chunk(&discard.chunk);
            if here.is_some_and(|here| here.pending_up_to(discard.up_to).next().is_some()) {
                // The outcome of what supersedes has not come yet; the head asks again.
                continue;
            }
            let is_empty = here.is_some_and(Chunk::is_empty);
            if here.is_some_and(|here| here.would_collect(discard.up_to, &discard.keep)) {
                drops.push((discard, is_empty));
            } else if !self.collection.dropping.contains_key(&discard.chunk) {
                tombstones.extend(is_empty.then(|| discard.chunk.clone()));
                dropped.push(discard);
            }
        }
        tombstones.iter().for_each(|chunk| self.note_tombstone(chunk));
        if !dropped.is_empty() {
            cx.to_primary(head, Message::Collected { discards: dropped });
        }
        if !drops.is_empty() {
            let discards = drops.iter().map(|(discard, _)| discard.clone()).collect();
            let index = self.append(cx, Entry::Collect(discards));
            for (discard, is_empty) in drops {
                let dropping = Dropping { index, head, is_empty, discard };
                self.collection.dropping.insert(dropping.discard.chunk.clone(), dropping);
            }
        }
    }

    pub(super) fn handle_collect_durable(&mut self, cx: &mut Context<'_>, discards: &[Discard]) {
        let mut by_head: BTreeMap<PartitionId, Vec<Discard>> = BTreeMap::new();
        let mut tombstones = Vec::new();
        let durable = self.durable;
        for Discard { chunk, .. } in discards {
            let dropping = &mut self.collection.dropping;
            if dropping.get(chunk).is_some_and(|dropping| dropping.index <= durable)
                && let Some(Dropping { head, is_empty, discard, .. }) = dropping.remove(chunk)
            {
                tombstones.extend(is_empty.then_some(chunk));
                by_head.entry(head).or_default().push(discard);
            }
        }
        for (head, discards) in by_head {
            cx.to_primary(head, Message::Collected { discards });
        }
        tombstones.into_iter().for_each(|chunk| self.note_tombstone(chunk));
    }

    /// Chunks have dropped what they may.
    pub fn handle_collected(&mut self, cx: &mut Context<'_>, discards: &[Discard]) {
        let Some(round) = self.collection.round.as_mut().filter(|round| round.unheard.is_empty()) else {
            return;
        };
        for discard in discards {
            if round.chunks.get(&discard.chunk).is_some_and(|(_, asked)| asked == discard) {
                round.chunks.remove(&discard.chunk);
            }
        }
        self.end_round_if_done(cx);
    }
}
