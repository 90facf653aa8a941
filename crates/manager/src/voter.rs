//! A voter: one member of the consensus group, and if it leads, the holder of the leases.
//!
//! It does what [`Leases`] asks of its caller: it begins to hold leases when it has applied everything logged before, it
//! grants one only when a majority has confirmed since the request that it leads, and the evictions that it logs hold in its term
//! only. So do the releases that it takes (see [`permit_release`]), and for the change only for which it took them.

use std::{
    collections::BTreeSet,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use openraft::{
    AsyncRuntime, Config, EmptyNode, Raft, ServerState, Snapshot, SnapshotPolicy,
    error::{ClientWriteError, RaftError},
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tyr_proto::{
    Grant, LeaseRequest, LeaseTerms, Leases, NodeId, Replica, Time, Upkeep, UpkeepTerms,
    cluster::{self, Cluster, ClusterId, Command, Position, Reply},
    permit_release,
};

use crate::{
    RaftRuntime, Surroundings,
    election::Attention,
    electorate::electorate,
    journal::{Coverage, Journal, Log},
    machine::Machine,
    transport::{Links, NoAnswer, Transport},
    types::{Premise, Proposal, Request, Response, Types, VoterId},
};

/// How long things take, in microseconds if not said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The leader is heard of this often, in milliseconds.
    pub heartbeat: u64,
    /// A voter that has not heard of a leader for this long, up to twice this long, stands for election if most others have not heard
    /// of one for this long either; in milliseconds.
    pub election: u64,
    /// How often the leader looks for leases that have run out.
    pub watch: u64,
    /// The leases.
    pub lease: LeaseTerms,
    /// How long a node that nobody suspects may be without a lease before it is evicted.
    pub grace: u64,
    /// Nodes that stay away, and what follows from it.
    pub upkeep: UpkeepTerms,
    /// The most voters, an odd number.
    pub voters_max: usize,
    /// Entries of the log after which a snapshot is taken.
    pub snapshot_after: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            heartbeat: 200,
            election: 1_000,
            watch: 200_000,
            lease: LeaseTerms::default(),
            grace: 5_000_000,
            upkeep: UpkeepTerms::default(),
            voters_max: 5,
            snapshot_after: 5_000,
        }
    }
}

/// The voter cannot do it now: it does not lead, or does not reach a majority. Whether a command that was sent is carried out is not
/// known; it may be sent again, to the leader if one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Who leads, as far as this voter knows.
    pub leader: Option<NodeId>,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.leader {
            Some(leader) => write!(f, "the cluster manager is led by {leader}; ask there"),
            None => f.write_str("the cluster manager has no leader that reaches a majority; try again later"),
        }
    }
}

/// One member of the consensus group. Handles are equal; it runs until its surroundings end.
pub struct Voter<S: Surroundings, J> {
    pub(crate) node: NodeId,
    /// How long the consensus is waited for: two elections at the most.
    patience: Duration,
    /// Who has not heard of a leader for so many microseconds would vote for another one.
    pub(crate) election: u64,
    pub(crate) raft: Raft<Types<S>>,
    machine: Machine<J>,
    pub(crate) log: Log<S, J>,
    pub(crate) attention: Arc<Mutex<Attention>>,
    held: Arc<Mutex<Held>>,
    /// What nodes reported and is being logged.
    reported: Arc<Mutex<Vec<Command>>>,
    /// Whether it steps aside.
    is_silent: Arc<AtomicBool>,
    unconfirmed: mpsc::Sender<oneshot::Sender<bool>>,
}

impl<S: Surroundings, J: Clone> Clone for Voter<S, J> {
    fn clone(&self) -> Self {
        let (raft, machine) = (self.raft.clone(), self.machine.clone());
        Voter {
            node: self.node,
            patience: self.patience,
            election: self.election,
            raft,
            machine,
            log: self.log.clone(),
            attention: self.attention.clone(),
            held: self.held.clone(),
            reported: self.reported.clone(),
            is_silent: self.is_silent.clone(),
            unconfirmed: self.unconfirmed.clone(),
        }
    }
}

/// What a node reported, until it is logged or nobody waits for that any more.
struct Reported {
    all: Arc<Mutex<Vec<Command>>>,
    command: Command,
}

