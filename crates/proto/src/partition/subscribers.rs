//! Who holds a copy of a head of this partition, and what writers owe them (design, section 3): shards of nodes hold what heads say, clients also
//! what small blobs hold, whose every write is one of the head.
//!
//! Invariant: a write of a head is voted for only when nobody holds a copy of it: each has confirmed that it is gone, or its time is
//! over.
//!
//! That copies may be out, and for how long, is logged before the first is given. So a new primary, who knows nobody that holds one, knows that
//! somebody may; then it votes for no write before the time of all copies is over. A restarted node's lease is not waited for, so that
//! the time of a copy cannot be made to end with its primary's lease.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Partition, RESEND_AFTER};
use crate::{
    BlobName, PartitionId, Replica, SessionId, Time, TransactionId,
    canary::{Canary, planted},
    effects::{Context, Effect},
    entry::Entry,
    head::Head,
    message::{Answer, HeadStat, Message},
};

/// Copies of heads that are out.
#[derive(Debug, Default)]
pub struct Subscribers {
    of: BTreeMap<BlobName, BTreeMap<Holder, Subscriber>>,
    /// Heads of which copies were recalled from clients, and when: who writes them would wait for that each time.
    recalled: BTreeMap<BlobName, Time>,
    /// When copies that a former primary gave out are surely over, until that has come.
    inherited: Option<Time>,
    /// Since when there have been no copies.
    unused_since: Time,
}

/// Who has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    /// A shard, which is told by way of a partition.
    Shard(Replica, PartitionId),
    /// A client.
    Client(SessionId),
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
/// A head is not lent to clients again for this many microseconds after it was recalled: one that is written all the time is cheaper to ask for.
const RECALLED_FOR: u64 = 20_000;

impl Subscribers {
    /// Whether no copy is out, and none was recalled lately.
    pub fn are_none(&self) -> bool {
        self.of.is_empty() && self.inherited.is_none() && self.recalled.is_empty()
    }

    fn has(&self, blob: &BlobName) -> bool {
        self.inherited.is_some() || self.of.contains_key(blob)
    }

    /// Takes out a subscriber that matches, and says whether its head has none any more.
    fn remove(&mut self, blob: &BlobName, holder: &Holder, ask: u64) -> bool {
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
        !self.subscribers.of.is_empty()
    }

    /// A shard of a node wants a copy of a head. While a write of it is under way it gets none, and asks again.
    pub fn handle_subscribe(
        &mut self,
        cx: &mut Context<'_>,
        blob: BlobName,
        holder: Replica,
        partition: PartitionId,
        ask: u64,
    ) {
        let lasts = self.lend(cx, &blob, Holder::Shard(holder, partition), ask);
        if lasts > 0 {
            let stat = self.stat_of(&blob);
            cx.push(Effect::ToNode(holder.node, partition, Message::Cached { blob, ask, lasts, stat }));
        }
    }

    /// For how many microseconds a client may keep what it is told now of a head.
    pub(super) fn lend_to_client(
        &mut self,
        cx: &mut Context<'_>,
        blob: &BlobName,
        client: SessionId,
        asked: u64,
    ) -> u64 {
        match self.subscribers.recalled.contains_key(blob) {
            true => 0,
            false => self.lend(cx, blob, Holder::Client(client), asked),
        }
    }

