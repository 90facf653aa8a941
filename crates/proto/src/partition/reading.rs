//! Answers readers from any complete replica under a lease (design, section 6).
//!
//! A reader waits for the fate of what was pending when it came and touches what it reads; later writes are not waited for. The lease is
//! checked after the state was read.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::Range;

use tyr_types::{Number, Seek};
use tyr_wire::shared::SharedBytes;

use super::{Partition, RESEND_AFTER, Role, listing::Page};
use crate::{
    BlobName, ChunkName, PartitionId, Time, TransactionId,
    canary::{Canary, planted},
    chunk::{Chunk, ChunkBytes},
    effects::Context,
    head::Head,
    message::{Answer, HeadStat, Looked, Message, RequestId},
};

/// Readers that wait, and numbers that readers hold.
#[derive(Debug, Default)]
pub struct Readers {
    waiting: Vec<Reader>,
    pins: BTreeMap<RequestId, Pin>,
    asked_at: Time,
}

#[derive(Debug)]
struct Reader {
    request: RequestId,
    wants: Wants,
    since: Time,
}

#[derive(Clone, Debug)]
enum Wants {
    /// The blob, when everything up to a number is decided.
    Look(BlobName, Number),
    /// The same with at most so many bytes, and others if they are known.
    Get(BlobName, Number, u64, Vec<BlobName>),
    /// The same, to be kept by the client if it may.
    Borrow(BlobName, Number, u64),
    /// The first blob then, and the others if they are known.
    Stat(Vec<BlobName>, Number),
    /// Bytes of a chunk at a number or the newest, when everything up to another number is applied.
    Read(ChunkName, Range<u64>, Option<Number>, Number, Form),
    /// Names, when everything that was written on their page is decided.
    Scan(Page),
}

/// How bytes are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All of them.
    Sent,
    /// Of what lies in files only where: the reader is on this host.
    Located,
    /// Only where the first of these is.
    Sought(Seek),
}

#[derive(Debug, Default)]
struct Pin {
    /// More than one of a blob if the look came more than once: its client may have any of the answers.
    numbers: BTreeMap<BlobName, BTreeSet<Number>>,
    since: Time,
    until: Time,
}

/// A pin that is not renewed is held for this many microseconds.
pub const PIN_TIMEOUT: u64 = 2_000_000;
/// As many readers wait at one replica of a partition; more are told to go elsewhere.
const WAITING_MAX: usize = 4096;
/// A reader waits for at most this many microseconds; its client asks again.
const WAIT_MAX: u64 = 1_000_000;

/// Whether a blob's keyspace keeps superseded versions, so that a pin holds anything. It may if it was not heard of yet: who writes there
/// has heard of it.
pub fn keeps_versions(cx: &Context<'_>, blob: &BlobName) -> bool {
    let keyspace = cx.keyspaces.get(&blob.keyspace);
    keyspace.map_or(!planted(Canary::UnheardNotHeld), |keyspace| keyspace.multi_version)
}

impl Readers {
    /// Whether nobody waits.
    pub fn are_none(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Holds a number for a reader.
    pub fn pin(&mut self, request: RequestId, blob: BlobName, number: Number, since: Time, until: Time) {
        let pin = self.pins.entry(request).or_insert_with(|| Pin { since, ..Pin::default() });
        pin.numbers.entry(blob).or_default().insert(number);
        pin.until = pin.until.max(until);
    }

    /// How many wait, how many hold numbers, and since when the first of these has.
    pub fn counts(&self) -> (usize, usize, Option<Time>) {
        (self.waiting.len(), self.pins.len(), self.pins.values().map(|pin| pin.since).min())
    }

    /// The reader that has held a number for longest, one of the blobs, and since when.
    pub fn oldest(&self) -> Option<(RequestId, Option<&BlobName>, Time)> {
        let (request, pin) = self.pins.iter().min_by_key(|(_, pin)| pin.since)?;
        Some((*request, pin.numbers.keys().next(), pin.since))
    }

    /// Holds what a reader has pinned a while longer.
    pub fn keep(&mut self, request: RequestId, now: Time) {
        if let Some(pin) = self.pins.get_mut(&request) {
            pin.until = now.after(PIN_TIMEOUT);
        }
    }
}

impl Partition {
    /// Whether this replica may answer readers: it holds all that was ever acknowledged, and the node its lease.
    pub(super) fn may_serve(&self, cx: &Context<'_>) -> bool {
        let complete = match &self.role {
            Role::Primary { established, .. } => *established,
            Role::Backup { synced, .. } => {
                let is_member = self.configuration.replicas.contains(&self.me);
                let epoch = self.log.epochs().last().map(|(epoch, _)| *epoch);
                let is_synced = *synced && epoch == Some(self.configuration.epoch);
                (is_member && is_synced) || planted(Canary::IncompleteServes)
            }
            Role::None => false,
        };
        complete && (cx.has_lease || planted(Canary::ServedWithoutLease))
    }

