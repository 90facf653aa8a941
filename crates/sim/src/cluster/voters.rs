//! The cluster manager as it is shipped: voters on the simulated nodes, and gossip among all of them.
//!
//! Voters are tasks in virtual time; what they send is taken out and carried by the world's network, what arrives is handed in.
//! Nothing else wakes them, so that the world's order is theirs.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt, io,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tyr_env::Disk;
use tyr_manager::{
    Change, DiskJournal, Exchange, Gossip, GossipEffect, GossipTiming, Journal, Kept, Peer, Post,
    Surroundings, Timing, Voter, describe,
};
use tyr_proto::{
    ClassId, Contact, Incarnation, NodeId, RingVersion, SessionId, Time,
    cluster::{
        ClassSettings, Cluster, ClusterId, Command, Difference, Identity, Position, Request, Response,
    },
};
use tyr_sim_env::{CrashMode, Drift, SimDisk, SimTasks, Sleep, here};

use super::manager::{TERMS, UPKEEP};
use crate::random::Random;

/// Voters take what they need of a process from the task that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Here;

impl Surroundings for Here {
    type Sleep = Sleep;

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        here::spawn(task);
    }

    fn now() -> Time {
        Time(here::now())
    }

    fn sleep_until(time: Time) -> Sleep {
        here::sleep_until(time.0)
    }

    fn random() -> u64 {
        here::random()
    }
}

/// The shipped journal, with time between a write and its sync: a crash may come there. A snapshot takes time before it is written, too.
#[derive(Clone)]
struct SlowJournal {
    journal: DiskJournal<Here>,
    /// What a write takes at most, in microseconds.
    time_max: u64,
}

impl SlowJournal {
    async fn pass_time(&self) {
        here::sleep(Duration::from_micros(1 + here::random() % self.time_max)).await;
    }
}

impl Journal<Here> for SlowJournal {
    fn load(&self) -> io::Result<Kept<Here>> {
        self.journal.load()
    }

    async fn keep(&self, change: Change<Here>) -> io::Result<()> {
        if matches!(change, Change::Snapshot(..)) {
            self.pass_time().await;
        }
        self.journal.write(change)?;
        self.pass_time().await;
        self.journal.sync()
    }
}

/// From one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Who sends.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
}

/// What voters and gossip want carried.
#[derive(Clone)]
pub enum Letter {
    /// From one voter to another.
    Voter(Way, Vec<u8>),
    /// A packet of gossip.
    Gossip(Way, Vec<u8>),
    /// An answer to a node.
    Node(Way, Response),
    /// An answer to a client.
    Client(SessionId, Response),
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Letter::Voter(Way { from, to }, bytes) => {
                write!(f, "voter {from} to {to}: {}", describe::<Here>(bytes))
            }
            Letter::Gossip(Way { from, to }, bytes) => {
                write!(f, "gossip {from} to {to}: {} bytes", bytes.len())
            }
            Letter::Node(Way { from, to }, response) => write!(f, "manager {from} to {to}: {response:?}"),
            Letter::Client(to, response) => write!(f, "manager to {to:?}: {response:?}"),
        }
    }
}

type Sent = Arc<Mutex<VecDeque<Letter>>>;

/// What one voter sends to the others.
#[derive(Clone)]
struct Outbox {
    from: NodeId,
    sent: Sent,
}

impl Post for Outbox {
    fn post(&self, to: u32, message: Vec<u8>) {
        self.sent.lock().push_back(Letter::Voter(Way { from: self.from, to: NodeId(to) }, message));
    }
}

type Running = (Voter<Here, SlowJournal>, Exchange<Outbox>);

/// One node's part.
struct Seat {
    disk: Arc<SimDisk>,
    running: Arc<Mutex<Option<Running>>>,
    gossip: Option<Gossip>,
}

/// Who asks the cluster manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A node.
    Node(NodeId),
    /// A client.
    Client(SessionId),
}

/// What all voters together are.
pub struct Voters {
    tasks: SimTasks,
    random: Random,
    seats: BTreeMap<NodeId, Seat>,
    sent: Sent,
    contacts: BTreeMap<Asker, Contact>,
    /// The newest state that any voter has applied.
    known: Cluster,
    /// What voters had to tell, so that all with one version can be compared.
    past: BTreeMap<RingVersion, Difference>,
    /// The version that each voter had when it was last looked at.
    seen: BTreeMap<NodeId, RingVersion>,
    voters_max: usize,
    disk_time_max: u64,
    class: ClassSettings,
    /// The voter that is heard by no other one until then.
    muted: Option<(NodeId, u64)>,
    /// Who led when that was last looked at, and how many voted.
    led_by: Option<NodeId>,
    voting_before: usize,
}

