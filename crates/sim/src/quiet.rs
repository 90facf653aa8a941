//! A cluster that nothing disturbs: the shipped routers and clients, and a [`Model`] that says what everything else takes.
//!
//! Each shard and each client is a thread that takes its mail one by one, as each link and each device takes bytes, so what there is too much
//! of waits. Nothing is lost, no lease runs out, the ring stays as it is. Equal calls have equal effects: nothing here reads a clock.
//!
//! Times are nanoseconds since the cluster began.

mod lane;
mod log;
pub mod model;
mod threads;

use std::{collections::VecDeque, num::NonZeroU32, sync::Arc};

use tyr_proto::{
    Assignment, BlobName, BlobPlan, ClassId, Client, ClientOutput, Configuration, Epoch, Event as Told,
    Incarnation, Keyspace, KeyspaceSeed, Keyspaces, Layout, NodeId, Output, PartitionCount, PartitionId,
    Placement, Plan, Replica, RingVersion, Router, SessionId, ShardId, Snapshots, Time, TransactionId,
    encoding::{Encode, to_bytes},
    message::{Answer, Envelope, Message, READ_SIZE_MAX, RequestId},
};
use tyr_types::{Key, KeyspaceId, KeyspaceSettings};
use tyr_wire::connection::FRAME_HEADER_SIZE;

use crate::schedule::Schedule;
use lane::Lane;
use log::{Log, Logged};
use model::{Hosts, Model, transfer};
use threads::Threads;

/// The keyspace of all figures.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// How large the cluster is, who holds what, and what things take.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Nodes; their numbers begin at 1.
    pub nodes: u32,
    /// Shards of each node.
    pub shards: NonZeroU32,
    /// Clients.
    pub clients: u32,
    /// Who holds each partition; as many as a power of two.
    pub assignment: Assignment,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// What things take.
    pub model: Model,
    /// What of the ring is told when.
    pub telling: Telling,
}

/// What of the ring nodes and clients are told when. As long as nothing changes that is the same to them; it takes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Everybody everything, at the beginning.
    All,
    /// Of each partition when it is first needed, if that is for chunk 0 of a blob.
    WhenNeeded,
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
    /// Writes to devices that made some of them durable.
    pub writes: u64,
}

impl Counts {
    /// What has been counted since then.
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
            records: self.records - before.records,
            writes: self.writes - before.writes,
        }
    }
}

/// A quiet cluster with its clients.
#[derive(Debug)]
pub struct Quiet {
    now: u64,
    model: Model,
    schedule: Schedule<Event>,
    shards: NonZeroU32,
    /// Of all shards of all nodes, by their threads: those of the first node first.
    routers: Vec<Router>,
    /// The clients. Their threads follow those of the shards.
    pub clients: Vec<Client>,
    keyspaces: Arc<Keyspaces>,
    ring: Vec<Configuration>,
    telling: Telling,
    /// The partitions of which each thread was told, a bit for each.
    told_of: Vec<Vec<u64>>,
    threads: Threads<Mail>,
    working: Vec<Work>,
    logs: Vec<Log>,
    devices: Vec<Lane>,
    links: Vec<Lane>,
    told: VecDeque<(usize, u64, Told)>,
    /// What has been counted since the beginning.
    pub counts: Counts,
}

#[derive(Debug)]
enum Event {
    /// Mail reaches a thread.
    Arrive(usize, Mail),
    /// A thread has had its processor for as long as it needs it.
    Worked(usize),
    /// What a thread waited for is there.
    Waited(usize),
    /// What a shard has written is durable.
    Written(usize),
}

#[derive(Debug)]
enum Mail {
    /// From a client to a shard.
    Request(Envelope),
    /// From a shard to a shard.
    Message(Envelope),
    Stored(Vec<Logged>),
    Answer(NodeId, Box<Answer>),
    Tick,
}

/// What a thread does with one piece of mail.
#[derive(Debug, Default)]
struct Work {
    processor: u64,
    waits: u64,
    leads_to: Vec<Effect>,
}

