//! The head phase: a transaction visits the heads that it touches in one global order (design, section 5).

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use tyr_types::{BESIDE_MAX, Number};

use super::{
    Partition, RESEND_AFTER, Wanted, decision::own_heads, freezing::FreezeVisit, reminders::Reminders,
};
use crate::{
    BlobName, HeadPlan, Keyspace, Keyspaces, Operation, Outcome, PartitionId, Plan, Refusal, TransactionId,
    canary::{Canary, planted},
    effects::Context,
    entry::{Entry, HeadEffect, Prepare, Refused, Stop},
    evaluate::{Evaluation, evaluate},
    freeze::Freeze,
    head::{Access, Head},
    keyspace::is_placed,
    message::{Answer, Message, RequestId},
    quota::Growth,
    size,
    transaction::StopPlan,
};

/// Transactions and freezes that wait for a slot or for an outcome that they depend on, in the order of their arrival.
///
/// One that waits holds back later ones on the same heads. That cannot deadlock: it waits for holders of slots, which stand at later
/// stops, for transactions past their lock points, and for earlier ones in this queue.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Waiter>,
    ids: BTreeSet<TransactionId>,
    /// How many wait at each head.
    waiting_at: BTreeMap<BlobName, usize>,
    /// Transactions whose lock point has not been heard of, to be passed on again.
    pub(super) unreleased: Reminders,
    /// What the next stops of those are told, with the payload that only they log. It ends with the epoch: after that they refuse what is passed on
    /// from the log, unless they have had it.
    passed_on: BTreeMap<TransactionId, (Arc<Plan>, Vec<Stop>)>,
    stirred: bool,
}

/// A refused transaction that nobody has had forgotten when it was looked at so many times is driven from here.
const FORGOTTEN_AFTER: u32 = 5;

#[derive(Debug)]
enum Waiter {
    Transaction(Visit),
    Freeze(FreezeVisit),
}

/// What waits holds back what came later.
#[derive(Debug)]
struct HeldBack {
    at: PartitionId,
    blobs: BTreeSet<BlobName>,
    freezes: Vec<Arc<Freeze>>,
}

#[derive(Debug)]
struct Visit {
    plan: Arc<Plan>,
    stops: Vec<Stop>,
    own: StopPlan,
}

enum Attempt {
    Waits,
    /// For these bytes.
    WaitsFor(Vec<Wanted>),
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

    /// Has a freeze wait for its turn.
    pub fn wait_to_freeze(&mut self, visit: FreezeVisit) {
        self.waiting.push_back(Waiter::Freeze(visit));
        self.stirred = true;
    }

    /// Whether a freeze waits.
    pub fn waits_to_freeze(&self, request: RequestId) -> bool {
        self.waiting_freezes().any(|freeze| freeze.request == request)
    }

    /// The freezes that wait.
    pub fn waiting_freezes(&self) -> impl Iterator<Item = &Arc<Freeze>> {
        self.waiting.iter().filter_map(|waiter| match waiter {
            Waiter::Freeze(visit) => Some(&visit.freeze),
            Waiter::Transaction(_) => None,
        })
    }

    /// Has freezes wait no longer; says whether any did.
    pub fn forget_freezes(&mut self, ends: impl Fn(&FreezeVisit) -> bool) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| !matches!(waiter, Waiter::Freeze(visit) if ends(visit)));
        self.waiting.len() < before
    }

    /// Whether those that wait are to be given a turn.
    pub fn is_stirred(&self) -> bool {
        self.stirred
    }

    fn push(&mut self, visit: Visit) {
        self.ids.insert(visit.plan.id);
        for head in &visit.plan.heads[visit.own.heads.clone()] {
            *self.waiting_at.entry(head.blob.clone()).or_default() += 1;
        }
        self.waiting.push_back(Waiter::Transaction(visit));
        self.stirred = true;
    }

    /// A transaction has waited long enough.
    fn leave(&mut self, visit: &Visit) {
        self.ids.remove(&visit.plan.id);
        for head in &visit.plan.heads[visit.own.heads.clone()] {
            let Some(count) = self.waiting_at.get_mut(&head.blob) else { continue };
            *count -= 1;
            if *count == 0 {
                self.waiting_at.remove(&head.blob);
            }
        }
    }

    /// The outcome of a transaction is known: it is not passed on again.
    pub fn end_passing_on(&mut self, id: TransactionId) {
        self.passed_on.remove(&id);
    }

    /// Notes that something was decided or freed.
    pub fn stir(&mut self) {
        self.stirred = true;
    }
}

