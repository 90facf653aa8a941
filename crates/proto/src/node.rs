//! Nodes, their starts, their shards, and their time.

use core::{fmt, num::NonZeroU32};

use crate::PartitionId;

/// A node of the cluster: a process with its targets. Given once by the cluster manager and never to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// Which start of a node: raised whenever it starts, because its memory is gone and its log's tail may be shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The incarnation of a process: which start of the node it is, and how often it was evicted since. What is remembered of a
    /// node over its starts is their count alone.
    pub fn of(start: u32, evictions: u32) -> Self {
        Incarnation(u64::from(start) << 32 | u64::from(evictions))
    }

    /// Which start of the node it is.
    pub fn start(self) -> u32 {
        u32::try_from(self.0 >> 32).expect("half of the bits are left")
    }
}

/// One of the shards of a node: state machines that have its partitions among them, so that each can run on a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId {
    number: u32,
    count: NonZeroU32,
}

impl ShardId {
    /// The shard of a node that has one.
    pub const ONLY: ShardId = ShardId { number: 0, count: NonZeroU32::MIN };

    /// All shards of a node that has so many, in order.
    pub fn all(count: NonZeroU32) -> impl Iterator<Item = ShardId> {
        (0..count.get()).map(move |number| ShardId { number, count })
    }

    /// The shard that a partition belongs to, of so many. Every shard gets partitions of every class.
    pub fn of(partition: PartitionId, count: NonZeroU32) -> ShardId {
        ShardId { number: partition.index % count, count }
    }

    /// Whether a partition belongs to it.
    pub fn holds(self, partition: PartitionId) -> bool {
        ShardId::of(partition, self.count) == self
    }

    /// Its place among the shards of its node, from zero.
    pub fn number(self) -> u32 {
        self.number
    }
}

/// A moment on one node's own monotonic clock, in microseconds. Moments of different nodes are not comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// The moment `micros` microseconds later.
    #[must_use]
    pub fn after(self, micros: u64) -> Time {
        Time(self.0.saturating_add(micros))
    }

    /// Microseconds since an earlier moment; zero if it is not earlier.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
