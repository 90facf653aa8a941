//! A transaction at its client: what it reads, what it wants to write, and how it ends.
//!
//! It begins without a message. What it reads of a blob is seen at one number; its own writes are laid over; nothing of them is sent
//! before the commit. Whoever holds it passes on to it what the client tells ([`Transaction::handle`]), and ends it by a commit or a
//! rollback, which let go of what it has seen.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tyr_types::{Number, Transform};

use super::{
    BlobPlan, Client, Event, FrozenBlob,
    reads::{ReadAnswer, ReadId, Reads},
    staging::CopySource,
};
use crate::{
    BlobName, CONDITIONS_MAX, ChunkName, Condition, Operation, Outcome, Payload, Plan, Refusal, ResultValue,
    Seen, Time, TransactionId,
    canary::{Canary, planted},
    message::RequestId,
    tries::Pauses,
};

/// A transaction.
///
/// Invariant: nothing that it has read is let go before its plan is sent or it is over.
#[derive(Debug)]
pub struct Transaction {
    reads: Reads,
    changes: BTreeMap<BlobName, Vec<Operation>>,
    /// Where the payload is of changes that copy.
    copies: BTreeMap<(BlobName, u16), CopySource>,
    checks: BTreeMap<ReadId, (BlobName, Check)>,
    /// Checks that are left to the heads.
    conditions: BTreeMap<BlobName, Vec<Check>>,
    reserve: Option<RequestId>,
    /// The blobs that are reserved for it.
    reserved: BTreeSet<BlobName>,
    stage: Stage,
    pauses: Pauses,
    told: VecDeque<Told>,
}

#[derive(Debug)]
enum Stage {
    /// It reads and writes.
    Open,
    /// Something that it had read is lost, or a check does not hold: it cannot commit.
    Doomed(Refusal),
    /// It commits when what it reads and checks has been answered; what it gives up at.
    Closing(Option<Time>),
    /// It was sent; without a plan it is refused already. And what it gives up at.
    Sent(TransactionId, Option<Arc<Plan>>, Option<Time>),
    /// It was refused for a reason that has nothing to do with what it does, and is sent under another id then, unless it gives up before.
    Pausing(Time, Option<Time>),
    /// It has ended.
    Over,
}

/// A condition on a blob at the moment of the commit, before the transaction's own writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The blob exists.
    Exists,
    /// The blob does not exist.
    Missing,
    /// The blob exists and nothing was written to it after this number.
    Version(Number),
    /// The blob exists and has this size, in bytes.
    Size(u64),
    /// The blob exists and has these bytes at the offset.
    Bytes {
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The blob exists and the attribute has this value, or is not set.
    Attribute {
        /// Its name.
        name: String,
        /// Its value; `None` if it is not to be set.
        value: Option<Arc<[u8]>>,
    },
}

/// What a transaction is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A read was answered.
    Read(ReadId, ReadAnswer),
    /// The transaction ended so, or it is not known in time how.
    Ended(End),
}

/// How a transaction ends.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// All of it happened. Appends answer where, transforms what was there: by blob and place among its changes.
    Committed(BTreeMap<(BlobName, u16), ResultValue>),
    /// None of it happened, and none of it will.
    Refused(Refusal),
    /// The same, for want of time: it could not begin, or not begin again after a refusal that was no fault of its own.
    Late,
    /// Not known in time. [`Client::resolve`] finds out; then it is told again.
    Unknown(TransactionId),
    /// Nobody knows any more: nothing was heard of this client for too long.
    Forgotten(TransactionId),
}

impl Transaction {
    /// Begins. The turn chooses among replicas: any number.
    pub fn begin(turn: usize) -> Self {
        Transaction {
            reads: Reads::new(turn),
            changes: BTreeMap::new(),
            copies: BTreeMap::new(),
            checks: BTreeMap::new(),
            conditions: BTreeMap::new(),
            reserve: None,
            reserved: BTreeSet::new(),
            stage: Stage::Open,
            pauses: Pauses::default(),
            told: VecDeque::new(),
        }
    }

