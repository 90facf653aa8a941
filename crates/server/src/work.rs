//! What a shard has done and how long that took, and the names under which it is followed through the logs.
//!
//! It belongs to the shard's thread. Whatever is remembered of single requests is bounded; what does not fit is not timed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tyr_proto::{
    BlobName, Keyspaces, NodeId, Operation, Outcome, Plan, Refusal, Time, TransactionId,
    message::{Answer, Envelope, Message, RequestId},
};
use tyr_types::KeyspaceId;

use crate::{
    histogram::Histogram,
    hot::{Heat, Hot, Sampler},
    shard::place_of,
    surroundings::wall_clock,
    trail::{Hop, Slow, Slows, Step, Trail},
    usage::{self, Usage},
};

/// What a shard has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Transactions that were answered here, by how they ended: [`OUTCOMES`] has the names.
    pub transactions: [u64; OUTCOMES.len()],
    /// Bytes that committed ones wrote.
    pub written_bytes: u64,
    /// From when this shard, which decided them, heard of them first until it answered.
    pub transaction_times: Histogram,
    /// Answers to readers: [`READS`] has the names.
    pub reads: [u64; READS.len()],
    /// From the question to the answer.
    pub read_times: Histogram,
    /// Bytes of blobs that were answered.
    pub read_bytes: u64,
    /// Readers that came too late: what they wanted was collected.
    pub expired: u64,
    /// Parts of payload that were staged.
    pub staged: u64,
    /// Clients that were sent to another node.
    pub redirected: u64,
    /// Entries that have become durable here.
    pub entries: u64,
    /// From when something was to be written until it was durable.
    pub log_times: Histogram,
}

/// What is shown less often than [`Work`], for it is larger.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detail {
    /// What was done in each keyspace.
    pub usage: Usage,
    /// The blobs that are read and written most,
    pub hot: Vec<Heat>,
    /// and those whose readers have to begin again most often.
    pub contended: Vec<Heat>,
    /// The last operations that were slow, the newest first, and how many there were.
    pub slow: Vec<Slow>,
    pub slow_total: u64,
}

/// How transactions end.
pub(crate) const OUTCOMES: [&str; 14] = [
    "committed",
    "conflict",
    "exists",
    "not_found",
    "fenced",
    "invalid",
    "busy",
    "full",
    "unstaged",
    "too_few_replicas",
    "denied",
    "quota",
    "too_large",
    "too_many_attributes",
];

/// What readers ask.
pub(crate) const READS: [&str; 5] = ["look", "read", "scan", "freeze", "locate"];

fn index_of(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Committed => 0,
        Outcome::Refused(refusal) => match refusal {
            Refusal::Conflict => 1,
            Refusal::Exists => 2,
            Refusal::NotFound => 3,
            Refusal::Fenced => 4,
            Refusal::Invalid => 5,
            Refusal::Busy => 6,
            Refusal::Full => 7,
            Refusal::Unstaged => 8,
            Refusal::TooFewReplicas => 9,
            Refusal::Denied => 10,
            Refusal::Quota => 11,
            Refusal::TooLarge => 12,
            Refusal::TooManyAttributes => 13,
        },
    }
}

/// A shard's work, and what of it is not done yet.
#[derive(Debug)]
pub(crate) struct Worker {
    work: Work,
    /// Which shard of its node.
    place: usize,
    /// Of so many.
    shards: usize,
    /// What takes longer is told, in microseconds.
    slow_after: u64,
    transactions: BTreeMap<TransactionId, Visit>,
    requests: BTreeMap<RequestId, Question>,
    usage: Usage,
    hot: Hot,
    contended: Hot,
    sampler: Sampler,
    trail: Trail,
    slows: Slows,
    /// Transactions that were counted, so that one that comes again is not; the last ones.
    counted: BTreeSet<TransactionId>,
    counted_order: VecDeque<TransactionId>,
}

/// A transaction that is at this shard.
#[derive(Debug)]
struct Visit {
    since: Time,
    /// Whether it is decided here, and not passed on.
    is_last: bool,
    /// What it writes in its first keyspace, and in the others.
    first: (KeyspaceId, u64),
    others: Vec<(KeyspaceId, u64)>,
    /// Its first blob, and how many it has.
    blob: BlobName,
    blobs: usize,
    /// What it has read here.
    seen: Vec<BlobName>,
}

/// What a reader wants.
#[derive(Clone, Debug)]
struct Question {
    since: Time,
    blob: BlobName,
}

