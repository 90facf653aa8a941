//! Keeps the replicas' logs equal, and knows what is durable on all of them (design, section 4).

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::cmp::Ordering;

use tyr_types::Number;

use super::{
    Partition, RESEND_AFTER, Role, chain, collection,
    copying::{Folded, Receiving, Sending},
    reminders::Reminders,
    votes::EarlyVotes,
};
use crate::{
    Configuration, Epoch, NodeId, Replica, Time,
    canary::{Canary, planted},
    effects::{Context, Effect},
    entry::Entry,
    limits::ABSENCE,
    log::Log,
    message::Message,
    state::State,
};

/// What a primary knows of another replica.
#[derive(Clone, Debug)]
pub struct Peer {
    replica: Replica,
    is_learner: bool,
    /// Whether nothing is durable without it. A learner counts from before it is reported complete: the next epoch may begin any time.
    is_counted: bool,
    /// Its log equals the primary's and is durable up to here; not known before it has been reconciled.
    stored: Option<u64>,
    /// Up to where entries were sent to it, without a gap.
    sent: u64,
    /// When something that it has not acknowledged was sent for the first time, or again,
    sent_at: Time,
    /// and how often again since it acknowledged something.
    resent: u32,
    progress_at: Time,
    /// What is being copied to it.
    copy: Option<Sending>,
    /// Its disk has no room for more than what has been promised.
    is_short: bool,
}

impl Peer {
    /// Whether nothing is durable without it, and its disk is short of room.
    pub fn is_short(&self) -> bool {
        self.is_counted && self.is_short
    }

    /// Up to where its log is known to equal the primary's, and to be durable.
    pub fn stored(&self) -> u64 {
        self.stored.unwrap_or(0)
    }

    /// Whether it is one of the set, and its log ends here.
    pub fn has_all(&self, last: u64) -> bool {
        !self.is_learner && self.stored == Some(last)
    }

    /// It has acknowledged more: what is under way needs not be sent again for a while.
    fn progressed(&mut self, now: Time) {
        (self.progress_at, self.sent_at, self.resent) = (now, now, 0);
    }

    /// Whether what it has not acknowledged may be lost. The longer it is silent the more seldom that is assumed: entries may just as well wait
    /// for its disk, and carry payload.
    fn is_late(&self, now: Time, log: &Log) -> bool {
        let wait = RESEND_ENTRIES_AFTER << self.resent.min(RESEND_DOUBLINGS_MAX);
        self.is_over(now, self.sent_at, wait, log)
    }

    /// Whether so many microseconds have gone by since, and as many more as what it lacks takes.
    fn is_over(&self, now: Time, since: Time, wait: u64, log: &Log) -> bool {
        let gone = now.since(since);
        let lacking = |stored| patience(log, stored);
        gone >= wait && gone >= wait.saturating_add(self.stored.map_or(0, lacking))
    }

    /// Whether everything that is acknowledged, as far as that is durable, is durable there, too.
    pub fn is_complete(&self, durable: u64) -> bool {
        self.is_counted && self.stored.is_some_and(|stored| stored >= durable)
    }

    /// For how many microseconds a learner is waited for that makes no progress: it tells when all of a copy is on its disk, and of a large one that takes long.
    fn patience(&self) -> u64 {
        LEARNER_SLOW_AFTER + COPY_PATIENCE * self.copy.as_ref().map_or(0, Sending::size)
    }

    /// Whether a learner lacks so little, and answers so soon, that its primary may begin to wait for it. It is not asked to have everything:
    /// where something is always under way it never would.
    fn is_close(&self, log: &Log, now: Time) -> bool {
        let Some(stored) = self.stored else { return false };
        let last = log.last();
        if stored >= last {
            return true;
        }
        let is_heavy = || {
            let lacking = (stored + 1..=last).filter_map(|index| log.entry(index));
            lacking.map(|(_, entry)| entry.size()).sum::<usize>() > CLOSE_SIZE
        };
        last - stored <= CLOSE && !self.is_late(now, log) && !is_heavy()
    }
}

/// How much longer than usual the entries after an index are waited for, in microseconds, where they are many heads at many stops.
fn patience(log: &Log, stored: u64) -> u64 {
    let entries =
        (stored.max(log.start()) + 1..=log.last()).take(PATIENT_FOR).filter_map(|index| log.entry(index));
    entries.map(|(_, entry)| entry.patience()).max().unwrap_or(0)
}