/// What comes of it when it is done.
#[derive(Debug)]
enum Effect {
    Send(NodeId, Envelope, u64),
    Answer(SessionId, Box<Answer>, u64),
    Store(Logged, u64),
    Request(NodeId, Envelope),
    Tell(Told),
}

impl Quiet {
    /// A cluster whose primaries have begun to serve.
    pub fn new(setting: Setting) -> Self {
        let Setting { nodes, shards, clients, assignment, chunk_size, model, telling } = setting;
        let partitions = u32::try_from(assignment.0.len()).expect("32 bits count partitions");
        let keyspaces = Arc::new(keyspaces(partitions, chunk_size));
        let routers: Vec<_> = (1..=nodes)
            .flat_map(|node| ShardId::all(shards).map(move |shard| (shard, replica(NodeId(node)))))
            .map(|(shard, me)| Router::of_shard(shard, me, keyspaces.clone()))
            .collect();
        let sessions = (1..=u64::from(clients)).map(SessionId);
        let clients: Vec<_> = sessions.map(|session| Client::new(session, keyspaces.clone())).collect();
        let (machines, processors) = match model.hosts {
            Hosts::Apart => (nodes, None),
            Hosts::Together { processors } => (1, Some(processors)),
        };
        let lanes = |bytes_per_second| (0..machines).map(|_| Lane::new(bytes_per_second)).collect();
        let threads = routers.len() + clients.len();
        let mut quiet = Quiet {
            now: 0,
            model,
            schedule: Schedule::default(),
            shards,
            logs: routers.iter().map(|_| Log::default()).collect(),
            routers,
            clients,
            keyspaces,
            ring: assignment.0.iter().map(|nodes| configuration(nodes)).collect(),
            telling,
            told_of: vec![vec![0; assignment.0.len().div_ceil(64)]; threads],
            threads: Threads::new(threads, processors),
            working: (0..threads).map(|_| Work::default()).collect(),
            devices: lanes(model.device.bytes_per_second),
            links: lanes(model.network.bytes_per_second),
            told: VecDeque::new(),
            counts: Counts::default(),
        };
        quiet.begin(partitions);
        quiet
    }

    fn begin(&mut self, partitions: u32) {
        for index in 0..partitions {
            let id = PartitionId { class: ClassId(0), index };
            if self.telling == Telling::All {
                (0..self.working.len()).for_each(|thread| self.tell(thread, id));
            }
            for replica in self.ring[to_usize(index)].replicas.clone() {
                self.tell(self.thread_of(replica.node, id), id);
            }
        }
        for thread in 0..self.routers.len() {
            let work = self.gather(thread, 0);
            self.carry_out(thread, work.leads_to);
        }
        let (threads, ticks) = (self.working.len() as u64, self.model.ticks);
        for (thread, place) in (0..).zip(1..=threads) {
            let first = if ticks.are_together { ticks.every } else { ticks.every * place / threads };
            self.after(first, Event::Arrive(thread, Mail::Tick));
        }
        self.rest();
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
        let id = self.partition_of(blob);
        let primary = self.ring[to_usize(id.index)].replicas[0].node;
        let partition = self.routers[self.thread_of(primary, id)].partition(id);
        let head = partition.and_then(|partition| partition.state().head(blob));
        head.map_or((0, 0), |head| (head.places().count(), head.linked_chunks().count()))
    }

    /// For how long the thread of each shard has worked.
    pub fn shards_busy(&self) -> Vec<u64> {
        self.threads.busy().take(self.routers.len()).collect()
    }

    /// For how long the thread of each shard works in so much time though nothing is asked of it.
    pub fn idle_work(&self, time: u64) -> Vec<u64> {
        let per_tick = |router: &Router| self.model.processor.tick * router.partitions().count() as u64;
        self.routers.iter().map(|router| per_tick(router) * (time / self.model.ticks.every)).collect()
    }

