//! Receives payload before its transaction begins, hands it to the chunks that get it, and lets it go (design, section 5).
//!
//! A client is told that a stage is here once every replica has it, and begins the transaction only then. What nobody was heard of for
//! long goes only after the transaction's decider has promised never to prepare it: so a transaction past its lock point finds it.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::ops::Range;

use super::{Partition, RESEND_AFTER};
use crate::{
    BlobName, NodeId, PartitionId, Refusal, Time, TransactionId,
    canary::{Canary, planted},
    chunk::{Chunk, ChunkBytes},
    effects::{Context, Effect},
    entry::{ChunkOperation, ChunkWrites, Entry, HeadEffect, Refused},
    message::{Answer, Message},
    stages::{STAGE_SIZE_MAX, STAGES_MAX, Stage, StageCopy, stage_parts},
};

/// What is noted of each transaction with stages here.
pub type Renewals = BTreeMap<TransactionId, Renewal>;

/// When what happened last that has to do with a transaction's stages.
#[derive(Clone, Copy, Debug)]
pub struct Renewal {
    /// Its client was heard of.
    heard_at: Time,
    /// Its decider was asked.
    asked_at: Time,
    /// A stage came that is not here.
    wanted_at: Option<Time>,
}

impl Renewal {
    fn new(now: Time) -> Self {
        Renewal { heard_at: now, asked_at: now, wanted_at: None }
    }

    fn wanted(now: Time) -> Self {
        Renewal { wanted_at: Some(now), ..Renewal::new(now) }
    }
}

/// Who has asked for room within so many microseconds still wants it. Its client does so every 1.6 s at least.
const WANTED_FOR: u64 = 5_000_000;

impl Partition {
    /// A client, or who has what it wants copied, sends a part of a transaction's payload.
    pub fn handle_stage(&mut self, cx: &mut Context<'_>, stage: Arc<Stage>) {
        let (id, name, length) = (stage.id, (stage.payload, stage.from), stage.part.len() as u64);
        if self.takes_stage(cx, id, stage.decider, name, length) {
            self.append(cx, Entry::Stage(stage));
            self.renewals.insert(id, Renewal::wanted(cx.now));
        }
    }

    /// A client has a part of a transaction's payload taken from where another blob has it. Nothing of that is noted here: the client asks until
    /// it is staged.
    pub fn handle_stage_copy(&mut self, cx: &mut Context<'_>, copy: Arc<StageCopy>) {
        let (id, name, length) = (copy.id, (copy.payload, copy.from), copy.range.end - copy.range.start);
        let Some(keyspace) = cx.keyspaces.get(&copy.chunk.blob.keyspace) else { return };
        let source = keyspace.partition_of(&copy.chunk.blob, copy.chunk.index);
        if self.takes_stage(cx, id, copy.decider, name, length) {
            cx.to_primary(source, Message::SendCopy { copy, partition: self.id });
        }
    }

    /// A partition is to stage what a chunk here has. If not everything up to the number is applied, it is asked again.
    pub fn handle_send_copy(&mut self, cx: &mut Context<'_>, copy: &StageCopy, partition: PartitionId) {
        if !self.is_established() || !cx.has_lease {
            return;
        }
        let nothing = Chunk::default();
        let chunk = self.state.chunk(&copy.chunk).unwrap_or(&nothing);
        if chunk.pending_up_to(copy.at).next().is_some() {
            return;
        }
        let message = match chunk.read_at(copy.at, &copy.range) {
            ChunkBytes::Found(_, bytes, _) => Message::Stage(Arc::new(copy.stage(bytes))),
            ChunkBytes::Expired => Message::CopyLost { id: copy.id },
            ChunkBytes::Lost => return,
        };
        cx.to_primary(partition, message);
    }

    /// What was to be copied is gone, as what a reader holds is if who holds it has failed: the transaction is to be run again.
    pub fn handle_copy_lost(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        cx.answer(id.session, Answer::Unstaged { id, refusal: Refusal::Conflict });
    }

