//! A cluster in this process: the shipped routers behind real sockets, without disks, with one cluster manager that knows everything.
//!
//! Nodes talk to one another by a queue; clients talk to them as they do to servers. What is written is durable at once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use tyr_client::Durability;
use tyr_net::{Address, Handler, Link, Listener, Received, Settings, channels};
use tyr_proto::{
    ClassId, Incarnation, Keyspace, Keyspaces, NodeId, Outcome, Output, Refusal, Replica, Router, SessionId,
    Time, ZoneRule,
    cluster::{
        self, ClassSettings, Cluster, ClusterId, Command, Difference, Identity, Position, Request, Response,
        Zone,
    },
    encoding::{append_to, from_bytes},
    message::{Answer, Envelope, Message},
};
use tyr_wire::connection::{Frame, Introduction, Kind, Party, Peer};

/// A running cluster.
pub struct Kit {
    url: String,
    world: Arc<Mutex<World>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct World {
    began: Instant,
    cluster: Cluster,
    routers: BTreeMap<NodeId, Router>,
    links: BTreeMap<(NodeId, SessionId), Link>,
    mail: VecDeque<(NodeId, Envelope)>,
    /// Nothing that clients say about data is heard.
    is_deaf: bool,
    /// Clients get no answers about data.
    is_mute: bool,
    /// Neither do they from these nodes.
    mute: BTreeSet<NodeId>,
    /// How often each node was asked to read something.
    reads: BTreeMap<NodeId, usize>,
    /// So many transactions of clients are refused for this.
    refusing: Option<(Refusal, usize)>,
    /// Whoever is asked what has changed has not heard of anything, if it does not have to be sure.
    is_stale: bool,
    /// Connections of sessions that had one to the same node.
    doubled: usize,
}

const CLUSTER: u128 = 77;
const CLASS: ClassId = ClassId(0);
const PARTITIONS: u32 = 8;

impl Kit {
    /// A cluster of so many nodes.
    pub fn start(nodes: u32) -> Kit {
        Kit::start_as(nodes, |address| address.to_owned())
    }

    /// One whose nodes call themselves so by the addresses at which they listen.
    pub fn start_as(nodes: u32, name: fn(&str) -> String) -> Kit {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(run(nodes, name, tell, stopped));
        });
        let (world, addresses) = told.recv().unwrap();
        let url = format!("tyr://{}", addresses.join(","));
        Kit { url, world, stop: Some(stop), thread: Some(thread) }
    }

    /// What clients open.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether what clients say about data is heard.
    pub fn set_deaf(&self, is_deaf: bool) {
        self.world.lock().unwrap().is_deaf = is_deaf;
    }

    /// Whether clients get answers about data.
    pub fn set_mute(&self, is_mute: bool) {
        self.world.lock().unwrap().is_mute = is_mute;
    }

    /// Whether clients get answers about data from a node.
    pub fn set_node_mute(&self, node: u32, is_mute: bool) {
        let mut world = self.world.lock().unwrap();
        match is_mute {
            true => world.mute.insert(NodeId(node)),
            false => world.mute.remove(&NodeId(node)),
        };
    }

    /// How often a node was asked to read something.
    pub fn reads(&self, node: u32) -> usize {
        self.world.lock().unwrap().reads.get(&NodeId(node)).copied().unwrap_or(0)
    }

    /// Refuses so many transactions of clients, as if the first node that hears of one could not take it.
    pub fn refuse(&self, refusal: Refusal, times: usize) {
        self.world.lock().unwrap().refusing = Some((refusal, times));
    }

    /// How many of these are left.
    pub fn refusals_left(&self) -> usize {
        self.world.lock().unwrap().refusing.map_or(0, |(_, left)| left)
    }

    /// Whether those that need not be sure of what has changed have heard of nothing.
    pub fn set_stale(&self, is_stale: bool) {
        self.world.lock().unwrap().is_stale = is_stale;
    }

    /// How often a session has dialed a node to which it had a connection.
    pub fn doubled(&self) -> usize {
        self.world.lock().unwrap().doubled
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn run(
    nodes: u32,
    name: fn(&str) -> String,
    tell: mpsc::Sender<(Arc<Mutex<World>>, Vec<String>)>,
    stopped: oneshot::Receiver<()>,
) {
    let world = Arc::new(Mutex::new(World {
        began: Instant::now(),
        cluster: Cluster::new(ClusterId(CLUSTER)),
        routers: BTreeMap::new(),
        links: BTreeMap::new(),
        mail: VecDeque::new(),
        is_deaf: false,
        is_mute: false,
        mute: BTreeSet::new(),
        reads: BTreeMap::new(),
        refusing: None,
        is_stale: false,
        doubled: 0,
    }));
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for number in 1..=nodes {
        let party = Party::Node { node: number, incarnation: 1 };
        let handler = Arc::new(Ear { node: NodeId(number), world: world.clone() });
        let me = Introduction::new(party, Some(CLUSTER));
        let address = Address::Tcp("127.0.0.1:0".into());
        let listener = Listener::bind(&address, me, handler, Settings::default()).await.unwrap();
        addresses.push(listener.address().to_string());
        listeners.push(listener);
    }
    let names: Vec<String> = addresses.iter().map(|address| name(address)).collect();
    world.lock().unwrap().found(&names);
    tell.send((world.clone(), addresses)).unwrap();
    let ticks = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            world.lock().unwrap().tick();
        }
    };
    tokio::select! {
        _ = stopped => {}
        () = ticks => {}
    }
}