impl Visit {
    /// None for a plan without heads, which nobody makes.
    fn of(
        plan: &Plan,
        since: Time,
        is_last: bool,
        is_here: impl Fn(&tyr_proto::HeadPlan) -> bool,
    ) -> Option<Visit> {
        let head = plan.heads.first()?;
        let mut visit = Visit {
            since,
            is_last,
            first: (head.blob.keyspace, 0),
            others: Vec::new(),
            blob: head.blob.clone(),
            blobs: plan.heads.len(),
            seen: Vec::new(),
        };
        for head in &plan.heads {
            let written = head.operations.iter().map(size).sum();
            visit.count(head.blob.keyspace, written);
            if head.depends_on_blob() && visit.seen.len() < SEEN_MAX && is_here(head) {
                visit.seen.push(head.blob.clone());
            }
        }
        Some(visit)
    }

    fn count(&mut self, keyspace: KeyspaceId, written: u64) {
        if self.first.0 == keyspace {
            self.first.1 += written;
        } else if let Some(other) = self.others.iter_mut().find(|(other, _)| *other == keyspace) {
            other.1 += written;
        } else if self.others.len() < KEYSPACES_MAX {
            self.others.push((keyspace, written));
        }
    }
}

/// The bytes that an operation writes.
fn size(operation: &Operation) -> u64 {
    match operation {
        Operation::Write { bytes, .. } | Operation::Append { bytes } => bytes.len() as u64,
        Operation::WriteStaged { length, .. }
        | Operation::AppendStaged { length }
        | Operation::Lost { length } => *length,
        Operation::Transform { transform, .. } => transform.number_type().size() as u64,
        Operation::SetAttribute { value, .. } => value.as_ref().map_or(0, |value| value.len() as u64),
        Operation::Create | Operation::Delete | Operation::Truncate { .. } | Operation::Punch { .. } => 0,
    }
}

impl Worker {
    /// Nothing is done yet.
    pub fn new(place: usize, shards: usize, slow_after: u64) -> Self {
        Worker {
            work: Work::default(),
            place,
            shards,
            slow_after,
            transactions: BTreeMap::new(),
            requests: BTreeMap::new(),
            usage: Usage::new(),
            hot: Hot::default(),
            contended: Hot::default(),
            sampler: Sampler::new(place as u64),
            trail: Trail::default(),
            slows: Slows::default(),
            counted: BTreeSet::new(),
            counted_order: VecDeque::new(),
        }
    }

    /// What was done.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// A message has come.
    pub fn came(&mut self, now: Time, envelope: &Envelope) {
        let Envelope { partition, message } = envelope;
        if tracing::enabled!(tracing::Level::TRACE) {
            let (kind, request) = subject(message);
            tracing::trace!(shard = self.place, %partition, kind, request, "a message has come");
        }
        if let Some((id, step)) = Step::of(message) {
            self.trail.note(id, Hop { at: now, step, partition: *partition, node: None });
        }
        match message {
            Message::Start(plan) | Message::Pass { plan, .. } => self.visited(now, plan),
            Message::Look { request, blob }
            | Message::Get { request, blob, .. }
            | Message::Borrow { request, blob, .. }
            | Message::GetWith { request, blob, .. } => {
                self.asked(now, *request, blob);
            }
            Message::Read { request, chunk, .. }
            | Message::Locate { request, chunk, .. }
            | Message::Seek { request, chunk, .. } => {
                self.asked(now, *request, &chunk.blob);
            }
            Message::Stat { request, blobs } => {
                if let Some(blob) = blobs.first() {
                    self.asked(now, *request, blob);
                }
            }
            Message::Scan { request, after, .. } if self.requests.len() < OPEN_MAX => {
                let question = Question { since: now, blob: after.clone() };
                self.requests.entry(*request).or_insert(question);
            }
            _ => {}
        }
    }

    /// A transaction has come. The shard of the last stop decides and answers, if that is of this node. What one partition says to another
    /// one of its shard does not come by here.
    fn visited(&mut self, now: Time, plan: &Plan) {
        if self.counted.contains(&plan.id)
            || self.transactions.len() >= OPEN_MAX
            || self.transactions.contains_key(&plan.id)
        {
            return;
        }
        let (place, shards) = (self.place, self.shards);
        let is_here = |head: &tyr_proto::HeadPlan| place_of(head.partition, shards) == place;
        let is_last = plan.heads.last().is_some_and(is_here);
        for head in plan.heads.iter().filter(|head| is_here(head)) {
            if self.sampler.chooses() {
                self.hot.touch(&head.blob, Sampler::EVERY);
            }
        }
        if let Some(visit) = Visit::of(plan, now, is_last, is_here) {
            self.transactions.insert(plan.id, visit);
        }
    }

