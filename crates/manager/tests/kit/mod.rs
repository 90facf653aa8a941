//! A cluster of voters and nodes in one thread, from one seed: links that delay, lose, and are cut, journals that are slow and lose
//! what they had not kept, clocks that drift, nodes that are killed anywhere.

#![allow(dead_code, reason = "not every test uses every part")]

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tyr_manager::{
    Change, Gossip, GossipEffect, GossipTiming, Journal, Kept, NoAnswer, Peer, Request, Response,
    Surroundings, Timing, Transport, Unavailable, Voter,
};
use tyr_proto::{
    ClassId, Grant, Incarnation, Lease, LeaseRequest, LeaseTerms, NodeId, Replica, Time, UpkeepTerms,
    cluster::{
        self, Address, Answer, ClassSettings, Cluster, ClusterId, Command, Identity, Refusal, Reply, Zone,
    },
};
use tyr_sim_env::{Drift, SimTasks, Sleep, here};

/// Milliseconds in the microseconds of the simulation.
pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000 * MS;
pub const CLUSTER: ClusterId = ClusterId(42);

pub const TIMING: Timing = Timing {
    heartbeat: 100,
    election: 400,
    watch: 100 * MS,
    lease: LeaseTerms { length: 2 * SECOND, drift_max: 10_000 },
    grace: 20 * SECOND,
    upkeep: UpkeepTerms { absence_max: 3_600 * SECOND, moving_max: 4, plan_every: 3_600 * SECOND },
    voters_max: 3,
    snapshot_after: 20,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sim;

impl Surroundings for Sim {
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

/// What a voter keeps outlives it; a change that was not finished when it was killed is lost.
#[derive(Clone, Default)]
pub struct SimJournal(Arc<Mutex<Kept<Sim>>>);

impl Journal<Sim> for SimJournal {
    fn load(&self) -> io::Result<Kept<Sim>> {
        Ok(self.0.lock().clone())
    }

    async fn keep(&self, change: Change<Sim>) -> io::Result<()> {
        here::sleep(Duration::from_micros(here::random() % 10_000)).await;
        self.0.lock().apply(change);
        Ok(())
    }
}

type SimVoter = Voter<Sim, SimJournal>;

#[derive(Default)]
struct Wires {
    voters: BTreeMap<u32, SimVoter>,
    gossips: BTreeMap<u32, Arc<Mutex<Gossip>>>,
    /// Links, from and to, that carry nothing.
    cut: BTreeSet<(u32, u32)>,
    /// Messages of a thousand that are lost.
    loss: u64,
}

/// The network as one node sees it.
#[derive(Clone)]
pub struct SimNet {
    node: u32,
    tasks: SimTasks,
    wires: Arc<Mutex<Wires>>,
}

impl SimNet {
    /// One way of a message. False if it does not arrive.
    async fn travel(&self, from: u32, to: u32) -> bool {
        let lost = here::random() % 1_000 < self.wires.lock().loss;
        here::sleep(Duration::from_micros(50 + here::random() % 5_000)).await;
        !lost && !self.wires.lock().cut.contains(&(from, to))
    }

    /// Carries a packet of gossip.
    async fn carry(self, to: u32, packet: Vec<u8>) {
        self.tasks.note(&packet);
        if self.travel(self.node, to).await {
            let gossip = self.wires.lock().gossips.get(&to).cloned();
            let now = Time(self.tasks.time_of(to));
            // One to an earlier start of the node makes no sense there.
            if let Some(gossip) = gossip {
                gossip.lock().handle_packet(&packet, now);
            }
        }
    }

    /// Asks a voter anything. Without an answer it waits for ever.
    async fn ask_voter<T: Send + 'static, F: Future<Output = T> + Send>(
        &self,
        voter: u32,
        what: String,
        ask: impl FnOnce(SimVoter) -> F + Send + 'static,
    ) -> T {
        self.tasks.note(format!("{} to {voter}: {what}", self.node).as_bytes());
        if self.travel(self.node, voter).await {
            let (sender, receiver) = oneshot::channel();
            let (net, from) = (self.clone(), self.node);
            self.tasks.start(voter, async move {
                let asked = net.wires.lock().voters.get(&voter).cloned();
                let Some(asked) = asked else { return };
                let answer = ask(asked).await;
                if net.travel(voter, from).await {
                    let _unheard = sender.send(answer);
                }
            });
            if let Ok(answer) = receiver.await {
                return answer;
            }
        }
        std::future::pending().await
    }

    /// Asks a voter anything, for a second.
    async fn try_voter<T: Send + 'static, F: Future<Output = T> + Send>(
        &self,
        voter: u32,
        what: String,
        ask: impl FnOnce(SimVoter) -> F + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let net = self.clone();
        here::spawn(async move {
            let _unheard = sender.send(net.ask_voter(voter, what, ask).await);
        });
        let sleep = std::pin::pin!(here::sleep(Duration::from_secs(1)));
        match futures::future::select(receiver, sleep).await {
            futures::future::Either::Left((answer, _)) => answer.ok(),
            futures::future::Either::Right(_) => None,
        }
    }
}

