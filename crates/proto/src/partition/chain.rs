//! The head phase: a transaction visits the heads that it touches in one global order (design, section 5).

use alloc::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use tyr_types::Number;

use super::{Partition, reminders::Reminders};
use crate::{
    BlobName, Outcome, Plan, Refusal, TransactionId,
    canary::{Canary, planted},
    effects::Context,
    entry::{Entry, HeadEffect, Prepare, Refused, Stop},
    evaluate::{Evaluation, evaluate},
    head::Access,
    message::{Answer, Message},
    transaction::StopPlan,
};

/// Transactions that wait for a slot or for an outcome that they depend on, in the order of their arrival.
///
/// One that waits holds back later ones on the same heads. That cannot deadlock: it waits for holders of slots, which stand at later
/// stops, for transactions past their lock points, and for earlier ones in this queue.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Visit>,
    ids: BTreeSet<TransactionId>,
    /// Transactions whose lock point has not been heard of, to be passed on again.
    pub(super) unreleased: Reminders,
    stirred: bool,
}

#[derive(Debug)]
struct Visit {
    plan: Arc<Plan>,
    stops: Vec<Stop>,
    own: StopPlan,
}

enum Attempt {
    Waits,
    Prepared(Vec<Arc<HeadEffect>>),
    Refused(Refusal),
}

impl Queue {
    /// How many transactions wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a transaction waits.
    pub fn contains(&self, id: TransactionId) -> bool {
        self.ids.contains(&id)
    }

    /// Notes that something was decided or freed.
    pub fn stir(&mut self) {
        self.stirred = true;
    }
}

impl Partition {
    /// A transaction arrives, from its client or from the stop before.
    pub fn handle_pass(&mut self, cx: &mut Context, plan: Arc<Plan>, stops: Vec<Stop>) {
        if !self.is_established() {
            return;
        }
        let id = plan.id;
        if self.is_known(id) {
            self.handle_known(cx, plan, stops);
            return;
        }
        let is_fenced = self.configuration.floor > id.birth && !planted(Canary::FloorIgnored);
        // Who passes it on has not heard how it ended; a copy that is late finds nobody whom the refusal concerns.
        let is_over = is_fenced || self.state.is_below_mark(id);
        if self.state.is_below_mark(id) && stops.is_empty() {
            cx.answer(id.session, Answer::Outcome { id, outcome: None });
            return;
        }
        if !cx.has_lease && !planted(Canary::PreparedWithoutLease) {
            // A later primary may be at work already: what this one prepared now would be a second promise.
            cx.answer(id.session, self.elsewhere());
            return;
        }
        let own = plan.stops().into_iter().nth(stops.len());
        let Some(own) = own.filter(|own| own.partition == self.id && plan.is_ordered()) else { return };
        if self.chain.ids.contains(&id) {
            return;
        }
        if is_over {
            self.refuse(cx, &plan, stops, Refusal::Fenced);
        } else {
            self.chain.ids.insert(id);
            self.chain.waiting.push_back(Visit { plan, stops, own });
            self.chain.stirred = true;
        }
        self.settle(cx);
    }

    fn is_known(&self, id: TransactionId) -> bool {
        let record = self.state.record(id);
        record.is_some_and(|record| record.prepare.is_some() || record.outcome.is_some())
    }

    /// A transaction arrives again: whoever did not hear what became of it is told.
    fn handle_known(&mut self, cx: &mut Context, plan: Arc<Plan>, stops: Vec<Stop>) {
        let id = plan.id;
        let Some(record) = self.state.record(id) else { return };
        let undecided = record.prepare.as_ref().filter(|_| record.outcome.is_none());
        if let Some((_, prepare)) = undecided.filter(|(_, prepare)| !prepare.is_last()).cloned() {
            self.pass_on(cx, &prepare);
            return;
        }
        let refused = record.refused.as_ref().filter(|(index, _)| *index <= self.durable);
        if let Some((_, refused)) = refused.filter(|_| !stops.is_empty()) {
            let refusal = refused.refusal;
            self.drive_refusal(cx, plan, stops, refusal);
        }
        self.answer_again(cx, id);
    }

    /// Gives everybody in the queue a turn whose heads nobody before holds back.
    pub(super) fn run_waiting(&mut self, cx: &mut Context) {
        if !core::mem::take(&mut self.chain.stirred) {
            return;
        }
        let mut held_back: BTreeSet<BlobName> = BTreeSet::new();
        for visit in core::mem::take(&mut self.chain.waiting) {
            let heads = || visit.plan.heads[visit.own.heads.clone()].iter().map(|head| &head.blob);
            let attempt = match heads().any(|blob| held_back.contains(blob)) {
                true => Attempt::Waits,
                false => self.attempt(cx, &visit),
            };
            match attempt {
                Attempt::Waits => {
                    held_back.extend(heads().cloned());
                    self.chain.waiting.push_back(visit);
                    continue;
                }
                Attempt::Prepared(effects) => {
                    self.chain.ids.remove(&visit.plan.id);
                    self.prepare(cx, visit, effects);
                }
                Attempt::Refused(refusal) => {
                    self.chain.ids.remove(&visit.plan.id);
                    self.refuse(cx, &visit.plan, visit.stops, refusal);
                }
            }
        }
    }

