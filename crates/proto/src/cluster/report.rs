//! What a node says of itself when it is asked how it is doing. Nobody decides anything by it.

use alloc::{string::String, vec::Vec};

use crate::{Epoch, PartitionId, Replica, RingVersion};

/// How a node is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which start of which node it is.
    pub replica: Replica,
    /// The version of the program.
    pub version: String,
    /// How long the process has run, in microseconds.
    pub uptime: u64,
    /// How long it may still serve before it has to renew its lease, in microseconds; none without a lease.
    pub lease_left: Option<u64>,
    /// Whether it serves.
    pub is_ready: bool,
    /// Whether it leads the cluster manager.
    pub leads: bool,
    /// The ring version that it wholly knows.
    pub ring_version: RingVersion,
    /// Its shards.
    pub shards: Vec<ShardReport>,
}

/// How a shard is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardReport {
    /// The directory of its store.
    pub directory: String,
    /// Its share of what the node holds, relative to other shards of the node.
    pub weight: u32,
    /// How large the device is, in bytes.
    pub space_total: u64,
    /// Of that, what is free, in bytes.
    pub space_free: u64,
    /// What its files have in them, in bytes.
    pub used: u64,
    /// Of that, what is live, in bytes, roughly.
    pub live: u64,
    /// Messages that wait for its thread.
    pub queue: u64,
    /// Whether it takes no more because there is no space.
    pub is_full: bool,
    /// Whether its store has failed, so that it serves nothing until the node starts again.
    pub has_failed: bool,
    /// The partitions that it holds, or has something of.
    pub partitions: Vec<PartitionReport>,
}

/// How a replica of a partition is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionReport {
    /// Which partition.
    pub partition: PartitionId,
    /// In this epoch
    pub epoch: Epoch,
    /// it has this role.
    pub role: PartitionRole,
    /// The last entry of its log.
    pub last: u64,
    /// Its log is durable here up to this entry.
    pub stored: u64,
    /// Entries that the replica has not that is furthest behind the primary; known to the primary alone.
    pub lag: u64,
    /// Learners and replicas that are being copied to; known to the primary alone.
    pub copying: u64,
    /// Transactions that wait for their turn.
    pub waiting: u64,
    /// Writes that wait for those before them.
    pub held: u64,
    /// Transactions that it drives to their end.
    pub driven: u64,
    /// Readers that wait for the fate of a write.
    pub readers: u64,
    /// Numbers that readers hold.
    pub pins: u64,
    /// For how long the oldest of them has been held, in microseconds.
    pub pin_age: u64,
    /// Blobs with versions that nobody may need any more, and which were not collected yet.
    pub backlog: u64,
}

/// What a replica is to its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionRole {
    /// Nothing in this epoch; it keeps what it had.
    None,
    /// It orders the log, and serves.
    Primary,
    /// It is about to.
    NewPrimary,
    /// It follows the primary.
    Backup,
    /// It is about to: it finds out what it lacks.
    NewBackup,
}