    /// A client asks what a blob is.
    pub fn handle_look(&mut self, cx: &mut Context<'_>, request: RequestId, blob: BlobName) {
        let number = self.state.head(&blob).map_or(Number::ZERO, |head| head.last_number());
        self.admit(cx, request, Wants::Look(blob, number));
    }

    /// A client asks what a blob is and holds, and what others are.
    pub fn handle_get(
        &mut self,
        cx: &mut Context<'_>,
        request: RequestId,
        blob: BlobName,
        size_max: u64,
        others: Vec<BlobName>,
    ) {
        let number = self.state.head(&blob).map_or(Number::ZERO, |head| head.last_number());
        self.admit(cx, request, Wants::Get(blob, number, size_max, others));
    }

    /// A client asks what a blob is and holds, and wants to keep that.
    pub fn handle_borrow(&mut self, cx: &mut Context<'_>, request: RequestId, blob: BlobName, size_max: u64) {
        let number = self.state.head(&blob).map_or(Number::ZERO, |head| head.last_number());
        self.admit(cx, request, Wants::Borrow(blob, number, size_max));
    }

    /// A client asks what blobs are, the first of which is here. There is one at least.
    pub fn handle_stat(&mut self, cx: &mut Context<'_>, request: RequestId, blobs: Vec<BlobName>) {
        let Some(head) = blobs.first().map(|first| self.state.head(first)) else { return };
        let number = head.map_or(Number::ZERO, |head| head.last_number());
        self.admit(cx, request, Wants::Stat(blobs, number));
    }

    /// A client reads a range of a chunk.
    pub fn handle_read(
        &mut self,
        cx: &mut Context<'_>,
        request: RequestId,
        name: ChunkName,
        range: Range<u64>,
        at: Option<Number>,
        form: Form,
    ) {
        let until = match (self.state.chunk(&name), at) {
            (Some(_), None) if planted(Canary::PendingIgnored) => Number::ZERO,
            (Some(chunk), None) => chunk.pending_on(&range).unwrap_or(Number::ZERO),
            (Some(_), Some(number)) => number,
            (None, _) => Number::ZERO,
        };
        self.admit(cx, request, Wants::Read(name, range, at, until, form));
    }

    /// A client lists names.
    pub fn handle_scan(
        &mut self,
        cx: &mut Context<'_>,
        request: RequestId,
        after: BlobName,
        inclusive: bool,
        limit: u32,
    ) {
        self.admit(cx, request, Wants::Scan(Page::new(after, inclusive, limit)));
    }

    fn admit(&mut self, cx: &mut Context<'_>, request: RequestId, wants: Wants) {
        if !self.may_serve(cx) || self.readers.waiting.len() >= WAITING_MAX {
            cx.answer(request.session, self.elsewhere());
            return;
        }
        let mut reader = Reader { request, wants, since: cx.now };
        if self.is_ready(&mut reader.wants) {
            self.serve(cx, reader);
        } else {
            self.ask_for(cx, &reader.wants);
            self.readers.waiting.push(reader);
        }
    }

    fn is_ready(&self, wants: &mut Wants) -> bool {
        let decided = |blob: &BlobName, number: Number| {
            self.state.head(blob).is_none_or(|head| head.is_decided_up_to(number))
        };
        match wants {
            Wants::Look(blob, number) | Wants::Get(blob, number, ..) | Wants::Borrow(blob, number, _) => {
                decided(blob, *number)
            }
            Wants::Stat(blobs, number) => decided(&blobs[0], *number),
            Wants::Read(name, _, _, until, _) => {
                self.state.chunk(name).is_none_or(|chunk| chunk.pending_up_to(*until).next().is_none())
            }
            Wants::Scan(page) => self.is_listed(page),
        }
    }

    fn serve(&mut self, cx: &mut Context<'_>, reader: Reader) {
        let Reader { request, wants, .. } = reader;
        let answer = match wants {
            Wants::Look(blob, _) => self.looked(cx, request, blob),
            Wants::Get(blob, _, size_max, others) => self.got(cx, request, blob, size_max, &others),
            Wants::Borrow(blob, _, size_max) => self.lent(cx, request, blob, size_max),
            Wants::Stat(blobs, _) => self.stats(cx, request, &blobs),
            Wants::Read(name, range, at, _, form) => self.bytes(request, &name, &range, at, form),
            Wants::Scan(page) => self.names(request, &page),
        };
        let answer = if self.may_serve(cx) { answer } else { self.elsewhere() };
        cx.answer(request.session, answer);
    }

