//! Logs writes to chunks whose heads are elsewhere, in the order of their heads' numbers (design, section 5).

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use tyr_types::Number;

use super::{Partition, RESEND_AFTER};
use crate::{
    BlobName, ChunkName, Epoch, Outcome, PartitionId, Refusal, Time, TransactionId,
    effects::Context,
    entry::{ChunkWrite, ChunkWrites, Entry, Link, Part},
    message::Message,
    tries::Tries,
};

/// Writes that came before those that they follow.
#[derive(Debug)]
pub struct Held {
    writes: Arc<ChunkWrites>,
    driver: PartitionId,
    asked: Tries,
    /// What was asked if nobody waits for the transaction's answer any more: it may be a copy that comes late, of a write whose chunk was purged since, and
    /// whose outcome nobody would know. It is logged if its number is said to stand, in answer to that.
    doubt: Option<Time>,
}

/// A write has waited for so many questions before it is asked whether what it follows still comes.
const PREVIOUS_AFTER: u32 = 2;

impl Partition {
    /// Writes of a transaction past its lock point; or, if it is refused, the places that they would have had.
    pub fn handle_write(&mut self, cx: &mut Context<'_>, writes: &Arc<ChunkWrites>, driver: PartitionId) {
        let is_believed = writes.refused.is_none_or(|refusal| self.believes(cx, Outcome::Refused(refusal)));
        if !self.is_established() || !is_believed {
            return;
        }
        let id = writes.id;
        let logged = self.state.record(id).and_then(|record| record.write.as_ref()).map(|(index, _)| *index);
        match (logged, writes.refused) {
            (Some(index), None) if index <= self.durable => self.vote_for_writes(cx, id),
            (Some(_), None) => {}
            (Some(_), Some(refusal)) if self.has_passed(writes) => {
                self.hear_from(id, driver, true);
                self.handle_outcome(cx, id, Outcome::Refused(refusal), Some(driver));
            }
            (None, _) if self.state.is_over(id) && self.has_passed(writes) => {
                if !(self.knows_what_is_not_there(cx) && self.has_passed_durably(writes)) {
                    return;
                }
                // Forgotten, or dead long ago: its places are taken.
                for message in [
                    Message::Vote { id, part: Part::Chunks(self.id) },
                    Message::OutcomeStored { id, part: Part::Chunks(self.id) },
                ] {
                    cx.to_primary(driver, message);
                }
            }
            // If some are logged already, another driver knew of those only.
            _ => {
                let may_be_late = logged.is_none() && writes.refused.is_none() && self.state.is_over(id);
                let known = self.held.get(&id).and_then(|held| held.doubt);
                let doubt = may_be_late.then(|| known.unwrap_or(cx.now));
                let held = Held { writes: writes.clone(), driver, asked: Tries::first(cx.now), doubt };
                let replaces = self.held.get(&id).is_none_or(|held| held.writes.refused.is_none());
                if replaces {
                    self.tell_heads_of_shortage(cx, writes);
                    self.held.insert(id, held);
                    match doubt {
                        Some(asked) => self.ask_if_stands(cx, writes, asked),
                        None => self.pull(cx, writes),
                    }
                    self.log_held(cx);
                }
            }
        }
        self.settle(cx);
    }

    fn has_passed(&self, writes: &ChunkWrites) -> bool {
        self.places(writes).all(|place| place.is_some())
    }

    /// Whether all writes have taken their places, or lost them, and no failure can take that back.
    pub(super) fn has_passed_durably(&self, writes: &ChunkWrites) -> bool {
        self.places(writes).all(|place| place.is_some_and(|index| index <= self.durable))
    }

    /// For each write an entry by which it surely has taken its place, if it has.
    fn places(&self, writes: &ChunkWrites) -> impl Iterator<Item = Option<u64>> {
        writes.writes.iter().map(|(blob, number, write)| {
            let name = ChunkName { blob: blob.clone(), index: write.chunk };
            let here = self.state.chunk(&name).and_then(|chunk| chunk.passed_at(*number));
            here.or_else(|| self.purged_at(writes.id, &name, *number))
        })
    }

