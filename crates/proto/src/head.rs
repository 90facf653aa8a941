//! The head of a blob at one replica: what is decided, what is numbered and waits for its fate, and who holds the slot.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
};
use core::ops::{Range, RangeInclusive};

use tyr_types::{ATTRIBUTES_SIZE_MAX, Number};

use crate::{
    Outcome, Refusal, Seen, TransactionId,
    canary::{Canary, planted},
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    entry::{ExistenceEffect, HeadEffect, Link, SizeEffect},
    layout,
    message::{BlobStat, Looked},
};

/// A head.
///
/// Invariants: places are in the order of their numbers; what is decided is applied in that order, so that `blob` is what the
/// transactions up to `newest` left. A write is never numbered below another. The first place is never decided: what is decided at the
/// front is applied.
///
/// What a place means for those behind it is kept with it, so that nothing here takes longer the more transactions are in flight, but what concerns
/// attributes: only a refusal that changes what its followers built on is worked out anew, from its place on.
#[derive(Clone, Debug, Default)]
pub struct Head {
    newest: Number,
    blob: Option<Blob>,
    places: VecDeque<Place>,
    /// Places of undecided transactions that do more than read.
    undecided_writes: BTreeSet<Number>,
    /// How many places leave existence, and how many leave the size, to an outcome that is not known.
    open: (usize, usize),
    /// The last writes of each chunk that were numbered, so that cutting the log takes numbers back.
    links: BTreeMap<u64, VecDeque<Link>>,
    slot: BTreeMap<TransactionId, Access>,
    recent: VecDeque<(Number, TransactionId, Arc<HeadEffect>)>,
    recent_after: Number,
    begun_after: Number,
    collect_from: Number,
    /// Where in the log that was noted.
    collected_at: u64,
}

/// A blob as its head knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob {
    /// The number of the transaction that created it.
    pub creation: Number,
    /// Its size in bytes.
    pub size: u64,
    /// Its attributes.
    pub attributes: BTreeMap<String, Arc<[u8]>>,
    /// The chunks that were written, with the number of the last write of each.
    pub written: BTreeMap<u64, Number>,
}

/// A transaction's place in the order of a head.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its number.
    pub number: Number,
    /// The transaction.
    pub id: TransactionId,
    /// Where in the partition's log its prepare is.
    pub log_index: u64,
    /// Whether it visits this head alone: then it is lost only together with all that comes after it.
    pub alone: bool,
    /// Whether it only reads this blob.
    pub only_reads: bool,
    effect: Arc<HeadEffect>,
    outcome: Option<Outcome>,
    after: After,
}

/// The blob as it will be after a place, if all that is not refused up to there is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct After {
    exists: bool,
    size: u64,
    /// Whether it is this place that leaves existence, or the size, to an outcome that is not known.
    opens: (bool, bool),
}

/// How a transaction over several heads holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads; others that only read may hold the slot, too.
    Reads,
    /// It writes; nobody else holds the slot.
    Writes,
}

/// The blob as it will be if everything that has a number is committed, with what is not certain because a transaction over
/// several heads may still be refused elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Whether it will exist.
    pub exists: bool,
    /// Its size then.
    pub size: u64,
    /// Whether existence depends on such a transaction.
    pub existence_open: bool,
    /// Whether the size does.
    pub size_open: bool,
}

/// The value of an attribute as it will be if everything that has a number is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeAhead<'a> {
    /// The value, if it will be set.
    pub value: Option<&'a Arc<[u8]>>,
    /// Whether that depends on a transaction over several heads, which may still be refused elsewhere.
    pub is_open: bool,
}

/// Whether there is room for attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributesFit {
    /// Whatever becomes of what is not certain.
    Yes,
    /// It depends on transactions over several heads.
    Unknown,
    /// There is none.
    No,
}

/// As many writes of each blob are remembered by byte range; a reader that read before them is refused by conflict.
const RECENT_MAX: usize = 64;

impl Head {
    /// A head of which nothing is known before a number: who read it earlier has read another one.
    pub fn beginning_after(number: Number) -> Self {
        Head { recent_after: number, begun_after: number, ..Head::default() }
    }

    /// The number of the last transaction that is applied.
    pub fn newest(&self) -> Number {
        self.newest
    }

    /// The number at which a reader of what is applied reads.
    pub fn read_number(&self) -> Number {
        self.newest.max(self.begun_after)
    }

