//! A cluster that nothing disturbs: the shipped routers and clients, every message one hop late, every record one write late.
//!
//! A hop lasts far longer than a write, so a latency tells how many of each were on the way, one after the other.

use std::{collections::VecDeque, sync::Arc};

use tyr_proto::{
    BlobName, BlobPlan, ClassId, Client, ClientOutput, Configuration, Epoch, Event as Told, Incarnation,
    Keyspace, KeyspaceSeed, Keyspaces, Layout, NodeId, Output, PartitionCount, PartitionId, Placement,
    Replica, RingVersion, Router, SessionId, Time,
    encoding::{Encode, to_bytes},
    message::{Answer, Envelope},
};
use tyr_types::{CHUNK_SIZE_MIN, Key, KeyspaceId, KeyspaceSettings};
use tyr_wire::connection::FRAME_HEADER_SIZE;

use crate::schedule::Schedule;

/// The keyspace of all figures.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);
/// Microseconds of a message from one machine to another.
pub const HOP: u64 = 100;
/// Microseconds of a write that makes a record durable.
pub const WRITE: u64 = 1;
const TICK_EVERY: u64 = 5_000;

/// How large the cluster is and who holds what.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Nodes.
    pub nodes: u32,
    /// Replicas of each partition.
    pub replicas: u32,
    /// Partitions: a power of two.
    pub partitions: u32,
    /// Clients.
    pub clients: u32,
    /// How far apart the first replicas of neighbouring partitions are.
    pub stride: u32,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages between machines.
    pub messages: u64,
    /// Their bytes, as frames.
    pub bytes: u64,
    /// Log records, on all replicas together.
    pub records: u64,
}

/// A quiet cluster with its clients.
#[derive(Debug)]
pub struct Quiet {
    now: u64,
    schedule: Schedule<Event>,
    routers: Vec<Router>,
    /// The clients.
    pub clients: Vec<Client>,
    keyspaces: Arc<Keyspaces>,
    told: VecDeque<(usize, u64, Told)>,
    /// What has been counted since the beginning.
    pub counts: Counts,
}

#[derive(Debug)]
enum Event {
    Deliver(NodeId, Envelope),
    Answer(SessionId, NodeId, Answer),
    Stored(NodeId, PartitionId, u64, Epoch),
    Tick,
}

impl Quiet {
    /// A cluster whose primaries have begun to serve.
    pub fn new(shape: Shape) -> Self {
        let keyspaces = Arc::new(keyspaces(shape.partitions));
        let replica = |node: u32| Replica { node: NodeId(node + 1), incarnation: Incarnation(1) };
        let routers = (0..shape.nodes).map(|node| Router::new(replica(node), keyspaces.clone())).collect();
        let clients =
            (1..=u64::from(shape.clients)).map(|session| Client::new(SessionId(session), keyspaces.clone()));
        let mut quiet = Quiet {
            now: 0,
            schedule: Schedule::default(),
            routers,
            clients: clients.collect(),
            keyspaces,
            told: VecDeque::new(),
            counts: Counts::default(),
        };
        for index in 0..shape.partitions {
            let holder = |place| replica((index * shape.stride + place) % shape.nodes);
            let configuration = Configuration {
                epoch: Epoch(1),
                since: RingVersion(1),
                floor: RingVersion(0),
                replicas: (0..shape.replicas).map(holder).collect(),
                learners: Vec::new(),
            };
            let id = PartitionId { class: ClassId(0), index };
            quiet
                .clients
                .iter_mut()
                .for_each(|client| client.handle_configuration(id, configuration.clone()));
            for router in &mut quiet.routers {
                router.handle_configuration(Time(0), true, id, configuration.clone());
            }
        }
        for node in 1..=shape.nodes {
            quiet.flush(NodeId(node));
        }
        quiet.after(TICK_EVERY, Event::Tick);
        quiet.rest();
        quiet
    }

    /// The name of a blob.
    pub fn name(number: u64) -> BlobName {
        BlobName { keyspace: KEYSPACE, key: Key::new(format!("b{number}")).expect("a short key") }
    }

    /// The first blob from a number on whose first chunks lie in these partitions.
    pub fn blob_in(&self, partitions: &[u32], from: u64) -> BlobName {
        let keyspace = &self.keyspaces[&KEYSPACE];
        let fits = |blob: &BlobName| {
            (0..).zip(partitions).all(|(chunk, index)| keyspace.partition_of(blob, chunk).index == *index)
        };
        (from..).map(Quiet::name).find(fits).expect("the hash reaches every partition")
    }

