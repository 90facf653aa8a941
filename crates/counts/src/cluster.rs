//! A cluster without surroundings: the shipped routers and a client. Every message is encoded, framed, and decoded, every log entry
//! encoded, and everything happens at once, in one order.

use std::{collections::VecDeque, hint::black_box, sync::Arc};

use tyr_proto::{
    BlobName, BlobPlan, ClassId, Client, ClientOutput, Configuration, Epoch, Event, Incarnation, Keyspace,
    KeyspaceSeed, Keyspaces, Layout, NodeId, Output, PartitionCount, PartitionId, Placement, Replica,
    RingVersion, Router, SessionId, Snapshots, Time, encoding::to_bytes_keeping,
};
use tyr_types::{Key, KeyspaceId, KeyspaceSettings};
use tyr_wire::connection::Frame;

use crate::bytes::{framed, unframed};

/// The keyspace of all blobs.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);
/// Payload of this size and more is not part of a log entry's bytes, as in the journal of a node.
const KEPT_MIN: usize = 4 << 10;

/// How large the cluster is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Nodes.
    pub nodes: u32,
    /// Replicas of each partition.
    pub replicas: u32,
    /// Partitions: a power of two.
    pub partitions: u32,
}

/// A cluster and its client.
pub struct Cluster {
    now: Time,
    routers: Vec<Router>,
    client: Client,
    keyspaces: Arc<Keyspaces>,
    arrivals: VecDeque<Arrival>,
}

enum Arrival {
    Message(NodeId, Frame),
    Answer(NodeId, Frame),
    Stored(NodeId, PartitionId, u64, Epoch),
}

impl Cluster {
    /// A cluster whose primaries have begun to serve.
    pub fn new(shape: Shape) -> Self {
        let keyspaces = Arc::new(keyspaces(shape.partitions));
        let mut cluster = Cluster {
            now: Time(0),
            routers: (0..shape.nodes).map(|node| Router::new(replica(node), keyspaces.clone())).collect(),
            client: Client::new(SessionId(1), keyspaces.clone()),
            keyspaces,
            arrivals: VecDeque::new(),
        };
        for (id, configuration) in ring(shape) {
            cluster.client.handle_configuration(id, configuration.clone());
            for router in &mut cluster.routers {
                router.handle_configuration(Time(0), true, id, configuration.clone());
            }
        }
        cluster.run();
        cluster
    }

    /// The partition of a blob's head.
    pub fn partition_of(&self, blob: &BlobName) -> PartitionId {
        self.keyspaces[&KEYSPACE].partition_of(blob, 0)
    }

    /// Commits a transaction, and does all that follows without time passing.
    pub fn commit(&mut self, plans: Vec<BlobPlan>) -> Option<Event> {
        self.client.commit(self.now, plans, None);
        self.run();
        self.client.poll_event()
    }

    /// Asks for all of a blob.
    pub fn get(&mut self, blob: BlobName) -> Option<Event> {
        self.client.get(self.now, blob, 4096, Vec::new(), 0);
        self.run();
        self.client.poll_event()
    }

    /// Lets so many microseconds pass.
    pub fn tick(&mut self, micros: u64) {
        self.now = Time(self.now.0 + micros);
        for router in &mut self.routers {
            router.handle_tick(self.now, true);
        }
        self.client.handle_tick(self.now);
        self.run();
    }

    /// Lets everything be done that is done in the background.
    pub fn rest(&mut self) {
        (0..40).for_each(|_| self.tick(60_000));
    }

    fn run(&mut self) {
        self.flush();
        while let Some(arrival) = self.arrivals.pop_front() {
            match arrival {
                Arrival::Message(node, frame) => {
                    self.routers[place(node)].handle_message(self.now, true, unframed(&frame));
                }
                Arrival::Answer(node, frame) => {
                    self.client.handle_answer(self.now, node, unframed(&frame));
                }
                Arrival::Stored(node, partition, index, epoch) => {
                    self.routers[place(node)].handle_stored(self.now, true, partition, index, epoch);
                }
            }
            self.flush();
        }
    }

    fn flush(&mut self) {
        while let Some(output) = self.client.poll_output() {
            if let ClientOutput::Send(node, envelope) = output {
                self.arrivals.push_back(Arrival::Message(node, framed(&envelope)));
            }
        }
        for router in &mut self.routers {
            let me = router.me().node;
            while let Some(output) = router.poll_output() {
                let arrival = match output {
                    Output::Send(node, envelope) => Arrival::Message(node, framed(&envelope)),
                    Output::Answer(_, answer) => Arrival::Answer(me, framed(&answer)),
                    Output::Store { partition, index, epoch, entry } => {
                        black_box(to_bytes_keeping(&(epoch, entry), KEPT_MIN));
                        Arrival::Stored(me, partition, index, epoch)
                    }
                    _ => continue,
                };
                self.arrivals.push_back(arrival);
            }
        }
    }
}

/// The name of a blob.
pub fn name(number: u64) -> BlobName {
    let key = Key::new(format!("users/{number:010}/profile")).expect("a short key");
    BlobName { keyspace: KEYSPACE, key }
}

/// Who holds which partition.
pub fn ring(shape: Shape) -> impl Iterator<Item = (PartitionId, Configuration)> {
    (0..shape.partitions).map(move |index| {
        let holder = |rank| replica((index + rank) % shape.nodes);
        let configuration = Configuration {
            epoch: Epoch(1),
            since: RingVersion(1),
            floor: RingVersion(0),
            replicas: (0..shape.replicas).map(holder).collect(),
            learners: Vec::new(),
        };
        (PartitionId { class: ClassId(0), index }, configuration)
    })
}

/// The one keyspace, on a class with so many partitions.
pub fn keyspaces(partitions: u32) -> Keyspaces {
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(partitions).expect("a power of two"),
        seed: KeyspaceSeed([7; 16]),
        layout: Layout::of(&KeyspaceSettings::default()).expect("the default"),
    };
    [(
        KEYSPACE,
        Keyspace { placement, multi_version: true, snapshots: Snapshots::default(), is_dropped: false },
    )]
    .into()
}

fn replica(place: u32) -> Replica {
    Replica { node: NodeId(place + 1), incarnation: Incarnation(1) }
}

fn place(node: NodeId) -> usize {
    usize::try_from(node.0 - 1).expect("small")
}