    /// Begins with blobs that are reserved: nobody else changes them before it does, if it is quick and touches no others.
    pub fn begin_reserved(turn: usize, reserve: RequestId, blobs: Vec<FrozenBlob>) -> Self {
        let mut transaction = Transaction::begin(turn);
        transaction.reserve = Some(reserve);
        transaction.reserved = blobs.iter().map(|(blob, ..)| blob.clone()).collect();
        transaction.reads.see_frozen(blobs);
        transaction
    }

    /// Reads bytes of a blob, which exist in a keyspace. They are told later.
    pub fn read(&mut self, client: &mut Client, now: Time, blob: &BlobName, range: Range<u64>) -> ReadId {
        let changes = self.changes_of(blob);
        let id = self.reads.read(client, now, blob.clone(), range, changes);
        self.go_on(client, now);
        id
    }

    /// Asks what a blob is.
    pub fn stat(&mut self, client: &mut Client, now: Time, blob: &BlobName) -> ReadId {
        let changes = self.changes_of(blob);
        let id = self.reads.stat(client, now, blob.clone(), changes);
        self.go_on(client, now);
        id
    }

    /// Asks whether a blob exists. Only that counts as seen; what is told is the blob as it was before the transaction.
    pub fn exists(&mut self, client: &mut Client, now: Time, blob: &BlobName) -> ReadId {
        let id = self.reads.probe(client, now, blob.clone());
        self.go_on(client, now);
        id
    }

    fn changes_of(&self, blob: &BlobName) -> Vec<Operation> {
        self.changes.get(blob).cloned().unwrap_or_default()
    }

    /// Nobody waits for a read any more: it holds up no commit, and what would have come of it does not count as seen.
    pub fn forget(&mut self, client: &mut Client, now: Time, id: ReadId) {
        self.reads.forget(client, id);
        self.go_on(client, now);
    }

    /// Has the commit refused by conflict unless a condition holds then.
    ///
    /// What was not read before is looked at by the head, when the transaction has its turn there: that takes no message of its own.
    pub fn check(&mut self, client: &mut Client, now: Time, blob: &BlobName, check: Check) {
        if matches!(check, Check::Bytes { .. }) || self.reads.has(blob) {
            return self.look(client, now, blob, check);
        }
        let left = self.conditions.entry(blob.clone()).or_default();
        if left.contains(&check) {
            return;
        }
        if left.len() < CONDITIONS_MAX {
            left.push(check);
        } else {
            self.look(client, now, blob, check);
        }
    }

    /// Reads what a check is about; the commit makes sure that it stays so.
    fn look(&mut self, client: &mut Client, now: Time, blob: &BlobName, check: Check) {
        let id = match &check {
            Check::Bytes { offset, bytes } => {
                let range = *offset..offset.saturating_add(bytes.len() as u64);
                self.reads.read(client, now, blob.clone(), range, Vec::new())
            }
            _ => self.reads.probe(client, now, blob.clone()),
        };
        self.checks.insert(id, (blob.clone(), check));
        self.go_on(client, now);
    }

    /// Looks at what was left to the heads, where that is worth it: what changes nothing may end without visiting any, and much payload would be sent in vain.
    fn look_beforehand(&mut self, client: &mut Client, now: Time) {
        let payload: usize = self.changes.values().flatten().map(Operation::payload_size).sum();
        if self.changes.is_empty() || payload > PAYLOAD_UNASKED_MAX {
            for (blob, checks) in core::mem::take(&mut self.conditions) {
                checks.into_iter().for_each(|check| self.look(client, now, &blob, check));
            }
        }
    }

    /// Does something to a blob. Returns its place among the blob's changes, under which its result is told.
    pub fn change(&mut self, blob: &BlobName, operation: Operation) -> u16 {
        let changes = self.changes.entry(blob.clone()).or_default();
        changes.push(operation);
        u16::try_from(changes.len() - 1).unwrap_or(u16::MAX)
    }

    /// Writes bytes at an offset.
    pub fn write(&mut self, blob: &BlobName, offset: u64, bytes: impl Into<Payload>) {
        self.change(blob, Operation::Write { offset, bytes: bytes.into() });
    }