impl fmt::Debug for Voters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Voters({:?}, led by {:?}, ", self.voting(), self.leader())?;
        write!(
            f,
            "{:?})",
            self.known.members().map(|(node, member)| (node, member.presence)).collect::<Vec<_>>()
        )
    }
}

impl Voters {
    /// Nodes on which nothing runs yet, with their clocks. The first founds the cluster.
    pub fn new(
        nodes: impl Iterator<Item = (NodeId, Drift)>,
        class: ClassSettings,
        voters_max: u32,
        disk_time_max: u64,
        mut random: Random,
    ) -> Self {
        let tasks = SimTasks::new(random.number());
        let mut seats = BTreeMap::new();
        for (node, clock) in nodes {
            tasks.set_clock(node.0, clock);
            let disk = SimDisk::new(random.number());
            seats.insert(node, Seat { disk, running: Arc::default(), gossip: None });
        }
        Voters {
            tasks,
            random,
            seats,
            sent: Sent::default(),
            contacts: BTreeMap::new(),
            known: Cluster::new(CLUSTER),
            past: BTreeMap::new(),
            seen: BTreeMap::new(),
            voters_max: usize::try_from(voters_max).expect("a small number"),
            disk_time_max: disk_time_max * 4,
            class,
            muted: None,
            led_by: None,
            voting_before: 0,
        }
    }

    /// The newest state that any voter has applied.
    pub fn cluster(&self) -> &Cluster {
        &self.known
    }

    /// A number that two runs share only if their voters did the same.
    pub fn digest(&self) -> u64 {
        self.tasks.digest()
    }

    /// When a voter does something on its own next.
    pub fn next(&self) -> Option<u64> {
        self.tasks.next()
    }

    /// Has voters do what is due. What comes to them comes later than that.
    pub fn run(&self, now: u64) {
        self.tasks.run_until(now);
    }

    /// What is to be carried next.
    pub fn poll(&self) -> Option<Letter> {
        self.sent.lock().pop_front()
    }

    /// The node starts, in a start of its own that is counted.
    pub fn boot(&mut self, now: u64, node: NodeId, start: u64) {
        self.run(now);
        let seed = self.random.number();
        let is_founder = Some(&node) == self.seats.keys().next();
        let founders =
            is_founder.then(|| self.seats.keys().map(|node| Identity(u128::from(node.0))).collect());
        let (timing, time_max) = (self.timing(), self.disk_time_max);
        let Some(seat) = self.seats.get_mut(&node) else { return };
        let me = Peer { node, incarnation: Incarnation(start), revival: 0 };
        seat.gossip = Some(Gossip::new(me, GOSSIP, seed));
        let (disk, running) = (seat.disk.clone(), seat.running.clone());
        let outbox = Outbox { from: node, sent: self.sent.clone() };
        self.tasks.start(node.0, async move {
            let disk: Arc<dyn Disk> = disk;
            let journal = DiskJournal::open(disk).expect("no voter's disk loses what it has promised");
            let journal = SlowJournal { journal, time_max };
            let exchange = Exchange::new(outbox, here::random());
            let voter = Voter::start(node, CLUSTER, timing, journal, exchange.clone()).await;
            let voter = voter.expect("the journal is sound");
            *running.lock() = Some((voter.clone(), exchange));
            if let Some(founders) = founders {
                found(voter, node, founders).await;
            }
        });
    }

    fn timing(&self) -> Timing {
        Timing {
            heartbeat: 40,
            election: 150,
            watch: 20_000,
            lease: TERMS,
            grace: GRACE,
            upkeep: UPKEEP,
            voters_max: self.voters_max,
            snapshot_after: 40,
        }
    }

    /// The node dies, and its disk loses power.
    pub fn crash(&mut self, node: NodeId) {
        let mode = *self.random.choose(&CrashMode::ALL).expect("there are modes");
        let Some(seat) = self.seats.get_mut(&node) else { return };
        self.tasks.kill(node.0);
        *seat.running.lock() = None;
        seat.gossip = None;
        seat.disk = seat.disk.crash(mode);
    }

