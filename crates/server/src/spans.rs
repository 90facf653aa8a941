//! What a shard does for transactions and reads that are traced, as spans.
//!
//! A client decides which of its transactions and reads are traced; what is said of them along the chain and to chunks has the trace's context with
//! it. It belongs to the shard's thread, and is empty as long as nothing is traced. Spans are:
//!
//! - `stop`: a visit of a chain at this shard, until the transaction is passed on or answered;
//! - `write`: writes to chunks whose head is elsewhere, until the vote for them;
//! - `log`: below these, from when they are to be written to the log until that is durable here;
//! - `serve`: a read, from when it came until its answer.

use std::collections::BTreeMap;

use tyr_net::{Attribute, Exporter, Side, Span, span_time};
use tyr_proto::{
    ClassId, NodeId, PartitionId, Time, TraceContext, TransactionId,
    message::{Envelope, Message, RequestId},
};

use crate::surroundings::random;

/// What is traced.
#[derive(Debug)]
pub(crate) struct Spans {
    /// Without it, contexts are handed on, and nothing is told of this node.
    exporter: Option<Exporter>,
    node: NodeId,
    place: usize,
    open: BTreeMap<(TransactionId, Part), Open>,
    /// What was told with its log, by what it is of: what comes again, or is sent again, is of the same span.
    told: BTreeMap<(TransactionId, Part), Open>,
    reads: BTreeMap<RequestId, Read>,
}

/// A read that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Read {
    /// With what caused it.
    context: TraceContext,
    kind: &'static str,
    partition: PartitionId,
    began: Time,
}

/// What of a transaction a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Stop(PartitionId),
    Write(PartitionId),
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// With what caused it.
    context: TraceContext,
    span: u64,
    partition: PartitionId,
    began: Time,
    /// Whether it has ended, and waits only for its log.
    is_told: bool,
    /// From when to when it was written to the log.
    logged: Option<(Time, Time)>,
}

impl Spans {
    /// Nothing is traced yet.
    pub fn new(exporter: Option<Exporter>, node: NodeId, place: usize) -> Self {
        Spans { exporter, node, place, open: BTreeMap::new(), told: BTreeMap::new(), reads: BTreeMap::new() }
    }

    /// A message has come that is traced.
    pub fn came(&mut self, now: Time, context: TraceContext, envelope: &Envelope) {
        if let Some((request, kind)) = envelope.message.read() {
            if self.reads.len() < OPEN_MAX && self.exporter.is_some() {
                let read = Read { context, kind, partition: envelope.partition, began: now };
                self.reads.entry(request).or_insert(read);
            }
            return;
        }
        let key = match &envelope.message {
            Message::Start(plan) | Message::Pass { plan, .. } => (plan.id, Part::Stop(envelope.partition)),
            Message::Write { writes, .. } => (writes.id, Part::Write(envelope.partition)),
            _ => return,
        };
        let comes_again = self.open.contains_key(&key) || self.told.contains_key(&key);
        if self.open.len() < OPEN_MAX && !comes_again {
            let (span, partition) = (random().max(1), envelope.partition);
            let open = Open { context, span, partition, began: now, is_told: false, logged: None };
            self.open.insert(key, open);
        }
    }

    /// A message goes. Returns the context that goes with it, if it is of something that is traced.
    pub fn goes(&mut self, now: Time, message: &Message) -> Option<TraceContext> {
        match message {
            Message::Pass { plan, .. } => {
                let (part, open) = self.stop(plan.id)?;
                self.end(now, plan.id, part, None);
                Some(TraceContext { trace: open.context.trace, span: open.span })
            }
            Message::Write { writes, .. } => {
                let (_, open) = self.stop(writes.id)?;
                Some(TraceContext { trace: open.context.trace, span: open.span })
            }
            Message::Vote { id, part } => {
                self.end(now, *id, Part::Write(part.partition()), None);
                None
            }
            _ => None,
        }
    }

    /// A transaction is answered.
    pub fn answered(&mut self, now: Time, id: TransactionId, outcome: &'static str) {
        if let Some((part, _)) = self.stop(id) {
            self.end(now, id, part, Some(outcome));
        }
    }

    /// The last stop of a transaction that came here.
    fn stop(&self, id: TransactionId) -> Option<(Part, Open)> {
        let stops = (id, Part::Stop(FIRST))..(id, Part::Write(FIRST));
        let known = self.open.range(stops.clone()).chain(self.told.range(stops));
        known.max_by_key(|(_, open)| open.began).map(|((_, part), open)| (*part, *open))
    }

    /// A read is answered.
    pub fn served(&mut self, now: Time, request: RequestId, how: &'static str) {
        let Some(Read { context, kind, partition, began }) = self.reads.remove(&request) else { return };
        let mut attributes = self.place_attributes(partition);
        attributes.push(("tyr.request", Attribute::Text(request.to_string())));
        attributes.push(("tyr.kind", Attribute::Text(kind.to_owned())));
        attributes.push(("tyr.outcome", Attribute::Text(how.to_owned())));
        self.give(context, random().max(1), "serve", (began, now), now, attributes);
    }

