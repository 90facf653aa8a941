//! The event loop: what happens when, in an order that only the seed decides.
//!
//! `event` names what happens, `mail` is the network, `faults` what goes wrong, `doom` drops a keyspace, `watch` and `circles` what must hold though no client can see it,
//! `rations` how much there may be, `orders` what clients have the cluster manager do, `stations` where clients are that the shipped driver drives, and `record` what a run leaves behind.

mod circles;
mod doom;
mod event;
mod faults;
mod mail;
mod orders;
mod rations;
mod record;
pub mod stations;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tyr_proto::{
    ClassId, ClientOutput, Incarnation, Keyspace, KeyspaceSeed, Keyspaces, Layout, NodeId, Output,
    PartitionCount, Placement, RingVersion, SessionId, Snapshots, Time, TransactionId,
    cluster::{ClassSettings, Command, Request},
    entry::Part,
    message::{Answer, Envelope, Message},
};
use tyr_types::KeyspaceSettings;

use self::{event::Event, mail::MANAGER_DELAY, record::Record, stations::Stations};
use super::{
    caller::{Caller, Edited},
    layout::{CHUNK, DOOMED, KEYSPACE},
    management::Management,
    manager::Manager,
    pins::Pins,
    profile::Profile,
    promises::Prepared,
    server::Server,
    voters::{Asker, Voters},
};
use crate::{History, random::Random, schedule::Schedule};

/// A cluster with its clients.
#[derive(Debug)]
pub struct World {
    now: u64,
    schedule: Schedule<Box<Event>>,
    random: Random,
    profile: Profile,
    servers: BTreeMap<NodeId, Server>,
    manager: Management,
    ring_version: RingVersion,
    ring_changed_at: u64,
    keyspaces: Arc<Keyspaces>,
    /// How often they have changed.
    keyspaces_version: u64,
    /// When nodes are told next how much there may be.
    rationed_at: u64,
    callers: BTreeMap<SessionId, Caller>,
    stations: Stations,
    links_cut: BTreeMap<(NodeId, NodeId), u64>,
    is_faulty: bool,
    /// Whether everything has been set up and clients are at work.
    has_begun: bool,
    /// What clients were told.
    pub history: History,
    /// What went wrong that no client can see.
    pub broken: Option<String>,
    pins: Pins,
    prepared: Prepared,
    /// What was committed, if there are documents,
    committed: BTreeSet<TransactionId>,
    /// and what was done to these.
    edited: Vec<Edited>,
    record: Record,
}

/// Microseconds between a node's ticks.
const TICK_EVERY: u64 = 5_000;
/// Microseconds between a client's ticks.
const CALLER_TICK_EVERY: u64 = 10_000;
/// A disk is short of room for this many microseconds at a time.
const SHORT_FOR: u64 = 300_000;
/// What finds no space is tried again no sooner than after so many microseconds: a disk that takes one for each write may be full for many seconds.
const FULL_FOR: u64 = 20;

/// More than this happens in no run that ends.
const EVENTS_MAX: u64 = 20_000_000;

impl World {
    /// A cluster that is about to start.
    pub fn new(seed: u64, profile: Profile, with_trace: bool) -> Self {
        let mut random = Random::new(seed);
        let keyspaces = Arc::new(keyspaces(&profile, &mut random));
        let known = if profile.hears_late { Arc::default() } else { keyspaces.clone() };
        let keyspaces_version = u64::from(profile.hears_late);
        let mut servers = BTreeMap::new();
        for number in 1..=profile.nodes {
            let node = NodeId(number);
            servers.insert(
                node,
                Server::new(node, Arc::clone(&known), &profile.storage, profile.bounds, &mut random),
            );
        }
        let manager = manager(&profile, &servers, seed);
        let callers = (1..=profile.clients)
            .map(|number| {
                let caller = Caller::new(number, keyspaces.clone(), &profile, random.fork());
                (caller.session(), caller)
            })
            .collect();
        let mut world = World {
            now: 0,
            schedule: Schedule::default(),
            random,
            profile,
            servers,
            manager,
            ring_version: RingVersion(0),
            ring_changed_at: 0,
            keyspaces,
            keyspaces_version,
            rationed_at: 0,
            callers,
            stations: Stations::new(),
            links_cut: BTreeMap::new(),
            is_faulty: true,
            has_begun: false,
            history: History::new(),
            broken: None,
            pins: Pins::default(),
            prepared: Prepared::default(),
            committed: BTreeSet::new(),
            edited: Vec::new(),
            record: Record::new(with_trace),
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let nodes: Vec<NodeId> = self.servers.keys().copied().collect();
        for node in nodes {
            self.after(0, Event::Boot(node));
        }
        let sessions: Vec<SessionId> = self.callers.keys().copied().collect();
        for session in sessions {
            self.after(100, Event::CallerTick(session));
        }
        self.after(0, Event::ManagerTick);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.schedule.add(self.now + delay, Box::new(event));
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A number that two runs share only if they did the same.
    pub fn digest(&self) -> u64 {
        match &self.manager {
            Management::Actor(_) => self.record.digest,
            Management::Voters(voters) => self.record.digest ^ voters.digest(),
        }
    }

    /// How often what has a name happened.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.record.counts
    }

    /// What happened, if it was asked for.
    pub fn trace(&self) -> &str {
        self.record.trace.as_deref().unwrap_or_default()
    }

    /// The nodes.
    pub fn servers(&self) -> impl Iterator<Item = (&NodeId, &Server)> {
        self.servers.iter()
    }

    /// The clients.
    pub fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.callers.values()
    }