    /// The node stands still.
    pub fn pause(&self, node: NodeId, until: u64) {
        self.tasks.pause(node.0, until);
    }

    /// Nobody hears the leader's voter for a while, so that another one follows.
    pub fn mute_leader(&mut self, until: u64) {
        self.muted = self.leader().map(|leader| (leader, until));
    }

    /// Whether messages between two voters are lost.
    pub fn is_muted(&self, from: NodeId, to: NodeId, now: u64) -> bool {
        self.muted.is_some_and(|(node, until)| now < until && (node == from || node == to))
    }

    /// Everybody is heard again.
    pub fn heal(&mut self) {
        self.muted = None;
    }

    /// Something arrives at a node that runs. Answers to nodes and clients are not for voters.
    pub fn deliver(&mut self, now: u64, letter: Letter, time: Time) {
        self.run(now);
        match letter {
            Letter::Voter(Way { from, to }, bytes) => {
                let Some(running) = self.running(to) else { return };
                self.tasks.start(to.0, async move {
                    let (voter, exchange) = running;
                    assert!(exchange.receive(from.0, &bytes, &voter), "voters understand one another");
                });
            }
            Letter::Gossip(Way { to, .. }, bytes) => {
                let Some(gossip) = self.seats.get_mut(&to).and_then(|seat| seat.gossip.as_mut()) else {
                    return;
                };
                // One to an earlier start of the node makes no sense there.
                gossip.handle_packet(&bytes, time);
                self.hear(to);
            }
            Letter::Node(..) | Letter::Client(..) => {}
        }
    }

    /// Time passes on a node.
    pub fn tick(&mut self, node: NodeId, time: Time) {
        let through = self.random.choose(&self.seats.keys().copied().collect::<Vec<_>>()).copied();
        let Some(gossip) = self.seats.get_mut(&node).and_then(|seat| seat.gossip.as_mut()) else { return };
        gossip.handle_timeout(time);
        if let Some(through) = through.filter(|through| *through != node && !gossip.knows(*through)) {
            gossip.join(Peer { node: through, incarnation: Incarnation(0), revival: 0 }, time);
        }
        self.hear(node);
    }

    /// Takes from a node's gossip what it wants.
    fn hear(&mut self, node: NodeId) {
        let running = self.running(node);
        let Some(gossip) = self.seats.get_mut(&node).and_then(|seat| seat.gossip.as_mut()) else { return };
        while let Some(effect) = gossip.poll_effect() {
            let voter = running.as_ref().map(|(voter, _)| voter);
            match effect {
                GossipEffect::Send(to, bytes) => {
                    self.sent.lock().push_back(Letter::Gossip(Way { from: node, to }, bytes));
                }
                GossipEffect::Suspect(other) => voter.into_iter().for_each(|voter| voter.suspect(other)),
                GossipEffect::Trust(other) => voter.into_iter().for_each(|voter| voter.trust(other)),
            }
        }
    }

    /// Whom somebody asks now.
    pub fn contact(&mut self, asker: Asker, now: Time) -> NodeId {
        let contact = self.contact_of(asker);
        if matches!(asker, Asker::Client(_)) {
            // A voter that is behind would tell it the same again.
            contact.turn();
        }
        contact.ask(now).expect("there are nodes")
    }

    /// Somebody was answered.
    pub fn heard(&mut self, asker: Asker, response: &Response) {
        self.contact_of(asker).heard(response);
    }

    fn contact_of(&mut self, asker: Asker) -> &mut Contact {
        let nodes: Vec<NodeId> = self.seats.keys().copied().collect();
        let first = self.random.index(nodes.len());
        self.contacts.entry(asker).or_insert_with(|| Contact::new(nodes, first, PATIENCE))
    }

    /// A question arrives at a node.
    pub fn ask(&self, now: u64, node: NodeId, asker: Asker, request: Request) {
        self.run(now);
        let Some((voter, _)) = self.running(node) else { return };
        let sent = self.sent.clone();
        self.tasks.start(node.0, async move {
            // Nobody here waits for what a command answers.
            let is_awaited = |response: &Response| !matches!(response, Response::Replied(_));
            let response = voter.serve(request).await.filter(is_awaited);
            sent.lock().extend(response.map(|response| match asker {
                Asker::Node(to) => Letter::Node(Way { from: node, to }, response),
                Asker::Client(to) => Letter::Client(to, response),
            }));
        });
    }