    fn attempt(&self, cx: &Context, visit: &Visit) -> Attempt {
        let mut effects = Vec::new();
        for position in visit.own.heads.clone() {
            let plan = &visit.plan.heads[position];
            let Some(keyspace) = cx.keyspaces.get(&plan.blob.keyspace) else {
                return Attempt::Refused(Refusal::NotFound);
            };
            if keyspace.partition_of(&plan.blob, 0) != self.id {
                return Attempt::Refused(Refusal::Invalid);
            }
            let beginning = crate::head::Head::beginning_after(self.state.heads_after());
            let head = self.state.head(&plan.blob).unwrap_or(&beginning);
            if !head.slot_is_free_for(access(plan.only_reads())) {
                return Attempt::Waits;
            }
            match evaluate(head, position, plan, keyspace) {
                Evaluation::Waits => return Attempt::Waits,
                Evaluation::Refused(refusal) => return Attempt::Refused(refusal),
                Evaluation::Ready(effect) => effects.push(Arc::new(effect)),
            }
        }
        Attempt::Prepared(effects)
    }

    /// Takes the next number at every head of the stop, logs the promise, and passes on without waiting for it.
    fn prepare(&mut self, cx: &mut Context, visit: Visit, effects: Vec<Arc<HeadEffect>>) {
        let Visit { plan, mut stops, own } = visit;
        self.flush_outcomes(cx);
        let epoch = if planted(Canary::NumbersReused) { 1 } else { self.configuration.epoch.0 };
        let number = Number::new(epoch, self.log.last() + 1);
        stops.push(Stop { partition: self.id, heads: own.heads.clone(), number, effects });
        let prepare = Arc::new(Prepare { plan, stops });
        self.append(cx, Entry::Prepare(prepare.clone()));
        if planted(Canary::VotedBeforeDurable) {
            self.ready.push_back(prepare.id());
        }
        if prepare.is_last() {
            self.drive(cx, &prepare);
        } else {
            if !planted(Canary::SlotNotHeld) {
                self.take_slots(&prepare);
            }
            self.chain.unreleased.add(cx.now, prepare.id());
            self.pass_on(cx, &prepare);
        }
    }

    /// Holds the slots of this stop's heads until the lock point.
    pub(super) fn take_slots(&mut self, prepare: &Prepare) {
        for position in prepare.stop().heads.clone() {
            let plan = &prepare.plan.heads[position];
            self.state.head_mut(&plan.blob).take_slot(prepare.id(), access(plan.only_reads()));
        }
    }

    fn pass_on(&self, cx: &mut Context, prepare: &Prepare) {
        let next = &prepare.plan.heads[prepare.stop().heads.end];
        let message = Message::Pass { plan: prepare.plan.clone(), stops: prepare.stops.clone() };
        cx.to_primary(next.partition, message);
    }

    /// Promises never to prepare a transaction. Nobody is told before that is durable, except of what a failure may have lost: that
    /// every later primary refuses, too.
    pub(super) fn refuse(&mut self, cx: &mut Context, plan: &Arc<Plan>, stops: Vec<Stop>, refusal: Refusal) {
        let id = plan.id;
        if refusal == Refusal::Fenced && stops.is_empty() {
            let outcome = Some((Outcome::Refused(refusal), Vec::new()));
            cx.answer(id.session, Answer::Outcome { id, outcome });
            return;
        }
        let refused = Refused { id, refusal, plan: Some(plan.clone()), stops };
        self.append(cx, Entry::Refuse(Arc::new(refused)));
    }

    /// The lock point is passed.
    pub fn handle_release(&mut self, cx: &mut Context, id: TransactionId) {
        let Some(prepare) = self.state.record(id).and_then(|record| record.prepare.clone()) else { return };
        for position in prepare.1.stop().heads.clone() {
            self.state.head_mut(&prepare.1.plan.heads[position].blob).release_slot(id);
        }
        // A vote that overtook the chain found nobody at the lock point who counts it.
        if self.is_established() && self.can_vote(id) {
            self.vote(cx, id);
        }
        self.chain.stirred = true;
        self.settle(cx);
    }

    /// Passes transactions on again whose outcome has not been heard of for a while.
    pub(super) fn tick_chain(&mut self, cx: &mut Context) {
        for id in self.chain.unreleased.take_due(cx.now) {
            let Some(record) = self.state.record(id).filter(|record| record.outcome.is_none()) else {
                continue;
            };
            let Some((_, prepare)) = record.prepare.clone() else { continue };
            self.pass_on(cx, &prepare);
            self.chain.unreleased.add(cx.now, id);
        }
    }
}

fn access(only_reads: bool) -> Access {
    if only_reads { Access::Reads } else { Access::Writes }
}