    fn looked(&mut self, cx: &Context<'_>, request: RequestId, blob: BlobName) -> Answer {
        let head = self.state.head(&blob);
        let number = head.map_or(self.state.heads_after(), |head| head.read_number());
        let looked = head.and_then(Head::looked);
        if keeps_versions(cx, &blob) {
            self.readers.pin(request, blob, number, cx.now, cx.now.after(PIN_TIMEOUT));
        }
        Answer::Looked { request, partition: self.id, number, blob: looked }
    }

    fn got(
        &self,
        cx: &mut Context<'_>,
        request: RequestId,
        blob: BlobName,
        size_max: u64,
        others: &[BlobName],
    ) -> Answer {
        let (number, blob, bytes) = self.read_blob(blob, size_max);
        if others.is_empty() {
            return Answer::Got { request, number, blob, bytes };
        }
        let others = others.iter().map(|other| self.known_stat(cx, other)).collect();
        Answer::GotWith { request, number, blob, bytes, others }
    }

    /// The same, to be kept: nothing is being written then, so what is read is the newest.
    fn lent(&mut self, cx: &mut Context<'_>, request: RequestId, blob: BlobName, size_max: u64) -> Answer {
        let lasts = self.lend_to_client(cx, &blob, request.session, request.number);
        let (number, blob, bytes) = self.read_blob(blob, size_max);
        Answer::Lent { request, number, blob, bytes, lasts }
    }

    /// What a blob is and holds. Its first chunk lies where its head does; at the number that the head has read it is decided, too, unless its
    /// writes wait for something: then its bytes are not told.
    fn read_blob(&self, blob: BlobName, size_max: u64) -> (Number, Option<Looked>, Option<SharedBytes>) {
        let head = self.state.head(&blob);
        let number = head.map_or(self.state.heads_after(), |head| head.read_number());
        let looked = head.and_then(Head::looked);
        let fits =
            |looked: &Looked| looked.size <= size_max && looked.written.keys().all(|chunk| *chunk == 0);
        let bytes = looked.as_ref().filter(|looked| fits(looked)).and_then(|looked| {
            let name = ChunkName { blob, index: 0 };
            let size = usize::try_from(looked.size).ok()?;
            let Some(chunk) = self.state.chunk(&name).filter(|_| !looked.written.is_empty()) else {
                return Some(alloc::vec![0; size]);
            };
            if chunk.pending_up_to(number).next().is_some() {
                return None;
            }
            match chunk.read_at(number, &(0..looked.size)) {
                ChunkBytes::Found(version, bytes, _) if looked.written.get(&0) == Some(&version) => {
                    Some(bytes)
                }
                _ => None,
            }
        });
        (number, looked, bytes.map(SharedBytes::from))
    }

    /// What the first blob is, and what others are, if that is known here.
    fn stats(&self, cx: &mut Context<'_>, request: RequestId, blobs: &[BlobName]) -> Answer {
        let mut blobs = blobs.iter();
        let first = blobs.next().map(|first| Some(self.stat_of(first)));
        let others = blobs.map(|other| self.known_stat(cx, other));
        Answer::Stats { request, stats: first.into_iter().chain(others).collect() }
    }

    /// What a blob is that lies here, too, and is not being written, or of which the shard has a copy.
    fn known_stat(&self, cx: &mut Context<'_>, blob: &BlobName) -> Option<HeadStat> {
        let keyspace = cx.existing(blob.keyspace)?;
        if keyspace.partition_of(blob, 0) == self.id {
            return (!self.is_being_written(blob)).then(|| self.stat_of(blob));
        }
        cx.cached.stat(cx.now, blob, self.id, cx.keyspaces, &cx.limits)
    }

    fn bytes(
        &self,
        request: RequestId,
        name: &ChunkName,
        range: &Range<u64>,
        at: Option<Number>,
        form: Form,
    ) -> Answer {
        let at = at.unwrap_or(Number::MAX);
        let empty = Chunk::default();
        let chunk = self.state.chunk(name).unwrap_or(&empty);
        match form {
            Form::Sent => self.told(request, chunk.read_at(at, range), |version, bytes, whole| {
                Answer::Bytes { request, version, bytes: bytes.into(), whole }
            }),
            Form::Located => self.told(request, chunk.locate_at(at, range), |version, stretches, whole| {
                Answer::Located { request, version, stretches, whole }
            }),
            Form::Sought(what) => self.told(request, chunk.seek_at(at, range, what), |_, found, _| {
                Answer::Sought { request, found }
            }),
        }
    }

