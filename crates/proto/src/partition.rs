//! A partition at one replica: its log and state, and what the replica does in its role.
//!
//! The parts: `replication` keeps the replicas' logs equal and knows what is durable, `chain` visits heads, `decision` drives
//! transactions to their end, `deferred` logs what nobody waits for, `freezing` keeps writers out, `keeping` keeps what
//! snapshots with names show, `fetching` reads what a turn depends on, `chunks` logs writes whose heads are
//! elsewhere, `staging` receives payload beforehand, `sessions` forgets clients that are gone, `reading` answers readers, `listing`
//! those who want names, `subscribers` gives out copies of heads, `sweeping` deletes what dropped keyspaces have left, `collection` drops versions, and `tombstones` what is left then.
//! None of them calls the network or the disk: they push effects.

mod chain;
mod chunks;
mod collection;
mod copying;
mod decision;
mod deferred;
mod fetching;
mod freezing;
mod keeping;
mod listing;
mod reading;
mod reminders;
mod replication;
mod report;
mod sessions;
mod shortages;
mod staging;
mod subscribers;
mod sweeping;
mod tombstones;
mod votes;

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

pub use report::OldestPin;

use crate::{
    Configuration, Epoch, NodeId, Outcome, PartitionId, Replica, Time, TransactionId,
    effects::{Context, Effect},
    log::Log,
    message::Answer,
    state::State,
};

/// A partition at one replica.
///
/// Invariants: a promise (a vote, a refusal, an acknowledgement) is sent only for entries at or below `durable`, or `stored` for a
/// backup's own log; nothing is served before this epoch's marker is on every replica.
#[derive(Debug)]
pub struct Partition {
    id: PartitionId,
    me: Replica,
    configuration: Configuration,
    log: Log,
    state: State,
    /// This replica's log is durable up to here.
    stored: u64,
    /// As primary: the entry that all who count have had durable for the longest time and that is not durable here, and since when.
    lacks: Option<(u64, Time)>,
    /// When an entry was logged last, here, or this replica got its role,
    logged_at: Time,
    /// and whether that is long ago.
    is_idle: bool,
    /// When the log was let go of as far as can be.
    trimmed_at: Time,
    /// Since when the set has fewer replicas than it had.
    shrunk_at: Option<Time>,
    /// When it was last looked for keeps that are over.
    keeps_looked_at: Time,
    /// The log is durable on all replicas of the set up to here, as far as this one knows.
    durable: u64,
    role: Role,
    chain: chain::Queue,
    drives: BTreeMap<TransactionId, decision::Drive>,
    tellers: BTreeMap<TransactionId, decision::Teller>,
    forgetting: BTreeMap<TransactionId, (u64, PartitionId)>,
    deferred: deferred::Deferred,
    /// Whether it is told with every tick that time passes.
    pub(crate) is_awake: bool,
    /// Transactions that may have become ready to be voted for.
    ready: VecDeque<TransactionId>,
    early_votes: votes::EarlyVotes,
    held: BTreeMap<TransactionId, chunks::Held>,
    /// Durable writes to chunks whose heads are elsewhere, to be asked about once they are old.
    unsure: reminders::Reminders,
    renewals: staging::Renewals,
    sessions: sessions::Sessions,
    readers: reading::Readers,
    freezes: freezing::Freezes,
    fetches: fetching::Fetches,
    collection: collection::Collection,
    tombstones: tombstones::Tombstones,
    subscribers: subscribers::Subscribers,
    sweeping: sweeping::Sweeping,
    shortages: shortages::Shortages,
}

#[derive(Debug)]
enum Role {
    /// Not a holder in this epoch.
    None,
    /// Orders the log.
    Primary { marker: u64, established: bool, peers: BTreeMap<NodeId, replication::Peer> },
    /// Follows the primary; `synced` once its log is a part of the primary's.
    Backup { synced: bool, early: replication::Early, copy: Option<copying::Receiving> },
}

pub use copying::Folded;
pub use fetching::Wanted;
pub(crate) use reading::Form;
pub use reading::PIN_TIMEOUT;

/// A thing that was said and not answered is said again after this many microseconds.
pub const RESEND_AFTER: u64 = 20_000;

impl Partition {
    /// A partition of which this replica knows nothing yet.
    pub fn new(id: PartitionId, me: Replica) -> Self {
        Partition::restored(id, me, Log::default(), State::new(id))
    }