    fn asked(&mut self, now: Time, request: RequestId, blob: &BlobName) {
        if self.sampler.chooses() {
            self.hot.touch(blob, Sampler::EVERY);
        }
        if self.requests.len() < OPEN_MAX {
            self.requests.entry(request).or_insert_with(|| Question { since: now, blob: blob.clone() });
        }
    }

    /// A message goes to another partition, here or elsewhere.
    pub fn goes(&mut self, now: impl Fn() -> Time, to: NodeId, envelope: &Envelope) {
        let Envelope { partition, message } = envelope;
        if tracing::enabled!(tracing::Level::TRACE) {
            let (kind, request) = subject(message);
            tracing::trace!(shard = self.place, %to, %partition, kind, request, "a message goes");
        }
        let Some((id, step)) = Step::of(message) else { return };
        let at = now();
        self.trail.note(id, Hop { at, step, partition: *partition, node: Some(to) });
        // The last stop answers; of another one this is all.
        if step == Step::Pass && self.transactions.get(&id).is_some_and(|visit| !visit.is_last) {
            let visit = self.transactions.remove(&id).expect("it was just there");
            let took = at.since(visit.since);
            if took >= self.slow_after {
                self.note_slow(id, took, "stop", "passed", &visit);
                tracing::warn!(request = %id, shard = self.place, seconds = seconds(took), "a stop was slow");
            }
        }
    }

    fn note_slow(
        &mut self,
        id: TransactionId,
        took: u64,
        kind: &'static str,
        outcome: &'static str,
        visit: &Visit,
    ) {
        let hops = self.trail.of(id).into_iter().map(|hop| (hop.at.since(visit.since), hop)).collect();
        self.slows.add(Slow {
            at: wall_clock(),
            request: id.to_string(),
            kind,
            outcome,
            took,
            blob: Some(visit.blob.clone()),
            blobs: visit.blobs,
            hops,
        });
    }

    /// A client is answered.
    pub fn answered(&mut self, now: Time, answer: &Answer) {
        match answer {
            Answer::Outcome { id, outcome: Some((outcome, _)) } => self.decided(now, *id, *outcome),
            Answer::Looked { request, .. } => self.read(now, *request, 0, 0),
            Answer::Bytes { request, bytes, .. } => {
                self.read(now, *request, 1, bytes.len());
            }
            Answer::Got { request, bytes, .. }
            | Answer::GotWith { request, bytes, .. }
            | Answer::Lent { request, bytes, .. } => {
                self.read(now, *request, 0, bytes.as_ref().map_or(0, |bytes| bytes.len()));
            }
            Answer::Stats { request, .. } => self.read(now, *request, 0, 0),
            Answer::Sought { request, .. } => self.read(now, *request, 1, 0),
            Answer::Names { request, .. } | Answer::Kept { request, .. } => self.read(now, *request, 2, 0),
            Answer::Located { request, .. } => self.read(now, *request, 4, 0),
            Answer::Frozen { request, .. } | Answer::FrozenPart { request, after: None, .. } => {
                self.read(now, *request, 3, 0)
            }
            Answer::Expired { request } => {
                self.work.expired += 1;
                self.requests.remove(request);
            }
            Answer::Staged { .. } => self.work.staged += 1,
            Answer::Elsewhere { .. } => self.work.redirected += 1,
            Answer::Outcome { .. }
            | Answer::Denied { .. }
            | Answer::Recall { .. }
            | Answer::Unstaged { .. }
            | Answer::FrozenPart { .. }
            | Answer::MarkNoted { .. } => {}
        }
    }