    /// Whether a stage of some bytes is to be taken. If not, because it is here or has no place here, its client is told what is known.
    fn takes_stage(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        decider: PartitionId,
        (payload, from): ((u16, u16), u64),
        length: u64,
    ) -> bool {
        if !self.is_established() {
            return false;
        }
        match self.state.stages().log_index_of(id, payload, from) {
            Some(index) => {
                if index <= self.durable {
                    cx.answer(id.session, Answer::Staged { id, payload, from });
                }
                self.renewals.insert(id, Renewal::new(cx.now));
                false
            }
            None if self.has_ended(id) => {
                if !self.state.has_answer(id) && self.state.record(id).is_none() {
                    // Too old, like its session: it can begin nowhere.
                    cx.answer(id.session, Answer::Unstaged { id, refusal: Refusal::Fenced });
                }
                false
            }
            // What its transaction comes to would never be heard; or the keyspace is not known here yet, and the client asks again.
            None if !cx.keyspaces.values().any(|keyspace| keyspace.has(decider)) => false,
            None => {
                if let Some(renewal) = self.renewals.get_mut(&id) {
                    *renewal = Renewal::wanted(cx.now);
                }
                let refusal = self.refuses_stage(cx, id, length);
                if let Some(refusal) = refusal {
                    cx.answer(id.session, Answer::Unstaged { id, refusal });
                }
                refusal.is_none()
            }
        }
    }

    fn has_ended(&self, id: TransactionId) -> bool {
        self.state.is_over(id) || self.state.record(id).is_some_and(|record| record.outcome.is_some())
    }

    /// Whether there is no room: nothing has been promised yet. Sessions that have little of it have a quarter more, so that one that has much
    /// keeps no others from staging. Of those who want more the one who has waited for longest has room for all of it, whatever the others have: so one after the
    /// other ends.
    fn refuses_stage(&self, cx: &Context<'_>, id: TransactionId, length: u64) -> Option<Refusal> {
        if length == 0 || length > STAGE_SIZE_MAX {
            return Some(Refusal::Invalid);
        }
        if self.is_short(cx) {
            return Some(Refusal::Full);
        }
        let (stages, most) = (self.state.stages(), cx.limits.staged_max);
        let [all, of_session, own] = stages.sizes(id).map(|size| size.saturating_add(length));
        if own > most {
            return Some(Refusal::TooLarge);
        }
        let more = if of_session <= most / 16 { most / 4 } else { 0 };
        let limit = most.saturating_add(more);
        if all > limit || stages.count() >= STAGES_MAX {
            let is_next = stages.oldest(|other| self.wants_room(cx.now, other)) == Some(id);
            let is_much = all > limit.saturating_add(most) || stages.count() >= 2 * STAGES_MAX;
            if !is_next || is_much {
                return Some(Refusal::Busy);
            }
        }
        self.is_below_minimum(cx).then_some(Refusal::TooFewReplicas)
    }

    /// Whether a transaction with stages here still waits for room: one whose client is gone does not, nor one that has all that it needs.
    fn wants_room(&self, now: Time, id: TransactionId) -> bool {
        let wanted_at = self.renewals.get(&id).and_then(|renewal| renewal.wanted_at);
        wanted_at.is_some_and(|at| now.since(at) < WANTED_FOR) && self.state.record(id).is_none()
    }

    /// Every replica has a stage.
    pub(super) fn handle_stage_durable(&mut self, cx: &mut Context<'_>, stage: &Stage) {
        let Stage { id, payload, from, .. } = *stage;
        cx.answer(id.session, Answer::Staged { id, payload, from });
    }

    /// A client still wants what it has staged.
    pub fn handle_keep_stages(&mut self, cx: &Context<'_>, id: TransactionId) {
        if self.state.stages().has(id) {
            let renewal = self.renewals.entry(id).or_insert_with(|| Renewal::new(cx.now));
            (renewal.heard_at, renewal.asked_at) = (cx.now, cx.now);
        }
    }

    /// Whether the payload is here that a head's own chunks get, and that of its appends, which chunks elsewhere get from here.
    pub(super) fn has_staged(
        &self,
        id: TransactionId,
        effect: &HeadEffect,
        appends: &[((u16, u16), u64)],
    ) -> bool {
        let own = effect.writes.iter().filter(|write| write.partition == self.id);
        let parts = own.flat_map(|write| &write.operations).filter_map(staged);
        let wholes = appends
            .iter()
            .flat_map(|&(payload, length)| stage_parts(length).map(move |part| (payload, part)));
        parts.chain(wholes).all(|(payload, part)| self.state.stages().find(id, payload, &part).is_some())
    }