    /// A partition with the log and state that a restarted node found on its disk.
    pub fn restored(id: PartitionId, me: Replica, log: Log, state: State) -> Self {
        Partition {
            id,
            me,
            configuration: Configuration {
                epoch: Epoch(0),
                since: crate::RingVersion(0),
                floor: crate::RingVersion(0),
                replicas: Vec::new(),
                learners: Vec::new(),
            },
            stored: log.last(),
            lacks: None,
            logged_at: Time(0),
            is_idle: false,
            trimmed_at: Time(0),
            shrunk_at: None,
            keeps_looked_at: Time(0),
            durable: 0,
            log,
            state,
            role: Role::None,
            chain: chain::Queue::default(),
            drives: BTreeMap::new(),
            tellers: BTreeMap::new(),
            forgetting: BTreeMap::new(),
            deferred: deferred::Deferred::default(),
            is_awake: false,
            ready: VecDeque::new(),
            early_votes: votes::EarlyVotes::default(),
            held: BTreeMap::new(),
            unsure: reminders::Reminders::default(),
            renewals: staging::Renewals::new(),
            sessions: sessions::Sessions::default(),
            readers: reading::Readers::default(),
            freezes: freezing::Freezes::default(),
            fetches: fetching::Fetches::default(),
            collection: collection::Collection::default(),
            tombstones: tombstones::Tombstones::default(),
            subscribers: subscribers::Subscribers::default(),
            sweeping: sweeping::Sweeping::default(),
            shortages: shortages::Shortages::default(),
        }
    }

    /// Which partition it is.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// What its log folds into at this replica.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Counts what it holds of these keyspaces from now on.
    pub fn count(&mut self, keyspaces: &alloc::collections::BTreeSet<tyr_types::KeyspaceId>) {
        self.state.count(keyspaces);
    }

    /// What has changed of what it counts, in bytes.
    pub fn take_changes(&mut self) -> Vec<(tyr_types::KeyspaceId, i128)> {
        self.state.take_changes()
    }

    /// Its log at this replica.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Who holds it, as far as this replica knows.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Whether nothing has been logged for long, so that the log was let go of as far as can be.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Whether nothing here waits for a message, a write, or time that is not long.
    pub fn rests(&self) -> bool {
        let is_settled = match &self.role {
            Role::None => true,
            Role::Primary { established, peers, .. } => {
                *established && peers.values().all(|peer| peer.has_all(self.log.last()))
            }
            Role::Backup { synced, copy, .. } => *synced && copy.is_none(),
        };
        is_settled
            && self.stored == self.log.last()
            && self.chain.len() == 0
            && self.drives.is_empty()
            && self.forgetting.is_empty()
            && self.deferred.is_empty()
            && self.held.is_empty()
            && self.unsure.is_empty()
            && self.renewals.is_empty()
            && self.readers.are_none()
            && self.freezes.are_none()
            && self.fetches.are_none()
            && self.collection.is_done()
            && self.tombstones.are_none()
            && self.subscribers.are_none()
    }

    /// Whether this replica orders the log and serves.
    pub fn is_established(&self) -> bool {
        matches!(self.role, Role::Primary { established: true, .. })
    }

    /// Whether what this replica does not have is nowhere. A primary that has not heard of a later epoch lacks what was logged in that
    /// one; with a lease there is none. Who asks hears nothing otherwise, and asks again.
    fn knows_what_is_not_there(&self, cx: &Context<'_>) -> bool {
        self.is_established() && cx.has_lease
    }

    /// Whether this replica leads in an epoch that is not the first, and has nothing of those before: all that had it have lost it.
    pub fn has_begun_anew(&self) -> bool {
        let before = self.log.epochs().first().map(|(epoch, _)| *epoch);
        matches!(self.role, Role::Primary { .. })
            && self.configuration.epoch > Epoch(1)
            && before.is_none_or(|first| first == self.configuration.epoch)
    }

    /// Whether this replica holds the partition in the epoch that it knows.
    pub fn has_role(&self) -> bool {
        !matches!(self.role, Role::None)
    }

    /// How many transactions are on their way here: waiting, undecided, or not known everywhere.
    pub fn unfinished(&self) -> usize {
        let undecided = self.state.records().filter(|(_, record)| record.outcome.is_none()).count();
        let staged = self.state.stages().ids().len();
        self.chain.len() + undecided + self.drives.len() + self.held.len() + self.freezes.len() + staged
    }