impl Transport<Sim> for SimNet {
    async fn ask(&self, voter: u32, request: Request<Sim>) -> Result<Response, NoAnswer> {
        let what = format!("{request:?}");
        self.ask_voter(voter, what, |voter| async move { voter.answer(request).await }).await
    }
}

/// A node that holds a lease, while it runs.
struct Holder {
    lease: Lease,
    replica: Replica,
}

#[derive(Default)]
struct NodeState {
    journal: SimJournal,
    /// Survives the process.
    incarnation: u64,
    holder: Option<Holder>,
}

/// All of it.
pub struct World {
    pub tasks: SimTasks,
    voters: BTreeSet<u32>,
    nodes: BTreeMap<u32, Arc<Mutex<NodeState>>>,
    wires: Arc<Mutex<Wires>>,
    /// How often the end of an incarnation was found applied, and checked that it serves nothing.
    pub fenced: u64,
}

impl World {
    /// Nodes 1 to `nodes`, of which the first are voters; founded, and running.
    pub fn new(seed: u64, voters: u32, nodes: u32) -> Self {
        let tasks = SimTasks::new(seed);
        let wires = Arc::<Mutex<Wires>>::default();
        let mut world =
            World { tasks, voters: (1..=voters).collect(), nodes: BTreeMap::new(), wires, fenced: 0 };
        for node in 1..=nodes {
            let start = world.tasks.random() % (100 * SECOND);
            let gain = i32::try_from(world.tasks.random() % 9_000).unwrap() - 4_500;
            world.tasks.set_clock(node, Drift { start, gain });
            world.nodes.insert(node, Arc::default());
            world.start(node);
        }
        world.found();
        world
    }

    fn found(&self) {
        let (wires, voters) = (self.wires.clone(), self.voters.clone());
        // All of them, so that a node's number is its name here.
        let nodes: Vec<u32> = self.nodes.keys().copied().collect();
        self.tasks.start(1, async move {
            here::sleep(Duration::from_millis(50)).await;
            let voter = wires.lock().voters[&1].clone();
            voter.found(voters.iter().map(|voter| NodeId(*voter)).collect()).await.unwrap();
            let founders: Vec<Identity> = nodes.iter().map(|node| Identity(u128::from(*node))).collect();
            while voter.propose(Command::Found(founders.clone())).await.is_err() {
                here::sleep(Duration::from_millis(50)).await;
            }
        });
    }

    fn net(&self, node: u32) -> SimNet {
        SimNet { node, tasks: self.tasks.clone(), wires: self.wires.clone() }
    }

    /// Starts a node that does not run.
    pub fn start(&self, node: u32) {
        let (state, net) = (self.nodes[&node].clone(), self.net(node));
        let is_voter = self.voters.contains(&node);
        self.tasks.start(node, async move {
            if is_voter {
                let journal = state.lock().journal.clone();
                let voter = Voter::start(NodeId(node), CLUSTER, TIMING, journal, net.clone()).await.unwrap();
                net.wires.lock().voters.insert(node, voter);
            }
            let incarnation = Incarnation(state.lock().incarnation + 1);
            here::spawn(gossip(net.clone(), Peer { node: NodeId(node), incarnation, revival: 0 }));
            if !is_voter {
                here::spawn(operate(net.clone()));
            }
            hold(state, net).await;
        });
    }

    /// Kills a node where its tasks stand.
    pub fn kill(&self, node: u32) {
        self.wires.lock().voters.remove(&node);
        self.wires.lock().gossips.remove(&node);
        self.tasks.kill(node);
        self.nodes[&node].lock().holder = None;
    }

    /// Kills a node and starts it again.
    pub fn restart(&self, node: u32) {
        self.kill(node);
        self.start(node);
    }

    /// Cuts every link between the two sides, both ways.
    pub fn part(&self, side: &[u32]) {
        let mut wires = self.wires.lock();
        for from in self.nodes.keys() {
            let others = self.nodes.keys().filter(|to| side.contains(from) != side.contains(to));
            wires.cut.extend(others.map(|to| (*from, *to)));
        }
    }