    /// The answer of what was found, if it is still there.
    fn told<T>(
        &self,
        request: RequestId,
        found: ChunkBytes<T>,
        answer: impl FnOnce(Number, T, bool) -> Answer,
    ) -> Answer {
        match found {
            ChunkBytes::Found(version, found, whole) => answer(version, found, whole),
            ChunkBytes::Expired => Answer::Expired { request },
            ChunkBytes::Lost => self.elsewhere(),
        }
    }

    /// Keeps what a reader saw readable a while longer, or no longer.
    pub fn handle_pin(&mut self, cx: &mut Context<'_>, request: RequestId, keep: bool) {
        if keep {
            self.readers.keep(request, cx.now);
            self.keep_freeze(cx.now, request);
        } else {
            self.readers.pins.remove(&request);
            self.end_freeze(request);
            self.settle(cx);
        }
    }

    /// Whether a reader holds the number that a look answered.
    pub fn holds_pin(&self, look: RequestId) -> bool {
        self.readers.pins.contains_key(&look)
    }

    /// The numbers that readers hold of a blob below one.
    pub(super) fn pins_of(&self, blob: &BlobName, below: Number) -> BTreeSet<Number> {
        if planted(Canary::PinsIgnored) {
            return BTreeSet::new();
        }
        let held = self.readers.pins.values().filter_map(|pin| pin.numbers.get(blob));
        let numbers = held.flat_map(|numbers| numbers.range(..below)).copied();
        numbers.collect()
    }

    /// Answers readers whose wait is over.
    pub(super) fn wake_readers(&mut self, cx: &mut Context<'_>) {
        if self.readers.waiting.is_empty() {
            return;
        }
        for mut reader in core::mem::take(&mut self.readers.waiting) {
            if self.is_ready(&mut reader.wants) {
                self.serve(cx, reader);
            } else {
                self.readers.waiting.push(reader);
            }
        }
    }

    /// Sends readers elsewhere: what they waited for here may not come.
    pub(super) fn drop_readers(&mut self, cx: &mut Context<'_>) {
        for reader in core::mem::take(&mut self.readers.waiting) {
            cx.answer(reader.request.session, self.elsewhere());
        }
    }

    fn ask_for(&self, cx: &mut Context<'_>, wants: &Wants) {
        let mut unknown: BTreeSet<(TransactionId, PartitionId)> = BTreeSet::new();
        let mut heads = |blob: &BlobName, number: Number| {
            let places = self.state.head(blob).into_iter().flat_map(|head| head.places());
            for place in places.filter(|place| place.number <= number && !place.is_decided()) {
                let record = self.state.record(place.id);
                let prepare = record.and_then(|record| record.prepare.as_ref());
                unknown.extend(prepare.and_then(|(_, prepare)| Some((place.id, prepare.plan.decider()?))));
            }
        };
        match wants {
            Wants::Look(blob, number) | Wants::Get(blob, number, ..) | Wants::Borrow(blob, number, _) => {
                heads(blob, *number)
            }
            Wants::Stat(blobs, number) => heads(&blobs[0], *number),
            Wants::Scan(page) => page.open().for_each(|(blob, number)| heads(blob, *number)),
            Wants::Read(name, _, _, until, _) => {
                let chunk = self.state.chunk(name).into_iter();
                let undecided = chunk.flat_map(|chunk| chunk.undecided_up_to(*until));
                unknown.extend(undecided.map(|write| (write.id, write.decider)));
            }
        }
        for (id, decider) in unknown {
            let is_own = decider == self.id && self.is_established();
            if !is_own {
                cx.to_primary(decider, Message::Ask { id, partition: self.id, node: self.me.node });
            }
        }
    }

    pub(super) fn tick_readers(&mut self, cx: &mut Context<'_>) {
        self.readers.pins.retain(|_, pin| pin.until > cx.now);
        if cx.now.since(self.readers.asked_at) < RESEND_AFTER {
            return;
        }
        self.readers.asked_at = cx.now;
        self.readers.waiting.retain(|reader| cx.now.since(reader.since) < WAIT_MAX);
        for reader in &self.readers.waiting {
            self.ask_for(cx, &reader.wants);
        }
    }
}