/// Entries that came before those in front of them, by the index of the first.
pub type Early = BTreeMap<u64, Vec<(Epoch, Arc<Entry>)>>;

/// In the place of an index: of a replica's log nothing can be continued. No log becomes as long.
fn nothing() -> u64 {
    Number::MAX.index()
}
/// As many entries are sent in one message.
const BATCH_MAX: u64 = 64;
/// As many messages that came too early are kept.
const EARLY_MAX: usize = 64;
/// Entries are sent again when nothing of them was acknowledged for this many microseconds, each time after twice as long,
const RESEND_ENTRIES_AFTER: u64 = 2 * RESEND_AFTER;
/// up to so many doublings.
const RESEND_DOUBLINGS_MAX: u32 = 3;
/// A replica whose log makes no progress for this many microseconds is reported to the cluster manager.
const SLOW_AFTER: u64 = 1_000_000;
/// A learner that makes none for this many is, too: it may begin again with a copy of what there is then.
const LEARNER_SLOW_AFTER: u64 = 60_000_000;
/// So many more for each byte of a copy: a megabyte takes its disk a second at most.
const COPY_PATIENCE: u64 = 1;
/// A backup without room is asked after so many whether it has some again, if nothing is logged.
const ROOM_ASKED_EVERY: u64 = 1_000_000;
/// As many entries are looked at for how long they take.
const PATIENT_FOR: usize = 64;
/// As many entries may be under way to a learner when its primary begins to wait for it.
const CLOSE: u64 = 256;
/// and as many bytes of payload.
const CLOSE_SIZE: usize = 8 << 20;
/// As many entries stay in memory for replicas that were away,
const LOG_KEPT: u64 = 256;
/// if they are not about more heads and chunks than this: a wide transaction takes some kilobytes for each.
const LOG_BREADTH: usize = 512;
/// As many heads and chunks may be looked at for each entry that is dropped.
const LOOKED_AT_MAX: u64 = 256;
/// Where there is little room, all that nobody lacks is dropped this often, in microseconds.
const SHORT_TRIM_EVERY: u64 = 1_000_000;

impl Partition {
    /// Takes a configuration of a later epoch.
    pub fn configure(&mut self, cx: &mut Context<'_>, configuration: Configuration) {
        if configuration.epoch <= self.configuration.epoch {
            return;
        }
        let goes_on = self.leads_on(&configuration);
        (self.logged_at, self.is_idle) = (cx.now, false);
        match configuration.replicas.len().cmp(&self.configuration.replicas.len()) {
            Ordering::Less => self.shrunk_at = Some(cx.now),
            Ordering::Equal => {}
            Ordering::Greater => self.shrunk_at = None,
        }
        self.configuration = configuration;
        self.forget_role(cx);
        let configuration = &self.configuration;
        if configuration.primary() == Some(self.me) {
            self.lead(cx, goes_on);
        } else if configuration.replicas.contains(&self.me) || configuration.learners.contains(&self.me) {
            self.role = Role::Backup { synced: false, early: Early::new(), copy: None };
        }
    }

    /// Gives up the role of this epoch: nothing is served, acknowledged, or decided any more.
    pub fn release(&mut self, cx: &mut Context<'_>) {
        self.forget_role(cx);
    }

    /// Goes on as another incarnation, which has no role until an epoch gives it one.
    pub fn begin_incarnation(&mut self, cx: &mut Context<'_>, me: Replica) {
        self.me = me;
        self.forget_role(cx);
    }

    fn forget_role(&mut self, cx: &mut Context<'_>) {
        self.role = Role::None;
        self.chain = chain::Queue::default();
        self.drives.clear();
        self.tellers.clear();
        self.forgetting.clear();
        self.deferred.clear();
        self.ready.clear();
        self.early_votes = EarlyVotes::default();
        self.held.clear();
        self.unsure = Reminders::default();
        self.renewals.clear();
        self.sessions = super::sessions::Sessions::default();
        self.collection = collection::Collection::default();
        self.sweeping = super::sweeping::Sweeping::default();
        self.tombstones = super::tombstones::Tombstones::default();
        self.shortages = super::shortages::Shortages::default();
        self.drop_readers(cx);
        self.drop_freezes();
        self.fetches.clear();
    }