impl Partition {
    /// Who waits here for whom: transactions in the queue, each for the holders of the slots that it needs.
    pub fn waits(&self) -> impl Iterator<Item = (TransactionId, TransactionId)> {
        let visits = self.chain.waiting.iter().filter_map(|waiter| match waiter {
            Waiter::Transaction(visit) => Some(visit),
            Waiter::Freeze(_) => None,
        });
        visits.flat_map(|visit| {
            let heads = visit.plan.heads[visit.own.heads.clone()].iter();
            let held = heads.filter_map(|plan| {
                let head = self.state.head(&plan.blob)?;
                (!head.slot_is_free_for(access(plan.only_reads()))).then_some(head)
            });
            held.flat_map(|head| head.slot()).map(|holder| (visit.plan.id, holder))
        })
    }

    /// A transaction arrives, from its client or from the stop before.
    pub fn handle_pass(&mut self, cx: &mut Context<'_>, plan: Arc<Plan>, stops: Vec<Stop>) {
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
        let is_over = is_fenced || self.state.is_over(id);
        // As long as it waits here it is not over: a client that hears that nobody knows how it ended lets its payload go.
        if self.state.is_over(id) && stops.is_empty() && !self.chain.contains(id) {
            cx.answer(id.session, Answer::Outcome { id, outcome: None });
            return;
        }
        if !cx.has_lease && !planted(Canary::PreparedWithoutLease) {
            // A later primary may be at work already: what this one prepared now would be a second promise.
            cx.answer(id.session, self.elsewhere());
            return;
        }
        let own = plan.stops().nth(stops.len());
        let Some(own) = own.filter(|own| own.partition == self.id && plan.is_ordered()) else { return };
        // Nobody would ever answer for a head at a later stop that is not there, and what is held here would be held for ever.
        let is_first = stops.is_empty();
        if self.chain.contains(id) || is_first && !are_placed(cx.keyspaces, &plan.heads[own.heads.end..]) {
            return;
        }
        if is_over {
            self.refuse(cx, &plan, stops, Refusal::Fenced);
        } else if self.is_busy(cx, &plan, &own, is_first) {
            self.refuse(cx, &plan, stops, Refusal::Busy);
        } else {
            self.chain.push(Visit { plan, stops, own });
        }
        self.settle(cx);
    }

    /// Whether too many wait at a head that is visited. At the first stop nothing has been promised; at a later one there is room for
    /// those who hold slots elsewhere.
    fn is_busy(&self, cx: &Context<'_>, plan: &Plan, own: &StopPlan, is_first: bool) -> bool {
        let most = if is_first { cx.limits.waiting_max } else { cx.limits.waiting_max.saturating_mul(2) };
        let heads = plan.heads[own.heads.clone()].iter();
        heads
            .into_iter()
            .any(|head| self.chain.waiting_at.get(&head.blob).is_some_and(|count| *count >= most))
    }

    fn is_known(&self, id: TransactionId) -> bool {
        let record = self.state.record(id);
        record.is_some_and(|record| record.prepare.is_some() || record.outcome.is_some())
    }

    /// A transaction arrives again: whoever did not hear what became of it is told.
    fn handle_known(&mut self, cx: &mut Context<'_>, plan: Arc<Plan>, stops: Vec<Stop>) {
        let id = plan.id;
        let Some(record) = self.state.record(id) else { return };
        if record.prepare.is_some() && record.outcome.is_none() {
            // It is passed on, or driven, and said again from here, as often as need be. If every stop passed on at once what
            // came to it again, the last would get it as often as all before it say it.
            return;
        }
        let refusal = match (&record.refused, record.outcome) {
            (Some((index, refused)), _) => Some(refused.refusal).filter(|_| *index <= self.durable),
            // Whoever refused may have forgotten whom else that concerns.
            (None, Some(Outcome::Refused(refusal))) => Some(refusal),
            (None, _) => None,
        };
        if let Some(refusal) = refusal.filter(|_| !stops.is_empty()) {
            self.drive_refusal(cx, plan, stops, refusal);
        }
        self.answer_again(cx, id);
    }

    /// Gives everybody in the queue a turn whose heads nobody before holds back.
    pub(super) fn run_waiting(&mut self, cx: &mut Context<'_>) {
        while core::mem::take(&mut self.chain.stirred) {
            self.give_turns(cx);
        }
    }