    /// The cluster manager.
    pub fn manager(&self) -> &Management {
        &self.manager
    }

    /// Has the clients learn who holds what.
    pub fn connect(&mut self) {
        let sessions: Vec<SessionId> = self.callers.keys().copied().collect();
        for session in sessions {
            if let Some(caller) = self.callers.get_mut(&session) {
                caller.client.connect();
            }
            self.flush_caller(session);
        }
    }

    /// Has one client make what has to exist.
    pub fn set_up(&mut self) {
        let now = self.now;
        let Some((session, caller)) = self.callers.iter_mut().next() else { return };
        let session = *session;
        caller.set_up(now, &mut self.history);
        self.flush_caller(session);
    }

    /// Lets the clients begin operations, and faults happen.
    pub fn begin(&mut self) {
        self.has_begun = true;
        if self.profile.faults_every > 0 {
            self.after(self.profile.faults_every, Event::Fault);
        }
        if self.profile.drops_keyspace {
            self.after(1, Event::Doom(0));
        }
    }

    /// Has one client read everything, and returns the place of that in the history.
    pub fn read_all(&mut self) -> usize {
        let now = self.now;
        let Some((session, caller)) = self.callers.iter_mut().next() else { return 0 };
        let session = *session;
        let place = caller.read_all(now, &mut self.history);
        self.flush_caller(session);
        place
    }