    /// Whether no other replica led between this epoch and a later one in which this one leads.
    fn leads_on(&self, later: &Configuration) -> bool {
        let led = matches!(self.role, Role::Primary { .. });
        led && later.primary() == Some(self.me) && later.epoch.0 == self.configuration.epoch.0 + 1
    }

    fn lead(&mut self, cx: &mut Context<'_>, goes_on: bool) {
        if !goes_on {
            self.inherit_copies(cx);
        }
        let peer = |replica: &Replica, is_learner| {
            let peer = Peer {
                replica: *replica,
                is_learner,
                is_counted: !is_learner,
                stored: None,
                sent: 0,
                sent_at: cx.now,
                resent: 0,
                progress_at: cx.now,
                copy: None,
                is_short: false,
            };
            (replica.node, peer)
        };
        let replicas = self.configuration.replicas.iter().filter(|replica| **replica != self.me);
        let peers = replicas
            .map(|replica| peer(replica, false))
            .chain(self.configuration.learners.iter().map(|replica| peer(replica, true)))
            .collect();
        self.durable = self.log.start();
        self.lacks = None;
        self.role = Role::Primary { marker: self.log.last() + 1, established: false, peers };
        self.log_entry(cx, Entry::Marker);
        self.reconcile(cx);
    }

    fn reconcile(&mut self, cx: &mut Context<'_>) {
        let Role::Primary { peers, .. } = &mut self.role else { return };
        for peer in peers.values_mut().filter(|peer| peer.stored.is_none()) {
            peer.sent_at = cx.now;
            peer.copy.iter_mut().for_each(Sending::lose);
            let epochs = self.log.epochs().to_vec();
            let message =
                Message::Reconcile { epoch: self.configuration.epoch, epochs, start: self.log.start() };
            cx.push(Effect::ToNode(peer.replica.node, self.id, message));
        }
    }

    /// Logs an entry, after what was deferred, and sends it to all replicas at once.
    pub(super) fn append(&mut self, cx: &mut Context<'_>, entry: Entry) -> u64 {
        self.log_deferred(cx);
        self.log_entry(cx, entry)
    }

    pub(super) fn log_entry(&mut self, cx: &mut Context<'_>, entry: Entry) -> u64 {
        let epoch = self.configuration.epoch;
        let entry = Arc::new(entry);
        let index = self.store(cx, epoch, entry.clone());
        let Role::Primary { peers, .. } = &mut self.role else { return index };
        // Who is behind gets it when he has got so far.
        for peer in peers.values_mut().filter(|peer| peer.stored.is_some() && peer.sent == index - 1) {
            if peer.stored == Some(index - 1) {
                peer.sent_at = cx.now;
            }
            peer.sent = index;
            let entries = Vec::from([(epoch, entry.clone())]);
            let message = Message::Append { epoch, previous: index - 1, entries, durable: self.durable };
            cx.push(Effect::ToNode(peer.replica.node, self.id, message));
        }
        index
    }

    /// Takes an entry at the end of this replica's log.
    fn store(&mut self, cx: &mut Context<'_>, epoch: Epoch, entry: Arc<Entry>) -> u64 {
        let index = self.log.push(epoch, entry.clone());
        (self.logged_at, self.is_idle) = (cx.now, false);
        let superseded = self.state.apply(index, epoch, &entry);
        self.note_superseded(superseded);
        cx.push(Effect::Store { partition: self.id, index, epoch, entry });
        index
    }

    /// An entry of this replica's own log is durable, and so is every one before it.
    pub fn handle_stored(&mut self, cx: &mut Context<'_>, index: u64, epoch: Epoch) {
        if self.log.epoch_at(index) != Some(epoch) || index <= self.stored {
            return;
        }
        self.stored = index;
        match &self.role {
            Role::Primary { .. } => self.advance(cx),
            Role::Backup { synced: true, .. } => self.acknowledge(cx),
            Role::Backup { .. } | Role::None => {}
        }
    }

