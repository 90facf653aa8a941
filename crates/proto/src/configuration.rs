//! Who holds a partition: the part of the ring that one partition's replicas and clients need.

use alloc::vec::Vec;
use core::fmt;

use crate::{Incarnation, NodeId};

/// A placement class: replicas, durability, kind of target, and zone rule that keyspaces share. Each has its own partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u8);

/// One of the fixed number of parts of a class's hash space. Ordered as chains visit them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId {
    /// The placement class whose hash space it is a part of.
    pub class: ClassId,
    /// Its place in that space, below the class's number of partitions.
    pub index: u32,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}.{}", self.class.0, self.index)
    }
}

/// A period in which a partition's replica set and roles do not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u32);

/// A version of the whole ring: raised by every change that any partition sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RingVersion(pub u64);

impl RingVersion {
    /// No cluster lives to see as many changes.
    pub const MAX: Self = RingVersion(1 << 62);
}

/// One start of one node, as a holder of a partition. A node that starts again is another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// The node.
    pub node: NodeId,
    /// Which start of it.
    pub incarnation: Incarnation,
}

/// Who holds a partition in one epoch (design, section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The epoch; a later one replaces every earlier one.
    pub epoch: Epoch,
    /// The ring version that began this epoch.
    pub since: RingVersion,
    /// The ring version of the last change of primary without a complete hand-over of log and waiting transactions. A transaction
    /// born below it that the partition does not know is refused for good.
    pub floor: RingVersion,
    /// The complete replicas, whose acknowledgements count. The first is the primary. Empty if none is left to serve.
    pub replicas: Vec<Replica>,
    /// Replicas that receive every record and copy the rest; they neither count nor serve until an epoch names them complete.
    pub learners: Vec<Replica>,
}

impl Configuration {
    /// The replica that orders the partition's records; none if the partition cannot be served.
    pub fn primary(&self) -> Option<Replica> {
        self.replicas.first().copied()
    }
}