    /// The number of transactions that have a place at a blob's head and are not applied, and of chunks that the head links.
    pub fn head_size(&self, blob: &BlobName) -> (usize, usize) {
        let partition = self.keyspaces[&KEYSPACE].partition_of(blob, 0);
        let mut holders = self.routers.iter().filter_map(|router| router.partition(partition));
        let primary = holders.find(|partition| partition.is_established());
        let head = primary.and_then(|partition| partition.state().head(blob));
        head.map_or((0, 0), |head| (head.places().count(), head.linked_chunks().count()))
    }

    /// The time in microseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets everything come to rest that is done in the background.
    pub fn rest(&mut self) {
        self.run_for(1_000_000 + TICK_EVERY);
        // What begins now has nearly all the time until the next tick to itself.
        while !self.now.is_multiple_of(TICK_EVERY) {
            self.step();
        }
        self.told.clear();
    }

    /// Lets time pass.
    pub fn run_for(&mut self, micros: u64) {
        let end = self.now + micros;
        while self.schedule.next().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Has a client commit a transaction.
    pub fn commit(&mut self, client: usize, plan: Vec<BlobPlan>) {
        self.with_client(client, |client, now| {
            client.commit(now, plan, None);
        });
    }

    /// Has a client do something.
    pub fn with_client(&mut self, client: usize, act: impl FnOnce(&mut Client, Time)) {
        act(&mut self.clients[client], Time(self.now));
        self.flush_client(client);
    }

    /// What a client is told next: which client, when, and what.
    pub fn next_told(&mut self) -> (usize, u64, Told) {
        loop {
            if let Some(told) = self.told.pop_front() {
                return told;
            }
            self.step();
        }
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.schedule.add(self.now + delay, event);
    }

    fn step(&mut self) {
        self.now = self.schedule.next().expect("time passes");
        let event = self.schedule.pop_by(self.now).expect("is due");
        let now = Time(self.now);
        match event {
            Event::Deliver(node, envelope) => {
                self.router(node).handle_message(now, true, envelope);
                self.flush(node);
            }
            Event::Stored(node, partition, index, epoch) => {
                self.router(node).handle_stored(now, true, partition, index, epoch);
                self.flush(node);
            }
            Event::Answer(session, node, answer) => {
                let client = usize::try_from(session.0 - 1).expect("small");
                self.clients[client].handle_answer(now, node, answer);
                self.flush_client(client);
            }
            Event::Tick => self.tick(now),
        }
    }

    fn tick(&mut self, now: Time) {
        for router in &mut self.routers {
            router.handle_tick(now, true);
        }
        for node in 1..=u32::try_from(self.routers.len()).expect("small") {
            self.flush(NodeId(node));
        }
        for client in 0..self.clients.len() {
            self.clients[client].handle_tick(now);
            self.flush_client(client);
        }
        self.after(TICK_EVERY, Event::Tick);
    }

    fn router(&mut self, node: NodeId) -> &mut Router {
        &mut self.routers[usize::try_from(node.0 - 1).expect("small")]
    }

    fn flush(&mut self, node: NodeId) {
        while let Some(output) = self.router(node).poll_output() {
            match output {
                Output::Send(to, envelope) => self.send(to, envelope),
                Output::Answer(session, answer) => {
                    self.counts.messages += 1;
                    self.counts.bytes += size_of(&answer);
                    self.after(HOP, Event::Answer(session, node, answer));
                }
                Output::Store { partition, index, epoch, .. } => {
                    self.counts.records += 1;
                    self.after(WRITE, Event::Stored(node, partition, index, epoch));
                }
                Output::Cut(..)
                | Output::Install { .. }
                | Output::LearnerComplete(..)
                | Output::Released(..)
                | Output::ReplicaSlow(..)
                | Output::AskVersion(_) => {}
            }
        }
    }

    fn send(&mut self, to: NodeId, envelope: Envelope) {
        self.counts.messages += 1;
        self.counts.bytes += size_of(&envelope);
        self.after(HOP, Event::Deliver(to, envelope));
    }

    fn flush_client(&mut self, client: usize) {
        while let Some(output) = self.clients[client].poll_output() {
            if let ClientOutput::Send(node, envelope) = output {
                self.send(node, envelope);
            }
        }
        while let Some(told) = self.clients[client].poll_event() {
            self.told.push_back((client, self.now, told));
        }
    }
}

fn keyspaces(partitions: u32) -> Keyspaces {
    let settings = KeyspaceSettings { chunk_size: CHUNK_SIZE_MIN, ..KeyspaceSettings::default() };
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(partitions).expect("a power of two"),
        seed: KeyspaceSeed([7; 16]),
        layout: Layout::of(&settings).expect("the least chunk size"),
    };
    [(KEYSPACE, Keyspace { placement, multi_version: true })].into()
}

/// The bytes of a frame with this in it.
fn size_of(said: &impl Encode) -> u64 {
    (FRAME_HEADER_SIZE + to_bytes(said).len()) as u64
}