    /// Whether this node has room has changed. The primary would hear of it with what is written next, which it refuses where it takes the room
    /// for missing.
    pub fn handle_room(&self, cx: &mut Context<'_>) {
        if let Role::Backup { synced: true, .. } = self.role {
            self.acknowledge(cx);
        }
    }

    fn acknowledge(&self, cx: &mut Context<'_>) {
        let epoch = self.configuration.epoch;
        self.to_primary_of_self(
            cx,
            Message::Stored { epoch, index: self.stored, node: self.me.node, is_short: cx.is_short },
        );
    }

    /// A replica's log is durable up to an index.
    pub fn handle_replica_stored(
        &mut self,
        cx: &mut Context<'_>,
        epoch: Epoch,
        index: u64,
        node: NodeId,
        is_short: bool,
    ) {
        if epoch != self.configuration.epoch {
            return;
        }
        let Role::Primary { peers, .. } = &mut self.role else { return };
        let Some(peer) = peers.get_mut(&node) else { return };
        peer.is_short = is_short;
        if peer.stored.is_some_and(|stored| index > stored) {
            peer.stored = Some(index);
            peer.progressed(cx.now);
            if index >= peer.sent && peer.sent < self.log.last() {
                self.send_entries(cx, node);
            }
            self.advance(cx);
        }
    }

    /// Asks backups that had no room, and have everything, whether they have some: as long as it takes them for full nothing may be logged that they would answer.
    pub(super) fn ask_backups_for_room(&mut self, cx: &mut Context<'_>) {
        let last = self.log.last();
        let Role::Primary { peers, .. } = &self.role else { return };
        let is_due = |peer: &Peer| {
            peer.is_short && peer.stored == Some(last) && cx.now.since(peer.sent_at) >= ROOM_ASKED_EVERY
        };
        let due: Vec<NodeId> = peers.iter().filter(|(_, peer)| is_due(peer)).map(|(node, _)| *node).collect();
        due.into_iter().for_each(|node| self.send_entries(cx, node));
    }

    /// Finds out up to where the log is durable on all replicas of the set, and does what waited for that.
    fn advance(&mut self, cx: &mut Context<'_>) {
        let Role::Primary { marker, established, peers } = &mut self.role else { return };
        let counted = peers.values().filter(|peer| peer.is_counted).map(|peer| peer.stored.unwrap_or(0));
        let durable = counted.fold(self.stored, u64::min);
        if durable < *marker {
            return;
        }
        if !*established {
            *established = true;
            self.resume(cx);
        }
        while self.durable < durable {
            self.durable += 1;
            if let Some((_, entry)) = self.log.entry(self.durable) {
                self.handle_durable(cx, &entry);
            }
        }
        self.trim(cx);
        self.settle(cx);
    }

    /// An entry is durable on all replicas: what was promised in it may be said.
    fn handle_durable(&mut self, cx: &mut Context<'_>, entry: &Entry) {
        match entry {
            // Whoever takes a snapshot is answered when the freeze is looked at next.
            Entry::Keep(_) | Entry::LetGo(_) => {}
            Entry::Marker | Entry::Collected(_) | Entry::Purge(_) | Entry::Unstage { .. } => {}
            Entry::Lend { .. } => {}
            Entry::Stage(stage) => self.handle_stage_durable(cx, stage),
            Entry::Expire { session, .. } => self.handle_expire_durable(cx, *session),
            Entry::Collect(discards) => self.handle_collect_durable(cx, discards),
            Entry::Prepare(prepare) => self.ready.push_back(prepare.id()),
            Entry::Refuse(refused) => self.handle_refusal_durable(cx, refused),
            Entry::Write(writes) => self.handle_write_durable(cx, writes),
            Entry::Outcomes(outcomes) => {
                for (id, _) in outcomes {
                    self.handle_outcome_durable(cx, *id);
                }
            }
            Entry::Mark { session, answered, .. } => self.handle_mark_durable(cx, *session, answered),
            Entry::Forget { id, .. } => self.handle_forget_durable(cx, *id),
        }
    }

    /// Drops entries from memory that every replica has, but some for those that were away.
    fn trim(&mut self, cx: &Context<'_>) {
        let Role::Primary { peers, .. } = &self.role else { return };
        let least = peers.values().map(|peer| peer.stored.unwrap_or(0)).fold(self.durable, u64::min);
        self.trim_to(least, cx.limits.log_size);
    }