    /// The blob after the last transaction that is applied.
    pub fn blob(&self) -> Option<&Blob> {
        self.blob.as_ref()
    }

    /// Places that are not applied, in order.
    pub fn places(&self) -> impl DoubleEndedIterator<Item = &Place> + ExactSizeIterator {
        self.places.iter()
    }

    /// The number at which everything is read that has a number now, once it is decided.
    pub fn frozen_number(&self) -> Number {
        self.last_number().max(self.begun_after)
    }

    /// Whether the fate of every write up to a number is known.
    pub fn is_decided_up_to(&self, number: Number) -> bool {
        self.places.iter().find(|place| !place.only_reads).is_none_or(|place| place.number > number)
    }

    /// Whether a write has a place that is not applied.
    pub fn is_being_written(&self) -> bool {
        self.places.iter().any(|place| !place.only_reads)
    }

    /// Whether a freeze has to look at it: somebody holds its slot, or a write is not decided.
    pub fn is_in_motion(&self) -> bool {
        !self.slot.is_empty() || self.is_being_written()
    }

    /// The blob after the last transaction that is applied, as readers are told of it.
    pub fn looked(&self) -> Option<Looked> {
        self.blob.as_ref().map(|blob| Looked {
            creation: blob.creation,
            size: blob.size,
            attributes: blob.attributes.clone(),
            written: blob.written.clone(),
        })
    }

    /// The blob after the last transaction that is applied, without its chunks.
    pub fn stat(&self) -> Option<BlobStat> {
        self.blob.as_ref().map(|blob| BlobStat {
            creation: blob.creation,
            size: blob.size,
            attributes: blob.attributes.clone(),
        })
    }

    /// The number of the last place, or of the last transaction that is applied.
    pub fn last_number(&self) -> Number {
        self.places.back().map_or(self.newest, |place| place.number)
    }

    /// Where the next write of a chunk links to.
    pub fn link(&self, chunk: u64) -> Option<Link> {
        self.links.get(&chunk).and_then(|links| links.back()).copied()
    }

    /// How many chunks were ever numbered.
    pub fn chunk_count(&self) -> usize {
        self.links.len()
    }

    /// Every chunk that was ever numbered.
    pub fn linked_chunks(&self) -> impl Iterator<Item = u64> {
        self.links.keys().copied()
    }

    /// Every one of some.
    pub fn linked_chunks_of(&self, chunks: RangeInclusive<u64>) -> impl Iterator<Item = u64> {
        self.links.range(chunks).map(|(chunk, _)| *chunk)
    }

    /// What will be, seen from the end of the order.
    pub fn ahead(&self) -> Ahead {
        let After { exists, size, .. } = self.after(self.places.len());
        let (existence, sizes) = self.open;
        Ahead { exists, size, existence_open: existence > 0, size_open: sizes > 0 }
    }