    /// Copies bytes of a blob that it has looked at, as it sees them, to an offset of a blob; the nodes do so among themselves. Returns how many
    /// there are: none after the end of the blob, which counts as seen then. What it has done to the blob before is not copied, and of what it
    /// copies to it can read nothing.
    pub fn copy(
        &mut self,
        client: &Client,
        from: &BlobName,
        range: Range<u64>,
        to: &BlobName,
        offset: u64,
    ) -> u64 {
        let Some((at, looked)) = self.reads.looked(from) else { return 0 };
        let size = looked.size;
        let bytes = range.start.min(size)..range.end.min(size);
        self.reads.see(from, |seen| {
            seen.size |= range.end > size;
            seen.see_bytes(bytes.clone());
        });
        let length = bytes.end - bytes.start;
        for piece in client.keyspace(from).staged_pieces(bytes.start, length) {
            let (begin, length) = (piece.part.start as u64, piece.part.len() as u64);
            let place = self.change(to, Operation::WriteStaged { offset: offset + begin, length });
            let chunk = ChunkName { blob: from.clone(), index: piece.chunk };
            self.copies.insert((to.clone(), place), CopySource { chunk, begin: piece.within.start, at });
        }
        length
    }

    /// Appends bytes; their offset is told at the commit.
    pub fn append(&mut self, blob: &BlobName, bytes: impl Into<Payload>) -> u16 {
        self.change(blob, Operation::Append { bytes: bytes.into() })
    }

    /// Transforms a number; what was there is told at the commit.
    pub fn transform(&mut self, blob: &BlobName, offset: u64, transform: Transform) -> u16 {
        self.change(blob, Operation::Transform { offset, transform })
    }

    /// The number at which it has seen a blob.
    pub fn number(&self, blob: &BlobName) -> Option<Number> {
        self.reads.number(blob)
    }

    /// The id under which it was sent last, as long as it is not known how that ended.
    pub fn id(&self) -> Option<TransactionId> {
        match self.stage {
            Stage::Sent(id, ..) => Some(id),
            _ => None,
        }
    }

    /// The blobs that it has read or changed so far.
    pub fn touched(&self) -> impl Iterator<Item = &BlobName> {
        self.reads.blobs().chain(self.changes.keys()).chain(self.conditions.keys())
    }

    /// The blob that a request of the client is to read, and the look or the freeze that holds what is seen of it.
    pub fn held_for(&self, request: RequestId) -> Option<(BlobName, RequestId)> {
        let (blob, look) = self.reads.held_for(request)?;
        Some((blob, look.or(self.reserve)?))
    }