struct Ear {
    node: NodeId,
    world: Arc<Mutex<World>>,
}

impl Handler for Ear {
    fn opened(&self, link: &Link, peer: &Peer) {
        if let Party::Client { session } = peer.party {
            let mut world = self.world.lock().unwrap();
            let before = world.links.insert((self.node, SessionId(session)), link.clone());
            world.doubled += usize::from(before.is_some());
        }
    }

    fn received(&self, link: &Link, frame: Received<'_>) {
        let mut world = self.world.lock().unwrap();
        match (frame.header.channel, frame.header.kind) {
            (channels::DATA, Kind::Message) if !world.is_deaf => {
                let envelope: Envelope = from_bytes(frame.body).unwrap();
                if matches!(envelope.message, Message::Read { .. } | Message::Look { .. }) {
                    *world.reads.entry(self.node).or_default() += 1;
                }
                if let (Message::Start(plan), Some((refusal, left @ 1..))) =
                    (&envelope.message, &mut world.refusing)
                {
                    *left -= 1;
                    let outcome = Some((Outcome::Refused(*refusal), Vec::new()));
                    let answer = Answer::Outcome { id: plan.id, outcome };
                    link.send(Frame::message(channels::DATA, |out| append_to(out, &answer)).unwrap())
                        .unwrap();
                    return;
                }
                world.mail.push_back((self.node, envelope));
                world.pump();
            }
            (channels::MANAGER, Kind::Request) => {
                let response = world.manage(from_bytes(frame.body).unwrap());
                let number = frame.header.request;
                let reply = Frame::reply(channels::MANAGER, number, |out| append_to(out, &response));
                link.send(reply.unwrap()).unwrap();
            }
            _ => {}
        }
    }
}