    /// The same of a write that is known to have been logged, to a chunk that was purged since.
    fn purged_at(&self, id: TransactionId, name: &ChunkName, number: Number) -> Option<u64> {
        let (_, known) = self.state.record(id)?.write.as_ref()?;
        let is_it = |(blob, known, write): &(BlobName, Number, ChunkWrite)| {
            *blob == name.blob && *known == number && write.chunk == name.index
        };
        known.writes.iter().find(|write| is_it(write))?;
        let mut purged = self.state.gone().chunks_of(name).peekable();
        // What the log cannot be cut before any more is durable.
        let is_for_good = purged.peek().is_none();
        purged.find_map(|chunk| chunk.passed_at(number)).or_else(|| is_for_good.then_some(0))
    }

    /// Logs what no longer waits for anything.
    pub(super) fn log_held(&mut self, cx: &mut Context<'_>) {
        loop {
            let is_free = |held: &Held| {
                held.doubt.is_none()
                    && self.all_arrived(&held.writes)
                    && self.lacking(&held.writes).is_empty()
            };
            let free = self.held.iter().find(|(_, held)| is_free(held)).map(|(id, _)| *id);
            let Some(mut held) = free.and_then(|id| self.held.remove(&id)) else { return };
            held.writes = self.as_known(held.writes);
            let (id, refused) = (held.writes.id, held.writes.refused);
            if refused.is_some() {
                self.hear_from(id, held.driver, true);
            }
            self.append(cx, Entry::Write(held.writes));
            if let Some(refusal) = refused {
                self.learn(id, Outcome::Refused(refusal));
            }
        }
    }

    /// Writes of a transaction that is known to be refused only take their places. Every replica has to see that in the log: one that
    /// did not hear of the refusal would wait for it for ever.
    fn as_known(&self, writes: Arc<ChunkWrites>) -> Arc<ChunkWrites> {
        match self.state.record(writes.id).and_then(|record| record.outcome) {
            Some(Outcome::Refused(refusal)) if writes.refused.is_none() => {
                let mut refused = ChunkWrites::clone(&writes);
                refused.refused = Some(refusal);
                refused.writes.iter_mut().for_each(|(_, _, write)| write.operations.clear());
                Arc::new(refused)
            }
            _ => writes,
        }
    }

    /// What held writes wait for, for a report.
    pub(super) fn describe_held(&self, held: &Held) -> alloc::string::String {
        let mut text = alloc::string::String::new();
        for (blob, number, write) in &held.writes.writes {
            let name = ChunkName { blob: blob.clone(), index: write.chunk };
            let here = self.state.chunk(&name).map(|chunk| chunk.last_arrival());
            let previous = write.previous.map(|link| alloc::format!("{} of {}", link.number, link.id));
            text.push_str(&alloc::format!(
                "{:?}:{} {number} after {previous:?}, here {here:?}; ",
                blob.key,
                write.chunk
            ));
        }
        text
    }

    fn all_arrived(&self, writes: &ChunkWrites) -> bool {
        let has_been_logged = |blob: &BlobName, number: Number, write: &ChunkWrite| {
            let name = ChunkName { blob: blob.clone(), index: write.chunk };
            self.purged_at(writes.id, &name, number).is_some()
        };
        writes.writes.iter().all(|(blob, number, write)| {
            self.has_arrived(blob, write) || has_been_logged(blob, *number, write)
        })
    }

    /// Whether what a write follows is here.
    fn has_arrived(&self, blob: &BlobName, write: &ChunkWrite) -> bool {
        let name = ChunkName { blob: blob.clone(), index: write.chunk };
        match self.state.chunk(&name) {
            Some(chunk) => chunk.has_arrived(write.previous),
            None => write.previous.is_none(),
        }
    }

