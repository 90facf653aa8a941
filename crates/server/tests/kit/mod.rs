//! A client of the protocol on one thread, for tests: it sends what the state machine wants sent, and waits for what it is told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use tyr_net::{
    Address, Dialer, Handler, Link, Received,
    channels::{DATA, MANAGER},
};
use tyr_proto::{
    BlobName, BlobPlan, ChunkName, ClassId, Client, ClientOutput, Event, Keyspace, Keyspaces, NodeId,
    Operation, Outcome, RingVersion, SessionId, Time,
    cluster::{self, Command, Difference, Fact, Request, Response},
    encoding::{append_to, from_bytes},
    message::Answer,
};
use tyr_types::{Key, KeyspaceId, KeyspaceName, KeyspaceSettings};
use tyr_wire::connection::{Frame, Introduction, Kind, Party};

/// What servers say goes to the standard error stream, if `TYR_TEST_LOG` names how much of it.
pub fn log() {
    let Some(level) =
        std::env::var("TYR_TEST_LOG").ok().and_then(|level| level.parse::<tracing::Level>().ok())
    else {
        return;
    };
    // Another test may have been first.
    let _set_before = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).try_init();
}

/// What came over a connection.
enum Came {
    Answer(NodeId, Answer),
    /// To the request of that number.
    Response(u64, Response),
}

struct Ear(Sender<Came>);

impl Handler for Ear {
    fn received(&self, _: &Link, frame: Received<'_>) {
        let came = match (frame.header.channel, frame.header.kind, frame.peer.party) {
            (DATA, Kind::Message, Party::Node { node, .. }) => {
                Came::Answer(NodeId(node), from_bytes(frame.body).unwrap())
            }
            (MANAGER, Kind::Reply, _) => {
                Came::Response(frame.header.request, from_bytes(frame.body).unwrap())
            }
            _ => panic!("nothing else comes to a client: {:?}", frame.header),
        };
        let _ended = self.0.send(came);
    }
}

/// A client of a cluster.
pub struct Driver {
    runtime: tokio::runtime::Runtime,
    me: Introduction,
    ear: Arc<dyn Handler>,
    came: Receiver<Came>,
    seeds: Vec<Dialer>,
    turn: usize,
    asked: u64,
    members: BTreeMap<NodeId, (Address, Dialer)>,
    client: Client,
    session: SessionId,
    keyspaces: Keyspaces,
    began: Instant,
}

/// Everything has to have happened after this long.
const PATIENCE: Duration = Duration::from_secs(60);

