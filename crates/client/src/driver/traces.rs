//! Which of a client's transactions are traced, and the first span of each: from when it is sent until its end is known.

use std::{collections::BTreeMap, num::NonZeroU32};

use tyr_net::{Attribute, Collector, Exporter, Exporting, Side, Span, span_time};
use tyr_proto::{Outcome, Plan, TraceContext, TransactionId};

/// Which transactions are traced, and where that goes.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Where spans are sent.
    pub collector: Collector,
    /// One transaction of so many is traced.
    pub every: NonZeroU32,
}

/// Transactions that are traced.
pub struct Traces {
    exporter: Exporter,
    exporting: Exporting,
    every: u64,
    open: BTreeMap<TransactionId, Root>,
}

struct Root {
    context: TraceContext,
    began: u64,
    blobs: usize,
}

impl Traces {
    /// Begins, in the runtime that this is called in.
    pub fn start(tracing: Tracing, session: u64) -> Self {
        let Tracing { collector, every } = tracing;
        let (exporter, exporting) = Exporter::start(collector, "tyr client", &format!("session {session}"));
        Traces { exporter, exporting, every: every.get().into(), open: BTreeMap::new() }
    }

    /// A transaction is sent, perhaps again. Returns the context that goes with it if it is traced.
    pub fn sends(&mut self, plan: &Plan, mut random: impl FnMut() -> u64) -> Option<TraceContext> {
        if let Some(known) = self.open.get(&plan.id) {
            return Some(known.context);
        }
        // Clients have random sessions, so that of those who commit once each not all are traced.
        let is_chosen = plan.id.session.0.wrapping_add(plan.id.sequence).is_multiple_of(self.every);
        if !is_chosen || self.open.len() >= OPEN_MAX {
            return None;
        }
        let trace = u128::from(random().max(1)) << 64 | u128::from(random());
        let context = TraceContext { trace, span: random().max(1) };
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

    /// Sends what there is, and ends.
    pub async fn finish(self) {
        let Traces { exporter, exporting, .. } = self;
        drop(exporter);
        exporting.finish().await;
    }
}

/// The most transactions that are traced at once.
const OPEN_MAX: usize = 4096;