    /// Cuts one link one way.
    pub fn cut(&self, from: u32, to: u32) {
        self.wires.lock().cut.insert((from, to));
    }

    pub fn heal(&self) {
        let mut wires = self.wires.lock();
        wires.cut.clear();
        wires.loss = 0;
    }

    /// So many of a thousand messages are lost.
    pub fn lose(&self, of_thousand: u64) {
        self.wires.lock().loss = of_thousand;
    }

    fn running(&self) -> impl Iterator<Item = (u32, SimVoter)> + use<> {
        let voters = self.wires.lock().voters.clone();
        voters.into_iter()
    }

    pub fn is_running(&self, node: u32) -> bool {
        self.wires.lock().voters.contains_key(&node)
    }

    /// The voter that this one takes for the leader.
    pub fn leader_seen_by(&self, voter: u32) -> Option<u32> {
        self.wires.lock().voters.get(&voter)?.leader().map(|leader| leader.0)
    }

    /// Whether a running voter takes itself for the leader, and whether a majority has confirmed that.
    pub fn leads(&self, voter: u32) -> (bool, bool) {
        let voter = self.wires.lock().voters[&voter].clone();
        (voter.leading_term().is_some(), voter.is_confirmed())
    }

    /// What a running voter has applied.
    pub fn look<T>(&self, voter: u32, look: impl FnOnce(&Cluster) -> T) -> T {
        let voter = self.wires.lock().voters[&voter].clone();
        voter.look(look)
    }

    /// What a running voter answers within a few seconds.
    pub fn ask(&mut self, voter: u32, request: cluster::Request) -> Option<cluster::Response> {
        let asked = self.wires.lock().voters[&voter].clone();
        let answer = Arc::<Mutex<Option<cluster::Response>>>::default();
        let told = answer.clone();
        self.tasks.start(voter, async move { *told.lock() = asked.serve(request).await });
        self.run(5 * SECOND);
        answer.lock().take()
    }

    pub fn incarnation(&self, node: u32) -> u64 {
        self.nodes[&node].lock().incarnation
    }

    pub fn may_serve(&self, node: u32) -> bool {
        let now = Time(self.tasks.time_of(node));
        self.nodes[&node].lock().holder.as_ref().is_some_and(|holder| holder.lease.may_serve(now))
    }

    /// Lets time pass, and checks every few milliseconds what must always hold.
    pub fn run(&mut self, time: u64) {
        let end = self.tasks.true_time() + time;
        while self.tasks.true_time() < end {
            self.tasks.run_until((self.tasks.true_time() + 20 * MS).min(end));
            self.check();
        }
    }

    /// No incarnation serves that any voter has applied the end of, and voters at one ring version have one cluster.
    fn check(&mut self) {
        let mut seen: Vec<(u32, Cluster)> = Vec::new();
        for (id, voter) in self.running() {
            let cluster = voter.look(Cluster::clone);
            cluster.check();
            for (node, state) in &self.nodes {
                let replica = state.lock().holder.as_ref().map(|holder| holder.replica);
                let is_known = |replica: &Replica| {
                    let member = cluster.member(replica.node);
                    member.is_some_and(|member| member.incarnation >= replica.incarnation)
                };
                let ended = replica.filter(|replica| is_known(replica) && !cluster.is_present(*replica));
                if ended.is_some() {
                    self.fenced += 1;
                    assert!(!self.may_serve(*node), "node {node} serves after voter {id} applied its end");
                }
            }
            for (other, known) in &seen {
                let differ = known.version() == cluster.version() && *known != cluster;
                assert!(!differ, "voters {id} and {other} differ at {:?}", cluster.version());
            }
            seen.push((id, cluster));
        }
    }
}

/// An operator who keeps the log growing, so that snapshots are taken and sent.
async fn operate(net: SimNet) {
    let settings = ClassSettings { partitions: 8, ..ClassSettings::new(3) };
    // Before the cluster is founded it is refused.
    while propose(&net, Command::CreateClass(ClassId(0), settings)).await.is_err() {
        here::sleep(Duration::from_millis(100)).await;
    }
    loop {
        let planned = net.try_voter(1, String::from("plan"), |voter| async move {
            voter.look(|cluster| cluster.plan(ClassId(0), &[]).expect("eight partitions can be placed"))
        });
        if let Some(Some(plan)) = planned.await {
            propose(&net, plan).await.expect("nobody leaves");
        }
        here::sleep(Duration::from_millis(300)).await;
    }
}

