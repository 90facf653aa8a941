//! Drives transactions to their end: votes, the decision, its announcement, and forgetting (design, section 5).
//!
//! Who drives is the decider, the primary at the lock point, or the partition that refused. Nothing that a driver knows is needed to
//! survive it: a new primary gathers the votes again and decides the same.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use super::{Partition, RESEND_AFTER, chain, deferred::DEFER_MAX};
use crate::{
    Answered, BlobName, NodeId, OperationResult, Outcome, PartitionId, Plan, Refusal, ResultValue,
    RingVersion, SessionId, Time, TransactionId,
    canary::{Canary, planted},
    effects::{Context, Effect},
    entry::{
        ChunkOperation, ChunkWrite, ChunkWrites, Entry, Part, Prepare, Refused, Stop, distant_writes,
        writes_elsewhere,
    },
    message::{Answer, Message},
    state::Record,
    tries::Tries,
};

/// Old values by blob and operation of the plan.
type Olds = BTreeMap<(u16, u16), Arc<[u8]>>;

/// Who told an outcome, and is to hear when it is durable.
#[derive(Debug)]
pub struct Teller {
    driver: PartitionId,
    /// Whether he told it with all writes to chunks here of which he knows, if they are refused: he knows those of the stops before his own
    /// only, and another driver may know of more.
    with_writes: bool,
}

/// A transaction on its way to its end.
#[derive(Debug)]
pub struct Drive {
    plan: Arc<Plan>,
    stops: Vec<Stop>,
    /// Parts that have not voted.
    missing: BTreeSet<Part>,
    outcome: Option<Outcome>,
    /// Other parts that do not have the outcome durably yet.
    untold: BTreeSet<Part>,
    /// Parts whose transforms have not answered yet.
    owing: BTreeSet<Part>,
    olds: Olds,
    /// Other partitions that have not forgotten it yet, once they are asked to.
    remembering: Option<BTreeSet<PartitionId>>,
    askers: BTreeSet<(PartitionId, NodeId)>,
    /// What was said last, and not answered by everybody.
    said: Tries,
}

impl core::fmt::Display for Drive {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Drive { missing, outcome, untold, owing, remembering, .. } = self;
        write!(
            f,
            "{outcome:?} missing {missing:?} untold {untold:?} owing {owing:?} remembering {remembering:?}"
        )
    }
}

/// The blobs whose heads a partition prepared, and whether they are only read.
pub fn own_heads(prepare: &Prepare) -> impl Iterator<Item = (&BlobName, bool)> {
    let plans = &prepare.plan.heads[prepare.stop().heads.clone()];
    plans.iter().map(|plan| (&plan.blob, plan.only_reads()))
}

