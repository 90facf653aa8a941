//! One shard of a server: takes messages, completions, and ticks, gives them to its partitions, and says where what they want goes.
//!
//! This file shows the whole flow. Partitions share nothing; a node may have as many shards as it likes, each on its own thread. What
//! is meant for a partition of another shard of the node goes out like everything else.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use crate::{
    ClassId, Configuration, Epoch, Keyspaces, Limits, NodeId, PartitionId, Replica, RingVersion, SessionId,
    ShardId, Time,
    appends::Appends,
    cached::CachedHeads,
    cluster::{ClassSettings, Proposal},
    early::Early,
    effects::{Context, Effect},
    entry::Entry,
    message::{Answer, Envelope, Message},
    partition::{Folded, Form, Partition},
    quota::{Bounds, Rooms, Use, Uses},
    state::State,
};

/// A partition in which nothing waits hears that time passes after so many microseconds only: what it brings there, as the end of a pin, is
/// not urgent.
const REST: u64 = 160_000;

/// A server as a pure state machine.
#[derive(Debug)]
pub struct Router {
    me: Replica,
    shard: ShardId,
    ring: BTreeMap<PartitionId, Configuration>,
    partitions: BTreeMap<PartitionId, Partition>,
    /// Those of them in which something waits for a message, a write, or time.
    awake: BTreeSet<PartitionId>,
    /// When all were told last that time passes.
    all_told_at: Time,
    keyspaces: Arc<Keyspaces>,
    effects: VecDeque<Effect>,
    appends: Appends,
    /// What a handler wants done, until it is known what of it is local.
    fresh: VecDeque<Effect>,
    local: VecDeque<Envelope>,
    limits: Limits,
    classes: BTreeMap<ClassId, ClassSettings>,
    /// The newest ring version that was heard of.
    version: RingVersion,
    is_short: bool,
    /// What primaries elsewhere were told of that.
    told_short: bool,
    /// Roles that were given up in an epoch that is not over yet.
    released: BTreeMap<PartitionId, (Epoch, Replica)>,
    cached: CachedHeads,
    rooms: Rooms,
    /// When it was counted last what all partitions hold.
    counted_at: Option<Time>,
    early: Early,
}

/// What a node's surroundings have to do for it.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this to a node.
    Send(NodeId, Envelope),
    /// Send this to a client.
    Answer(SessionId, Answer),
    /// Write an entry to a partition's log after everything written before, and say when it is durable.
    Store {
        /// The partition.
        partition: PartitionId,
        /// The entry's index.
        index: u64,
        /// Its epoch.
        epoch: Epoch,
        /// The entry.
        entry: Arc<Entry>,
    },
    /// Drop every entry of a partition's log after this one.
    Cut(PartitionId, u64),
    /// Replace a partition's log by a state, and say when that is durable.
    Install {
        /// The partition.
        partition: PartitionId,
        /// The entry up to which the state is folded.
        index: u64,
        /// The epochs of the log up to there.
        epochs: alloc::vec::Vec<(Epoch, u64)>,
        /// The state.
        state: Arc<State>,
    },
    /// Tell the cluster manager that a learner has everything.
    LearnerComplete(PartitionId, Epoch, Replica),
    /// Tell the cluster manager that this replica serves and decides nothing more in this epoch.
    Released(PartitionId, Epoch, Replica),
    /// Ask the cluster manager to remove a replica that does not keep up.
    ReplicaSlow(PartitionId, Epoch, Replica),
    /// Ask the cluster manager for a ring version, this one at least.
    AskVersion(RingVersion),
}

impl Router {
    /// A server of one shard that holds nothing yet.
    pub fn new(me: Replica, keyspaces: Arc<Keyspaces>) -> Self {
        Router::of_shard(ShardId::ONLY, me, keyspaces)
    }

