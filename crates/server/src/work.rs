//! What a shard has done and how long that took, and the names under which it is followed through the logs.
//!
//! It belongs to the shard's thread. Whatever is remembered of single requests is bounded; what does not fit is not timed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tyr_proto::{
    Outcome, Refusal, Time, TransactionId,
    message::{Answer, Envelope, Message, RequestId},
};

use crate::{histogram::Histogram, shard::place_of};

/// What a shard has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Transactions that were answered here, by how they ended: [`OUTCOMES`] has the names.
    pub transactions: [u64; OUTCOMES.len()],
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

/// How transactions end.
pub(crate) const OUTCOMES: [&str; 11] = [
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
    transactions: BTreeMap<TransactionId, Time>,
    requests: BTreeMap<RequestId, Time>,
    /// Transactions that were counted, so that one that comes again is not; the last ones.
    counted: BTreeSet<TransactionId>,
    counted_order: VecDeque<TransactionId>,
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
        match message {
            // The shard of the last stop decides and answers, if that is of this node. What one partition says to another one of its
            // shard does not come by here.
            Message::Start(plan) | Message::Pass { plan, .. }
                if plan
                    .heads
                    .last()
                    .is_some_and(|last| place_of(last.partition, self.shards) == self.place)
                    && !self.counted.contains(&plan.id)
                    && self.transactions.len() < OPEN_MAX =>
            {
                self.transactions.entry(plan.id).or_insert(now);
            }
            Message::Look { request, .. }
            | Message::Get { request, .. }
            | Message::Stat { request, .. }
            | Message::Read { request, .. }
            | Message::Locate { request, .. }
            | Message::Scan { request, .. }
                if self.requests.len() < OPEN_MAX =>
            {
                self.requests.entry(*request).or_insert(now);
            }
            _ => {}
        }
    }

    /// A message goes to another partition, here or elsewhere.
    pub fn goes(&self, to: impl std::fmt::Display, envelope: &Envelope) {
        if tracing::enabled!(tracing::Level::TRACE) {
            let (kind, request) = subject(&envelope.message);
            let partition = envelope.partition;
            tracing::trace!(shard = self.place, %to, %partition, kind, request, "a message goes");
        }
    }

    /// A client is answered.
    pub fn answered(&mut self, now: Time, answer: &Answer) {
        match answer {
            Answer::Outcome { id, outcome: Some((outcome, _)) } => self.decided(now, *id, *outcome),
            Answer::Looked { request, .. } => self.read(now, *request, 0),
            Answer::Bytes { request, bytes, .. } => {
                self.work.read_bytes += bytes.len() as u64;
                self.read(now, *request, 1);
            }
            Answer::Got { request, bytes, .. } => {
                self.work.read_bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                self.read(now, *request, 0);
            }
            Answer::Stats { request, .. } => self.read(now, *request, 0),
            Answer::Names { request, .. } => self.read(now, *request, 2),
            Answer::Located { request, .. } => self.read(now, *request, 4),
            Answer::Frozen { request, .. } => self.read(now, *request, 3),
            Answer::Expired { request } => {
                self.work.expired += 1;
                self.requests.remove(request);
            }
            Answer::Staged { .. } => self.work.staged += 1,
            Answer::Elsewhere { .. } => self.work.redirected += 1,
            Answer::Outcome { .. }
            | Answer::Denied { .. }
            | Answer::Unstaged { .. }
            | Answer::MarkNoted { .. } => {}
        }
    }

    fn decided(&mut self, now: Time, id: TransactionId, outcome: Outcome) {
        let since = self.transactions.remove(&id);
        if !self.count(id) {
            // It came again, and is answered again.
            return;
        }
        let place = index_of(outcome);
        self.work.transactions[place] += 1;
        // One that is refused at an earlier stop is not timed.
        let Some(since) = since else { return };
        let took = now.since(since);
        self.work.transaction_times.add(took);
        let (shard, outcome) = (self.place, OUTCOMES[place]);
        if took >= self.slow_after {
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

    fn read(&mut self, now: Time, request: RequestId, kind: usize) {
        self.work.reads[kind] += 1;
        let Some(since) = self.requests.remove(&request) else { return };
        let took = now.since(since);
        self.work.read_times.add(took);
        if took >= self.slow_after {
            let RequestId { session, number } = request;
            let kind = READS[kind];
            tracing::warn!(request = %format_args!("r{}.{number}", session.0), shard = self.place, kind, seconds = seconds(took), "a reader was slow");
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
        self.transactions.retain(|_, since| now.since(*since) < forgotten);
        self.requests.retain(|_, since| now.since(*since) < forgotten);
    }
}

/// What a message is, and whose: the transaction or the reader's request.
fn subject(message: &Message) -> (&'static str, Option<String>) {
    let transaction = |id: &TransactionId| Some(id.to_string());
    let request = |request: &RequestId| Some(format!("r{}.{}", request.session.0, request.number));
    match message {
        Message::Start(plan) => ("start", transaction(&plan.id)),
        Message::AskOutcome { id, .. } => ("ask-outcome", transaction(id)),
        Message::Answered { .. } => ("answered", None),
        Message::Stage(stage) => ("stage", transaction(&stage.id)),
        Message::KeepStages { id } => ("keep-stages", transaction(id)),
        Message::Look { request: id, .. } => ("look", request(id)),
        Message::Get { request: id, .. } => ("get", request(id)),
        Message::Stat { request: id, .. } => ("stat", request(id)),
        Message::Pin { request: id, .. } => ("pin", request(id)),
        Message::Read { request: id, .. } => ("read", request(id)),
        Message::Locate { request: id, .. } => ("locate", request(id)),
        Message::Freeze { freeze, .. } => ("freeze", request(&freeze.request)),
        Message::Frozen { request: id, .. } => ("frozen", request(id)),
        Message::Scan { request: id, .. } => ("scan", request(id)),
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
        Message::Forget { id, .. } => ("forget", transaction(id)),
        Message::Forgotten { id, .. } => ("forgotten", transaction(id)),
        Message::Pull { id, .. } => ("pull", transaction(id)),
        Message::Pulled(stage) => ("pulled", transaction(&stage.id)),
        Message::Settle { id, .. } => ("settle", transaction(id)),
        Message::Settled { id } => ("settled", transaction(id)),
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
/// The most transactions that are known to be counted.
const COUNTED_MAX: usize = 1 << 14;
/// What has not ended after so long is timed no longer, in microseconds.
const FORGOTTEN_AFTER: u64 = 30_000_000;