    fn give_turns(&mut self, cx: &mut Context<'_>) {
        let mut held_back = HeldBack { at: self.id, blobs: BTreeSet::new(), freezes: Vec::new() };
        for waiter in core::mem::take(&mut self.chain.waiting) {
            match waiter {
                Waiter::Transaction(visit) => self.run_transaction(cx, visit, &mut held_back),
                Waiter::Freeze(visit) => {
                    if held_back.holds_freeze(&visit.freeze) || !self.can_freeze(cx, &visit) {
                        held_back.freezes.push(visit.freeze.clone());
                        self.chain.waiting.push_back(Waiter::Freeze(visit));
                    } else {
                        self.freeze(cx, visit);
                    }
                }
            }
        }
    }

    fn run_transaction(&mut self, cx: &mut Context<'_>, visit: Visit, held_back: &mut HeldBack) {
        let heads = || visit.plan.heads[visit.own.heads.clone()].iter();
        // Who waits for a reserve must not be waited for by its transaction.
        let is_held_back = |head: &HeadPlan| {
            held_back.holds(head) && !self.freezes.is_reserved(cx.now, &head.blob, visit.plan.reserve)
        };
        let attempt = match heads().any(is_held_back) {
            true => Attempt::Waits,
            false => self.attempt(cx, &visit),
        };
        let (id, reserve) = (visit.plan.id, visit.plan.reserve);
        match attempt {
            Attempt::Waits | Attempt::WaitsFor(_) => {
                if let Attempt::WaitsFor(wanted) = attempt {
                    self.fetch(cx, id, wanted);
                }
                held_back.blobs.extend(heads().map(|head| head.blob.clone()));
                self.chain.waiting.push_back(Waiter::Transaction(visit));
                return;
            }
            Attempt::Prepared(effects) => {
                self.chain.leave(&visit);
                self.prepare(cx, visit, effects);
            }
            Attempt::Refused(refusal) => {
                if refusal == Refusal::Full {
                    self.ask_for_room(cx);
                }
                self.chain.leave(&visit);
                self.refuse(cx, &visit.plan, visit.stops, refusal);
            }
        }
        self.fetches.end(id);
        if let Some(reserve) = reserve {
            self.end_freeze(reserve);
        }
    }

    fn attempt(&self, cx: &Context<'_>, visit: &Visit) -> Attempt {
        let (mut effects, mut wanted, mut growth) = (Vec::new(), Vec::new(), Growth::default());
        let found = |one: &Wanted| self.fetches.found(visit.plan.id, one);
        let beside = if visit.plan.makes_room() { BESIDE_MAX } else { 0 };
        let only_notes = visit.plan.only_notes(visit.own.heads.clone());
        for position in visit.own.heads.clone() {
            let plan = &visit.plan.heads[position];
            if let Some(refusal) = self.lacks_means(cx, plan, only_notes) {
                return Attempt::Refused(refusal);
            }
            let known = cx.keyspaces.get(&plan.blob.keyspace);
            let Some(keyspace) = known.filter(|known| !known.is_dropped || self.sweeps(visit.plan.id)) else {
                return Attempt::Refused(Refusal::NotFound);
            };
            if keyspace.partition_of(&plan.blob, 0) != self.id {
                return Attempt::Refused(Refusal::Invalid);
            }
            let known = self.state.head(&plan.blob).map(Cow::Borrowed);
            let head = &*known.unwrap_or_else(|| Cow::Owned(self.state.beginning_of(&plan.blob)));
            let access = access(plan.only_reads());
            let is_kept_out = self.freezes.keep_out(cx.now, &plan.blob, access, visit.plan.reserve);
            let is_full = head.places().len() >= cx.limits.places_max;
            if is_full || is_kept_out || !head.slot_is_free_for(access) {
                return Attempt::Waits;
            }
            match evaluate(head, position, plan, keyspace, &found) {
                Evaluation::Waits => return Attempt::Waits,
                Evaluation::WaitsFor(mut more) => wanted.append(&mut more),
                Evaluation::Refused(refusal) => return Attempt::Refused(refusal),
                Evaluation::Ready(effect) if has_too_many_chunks(cx, &plan.blob, head, &effect, keyspace) => {
                    return Attempt::Refused(Refusal::TooLarge);
                }
                Evaluation::Ready(effect) if !only_notes && self.lacks_room_elsewhere(&effect) => {
                    return Attempt::Refused(Refusal::Full);
                }
                Evaluation::Ready(effect)
                    if self.has_staged(visit.plan.id, &effect, &appends(position, plan)) =>
                {
                    cx.rooms.note(&mut growth, plan.blob.keyspace, head, &effect);
                    effects.push(Arc::new(effect));
                }
                Evaluation::Ready(_) => return Attempt::Refused(Refusal::Unstaged),
            }
        }
        if !wanted.is_empty() {
            Attempt::WaitsFor(wanted)
        } else if size::logged(&visit.plan, &visit.stops, &effects) > cx.limits.entry_max {
            Attempt::Refused(Refusal::TooLarge)
        } else if !cx.rooms.admit(&growth, beside) {
            Attempt::Refused(Refusal::Quota)
        } else {
            Attempt::Prepared(effects)
        }
    }