impl Drop for Reported {
    fn drop(&mut self) {
        self.all.lock().retain(|other| *other != self.command);
    }
}

/// What a leader remembers, and the term for which it does. Locked before the cluster is looked at, never while it is.
struct Held {
    leases: Leases,
    upkeep: Upkeep,
    term: u64,
}

impl Held {
    fn new(timing: Timing) -> Self {
        let leases = Leases::new(timing.lease, timing.grace);
        Held { leases, upkeep: Upkeep::new(timing.upkeep), term: 0 }
    }

    fn step_down(&mut self) {
        self.leases.step_down();
        self.upkeep.step_down();
    }
}

impl<S: Surroundings, J: Journal<S>> Voter<S, J> {
    /// Starts the voter of a node with what its journal has. A group that is new is [founded](Voter::found) by one of its voters.
    pub async fn start(
        node: NodeId,
        cluster: ClusterId,
        timing: Timing,
        journal: J,
        transport: impl Transport<S>,
    ) -> io::Result<Self> {
        let config = Arc::new(config(cluster, timing).validate().map_err(io::Error::other)?);
        let kept = journal.load()?;
        let coverage = Coverage::new(kept.covered());
        let machine = Machine::new(journal.clone(), &kept, coverage.clone(), Cluster::new(cluster));
        let log = Log::new(journal, kept, coverage);
        let is_silent = Arc::<AtomicBool>::default();
        let links = Links { transport: transport.clone(), is_silent: is_silent.clone() };
        let raft = Raft::new(node.0, config, links, log.clone(), machine.clone()).await;
        let raft = raft.map_err(io::Error::other)?;
        let (unconfirmed, to_confirm) = mpsc::channel(UNCONFIRMED_MAX);
        let patience = Duration::from_millis(2 * timing.election);
        let voter = Voter {
            node,
            patience,
            election: 1_000 * timing.election,
            raft,
            machine,
            log,
            attention: Arc::new(Mutex::new(Attention::new(S::now()))),
            held: Arc::new(Mutex::new(Held::new(timing))),
            reported: Arc::default(),
            is_silent,
            unconfirmed,
        };
        let (watcher, elector, confirmer) = (voter.clone(), voter.clone(), voter.clone());
        S::spawn(async move { watcher.watch(timing.watch).await });
        S::spawn(voter.clone().stand_all(timing, transport));
        S::spawn(async move { elector.reform_all(timing).await });
        S::spawn(confirmer.confirm_all(to_confirm, Duration::from_millis(timing.election)));
        Ok(voter)
    }

    /// Begins the group. It is enough that one voter does so; one that already belongs to a group refuses.
    pub async fn found(&self, voters: BTreeSet<NodeId>) -> io::Result<()> {
        let voters: BTreeSet<VoterId> = voters.into_iter().map(|node| node.0).collect();
        self.raft.initialize(voters).await.map_err(io::Error::other)
    }

    /// Waits until the voter has ended by itself, because its journal has failed, and says why. It answers nobody any more.
    pub async fn ended(&self) -> io::Error {
        let mut metrics = self.raft.metrics();
        loop {
            if let Err(fatal) = &metrics.borrow_and_update().running_state {
                return io::Error::other(fatal.to_string());
            }
            if metrics.changed().await.is_err() {
                return io::Error::other("the consensus has ended");
            }
        }
    }

    /// Answers another voter. Any failure is silence.
    pub async fn answer(&self, request: Request<S>) -> Result<Response, NoAnswer> {
        let response = match request {
            Request::Append(request) => self.raft.append_entries(request).await.map(Response::Append).ok(),
            Request::Vote(request) => self.raft.vote(request).await.map(Response::Vote).ok(),
            Request::Snapshot(vote, meta, snapshot) => {
                let installed = self.raft.install_full_snapshot(vote, Snapshot { meta, snapshot }).await;
                installed.map(Response::Snapshot).ok()
            }
            Request::Canvass(last) => Some(Response::Canvass(self.would_vote(last))),
        };
        let response = response.ok_or(NoAnswer)?;
        self.attention.lock().answered(&response, S::now());
        Ok(response)
    }

