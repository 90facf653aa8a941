//! The event loop: one queue of what happens when, in an order that only the seed decides.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    fmt::Write as _,
    sync::Arc,
};

use tyr_proto::{
    BlobName, ClassId, ClientOutput, Incarnation, Keyspace, KeyspaceSeed, Keyspaces, Layout, NodeId, Output,
    PartitionCount, Placement, RingVersion, SessionId, Time,
    cluster::{ClassSettings, Command, Fact, Request, Response},
    encoding::{Decode, Encode, from_bytes, to_bytes},
    message::{Answer, Envelope, RequestId},
};
use tyr_types::{Durability, ErrorKind, KeyspaceSettings};

use super::{
    caller::Caller,
    layout::{CHUNK, KEYSPACE},
    management::Management,
    manager::{Manager, TERMS},
    pins::{Grant, Pins},
    profile::{Fault, Profile},
    promises::Prepared,
    server::Server,
    trace::shorten,
    voters::{Asker, Letter, Voters, Way},
};
use crate::{History, random::Random};

/// A cluster with its clients.
#[derive(Debug)]
pub struct World {
    now: u64,
    sequence: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Boxed)>>,
    random: Random,
    profile: Profile,
    servers: BTreeMap<NodeId, Server>,
    manager: Management,
    ring_version: RingVersion,
    ring_changed_at: u64,
    keyspaces: Arc<Keyspaces>,
    callers: BTreeMap<SessionId, Caller>,
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
    digest: u64,
    trace: Option<String>,
    /// What happened, by name.
    pub counts: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Boxed(Box<Event>);