    /// Whether a write of a head cannot be taken for want of room or of replicas. Nothing is promised here yet; what is past its lock point
    /// is never asked this. What frees room needs none, nor does what puts a value in the place of another one that is as long, in an attribute: whoever says in one
    /// that he is still there would be taken for dead else. What notes somewhere that it frees room has some to spare.
    fn lacks_means(&self, cx: &Context<'_>, plan: &HeadPlan, only_notes: bool) -> Option<Refusal> {
        if plan.only_reads() {
            None
        } else if self.is_below_minimum(cx) {
            Some(Refusal::TooFewReplicas)
        } else {
            let head = self.state.head(&plan.blob);
            let takes_none = |operation: &Operation| {
                operation.frees_room() || head.is_some_and(|head| replaces(head, operation))
            };
            let is_taken = || only_notes || plan.operations.iter().all(takes_none);
            (self.is_short(cx) && !is_taken()).then_some(Refusal::Full)
        }
    }

    /// Takes the next number at every head of the stop, logs the promise, and passes on without waiting for it.
    fn prepare(&mut self, cx: &mut Context<'_>, visit: Visit, effects: Vec<Arc<HeadEffect>>) {
        let Visit { plan, mut stops, own } = visit;
        self.log_deferred(cx);
        let epoch = if planted(Canary::NumbersReused) { 1 } else { self.configuration.epoch.0 };
        let number = Number::new(epoch, self.log.last() + 1);
        let next = own.heads.end;
        stops.push(Stop { partition: self.id, heads: own.heads, number, effects });
        let whole = Prepare { plan, stops };
        let most = cx.limits.passed_on_max;
        let passed_on = (!whole.is_last()).then(|| whole.passed_on(most));
        let prepare =
            Arc::new(Prepare { plan: whole.plan.without_payload_from(next, most), stops: whole.stops });
        self.append(cx, Entry::Prepare(prepare.clone()));
        let written = own_heads(&prepare).filter(|(_, only_reads)| !only_reads);
        self.uncache(cx, written.map(|(blob, _)| blob.clone()), Some(prepare.id().session));
        if planted(Canary::VotedBeforeDurable) {
            self.ready.push_back(prepare.id());
        }
        if let Some(passed_on) = passed_on {
            if !planted(Canary::SlotNotHeld) {
                self.take_slots(&prepare);
            }
            self.chain.unreleased.add(cx.now, prepare.id(), patience(&prepare.plan));
            self.chain.passed_on.insert(prepare.id(), passed_on);
            self.pass_on(cx, &prepare);
        } else {
            self.drive(cx, &prepare);
        }
    }

    /// Holds the slots of this stop's heads until the lock point.
    pub(super) fn take_slots(&mut self, prepare: &Prepare) {
        for position in prepare.stop().heads.clone() {
            let plan = &prepare.plan.heads[position];
            self.state.take_slot(&plan.blob, prepare.id(), access(plan.only_reads()));
        }
    }

    fn pass_on(&self, cx: &mut Context<'_>, prepare: &Prepare) {
        let next = prepare.plan.heads[prepare.stop().heads.end].partition;
        let kept = self.chain.passed_on.get(&prepare.id()).cloned();
        let (plan, stops) = kept.unwrap_or_else(|| prepare.passed_on(cx.limits.passed_on_max));
        cx.to_primary(next, Message::Pass { plan, stops });
    }

    /// Promises never to prepare a transaction. Nobody is told before that is durable, except of what a failure may have lost: that
    /// every later primary refuses, too.
    pub(super) fn refuse(
        &mut self,
        cx: &mut Context<'_>,
        plan: &Arc<Plan>,
        stops: Vec<Stop>,
        refusal: Refusal,
    ) {
        let id = plan.id;
        if refusal == Refusal::Fenced && stops.is_empty() {
            let outcome = Some((Outcome::Refused(refusal), Vec::new()));
            cx.answer(id.session, Answer::Outcome { id, outcome });
            return;
        }
        // Whoever refuses first has nobody to tell, and nobody needs the payload any more: it would be logged though there is no room for it.
        let told = (!stops.is_empty()).then(|| plan.without_payload_from(0, 0));
        let refused =
            Refused { id, refusal, plan: told, stops: stops.into_iter().map(Stop::refused).collect() };
        self.append(cx, Entry::Refuse(Arc::new(refused)));
    }