    /// Answers a node or client; none if it has nothing to say, now or ever. An eviction is for the leader alone to find.
    pub async fn serve(&self, request: cluster::Request) -> Option<cluster::Response> {
        match request {
            cluster::Request::Command(Command::Evict(_)) => None,
            cluster::Request::Command(command) => match self.report(command).await {
                Ok(reply) => reply.map(cluster::Response::Replied),
                // It leads, and cannot do it yet.
                Err(Unavailable { leader: None }) if self.leading_term().is_some() => None,
                Err(Unavailable { leader }) => Some(cluster::Response::Elsewhere(leader)),
            },
            cluster::Request::Register(holder, command) => Some(self.register(holder, command).await),
            cluster::Request::Lease(request, position) => Some(self.renew(request, position).await),
            cluster::Request::Ring(version) => {
                let position = Position::whole(version);
                let is_behind =
                    self.look(|cluster| cluster.version() < version.max(tyr_proto::RingVersion(1)));
                Some(match is_behind {
                    true => cluster::Response::Elsewhere(self.other_leader()),
                    false => self.changes_since(position),
                })
            }
            // That is for the node.
            cluster::Request::Report
            | cluster::Request::Hatch
            | cluster::Request::Token(_)
            | cluster::Request::Seal
            | cluster::Request::Uses(_)
            | cluster::Request::View(_) => None,
            // One that was a voter once, and is none any more, knows neither what is so now nor that it does not.
            cluster::Request::Newest(version) => Some(match self.confirm().await {
                true => self.changes_since(Position::whole(version)),
                false => cluster::Response::Elsewhere(self.other_leader()),
            }),
        }
    }

    fn changes_since(&self, position: Position) -> cluster::Response {
        cluster::Response::Ring(self.look(|cluster| cluster.changes_since(position, usize::MAX)))
    }

    /// Logs a command; none is answered to what is no news, or is being logged.
    async fn report(&self, command: Command) -> Result<Option<Reply>, Unavailable> {
        let leads = self.leading_term().is_some();
        if leads {
            let is_news = self.look(|cluster| cluster.is_news(&command));
            let mut reported = self.reported.lock();
            if !is_news || reported.contains(&command) || reported.len() >= REPORTED_MAX {
                return Ok(None);
            }
            reported.push(command.clone());
        }
        let _reported = leads.then(|| Reported { all: self.reported.clone(), command: command.clone() });
        self.propose(command).await.map(Some)
    }

    async fn register(&self, holder: Replica, command: Command) -> cluster::Response {
        // It asks again and again; that is not worth an entry of the log each time.
        let is_hopeless =
            |cluster: &Cluster| cluster.refuses_for_good(&command) || cluster.contradicts(&command);
        if self.leading_term().is_some() && self.look(is_hopeless) {
            return cluster::Response::Evicted(holder);
        }
        match self.propose(command).await {
            Ok(Ok(cluster::Answer::Registered(node, _))) => cluster::Response::Registered(node),
            Ok(Err(cluster::Refusal::NotFounded)) => cluster::Response::Elsewhere(self.other_leader()),
            Ok(_) => cluster::Response::Evicted(holder),
            Err(Unavailable { leader }) => cluster::Response::Elsewhere(leader),
        }
    }

    async fn renew(&self, request: LeaseRequest, position: Position) -> cluster::Response {
        match self.lease(request).await {
            Grant::Granted(request) => {
                self.held.lock().leases.note_reached(request.holder, position.reached());
                let changes = self.look(|cluster| cluster.changes_since(position, FACTS_MAX));
                cluster::Response::Granted(request, changes)
            }
            Grant::Evicted => cluster::Response::Evicted(request.holder),
            Grant::NotLeading => cluster::Response::Elsewhere(self.other_leader()),
        }
    }

    /// Logs a command and answers when it is applied here. A release that is taken too early is unavailable: it is to be said again.
    pub async fn propose(&self, command: Command) -> Result<Reply, Unavailable> {
        let premise = self.premise(&command).ok_or_else(|| Unavailable { leader: self.other_leader() })?;
        let incarnation = match &command {
            Command::Register { incarnation, .. } => Some(*incarnation),
            _ => None,
        };
        let reply = self.log(Proposal { premise, command }).await?;
        if let (Some(incarnation), Ok(cluster::Answer::Registered(node, _))) = (incarnation, reply) {
            // It has as long as a lease lasts to ask for its first one.
            let request = LeaseRequest { holder: Replica { node, incarnation }, sent: Time(0) };
            self.held.lock().leases.grant(request, S::now());
        }
        Ok(reply)
    }