    /// The value that an attribute will have, seen from the end of the order. That the blob exists is known otherwise.
    pub fn attribute_ahead(&self, name: &str) -> AttributeAhead<'_> {
        let left =
            self.places.iter().rev().filter(|place| !matches!(place.outcome, Some(Outcome::Refused(_))));
        for place in left {
            let effect = &place.effect;
            let is_new = matches!(effect.existence, ExistenceEffect::Ends | ExistenceEffect::Restarts);
            let set = effect.attributes.iter().rev().find(|(other, _)| other == name);
            if is_new || set.is_some() {
                let value = set.and_then(|(_, value)| value.as_ref());
                return AttributeAhead { value, is_open: !place.alone && place.outcome.is_none() };
            }
        }
        let value = self.blob.as_ref().and_then(|blob| blob.attributes.get(name));
        AttributeAhead { value, is_open: false }
    }

    /// Whether there is room for what a transaction does to the attributes, if it takes the next place. Whoever removes some is always let in.
    pub fn attributes_fit(&self, effect: &HeadEffect) -> AttributesFit {
        let size_of = |(name, value): &(String, Option<Arc<[u8]>>)| {
            value.as_ref().map_or(0, |value| name.len() + value.len())
        };
        let size_set = |effect: &HeadEffect| effect.attributes.iter().map(size_of).sum::<usize>();
        let set = size_set(effect);
        if set == 0 {
            return AttributesFit::Yes;
        }
        let applied = || self.blob.iter().flat_map(|blob| &blob.attributes);
        let applied_size: usize = applied().map(|(name, value)| name.len() + value.len()).sum();
        let pending_size: usize = self.places.iter().map(|place| size_set(&place.effect)).sum();
        if applied_size + pending_size + set <= ATTRIBUTES_SIZE_MAX {
            return AttributesFit::Yes;
        }
        // The size of each value, the largest of those that it may come to have.
        let mut sizes: BTreeMap<&str, usize> =
            applied().map(|(name, value)| (name.as_str(), value.len())).collect();
        let mut is_open = false;
        let pending = self.places.iter().filter(|place| !matches!(place.outcome, Some(Outcome::Refused(_))));
        let effects = pending.map(|place| (&*place.effect, !place.alone && place.outcome.is_none()));
        for (effect, open) in effects.chain([(effect, false)]) {
            // What leaves existence open is waited for by all that write.
            if matches!(effect.existence, ExistenceEffect::Ends | ExistenceEffect::Restarts) {
                sizes.clear();
            }
            for (name, value) in &effect.attributes {
                is_open |= open;
                match value {
                    Some(value) => {
                        let size = sizes.entry(name).or_default();
                        *size = if open { value.len().max(*size) } else { value.len() };
                    }
                    None if !open => drop(sizes.remove(name.as_str())),
                    None => {}
                }
            }
        }
        match sizes.iter().map(|(name, size)| name.len() + size).sum::<usize>() <= ATTRIBUTES_SIZE_MAX {
            true => AttributesFit::Yes,
            false if is_open => AttributesFit::Unknown,
            false => AttributesFit::No,
        }
    }

    /// The blob after as many places.
    fn after(&self, count: usize) -> After {
        match count.checked_sub(1).and_then(|last| self.places.get(last)) {
            Some(place) => place.after,
            None => self.applied(),
        }
    }

    fn applied(&self) -> After {
        let size = self.blob.as_ref().map_or(0, |blob| blob.size);
        After { exists: self.blob.is_some(), size, opens: (false, false) }
    }

    /// Works out anew what places mean for those behind them, from one on, until that is as it was.
    fn fold_from(&mut self, first: usize) {
        let applied = self.applied();
        let mut before = self.after(first);
        for place in self.places.range_mut(first..) {
            let after = place.after_all(before, applied);
            let goes_on = (after.exists, after.size) != (place.after.exists, place.after.size);
            self.open = exchange(self.open, place.after.opens, after.opens);
            place.after = after;
            before = after;
            if !goes_on {
                break;
            }
        }
    }

    /// Whether something that was read has been overwritten since, by a committed or a numbered write.
    pub fn conflicts(&self, seen: &Seen) -> bool {
        if seen.number < self.recent_after {
            // More was forgotten than is known to have been written since; but what was numbered may be lost again, or refused.
            return seen.number < self.begun_after || seen.number < self.last_write();
        }
        let later = self.recent.iter().rev().take_while(|(number, ..)| *number > seen.number);
        later.into_iter().any(|(_, _, effect)| effect.overwrites(seen))
    }

    /// The number of the last write that is not refused.
    fn last_write(&self) -> Number {
        let is_write =
            |place: &&Place| !place.only_reads && !matches!(place.outcome, Some(Outcome::Refused(_)));
        self.places.iter().rev().find(is_write).map_or(self.newest, |place| place.number)
    }

    /// Takes a place at the end of the order.
    pub fn take_place(&mut self, place: Place, links: impl IntoIterator<Item = (u64, Link)>) {
        debug_assert!(place.number > self.last_number(), "numbers ascend");
        if !place.only_reads {
            self.recent.push_back((place.number, place.id, place.effect.clone()));
            if self.recent.len() > RECENT_MAX {
                self.recent_after = self.recent.pop_front().map_or(self.recent_after, |(number, ..)| number);
            }
        }
        for (chunk, link) in links {
            self.links.entry(chunk).or_default().push_back(link);
        }
        if !place.only_reads {
            self.undecided_writes.insert(place.number);
        }
        self.places.push_back(place);
        self.fold_from(self.places.len() - 1);
    }

    /// Whether everything before the place at a number is decided, so that it may be. Two that only read do not wait for each other.
    pub fn is_settled(&self, number: Number) -> bool {
        let Some(place) = self.position(number).map(|position| &self.places[position]) else { return true };
        let waits_for = match place.only_reads {
            true => self.undecided_writes.first().copied(),
            false => self.places.front().map(|first| first.number),
        };
        waits_for.is_none_or(|first| first >= number)
    }

    /// Who may have become settled when a transaction was decided: the first one, and if that only reads and a write was decided,
    /// all that only read up to the next write.
    pub fn newly_settled(&self, after_write: bool) -> impl Iterator<Item = TransactionId> {
        let all = after_write && self.places.front().is_some_and(|first| first.only_reads);
        let end = self.undecided_writes.first().copied().unwrap_or(Number::MAX);
        let readers = self.places.iter().take_while(move |place| all && place.number < end);
        let first = self.places.front().filter(|_| !all);
        first.into_iter().chain(readers).filter(|place| !place.is_decided()).map(|place| place.id)
    }

    fn position(&self, number: Number) -> Option<usize> {
        self.places.binary_search_by_key(&number, |place| place.number).ok()
    }

    /// Learns how the transaction at a number ended, frees its slot, and applies what has its turn. Returns whether there is something to
    /// collect: versions were superseded, or nothing is left.
    pub fn learn(&mut self, number: Number, id: TransactionId, outcome: Outcome) -> bool {
        self.slot.remove(&id);
        if let Some(position) = self.position(number) {
            self.places[position].outcome = Some(outcome);
            self.undecided_writes.remove(&number);
            self.fold_from(position);
        }
        if outcome != Outcome::Committed {
            self.recent.retain(|(_, other, _)| *other != id);
        }
        let mut superseded = false;
        while self.places.front().is_some_and(|place| place.outcome.is_some()) {
            let Some(place) = self.places.pop_front() else { break };
            if place.outcome == Some(Outcome::Committed) {
                superseded |= self.apply(&place);
            }
        }
        superseded || (self.is_gone() && !self.is_blank())
    }

    fn apply(&mut self, place: &Place) -> bool {
        let effect = &place.effect;
        if place.only_reads {
            return false;
        }
        self.newest = place.number;
        match effect.existence {
            ExistenceEffect::Stays => {}
            ExistenceEffect::Begins if self.blob.is_some() => {}
            ExistenceEffect::Restarts if planted(Canary::RestartIgnored) => {}
            ExistenceEffect::Begins | ExistenceEffect::Restarts => self.blob = Some(Blob::new(place.number)),
            ExistenceEffect::Ends => self.blob = None,
        }
        if let Some(blob) = &mut self.blob {
            blob.size = effect.size.apply(blob.size);
            for (name, value) in &effect.attributes {
                match value {
                    Some(value) => blob.attributes.insert(name.clone(), value.clone()),
                    None => blob.attributes.remove(name),
                };
            }
            blob.written.extend(effect.writes.iter().map(|write| (write.chunk, place.number)));
        }
        // What drops its former versions by itself leaves nothing to collect but the head of a deleted blob, which is there though it never had any bytes.
        self.blob.is_none() || effect.writes.iter().any(|write| !write.drops_former)
    }

    /// Forgets places that were logged past a place at which the log was cut.
    pub fn cut_log(&mut self, last: u64) {
        while self.places.back().is_some_and(|place| place.log_index > last) {
            let Some(lost) = self.places.pop_back() else { break };
            self.undecided_writes.remove(&lost.number);
            self.open = exchange(self.open, lost.after.opens, (false, false));
            self.recent.retain(|(_, id, _)| *id != lost.id);
            self.slot.remove(&lost.id);
        }
        // Also what was refused and has no place any more had taken its number from the log that is lost.
        for links in self.links.values_mut() {
            while links.back().is_some_and(|link| link.number.index() > last) {
                links.pop_back();
            }
        }
        self.links.retain(|_, links| !links.is_empty());
        if self.collected_at > last {
            // The other replicas have not noted it.
            self.collect_from = Number::ZERO;
        }
    }

    /// Forgets which numbers came before those that the log is never cut before.
    pub fn trim_log(&mut self, start: u64) {
        for links in self.links.values_mut() {
            while links.get(1).is_some_and(|link| link.number.index() <= start) {
                links.pop_front();
            }
        }
    }

    /// Whether a transaction has to wait for the slot. One that visits several heads takes it, one on this head alone does not.
    pub fn slot_is_free_for(&self, access: Access) -> bool {
        self.slot.is_empty()
            || (access == Access::Reads && self.slot.values().all(|held| *held == Access::Reads))
    }

    /// Takes the slot.
    pub fn take_slot(&mut self, id: TransactionId, access: Access) {
        self.slot.insert(id, access);
    }

    /// Frees the slot at the lock point.
    pub fn release_slot(&mut self, id: TransactionId) {
        self.slot.remove(&id);
    }

    /// Who holds the slot.
    pub fn slot(&self) -> impl Iterator<Item = TransactionId> {
        self.slot.keys().copied()
    }

    /// Up to which number superseded versions have been collected.
    pub fn collected(&self) -> Number {
        self.collect_from
    }

    /// Notes that superseded versions up to a number have been collected.
    pub fn set_collected(&mut self, log_index: u64, up_to: Number) {
        self.collect_from = self.collect_from.max(up_to);
        self.collected_at = log_index;
    }

    /// Notes that something may be collected that was held before.
    pub fn collect_again(&mut self) {
        self.collect_from = Number::ZERO;
    }

    /// Whether it says no more than that there is no blob, as if it were not there: only transactions that read or were refused had places.
    pub fn is_blank(&self) -> bool {
        self.newest == Number::ZERO && self.places.is_empty() && self.slot.is_empty() && self.links.is_empty()
    }

    /// Whether nothing is left that anybody could ask for.
    pub fn is_gone(&self) -> bool {
        self.blob.is_none()
            && self.places.is_empty()
            && self.slot.is_empty()
            && self.collect_from >= self.newest
    }
}