    /// A shard that holds nothing yet. It is told of the partitions of all shards, and runs its own.
    pub fn of_shard(shard: ShardId, me: Replica, keyspaces: Arc<Keyspaces>) -> Self {
        Router {
            me,
            shard,
            ring: BTreeMap::new(),
            partitions: BTreeMap::new(),
            awake: BTreeSet::new(),
            all_told_at: Time(0),
            keyspaces,
            effects: VecDeque::new(),
            appends: Appends::default(),
            fresh: VecDeque::new(),
            local: VecDeque::new(),
            limits: Limits::default(),
            classes: BTreeMap::new(),
            version: RingVersion(0),
            is_short: false,
            told_short: false,
            released: BTreeMap::new(),
            cached: CachedHeads::new(me),
            rooms: Rooms::default(),
            counted_at: None,
            early: Early::default(),
        }
    }

    /// Which start of which node it is.
    pub fn me(&self) -> Replica {
        self.me
    }

    /// Which shard of its node it is.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The partitions that it holds.
    pub fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.values()
    }

    /// One of the partitions.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(&id)
    }

    /// Takes a partition that was found on disk at the start.
    pub fn restore(&mut self, partition: Partition) {
        self.partitions.insert(partition.id(), partition);
    }

    /// The next thing that the surroundings have to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        let appended = || {
            let (node, partition, message) = self.appends.pop()?;
            Some(Effect::ToNode(node, partition, message))
        };
        self.effects.pop_front().or_else(appended).map(|effect| match effect {
            Effect::ToPrimary(partition, message) => {
                let primary = self.ring.get(&partition).and_then(Configuration::primary);
                // Whoever is not there does not hear it, like any message that is lost.
                let node = primary.map_or(self.me.node, |primary| primary.node);
                Output::Send(node, Envelope { partition, message })
            }
            Effect::ToNode(node, partition, message) => Output::Send(node, Envelope { partition, message }),
            Effect::ToClient(session, answer) => Output::Answer(session, answer),
            Effect::Store { partition, index, epoch, entry } => {
                Output::Store { partition, index, epoch, entry }
            }
            Effect::Cut { partition, last } => Output::Cut(partition, last),
            Effect::Install { partition, index, epochs, state } => {
                Output::Install { partition, index, epochs, state }
            }
            Effect::LearnerComplete(partition, epoch, replica) => {
                Output::LearnerComplete(partition, epoch, replica)
            }
            Effect::Released(partition, epoch, replica) => Output::Released(partition, epoch, replica),
            Effect::ReplicaSlow(partition, epoch, replica) => Output::ReplicaSlow(partition, epoch, replica),
            Effect::AskVersion(version) => Output::AskVersion(version),
        })
    }

    /// Who holds a partition has changed.
    pub fn handle_configuration(&mut self, now: Time, has_lease: bool, id: PartitionId, new: Configuration) {
        if self.ring.get(&id).is_some_and(|known| known.epoch >= new.epoch) {
            return;
        }
        self.version = self.version.max(new.since);
        self.ring.insert(id, new.clone());
        // What a replica that lost its role has is kept: it may be all that is left of the last complete set.
        let is_named = new.replicas.contains(&self.me) || new.learners.contains(&self.me);
        if (is_named && self.shard.holds(id)) || self.partitions.contains_key(&id) {
            self.partitions.entry(id).or_insert_with(|| Partition::new(id, self.me));
            self.with(now, has_lease, id, |partition, cx| partition.configure(cx, new));
        }
        self.deliver_local(now, has_lease);
    }

    /// A change of who holds a partition waits for those who lose a role by it. One that does gives it up at once.
    pub fn handle_proposal(
        &mut self,
        now: Time,
        has_lease: bool,
        id: PartitionId,
        epoch: Epoch,
        proposal: &Proposal,
    ) {
        let Some(configuration) = self.ring.get(&id).filter(|configuration| configuration.epoch == epoch)
        else {
            return;
        };
        if !self.shard.holds(id) {
            return;
        }
        let held = configuration.replicas.contains(&self.me);
        let leads = configuration.primary() == Some(self.me);
        let loses = (held && !proposal.replicas.contains(&self.me))
            || (leads && proposal.replicas.first() != Some(&self.me));
        if loses {
            self.with(now, has_lease, id, Partition::release);
            self.released.insert(id, (epoch, self.me));
            self.say_released();
        }
    }

    /// Tells which roles were given up until the cluster manager has begun the next epoch.
    fn say_released(&mut self) {
        let ring = &self.ring;
        self.released.retain(|id, (epoch, _)| ring.get(id).is_some_and(|known| known.epoch == *epoch));
        let released =
            self.released.iter().map(|(id, (epoch, replica))| Effect::Released(*id, *epoch, *replica));
        self.effects.extend(released);
    }

    /// This node was evicted though it runs: it goes on as a new incarnation, with its memory and without any role.
    pub fn begin_incarnation(&mut self, now: Time, me: Replica) {
        self.me = me;
        self.cached.begin_incarnation(me);
        let ids: alloc::vec::Vec<_> = self.partitions.keys().copied().collect();
        for id in ids {
            self.with(now, false, id, |partition, cx| partition.begin_incarnation(cx, me));
        }
    }

    /// The keyspaces have changed.
    pub fn handle_keyspaces(&mut self, keyspaces: Arc<Keyspaces>) {
        self.keyspaces = keyspaces;
        self.early.note_change();
    }

    /// What a placement class is.
    pub fn handle_class(&mut self, class: ClassId, settings: ClassSettings) {
        self.classes.insert(class, settings);
    }

    /// The cluster manager has told everything up to a version of the ring.
    pub fn handle_ring_version(&mut self, version: RingVersion) {
        self.version = self.version.max(version);
    }

    /// Whether the disk has no room for more than what has been promised. With the next tick those learn of it that lead what this node backs up.
    pub fn handle_room(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// Has primaries elsewhere hear that there is room, or none any more. If that is lost, who takes a disk for full asks, and who does not hears it with what
    /// is written next.
    fn tell_room(&mut self, now: Time, has_lease: bool) {
        if core::mem::replace(&mut self.told_short, self.is_short) == self.is_short {
            return;
        }
        for id in self.partitions.keys().copied().collect::<alloc::vec::Vec<_>>() {
            self.with(now, has_lease, id, |partition, cx| partition.handle_room(cx));
        }
    }

    /// Which keyspaces have quotas, and what lies elsewhere of them.
    pub fn handle_bounds(&mut self, now: Time, bounds: &Bounds) {
        self.rooms.set(bounds);
        self.count(now);
    }

    /// What the partitions that it leads hold of keyspaces with quotas.
    pub fn uses(&self) -> Uses {
        let mut uses: Uses = self.rooms.keyspaces().map(|keyspace| (keyspace, Use::default())).collect();
        for partition in self.partitions.values().filter(|partition| partition.is_established()) {
            for (keyspace, counted) in partition.state().counts().uses() {
                uses.entry(keyspace).or_default().add(counted);
            }
        }
        uses
    }

    /// Counts what all partitions hold that it leads now. In between, each tells what has changed.
    fn count(&mut self, now: Time) {
        self.counted_at = Some(now);
        let counted: BTreeSet<_> = self.rooms.keyspaces().collect();
        for partition in self.partitions.values_mut() {
            if partition.is_established() || counted.is_empty() {
                partition.count(&counted);
            }
            drop(partition.take_changes());
        }
        let led = || self.partitions.values().filter(|partition| partition.is_established());
        let bytes = |keyspace| led().map(|partition| partition.state().counts().bytes(keyspace)).sum();
        let sums: alloc::vec::Vec<(_, u128)> =
            counted.iter().map(|keyspace| (*keyspace, bytes(*keyspace))).collect();
        sums.into_iter().for_each(|(keyspace, bytes)| self.rooms.set_here(keyspace, bytes));
    }

    /// How much the node takes on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// An entry of a partition's log is durable here.
    pub fn handle_stored(&mut self, now: Time, has_lease: bool, id: PartitionId, index: u64, epoch: Epoch) {
        self.with(now, has_lease, id, |partition, cx| partition.handle_stored(cx, index, epoch));
        self.deliver_local(now, has_lease);
    }

    /// Time passes: to be called every few milliseconds.
    pub fn handle_tick(&mut self, now: Time, has_lease: bool) {
        for envelope in self.early.take() {
            self.dispatch(now, has_lease, envelope);
        }
        self.tell_room(now, has_lease);
        let ids: alloc::vec::Vec<_> = match now.since(self.all_told_at) >= REST {
            true => self.partitions.keys().copied().collect(),
            false => self.awake.iter().copied().collect(),
        };
        if ids.len() == self.partitions.len() {
            self.all_told_at = now;
        }
        for id in ids {
            self.with(now, has_lease, id, Partition::handle_tick);
            if let Some(partition) = self.partitions.get_mut(&id).filter(|partition| partition.rests()) {
                partition.is_awake = false;
                self.awake.remove(&id);
            }
        }
        if !self.rooms.is_empty() && self.counted_at.is_none_or(|at| now.since(at) >= COUNT_EVERY) {
            self.count(now);
        }
        self.cached.handle_tick(now);
        self.keep_local();
        self.say_released();
        self.deliver_local(now, has_lease);
    }

    /// A message arrives.
    pub fn handle_message(&mut self, now: Time, has_lease: bool, envelope: Envelope) {
        self.dispatch(now, has_lease, envelope);
        self.deliver_local(now, has_lease);
    }

    fn with(
        &mut self,
        now: Time,
        has_lease: bool,
        id: PartitionId,
        act: impl FnOnce(&mut Partition, &mut Context<'_>),
    ) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let mut cx = Context {
            now,
            keyspaces: &self.keyspaces,
            has_lease,
            is_short: self.is_short,
            version: self.version,
            limits: self.limits,
            min_replicas: self.classes.get(&id.class).map_or(1, |class| class.min_replicas),
            cached: &mut self.cached,
            rooms: &mut self.rooms,
            effects: &mut self.fresh,
        };
        act(partition, &mut cx);
        if !core::mem::replace(&mut partition.is_awake, true) {
            self.awake.insert(id);
        }
        if !self.rooms.is_empty() && partition.is_established() {
            for (keyspace, change) in partition.take_changes() {
                self.rooms.change(keyspace, change);
            }
        }
        self.keep_local();
    }

    /// What a partition says to another one of this shard takes no way over the network.
    fn keep_local(&mut self) {
        self.fresh.extend(core::iter::from_fn(|| self.cached.poll_effect()));
        while let Some(effect) = self.fresh.pop_front() {
            let is_local = self.is_local(&effect);
            match effect {
                Effect::ToPrimary(partition, message) | Effect::ToNode(_, partition, message) if is_local => {
                    self.local.push_back(Envelope { partition, message });
                }
                Effect::ToNode(node, partition, message) => {
                    let now = self.appends.hold(node, partition, message, self.limits.copy_max);
                    self.effects.extend(now.map(|message| Effect::ToNode(node, partition, message)));
                }
                effect => self.effects.push_back(effect),
            }
        }
    }

    fn is_local(&self, effect: &Effect) -> bool {
        match effect {
            Effect::ToPrimary(partition, _) => self.is_primary_of(*partition),
            Effect::ToNode(node, partition, _) => *node == self.me.node && self.shard.holds(*partition),
            _ => false,
        }
    }

    fn is_primary_of(&self, partition: PartitionId) -> bool {
        self.shard.holds(partition)
            && self.ring.get(&partition).and_then(Configuration::primary) == Some(self.me)
    }

    fn deliver_local(&mut self, now: Time, has_lease: bool) {
        while let Some(envelope) = self.local.pop_front() {
            self.dispatch(now, has_lease, envelope);
        }
    }

    fn dispatch(&mut self, now: Time, has_lease: bool, envelope: Envelope) {
        let Envelope { partition: id, message } = envelope;
        let message = match message {
            Message::Cached { blob, ask, lasts, stat } => {
                return self.cached.handle_cached(now, &blob, ask, lasts, stat);
            }
            Message::Uncache { of, from, blob, holder, ask } => {
                self.cached.handle_uncache((from, of), id, blob, holder, ask);
                return self.keep_local();
            }
            message => message,
        };
        if let Some(session) = message.client()
            && !self.serves(id, &message)
        {
            if let Some(configuration) = self.ring.get(&id).cloned() {
                let answer = Answer::Elsewhere { partition: id, configuration };
                self.effects.push_back(Effect::ToClient(session, answer));
            }
            return;
        }
        let Some(message) = self.early.sift(&self.keyspaces, id, message) else { return };
        let session = message.client();
        self.with(now, has_lease, id, |partition, cx| {
            if let Some(session) = session {
                partition.hear(cx, session);
            }
            deliver(partition, cx, message);
        });
    }

    fn serves(&self, id: PartitionId, message: &Message) -> bool {
        let Some(partition) = self.partitions.get(&id) else { return false };
        let is_of_reader = matches!(message, Message::Kept { .. } | Message::Pin { .. });
        is_of_reader || message.read().is_some() || partition.is_established()
    }
}