    /// What a command of a node rests on, if it may be logged now.
    fn premise(&self, command: &Command) -> Option<Premise> {
        let Command::Release { partition, .. } = command else { return Some(Premise::default()) };
        let held = self.held.lock();
        if !held.leases.is_leading() {
            return None;
        }
        let awaited = self.look(|cluster| permit_release(cluster, &held.leases, *partition))?;
        Some(Premise { term: Some(held.term), awaited: Some(awaited) })
    }

    async fn log(&self, proposal: Proposal) -> Result<Reply, Unavailable> {
        if self.is_silent.load(Ordering::Relaxed) {
            return Err(Unavailable { leader: None });
        }
        // It waits for ever if this voter leads no more and takes what followed as a snapshot.
        let written = RaftRuntime::<S>::timeout(self.patience, self.raft.client_write(proposal)).await;
        match written {
            Ok(Ok(written)) => Ok(written.data.expect("a command has a reply")),
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => {
                Err(Unavailable { leader: self.other_leader() })
            }
            Ok(Err(_)) | Err(_) => Err(Unavailable { leader: None }),
        }
    }

    /// Grants a lease, if this voter leads.
    pub async fn lease(&self, request: LeaseRequest) -> Grant {
        // Its holder ran when the request arrived, and nobody knows whether it does later. A majority must confirm after that.
        let arrived = S::now();
        if !self.confirm().await {
            return Grant::NotLeading;
        }
        // Nobody who was evicted meanwhile: as long as the leases are held, the leader does not forget whom it has condemned.
        let mut held = self.held.lock();
        match self.look(|cluster| cluster.is_present(request.holder)) {
            true => held.leases.grant(request, arrived),
            false => Grant::Evicted,
        }
    }

    /// Whether a majority confirms, after this was asked, that this voter leads. It has then applied what was logged before its term.
    async fn confirm(&self) -> bool {
        if self.is_silent.load(Ordering::Relaxed) {
            return false;
        }
        let (sender, receiver) = oneshot::channel();
        self.unconfirmed.try_send(sender).is_ok() && receiver.await.unwrap_or(false)
    }

    /// Asks the majority once for everybody who waits. One at a time: each waits for the metrics to change, and in which order tokio
    /// wakes several who do so is random.
    async fn confirm_all(self, mut unconfirmed: mpsc::Receiver<oneshot::Sender<bool>>, time_max: Duration) {
        while let Some(first) = unconfirmed.recv().await {
            let mut waiting = vec![first];
            while let Ok(next) = unconfirmed.try_recv() {
                waiting.push(next);
            }
            let raft = self.raft.clone();
            let confirmed = async move { raft.ensure_linearizable().await.is_ok() };
            let is_confirmed = RaftRuntime::<S>::timeout(time_max, confirmed).await == Ok(true);
            for waiting in waiting {
                let _unheard = waiting.send(is_confirmed);
            }
        }
    }

    /// Gossip suspects a node, or holds it for dead.
    pub fn suspect(&self, node: NodeId) {
        self.held.lock().leases.suspect(node);
    }

    /// Gossip has heard of a node again.
    pub fn trust(&self, node: NodeId) {
        self.held.lock().leases.trust(node);
    }