impl Driver {
    /// A client that knows the nodes at these addresses, with a session of its own.
    pub fn new(addresses: &[Address], session: u64) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, came) = channel();
        let ear: Arc<dyn Handler> = Arc::new(Ear(sender));
        let me = Introduction::new(Party::Client { session }, None);
        let seeds = {
            let _runtime = runtime.enter();
            let dial =
                |address: &Address| Dialer::new(address.clone(), me.clone(), ear.clone(), Default::default());
            addresses.iter().map(dial).collect()
        };
        let session = SessionId(session);
        let mut driver = Driver {
            runtime,
            me,
            ear,
            came,
            seeds,
            turn: 0,
            asked: 0,
            members: BTreeMap::new(),
            client: Client::new(session, Arc::default()),
            session,
            keyspaces: Keyspaces::new(),
            began: Instant::now(),
        };
        driver.learn();
        driver
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_micros()).unwrap())
    }

    /// Asks the cluster manager until it answers.
    pub fn ask(&mut self, request: &Request) -> Response {
        let end = Instant::now() + PATIENCE;
        let first = self.asked + 1;
        while Instant::now() < end {
            self.send_request(request);
            let wait = Instant::now() + Duration::from_millis(500);
            while let Ok(came) = self.came.recv_timeout(wait.saturating_duration_since(Instant::now())) {
                match came {
                    // What was asked twice before is answered twice.
                    Came::Response(number, _) if number < first => {}
                    Came::Response(_, Response::Elsewhere(_)) => {
                        // Who leads may not be known for a moment.
                        let _unheard = self.came.recv_timeout(Duration::from_millis(20));
                        break;
                    }
                    Came::Response(_, response) => return response,
                    Came::Answer(node, answer) => {
                        let now = self.now();
                        self.client.handle_answer(now, node, answer);
                    }
                }
            }
        }
        panic!("nobody answers {request:?}");
    }

    /// Asks the cluster manager, and does not wait for what it answers.
    pub fn send_request(&mut self, request: &Request) {
        self.asked += 1;
        self.turn += 1;
        let frame = Frame::request(MANAGER, self.asked, |out| append_to(out, request)).unwrap();
        let _lost = self.seeds[self.turn % self.seeds.len()].link().send(frame);
    }

    /// Has a command carried out.
    pub fn command(&mut self, command: Command) -> cluster::Reply {
        match self.ask(&Request::Command(command)) {
            Response::Replied(reply) => reply,
            other => panic!("a command answers {other:?}"),
        }
    }

    /// Everything that the cluster manager knows.
    pub fn ring(&mut self) -> Difference {
        match self.ask(&Request::Ring(RingVersion(0))) {
            Response::Ring(difference) => difference,
            other => panic!("a question for the ring answers {other:?}"),
        }
    }

    /// Takes all that, and begins with it. No transaction has been sent yet.
    fn learn(&mut self) {
        let difference = self.ring();
        let mut classes = BTreeMap::new();
        for fact in &difference.facts {
            match fact {
                Fact::Class(id, settings) => drop(classes.insert(*id, *settings)),
                Fact::Keyspace(id, keyspace) => {
                    self.keyspaces.insert(*id, Keyspace::of(keyspace, &classes[&keyspace.class]).unwrap());
                }
                _ => {}
            }
        }
        self.client = Client::new(self.session, Arc::new(self.keyspaces.clone()));
        self.tell_ring(difference);
    }

    fn tell_ring(&mut self, difference: Difference) {
        for fact in difference.facts {
            match fact {
                Fact::Partition(id, configuration, _) => self.client.handle_configuration(id, configuration),
                Fact::Member(node, member) => {
                    let address: Address = member.address.as_str().parse().unwrap();
                    if self.members.get(&node).is_none_or(|(known, _)| *known != address) {
                        let _runtime = self.runtime.enter();
                        let dialer = Dialer::new(
                            address.clone(),
                            self.me.clone(),
                            self.ear.clone(),
                            Default::default(),
                        );
                        self.members.insert(node, (address, dialer));
                    }
                }
                Fact::Class(..) | Fact::Keyspace(..) | Fact::Account(..) | Fact::Seal(..) => {}
            }
        }
        if let Some(version) = difference.reached {
            self.client.handle_ring_version(version);
        }
    }

    /// Makes a keyspace, or finds it, before any transaction is sent.
    pub fn keyspace(&mut self, name: &str) -> KeyspaceId {
        let settings = KeyspaceSettings { chunk_size: 64 << 10, ..KeyspaceSettings::default() };
        let name = KeyspaceName::new(name).unwrap();
        let class = ClassId(0);
        let created = self.command(Command::CreateKeyspace { name, class, seed: 5, settings });
        let Ok(cluster::Answer::KeyspaceCreated(id, _)) = created else { panic!("no keyspace: {created:?}") };
        // A voter that is behind does not know it yet.
        while !self.keyspaces.contains_key(&id) {
            self.learn();
        }
        id
    }

    /// Sends what is to be sent, and waits for the next event.
    fn next(&mut self) -> Event {
        let end = Instant::now() + PATIENCE;
        let mut tick_at = Instant::now();
        while Instant::now() < end {
            while let Some(output) = self.client.poll_output() {
                match output {
                    ClientOutput::Send(node, envelope) => {
                        let Some((_, dialer)) = self.members.get(&node) else { continue };
                        let frame = Frame::message(DATA, |out| append_to(out, &envelope)).unwrap();
                        let _lost = dialer.link().send(frame);
                    }
                    ClientOutput::FetchRing(version) => self.send_request(&Request::Ring(version)),
                }
            }
            if let Some(event) = self.client.poll_event() {
                return event;
            }
            let came = self.came.recv_timeout(tick_at.saturating_duration_since(Instant::now()));
            let now = self.now();
            match came {
                Ok(Came::Answer(node, answer)) => self.client.handle_answer(now, node, answer),
                Ok(Came::Response(_, Response::Ring(difference))) => self.tell_ring(difference),
                Ok(Came::Response(..)) => {}
                Err(_) => {
                    self.client.handle_tick(now);
                    tick_at = Instant::now() + Duration::from_millis(10);
                }
            }
        }
        panic!("nothing happens: {}", self.client.describe());
    }

    /// Commits a transaction; one that is refused because a primary has changed is sent again as another.
    pub fn commit(&mut self, plan: &[BlobPlan]) -> Outcome {
        loop {
            let now = self.now();
            let id = self.client.commit(now, plan.to_vec(), None);
            loop {
                match self.next() {
                    Event::Ended(ended, Outcome::Refused(tyr_proto::Refusal::Fenced), _) if ended == id => {
                        break;
                    }
                    Event::Ended(ended, outcome, _) if ended == id => return outcome,
                    _ => {}
                }
            }
        }
    }

    /// Appends to blobs in one transaction.
    pub fn append(&mut self, keyspace: KeyspaceId, keys: &[&str], bytes: &[u8]) -> Outcome {
        let plan = |key: &&str| {
            BlobPlan::blind(blob(keyspace, key), vec![Operation::Append { bytes: bytes.into() }])
        };
        self.commit(&keys.iter().map(plan).collect::<Vec<_>>())
    }

    /// All bytes of a blob that is one chunk; none if it is not there.
    pub fn read(&mut self, keyspace: KeyspaceId, key: &str) -> Option<Vec<u8>> {
        loop {
            let now = self.now();
            let look = self.client.look(now, blob(keyspace, key), 0);
            let (number, looked) = loop {
                if let Event::Looked(request, number, looked) = self.next()
                    && request == look
                {
                    break (number, looked);
                }
            };
            let size = looked?.size;
            let chunk = ChunkName { blob: blob(keyspace, key), index: 0 };
            let now = self.now();
            let read = self.client.read(now, chunk, 0..size, Some(number), 0);
            let bytes = loop {
                match self.next() {
                    Event::Bytes(request, _, bytes, _) if request == read => break Some(bytes),
                    Event::Expired(request) if request == read => break None,
                    _ => {}
                }
            };
            self.client.let_go(look);
            if bytes.is_some() {
                return bytes;
            }
        }
    }
}

/// Blobs to which the same is appended all the time.
pub struct Growing<'a> {
    keyspace: KeyspaceId,
    keys: &'a [&'a str],
    /// What each of them holds.
    expected: Vec<u8>,
}

impl<'a> Growing<'a> {
    /// These, of which none is there yet.
    pub fn new(driver: &mut Driver, keys: &'a [&'a str]) -> Self {
        Growing { keyspace: driver.keyspace("events"), keys, expected: Vec::new() }
    }

    /// Appends each number to all of them in one transaction, and reads them.
    pub fn append(&mut self, driver: &mut Driver, numbers: Range<u32>) {
        for number in numbers {
            let bytes = number.to_be_bytes();
            assert_eq!(driver.append(self.keyspace, self.keys, &bytes), Outcome::Committed);
            self.expected.extend(bytes);
        }
        for key in self.keys {
            assert_eq!(driver.read(self.keyspace, key).as_ref(), Some(&self.expected), "{key}");
        }
    }
}

fn blob(keyspace: KeyspaceId, key: &str) -> BlobName {
    BlobName { keyspace, key: Key::new(key).unwrap() }
}