    /// An operator's command, to who leads.
    pub fn command(&self, now: u64, command: Command) {
        if let Some(leader) = self.leader() {
            self.ask(now, leader, Asker::Node(leader), Request::Command(command));
        }
    }

    /// What happened among voters since this was last asked, by name.
    pub fn sighted(&mut self) -> impl Iterator<Item = &'static str> + use<> {
        let leader = self.leader();
        let is_another = leader.is_some() && self.led_by.is_some() && leader != self.led_by;
        self.led_by = leader.or(self.led_by);
        let voting = self.voting().len();
        let grows = voting > self.voting_before && voting > 1;
        let shrinks = (1..self.voting_before).contains(&voting);
        self.voting_before = if voting == 0 { self.voting_before } else { voting };
        let sighted = [
            (is_another, "another voter led"),
            (grows, "members became voters"),
            (shrinks, "voters became members"),
        ];
        sighted.into_iter().filter_map(|(happened, name)| happened.then_some(name))
    }

    /// Compares what voters have applied. Fails if two with one version differ.
    pub fn observe(&mut self, now: u64) -> Result<(), String> {
        let running: Vec<(NodeId, Running)> = self.all_running().collect();
        for (node, (voter, _)) in running {
            let version = voter.look(Cluster::version);
            if self.seen.insert(node, version) == Some(version) {
                continue;
            }
            let cluster = voter.look(Cluster::clone);
            cluster.check();
            let told = cluster.changes_since(Position::default(), usize::MAX);
            if self.past.entry(version).or_insert_with(|| told.clone()) != &told {
                return Err(format!("voter {node} differs from another one at {version:?}"));
            }
            if version > self.known.version() {
                self.known = cluster;
            }
            if self.past.len() > PAST_MAX {
                self.past.pop_first();
            }
        }
        self.operate(now);
        Ok(())
    }

    /// The operator makes the class as soon as everybody is there.
    fn operate(&self, now: u64) {
        let is_whole = self.known.present().count() == self.seats.len();
        if is_whole && self.known.class(ClassId(0)).is_none() {
            self.command(now, Command::CreateClass(ClassId(0), self.class));
        }
    }

    /// Who votes, as far as the leader knows.
    pub fn voting(&self) -> BTreeSet<NodeId> {
        let leader = self.leader().and_then(|leader| self.running(leader));
        leader.map(|(voter, _)| voter.voters()).unwrap_or_default()
    }

    /// The voter that takes itself for the leader, of several that of the newest term.
    pub fn leader(&self) -> Option<NodeId> {
        let leading = self.all_running().filter_map(|(node, (voter, _))| Some((voter.leading_term()?, node)));
        leading.max().map(|(_, node)| node)
    }

    fn all_running(&self) -> impl Iterator<Item = (NodeId, Running)> {
        self.seats.iter().filter_map(|(node, seat)| Some((*node, seat.running.lock().clone()?)))
    }

    fn running(&self, node: NodeId) -> Option<Running> {
        self.seats.get(&node)?.running.lock().clone()
    }
}

/// Begins the cluster, unless it has begun. All have their numbers from the start, so that a node's number is its name here.
async fn found(voter: Voter<Here, SlowJournal>, me: NodeId, founders: Vec<Identity>) {
    // One that belongs to a group already refuses.
    let _founded_before = voter.found(BTreeSet::from([me])).await;
    let is_founded = |voter: &Voter<Here, SlowJournal>| voter.look(Cluster::version) > RingVersion(0);
    while !is_founded(&voter) {
        let _again = voter.propose(Command::Found(founders.clone())).await;
        here::sleep(Duration::from_millis(20)).await;
    }
}

/// Any will do.
const CLUSTER: ClusterId = ClusterId(7);
/// Fast, as everything is here: leases last a third of a second.
const GOSSIP: GossipTiming = GossipTiming { probe: 80_000, answer: 30_000, refute: 120_000, news: 60_000 };
/// How long a node that nobody suspects may be without a lease, in microseconds: long enough to ask everybody who leads.
const GRACE: u64 = 600_000;
/// How long a node waits for an answer before it asks another one, in microseconds.
const PATIENCE: u64 = 60_000;
/// States that are kept for comparison.
const PAST_MAX: usize = 64;