impl Partition {
    /// The lock point: frees the slots of earlier stops, sends the writes to their chunks, and gathers the votes.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>, prepare: &Arc<Prepare>) {
        let (plan, stops) = (prepare.plan.clone(), prepare.stops.clone());
        let mut missing = other_parts(&stops, self.id);
        missing.insert(Part::Heads(self.id));
        for stop in stops.iter().filter(|stop| stop.partition != self.id) {
            cx.to_primary(stop.partition, Message::Release { id: plan.id });
        }
        for (partition, writes) in distant_writes(&plan, &stops, None) {
            cx.to_primary(partition, self.write_message(writes));
        }
        for voted in self.early_votes.take(plan.id) {
            missing.remove(&voted);
        }
        self.drives.insert(plan.id, Drive::new(plan, stops, missing, cx.now));
    }

    fn write_message(&self, writes: ChunkWrites) -> Message {
        Message::Write { writes: Arc::new(writes), driver: self.id }
    }

    /// Takes up again what a former primary was about, from the log.
    pub(super) fn resume(&mut self, cx: &mut Context<'_>) {
        let records: Vec<(TransactionId, Record)> =
            self.state.records().map(|(id, record)| (id, record.clone())).collect();
        self.note_superseded(self.state.heads().map(|(blob, _)| blob.clone()).collect());
        self.note_tombstones();
        for (id, record) in records {
            if record.write.is_some() && record.outcome.is_none() {
                self.unsure.add(cx.now, id, RESEND_AFTER);
            }
            if let Some(outcome) = record.outcome.filter(|_| record.outcome_index.is_none()) {
                self.note_outcome(cx.now, id, outcome);
            }
            match (&record.prepare, &record.refused) {
                (Some((_, prepare)), _) if prepare.is_last() => {
                    self.drive(cx, prepare);
                    // Entries that the log no longer holds do not become durable once more.
                    self.ready.push_back(id);
                    if let Some(outcome) = record.outcome {
                        self.decide(cx, id, outcome);
                    }
                }
                (Some((_, prepare)), _) if record.outcome.is_none() => {
                    self.take_slots(prepare);
                    self.chain.unreleased.add(cx.now, id, chain::patience(&prepare.plan));
                }
                (Some(_), _) => self.drive_if_refused(cx, id),
                (_, Some((_, refused))) => self.handle_refusal_durable(cx, refused),
                _ => {}
            }
        }
        self.resume_staging(cx.now);
        self.chain.stir();
    }

    /// Votes for everything that is durable here and has nothing undecided before it.
    pub(super) fn vote_for_ready(&mut self, cx: &mut Context<'_>) {
        while let Some(id) = self.ready.pop_front() {
            if self.can_vote(id) {
                self.vote(cx, id);
            }
        }
    }

    pub(super) fn can_vote(&self, id: TransactionId) -> bool {
        let Some(record) = self.state.record(id).filter(|record| record.outcome.is_none()) else {
            return false;
        };
        let Some((index, prepare)) = &record.prepare else { return false };
        let has_copies = |(blob, only_reads): (&BlobName, bool)| self.has_copies(blob, only_reads);
        (*index <= self.durable || planted(Canary::VotedBeforeDurable))
            && (self.are_settled(prepare) || planted(Canary::DecidedUnsettled))
            && !own_heads(prepare).any(has_copies)
    }

    /// Whether everything before a transaction at its heads here is decided, which is when it is voted for.
    pub fn is_settled(&self, id: TransactionId) -> bool {
        let prepare = self.state.record(id).and_then(|record| record.prepare.as_ref());
        prepare.is_none_or(|(_, prepare)| self.are_settled(prepare))
    }

    fn are_settled(&self, prepare: &Prepare) -> bool {
        let number = prepare.stop().number;
        let settled = |blob: &BlobName| self.state.head(blob).is_none_or(|head| head.is_settled(number));
        own_heads(prepare).all(|(blob, _)| settled(blob))
    }

    pub(super) fn vote(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        let part = Part::Heads(self.id);
        if self.drives.contains_key(&id) {
            self.handle_vote(cx, id, part);
        } else if let Some(decider) = self.decider_of(id) {
            cx.to_primary(decider, Message::Vote { id, part });
        }
    }

    fn decider_of(&self, id: TransactionId) -> Option<PartitionId> {
        let record = self.state.record(id)?;
        let of_prepare = record.prepare.as_ref().and_then(|(_, prepare)| prepare.plan.decider());
        of_prepare.or(record.write.as_ref().map(|(_, writes)| writes.decider))
    }

    /// Another part of a transaction votes, perhaps before the transaction is here.
    pub fn handle_part_voted(&mut self, cx: &mut Context<'_>, id: TransactionId, part: Part) {
        let is_early = self.is_established() && self.state.record(id).is_none() && !self.state.is_over(id);
        if is_early && matches!(part, Part::Heads(_)) {
            self.early_votes.note(cx.now, id, part);
        }
        self.handle_vote(cx, id, part);
        self.settle(cx);
    }

    /// A part of a transaction is durable and settled.
    fn handle_vote(&mut self, cx: &mut Context<'_>, id: TransactionId, part: Part) {
        let Some(drive) = self.drives.get_mut(&id) else { return };
        drive.missing.remove(&part);
        if drive.missing.is_empty() && drive.outcome.is_none() {
            self.decide(cx, id, Outcome::Committed);
        }
    }

    /// The outcome is known: from here on it is visible, and everybody is told.
    fn decide(&mut self, cx: &mut Context<'_>, id: TransactionId, outcome: Outcome) {
        let Some(drive) = self.drives.get_mut(&id) else { return };
        if drive.outcome.is_some() {
            return;
        }
        drive.outcome = Some(outcome);
        drive.said = Tries::first(cx.now);
        drive.untold = other_parts(&drive.stops, self.id);
        if outcome == Outcome::Committed {
            drive.owing = owing_parts(&drive.stops, self.id);
        }
        let askers = core::mem::take(&mut drive.askers);
        self.learn(id, outcome);
        self.note_outcome(cx.now, id, outcome);
        for (partition, node) in askers {
            cx.push(Effect::ToNode(node, partition, Message::Outcome { id, outcome, driver: None }));
        }
        self.tell(cx, id);
        self.answer_again(cx, id);
        self.end_drive_if_done(cx, id);
        self.chain.stir();
    }

    fn tell(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        let Some(drive) = self.drives.get_mut(&id) else { return };
        let Some(outcome) = drive.outcome else { return };
        let own = self.id;
        let mut refused_writes = match outcome {
            Outcome::Refused(refusal) => distant_writes(&drive.plan, &drive.stops, Some(refusal)),
            Outcome::Committed => BTreeMap::new(),
        };
        for part in drive.untold.union(&drive.owing) {
            let message = match part {
                Part::Chunks(partition) if outcome != Outcome::Committed => {
                    let Some(writes) = refused_writes.remove(partition) else { continue };
                    Message::Write { writes: Arc::new(writes), driver: own }
                }
                _ => Message::Outcome { id, outcome, driver: Some(own) },
            };
            cx.to_primary(part.partition(), message);
        }
    }

    /// Answers the client, if everything that it is to be answered is known.
    pub(super) fn answer_again(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        if self.drives.get(&id).is_some_and(|drive| drive.outcome.is_none() || !drive.owing.is_empty()) {
            return;
        }
        let drive = self.drives.get(&id);
        let Some(record) = self.state.record(id) else { return };
        let Some(outcome) = record.outcome else { return };
        if record.refused.as_ref().is_some_and(|(index, _)| *index > self.durable) {
            return;
        }
        let decides = record.prepare.as_ref().is_some_and(|(_, prepare)| prepare.is_last());
        if outcome == Outcome::Committed && !decides {
            return;
        }
        let stops = record.prepare.as_ref().map(|(_, prepare)| &prepare.stops[..]).unwrap_or_default();
        let distant = drive.map(|drive| &drive.olds);
        let is_known = |answer| {
            record.olds.contains_key(&answer) || distant.is_some_and(|olds| olds.contains_key(&answer))
        };
        if outcome == Outcome::Committed && !answers_of(stops).all(is_known) {
            // What others computed is not waited for when a session has been forgotten. Its client may have been silent for too long only.
            if self.state.is_over(id) {
                cx.answer(id.session, Answer::Outcome { id, outcome: None });
            }
            return;
        }
        let results = match outcome {
            Outcome::Committed => results(stops, &record.olds, distant),
            Outcome::Refused(_) => Vec::new(),
        };
        cx.answer(id.session, Answer::Outcome { id, outcome: Some((outcome, results)) });
    }

    /// Whether what is heard of an outcome is true for this replica. A partition that has forgotten a transaction refuses it when it comes
    /// late, and it comes late from who does not know the outcome though his partition does: a replica that is left behind. So only one
    /// that is complete, and sure of it, listens to a refusal: if the outcome had been durable in its partition, it would know it.
    pub(super) fn believes(&self, cx: &Context<'_>, outcome: Outcome) -> bool {
        outcome == Outcome::Committed || self.may_serve(cx)
    }

    /// Somebody knows how a transaction ended.
    pub fn handle_outcome(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        outcome: Outcome,
        driver: Option<PartitionId>,
    ) {
        if !self.believes(cx, outcome) {
            return;
        }
        self.chain.end_passing_on(id);
        if self.drives.contains_key(&id) {
            self.decide(cx, id, outcome);
        }
        self.unstage(cx, id);
        if self.state.record(id).is_some() {
            self.learn(id, outcome);
            if self.is_established() {
                self.note_outcome(cx.now, id, outcome);
                self.chain.stir();
                if let Some(driver) = driver {
                    self.hear_from(id, driver, outcome == Outcome::Committed);
                    self.say_stored(cx, id);
                    self.say_olds(cx, id);
                } else {
                    self.drive_if_refused(cx, id);
                }
            }
        } else if let Some(driver) = driver.filter(|_| self.knows_what_is_not_there(cx)) {
            // Nothing was promised here, or it is forgotten: there is nothing to keep. Places that refused writes have yet to take are told
            // with those.
            let chunks = (outcome == Outcome::Committed).then_some(Part::Chunks(self.id));
            for part in core::iter::once(Part::Heads(self.id)).chain(chunks) {
                cx.to_primary(driver, Message::OutcomeStored { id, part });
            }
        }
        self.settle(cx);
    }

    /// Notes who told an outcome, and whether that was with all writes for chunks here of which he knows.
    pub(super) fn hear_from(&mut self, id: TransactionId, driver: PartitionId, with_writes: bool) {
        let had_told = self.tellers.get(&id).is_some_and(|known| known.driver == driver && known.with_writes);
        self.tellers.insert(id, Teller { driver, with_writes: with_writes || had_told });
    }

    /// Tells the driver that the outcome is durable here, if it is.
    pub(super) fn say_stored(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        let Some(record) = self.state.record(id) else { return };
        let Some(teller) = self.tellers.get(&id) else { return };
        if record.outcome_index.is_some_and(|index| index <= self.durable) {
            // If its heads promised nothing, or a failure took that, there is nothing more to keep.
            let heads = Some(Part::Heads(self.id));
            let has_places = |(_, writes): &(u64, Arc<ChunkWrites>)| self.has_passed_durably(writes);
            let is_stored = teller.with_writes && record.write.as_ref().is_some_and(has_places);
            for part in heads.into_iter().chain(is_stored.then_some(Part::Chunks(self.id))) {
                cx.to_primary(teller.driver, Message::OutcomeStored { id, part });
            }
        }
    }

    fn say_olds(&self, cx: &mut Context<'_>, id: TransactionId) {
        let Some(record) = self.state.record(id) else { return };
        let Some(driver) = self.tellers.get(&id).map(|teller| teller.driver) else { return };
        let heads = record
            .prepare
            .as_ref()
            .map(|(_, prepare)| (Part::Heads(self.id), answers_of_stop(prepare.stop())));
        let chunks =
            record.write.as_ref().map(|(_, writes)| (Part::Chunks(self.id), answers_of_writes(writes)));
        for (part, answers) in heads.into_iter().chain(chunks) {
            if !answers.is_empty() && answers.iter().all(|answer| record.olds.contains_key(answer)) {
                cx.to_primary(driver, Message::Olds { id, part, olds: record.olds.clone() });
            }
        }
    }

    pub(super) fn handle_outcome_durable(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        self.say_stored(cx, id);
        self.end_drive_if_done(cx, id);
    }

    /// The promise not to prepare is durable: the client and the earlier stops are told.
    pub(super) fn handle_refusal_durable(&mut self, cx: &mut Context<'_>, refused: &Arc<Refused>) {
        let id = refused.id;
        self.answer_again(cx, id);
        if let Some(plan) = refused.plan.clone().filter(|_| !refused.stops.is_empty()) {
            self.drive_refusal(cx, plan, refused.stops.clone(), refused.refusal);
        }
    }

    /// Tells the stops before this one, and the chunks that wait for what they numbered, that a transaction is refused.
    pub(super) fn drive_refusal(
        &mut self,
        cx: &mut Context<'_>,
        plan: Arc<Plan>,
        stops: Vec<Stop>,
        refusal: Refusal,
    ) {
        let id = plan.id;
        if self.state.record(id).is_none() || self.drives.contains_key(&id) {
            return;
        }
        let mut drive = Drive::new(plan, stops, BTreeSet::new(), cx.now);
        drive.outcome = Some(Outcome::Refused(refusal));
        drive.untold = other_parts(&drive.stops, self.id);
        self.drives.insert(id, drive);
        self.tell(cx, id);
    }

    /// Tells of a refusal that nobody may be driving: who said so may have refused by its floor alone, and forgotten it.
    pub(super) fn drive_if_refused(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        let Some(record) = self.state.record(id) else { return };
        if let (Some((_, prepare)), Some(Outcome::Refused(refusal))) =
            (record.prepare.clone(), record.outcome)
        {
            self.drive_refusal(cx, prepare.plan.clone(), prepare.stops.clone(), refusal);
        }
    }

    /// A part has the outcome durably.
    pub fn handle_outcome_stored(&mut self, cx: &mut Context<'_>, id: TransactionId, part: Part) {
        if let Some(drive) = self.drives.get_mut(&id).filter(|drive| drive.outcome.is_some()) {
            drive.untold.remove(&part);
            self.end_drive_if_done(cx, id);
        } else if let Part::Chunks(chunks) = part
            && !self.drives.contains_key(&id)
            && self.state.record(id).is_none()
            && self.state.is_answered(id)
            && self.knows_what_is_not_there(cx)
        {
            // Who drives it forgets it last; a place that came late had been forgotten there.
            let answered = self.answered_up_to(id);
            cx.to_primary(chunks, Message::Forget { id, answered, driver: self.id });
        }
    }

    /// What transforms in another partition answer.
    pub fn handle_olds(&mut self, cx: &mut Context<'_>, id: TransactionId, part: Part, olds: Olds) {
        let Some(drive) = self.drives.get_mut(&id) else { return };
        if drive.owing.remove(&part) {
            drive.olds.extend(olds);
            if drive.owing.is_empty() {
                self.answer_again(cx, id);
                self.end_drive_if_done(cx, id);
            }
        }
    }

    /// Ends what needs no more driving; asks the other partitions to forget what nobody needs.
    fn end_drive_if_done(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        let outcome_index = self.state.record(id).map(|record| record.outcome_index);
        let is_answered = self.state.is_answered(id);
        let Some(drive) = self.drives.get_mut(&id) else { return };
        if is_answered {
            // The client has what the transforms answered; who computed it may have forgotten it.
            drive.owing.clear();
        }
        if drive.outcome.is_none() || !drive.untold.is_empty() || !drive.owing.is_empty() {
            return;
        }
        let others = other_partitions(&drive.stops, self.id);
        if others.is_empty() && self.state.record(id).is_none_or(|record| record.write.is_none()) {
            self.drives.remove(&id);
            return;
        }
        let stored = outcome_index.is_none_or(|index| index.is_some_and(|index| index <= self.durable));
        if stored && is_answered && drive.remembering.is_none() {
            drive.remembering = Some(others);
            drive.said = Tries::first(cx.now);
            self.ask_to_forget(cx, id);
        }
    }

    fn ask_to_forget(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        let answered = self.answered_up_to(id);
        let Some(remembering) = self.drives.get(&id).and_then(|drive| drive.remembering.as_ref()) else {
            return;
        };
        for partition in remembering {
            let message = Message::Forget { id, answered: answered.clone(), driver: self.id };
            cx.to_primary(*partition, message);
        }
        if remembering.is_empty() {
            self.note_forgotten(cx.now, id, answered, None);
        }
    }

    /// Which answers the client of a transaction that is answered has up to it. None if its session was forgotten here: it may live elsewhere, with earlier
    /// transactions that have not ended.
    fn answered_up_to(&self, id: TransactionId) -> Option<Answered> {
        let mark = self.state.mark(id.session).filter(|mark| mark.answered.has(id.sequence));
        mark.map(|mark| mark.answered.up_to(id.sequence.saturating_add(1)))
    }

    /// The driver says that nobody needs an outcome.
    pub fn handle_forget(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        answered: Option<Answered>,
        driver: PartitionId,
    ) {
        // Two that refused may drive the same transaction; either may forget it once all have its outcome.
        let is_done = self.drives.get(&id).is_none_or(|drive| drive.remembering.is_some());
        if !self.is_established() || !is_done {
            return;
        }
        if self.state.record(id).is_some() {
            self.note_forgotten(cx.now, id, answered, Some(driver));
            return;
        }
        self.drives.remove(&id);
        if self.knows_what_is_not_there(cx)
            && self.forgetting.get(&id).is_none_or(|(index, _)| *index <= self.durable)
        {
            self.forgetting.remove(&id);
            cx.to_primary(driver, Message::Forgotten { id, part: self.id });
        }
    }

    pub(super) fn handle_forget_durable(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        if let Some((_, driver)) = self.forgetting.remove(&id) {
            cx.to_primary(driver, Message::Forgotten { id, part: self.id });
        }
    }

    /// Another partition has forgotten a transaction.
    pub fn handle_forgotten(&mut self, cx: &mut Context<'_>, id: TransactionId, part: PartitionId) {
        let Some(drive) = self.drives.get_mut(&id) else { return };
        let Some(remembering) = &mut drive.remembering else { return };
        if remembering.remove(&part) && remembering.is_empty() {
            self.ask_to_forget(cx, id);
        }
    }

    /// A client says which answers it has. It hears that this is noted once a new primary would know it, too.
    pub fn handle_answered(
        &mut self,
        cx: &mut Context<'_>,
        session: SessionId,
        answered: Answered,
        born: RingVersion,
    ) {
        // A client that has heard of a newer ring says it again until this node knows that, too. So nothing is kept under a version that there
        // never will be.
        if !self.is_established() || born > cx.version {
            return;
        }
        match self.state.mark(session) {
            Some(mark) if mark.answered.covers(&answered) && mark.log_index <= self.durable => {
                cx.answer(session, Answer::MarkNoted { partition: self.id, answered });
            }
            Some(mark) if mark.answered.covers(&answered) && mark.log_index <= self.log.last() => {}
            _ => {
                self.note_mark(cx.now, session, &answered, born);
            }
        }
        self.settle(cx);
    }

    pub(super) fn handle_mark_durable(
        &mut self,
        cx: &mut Context<'_>,
        session: SessionId,
        answered: &Answered,
    ) {
        cx.answer(session, Answer::MarkNoted { partition: self.id, answered: answered.clone() });
        self.end_drives_of(cx, session);
    }

    /// Ends the drives of a session that wait for nothing but its client.
    pub(super) fn end_drives_of(&mut self, cx: &mut Context<'_>, session: SessionId) {
        let first = TransactionId { session, sequence: 0, birth: RingVersion(0) };
        let of_session = self.drives.range(first..).map(|(id, _)| *id).take_while(|id| id.session == session);
        for id in of_session.collect::<Vec<_>>() {
            self.end_drive_if_done(cx, id);
        }
    }

    /// The decider asks how this part of a transaction stands.
    pub fn handle_ask_vote(&mut self, cx: &mut Context<'_>, id: TransactionId, decider: PartitionId) {
        if !self.is_established() {
            return;
        }
        let outcome = self.state.record(id).and_then(|record| record.outcome);
        if let Some(outcome) = outcome {
            let logged = self.state.record(id).and_then(|record| record.outcome_index);
            if logged.is_some_and(|index| index <= self.durable) {
                cx.to_primary(decider, Message::Outcome { id, outcome, driver: None });
            }
        } else if self.can_vote(id) {
            cx.to_primary(decider, Message::Vote { id, part: Part::Heads(self.id) });
        } else if self.lacks_for_good(id) {
            let outcome = Outcome::Refused(Refusal::Fenced);
            cx.to_primary(decider, Message::Outcome { id, outcome, driver: None });
        }
    }

    /// Whether a transaction is not prepared here and never will be, because it was born below the floor.
    fn lacks_for_good(&self, id: TransactionId) -> bool {
        let prepared = self.state.record(id).is_some_and(|record| record.prepare.is_some());
        !prepared && self.configuration.floor > id.birth
    }

    /// A replica needs to know how a transaction ended, for a reader or because it holds its writes.
    pub fn handle_ask(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        partition: PartitionId,
        node: NodeId,
    ) {
        if !self.is_established() {
            return;
        }
        let known = match self.state.record(id).and_then(|record| record.outcome) {
            Some(Outcome::Committed) => Some(Outcome::Committed),
            Some(refused) => self.state.record(id).and_then(|record| {
                record.refused.as_ref().is_none_or(|(index, _)| *index <= self.durable).then_some(refused)
            }),
            // Below the mark it may be forgotten instead; then the asker's partition has the outcome in its log.
            None if self.lacks_for_good(id) && !self.state.is_over(id) => {
                Some(Outcome::Refused(Refusal::Fenced))
            }
            None if planted(Canary::AbsentIsRefused) && self.state.record(id).is_none() => {
                Some(Outcome::Refused(Refusal::Fenced))
            }
            None => None,
        };
        match known {
            Some(outcome) => {
                cx.push(Effect::ToNode(node, partition, Message::Outcome { id, outcome, driver: None }));
            }
            None => {
                if let Some(drive) = self.drives.get_mut(&id) {
                    drive.askers.insert((partition, node));
                }
            }
        }
    }

    /// A client asks how a transaction ended; `settle` has it refused if it is not known here.
    pub fn handle_ask_outcome(&mut self, cx: &mut Context<'_>, id: TransactionId, settle: bool) {
        if !self.is_established() {
            return;
        }
        if self.state.record(id).is_some() {
            let refused = self.state.record(id).and_then(|record| record.refused.as_ref());
            if refused.is_none_or(|(index, _)| *index <= self.durable) {
                self.answer_again(cx, id);
            }
        } else if self.chain.contains(id) {
            // It has its turn yet, though nothing as old as it may begin any more.
        } else if self.state.is_over(id) {
            cx.answer(id.session, Answer::Outcome { id, outcome: None });
        } else if self.configuration.floor > id.birth || (settle && planted(Canary::AbsentIsRefused)) {
            let outcome = Some((Outcome::Refused(Refusal::Fenced), Vec::new()));
            cx.answer(id.session, Answer::Outcome { id, outcome });
        } else if settle {
            let refused = Refused { id, refusal: Refusal::Fenced, plan: None, stops: Vec::new() };
            self.append(cx, Entry::Refuse(Arc::new(refused)));
        }
    }

    pub(super) fn tick_decisions(&mut self, cx: &mut Context<'_>) {
        let late = |drive: &Drive| drive.said.is_due(cx.now, drive.patience());
        let ids: Vec<_> = self.drives.iter().filter(|(_, drive)| late(drive)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(drive) = self.drives.get_mut(&id) else { continue };
            drive.said.again(cx.now);
            if drive.outcome.is_none() {
                let missing = drive.missing.clone();
                let mut writes = distant_writes(&drive.plan, &drive.stops, None);
                for part in missing {
                    let message = match part {
                        Part::Chunks(partition) => {
                            writes.remove(&partition).map(|writes| self.write_message(writes))
                        }
                        Part::Heads(_) => Some(Message::AskVote { id, decider: self.id }),
                    };
                    if let Some(message) = message.filter(|_| part != Part::Heads(self.id)) {
                        cx.to_primary(part.partition(), message);
                    }
                }
            } else if drive.remembering.is_some() {
                self.ask_to_forget(cx, id);
            } else {
                self.tell(cx, id);
                self.end_drive_if_done(cx, id);
            }
        }
    }
}