    /// Looks at the cluster as far as this voter has applied the log; it may be behind the leader.
    pub fn look<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        self.machine.look(look)
    }

    /// Who leads, or led when this voter last heard of a leader.
    pub fn leader(&self) -> Option<NodeId> {
        self.raft.metrics().borrow().current_leader.map(NodeId)
    }

    /// Who may be asked in place of this voter, which does not lead, or cannot do now what was asked. One that has not heard of a leader for
    /// a while names none: the one that it followed may be dead, and it may be no voter any more, whom nobody tells who follows.
    pub fn other_leader(&self) -> Option<NodeId> {
        self.leader().filter(|leader| *leader != self.node && self.hears_of_a_leader())
    }

    /// The term in which this voter leads, as far as it knows: that of the last entry that it has applied. The term of its vote may be
    /// later: it may have voted for another one, who was not elected, and leads on. One that leads anew and has not applied an entry of its
    /// own yet answers an earlier term; whatever rests on that is refused when it is applied.
    pub fn leading_term(&self) -> Option<u64> {
        let leads = self.raft.metrics().borrow().state == ServerState::Leader;
        (leads && !self.is_silent.load(Ordering::Relaxed)).then(|| self.machine.term())
    }

    /// Whether it leads, and a majority has confirmed that since it last stepped aside: it holds the leases. Without a majority a voter goes on to
    /// lead as far as it knows, between one time that it steps aside and the next.
    pub fn is_confirmed(&self) -> bool {
        self.leading_term().is_some() && self.held.lock().leases.is_leading()
    }

    /// Begins and ends to hold the leases with the leadership, and evicts those that have none.
    async fn watch(&self, every: u64) {
        loop {
            S::sleep(every).await;
            let Some(term) = self.leading_term() else {
                self.held.lock().step_down();
                continue;
            };
            let holds = {
                let held = self.held.lock();
                held.leases.is_leading() && held.term == term
            };
            if !holds {
                self.begin().await;
                continue;
            }
            // Whom it does not hear it would evict, and the others would log that though it is the one who is cut off.
            if self.is_alone() {
                continue;
            }
            for command in self.due() {
                let premise = Premise { term: Some(term), awaited: None };
                // What is not logged is found again, and nothing after it comes before it.
                if self.log(Proposal { premise, command }).await.is_err() {
                    break;
                }
            }
        }
    }

    /// What a leader proposes on its own.
    fn due(&self) -> Vec<Command> {
        let now = S::now();
        let mut held = self.held.lock();
        let Held { leases, upkeep, .. } = &mut *held;
        self.look(|cluster| {
            let overdue = leases.overdue(cluster.present(), now).into_iter().map(Command::Evict);
            overdue.chain(upkeep.due(cluster, now)).collect()
        })
    }

    /// Keeps the voters those who should vote, as long as it leads.
    async fn reform_all(&self, timing: Timing) {
        loop {
            S::sleep(timing.watch).await;
            // What takes longer is begun anew; the consensus refuses a second change while one is on its way.
            let step = self.reform(timing.voters_max);
            let is_to_go = RaftRuntime::<S>::timeout(self.patience, step).await == Ok(true);
            if is_to_go {
                self.step_aside(timing, ASIDE_TO_GO).await;
            } else if self.is_alone() {
                self.step_aside(timing, ASIDE_ALONE).await;
            }
        }
    }

    /// Whether it leads, and the majority has not heeded it for so long that others might lead better: they may hear it though it does not
    /// hear them, and then they wait for it.
    fn is_alone(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let is_one_of_many = metrics.membership_config.voter_ids().nth(1).is_some();
        // Nobody has ever heeded one that has only just been elected, and nobody can heed one that says nothing.
        let excused = S::now().since(self.attention.lock().excused_at());
        let heeded = metrics.millis_since_quorum_ack.map_or(excused, |millis| excused.min(1_000 * millis));
        is_one_of_many && metrics.state == ServerState::Leader && 2 * heeded > 3 * self.election
    }

    /// Whether it steps aside.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Says nothing for so many elections, so that another voter stands. A leader that is to vote no more must not end its vote itself: if
    /// it failed meanwhile, it might hold the longest log, in which it is no voter and does not stand, and then nobody else could be
    /// elected. The consensus has no other way to hand the leadership over.
    async fn step_aside(&self, timing: Timing, elections: u64) {
        let end = S::now().after(elections * self.election);
        self.is_silent.store(true, Ordering::Relaxed);
        self.held.lock().step_down();
        while S::now() < end && self.raft.metrics().borrow().state == ServerState::Leader {
            S::sleep(timing.watch).await;
        }
        self.attention.lock().excuse(S::now());
        self.is_silent.store(false, Ordering::Relaxed);
    }

    /// The next step towards that: who is to vote learns the log first, and then all begin and cease to vote at once. True if all is as
    /// it should be but that this voter should be none.
    async fn reform(&self, most: usize) -> bool {
        let holds = self.held.lock().leases.is_leading();
        let (membership, last, known) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow();
            let known = metrics.replication.clone().unwrap_or_default();
            (metrics.membership_config.membership().clone(), metrics.last_log_index.unwrap_or(0), known)
        };
        let voting: BTreeSet<NodeId> = membership.voter_ids().map(NodeId).collect();
        let mut wanted = self.look(|cluster| electorate(cluster, &voting, most));
        let is_halfway = membership.get_joint_config().len() > 1;
        if !holds || !voting.contains(&self.node) || wanted.is_empty() {
            return false;
        }
        let is_to_go = wanted.insert(self.node);
        let index =
            |voter: &NodeId| known.get(&voter.0).copied().flatten().map_or(0, |learned| learned.index);
        if wanted == voting && !is_halfway {
            // Whoever lacks an entry cannot be elected.
            return is_to_go && wanted.iter().all(|voter| *voter == self.node || index(voter) >= last);
        }
        let is_near = |voter: &NodeId| {
            let learned = index(voter);
            voting.contains(voter) || learned + LAG_MAX >= last && learned > 0
        };
        // What fails is tried again.
        if let Some(newcomer) = wanted.iter().find(|voter| membership.get_node(&voter.0).is_none()) {
            let _unheard = self.raft.add_learner(newcomer.0, EmptyNode {}, false).await;
        } else if wanted.iter().all(is_near) {
            let voters: BTreeSet<VoterId> = wanted.iter().map(|node| node.0).collect();
            let _unheard = self.raft.change_membership(voters, false).await;
        }
        false
    }

    /// Who votes, as far as this voter knows.
    pub fn voters(&self) -> BTreeSet<NodeId> {
        self.raft.metrics().borrow().membership_config.voter_ids().map(NodeId).collect()
    }

    /// Holds the leases from now on, once everything logged before is applied.
    async fn begin(&self) {
        let is_confirmed = self.confirm().await;
        let Some(term) = self.leading_term().filter(|_| is_confirmed) else { return };
        // One that stepped aside and leads on may have logged evictions in this very term: their holders are granted nothing any more.
        let last = self.log.last();
        for _ in 0..LOOKS_MAX {
            if self.machine.applied() >= last {
                let mut held = self.held.lock();
                held.step_down();
                held.term = term;
                held.leases.lead(S::now());
                return;
            }
            S::sleep(LOOK_EVERY).await;
            if self.leading_term() != Some(term) {
                return;
            }
        }
    }
}