    fn decided(&mut self, now: Time, id: TransactionId, outcome: Outcome) {
        let visit = self.transactions.remove(&id);
        if !self.count(id) {
            // It came again, and is answered again.
            return;
        }
        let place = index_of(outcome);
        self.work.transactions[place] += 1;
        let Some(visit) = visit else { return };
        let took = now.since(visit.since);
        if outcome == Outcome::Refused(Refusal::Conflict) {
            visit.seen.iter().for_each(|blob| self.contended.touch(blob, 1.0));
        }
        for (keyspace, written) in std::iter::once(visit.first).chain(visit.others.iter().copied()) {
            if outcome == Outcome::Committed {
                self.work.written_bytes += written;
            }
            let Some(work) = usage::of(&mut self.usage, keyspace) else { continue };
            match outcome {
                Outcome::Committed => {
                    work.committed += 1;
                    work.written += written;
                }
                Outcome::Refused(Refusal::Conflict) => work.conflicts += 1,
                Outcome::Refused(_) => work.refused += 1,
            }
            if visit.is_last {
                work.transaction_times.add(took);
            }
        }
        // One that is refused at an earlier stop is not timed.
        if !visit.is_last {
            return;
        }
        self.work.transaction_times.add(took);
        let (shard, outcome) = (self.place, OUTCOMES[place]);
        if took >= self.slow_after {
            self.note_slow(id, took, "transaction", outcome, &visit);
            tracing::warn!(request = %id, shard, outcome, seconds = seconds(took), "a transaction was slow");
        } else {
            tracing::debug!(request = %id, shard, outcome, seconds = seconds(took), "a transaction has ended");
        }
    }

    /// Whether it is the first time.
    fn count(&mut self, id: TransactionId) -> bool {
        if !self.counted.insert(id) {
            return false;
        }
        self.counted_order.push_back(id);
        if self.counted_order.len() > COUNTED_MAX
            && let Some(oldest) = self.counted_order.pop_front()
        {
            self.counted.remove(&oldest);
        }
        true
    }

    fn read(&mut self, now: Time, request: RequestId, kind: usize, bytes: usize) {
        self.work.reads[kind] += 1;
        self.work.read_bytes += bytes as u64;
        let Some(Question { since, blob }) = self.requests.remove(&request) else { return };
        let took = now.since(since);
        self.work.read_times.add(took);
        if let Some(work) = usage::of(&mut self.usage, blob.keyspace) {
            work.reads += 1;
            work.read += bytes as u64;
            work.read_times.add(took);
        }
        if took >= self.slow_after {
            let (request, kind) = (request.to_string(), READS[kind]);
            tracing::warn!(%request, shard = self.place, kind, seconds = seconds(took), "a reader was slow");
            let (outcome, blob, blobs) = ("answered", Some(blob), 1);
            let slow = Slow { at: wall_clock(), request, kind, outcome, took, blob, blobs, hops: Vec::new() };
            self.slows.add(slow);
        }
    }

    /// So many entries are durable, which were to be written since then.
    pub fn stored(&mut self, now: Time, since: Option<Time>, count: usize) {
        self.work.entries += count as u64;
        if let Some(since) = since {
            self.work.log_times.add(now.since(since));
        }
        tracing::trace!(shard = self.place, count, "entries are durable");
    }

    /// Forgets what nobody waits for any more, or what another node answers.
    pub fn tidy(&mut self, now: Time) {
        let forgotten = FORGOTTEN_AFTER.max(2 * self.slow_after);
        self.transactions.retain(|_, visit| now.since(visit.since) < forgotten);
        self.requests.retain(|_, question| now.since(question.since) < forgotten);
        self.hot.fade();
        self.contended.fade();
    }

    /// These keyspaces exist: what was done in others is forgotten.
    pub fn keep(&mut self, keyspaces: &Keyspaces) {
        self.usage.retain(|keyspace, _| keyspaces.get(keyspace).is_some_and(|known| !known.is_dropped));
    }

    /// What is shown less often.
    pub fn detail(&self) -> Detail {
        Detail {
            usage: self.usage.clone(),
            hot: self.hot.hottest(),
            contended: self.contended.hottest(),
            slow: self.slows.newest().cloned().collect(),
            slow_total: self.slows.total(),
        }
    }
}