    /// The lock point is passed.
    pub fn handle_release(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        let Some(prepare) = self.state.record(id).and_then(|record| record.prepare.clone()) else { return };
        for position in prepare.1.stop().heads.clone() {
            self.state.release_slot(&prepare.1.plan.heads[position].blob, id);
        }
        self.chain.stirred = true;
        self.settle(cx);
    }

    /// Passes transactions on again whose outcome has not been heard of for a while. One that is refused and not forgotten
    /// for long is driven from here: whoever drove the refusal may have failed, and no log there says whom it concerns.
    pub(super) fn tick_chain(&mut self, cx: &mut Context<'_>) {
        for reminder in self.chain.unreleased.take_due(cx.now) {
            let id = reminder.id;
            let record = self.state.record(id);
            if record.is_none_or(|record| record.outcome.is_some()) {
                self.chain.end_passing_on(id);
            }
            let Some(record) = record else { continue };
            let Some((_, prepare)) = record.prepare.clone() else { continue };
            match record.outcome {
                None => self.pass_on(cx, &prepare),
                Some(Outcome::Refused(_)) if reminder.tries.count() >= FORGOTTEN_AFTER => {
                    self.drive_if_refused(cx, id);
                    continue;
                }
                Some(Outcome::Refused(_)) => {}
                Some(Outcome::Committed) => continue,
            }
            self.chain.unreleased.add_again(cx.now, reminder);
        }
    }
}

impl HeldBack {
    fn holds(&self, head: &HeadPlan) -> bool {
        let is_frozen =
            |freeze: &Arc<Freeze>| (freeze.stays || !head.only_reads()) && freeze.covers(self.at, &head.blob);
        self.blobs.contains(&head.blob) || self.freezes.iter().any(is_frozen)
    }

    fn holds_freeze(&self, freeze: &Freeze) -> bool {
        self.blobs.iter().any(|blob| freeze.covers(self.at, blob))
            || self.freezes.iter().any(|other| (other.stays || freeze.stays) && other.meets(freeze))
    }
}

/// After how many microseconds a transaction is passed on again, if its lock point has not been heard of.
pub fn patience(plan: &Plan) -> u64 {
    RESEND_AFTER.saturating_add(plan.patience())
}

/// The payload of a head's staged appends with their lengths.
fn appends(position: usize, plan: &HeadPlan) -> Vec<((u16, u16), u64)> {
    let name = |operation: usize| Some((u16::try_from(position).ok()?, u16::try_from(operation).ok()?));
    let length = |(place, operation): (usize, &Operation)| match operation {
        Operation::AppendStaged { length } => Some((name(place)?, *length)),
        _ => None,
    };
    plan.operations.iter().enumerate().filter_map(length).collect()
}

/// Whether an operation takes an attribute away, or gives it a value that is no longer than the one that it has.
fn replaces(head: &Head, operation: &Operation) -> bool {
    let Operation::SetAttribute { name, value } = operation else { return false };
    let before = head.attribute_ahead(name);
    let has = if before.is_open { None } else { before.value };
    // What has no such attribute may not exist, and would begin to.
    has.is_some_and(|has| value.as_ref().is_none_or(|value| value.len() <= has.len()))
}

/// Whether a blob would have more chunks than one transaction can cut off, so that nobody could delete it.
fn has_too_many_chunks(
    cx: &Context<'_>,
    blob: &BlobName,
    head: &Head,
    effect: &HeadEffect,
    keyspace: &Keyspace,
) -> bool {
    let new = effect.writes.iter().filter(|write| write.previous.is_none()).count();
    let partitions = keyspace.placement.partitions.get();
    new > 0
        && head.chunk_count() + new > size::chunks_max(cx.limits.entry_max, blob.key.as_bytes(), partitions)
}

fn are_placed(keyspaces: &Keyspaces, heads: &[HeadPlan]) -> bool {
    heads.iter().all(|head| is_placed(keyspaces, &head.blob, head.partition))
}

fn access(only_reads: bool) -> Access {
    if only_reads { Access::Reads } else { Access::Writes }
}