    /// Something has ended, and is told unless it was. What is not in the log yet stays.
    fn end(&mut self, now: Time, id: TransactionId, part: Part, outcome: Option<&'static str>) {
        let Some(open) = self.open.get_mut(&(id, part)) else { return };
        let is_news = !std::mem::replace(&mut open.is_told, true);
        let open = *open;
        if is_news {
            let name = if matches!(part, Part::Stop(_)) { "stop" } else { "write" };
            let mut attributes = self.attributes(id, &open);
            attributes.extend(outcome.map(|outcome| ("tyr.outcome", Attribute::Text(outcome.to_owned()))));
            self.give(open.context, open.span, name, (open.began, now), now, attributes);
            self.tell_log(id, &open, now);
        }
        if open.logged.is_some() {
            self.close((id, part));
        }
    }

    /// All is told of something.
    fn close(&mut self, key: (TransactionId, Part)) {
        let open = self.open.remove(&key);
        if self.told.len() < OPEN_MAX {
            self.told.extend(open.map(|open| (key, open)));
        }
    }

    /// Whether anything is open, so that it is worth telling of what happens.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.told.is_empty() && self.reads.is_empty()
    }

    /// Entries of these partitions are durable, which were to be written since then.
    pub fn stored(
        &mut self,
        now: Time,
        since: Option<Time>,
        partitions: impl Iterator<Item = PartitionId> + Clone,
    ) {
        let mut over = Vec::new();
        for (key, open) in &mut self.open {
            if open.logged.is_none() && partitions.clone().any(|partition| partition == open.partition) {
                open.logged = Some((open.began.max(since.unwrap_or(open.began)), now));
                over.extend(open.is_told.then_some((*key, *open)));
            }
        }
        for (key, open) in over {
            self.close(key);
            self.tell_log(key.0, &open, now);
        }
    }

    /// Forgets what does not end here.
    pub fn tidy(&mut self, now: Time) {
        for spans in [&mut self.open, &mut self.told] {
            spans.retain(|_, open| now.since(open.began) < FORGOTTEN_AFTER);
        }
        self.reads.retain(|_, read| now.since(read.began) < FORGOTTEN_AFTER);
    }

    fn tell_log(&self, id: TransactionId, open: &Open, now: Time) {
        if let Some(between) = open.logged {
            let context = TraceContext { trace: open.context.trace, span: open.span };
            self.give(context, random().max(1), "log", between, now, self.attributes(id, open));
        }
    }

    fn attributes(&self, id: TransactionId, open: &Open) -> Vec<(&'static str, Attribute)> {
        let mut attributes = self.place_attributes(open.partition);
        attributes.push(("tyr.transaction", Attribute::Text(id.to_string())));
        attributes
    }

    /// Where something was done.
    fn place_attributes(&self, partition: PartitionId) -> Vec<(&'static str, Attribute)> {
        vec![
            ("tyr.node", Attribute::Number(self.node.0.into())),
            ("tyr.shard", Attribute::Number(self.place as u64)),
            ("tyr.partition", Attribute::Text(partition.to_string())),
        ]
    }

    fn give(
        &self,
        cause: TraceContext,
        id: u64,
        name: &'static str,
        (began, ended): (Time, Time),
        now: Time,
        attributes: Vec<(&'static str, Attribute)>,
    ) {
        let Some(exporter) = &self.exporter else { return };
        // The clock of the shard is another one.
        let shown = span_time();
        let at = |time: Time| shown.saturating_sub(now.since(time).saturating_mul(1_000));
        let side = if name == "log" { Side::Internal } else { Side::Server };
        let (trace, parent, began, ended) = (cause.trace, cause.span, at(began), at(ended));
        exporter.give(Span { trace, id, parent, name, side, began, ended, attributes });
    }
}

/// The first in order.
const FIRST: PartitionId = PartitionId { class: ClassId(0), index: 0 };
/// The most spans of transactions, and of reads, that are open at once; more are not traced.
const OPEN_MAX: usize = 4096;
/// What has not ended after so long is told of no more, in microseconds.
const FORGOTTEN_AFTER: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tyr_proto::{BlobName, HeadPlan, Plan, RingVersion, SessionId};
    use tyr_types::{Key, KeyspaceId};

    use super::*;

    #[test]
    fn what_comes_again_or_is_sent_again_is_of_the_same_span() {
        let partition = |index| PartitionId { class: ClassId(0), index };
        let id = TransactionId { birth: RingVersion(1), session: SessionId(2), sequence: 3 };
        let head = |index| {
            HeadPlan::blind(
                partition(index),
                BlobName { keyspace: KeyspaceId(1), key: Key::new(b"a").expect("it is a key") },
                Vec::new(),
            )
        };
        let plan = Arc::new(Plan { id, answered: 0, reserve: None, heads: vec![head(0), head(1)] });
        let start = Envelope { partition: partition(0), message: Message::Start(plan.clone()) };
        let pass = Message::Pass { plan, stops: Vec::new() };
        let mut spans = Spans::new(None, NodeId(1), 0);
        let context = TraceContext { trace: 7, span: 8 };
        spans.came(Time(1), context, &start);
        let passed = spans.goes(Time(2), &pass).unwrap();
        assert_eq!(passed.trace, 7);
        assert_ne!(passed.span, 8);
        // The client has not heard of it for a while: before it is in the log, and after.
        spans.came(Time(3), context, &start);
        assert_eq!(spans.goes(Time(3), &pass), Some(passed));
        spans.stored(Time(4), None, [partition(0)].into_iter());
        spans.came(Time(5), context, &start);
        assert_eq!(spans.goes(Time(5), &pass), Some(passed));
        assert!(spans.open.is_empty(), "all of it is told");
        spans.tidy(Time(6 + FORGOTTEN_AFTER));
        assert!(spans.is_empty());
    }
}