/// What a node hears of the others, and tells its voter.
async fn gossip(net: SimNet, me: Peer) {
    let gossip = Arc::new(Mutex::new(Gossip::new(me, GossipTiming::default(), here::random())));
    net.wires.lock().gossips.insert(net.node, gossip.clone());
    loop {
        let now = Time(here::now());
        gossip.lock().handle_timeout(now);
        let node = NodeId(1 + (net.node + u32::try_from(here::random() % 4).unwrap()) % 5);
        if !gossip.lock().knows(node) {
            gossip.lock().join(Peer { node, incarnation: Incarnation(0), revival: 0 }, now);
        }
        loop {
            let effect = gossip.lock().poll_effect();
            let voter = || net.wires.lock().voters.get(&net.node).cloned();
            match effect {
                None => break,
                Some(GossipEffect::Send(to, packet)) => here::spawn(net.clone().carry(to.0, packet)),
                Some(GossipEffect::Suspect(node)) => voter().iter().for_each(|voter| voter.suspect(node)),
                Some(GossipEffect::Trust(node)) => voter().iter().for_each(|voter| voter.trust(node)),
            }
        }
        here::sleep(Duration::from_millis(20)).await;
    }
}

/// What a node does: it registers, and asks for leases; evicted, it begins anew.
async fn hold(state: Arc<Mutex<NodeState>>, net: SimNet) {
    let process = state.lock().incarnation + 1;
    loop {
        let incarnation = {
            let mut state = state.lock();
            state.holder = None;
            state.incarnation += 1;
            Incarnation(state.incarnation)
        };
        let Some(node) = register(&net, incarnation, Incarnation(process)).await else { continue };
        let replica = Replica { node, incarnation };
        state.lock().holder = Some(Holder { lease: Lease::new(replica, TIMING.lease), replica });
        while renew(&state, &net).await {
            here::sleep(Duration::from_millis(400)).await;
        }
    }
}

/// Registers with whoever leads. None if the incarnation is over.
async fn register(net: &SimNet, incarnation: Incarnation, memory_since: Incarnation) -> Option<NodeId> {
    let command = Command::Register {
        identity: Identity(u128::from(net.node)),
        incarnation,
        memory_since,
        zone: Zone::new("z").unwrap(),
        weight: 1,
        address: Address::new("host:1").unwrap(),
    };
    loop {
        match propose(net, command.clone()).await {
            Ok(Answer::Registered(node, _)) => return Some(node),
            Err(Refusal::Stale) => return None,
            Err(Refusal::NotFounded) => here::sleep(Duration::from_millis(50)).await,
            other => panic!("registering answers {other:?}"),
        }
    }
}

async fn propose(net: &SimNet, command: Command) -> Reply {
    let mut voter = 1;
    loop {
        let sent = command.clone();
        let what = format!("{sent:?}");
        let answer = net.try_voter(voter, what, |voter| async move { voter.propose(sent).await }).await;
        voter = match answer {
            Some(Ok(outcome)) => return outcome,
            Some(Err(Unavailable { leader: Some(leader) })) => leader.0,
            _ => 1 + u32::try_from(here::random() % 3).unwrap(),
        };
        here::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks all voters for a lease at once; one of them leads. False if the incarnation was evicted.
async fn renew(state: &Arc<Mutex<NodeState>>, net: &SimNet) -> bool {
    let request: LeaseRequest =
        state.lock().holder.as_ref().expect("it registered").lease.request(Time(here::now()));
    let mut answers = Vec::new();
    for voter in 1..=3 {
        let (sender, receiver) = oneshot::channel();
        let net = net.clone();
        here::spawn(async move {
            let what = format!("{request:?}");
            let answer = net.try_voter(voter, what, move |voter| async move { voter.lease(request).await });
            let _unheard = sender.send(answer.await);
        });
        answers.push(receiver);
    }
    let mut goes_on = true;
    for answer in answers {
        match answer.await {
            Ok(Some(Grant::Granted(request))) => {
                let mut state = state.lock();
                let holder = state.holder.as_mut().expect("it registered");
                holder.lease.granted(request, Time(here::now()));
            }
            Ok(Some(Grant::Evicted)) => goes_on = false,
            _ => {}
        }
    }
    if !goes_on {
        // It gives up every role before it goes on as another incarnation.
        state.lock().holder.as_mut().expect("it registered").lease.give_up();
    }
    goes_on
}
