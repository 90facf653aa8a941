//! What a client sends ahead of a transaction: payload that is too large to travel in its plan (design, section 5).

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tyr_types::{Number, OFFSET_MAX};

use super::Client;
use crate::{
    BlobName, ChunkName, HeadPlan, Keyspaces, Operation, Outcome, PartitionId, Payload, Plan, Refusal, Stage,
    StageCopy, Time, TransactionId, evaluate::crosses_chunks, message::Message, stages::stage_parts,
    tries::Tries,
};

/// What a transaction has staged, and what is not known to be staged yet.
#[derive(Debug, Default)]
pub(super) struct Staging {
    /// Parts by payload and where they begin, with the partitions that they go to.
    missing: BTreeMap<Part, (PartitionId, Parcel)>,
    partitions: BTreeSet<PartitionId>,
    kept_at: Time,
    /// Whether there was no room for what was sent last.
    is_crowded: bool,
}

/// A part of a payload, as it is sent.
#[derive(Clone, Debug)]
enum Parcel {
    Bytes(Arc<Stage>),
    Copy(Arc<StageCopy>),
}

impl Parcel {
    fn message(&self) -> Message {
        match self {
            Parcel::Bytes(stage) => Message::Stage(stage.clone()),
            Parcel::Copy(copy) => Message::StageCopy(copy.clone()),
        }
    }
}

/// Where the bytes are that an operation of a plan is to write, a [`WriteStaged`](Operation::WriteStaged).
#[derive(Clone, Debug, PartialEq)]
pub struct CopySource {
    /// The chunk that has them,
    pub chunk: ChunkName,
    /// where they begin in it,
    pub begin: u64,
    /// and at which number of its blob.
    pub at: Number,
}

/// Which payload, by the blob in the plan and its operation, and where in it the part begins.
type Part = ((u16, u16), u64);

/// Payload above this many bytes is staged,
pub const STAGED_ABOVE: usize = 64 << 10;
/// and such of a transaction that has so many already
const INLINE_ENOUGH: usize = 1 << 20;
/// if it is not smaller than this;
const STAGED_LEAST: usize = 4 << 10;
/// and such of which the stops that do not want it would carry, more than this.
const CARRIED_MAX: usize = 64 << 10;
/// Parts of one transaction that are on their way at once.
const UNDER_WAY_MAX: usize = 16;

impl Staging {
    /// Takes out of a plan what is to be staged. What is to be copied is named by the blob and the operation that gets it.
    pub(super) fn of(
        plan: &mut Plan,
        copies: &BTreeMap<(BlobName, u16), CopySource>,
        keyspaces: &Keyspaces,
        above: usize,
        now: Time,
    ) -> Self {
        let mut staging = Staging { kept_at: now, ..Staging::default() };
        let Some(decider) = plan.decider().filter(|_| !plan.has_too_many()) else { return staging };
        let (mut inline, others) = (0, plan.stops().count().saturating_sub(1));
        for (head, plan_of_head) in (0..=u16::MAX).zip(&mut plan.heads) {
            let HeadPlan { partition, blob, operations, .. } = plan_of_head;
            let Some(keyspace) = keyspaces.get(&blob.keyspace) else { continue };
            // What is transformed across chunks is worked out at the head, from all payload before.
            let crosses = operations.iter().any(|operation| crosses_chunks(operation, keyspace));
            for (operation, change) in (0..=u16::MAX).zip(operations) {
                if let Operation::WriteStaged { offset, length } = *change {
                    let Some(source) = copies.get(&(blob.clone(), operation)) else { continue };
                    let payload = (head, operation);
                    for piece in keyspace.staged_pieces(offset, length) {
                        let (to, from) = (keyspace.partition_of(blob, piece.chunk), piece.part.start as u64);
                        let begin = source.begin + from;
                        let (chunk, range) = (source.chunk.clone(), begin..begin + piece.part.len() as u64);
                        let copy =
                            StageCopy { id: plan.id, decider, payload, from, chunk, range, at: source.at };
                        staging.partitions.insert(to);
                        staging.missing.insert((payload, from), (to, Parcel::Copy(Arc::new(copy))));
                    }
                    continue;
                }
                let mut add = |to: PartitionId, bytes: &Payload, part: core::ops::Range<usize>| {
                    let (payload, from) = ((head, operation), part.start as u64);
                    let bytes = bytes.clone();
                    let stage = Stage { id: plan.id, decider, payload, from, bytes, part };
                    staging.partitions.insert(to);
                    staging.missing.insert((payload, from), (to, Parcel::Bytes(Arc::new(stage))));
                };
                let (Operation::Write { bytes, .. } | Operation::Append { bytes }) = &*change else {
                    continue;
                };
                let length = bytes.len() as u64;
                inline += bytes.len();
                let is_much = inline > INLINE_ENOUGH || bytes.len().saturating_mul(others) > CARRIED_MAX;
                let is_large = bytes.len() > above || (is_much && bytes.len() >= STAGED_LEAST);
                if crosses || !is_large {
                    continue;
                }
                match change {
                    Operation::Write { offset, bytes }
                        if offset.checked_add(length).is_some_and(|end| end <= OFFSET_MAX) =>
                    {
                        for piece in keyspace.staged_pieces(*offset, length) {
                            add(keyspace.partition_of(blob, piece.chunk), bytes, piece.part);
                        }
                        inline -= bytes.len();
                        *change = Operation::WriteStaged { offset: *offset, length };
                    }
                    Operation::Append { bytes } => {
                        for part in stage_parts(length) {
                            let place = |at: u64| usize::try_from(at).expect("within payload");
                            add(*partition, bytes, place(part.start)..place(part.end));
                        }
                        inline -= bytes.len();
                        *change = Operation::AppendStaged { length };
                    }
                    _ => {}
                }
            }
        }
        staging
    }