/// Who leads what changes seldom: it is counted anew this often, in microseconds.
const COUNT_EVERY: u64 = 100_000;

fn deliver(partition: &mut Partition, cx: &mut Context<'_>, message: Message) {
    match message {
        Message::Start(plan) => partition.handle_pass(cx, plan, alloc::vec::Vec::new()),
        Message::AskOutcome { id, settle } => partition.handle_ask_outcome(cx, id, settle),
        Message::Answered { session, answered, born } => {
            partition.handle_answered(cx, session, answered, born);
        }
        Message::Stage(stage) => partition.handle_stage(cx, stage),
        Message::StageCopy(copy) => partition.handle_stage_copy(cx, copy),
        Message::KeepStages { id } => partition.handle_keep_stages(cx, id),
        Message::Look { request, blob } => partition.handle_look(cx, request, blob),
        Message::Get { request, blob, size_max } => {
            partition.handle_get(cx, request, blob, size_max, [].into());
        }
        Message::GetWith { request, blob, size_max, others } => {
            partition.handle_get(cx, request, blob, size_max, others);
        }
        Message::Borrow { request, blob, size_max } => partition.handle_borrow(cx, request, blob, size_max),
        Message::GiveBack { session, blob, asked } => partition.handle_give_back(cx, &blob, session, asked),
        Message::Stat { request, blobs } => partition.handle_stat(cx, request, blobs),
        Message::Pin { request, keep } => partition.handle_pin(cx, request, keep),
        Message::Freeze { freeze, stands } => partition.handle_freeze(cx, freeze, stands),
        Message::TellFrozen { request, after } => partition.handle_tell_frozen(cx, request, after),
        Message::Frozen { request, stand, point } => partition.handle_frozen(cx, request, stand, point),
        Message::Read { request, chunk, range, at } => {
            partition.handle_read(cx, request, chunk, range, at, Form::Sent);
        }
        Message::Locate { request, chunk, range, at } => {
            partition.handle_read(cx, request, chunk, range, at, Form::Located);
        }
        Message::Seek { request, chunk, range, what } => {
            partition.handle_read(cx, request, chunk, range, None, Form::Sought(what));
        }
        Message::Kept { request, keep, after } => partition.handle_kept(cx, request, &keep, after),
        Message::Scan { request, after, inclusive, limit } => {
            partition.handle_scan(cx, request, after, inclusive, limit);
        }

        Message::Pass { plan, stops } => partition.handle_pass(cx, plan, stops),
        Message::Release { id } => partition.handle_release(cx, id),
        Message::Write { writes, driver } => partition.handle_write(cx, &writes, driver),
        Message::Vote { id, part } => partition.handle_part_voted(cx, id, part),
        Message::AskVote { id, decider } => partition.handle_ask_vote(cx, id, decider),
        Message::Outcome { id, outcome, driver } => partition.handle_outcome(cx, id, outcome, driver),
        Message::OutcomeStored { id, part } => partition.handle_outcome_stored(cx, id, part),
        Message::Olds { id, part, olds } => partition.handle_olds(cx, id, part, olds),
        Message::Ask { id, partition: from, node } => partition.handle_ask(cx, id, from, node),
        Message::AskNumber { number, id, partition: from } => {
            partition.handle_ask_number(cx, number, id, from)
        }
        Message::NumberLost { number, id } => partition.handle_number_lost(cx, id, number),
        Message::AskStands { number, id, asked, partition: from } => {
            partition.handle_ask_stands(cx, (number, id), asked, from);
        }
        Message::Stands { id, asked, stands } => partition.handle_stands(cx, id, asked, stands),
        Message::AskPrevious { number, previous, id, partition: from } => {
            partition.handle_ask_previous(cx, (number, previous), id, from);
        }
        Message::PreviousOver { number, id } => partition.handle_previous_over(cx, id, number),
        Message::Forget { id, answered, driver } => partition.handle_forget(cx, id, answered, driver),
        Message::Forgotten { id, part } => partition.handle_forgotten(cx, id, part),
        Message::Fetch { id, chunk, range, at, partition: from } => {
            partition.handle_fetch(cx, id, chunk, range, at, from);
        }
        Message::Fetched { id, chunk, range, at, bytes } => {
            partition.handle_fetched(cx, id, chunk, range, at, bytes);
        }

        Message::Pull { id, payload, part, partition: from } => {
            partition.handle_pull(cx, id, payload, &part, from);
        }
        Message::Pulled(stage) => partition.handle_pulled(cx, stage),
        Message::Settle { id, partition: from, node } => partition.handle_settle(cx, id, from, node),
        Message::SendCopy { copy, partition: to } => partition.handle_send_copy(cx, &copy, to),
        Message::CopyLost { id } => partition.handle_copy_lost(cx, id),
        Message::Settled { id } => partition.handle_settled(cx, id),
        Message::AskRoom { partition: from } => partition.handle_ask_room(cx, from),
        Message::Room { partition: from, is_short } => partition.handle_room_of(cx, from, is_short),

        Message::Append { epoch, previous, entries, durable } => {
            partition.handle_append(cx, epoch, previous, entries, durable);
        }
        Message::Stored { epoch, index, node, is_short } => {
            partition.handle_replica_stored(cx, epoch, index, node, is_short);
        }
        Message::Reconcile { epoch, epochs, start } => partition.handle_reconcile(cx, epoch, &epochs, start),
        Message::Reconciled { epoch, index, node } => partition.handle_reconciled(cx, epoch, index, node),
        Message::Copy { epoch, index, epochs, size, from, bytes } => {
            partition.handle_copy(cx, epoch, Folded { index, epochs }, size, from, &bytes);
        }
        Message::Copied { epoch, index, from, node } => partition.handle_copied(cx, epoch, index, from, node),

        Message::AskPins { epoch, blobs } => partition.handle_ask_pins(cx, epoch, &blobs),
        Message::Pins { epoch, node, blobs } => partition.handle_pins(cx, epoch, node, blobs),
        Message::Collect { head, discards } => partition.handle_collect(cx, head, discards),
        Message::Collected { discards } => partition.handle_collected(cx, &discards),
        Message::AskPurge { tombstones, partition: from, ask } => {
            partition.handle_ask_purge(cx, tombstones, from, ask);
        }
        Message::Purge { gone, alive, ask } => partition.handle_purge(gone, &alive, ask),

        Message::Subscribe { blob, holder, partition: at, ask } => {
            partition.handle_subscribe(cx, blob, holder, at, ask);
        }
        Message::Uncached { blob, holder, partition: at, ask } => {
            partition.handle_uncached(cx, &blob, holder, at, ask);
        }
        // They are for the shard.
        Message::Cached { .. } | Message::Uncache { .. } => {}
    }
}

impl Message {
    /// The client that waits for an answer, if one does.
    fn client(&self) -> Option<SessionId> {
        match self {
            Message::Start(plan) => Some(plan.id.session),
            Message::AskOutcome { id, .. } | Message::KeepStages { id } => Some(id.session),
            Message::Stage(stage) => Some(stage.id.session),
            Message::StageCopy(copy) => Some(copy.id.session),
            Message::Answered { session, .. } | Message::GiveBack { session, .. } => Some(*session),
            Message::Freeze { freeze, .. } => Some(freeze.request.session),
            Message::Pin { request, .. }
            | Message::TellFrozen { request, .. }
            | Message::Kept { request, .. } => Some(request.session),
            _ => self.read().map(|(request, _)| request.session),
        }
    }
}