/// What a message is, and whose: the transaction or the reader's request.
fn subject(message: &Message) -> (&'static str, Option<String>) {
    let transaction = |id: &TransactionId| Some(id.to_string());
    let request = |request: &RequestId| Some(request.to_string());
    match message {
        Message::Start(plan) => ("start", transaction(&plan.id)),
        Message::AskOutcome { id, .. } => ("ask-outcome", transaction(id)),
        Message::Answered { .. } => ("answered", None),
        Message::Stage(stage) => ("stage", transaction(&stage.id)),
        Message::StageCopy(copy) => ("stage-copy", transaction(&copy.id)),
        Message::KeepStages { id } => ("keep-stages", transaction(id)),
        Message::Look { request: id, .. } => ("look", request(id)),
        Message::Get { request: id, .. } | Message::GetWith { request: id, .. } => ("get", request(id)),
        Message::Borrow { request: id, .. } => ("borrow", request(id)),
        Message::GiveBack { .. } => ("give-back", None),
        Message::Stat { request: id, .. } => ("stat", request(id)),
        Message::Pin { request: id, .. } => ("pin", request(id)),
        Message::Read { request: id, .. } => ("read", request(id)),
        Message::Locate { request: id, .. } => ("locate", request(id)),
        Message::Seek { request: id, .. } => ("seek", request(id)),
        Message::Freeze { freeze, .. } => ("freeze", request(&freeze.request)),
        Message::Frozen { request: id, .. } => ("frozen", request(id)),
        Message::TellFrozen { request: id, .. } => ("tell-frozen", request(id)),
        Message::Scan { request: id, .. } => ("scan", request(id)),
        Message::Kept { request: id, .. } => ("kept", request(id)),
        Message::Pass { plan, .. } => ("pass", transaction(&plan.id)),
        Message::Release { id } => ("release", transaction(id)),
        Message::Write { writes, .. } => ("write", transaction(&writes.id)),
        Message::Vote { id, .. } => ("vote", transaction(id)),
        Message::AskVote { id, .. } => ("ask-vote", transaction(id)),
        Message::Outcome { id, .. } => ("outcome", transaction(id)),
        Message::OutcomeStored { id, .. } => ("outcome-stored", transaction(id)),
        Message::Olds { id, .. } => ("olds", transaction(id)),
        Message::Ask { id, .. } => ("ask", transaction(id)),
        Message::AskNumber { id, .. } => ("ask-number", transaction(id)),
        Message::NumberLost { id, .. } => ("number-lost", transaction(id)),
        Message::AskPrevious { id, .. } => ("ask-previous", transaction(id)),
        Message::PreviousOver { id, .. } => ("previous-over", transaction(id)),
        Message::AskRoom { .. } => ("ask-room", None),
        Message::Room { .. } => ("room", None),
        Message::AskStands { id, .. } => ("ask-stands", transaction(id)),
        Message::Stands { id, .. } => ("stands", transaction(id)),
        Message::AskPurge { .. } => ("ask-purge", None),
        Message::Purge { .. } => ("purge", None),
        Message::Forget { id, .. } => ("forget", transaction(id)),
        Message::Forgotten { id, .. } => ("forgotten", transaction(id)),
        Message::Pull { id, .. } => ("pull", transaction(id)),
        Message::Pulled(stage) => ("pulled", transaction(&stage.id)),
        Message::Settle { id, .. } => ("settle", transaction(id)),
        Message::Settled { id } => ("settled", transaction(id)),
        Message::SendCopy { copy, .. } => ("send-copy", transaction(&copy.id)),
        Message::CopyLost { id } => ("copy-lost", transaction(id)),
        Message::Fetch { id, .. } => ("fetch", transaction(id)),
        Message::Fetched { id, .. } => ("fetched", transaction(id)),
        Message::Append { .. } => ("append", None),
        Message::Stored { .. } => ("stored", None),
        Message::Reconcile { .. } => ("reconcile", None),
        Message::Reconciled { .. } => ("reconciled", None),
        Message::Copy { .. } => ("copy", None),
        Message::Copied { .. } => ("copied", None),
        Message::AskPins { .. } => ("ask-pins", None),
        Message::Pins { .. } => ("pins", None),
        Message::Subscribe { .. } => ("subscribe", None),
        Message::Cached { .. } => ("cached", None),
        Message::Uncache { .. } => ("uncache", None),
        Message::Uncached { .. } => ("uncached", None),
        Message::Collected { .. } => ("collected", None),
        Message::Collect { .. } => ("collect", None),
    }
}

/// To the microsecond, for people.
fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

/// The most transactions, and readers, that are timed at once.
const OPEN_MAX: usize = 1 << 16;
/// Of as many blobs that a transaction has read it is known that it may have been refused for them,
const SEEN_MAX: usize = 16;
/// and in as many keyspaces beside the first it is counted.
const KEYSPACES_MAX: usize = 16;
/// The most transactions that are known to be counted.
const COUNTED_MAX: usize = 1 << 14;
/// What has not ended after so long is timed no longer, in microseconds.
const FORGOTTEN_AFTER: u64 = 30_000_000;