    /// Drops entries up to an index, but some, of no more than so many bytes: not each time, since that looks at all heads.
    fn trim_to(&mut self, least: u64, size: usize) {
        let (is_broad, is_large) = (self.log.breadth() > 2 * LOG_BREADTH, self.log.size() > 2 * size);
        let kept = match is_broad || is_large {
            true => self.log.light_end(LOG_KEPT, LOG_BREADTH, size),
            false => self.log.last().saturating_sub(LOG_KEPT),
        };
        let start = kept.min(least);
        let dropped = start.saturating_sub(self.log.start());
        let is_worth_it = dropped >= LOG_KEPT
            || is_broad && dropped > 0
            || is_large && dropped > 0 && dropped.saturating_mul(LOOKED_AT_MAX) >= self.state.breadth();
        if is_worth_it {
            self.trim_log(start);
        }
    }

    fn trim_log(&mut self, start: u64) {
        self.log.trim(start);
        self.state.trim_log(start);
    }

    /// Lets go of the whole log, as far as all replicas have it, when nothing has been logged for long, or there is little room: payload of it
    /// that nobody sees any more takes up space. A replica that has left the set may come back for what it lacks, and is waited for longer.
    pub(super) fn tick_idle(&mut self, cx: &Context<'_>) {
        let absence = cx.limits.idle_after.saturating_mul(ABSENCE);
        let is_whole = self.configuration.learners.is_empty()
            && self.shrunk_at.is_none_or(|shrunk_at| cx.now.since(shrunk_at) >= absence);
        let patience = if is_whole { cx.limits.idle_after } else { absence };
        let least = match &self.role {
            Role::Primary { established: true, peers, .. } => {
                peers.values().map(Peer::stored).fold(self.durable, u64::min)
            }
            Role::Backup { synced: true, .. } => self.durable.min(self.stored),
            _ => return,
        };
        self.is_idle = cx.now.since(self.logged_at) >= patience;
        let is_short = cx.is_short && cx.now.since(self.trimmed_at) >= SHORT_TRIM_EVERY;
        if (self.is_idle || is_short) && least > self.log.start() {
            self.trimmed_at = cx.now;
            self.trim_log(least);
        }
    }

    /// A new primary has begun an epoch.
    pub fn handle_reconcile(
        &mut self,
        cx: &mut Context<'_>,
        epoch: Epoch,
        epochs: &[(Epoch, u64)],
        start: u64,
    ) {
        let Role::Backup { synced, early, copy } = &mut self.role else { return };
        if epoch != self.configuration.epoch {
            return;
        }
        let mut index = self.stored;
        if !*synced {
            let common = self.log.common_with(epochs);
            if common >= start && common >= self.log.start() {
                *synced = true;
                early.clear();
                *copy = None;
                self.cut(cx, common);
                index = self.stored;
            } else if let Some(copy) = copy {
                let message = copy.ask(epoch, self.me.node);
                return self.to_primary_of_self(cx, message);
            } else {
                // Nothing of this log can be continued: the primary sends a copy, also if it has its whole log.
                index = nothing();
            }
        }
        let message = Message::Reconciled { epoch, index, node: self.me.node };
        self.to_primary_of_self(cx, message);
    }

    fn cut(&mut self, cx: &mut Context<'_>, last: u64) {
        if last < self.log.last() {
            self.log.cut(last);
            self.state.cut_log(last);
            cx.push(Effect::Cut { partition: self.id, last });
        }
        self.stored = self.stored.min(last);
    }

    /// A replica's log is a part of this one's up to an index.
    pub fn handle_reconciled(&mut self, cx: &mut Context<'_>, epoch: Epoch, index: u64, node: NodeId) {
        if epoch != self.configuration.epoch {
            return;
        }
        let Role::Primary { peers, .. } = &mut self.role else { return };
        let Some(peer) = peers.get_mut(&node) else { return };
        if index < self.log.start() || index == nothing() {
            self.send_copy(cx, node);
            return;
        }
        if peer.stored.is_none_or(|stored| stored < index) {
            (peer.stored, peer.sent) = (Some(index), index);
            peer.progressed(cx.now);
            peer.copy = None;
        }
        self.send_entries(cx, node);
        self.advance(cx);
    }