impl Drive {
    fn new(plan: Arc<Plan>, stops: Vec<Stop>, missing: BTreeSet<Part>, now: Time) -> Self {
        Drive {
            plan,
            stops,
            missing,
            outcome: None,
            untold: BTreeSet::new(),
            owing: BTreeSet::new(),
            olds: BTreeMap::new(),
            remembering: None,
            askers: BTreeSet::new(),
            said: Tries::first(now),
        }
    }

    /// How long an answer is waited for, in microseconds. That an outcome is stored, or forgotten, is heard after it was deferred.
    fn patience(&self) -> u64 {
        RESEND_AFTER + if self.outcome.is_some() { DEFER_MAX } else { 0 }
    }
}

/// Every part but the driver's own heads.
fn other_parts(stops: &[Stop], own: PartitionId) -> BTreeSet<Part> {
    let heads = stops.iter().map(|stop| Part::Heads(stop.partition)).filter(|part| *part != Part::Heads(own));
    heads.chain(writes_elsewhere(stops).map(|write| Part::Chunks(write.partition))).collect()
}

fn other_partitions(stops: &[Stop], own: PartitionId) -> BTreeSet<PartitionId> {
    let partitions = other_parts(stops, own).into_iter().map(Part::partition);
    partitions.filter(|partition| *partition != own).collect()
}

