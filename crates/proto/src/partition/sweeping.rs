//! Deletes the blobs of keyspaces that were dropped.
//!
//! Nobody begins a transaction there any more. The primary of heads deletes them itself, some at a time, by transactions like those of any client: so
//! chunks elsewhere, replicas, readers, and whoever was at work when the keyspace was dropped see nothing that they do not know, and what is
//! left is collected like everything that was deleted. They are named by the epoch, so that nobody else has their names, and by a place in
//! its log. A new primary goes on with whatever is still there.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use tyr_types::KeyspaceId;

use super::Partition;
use crate::{
    BlobName, Epoch, HeadPlan, Keyspaces, Operation, Outcome, PartitionId, Plan, SessionId, Time,
    TransactionId, effects::Context, freeze::first_name, head::Head, size,
};

/// How far this primary is with that.
#[derive(Debug, Default)]
pub struct Sweeping {
    /// Keyspaces of which there is nothing here, and will be nothing as long as this primary leads.
    clean: BTreeSet<KeyspaceId>,
    /// All that are dropped of these are clean.
    done_with: Option<Arc<Keyspaces>>,
    pass: Option<Pass>,
    /// The keyspace of the last pass.
    passed: Option<KeyspaceId>,
    /// The last transaction.
    last: Option<TransactionId>,
    looked_at: Time,
}

/// A walk over the heads of a keyspace.
#[derive(Debug)]
struct Pass {
    /// Where it goes on.
    next: BlobName,
    /// Whether it has come upon nothing.
    is_clean: bool,
}

/// One transaction deletes at most so many blobs,
const BLOBS_MAX: usize = 64;
/// and, unless it is about a single one, takes so many bytes of the log, or half of what an entry may.
const SIZE_MAX: usize = 256 << 10;
/// As many heads are looked at at a time: those that wait to be collected may be many.
const VISITS_MAX: usize = 4096;
/// When nothing was found that can be deleted, it is looked again after this many microseconds.
const LOOK_EVERY: u64 = 200_000;

impl Partition {
    /// Whether a transaction is one by which this primary deletes what a dropped keyspace has left here.
    pub(super) fn sweeps(&self, id: TransactionId) -> bool {
        self.sweeping.last == Some(id)
    }

    /// Deletes some blobs of keyspaces that were dropped, once the last ones are gone.
    pub(super) fn tick_sweeping(&mut self, cx: &mut Context<'_>) {
        let last = self.sweeping.last.and_then(|last| self.state.record(last));
        let is_undecided = last.is_some_and(|record| record.outcome.is_none());
        if is_undecided || self.sweeping.last.is_some_and(|last| self.chain.contains(last)) {
            return;
        }
        // One that was refused is a reason to wait: each attempt is an entry of the log.
        let goes_on = last.is_some_and(|record| record.outcome == Some(Outcome::Committed));
        let is_early = !goes_on && cx.now.since(self.sweeping.looked_at) < LOOK_EVERY;
        let is_done = self.sweeping.done_with.as_ref().is_some_and(|known| Arc::ptr_eq(known, cx.keyspaces));
        if is_early || is_done || !cx.has_lease || self.is_below_minimum(cx) {
            return;
        }
        (self.sweeping.looked_at, self.sweeping.last) = (cx.now, None);
        let blobs = self.left_behind(cx);
        if blobs.is_empty() {
            return;
        }
        let id = TransactionId {
            session: sweeper(self.id, self.configuration.epoch),
            sequence: self.log.last() + 1,
            birth: cx.version,
        };
        let delete = |blob| HeadPlan::blind(self.id, blob, [Operation::Delete].into());
        let heads = blobs.into_iter().map(delete).collect();
        // Nobody waits for the answers of those before.
        let plan = Plan { id, answered: id.sequence, reserve: None, heads };
        self.sweeping.last = Some(id);
        self.handle_pass(cx, Arc::new(plan), Vec::new());
    }

    /// Blobs of a dropped keyspace that one transaction can delete at once, in order.
    fn left_behind(&mut self, cx: &Context<'_>) -> Vec<BlobName> {
        let Some(mut pass) = self.sweeping.pass.take().or_else(|| self.next_pass(cx)) else {
            self.sweeping.done_with = Some(cx.keyspaces.clone());
            return Vec::new();
        };
        let keyspace = pass.next.keyspace;
        let (mut blobs, mut size) = (Vec::new(), 0);
        let size_max = SIZE_MAX.min(cx.limits.entry_max / 2);
        let heads = self.state.heads_from(&pass.next).take_while(|(blob, _)| blob.keyspace == keyspace);
        for (visits, (blob, head)) in heads.enumerate() {
            let settled = Some(head).filter(|head| is_settled(head));
            size += settled.map_or(0, |head| size::deletion(blob.key.as_bytes(), head.chunk_count()));
            let is_enough = blobs.len() == BLOBS_MAX || (size > size_max && !blobs.is_empty());
            if is_enough || visits == VISITS_MAX {
                pass.next = blob.clone();
                self.sweeping.pass = Some(pass);
                return blobs;
            }
            pass.is_clean &= head.is_gone();
            blobs.extend(settled.map(|_| blob.clone()));
        }
        if pass.is_clean {
            self.sweeping.clean.insert(keyspace);
        }
        self.sweeping.passed = Some(keyspace);
        blobs
    }

    /// The dropped keyspaces have their turns in a circle.
    fn next_pass(&self, cx: &Context<'_>) -> Option<Pass> {
        let is_due = |id: &KeyspaceId| cx.keyspaces[id].is_dropped && !self.sweeping.clean.contains(id);
        let mut due = cx.keyspaces.keys().copied().filter(is_due);
        let next = due.clone().find(|id| Some(*id) > self.sweeping.passed).or_else(|| due.next())?;
        Some(Pass { next: first_name(next, &[])?, is_clean: true })
    }
}

/// Whether a blob is there, and nobody is about to change it.
fn is_settled(head: &Head) -> bool {
    head.blob().is_some() && !head.is_in_motion()
}

/// Who deletes what is left at a partition in an epoch.
fn sweeper(partition: PartitionId, epoch: Epoch) -> SessionId {
    let [class, index] = [u64::from(partition.class.0), u64::from(partition.index)];
    SessionId::of_node(class << 48 | index << 32 | u64::from(epoch.0))
}