    /// What is on its way here, for a report.
    pub fn describe(&self) -> alloc::string::String {
        let undecided: Vec<_> = self
            .state
            .records()
            .filter(|(_, record)| record.outcome.is_none())
            .map(|(id, record)| {
                alloc::format!("{id}{}", if record.prepare.is_some() { "" } else { " (write)" })
            })
            .collect();
        let drives: Vec<_> = self.drives.iter().map(|(id, drive)| alloc::format!("{id} {drive}")).collect();
        let versions = self.state.chunks().filter(|(_, chunk)| chunk.version_count() > 1).count();
        alloc::format!(
            "{} {} log {}..{} stored {} durable {}: {} wait, staged {:?}, undecided {undecided:?}, drives {drives:?}, held {:?}, {versions} with versions",
            self.id,
            match &self.role {
                Role::None => "none",
                Role::Primary { established: true, .. } => "primary",
                Role::Primary { .. } => "new primary",
                Role::Backup { synced: true, .. } => "backup",
                Role::Backup { .. } => "new backup",
            },
            self.log.start(),
            self.log.last(),
            self.stored,
            self.durable,
            self.chain.len(),
            self.state.stages().ids(),
            self.held
                .iter()
                .map(|(id, held)| alloc::format!("{id} {}", self.describe_held(held)))
                .collect::<Vec<_>>(),
        )
    }

    /// Does what time brings: says again what was not answered, asks for fates, expires pins, collects.
    pub fn handle_tick(&mut self, cx: &mut Context<'_>) {
        self.tick_replication(cx);
        if self.is_established() {
            self.tick_deferred(cx);
            self.tick_freezes(cx);
            self.tick_keeps(cx);
            self.tick_fetches(cx);
            self.tick_chain(cx);
            self.tick_decisions(cx);
            self.tick_chunks(cx);
            self.tick_room(cx);
            self.tick_staging(cx);
            self.tick_sessions(cx);
            self.tick_sweeping(cx);
            self.tick_collection(cx);
            self.tick_tombstones(cx);
        }
        self.tick_idle(cx);
        self.tick_readers(cx);
        self.tick_subscribers(cx);
    }

    /// After any change of the state: votes that became possible, transactions and freezes that wait, readers that wait.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let mut goes_on = self.is_established();
        while goes_on {
            self.vote_for_ready(cx);
            self.run_waiting(cx);
            self.vote_for_ready(cx);
            self.run_frozen(cx);
            goes_on = self.chain.is_stirred();
        }
        self.wake_readers(cx);
    }

    /// Learns how a transaction ended, wherever that was decided.
    fn learn(&mut self, id: TransactionId, outcome: Outcome) {
        let superseded = self.state.learn(id, outcome);
        self.note_superseded(superseded);
        let Some(record) = self.state.record(id) else { return };
        let (prepare, write) = (record.prepare.clone(), record.write.clone());
        if let Some((_, writes)) = write.filter(|_| outcome != Outcome::Committed) {
            // No head may know of these chunks.
            for (blob, _, write) in &writes.writes {
                self.note_tombstone(&crate::ChunkName { blob: blob.clone(), index: write.chunk });
            }
        }
        let Some((_, prepare)) = prepare else { return };
        for (blob, only_reads) in decision::own_heads(&prepare) {
            // Who may be voted for now that the head moved on.
            self.ready
                .extend(self.state.head(blob).into_iter().flat_map(|head| head.newly_settled(!only_reads)));
        }
        self.see_frozen();
    }

    /// Whether a disk of the set has no room for more than what has been promised.
    fn is_short(&self, cx: &Context<'_>) -> bool {
        let Role::Primary { peers, .. } = &self.role else { return cx.is_short };
        cx.is_short || peers.values().any(replication::Peer::is_short)
    }

    /// Whether too few replicas are left to take writes.
    fn is_below_minimum(&self, cx: &Context<'_>) -> bool {
        self.configuration.replicas.len() < usize::from(cx.min_replicas)
    }

    fn elsewhere(&self) -> Answer {
        Answer::Elsewhere { partition: self.id, configuration: self.configuration.clone() }
    }

    fn to_primary_of_self(&self, cx: &mut Context<'_>, message: crate::message::Message) {
        cx.push(Effect::ToPrimary(self.id, message));
    }
}

#[cfg(test)]
mod tests;