    /// The next thing that it is told.
    pub fn poll_told(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// Commits, once what it reads and checks has been answered. How it ended is told later; if it is not known by `gives_up_at`, that is.
    pub fn commit(&mut self, client: &mut Client, now: Time, gives_up_at: Option<Time>) {
        if matches!(self.stage, Stage::Open) {
            self.look_beforehand(client, now);
        }
        match self.stage {
            Stage::Open => self.stage = Stage::Closing(gives_up_at),
            Stage::Doomed(refusal) => self.end(client, Some(End::Refused(refusal))),
            Stage::Closing(_) | Stage::Sent(..) | Stage::Pausing(..) | Stage::Over => {}
        }
        self.go_on(client, now);
    }

    /// Ends like a commit of what was read alone: whether that fits together. What it did and checked is forgotten.
    pub fn validate(&mut self, client: &mut Client, now: Time, gives_up_at: Option<Time>) {
        self.changes.clear();
        self.copies.clear();
        self.checks.clear();
        self.conditions.clear();
        if matches!(self.stage, Stage::Doomed(_)) {
            self.stage = Stage::Open;
        }
        self.commit(client, now, gives_up_at);
    }

    /// Whether it waits to be sent again, which [`Transaction::handle_tick`] does.
    pub fn is_pausing(&self) -> bool {
        matches!(self.stage, Stage::Pausing(..))
    }

    /// Time passes: one that is to commit and still waits for what it reads, or to be sent again, gives up in time. Nothing of it happened.
    pub fn handle_tick(&mut self, client: &mut Client, now: Time) {
        match self.stage {
            Stage::Closing(Some(gives_up_at)) | Stage::Pausing(_, Some(gives_up_at))
                if gives_up_at <= now =>
            {
                self.end(client, Some(End::Late));
            }
            Stage::Pausing(until, gives_up_at) if until <= now => self.send(client, now, gives_up_at),
            _ => {}
        }
    }

    /// Forgets what it did, and lets go of what it has seen.
    pub fn roll_back(&mut self, client: &mut Client) {
        self.end(client, None);
    }

    /// Takes what the client was told, if it concerns this transaction.
    pub fn handle(&mut self, client: &mut Client, now: Time, event: &mut Event) -> bool {
        let is_own = match (&mut *event, &self.stage) {
            (Event::Ended(id, Outcome::Refused(refusal), _), &Stage::Sent(own, ref plan, gives_up_at))
                if own == *id
                    && gives_up_at.is_none_or(|gives_up_at| now < gives_up_at)
                    && plan.as_ref().is_some_and(|plan| is_without_fault(plan, *refusal)) =>
            {
                self.stage = Stage::Pausing(now.after(self.pauses.next(own, *refusal)), gives_up_at);
                true
            }
            (Event::Ended(id, outcome, results), Stage::Sent(own, plan, _)) if own == id => {
                let values = results.iter().filter_map(|result| {
                    let blob = plan.as_ref()?.heads.get(usize::from(result.head))?.blob.clone();
                    Some(((blob, result.operation), result.value.clone()))
                });
                let end = match outcome {
                    Outcome::Committed => End::Committed(values.collect()),
                    Outcome::Refused(refusal) => End::Refused(*refusal),
                };
                self.end(client, Some(end));
                true
            }
            (Event::Unknown(id), Stage::Sent(own, ..)) if own == id => {
                self.told.push_back(Told::Ended(End::Unknown(*id)));
                true
            }
            (Event::Late(id), Stage::Sent(own, ..)) if own == id => {
                self.end(client, Some(End::Late));
                true
            }
            (Event::Forgotten(id), Stage::Sent(own, ..)) if own == id => {
                self.end(client, Some(End::Forgotten(*id)));
                true
            }
            _ => self.reads.handle(client, now, event),
        };
        if is_own {
            self.go_on(client, now);
        }
        is_own
    }

    fn go_on(&mut self, client: &mut Client, now: Time) {
        while let Some((id, answer)) = self.reads.poll_answer() {
            let is_lost = matches!(answer, ReadAnswer::Lost | ReadAnswer::Denied);
            let refusal = match answer {
                ReadAnswer::Denied => Refusal::Denied,
                _ => Refusal::Conflict,
            };
            let holds = match self.checks.remove(&id) {
                Some((blob, check)) => self.holds_true(&blob, &check, &answer),
                None => {
                    self.told.push_back(Told::Read(id, answer));
                    !is_lost
                }
            };
            if !holds {
                self.doom(client, refusal);
            }
        }
        if let Stage::Closing(gives_up_at) = self.stage
            && self.reads.is_idle()
        {
            self.send(client, now, gives_up_at);
        }
    }

    /// It cannot commit any more.
    fn doom(&mut self, client: &mut Client, refusal: Refusal) {
        match self.stage {
            Stage::Open => self.stage = Stage::Doomed(refusal),
            Stage::Closing(_) => self.end(client, Some(End::Refused(refusal))),
            Stage::Doomed(_) | Stage::Sent(..) | Stage::Pausing(..) | Stage::Over => {}
        }
    }

    /// Whether a check holds for what is seen, which the commit makes sure of.
    fn holds_true(&mut self, blob: &BlobName, check: &Check, answer: &ReadAnswer) -> bool {
        let number = self.reads.number(blob);
        self.reads.see(blob, |seen: &mut Seen| match check {
            Check::Exists | Check::Missing | Check::Bytes { .. } => {}
            Check::Version(_) => seen.version = true,
            Check::Size(_) => seen.size = true,
            Check::Attribute { name, .. } => seen.see_attribute(name),
        });
        let looked = match answer {
            ReadAnswer::Lost | ReadAnswer::BytesLost | ReadAnswer::Denied => return false,
            ReadAnswer::Stat(looked) => looked.as_ref(),
            ReadAnswer::Bytes(found) => {
                return matches!(check, Check::Bytes { bytes, .. } if found.as_ref() == Some(bytes));
            }
        };
        match (check, looked) {
            (Check::Missing, looked) => looked.is_none(),
            (_, None) => false,
            (Check::Exists | Check::Bytes { .. }, Some(_)) => true,
            (Check::Version(version), Some(_)) => number.is_some_and(|number| number <= *version),
            (Check::Size(size), Some(looked)) => looked.size == *size,
            (Check::Attribute { name, value }, Some(looked)) => looked.attributes.get(name) == value.as_ref(),
        }
    }

    fn send(&mut self, client: &mut Client, now: Time, gives_up_at: Option<Time>) {
        let seen: Vec<BlobName> =
            self.reads.blobs().filter(|blob| self.reads.seen(blob).is_some()).cloned().collect();
        if self.changes.is_empty() && seen.len() <= 1 {
            // What it read of one blob was there at one point.
            return self.end(client, Some(End::Committed(BTreeMap::new())));
        }
        let mut plans: BTreeMap<BlobName, BlobPlan> = BTreeMap::new();
        for blob in seen {
            let seen = self.reads.seen(&blob);
            let (conditions, operations) = (Vec::new(), Vec::new());
            plans.insert(blob.clone(), BlobPlan { blob, seen, conditions, operations });
        }
        for (blob, operations) in &self.changes {
            plan_of(&mut plans, blob).operations = operations.clone();
        }
        for (blob, checks) in &self.conditions {
            checks.iter().for_each(|check| require(plan_of(&mut plans, blob), check));
        }
        // It may have to wait for who waits for its reserve.
        if plans.keys().any(|blob| !self.reserved.contains(blob)) {
            self.reserve.take().into_iter().for_each(|reserve| client.let_go(reserve));
        }
        let plans = plans.into_values().collect();
        let id = client.commit_reserved(now, plans, &self.copies, self.reserve, gives_up_at);
        self.stage = Stage::Sent(id, client.plan(id).cloned(), gives_up_at);
    }

    fn end(&mut self, client: &mut Client, end: Option<End>) {
        self.stage = Stage::Over;
        self.reads.let_go(client);
        self.reserve.take().into_iter().for_each(|reserve| client.let_go(reserve));
        self.told.extend(end.map(Told::Ended));
    }
}

/// A transaction with more payload looks before it commits, and sends none if it would be refused.
const PAYLOAD_UNASKED_MAX: usize = 1 << 20;

fn plan_of<'a>(plans: &'a mut BTreeMap<BlobName, BlobPlan>, blob: &BlobName) -> &'a mut BlobPlan {
    plans.entry(blob.clone()).or_insert_with(|| BlobPlan::blind(blob.clone(), Vec::new()))
}