    /// Runs until something holds or the time is over; says whether it holds.
    pub fn run_until(&mut self, end: u64, steps: bool, mut holds: impl FnMut(&World) -> bool) -> bool {
        let mut checked_at = self.now;
        let mut events = 0_u64;
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            match self.schedule.pop_by(at) {
                Some(event) => {
                    self.record.note(self.now, &event);
                    events += 1;
                    assert!(
                        events < EVENTS_MAX,
                        "messages beget messages, for ever; the last one was {event:?}"
                    );
                    self.happen(*event, steps);
                }
                None => self.run_voters(),
            }
            self.note_ring();
            if self.now >= checked_at + 1_000 {
                checked_at = self.now;
                if holds(self) {
                    return true;
                }
            }
        }
        self.now = self.now.max(end);
        holds(self)
    }

    /// When anything happens next.
    fn next(&mut self) -> Option<u64> {
        let event = self.schedule.next();
        let voters = self.manager.voters().and_then(|voters| voters.next());
        event.into_iter().chain(voters).min()
    }

    /// Voters do what is due, and what they send goes on its way.
    fn run_voters(&mut self) {
        let now = self.now;
        if let Some(voters) = self.manager.voters() {
            voters.run(now);
        }
        self.carry();
    }

    fn happen(&mut self, event: Event, steps: bool) {
        let now = self.now;
        match event {
            Event::Deliver(node, envelope) => {
                if self.is_awake(node, Event::Deliver(node, envelope.clone())) {
                    self.record.count("messages");
                    let envelope = self.arrived(envelope);
                    self.server(node).receive(now, envelope);
                    self.flush(node);
                }
            }
            Event::Stored(node, start, count) => {
                if self.servers[&node].start == start
                    && self.is_awake(node, Event::Stored(node, start, count))
                {
                    let server = self.server(node);
                    server.is_writing = false;
                    server.stored(now, count);
                    self.flush(node);
                }
            }
            Event::Tick(node, start) => {
                let turn = self.now / SHORT_FOR + u64::from(node.0);
                let is_short = self.has_begun
                    && self.profile.bounds.disks_fill
                    && self.is_faulty
                    && turn.is_multiple_of(4);
                self.server(node).is_short = is_short;
                if self.servers[&node].start == start && self.is_awake(node, Event::Tick(node, start)) {
                    self.tick_gossip(node);
                    let request = self.server(node).tick(now);
                    if let Some(request) = request {
                        self.ask_manager(node, request);
                    }
                    self.flush(node);
                    self.check_versions(node);
                    self.check_counts(node);
                    self.check_circles(node);
                    self.check_freezes(node);
                    self.after(TICK_EVERY, Event::Tick(node, start));
                }
            }
            Event::Boot(node) => {
                if !self.servers[&node].is_up() {
                    self.boot(node);
                }
            }
            Event::Answer(session, node, answer) => {
                match &answer {
                    Answer::Looked { request, partition, .. }
                    | Answer::Frozen { request, partition, .. }
                    | Answer::FrozenPart { request, partition, .. } => {
                        self.pins.accept(*request, *partition, node);
                    }
                    _ => {}
                }
                let answer = self.arrived(answer);
                if self.answer_station(session, node, &answer) {
                    return;
                }
                if let Some(caller) = self.callers.get_mut(&session) {
                    caller.client.handle_answer(Time(now), node, answer);
                }
                self.step_caller(session, steps);
            }
            Event::CallerTick(session) => {
                let session = if steps { self.may_die(session) } else { session };
                if let Some(caller) = self.callers.get_mut(&session) {
                    caller.client.handle_tick(Time(now));
                }
                self.step_caller(session, steps);
                self.after(CALLER_TICK_EVERY, Event::CallerTick(session));
            }
            Event::ManagerTick => {
                self.tick_manager();
                self.ration();
                self.after(TICK_EVERY, Event::ManagerTick);
            }
            Event::ToManager(node, voter, request) => {
                let request = self.arrived(request);
                self.ask(Asker::Node(node), voter, request);
            }
            Event::RingAsked(session, voter, request) => {
                let request = self.arrived(request);
                self.ask(Asker::Client(session), voter, request);
            }
            Event::Letter(node, letter) => {
                if self.is_awake(node, Event::Letter(node, letter.clone())) {
                    let time = self.servers[&node].time(now);
                    if let Some(voters) = self.manager.voters() {
                        voters.deliver(now, letter, time);
                    }
                    self.carry();
                }
            }
            Event::FromManager(node, reply) => {
                if self.is_awake(node, Event::FromManager(node, reply.clone())) {
                    let reply = self.arrived(reply);
                    if let Some(voters) = self.manager.voters() {
                        voters.heard(Asker::Node(node), &reply);
                    }
                    self.server(node).managed(now, reply);
                    self.flush(node);
                }
            }
            Event::Order(session, place, order) => self.order(session, place, order),
            Event::Ordered(session, place, order, id) => {
                if let Some(caller) = self.callers.get_mut(&session) {
                    caller.ordered(now, place, order, id);
                }
                self.step_caller(session, steps);
            }
            Event::Doom(number) => self.doom(number),
            Event::Keyspaces(node, version, keyspaces) => {
                if self.is_awake(node, Event::Keyspaces(node, version, keyspaces.clone())) {
                    self.server(node).learn_keyspaces(version, keyspaces);
                    self.flush(node);
                }
            }
            Event::RingTold(session, reply) => {
                let reply = self.arrived(reply);
                if !self.respond_to_station(session, &reply) {
                    self.tell_ring(session, reply);
                }
            }
            Event::Fault => self.fault(),
            Event::Crash(node, lasts) if self.is_faulty => self.crash(node, lasts),
            Event::Cut(from, to, until) if self.is_faulty => {
                self.links_cut.insert((from, to), until);
            }
            Event::Crash(..) | Event::Cut(..) => {}
        }
    }

    fn tick_gossip(&mut self, node: NodeId) {
        let time = self.servers[&node].time(self.now);
        if let Some(voters) = self.manager.voters() {
            voters.tick(node, time);
            self.carry();
        }
    }

    fn tick_manager(&mut self) {
        let now = self.now;
        let observed = match &mut self.manager {
            Management::Actor(manager) => {
                manager.tick(Time(now));
                Ok(())
            }
            Management::Voters(voters) => voters.observe(now),
        };
        let sighted: Vec<_> = self.manager.voters().into_iter().flat_map(Voters::sighted).collect();
        sighted.into_iter().for_each(|what| self.record.count(what));
        if let Err(what) = observed.and_then(|()| self.check_fenced()) {
            self.broken.get_or_insert(what);
        }
    }

    /// A question arrives at the cluster manager.
    fn ask(&mut self, asker: Asker, voter: NodeId, request: Request) {
        let now = self.now;
        match &mut self.manager {
            Management::Actor(manager) => {
                let Some(response) = manager.handle(Time(now), request) else { return };
                match asker {
                    Asker::Node(node) => self.answer_node(node, response),
                    Asker::Client(session) => {
                        let delay = 1 + self.random.below(MANAGER_DELAY);
                        self.after(delay, Event::RingTold(session, response));
                    }
                }
            }
            Management::Voters(voters) => {
                let server = &self.servers[&voter];
                // What comes to one that stands still is lost here, which it may be.
                if server.is_up() && server.paused_until <= now {
                    voters.ask(now, voter, asker, request);
                }
            }
        }
    }

    fn server(&mut self, node: NodeId) -> &mut Server {
        self.servers.get_mut(&node).expect("a node of this cluster")
    }

    /// Whether a node is not paused; what happens to one that is happens later.
    fn is_awake(&mut self, node: NodeId, event: Event) -> bool {
        let until = self.servers[&node].paused_until;
        if until > self.now {
            let delay = until - self.now;
            self.after(delay, event);
            return false;
        }
        self.servers[&node].is_up()
    }

    /// Takes from a node what it wants done.
    fn flush(&mut self, node: NodeId) {
        while let Some(output) = self.server(node).poll() {
            let replica = self.servers[&node].replica();
            match output {
                Output::Send(to, envelope) => {
                    if let Message::Vote { id, part: Part::Heads(partition) } = &envelope.message {
                        self.check_vote(node, *partition, *id);
                    }
                    if let Message::Vote { id, .. } | Message::Release { id } = &envelope.message {
                        self.check_payload(node, *id);
                    }
                    self.send(node, to, envelope);
                }
                Output::Answer(session, answer) => {
                    if let Answer::Looked { request, .. }
                    | Answer::Frozen { request, .. }
                    | Answer::FrozenPart { request, .. } = &answer
                    {
                        self.note_pin(node, *request);
                    }
                    if let Answer::Looked { request, partition, .. } = &answer {
                        self.check_held(node, *partition, *request);
                    }
                    if let Some(delay) = self.delay() {
                        self.after(delay, Event::Answer(session, node, answer));
                    }
                }
                Output::LearnerComplete(partition, epoch, learner) => {
                    let command = Command::LearnerComplete { partition, epoch, by: replica, learner };
                    self.ask_manager(node, Request::Command(command));
                }
                Output::ReplicaSlow(partition, epoch, slow) => {
                    let command = Command::RemoveReplica { partition, epoch, by: replica, replica: slow };
                    self.ask_manager(node, Request::Command(command));
                }
                Output::Released(partition, epoch, replica) => {
                    let command = Command::Release { partition, epoch, replica, handed_to: None };
                    self.ask_manager(node, Request::Command(command));
                }
                Output::AskVersion(version) => {
                    self.ask_manager(node, Request::Command(Command::Advance(version)));
                }
                Output::Store { .. } | Output::Cut(..) | Output::Install { .. } => {}
            }
        }
        for promise in std::mem::take(&mut self.server(node).promised) {
            if let Some(broken) = self.prepared.note(promise) {
                self.broken.get_or_insert(broken);
            }
        }
        if let Some(broken) = self.server(node).broken.take() {
            self.broken.get_or_insert(broken);
        }
        let committed = std::mem::take(&mut self.server(node).committed);
        if self.profile.documents > 0 {
            self.committed.extend(committed);
        }
        for what in std::mem::take(&mut self.server(node).sighted) {
            self.record.count(what);
        }
        let (now, most) = (self.now, self.profile.disk);
        let server = self.server(node);
        server.submit(now);
        if let Some(failure) = server.failure().map(ToString::to_string) {
            self.record.count("a disk failed");
            self.record.say(self.now, || format!("the disk of {node} fails: {failure}"));
            let lasts = 1 + self.random.below(500_000);
            self.crash(node, lasts);
            return;
        }
        let server = self.server(node);
        let pending = server.pending();
        if pending > 0 && !server.is_writing {
            server.is_writing = true;
            let slow = if server.slow_until > now { 100 } else { 1 };
            let start = server.start;
            let least = if server.is_full() { FULL_FOR } else { 0 };
            let delay = ((1 + self.random.below(most)) * slow).max(least);
            self.after(delay, Event::Stored(node, start, pending));
        }
    }

    fn step_caller(&mut self, session: SessionId, steps: bool) {
        let now = self.now;
        let Some(caller) = self.callers.get_mut(&session) else { return };
        if steps || !caller.is_idle() {
            caller.step(now, &mut self.history, steps);
        }
        let expired = std::mem::take(&mut caller.expired);
        let refused = std::mem::take(&mut caller.refused_reserves);
        let (wrong, orders) = (std::mem::take(&mut caller.wrong), std::mem::take(&mut caller.orders));
        self.edited.append(&mut caller.edited);
        let was_forgotten = std::mem::take(&mut caller.was_forgotten);
        if let Some(what) = wrong.first() {
            self.broken.get_or_insert(format!("{what}: of client {}", session.0));
        }
        orders.into_iter().for_each(|(place, order)| self.send_order(session, place, order));
        expired.iter().for_each(|(look, blob)| self.check_expired(*look, blob));
        if was_forgotten {
            self.check_forgotten(session);
        }
        refused.into_iter().for_each(|since| self.check_refused_reserve(session, since));
        self.flush_caller(session);
    }

    fn flush_caller(&mut self, session: SessionId) {
        loop {
            let Some(caller) = self.callers.get_mut(&session) else { return };
            let Some(output) = caller.client.poll_output() else { return };
            let delay = self.delay();
            match (output, delay) {
                (ClientOutput::Send(node, envelope), Some(delay)) => self.post_after(delay, node, envelope),
                (ClientOutput::FetchRing(version), Some(delay)) => {
                    let time = Time(self.now);
                    let voter =
                        self.manager.voters().map(|voters| voters.contact(Asker::Client(session), time));
                    let to = voter.unwrap_or(NodeId(0));
                    self.after(delay, Event::RingAsked(session, to, Request::Ring(version)));
                }
                (_, None) => {}
            }
        }
    }

    /// What a client sends to a node goes on its way.
    fn post(&mut self, node: NodeId, envelope: Envelope) {
        if let Some(delay) = self.delay() {
            self.post_after(delay, node, envelope);
        }
    }

    fn post_after(&mut self, delay: u64, node: NodeId, envelope: Envelope) {
        let Some(envelope) = self.sent(envelope).filter(|_| self.servers.contains_key(&node)) else { return };
        let late_copies = self.profile.bounds.late_copies;
        if late_copies > 0 && self.is_faulty && self.random.happens(late_copies) {
            let delay = 1_000_000 + self.random.below(7_000_000);
            self.after(delay, Event::Deliver(node, envelope.clone()));
        }
        self.after(delay, Event::Deliver(node, envelope));
    }
}

