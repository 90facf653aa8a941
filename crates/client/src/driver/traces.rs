//! Which of a client's transactions and reads are traced, and the first span of each: from when it is sent until its end is known.
//!
//! A read is one request of a replica. What a program asks for may take several.

use std::{collections::BTreeMap, num::NonZeroU32};

use tyr_net::{Attribute, Collector, Exporter, Exporting, Side, Span, span_time};
use tyr_proto::{
    NodeId, Outcome, PartitionId, Plan, TraceContext, TransactionId,
    message::{Message, RequestId},
};

/// Which transactions and reads are traced, and where that goes.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Where spans are sent.
    pub collector: Collector,
    /// One transaction, and one read, of so many is traced.
    pub every: NonZeroU32,
}

/// Transactions and reads that are traced.
pub struct Traces {
    exporter: Exporter,
    exporting: Exporting,
    every: u64,
    open: BTreeMap<TransactionId, Root>,
    reads: BTreeMap<RequestId, Read>,
}

struct Root {
    context: TraceContext,
    began: u64,
    blobs: usize,
}

struct Read {
    context: TraceContext,
    began: u64,
    kind: &'static str,
    partition: PartitionId,
    /// How often it was asked.
    tries: u64,
}

impl Traces {
    /// Begins, in the runtime that this is called in.
    pub fn start(tracing: Tracing, session: u64) -> Self {
        let Tracing { collector, every } = tracing;
        let (exporter, exporting) = Exporter::start(collector, "tyr client", &format!("session {session}"));
        Traces {
            exporter,
            exporting,
            every: every.get().into(),
            open: BTreeMap::new(),
            reads: BTreeMap::new(),
        }
    }

    /// A transaction is sent, perhaps again. Returns the context that goes with it if it is traced.
    pub fn sends(&mut self, plan: &Plan, mut random: impl FnMut() -> u64) -> Option<TraceContext> {
        if let Some(known) = self.open.get(&plan.id) {
            return Some(known.context);
        }
        if !self.chooses(plan.id.session.0, plan.id.sequence) || self.open.len() >= OPEN_MAX {
            return None;
        }
        let context = begin(&mut random);
        self.open.insert(plan.id, Root { context, began: span_time(), blobs: plan.heads.len() });
        Some(context)
    }

    /// How a transaction ended; none if that is not known.
    pub fn ends(&mut self, id: TransactionId, outcome: Option<Outcome>) {
        let Some(Root { context, began, blobs }) = self.open.remove(&id) else { return };
        let outcome = outcome.map_or("unknown", Outcome::name);
        self.exporter.give(Span {
            trace: context.trace,
            id: context.span,
            parent: 0,
            name: "transaction",
            side: Side::Client,
            began,
            ended: span_time(),
            attributes: vec![
                ("tyr.transaction", Attribute::Text(id.to_string())),
                ("tyr.blobs", Attribute::Number(blobs as u64)),
                ("tyr.outcome", Attribute::Text(outcome.to_owned())),
            ],
        });
    }

    /// Something is asked, perhaps again. Returns the context that goes with it if it is a read that is traced.
    pub fn asks(
        &mut self,
        message: &Message,
        partition: PartitionId,
        mut random: impl FnMut() -> u64,
    ) -> Option<TraceContext> {
        let (request, kind) = message.read()?;
        if let Some(known) = self.reads.get_mut(&request) {
            known.tries += 1;
            return Some(known.context);
        }
        if !self.chooses(request.session.0, request.number) {
            return None;
        }
        let began = span_time();
        if self.reads.len() >= OPEN_MAX {
            // Nobody waits any more for what was not answered for long.
            self.reads.retain(|_, read| began.saturating_sub(read.began) < FORGOTTEN_AFTER);
        }
        if self.reads.len() >= OPEN_MAX {
            return None;
        }
        let context = begin(&mut random);
        self.reads.insert(request, Read { context, began, kind, partition, tries: 1 });
        Some(context)
    }

    /// A node has answered a read.
    pub fn hears(&mut self, request: RequestId, node: NodeId, how: &'static str) {
        let Some(Read { context, began, kind, partition, tries }) = self.reads.remove(&request) else {
            return;
        };
        self.exporter.give(Span {
            trace: context.trace,
            id: context.span,
            parent: 0,
            name: "read",
            side: Side::Client,
            began,
            ended: span_time(),
            attributes: vec![
                ("tyr.request", Attribute::Text(request.to_string())),
                ("tyr.kind", Attribute::Text(kind.to_owned())),
                ("tyr.partition", Attribute::Text(partition.to_string())),
                ("tyr.node", Attribute::Number(node.0.into())),
                ("tyr.tries", Attribute::Number(tries)),
                ("tyr.outcome", Attribute::Text(how.to_owned())),
            ],
        });
    }

    /// Whether it is the turn of what has this number. Clients have random sessions, so that of those who do one thing each not all are traced.
    fn chooses(&self, session: u64, number: u64) -> bool {
        session.wrapping_add(number).is_multiple_of(self.every)
    }

    /// Sends what there is, and ends.
    pub async fn finish(self) {
        let Traces { exporter, exporting, .. } = self;
        drop(exporter);
        exporting.finish().await;
    }
}

/// A new trace, and its first span.
fn begin(random: &mut impl FnMut() -> u64) -> TraceContext {
    let trace = u128::from(random().max(1)) << 64 | u128::from(random());
    TraceContext { trace, span: random().max(1) }
}

/// The most transactions, and the most reads, that are traced at once.
const OPEN_MAX: usize = 4096;
/// A read that was not answered for so long may be forgotten, in nanoseconds.
const FORGOTTEN_AFTER: u64 = 60_000_000_000;