    /// Writes are durable on all replicas.
    pub(super) fn handle_write_durable(&mut self, cx: &mut Context<'_>, writes: &Arc<ChunkWrites>) {
        if writes.refused.is_some() {
            self.say_stored(cx, writes.id);
        } else {
            self.unsure.add(cx.now, writes.id, RESEND_AFTER);
            self.vote_for_writes(cx, writes.id);
        }
    }

    fn vote_for_writes(&self, cx: &mut Context<'_>, id: TransactionId) {
        let Some((_, writes)) = self.state.record(id).and_then(|record| record.write.as_ref()) else {
            return;
        };
        cx.to_primary(writes.decider, Message::Vote { id, part: Part::Chunks(self.id) });
    }

    /// A head's partition says that a number is lost: whatever was to be written under it never is.
    pub fn handle_number_lost(&mut self, cx: &mut Context<'_>, id: TransactionId, number: Number) {
        if !self.knows_what_is_not_there(cx) {
            return;
        }
        if let Some(held) = self.held.get_mut(&id) {
            let mut writes = ChunkWrites::clone(&held.writes);
            writes.writes.retain(|(_, other, _)| *other != number);
            if writes.writes.is_empty() {
                let (driver, refused) = (held.driver, held.writes.refused);
                self.held.remove(&id);
                if refused.is_some() {
                    cx.to_primary(driver, Message::OutcomeStored { id, part: Part::Chunks(self.id) });
                }
            } else {
                held.writes = Arc::new(writes);
                self.log_held(cx);
            }
        } else if self.state.record(id).is_some_and(|record| record.outcome.is_none()) {
            self.handle_outcome(cx, id, Outcome::Refused(Refusal::Fenced), None);
        }
        self.settle(cx);
    }

    /// A chunk's partition asks whether a number still stands.
    pub fn handle_ask_number(
        &mut self,
        cx: &mut Context<'_>,
        number: Number,
        id: TransactionId,
        partition: PartitionId,
    ) {
        // A primary of an earlier epoch that has not heard of a later one lacks that one's numbers; they are not lost.
        let is_of_the_past = number.epoch() < u64::from(self.configuration.epoch.0);
        if self.is_established() && is_of_the_past && !self.log.contains(number) {
            cx.to_primary(partition, Message::NumberLost { number, id });
        }
    }

    /// A chunk's partition asks whether a write may be the first copy that it is sent.
    pub fn handle_ask_stands(
        &mut self,
        cx: &mut Context<'_>,
        (number, id): (Number, TransactionId),
        asked: (Epoch, Time),
        partition: PartitionId,
    ) {
        if self.knows_what_is_not_there(cx) && self.log.contains(number) {
            let stands = self.state.record(id).is_some_and(|record| record.outcome.is_none());
            cx.to_primary(partition, Message::Stands { id, asked, stands });
        }
    }

    /// A head's partition answers. If it does not know yet how the transaction ended, nobody has forgotten that: before, every head was told. Else it is
    /// committed, and was logged here before, or it is refused, and whoever drives it says that when it says it again.
    pub fn handle_stands(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        (epoch, asked): (Epoch, Time),
        stands: bool,
    ) {
        let is_asked = |held: &&mut Held| held.doubt == Some(asked);
        let Some(held) = self.held.get_mut(&id).filter(is_asked) else { return };
        if epoch != self.configuration.epoch {
            return;
        }
        if stands {
            held.doubt = None;
            let writes = held.writes.clone();
            self.pull(cx, &writes);
            self.log_held(cx);
        } else {
            self.held.remove(&id);
        }
        self.settle(cx);
    }

    fn ask_if_stands(&self, cx: &mut Context<'_>, writes: &ChunkWrites, asked: Time) {
        let (id, asked) = (writes.id, (self.configuration.epoch, asked));
        for (head, number) in numbers(cx, writes).into_iter().collect::<BTreeSet<_>>() {
            cx.to_primary(head, Message::AskStands { number, id, asked, partition: self.id });
        }
    }