    /// Nothing more is sent: the transaction is not to begin any more.
    pub(super) fn stop(&mut self) {
        self.missing.clear();
    }

    /// Whether everything is staged: the transaction may begin.
    pub(super) fn is_done(&self) -> bool {
        self.missing.is_empty()
    }

    /// The partitions that hold payload of it.
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.partitions.iter().copied()
    }
}

impl Client {
    /// Payload above this many bytes is staged from now on.
    pub fn stage_above(&mut self, bytes: usize) {
        self.staged_above = bytes;
    }

    /// Sends the next parts of a transaction's payload; again only the first, for the others may be on their way.
    pub(super) fn send_stages(&mut self, sequence: u64, again: bool) {
        let Some(transaction) = self.transactions.get(&sequence) else { return };
        let count = if again { 1 } else { UNDER_WAY_MAX };
        let next: alloc::vec::Vec<_> = transaction.staging.missing.values().take(count).cloned().collect();
        for (partition, parcel) in next {
            self.send(partition, parcel.message());
        }
    }

    /// A part is staged.
    pub(super) fn staged(&mut self, now: Time, id: TransactionId, payload: (u16, u16), from: u64) {
        let Some(transaction) = self.sent_mut(id) else { return };
        let staging = &mut transaction.staging;
        if staging.missing.remove(&(payload, from)).is_none() {
            return;
        }
        transaction.sent = Tries::first(now);
        let is_crowded = core::mem::take(&mut staging.is_crowded);
        if staging.is_done() {
            self.send_transaction(id.sequence, false);
        } else if is_crowded {
            self.send_stages(id.sequence, false);
        } else if let Some((partition, parcel)) = staging.missing.values().nth(UNDER_WAY_MAX - 1).cloned() {
            self.send(partition, parcel.message());
        }
    }

    /// A part was not taken. For room in its only partition the transaction waits: whoever has been there for longest has all that it needs, so its
    /// turn comes. Else it has not begun, and no more of it is sent: two that wait for each other in two partitions would do so for ever, and so would one
    /// whose blobs are frozen for it and one that waits for these blobs.
    pub(super) fn not_staged(&mut self, id: TransactionId, refusal: Refusal) {
        let Some(sent) = self.sent_mut(id).filter(|sent| !sent.staging.is_done()) else { return };
        let may_wait = sent.staging.partitions.len() == 1 && sent.plan.reserve.is_none();
        if refusal == Refusal::Busy && may_wait {
            sent.staging.is_crowded = true;
            return;
        }
        self.end(id, Some((Outcome::Refused(refusal), alloc::vec::Vec::new())));
    }

    /// Has what is staged kept until its transaction has ended.
    pub(super) fn tick_staging(&mut self, now: Time, every: u64) {
        let mut kept = alloc::vec::Vec::new();
        for transaction in self.transactions.values_mut() {
            if !transaction.staging.partitions.is_empty() && now.since(transaction.staging.kept_at) >= every {
                transaction.staging.kept_at = now;
                let id = transaction.plan.id;
                kept.extend(transaction.staging.partitions().map(|partition| (partition, id)));
            }
        }
        for (partition, id) in kept {
            self.send(partition, Message::KeepStages { id });
        }
    }
}