impl Blob {
    fn new(creation: Number) -> Self {
        Blob { creation, size: 0, attributes: BTreeMap::new(), written: BTreeMap::new() }
    }
}

impl Place {
    /// A place for a transaction that is not decided.
    pub fn new(
        number: Number,
        id: TransactionId,
        log_index: u64,
        alone: bool,
        only_reads: bool,
        effect: Arc<HeadEffect>,
    ) -> Self {
        Place { number, id, log_index, alone, only_reads, effect, outcome: None, after: After::default() }
    }

    /// The blob after it, by what it is before and what is applied.
    fn after_all(&self, before: After, applied: After) -> After {
        let before = After { opens: (false, false), ..before };
        if matches!(self.outcome, Some(Outcome::Refused(_))) {
            return before;
        }
        let open = !self.alone && self.outcome.is_none();
        let size = self.effect.size.apply(before.size);
        let opens = (open && self.effect.existence.changes(before.exists), open && size != before.size);
        let exists = self.effect.existence.exists(before.exists);
        let size = match planted(Canary::PendingSizeIgnored) {
            true => applied.size,
            false if exists => size,
            false => 0,
        };
        After { exists, size, opens }
    }

    /// Whether its outcome is known.
    pub fn is_decided(&self) -> bool {
        self.outcome.is_some()
    }