impl World {
    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_micros()).unwrap())
    }

    fn found(&mut self, addresses: &[String]) {
        let identity = |number: u32| Identity(u128::from(number));
        let numbers = 1..=u32::try_from(addresses.len()).unwrap();
        let replica = |number: u32| Replica { node: NodeId(number), incarnation: Incarnation(1) };
        self.apply(Command::Found(numbers.clone().map(identity).collect())).unwrap();
        for (number, address) in numbers.clone().zip(addresses) {
            let register = Command::Register {
                identity: identity(number),
                incarnation: Incarnation(1),
                memory_since: Incarnation(1),
                zone: Zone::new(&format!("zone{number}")).unwrap(),
                weight: 1,
                address: cluster::Address::new(address).unwrap(),
            };
            self.apply(register).unwrap();
            self.routers.insert(NodeId(number), Router::new(replica(number), Arc::default()));
        }
        let count = u32::try_from(addresses.len()).unwrap();
        let settings = ClassSettings {
            replicas: u8::try_from(count).unwrap(),
            min_replicas: 1,
            partitions: PARTITIONS,
            durability: Durability::Disk,
            zones: ZoneRule::Prefer,
        };
        self.apply(Command::CreateClass(CLASS, settings)).unwrap();
        let target =
            |partition: u32| (0..count).map(|place| NodeId((partition + place) % count + 1)).collect();
        self.apply(Command::Retarget { class: CLASS, targets: (0..PARTITIONS).map(target).collect() })
            .unwrap();
        let now = self.now();
        for (id, partition) in self.cluster.partitions() {
            for router in self.routers.values_mut() {
                router.handle_configuration(now, true, id, partition.configuration.clone());
            }
        }
        self.pump();
    }

    fn apply(&mut self, command: Command) -> cluster::Reply {
        let reply = self.cluster.apply(command);
        let mut keyspaces = Keyspaces::new();
        for (id, known) in self.cluster.keyspaces() {
            let class = self.cluster.class(known.class).unwrap();
            keyspaces.insert(id, Keyspace::of(known, class).unwrap());
        }
        let keyspaces = Arc::new(keyspaces);
        self.routers.values_mut().for_each(|router| router.handle_keyspaces(keyspaces.clone()));
        reply
    }

    fn manage(&mut self, request: Request) -> Response {
        match request {
            Request::Command(command) => Response::Replied(self.apply(command)),
            Request::Ring(version) if self.is_stale => Response::Ring(Difference {
                facts: Vec::new(),
                next: Position::whole(version),
                reached: Some(version),
            }),
            Request::Ring(version) | Request::Newest(version) => {
                Response::Ring(self.cluster.changes_since(Position::whole(version), usize::MAX))
            }
            Request::Hatch => Response::Hatch(None),
            Request::View(_) => Response::View(None),
            Request::Uses(uses) => Response::Uses(uses),
            Request::Register(..)
            | Request::Lease(..)
            | Request::Report
            | Request::Token(_)
            | Request::Seal => Response::Elsewhere(None),
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        self.routers.values_mut().for_each(|router| router.handle_tick(now, true));
        self.pump();
    }

    /// Carries what nodes want done until they want nothing more.
    fn pump(&mut self) {
        let now = self.now();
        loop {
            let mut is_quiet = true;
            while let Some((node, envelope)) = self.mail.pop_front() {
                is_quiet = false;
                self.routers.get_mut(&node).unwrap().handle_message(now, true, envelope);
            }
            for (node, router) in &mut self.routers {
                while let Some(output) = router.poll_output() {
                    is_quiet = false;
                    match output {
                        Output::Send(to, envelope) => self.mail.push_back((to, envelope)),
                        Output::Answer(session, answer) => {
                            let frame = Frame::message(channels::DATA, |out| append_to(out, &answer));
                            let link = self
                                .links
                                .get(&(*node, session))
                                .filter(|_| !self.is_mute && !self.mute.contains(node));
                            let _ = link.map(|link| link.send(frame.unwrap()));
                        }
                        Output::Store { partition, index, epoch, .. } => {
                            router.handle_stored(now, true, partition, index, epoch);
                        }
                        Output::Install { partition, index, epochs, .. } => {
                            let epoch = epochs.last().unwrap().0;
                            router.handle_stored(now, true, partition, index, epoch);
                        }
                        _ => {}
                    }
                }
            }
            if is_quiet {
                return;
            }
        }
    }
}