    /// Sends the first part of a copy. Nothing that follows it leaves the log as long as the replica has not got so far.
    fn send_copy(&mut self, cx: &mut Context<'_>, node: NodeId) {
        let (epoch, log) = (self.configuration.epoch, &self.log);
        let Role::Primary { peers, .. } = &mut self.role else { return };
        let Some(peer) = peers.get_mut(&node) else { return };
        let sending = peer.copy.get_or_insert_with(|| {
            Sending::new(Folded { index: log.last(), epochs: log.epochs().to_vec() }, &self.state)
        });
        let message = sending.begin(epoch, cx.limits.copy_max);
        peer.sent_at = cx.now;
        cx.push(Effect::ToNode(node, self.id, message));
    }

    /// A replica has a copy up to a byte.
    pub fn handle_copied(&mut self, cx: &mut Context<'_>, epoch: Epoch, index: u64, from: u64, node: NodeId) {
        if epoch != self.configuration.epoch {
            return;
        }
        let Role::Primary { peers, .. } = &mut self.role else { return };
        let Some(peer) = peers.get_mut(&node) else { return };
        let sending = peer.copy.as_mut().filter(|sending| sending.index() == index);
        if let Some(message) = sending.and_then(|sending| sending.next(epoch, from, cx.limits.copy_max)) {
            peer.progressed(cx.now);
            cx.push(Effect::ToNode(node, self.id, message));
        }
    }

    fn send_entries(&mut self, cx: &mut Context<'_>, node: NodeId) {
        let Role::Primary { peers, .. } = &mut self.role else { return };
        let Some(peer) = peers.get_mut(&node) else { return };
        let Some(stored) = peer.stored else { return };
        peer.sent_at = cx.now;
        let end = self.log.last().min(stored + BATCH_MAX);
        let mut room = cx.limits.copy_max;
        let fits = |(_, entry): &(Epoch, Arc<Entry>)| {
            let has_room = room > 0;
            room = room.saturating_sub(entry.size());
            has_room
        };
        let entries: Vec<_> =
            (stored + 1..=end).map_while(|index| self.log.entry(index)).take_while(fits).collect();
        peer.sent = peer.sent.max(stored + entries.len() as u64);
        let epoch = self.configuration.epoch;
        let message = Message::Append { epoch, previous: stored, entries, durable: self.durable };
        cx.push(Effect::ToNode(node, self.id, message));
    }

    /// A part of the primary's copy of everything up to an index.
    pub fn handle_copy(
        &mut self,
        cx: &mut Context<'_>,
        epoch: Epoch,
        folded: Folded,
        size: u64,
        from: u64,
        bytes: &[u8],
    ) {
        let Role::Backup { synced, early, copy } = &mut self.role else { return };
        if epoch != self.configuration.epoch || *synced {
            return;
        }
        let receiving = match copy {
            Some(receiving) if receiving.is_of(&folded, size) => receiving,
            // The first part of another copy.
            _ if from == 0 => copy.insert(Receiving::new(folded, size)),
            _ => return,
        };
        receiving.take(from, bytes);
        if !receiving.is_whole() {
            let message = receiving.ask(epoch, self.me.node);
            return self.to_primary_of_self(cx, message);
        }
        let Some((Folded { index, epochs }, state)) = copy.take().and_then(Receiving::into_state) else {
            return;
        };
        *synced = true;
        early.clear();
        self.log = Log::after(index, epochs.clone());
        self.state = State::clone(&state);
        self.stored = 0;
        self.durable = 0;
        cx.push(Effect::Install { partition: self.id, index, epochs, state });
        self.drop_readers(cx);
    }