/// The most things that one grant tells its holder about.
const FACTS_MAX: usize = 64;
/// So many elections a leader is silent that is to vote no more. The others wait for as long as they follow a leader that is silent, and for
/// as long as an election may take, several times if several stand at once.
const ASIDE_TO_GO: u64 = 10;
/// So many a leader is silent whom nobody heeds: enough for the others, and not more, for they may need what it alone has in its log.
const ASIDE_ALONE: u64 = 4;
/// A leader that is to hold the leases looks this often whether it has applied its log, in microseconds,
const LOOK_EVERY: u64 = 5_000;
/// and so many times, before it has the majority confirm again that it leads.
const LOOKS_MAX: u32 = 200;
/// The most entries of the log that a node may lack when it begins to vote.
const LAG_MAX: u64 = 16;
/// The most reports of nodes that are being logged at once; more are not heard, and are said again.
const REPORTED_MAX: usize = 1024;
/// The most requests that wait for a majority at once; more are told to ask elsewhere.
const UNCONFIRMED_MAX: usize = 4096;

fn config(cluster: ClusterId, timing: Timing) -> Config {
    // Who would vote has not heard of a leader for `election`; by then the library must not hold it to that leader any more.
    let election = (timing.election * 9 / 10).max(timing.heartbeat + 1);
    Config {
        cluster_name: format!("{:032x}", cluster.0),
        heartbeat_interval: timing.heartbeat,
        enable_elect: false,
        election_timeout_min: election,
        election_timeout_max: election + 1,
        install_snapshot_timeout: timing.election * 10,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(timing.snapshot_after),
        max_in_snapshot_log_to_keep: timing.snapshot_after / 5,
        ..Config::default()
    }
}
