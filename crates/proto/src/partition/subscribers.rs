//! Who holds a copy of a head of this partition, and what writers owe them (design, section 3).
//!
//! Invariant: a write of a head is voted for only when nobody holds a copy of it: each has confirmed that it is gone, or its time is
//! over. The time of a copy ends with the lease under which it was given, and a primary says that it has released its role only when
//! there are no copies left; so no later primary has to know of any.
//!
//! It is not part of the role: what was given out lasts, whatever becomes of the role.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Partition, RESEND_AFTER};
use crate::{
    BlobName, PartitionId, Replica, Time, TransactionId,
    canary::{Canary, planted},
    effects::{Context, Effect},
    head::Head,
    message::{HeadStat, Message},
};

/// Copies of heads that are out.
#[derive(Debug, Default)]
pub struct Subscribers {
    of: BTreeMap<BlobName, BTreeMap<(Replica, PartitionId), Subscriber>>,
}

#[derive(Debug)]
struct Subscriber {
    /// The last that it asked for.
    ask: u64,
    /// When its copy is surely over.
    until: Time,
    /// When it was last told to drop it.
    told_at: Option<Time>,
}

/// As many heads of a partition have copies.
const HEADS_MAX: usize = 16384;

impl Subscribers {
    /// Whether nobody holds a copy of any head.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn has(&self, blob: &BlobName) -> bool {
        self.of.contains_key(blob)
    }

    /// Takes out a subscriber that matches, and says whether its head has none any more.
    fn remove(&mut self, blob: &BlobName, holder: &(Replica, PartitionId), ask: u64) -> bool {
        let Some(subscribers) = self.of.get_mut(blob) else { return false };
        if subscribers.get(holder).is_some_and(|subscriber| subscriber.ask <= ask) {
            subscribers.remove(holder);
        }
        let is_free = subscribers.is_empty();
        if is_free {
            self.of.remove(blob);
        }
        is_free
    }

    /// Takes out what is over, and returns the heads that have no copies any more.
    fn expire(&mut self, now: Time) -> Vec<BlobName> {
        let mut free = Vec::new();
        self.of.retain(|blob, subscribers| {
            subscribers.retain(|_, subscriber| subscriber.until > now);
            if subscribers.is_empty() {
                free.push(blob.clone());
            }
            !subscribers.is_empty()
        });
        free
    }
}

impl Partition {
    /// Whether anybody may still hold a copy of a head.
    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// A shard of a node wants a copy of a head. While a write of it is under way it gets none, and asks again.
    pub fn handle_subscribe(
        &mut self,
        cx: &mut Context,
        blob: BlobName,
        holder: Replica,
        partition: PartitionId,
        ask: u64,
    ) {
        let keyspace = cx.keyspaces.get(&blob.keyspace);
        let is_own = keyspace.is_some_and(|keyspace| keyspace.partition_of(&blob, 0) == self.id);
        let lasts = cx.limits.cached_for.min(cx.lease_left);
        if !is_own || !self.is_established() || lasts == 0 || self.is_being_written(&blob) {
            return;
        }
        let subscribers = &mut self.subscribers.of;
        if subscribers.len() >= HEADS_MAX && !subscribers.contains_key(&blob) {
            return;
        }
        // It counts from before it asked, by a clock that may be slower than this one by far less than an eighth.
        let until = cx.now.after(lasts.saturating_add(lasts / 8));
        let known = subscribers.entry(blob.clone()).or_default().entry((holder, partition));
        let subscriber = known.or_insert(Subscriber { ask, until, told_at: None });
        if subscriber.ask > ask {
            return;
        }
        *subscriber = Subscriber { ask, until: subscriber.until.max(until), told_at: None };
        let stat = self.stat_of(&blob);
        let message = Message::Cached { blob, ask, lasts, stat };
        cx.push(Effect::ToNode(holder.node, partition, message));
    }

    /// Whether a transaction that does more than read has a number at a head and is not applied.
    pub(super) fn is_being_written(&self, blob: &BlobName) -> bool {
        self.state.head(blob).is_some_and(|head| !head.is_decided_up_to(head.last_number()))
    }

    /// A head as it is.
    pub(super) fn stat_of(&self, blob: &BlobName) -> HeadStat {
        let head = self.state.head(blob);
        let number = head.map_or(self.state.heads_after(), Head::read_number);
        HeadStat { number, blob: head.and_then(Head::stat) }
    }

    /// Whether copies keep a transaction from being voted for that writes a head.
    pub(super) fn has_copies(&self, blob: &BlobName, only_reads: bool) -> bool {
        !only_reads && self.subscribers.has(blob) && !planted(Canary::CopiesIgnored)
    }

    /// A write of these heads has begun: their copies go.
    pub(super) fn uncache(&mut self, cx: &mut Context, blobs: impl Iterator<Item = BlobName>) {
        if self.subscribers.is_empty() {
            return;
        }
        for blob in blobs {
            let Some(subscribers) = self.subscribers.of.get_mut(&blob) else { continue };
            for ((holder, partition), subscriber) in subscribers {
                if subscriber.told_at.is_some_and(|told_at| cx.now.since(told_at) < RESEND_AFTER) {
                    continue;
                }
                subscriber.told_at = Some(cx.now);
                let (of, from, ask) = (self.id, self.me.node, subscriber.ask);
                let message = Message::Uncache { of, from, blob: blob.clone(), holder: *holder, ask };
                cx.push(Effect::ToNode(holder.node, *partition, message));
            }
        }
    }

    /// Everything that is out goes: the role is given up.
    pub(super) fn uncache_all(&mut self, cx: &mut Context) {
        let blobs: Vec<BlobName> = self.subscribers.of.keys().cloned().collect();
        self.uncache(cx, blobs.into_iter());
    }

    /// A copy is gone.
    pub fn handle_uncached(
        &mut self,
        cx: &mut Context,
        blob: &BlobName,
        holder: Replica,
        partition: PartitionId,
        ask: u64,
    ) {
        if self.subscribers.remove(blob, &(holder, partition), ask) {
            self.free_writers(blob);
            self.settle(cx);
        }
    }

    /// Nobody holds a copy of a head any more: those that waited for that may be voted for.
    fn free_writers(&mut self, blob: &BlobName) {
        let undecided = |head: &Head| -> Vec<TransactionId> {
            head.places().filter(|place| !place.is_decided()).map(|place| place.id).collect()
        };
        self.ready.extend(self.state.head(blob).map(undecided).unwrap_or_default());
    }

    pub(super) fn tick_subscribers(&mut self, cx: &mut Context) {
        if self.subscribers.is_empty() {
            return;
        }
        let free = self.subscribers.expire(cx.now);
        for blob in &free {
            self.free_writers(blob);
        }
        if self.is_established() {
            let written = self.subscribers.of.keys().filter(|blob| self.is_being_written(blob));
            let written: Vec<BlobName> = written.cloned().collect();
            self.uncache(cx, written.into_iter());
        } else {
            self.uncache_all(cx);
        }
        if !free.is_empty() {
            self.settle(cx);
        }
    }
}