    /// Whether a reader of this range of a chunk has to know its fate: it writes there or changes what is there.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.effect.existence != ExistenceEffect::Stays
            || matches!(self.effect.size, SizeEffect::Exactly(_))
            || self.effect.ranges.iter().any(|own| own.start < range.end && range.start < own.end)
    }
}

/// How many places leave something open, when one of them comes to leave open something else.
fn exchange(open: (usize, usize), before: (bool, bool), after: (bool, bool)) -> (usize, usize) {
    let one = |count: usize, before: bool, after: bool| count + usize::from(after) - usize::from(before);
    (one(open.0, before.0, after.0), one(open.1, before.1, after.1))
}

impl ExistenceEffect {
    fn exists(self, before: bool) -> bool {
        match self {
            ExistenceEffect::Stays => before,
            ExistenceEffect::Begins | ExistenceEffect::Restarts => true,
            ExistenceEffect::Ends => false,
        }
    }

    fn changes(self, before: bool) -> bool {
        self.exists(before) != before || self == ExistenceEffect::Restarts
    }
}

impl SizeEffect {
    /// The size after it.
    pub fn apply(self, before: u64) -> u64 {
        match self {
            SizeEffect::Stays => before,
            SizeEffect::AtLeast(size) => before.max(size),
            SizeEffect::Exactly(size) => size,
        }
    }
}