    /// Entries from the primary.
    pub fn handle_append(
        &mut self,
        cx: &mut Context<'_>,
        epoch: Epoch,
        previous: u64,
        entries: Vec<(Epoch, Arc<Entry>)>,
        durable: u64,
    ) {
        let last = self.log.last();
        let Role::Backup { synced: true, early, .. } = &mut self.role else { return };
        if epoch != self.configuration.epoch {
            return;
        }
        if previous > last {
            if early.len() < EARLY_MAX {
                early.insert(previous, entries);
            }
            return;
        }
        let mut next = Some((previous, entries));
        while let Some((previous, entries)) = next.take() {
            let known = usize::try_from(self.log.last() - previous).unwrap_or(usize::MAX);
            for (epoch, entry) in entries.into_iter().skip(known) {
                self.store(cx, epoch, entry);
            }
            let last = self.log.last();
            let Role::Backup { early, .. } = &mut self.role else { return };
            if early.first_key_value().is_some_and(|(previous, _)| *previous <= last) {
                next = early.pop_first();
            }
        }
        self.durable = self.durable.max(durable.min(self.log.last()));
        self.trim_to(self.durable, cx.limits.log_size);
        if planted(Canary::StoredBeforeDurable) {
            self.stored = self.log.last();
        }
        if self.stored == self.log.last() {
            // Nothing new: the acknowledgement may have been lost.
            self.acknowledge(cx);
        }
        self.settle(cx);
    }

    /// A primary that has lacked for long what all its backups have gives its role up: everything here waits for its disk.
    fn watch_itself(&mut self, cx: &mut Context<'_>) {
        let Role::Primary { peers, .. } = &self.role else { return };
        let least = peers.values().filter(|peer| peer.is_counted).map(Peer::stored).min();
        let stored = self.stored;
        let newly = least.filter(|least| *least > stored).map(|least| (least, cx.now));
        self.lacks = self.lacks.filter(|(index, _)| *index > stored).or(newly);
        let is_slow = |since| {
            let gone = cx.now.since(since);
            gone >= SLOW_AFTER && gone >= SLOW_AFTER.saturating_add(patience(&self.log, stored))
        };
        if self.lacks.is_some_and(|(_, since)| is_slow(since)) {
            cx.push(Effect::ReplicaSlow(self.id, self.configuration.epoch, self.me));
        }
    }

    pub(super) fn tick_replication(&mut self, cx: &mut Context<'_>) {
        let Role::Primary { established, peers, .. } = &self.role else { return };
        let (established, epoch, last) = (*established, self.configuration.epoch, self.log.last());
        let behind: Vec<NodeId> = peers
            .iter()
            .filter(|(_, peer)| {
                peer.stored.is_some_and(|stored| stored < last) && peer.is_late(cx.now, &self.log)
            })
            .map(|(node, _)| *node)
            .collect();
        let unmatched = peers.values().any(|peer| peer.stored.is_none() && peer.is_late(cx.now, &self.log));
        self.watch_itself(cx);
        let durable = self.durable;
        let Role::Primary { peers, .. } = &mut self.role else { return };
        if !cx.has_lease {
            // The cluster manager is not heard, so perhaps nobody has told them of this epoch.
            peers.values_mut().for_each(|peer| peer.progress_at = cx.now);
        }
        for peer in peers.values_mut() {
            let waits = peer.stored.is_none_or(|stored| stored < last);
            if !peer.is_counted && established && peer.is_close(&self.log, cx.now) {
                (peer.is_counted, peer.progress_at) = (true, cx.now);
            }
            // What a learner lacks stays here as long as it is one, also if its disk never takes it.
            let patience = if peer.is_counted { SLOW_AFTER } else { peer.patience() };
            if peer.is_learner && peer.is_complete(durable) {
                cx.push(Effect::LearnerComplete(self.id, epoch, peer.replica));
            } else if waits && peer.is_over(cx.now, peer.progress_at, patience, &self.log) {
                cx.push(Effect::ReplicaSlow(self.id, epoch, peer.replica));
            }
        }
        for node in behind {
            if let Role::Primary { peers, .. } = &mut self.role
                && let Some(peer) = peers.get_mut(&node)
            {
                peer.resent += 1;
            }
            self.send_entries(cx, node);
        }
        if unmatched {
            if let Role::Primary { peers, .. } = &mut self.role {
                peers.values_mut().filter(|peer| peer.stored.is_none()).for_each(|peer| peer.resent += 1);
            }
            self.reconcile(cx);
        }
        let last = self.log.last();
        if let Role::Primary { peers, .. } = &mut self.role {
            for peer in peers.values_mut().filter(|peer| peer.stored == Some(last)) {
                peer.progress_at = cx.now;
            }
        }
    }
}