impl PartialEq for Boxed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Boxed {}
impl PartialOrd for Boxed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Boxed {
    /// Events are ordered by their time and sequence alone.
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

#[derive(Clone, Debug)]
enum Event {
    Deliver(NodeId, Envelope),
    Answer(SessionId, NodeId, Answer),
    Stored(NodeId, u64, usize),
    Tick(NodeId, u64),
    Boot(NodeId),
    CallerTick(SessionId),
    ManagerTick,
    /// From a node to the cluster manager, of which a node is asked.
    ToManager(NodeId, NodeId, Request),
    FromManager(NodeId, Response),
    RingAsked(SessionId, NodeId, Request),
    RingTold(SessionId, Response),
    /// Between voters, or packets of gossip.
    Letter(NodeId, Letter),
    Fault,
}

/// Microseconds between a node's ticks.
const TICK_EVERY: u64 = 5_000;
/// Microseconds between a client's ticks.
const CALLER_TICK_EVERY: u64 = 10_000;
/// Microseconds after which a node has heard of a change of the ring, or serves no more.
const HEARD_AFTER: u64 = 3_000_000;
/// A disk is short of room for this many microseconds at a time.
const SHORT_FOR: u64 = 300_000;
/// Nodes, clients, and the cluster manager talk within at most this many microseconds, if nothing is wrong.
const MANAGER_DELAY: u64 = 500;

impl World {
    /// A cluster that is about to start.
    pub fn new(seed: u64, profile: Profile, with_trace: bool) -> Self {
        let mut random = Random::new(seed);
        let keyspaces = Arc::new(keyspaces(&profile, &mut random));
        let mut servers = BTreeMap::new();
        for number in 1..=profile.nodes {
            let node = NodeId(number);
            servers.insert(
                node,
                Server::new(node, keyspaces.clone(), &profile.storage, profile.bounds, &mut random),
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
            sequence: 0,
            queue: BinaryHeap::new(),
            random,
            profile,
            servers,
            manager,
            ring_version: RingVersion(0),
            ring_changed_at: 0,
            keyspaces,
            callers,
            links_cut: BTreeMap::new(),
            is_faulty: true,
            has_begun: false,
            history: History::new(),
            broken: None,
            pins: Pins::default(),
            prepared: Prepared::default(),
            digest: 0xcbf2_9ce4_8422_2325,
            trace: with_trace.then(String::new),
            counts: BTreeMap::new(),
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
        self.sequence += 1;
        self.queue.push(Reverse((self.now + delay, self.sequence, Boxed(Box::new(event)))));
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A number that two runs share only if they did the same.
    pub fn digest(&self) -> u64 {
        match &self.manager {
            Management::Actor(_) => self.digest,
            Management::Voters(voters) => self.digest ^ voters.digest(),
        }
    }

    /// What happened, if it was asked for.
    pub fn trace(&self) -> &str {
        self.trace.as_deref().unwrap_or_default()
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

    /// Ends all faults: everything runs, every link works.
    pub fn heal(&mut self) {
        self.is_faulty = false;
        self.links_cut.clear();
        self.manager.voters().into_iter().for_each(Voters::heal);
        let now = self.now;
        let mut down = Vec::new();
        for (node, server) in &mut self.servers {
            server.paused_until = server.paused_until.min(now);
            server.slow_until = now;
            server.heal_disk();
            if !server.is_up() {
                down.push(*node);
            }
        }
        for node in down {
            self.after(1, Event::Boot(node));
        }
    }

    /// Runs until something holds or the time is over; says whether it holds.
    pub fn run_until(&mut self, end: u64, steps: bool, mut holds: impl FnMut(&World) -> bool) -> bool {
        let mut checked_at = self.now;
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            let is_event = self.queue.peek().is_some_and(|Reverse((due, ..))| *due <= at);
            match is_event.then(|| self.queue.pop()).flatten() {
                Some(Reverse((_, _, event))) => {
                    self.note(&event.0);
                    self.happen(*event.0, steps);
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
        let event = self.queue.peek().map(|Reverse((at, ..))| *at);
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

    /// What voters and gossip want carried goes on its way.
    fn carry(&mut self) {
        while let Some(letter) = self.manager.voters().and_then(|voters| voters.poll()) {
            match letter {
                Letter::Voter(Way { from, to }, _) | Letter::Gossip(Way { from, to }, _) => {
                    self.send_letter(from, to, letter);
                }
                Letter::Node(Way { from, to }, response) => {
                    let is_cut = self.is_cut(from, to);
                    if from == to {
                        self.after(1, Event::FromManager(to, response));
                    } else if let Some(delay) = self.delay().filter(|_| !is_cut) {
                        self.after(delay, Event::FromManager(to, response));
                    }
                }
                Letter::Client(to, response) => {
                    if let Some(delay) = self.delay() {
                        self.after(delay, Event::RingTold(to, response));
                    }
                }
            }
        }
    }

    fn send_letter(&mut self, from: NodeId, to: NodeId, letter: Letter) {
        let now = self.now;
        let is_voter = matches!(letter, Letter::Voter(..));
        let is_muted = self.manager.voters().is_some_and(|voters| is_voter && voters.is_muted(from, to, now));
        if !self.servers.contains_key(&to) || is_muted || (self.is_faulty && self.is_cut(from, to)) {
            return;
        }
        let comes_twice = self.is_faulty && self.random.happens(self.profile.duplication);
        for _ in 0..=u32::from(comes_twice) {
            if let Some(delay) = self.delay() {
                self.after(delay, Event::Letter(to, letter.clone()));
            }
        }
    }

    fn note(&mut self, event: &Event) {
        let (kind, subject) = match event {
            Event::Deliver(node, envelope) => {
                (1, u64::from(node.0) ^ u64::from(envelope.partition.index) << 8)
            }
            Event::Answer(session, node, _) => (2, session.0 ^ u64::from(node.0) << 8),
            Event::Stored(node, ..) => (3, u64::from(node.0)),
            Event::Tick(node, _) => (4, u64::from(node.0)),
            Event::Boot(node) => (5, u64::from(node.0)),
            Event::CallerTick(session) => (6, session.0),
            Event::ManagerTick => (7, 0),
            Event::ToManager(node, ..) => (8, u64::from(node.0)),
            Event::FromManager(node, _) => (9, u64::from(node.0)),
            Event::RingAsked(session, ..) => (10, session.0),
            Event::RingTold(session, _) => (11, session.0),
            Event::Fault => (12, 0),
            Event::Letter(node, _) => (13, u64::from(node.0)),
        };
        for word in [self.now, kind, subject] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let is_shown = !matches!(
            event,
            Event::Tick(..)
                | Event::CallerTick(_)
                | Event::ManagerTick
                | Event::Letter(_, Letter::Gossip(..))
        );
        if let Some(trace) = self.trace.as_mut().filter(|_| is_shown) {
            let now = self.now;
            let _ = writeln!(trace, "{now:>10} {}", shorten(&format!("{event:?}")));
        }
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = self.trace.as_mut() {
            let now = self.now;
            let _ = writeln!(trace, "{now:>10} ** {}", what());
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn happen(&mut self, event: Event, steps: bool) {
        let now = self.now;
        match event {
            Event::Deliver(node, envelope) => {
                if self.is_awake(node, Event::Deliver(node, envelope.clone())) {
                    self.count("messages");
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
                    Answer::Looked { request, partition, .. } | Answer::Frozen { request, partition, .. } => {
                        self.pins.accept(*request, *partition, node);
                    }
                    _ => {}
                }
                let answer = self.arrived(answer);
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
            Event::RingTold(session, reply) => self.tell_ring(session, self.arrived(reply)),
            Event::Fault => self.fault(),
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
        sighted.into_iter().for_each(|what| self.count(what));
        if let Err(what) = observed.and_then(|()| self.check_fenced()) {
            self.broken.get_or_insert(what);
        }
    }

    /// No incarnation whose end the cluster manager has logged holds a lease.
    fn check_fenced(&self) -> Result<(), String> {
        for (node, server) in &self.servers {
            let replica = server.replica();
            let cluster = self.manager.cluster();
            let is_known =
                cluster.member(*node).is_some_and(|known| known.incarnation >= replica.incarnation);
            if is_known && !cluster.is_present(replica) && server.has_lease(self.now) {
                return Err(format!("{replica:?} serves though it was evicted"));
            }
        }
        Ok(())
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

    /// A client may die, and another one take its place. Returns the session of the one that lives.
    fn may_die(&mut self, session: SessionId) -> SessionId {
        let mortality = self.profile.bounds.mortality;
        if mortality == 0 || !self.is_faulty || !self.random.happens(mortality) {
            return session;
        }
        let Some(mut caller) = self.callers.remove(&session) else { return session };
        self.say(|| format!("client {} dies", session.0));
        self.count("clients that died");
        caller.die(self.now, &mut self.history);
        let session = caller.session();
        caller.client.connect();
        self.callers.insert(session, caller);
        session
    }

    /// What came over the network is what was sent, if it has gone there as bytes, too.
    fn arrived<T: Encode + Decode>(&self, sent: T) -> T {
        if self.profile.as_bytes {
            return from_bytes(&to_bytes(&sent)).expect("what was encoded can be decoded");
        }
        sent
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

    /// Where only the latest versions are kept, nothing else is, and nobody holds anything.
    fn check_versions(&mut self, node: NodeId) {
        if self.profile.multi_version {
            return;
        }
        let partitions = self.servers[&node].node().into_iter().flat_map(|node| node.partitions());
        let keeps = |(_, chunk): (_, &tyr_proto::Chunk)| chunk.version_count() > 1;
        let keeping = partitions.filter(|partition| partition.state().chunks().any(keeps));
        if let Some(id) = keeping.map(|partition| partition.id()).next() {
            self.broken
                .get_or_insert(format!("former version kept: {node} keeps superseded versions in {id}"));
        }
    }

    /// A replica has answered a look: from now on it holds the number.
    fn note_pin(&mut self, node: NodeId, look: RequestId) {
        let server = &self.servers[&node];
        let partition = server.node().into_iter().flat_map(|node| node.partitions());
        for partition in partition.filter(|partition| partition.holds_pin(look)) {
            let epoch = partition.configuration().epoch;
            self.pins.grant(look, Grant { node, start: server.start, partition: partition.id(), epoch });
        }
    }

    /// A reader was told that its version is gone: that must not be as long as its pin stands.
    fn check_expired(&mut self, look: RequestId, blob: &BlobName) {
        let head = self.keyspaces[&KEYSPACE].partition_of(blob, 0);
        let Some(Grant { node, start, partition: id, epoch }) = self.pins.grant_of(look, head) else {
            return;
        };
        let server = &self.servers[&node];
        let partition = server.node().and_then(|node| node.partition(id));
        let stands = server.start == start && partition.is_some_and(|partition| partition.holds_pin(look));
        let set = self.manager.cluster().partitions().find(|(other, _)| *other == id);
        if stands && set.is_some_and(|(_, partition)| partition.configuration.epoch == epoch) {
            let (session, number) = (look.session.0, look.number);
            self.broken.get_or_insert(format!(
                "version collected under a reader: look {number} of client {session} is pinned at {node} in {id}"
            ));
        }
    }

    /// A transaction was refused by conflict whose blobs were reserved for it: that must not be as long as the reserve stands.
    fn check_refused_reserve(&mut self, session: SessionId, since: u64) {
        // By then everybody who serves has heard of the change: a lease lasts no longer.
        if self.ring_changed_at + HEARD_AFTER < since {
            let (client, now) = (session.0, self.now);
            self.broken.get_or_insert(format!(
                "reserve broken: client {client} reserved at {since} and was refused by conflict until {now}"
            ));
        }
    }

    /// Notes when the ring changes: whoever then loses a role loses what it held for clients.
    fn note_ring(&mut self) {
        let version = self.manager.cluster().version();
        if version != self.ring_version {
            (self.ring_version, self.ring_changed_at) = (version, self.now);
        }
    }

    /// Takes from a node what it wants done.
    fn flush(&mut self, node: NodeId) {
        while let Some(output) = self.server(node).poll() {
            let replica = self.servers[&node].replica();
            match output {
                Output::Send(to, envelope) => self.send(node, to, envelope),
                Output::Answer(session, answer) => {
                    if let Answer::Looked { request, .. } | Answer::Frozen { request, .. } = &answer {
                        self.note_pin(node, *request);
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
        for what in std::mem::take(&mut self.server(node).sighted) {
            self.count(what);
        }
        let (now, most) = (self.now, self.profile.disk);
        let server = self.server(node);
        server.submit(now);
        if let Some(failure) = server.failure().map(ToString::to_string) {
            self.count("a disk failed");
            self.say(|| format!("the disk of {node} fails: {failure}"));
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
            let delay = (1 + self.random.below(most)) * slow;
            self.after(delay, Event::Stored(node, start, pending));
        }
    }

    /// How long a message takes; `None` if it is lost.
    fn delay(&mut self) -> Option<u64> {
        let (least, usual, slow) = self.profile.delay;
        if self.is_faulty && self.random.happens(self.profile.loss) {
            return None;
        }
        let is_slow = self.is_faulty && self.random.happens(self.profile.slow);
        Some(least + self.random.below(if is_slow { slow } else { usual }.max(1)))
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.links_cut.get(&(from, to)).is_some_and(|until| *until > self.now)
    }

    fn send(&mut self, from: NodeId, to: NodeId, envelope: Envelope) {
        if !self.servers.contains_key(&to) || (self.is_faulty && self.is_cut(from, to)) {
            return;
        }
        if self.is_faulty
            && self.random.happens(self.profile.duplication)
            && let Some(delay) = self.delay()
        {
            self.after(delay, Event::Deliver(to, envelope.clone()));
        }
        if let Some(delay) = self.delay() {
            self.after(delay, Event::Deliver(to, envelope));
        }
    }

    /// Node 0 of a link stands for a cluster manager that is an actor.
    fn ask_manager(&mut self, node: NodeId, request: Request) {
        let time = Time(self.now);
        let voter = self.manager.voters().map(|voters| voters.contact(Asker::Node(node), time));
        let to = voter.unwrap_or(NodeId(0));
        let is_cut = self.is_cut(node, to);
        if to == node {
            self.after(1, Event::ToManager(node, to, request));
        } else if let Some(delay) = self.delay().filter(|_| !is_cut) {
            self.after(delay.min(MANAGER_DELAY * 4), Event::ToManager(node, to, request));
        }
    }

    fn answer_node(&mut self, node: NodeId, reply: Response) {
        if matches!(reply, Response::Evicted(_)) {
            self.count("evicted a node");
        }
        let is_cut = self.is_cut(NodeId(0), node);
        if let Some(delay) = self.delay().filter(|_| !is_cut) {
            self.after(delay, Event::FromManager(node, reply));
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
        expired.iter().for_each(|(look, blob)| self.check_expired(*look, blob));
        refused.into_iter().for_each(|since| self.check_refused_reserve(session, since));
        self.flush_caller(session);
    }

    fn flush_caller(&mut self, session: SessionId) {
        loop {
            let Some(caller) = self.callers.get_mut(&session) else { return };
            let Some(output) = caller.client.poll_output() else { return };
            let delay = self.delay();
            match (output, delay) {
                (ClientOutput::Send(node, envelope), Some(delay)) => {
                    if self.servers.contains_key(&node) {
                        let late_copies = self.profile.bounds.late_copies;
                        if late_copies > 0 && self.is_faulty && self.random.happens(late_copies) {
                            let delay = 1_000_000 + self.random.below(7_000_000);
                            self.after(delay, Event::Deliver(node, envelope.clone()));
                        }
                        self.after(delay, Event::Deliver(node, envelope));
                    }
                }
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

    fn tell_ring(&mut self, session: SessionId, reply: Response) {
        let Response::Ring(difference) = reply else { return };
        let Some(caller) = self.callers.get_mut(&session) else { return };
        for fact in difference.facts {
            if let Fact::Partition(id, configuration, _) = fact {
                caller.client.handle_configuration(id, configuration);
            }
        }
        if let Some(version) = difference.reached {
            caller.client.handle_ring_version(version);
        }
    }

    fn fault(&mut self) {
        if !self.is_faulty {
            return;
        }
        let next = 1 + self.random.below(2 * self.profile.faults_every);
        self.after(next, Event::Fault);
        let kinds: Vec<Fault> = Fault::ALL
            .into_iter()
            .zip(self.profile.faults)
            .filter(|(_, on)| *on)
            .map(|(fault, _)| fault)
            .collect();
        let Some(kind) = self.random.choose(&kinds).copied() else { return };
        let nodes: Vec<NodeId> = self.servers.keys().copied().collect();
        let [one, other] = [0, 1].map(|_| *self.random.choose(&nodes).expect("a node at least"));
        let lasts = 1 + self.random.below(1_500_000);
        let now = self.now;
        if self.profile.durability == Durability::Memory && self.takes_too_much(kind, one, other) {
            return;
        }
        self.say(|| format!("{kind:?} of {one} ({other}) for {lasts}"));
        match kind {
            Fault::Crash => self.crash(one, lasts),
            Fault::Pause => {
                let server = self.server(one);
                server.paused_until = server.paused_until.max(now + lasts / 2);
                if let Some(voters) = self.manager.voters() {
                    voters.pause(one, now + lasts / 2);
                }
            }
            Fault::Cut => {
                self.links_cut.insert((one, other), now + lasts);
            }
            Fault::Isolate => {
                for node in nodes.into_iter().chain([NodeId(0)]) {
                    self.links_cut.insert((one, node), now + lasts);
                    self.links_cut.insert((node, one), now + lasts);
                }
            }
            Fault::SlowDisk => self.server(one).slow_until = now + lasts,
            Fault::ManagerChange => self.manager.lose_leader(now + lasts / 4),
            Fault::Drain => self.manager.drain(now, one),
        }
        self.count("faults");
    }

    /// A node starts. If its disk fails meanwhile, it starts again later.
    fn boot(&mut self, node: NodeId) {
        let booted = self.server(node).boot();
        if let Err(error) = booted {
            self.count("a disk failed");
            self.say(|| format!("{node} cannot be started: {error}"));
            if error.kind() == ErrorKind::Corrupt {
                self.broken.get_or_insert(format!("lost data: {node} cannot be started: {error}"));
            }
            let lasts = 1 + self.random.below(500_000);
            self.after(lasts, Event::Boot(node));
            return;
        }
        let start = self.servers[&node].start;
        let now = self.now;
        if let Some(voters) = self.manager.voters() {
            voters.boot(now, node, start);
        }
        self.after(0, Event::Tick(node, start));
        self.flush(node);
    }

    /// A node crashes and starts again later.
    fn crash(&mut self, node: NodeId, lasts: u64) {
        let memory_is_all = self.profile.durability == Durability::Memory;
        if !self.servers[&node].is_up() {
            return;
        }
        self.count("crashes");
        let holders: Vec<String> = self
            .manager
            .cluster()
            .partitions()
            .map(|(id, partition)| {
                let complete = partition.last_complete().iter();
                let complete = complete.map(|replica| format!("{}/{}", replica.node, replica.incarnation.0));
                format!("{id} {}", complete.collect::<Vec<_>>().join(" "))
            })
            .collect();
        self.say(|| format!("{node} crashes; complete: {}", holders.join(", ")));
        let mut random = self.random.fork();
        self.server(node).crash(&mut random, memory_is_all);
        if let Some(voters) = self.manager.voters() {
            voters.crash(node);
        }
        self.after(lasts, Event::Boot(node));
    }

    /// Whether a fault would take out the last one who holds something in memory. A cut between a node and who leads the voters does, too.
    fn takes_too_much(&mut self, fault: Fault, one: NodeId, other: NodeId) -> bool {
        let now = self.now;
        // What was applied this very moment counts.
        let observed = self.manager.voters().map(|voters| voters.observe(now));
        let taken = match fault {
            Fault::Crash | Fault::Pause | Fault::Isolate => vec![one],
            Fault::Cut if observed.is_some() => vec![one, other],
            _ => Vec::new(),
        };
        if let Some(Err(what)) = observed {
            self.broken.get_or_insert(what);
        }
        taken.into_iter().any(|node| self.is_needed(node))
    }

    /// Whether the cluster manager hears of a node, whoever leads.
    fn is_heard(&self, node: NodeId) -> bool {
        let hears = |other| !self.is_cut(node, other) && !self.is_cut(other, node);
        match &self.manager {
            Management::Actor(_) => hears(NodeId(0)),
            Management::Voters(voters) => {
                let voting = voters.voting();
                !voting.is_empty() && voting.into_iter().all(hears)
            }
        }
    }

    /// Whether a node holds something in memory that no other complete replica holds which runs and is heard of: a cluster in memory
    /// survives the loss of all replicas of a partition but one, not of all.
    fn is_needed(&self, node: NodeId) -> bool {
        self.manager.cluster().partitions().any(|(_, partition)| {
            let holders: BTreeSet<NodeId> =
                partition.last_complete().iter().map(|replica| replica.node).collect();
            let lives = |replica: &&tyr_proto::Replica| {
                let server = &self.servers[&replica.node];
                let is_heard = self.is_heard(replica.node);
                // One whose lease runs out soon was not heard of lately.
                let fresh = if matches!(self.manager, Management::Voters(_)) { TERMS.length / 2 } else { 0 };
                let runs = server.has_lease(self.now + fresh) && server.paused_until <= self.now;
                replica.node != node && runs && is_heard && server.replica() == **replica
            };
            // Who is about to lose its role does not count.
            let stays = partition.proposal.is_none()
                && partition.last_complete().iter().any(|replica| lives(&replica));
            holders.contains(&node) && !stays
        })
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
    [(KEYSPACE, Keyspace { placement, multi_version: profile.multi_version })].into()
}