/// A cluster manager with one class, and, if it is an actor, with all nodes.
fn manager(profile: &Profile, servers: &BTreeMap<NodeId, Server>, seed: u64) -> Management {
    let class = ClassSettings {
        replicas: profile.replicas,
        min_replicas: profile.bounds.min_replicas,
        partitions: profile.partitions,
        durability: profile.durability,
        zones: tyr_proto::ZoneRule::Prefer,
    };
    if profile.voters > 0 {
        let clocks = servers.iter().map(|(node, server)| (*node, server.drift()));
        let random = Random::new(seed ^ 0x6d61_6e61_6765);
        return Management::Voters(Box::new(Voters::new(
            clocks,
            class,
            profile.voters,
            profile.disk,
            random,
        )));
    }
    let mut manager = Manager::founded();
    manager.apply(Command::CreateClass(ClassId(0), class));
    let first = Incarnation::of(1, 0).0;
    for node in servers.keys() {
        manager.apply(super::manager::register(node.0, first, first));
    }
    manager.tick(Time(0));
    Management::Actor(Box::new(manager))
}

fn keyspaces(profile: &Profile, random: &mut Random) -> Keyspaces {
    let settings = KeyspaceSettings { chunk_size: CHUNK, ..KeyspaceSettings::default() };
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&random.number().to_le_bytes());
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(profile.partitions).expect("a power of two"),
        seed: KeyspaceSeed(seed),
        layout: Layout::of(&settings).expect("the least chunk size"),
    };
    let multi_version = profile.multi_version;
    let keyspace = Keyspace { placement, multi_version, snapshots: Snapshots::default(), is_dropped: false };
    let ids = [KEYSPACE].into_iter().chain(profile.drops_keyspace.then_some(DOOMED));
    ids.map(|id| (id, keyspace.clone())).collect()
}