/// Parts that answer old values, other than the driver's own heads.
fn owing_parts(stops: &[Stop], own: PartitionId) -> BTreeSet<Part> {
    let others = stops.iter().filter(|stop| stop.partition != own && !answers_of_stop(stop).is_empty());
    let heads = others.map(|stop| Part::Heads(stop.partition));
    let owes = |write: &&ChunkWrite| write.operations.iter().any(|operation| answer_of(operation).is_some());
    heads.chain(writes_elsewhere(stops).filter(owes).map(|write| Part::Chunks(write.partition))).collect()
}

/// What all chunks answer.
fn answers_of(stops: &[Stop]) -> impl Iterator<Item = (u16, u16)> {
    let writes = stops.iter().flat_map(|stop| &stop.effects).flat_map(|effect| &effect.writes);
    writes.flat_map(|write| &write.operations).filter_map(answer_of)
}

/// What a stop's own chunks answer.
fn answers_of_stop(stop: &Stop) -> Vec<(u16, u16)> {
    let writes = stop.effects.iter().flat_map(|effect| &effect.writes);
    let own = writes.filter(|write| write.partition == stop.partition);
    own.flat_map(|write| &write.operations).filter_map(answer_of).collect()
}

fn answers_of_writes(writes: &ChunkWrites) -> Vec<(u16, u16)> {
    writes.writes.iter().flat_map(|(_, _, write)| &write.operations).filter_map(answer_of).collect()
}