/// Has a head see to a check.
fn require(plan: &mut BlobPlan, check: &Check) {
    let condition = match check {
        Check::Exists => Condition::Exists,
        Check::Missing => Condition::Missing,
        Check::Size(size) => Condition::Size(*size),
        Check::Attribute { name, value } => Condition::Attribute { name: name.clone(), value: value.clone() },
        Check::Version(_) if planted(Canary::VersionIgnored) => Condition::Exists,
        Check::Version(number) => {
            // As if it had been read then. What else was read of it was read later, if that is so.
            let seen = plan.seen.get_or_insert_with(|| Seen { number: *number, ..Seen::default() });
            (seen.number, seen.version) = (seen.number.min(*number), true);
            Condition::Exists
        }
        // It was looked at.
        Check::Bytes { .. } => return,
    };
    plan.conditions.push(condition);
}

/// Whether a transaction was refused because of a failure: then the same may be done under another id, and what it has read is looked at
/// anew. Or because there is too much to do, and it has read nothing: what it has read would be overwritten before its turn.
fn is_without_fault(plan: &Plan, refusal: Refusal) -> bool {
    let has_read = plan.heads.iter().any(|head| head.seen.is_some());
    let passes = matches!(refusal, Refusal::Fenced | Refusal::Unstaged);
    plan.reserve.is_none() && (passes || refusal == Refusal::Busy && !has_read)
}