impl HeadEffect {
    fn overwrites(&self, seen: &Seen) -> bool {
        let existence = self.existence != ExistenceEffect::Stays;
        let meets =
            |range: &Range<u64>| self.ranges.iter().any(|own| own.start < range.end && range.start < own.end);
        seen.version
            || (existence
                && (seen.existence || seen.size || !seen.ranges.is_empty() || seen.sees_attributes()))
            || (seen.size && self.size != SizeEffect::Stays)
            || seen.ranges.iter().any(meets)
            || (seen.all_attributes && !self.attributes.is_empty())
            || self.attributes.iter().any(|(name, _)| seen.attributes.contains(name))
    }
}

/// Whether a refusal is final under every id, so that the client need not try again.
pub fn is_final(refusal: Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Exists
            | Refusal::NotFound
            | Refusal::Invalid
            | Refusal::Denied
            | Refusal::TooLarge
            | Refusal::TooManyAttributes
    )
}

layout!(struct Blob { creation, size, attributes, written });
layout!(enum Access { 0 => Reads, 1 => Writes });

/// Without what is worked out from the rest.
impl Encode for Head {
    fn encode(&self, out: &mut Encoder) {
        self.newest.encode(out);
        self.blob.encode(out);
        self.places.encode(out);
        self.links.encode(out);
        self.slot.encode(out);
        touched::encode(&self.recent, out);
        (self.recent_after, self.begun_after).encode(out);
        (self.collect_from, self.collected_at).encode(out);
    }
}

impl Decode for Head {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (newest, blob) = Decode::decode(input)?;
        let places: VecDeque<Place> = Decode::decode(input)?;
        let (links, slot) = Decode::decode(input)?;
        let recent = touched::decode(input)?;
        let (recent_after, begun_after) = Decode::decode(input)?;
        let (collect_from, collected_at) = Decode::decode(input)?;
        let ascend = places.iter().zip(places.iter().skip(1)).all(|(one, next)| one.number < next.number);
        ensure(ascend, "the places of a head are not in order")?;
        let undecided = places.iter().filter(|place| !place.only_reads && !place.is_decided());
        let undecided_writes = undecided.map(|place| place.number).collect();
        let mut head = Head {
            newest,
            blob,
            places,
            undecided_writes,
            open: (0, 0),
            links,
            slot,
            recent,
            recent_after,
            begun_after,
            collect_from,
            collected_at,
        };
        for first in 0..head.places.len() {
            head.fold_from(first);
        }
        Ok(head)
    }
}

/// Without what is worked out from the head.
impl Encode for Place {
    fn encode(&self, out: &mut Encoder) {
        (self.number, self.id).encode(out);
        self.log_index.encode(out);
        (self.alone, self.only_reads).encode(out);
        self.effect.encode(out);
        self.outcome.encode(out);
    }
}

impl Decode for Place {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (number, id) = Decode::decode(input)?;
        let log_index = Decode::decode(input)?;
        let (alone, only_reads) = Decode::decode(input)?;
        let (effect, outcome) = Decode::decode(input)?;
        Ok(Place { number, id, log_index, alone, only_reads, effect, outcome, after: After::default() })
    }
}

/// What earlier writes touched, to find conflicts, without what they wrote.
mod touched {
    use super::{Arc, Decode, Decoder, Encode, Encoder, HeadEffect, Malformed, TransactionId, VecDeque};
    use tyr_types::Number;

    type Touched = (Number, TransactionId, Arc<HeadEffect>);

    pub(super) fn encode(recent: &VecDeque<Touched>, out: &mut Encoder) {
        out.varint(recent.len() as u64);
        for (number, id, effect) in recent {
            number.encode(out);
            id.encode(out);
            effect.existence.encode(out);
            effect.size.encode(out);
            effect.ranges.encode(out);
            out.varint(effect.attributes.len() as u64);
            effect.attributes.iter().for_each(|(name, _)| name.encode(out));
        }
    }

    pub(super) fn decode(input: &mut Decoder<'_>) -> Result<VecDeque<Touched>, Malformed> {
        (0..input.count()?).map(|_| decode_one(input)).collect()
    }

    fn decode_one(input: &mut Decoder<'_>) -> Result<Touched, Malformed> {
        let (number, id) = Decode::decode(input)?;
        let (existence, size, ranges) = Decode::decode(input)?;
        let attributes = (0..input.count()?).map(|_| Ok((Decode::decode(input)?, None)));
        let attributes = attributes.collect::<Result<_, Malformed>>()?;
        let effect = HeadEffect { existence, size, ranges, attributes, ..HeadEffect::default() };
        Ok((number, id, Arc::new(effect)))
    }
}

#[cfg(test)]
mod tests;