    /// Notes that somebody gets a copy of a head, and says for how many microseconds since it was asked for; 0 if it gets none.
    fn lend(&mut self, cx: &mut Context<'_>, blob: &BlobName, holder: Holder, ask: u64) -> u64 {
        let keyspace = cx.existing(blob.keyspace);
        let is_own = keyspace.is_some_and(|keyspace| keyspace.partition_of(blob, 0) == self.id);
        if !is_own || !self.is_established() || !cx.has_lease || self.is_being_written(blob) {
            return 0;
        }
        let Some((logged, lasts)) = self.state.lent() else {
            if cx.limits.cached_for > 0 {
                self.append(cx, Entry::Lend { lasts: cx.limits.cached_for });
            }
            return 0;
        };
        if logged > self.durable {
            return 0;
        }
        let lasts = cx.limits.cached_for.min(lasts);
        let subscribers = &mut self.subscribers.of;
        if subscribers.len() >= HEADS_MAX && !subscribers.contains_key(blob) {
            return 0;
        }
        let until = surely_over(cx.now, lasts);
        let known = subscribers.entry(blob.clone()).or_default().entry(holder);
        let subscriber = known.or_insert(Subscriber { ask, until, told_at: None });
        if subscriber.ask > ask {
            return 0;
        }
        *subscriber = Subscriber { ask, until: subscriber.until.max(until), told_at: None };
        lasts
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

    /// A write of these heads has begun: their copies go. A client that writes gives back its own without being asked; only if that is not heard is
    /// it asked with a later tick.
    pub(super) fn uncache(
        &mut self,
        cx: &mut Context<'_>,
        blobs: impl Iterator<Item = BlobName>,
        writer: Option<SessionId>,
    ) {
        if self.subscribers.of.is_empty() {
            return;
        }
        for blob in blobs {
            let Some(subscribers) = self.subscribers.of.get_mut(&blob) else { continue };
            for (holder, subscriber) in subscribers {
                if subscriber.told_at.is_some_and(|told_at| cx.now.since(told_at) < RESEND_AFTER) {
                    continue;
                }
                subscriber.told_at = Some(cx.now);
                let (of, from, ask, blob) = (self.id, self.me.node, subscriber.ask, blob.clone());
                match *holder {
                    Holder::Client(client) if Some(client) == writer => {}
                    Holder::Shard(holder, partition) => {
                        let message = Message::Uncache { of, from, blob, holder, ask };
                        cx.push(Effect::ToNode(holder.node, partition, message));
                    }
                    Holder::Client(client) => {
                        self.subscribers.recalled.insert(blob.clone(), cx.now);
                        cx.answer(client, Answer::Recall { partition: of, blob, asked: ask });
                    }
                }
            }
        }
    }

    /// Becomes primary after another one, who may have given out copies.
    pub(super) fn inherit_copies(&mut self, cx: &Context<'_>) {
        let over = self.state.lent().map(|(_, lasts)| surely_over(cx.now, lasts));
        self.subscribers.inherited = self.subscribers.inherited.max(over);
    }

    /// A client keeps nothing any more of what it asked for up to a request.
    pub fn handle_give_back(&mut self, cx: &mut Context<'_>, blob: &BlobName, client: SessionId, asked: u64) {
        self.end_copy(cx, blob, &Holder::Client(client), asked);
    }

    /// A shard's copy is gone.
    pub fn handle_uncached(
        &mut self,
        cx: &mut Context<'_>,
        blob: &BlobName,
        holder: Replica,
        partition: PartitionId,
        ask: u64,
    ) {
        self.end_copy(cx, blob, &Holder::Shard(holder, partition), ask);
    }

    fn end_copy(&mut self, cx: &mut Context<'_>, blob: &BlobName, holder: &Holder, ask: u64) {
        if self.subscribers.remove(blob, holder, ask) {
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

    pub(super) fn tick_subscribers(&mut self, cx: &mut Context<'_>) {
        let are_over = self.subscribers.inherited.take_if(|until| *until <= cx.now).is_some();
        let mut free = self.subscribers.expire(cx.now);
        self.subscribers.recalled.retain(|_, at| cx.now.since(*at) < RECALLED_FOR);
        if are_over {
            free = self.state.heads().map(|(blob, _)| blob.clone()).collect();
        }
        for blob in &free {
            self.free_writers(blob);
        }
        if self.is_established() {
            let written = self.subscribers.of.keys().filter(|blob| self.is_being_written(blob));
            let written: Vec<BlobName> = written.cloned().collect();
            self.uncache(cx, written.into_iter(), None);
            self.take_back(cx);
        }
        if !free.is_empty() {
            self.settle(cx);
        }
    }

    /// Logs that no copies are out if there have been none for a while, so that a later primary does not wait for any.
    fn take_back(&mut self, cx: &mut Context<'_>) {
        let Subscribers { of, inherited, unused_since, .. } = &mut self.subscribers;
        if !of.is_empty() || inherited.is_some() || self.state.lent().is_none() {
            *unused_since = cx.now;
        } else if cx.now.since(*unused_since) >= cx.limits.uncached_after {
            *unused_since = cx.now;
            self.append(cx, Entry::Lend { lasts: 0 });
        }
    }
}

/// When a copy is over whose holder counts from before it asked, by a clock that may be slower than this one by far less than an eighth.
fn surely_over(now: Time, lasts: u64) -> Time {
    now.after(lasts.saturating_add(lasts / 8))
}