    /// Parts of payload that writes need and that are not here, each with its blob.
    pub(super) fn lacking<'a>(&self, writes: &'a ChunkWrites) -> Vec<(&'a BlobName, (u16, u16), Range<u64>)> {
        if planted(Canary::StageDropped) {
            return Vec::new();
        }
        let mut lacking = Vec::new();
        for (blob, _, write) in &writes.writes {
            let parts = write.operations.iter().filter_map(staged);
            let absent =
                parts.filter(|(payload, part)| self.state.stages().find(writes.id, *payload, part).is_none());
            lacking.extend(absent.map(|(payload, part)| (blob, payload, part)));
        }
        lacking
    }

    /// Asks the heads' partitions for payload of appends that writes here need.
    pub(super) fn pull(&self, cx: &mut Context<'_>, writes: &ChunkWrites) {
        for (blob, payload, part) in self.lacking(writes) {
            // A keyspace that is not known here yet soon will be; until then the write waits.
            let Some(keyspace) = cx.keyspaces.get(&blob.keyspace) else { continue };
            let head = keyspace.partition_of(blob, 0);
            cx.to_primary(head, Message::Pull { id: writes.id, payload, part, partition: self.id });
        }
    }

    /// A chunk gets a part of an append that was staged here.
    pub fn handle_pull(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        payload: (u16, u16),
        part: &Range<u64>,
        partition: PartitionId,
    ) {
        if !self.is_established() {
            return;
        }
        if let Some(stage) = self.state.stages().find(id, payload, part) {
            cx.to_primary(partition, Message::Pulled(Arc::new(stage)));
        }
    }

    /// Payload that a write past its lock point waits for: it is never refused for space.
    pub fn handle_pulled(&mut self, cx: &mut Context<'_>, stage: Arc<Stage>) {
        let waits = self.held.contains_key(&stage.id);
        if self.is_established() && waits && self.state.stages().log_index(&stage).is_none() {
            self.renewals.insert(stage.id, Renewal::new(cx.now));
            self.append(cx, Entry::Stage(stage));
            self.log_held(cx);
            self.settle(cx);
        }
    }

    /// Whoever has staged payload of a transaction asks whether that may still begin. From here on it may not, if nobody here knows it.
    pub fn handle_settle(
        &mut self,
        cx: &mut Context<'_>,
        id: TransactionId,
        partition: PartitionId,
        node: NodeId,
    ) {
        if !self.is_established() {
            return;
        }
        let is_unknown = self.state.record(id).is_none() && !self.chain.contains(id);
        if is_unknown && (self.state.is_over(id) || self.configuration.floor > id.birth) {
            // Not that it was refused: it may have been forgotten, and who asks may not have heard yet how it ended.
            cx.push(Effect::ToNode(node, partition, Message::Settled { id }));
        } else if is_unknown {
            let refused = Refused { id, refusal: Refusal::Unstaged, plan: None, stops: Vec::new() };
            self.append(cx, Entry::Refuse(Arc::new(refused)));
        } else {
            self.handle_ask(cx, id, partition, node);
        }
    }

    /// A transaction that wrote nothing here has ended: what it had staged goes.
    pub(super) fn unstage(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        if self.is_established() && self.state.stages().has(id) && self.state.record(id).is_none() {
            self.append(cx, Entry::Unstage { id });
        }
    }

    /// The decider does not know a transaction, and never prepares it.
    pub fn handle_settled(&mut self, cx: &mut Context<'_>, id: TransactionId) {
        self.unstage(cx, id);
        self.settle(cx);
    }

    /// Takes up again whose payload is here.
    pub(super) fn resume_staging(&mut self, now: Time) {
        let ids = self.state.stages().ids().into_iter();
        self.renewals = ids.map(|id| (id, Renewal::new(now))).collect();
    }

    /// Asks the deciders of transactions whose clients were not heard of for long.
    pub(super) fn tick_staging(&mut self, cx: &mut Context<'_>) {
        let stages = self.state.stages();
        self.renewals.retain(|id, _| stages.has(*id));
        let mut expired = Vec::new();
        for (id, Renewal { heard_at, asked_at, .. }) in &mut self.renewals {
            // What was prepared or written here is asked about as such.
            let is_known = self.state.record(*id).is_some();
            let is_late = !is_known && cx.now.since(*heard_at) >= cx.limits.stage_timeout;
            if is_late && cx.now.since(*asked_at) >= 4 * RESEND_AFTER {
                *asked_at = cx.now;
                expired.extend(self.state.stages().decider(*id).map(|decider| (*id, decider)));
            }
        }
        for (id, decider) in expired {
            if planted(Canary::StageDropped) {
                self.append(cx, Entry::Unstage { id });
                continue;
            }
            cx.to_primary(decider, Message::Settle { id, partition: self.id, node: self.me.node });
        }
    }
}

/// What an operation needs of a staged payload.
fn staged(operation: &ChunkOperation) -> Option<((u16, u16), Range<u64>)> {
    match operation {
        ChunkOperation::Staged { payload, part, .. } => Some((*payload, part.clone())),
        ChunkOperation::Write { .. } | ChunkOperation::Transform { .. } | ChunkOperation::Cut { .. } => None,
    }
}