    /// A write waits at its chunk for the one before it. If that one's transaction is forgotten, its outcome was durable at every part once, and so
    /// was its write: who lacks it begins anew after a loss.
    pub fn handle_ask_previous(
        &mut self,
        cx: &mut Context<'_>,
        (number, previous): (Number, TransactionId),
        id: TransactionId,
        partition: PartitionId,
    ) {
        let is_forgotten = self.state.record(previous).is_none() && !self.drives.contains_key(&previous);
        if self.knows_what_is_not_there(cx) && self.log.contains(number) && is_forgotten {
            cx.to_primary(partition, Message::PreviousOver { number, id });
        }
    }

    /// The write that one here follows never comes.
    pub fn handle_previous_over(&mut self, cx: &mut Context<'_>, id: TransactionId, number: Number) {
        if !self.knows_what_is_not_there(cx) {
            return;
        }
        let Some(held) = self.held.get_mut(&id) else { return };
        let writes = Arc::make_mut(&mut held.writes).writes.iter_mut();
        for (_, _, write) in
            writes.filter(|(.., write)| write.previous.is_some_and(|link| link.number == number))
        {
            write.previous = None;
        }
        self.log_held(cx);
        self.settle(cx);
    }

    /// What writes that are held wait for, with the partitions of their heads.
    fn previous_of(&self, cx: &Context<'_>, writes: &ChunkWrites) -> Vec<(PartitionId, Link)> {
        let absent = writes.writes.iter().filter_map(|(blob, _, write)| {
            let link = write.previous.filter(|_| !self.has_arrived(blob, write))?;
            Some((cx.keyspaces.get(&blob.keyspace)?.partition_of(blob, 0), link))
        });
        absent.collect()
    }

    /// Asks for the fate of writes that wait for long.
    pub(super) fn tick_chunks(&mut self, cx: &mut Context<'_>) {
        let mut questions: BTreeSet<(PartitionId, Number, TransactionId)> = BTreeSet::new();
        let (mut late, mut doubted) = (Vec::new(), Vec::new());
        let mut later = Vec::new();
        for (id, held) in &mut self.held {
            if held.asked.is_due(cx.now, RESEND_AFTER) {
                held.asked.again(cx.now);
                questions
                    .extend(numbers(cx, &held.writes).into_iter().map(|(head, number)| (head, number, *id)));
                match held.doubt {
                    Some(asked) => doubted.push((held.writes.clone(), asked)),
                    None => late.push(held.writes.clone()),
                }
                if held.asked.count() >= PREVIOUS_AFTER {
                    later.push(held.writes.clone());
                }
            }
        }
        late.iter().for_each(|writes| self.pull(cx, writes));
        doubted.iter().for_each(|(writes, asked)| self.ask_if_stands(cx, writes, *asked));
        for writes in later {
            for (head, Link { number, id: previous, .. }) in self.previous_of(cx, &writes) {
                let message = Message::AskPrevious { number, previous, id: writes.id, partition: self.id };
                cx.to_primary(head, message);
            }
        }
        for reminder in self.unsure.take_due(cx.now) {
            let id = reminder.id;
            let Some(record) = self.state.record(id).filter(|record| record.outcome.is_none()) else {
                continue;
            };
            let Some((_, writes)) = &record.write else { continue };
            questions.extend(numbers(cx, writes).into_iter().map(|(head, number)| (head, number, id)));
            let ask = Message::Ask { id, partition: self.id, node: self.me.node };
            cx.to_primary(writes.decider, ask);
            self.unsure.add_again(cx.now, reminder);
        }
        for (head, number, id) in questions {
            cx.to_primary(head, Message::AskNumber { number, id, partition: self.id });
        }
        self.log_held(cx);
    }
}

/// The numbers of writes with the partitions of their heads.
fn numbers(cx: &Context<'_>, writes: &ChunkWrites) -> Vec<(PartitionId, Number)> {
    let number = |(blob, number, _): &(BlobName, Number, _)| {
        let keyspace = cx.keyspaces.get(&blob.keyspace)?;
        Some((keyspace.partition_of(blob, 0), *number))
    };
    writes.writes.iter().filter_map(number).collect()
}