    /// The encoded bytes of the states of all replicas.
    pub fn state_size(&self) -> u64 {
        let partitions = self.routers.iter().flat_map(Router::partitions);
        partitions.map(|partition| to_bytes(partition.state()).len() as u64).sum()
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets everything come to rest that is done in the background.
    pub fn rest(&mut self) {
        let every = self.model.ticks.every;
        self.run_for(1_000_000_000 + every);
        // What begins now has nearly all the time until the next tick to itself.
        self.run_for(self.now.next_multiple_of(every) - self.now);
        self.told.clear();
    }

    /// Lets time pass.
    pub fn run_for(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while self.schedule.next().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Has a client commit a transaction.
    pub fn commit(&mut self, client: usize, plan: Vec<BlobPlan>) -> TransactionId {
        plan.iter().for_each(|part| self.tell_client(client, &part.blob));
        self.with_client(client, |client, now| client.commit(now, plan, None))
    }

    /// Has a client get a blob with all its bytes, if these are not too many; those with different turns ask different replicas.
    pub fn get(&mut self, client: usize, blob: &BlobName, turn: usize) -> RequestId {
        self.tell_client(client, blob);
        self.with_client(client, |client, now| client.get(now, blob.clone(), READ_SIZE_MAX, Vec::new(), turn))
    }

    /// Has a client do something.
    pub fn with_client<T>(&mut self, client: usize, act: impl FnOnce(&mut Client, Time) -> T) -> T {
        let done = act(&mut self.clients[client], Time(self.now / 1000));
        let thread = self.routers.len() + client;
        let work = self.gather(thread, 0);
        self.carry_out(thread, work.leads_to);
        done
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
        match self.schedule.pop_by(self.now).expect("is due") {
            Event::Arrive(thread, Mail::Tick) => {
                self.threads.put_first(thread, Mail::Tick);
                self.go_on(thread);
            }
            Event::Arrive(thread, mail) => {
                self.threads.put(thread, mail);
                self.go_on(thread);
            }
            Event::Worked(thread) => self.release(thread),
            Event::Waited(thread) => self.end(thread),
            Event::Written(thread) => {
                let stored = self.logs[thread].end_write();
                self.threads.put(thread, Mail::Stored(stored));
                self.go_on(thread);
                self.write(thread);
            }
        }
    }

    /// Has a thread that does nothing take its next mail.
    fn go_on(&mut self, thread: usize) {
        let Some(mail) = self.threads.begin(thread) else { return };
        let work = self.take(thread, mail);
        let processor = work.processor;
        self.working[thread] = work;
        if processor == 0 {
            self.release(thread);
        } else {
            self.after(processor, Event::Worked(thread));
        }
    }

    /// A thread has had its processor, which the next one gets.
    fn release(&mut self, thread: usize) {
        let Work { processor, waits, .. } = self.working[thread];
        let next = self.threads.release(thread, processor);
        if waits == 0 {
            self.end(thread);
        } else {
            self.after(waits, Event::Waited(thread));
        }
        if let Some(next) = next {
            self.go_on(next);
        }
    }

    fn end(&mut self, thread: usize) {
        let work = std::mem::take(&mut self.working[thread]);
        self.threads.end(thread);
        self.carry_out(thread, work.leads_to);
        self.go_on(thread);
    }

    /// Has the protocol take mail. What comes of it is carried out when the thread is done with it.
    fn take(&mut self, thread: usize, mail: Mail) -> Work {
        let (now, model) = (Time(self.now / 1000), self.model.processor);
        let processor = match mail {
            Mail::Request(envelope) => {
                self.tell_stops(thread, &envelope);
                self.routers[thread].handle_message(now, true, envelope);
                model.client_message
            }
            Mail::Message(envelope) => {
                self.tell_stops(thread, &envelope);
                self.routers[thread].handle_message(now, true, envelope);
                model.node_message
            }
            Mail::Stored(stored) => {
                // As a node has its shards hear of them: the last of each log first.
                for Logged { partition, index, epoch } in stored.into_iter().rev() {
                    self.routers[thread].handle_stored(now, true, partition, index, epoch);
                }
                0
            }
            Mail::Answer(node, answer) => {
                self.clients[thread - self.routers.len()].handle_answer(now, node, *answer);
                0
            }
            Mail::Tick => self.tick(thread, now),
        };
        self.gather(thread, processor)
    }

    fn tick(&mut self, thread: usize, now: Time) -> u64 {
        self.after(self.model.ticks.every, Event::Arrive(thread, Mail::Tick));
        if let Some(router) = self.routers.get_mut(thread) {
            router.handle_tick(now, true);
            self.model.processor.tick * router.partitions().count() as u64
        } else {
            self.clients[thread - self.routers.len()].handle_tick(now);
            0
        }
    }

    /// Takes what the protocol wants done, and adds what that takes.
    fn gather(&mut self, thread: usize, processor: u64) -> Work {
        let mut work = Work { processor, ..Work::default() };
        if thread < self.routers.len() {
            while let Some(output) = self.routers[thread].poll_output() {
                self.add_output(&mut work, output);
            }
        } else {
            self.add_client_outputs(&mut work, thread - self.routers.len());
        }
        work
    }

    fn add_output(&self, work: &mut Work, output: Output) {
        let (processor, device) = (&self.model.processor, &self.model.device);
        match output {
            Output::Send(to, envelope) => {
                work.processor += processor.node_message;
                let size = size_of(&envelope);
                work.leads_to.push(Effect::Send(to, envelope, size));
            }
            Output::Answer(session, answer) => {
                let size = size_of(&answer);
                work.processor += processor.client_message;
                if matches!(answer, Answer::Got { .. } | Answer::Bytes { .. }) {
                    work.processor += size * processor.payload / 1024;
                    if size >= device.read_min {
                        work.waits += device.read + transfer(size, device.bytes_per_second);
                    }
                }
                work.leads_to.push(Effect::Answer(session, Box::new(answer), size));
            }
            Output::Store { partition, index, epoch, entry } => {
                let size = entry.size() as u64;
                work.processor += processor.log_entry + size * processor.payload / 1024;
                if size >= device.read_min {
                    work.processor += processor.payload_blob;
                }
                work.leads_to.push(Effect::Store(Logged { partition, index, epoch }, size));
            }
            Output::Cut(..)
            | Output::Install { .. }
            | Output::LearnerComplete(..)
            | Output::Released(..)
            | Output::ReplicaSlow(..)
            | Output::AskVersion(_) => {}
        }
    }

    fn add_client_outputs(&mut self, work: &mut Work, client: usize) {
        let client = &mut self.clients[client];
        while let Some(output) = client.poll_output() {
            if let ClientOutput::Send(node, envelope) = output {
                work.leads_to.push(Effect::Request(node, envelope));
            }
        }
        while let Some(told) = client.poll_event() {
            work.processor += match told {
                Told::Ended(..) => self.model.processor.client_commit,
                _ => self.model.processor.client_read,
            };
            work.leads_to.push(Effect::Tell(told));
        }
    }

    fn carry_out(&mut self, thread: usize, effects: Vec<Effect>) {
        let hop = self.model.network.hop;
        for effect in effects {
            match effect {
                Effect::Send(to, envelope, bytes) => self.send(thread, to, envelope, bytes),
                Effect::Answer(session, answer, bytes) => {
                    let sent = self.pass_link(thread, bytes);
                    let client = self.routers.len() + usize::try_from(session.0 - 1).expect("small");
                    self.after(sent + hop, Event::Arrive(client, Mail::Answer(self.node_of(thread), answer)));
                }
                Effect::Store(entry, bytes) => {
                    self.counts.records += 1;
                    self.logs[thread].push(entry, bytes);
                }
                Effect::Request(node, envelope) => {
                    self.counts.messages += 1;
                    self.counts.bytes += size_of(&envelope);
                    let to = self.thread_of(node, envelope.partition);
                    self.after(hop, Event::Arrive(to, Mail::Request(envelope)));
                }
                Effect::Tell(told) => {
                    self.told.push_back((thread - self.routers.len(), self.now, told));
                }
            }
        }
        if thread < self.routers.len() {
            self.write(thread);
        }
    }

    /// To another node, or to another shard of this one.
    fn send(&mut self, thread: usize, node: NodeId, envelope: Envelope, bytes: u64) {
        let to = self.thread_of(node, envelope.partition);
        let delay = if node == self.node_of(thread) {
            debug_assert_ne!(
                to, thread,
                "what a shard says to itself, or to a primary that it does not know"
            );
            0
        } else {
            self.pass_link(thread, bytes) + self.model.network.hop
        };
        self.after(delay, Event::Arrive(to, Mail::Message(envelope)));
    }

    /// Counts a message that leaves a shard's machine. Returns how long it takes until the link has carried it.
    fn pass_link(&mut self, thread: usize, bytes: u64) -> u64 {
        self.counts.messages += 1;
        self.counts.bytes += bytes;
        let machine = self.machine_of(thread);
        self.links[machine].pass(self.now, bytes) - self.now
    }

    /// Begins to write what a shard has logged, unless a write is on its way.
    fn write(&mut self, thread: usize) {
        if let Some(bytes) = self.logs[thread].begin_write() {
            self.counts.writes += 1;
            let machine = self.machine_of(thread);
            let carried = self.devices[machine].pass(self.now, bytes) - self.now;
            self.after(carried + self.model.device.write, Event::Written(thread));
        }
    }

    fn partition_of(&self, blob: &BlobName) -> PartitionId {
        self.keyspaces[&KEYSPACE].partition_of(blob, 0)
    }

    fn thread_of(&self, node: NodeId, partition: PartitionId) -> usize {
        let shard = ShardId::of(partition, self.shards);
        to_usize((node.0 - 1) * self.shards.get() + shard.number())
    }

    fn node_of(&self, thread: usize) -> NodeId {
        self.routers[thread].me().node
    }

    fn machine_of(&self, thread: usize) -> usize {
        match self.model.hosts {
            Hosts::Apart => to_usize(self.node_of(thread).0 - 1),
            Hosts::Together { .. } => 0,
        }
    }

    fn tell_client(&mut self, client: usize, blob: &BlobName) {
        let id = self.partition_of(blob);
        self.tell(self.routers.len() + client, id);
    }

    /// Tells a shard who holds the partitions that a transaction concerns.
    fn tell_stops(&mut self, thread: usize, envelope: &Envelope) {
        if let (Telling::WhenNeeded, Message::Start(plan) | Message::Pass { plan, .. }) =
            (self.telling, &envelope.message)
        {
            stops_of(plan).for_each(|id| self.tell(thread, id));
        }
    }

    /// Tells a thread who holds a partition, once.
    fn tell(&mut self, thread: usize, id: PartitionId) {
        let (word, bit) = (to_usize(id.index / 64), 1 << (id.index % 64));
        let told = &mut self.told_of[thread][word];
        if *told & bit != 0 {
            return;
        }
        *told |= bit;
        let configuration = self.ring[to_usize(id.index)].clone();
        match self.routers.get_mut(thread) {
            Some(router) => router.handle_configuration(Time(self.now / 1000), true, id, configuration),
            None => self.clients[thread - self.routers.len()].handle_configuration(id, configuration),
        }
    }
}

fn stops_of(plan: &Plan) -> impl Iterator<Item = PartitionId> {
    plan.heads.iter().map(|head| head.partition)
}

fn configuration(nodes: &[NodeId]) -> Configuration {
    Configuration {
        epoch: Epoch(1),
        since: RingVersion(1),
        floor: RingVersion(0),
        replicas: nodes.iter().copied().map(replica).collect(),
        learners: Vec::new(),
    }
}

fn replica(node: NodeId) -> Replica {
    Replica { node, incarnation: Incarnation(1) }
}

fn keyspaces(partitions: u32, chunk_size: u64) -> Keyspaces {
    let settings = KeyspaceSettings { chunk_size, ..KeyspaceSettings::default() };
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(partitions).expect("a power of two"),
        seed: KeyspaceSeed([7; 16]),
        layout: Layout::of(&settings).expect("a chunk size"),
    };
    [(
        KEYSPACE,
        Keyspace { placement, multi_version: true, snapshots: Snapshots::default(), is_dropped: false },
    )]
    .into()
}

/// The bytes of a frame with this in it.
fn size_of(said: &impl Encode) -> u64 {
    (FRAME_HEADER_SIZE + to_bytes(said).len()) as u64
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit memory")
}