fn answer_of(operation: &ChunkOperation) -> Option<(u16, u16)> {
    match operation {
        ChunkOperation::Transform { answers, .. } => Some(*answers),
        ChunkOperation::Write { .. } | ChunkOperation::Staged { .. } | ChunkOperation::Cut { .. } => None,
    }
}

fn results(stops: &[Stop], own: &Olds, distant: Option<&Olds>) -> Vec<OperationResult> {
    let offsets = stops.iter().flat_map(Stop::effects).flat_map(|(head, effect)| {
        let head = u16::try_from(head).expect("as many heads were evaluated");
        let result = move |(operation, offset): &(u16, u64)| OperationResult {
            head,
            operation: *operation,
            value: ResultValue::Offset(*offset),
        };
        effect.offsets.iter().map(result)
    });
    let old = |((head, operation), old): (&(u16, u16), &Arc<[u8]>)| OperationResult {
        head: *head,
        operation: *operation,
        value: ResultValue::Old(old.clone()),
    };
    let olds = own.iter().chain(distant.into_iter().flatten()).map(old);
    let known = stops.iter().flat_map(Stop::effects).flat_map(|(head, effect)| {
        let head = u16::try_from(head).expect("as many heads were evaluated");
        effect.olds.iter().map(move |(operation, old)| OperationResult {
            head,
            operation: *operation,
            value: ResultValue::Old(old.clone()),
        })
    });
    let mut results: Vec<_> = offsets.chain(olds).chain(known).collect();
    results.sort_by_key(|result| (result.head, result.operation));
    results.dedup_by_key(|result| (result.head, result.operation));
    results
}
