//! What the cluster manager's log holds, and what each entry answers.

use alloc::vec::Vec;
use core::fmt;

use tyr_types::{KeyspaceId, KeyspaceName, KeyspaceSettings};

use super::{Address, ClassSettings, Identity, Seal, SealId, Zone};
use crate::{
    ClassId, Epoch, Incarnation, NodeId, PartitionId, Replica, RingVersion, SnapshotId, Stand,
    access::{AccountId, AccountKind, AccountName, Rights, Scope},
};

/// A change of the cluster. Commands are repeated when an answer is lost; each says how it takes that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins the cluster, before any other command. These nodes have the numbers 1, 2, and so on: the first voters, who need numbers
    /// to log that they register. Repeated with the same nodes, it changes nothing.
    Found(Vec<Identity>),
    /// A node starts, or comes back after its eviction. Roles of its earlier incarnations end. The same incarnation again changes
    /// nothing; a lower one is refused.
    Register {
        /// What the node calls itself.
        identity: Identity,
        /// Which start of it; higher than any that it registered.
        incarnation: Incarnation,
        /// The incarnation with which its process started: it has in memory what it held since. A process that learns that it was
        /// evicted gives up every role, takes a higher incarnation, and registers again without losing its memory.
        memory_since: Incarnation,
        /// The nodes that may fail together with it.
        zone: Zone,
        /// Its share of the load, relative to other members.
        weight: u32,
        /// Where it listens.
        address: Address,
    },
    /// The lease of an incarnation has run out: it serves nothing any more. Proposed only by the holder of the leases.
    Evict(Replica),
    /// An evicted node stayed away: the next plan places its partitions elsewhere. Undone when it registers.
    GiveUp(NodeId),
    /// A primary has waited too long for a backup or learner, or for its own disk.
    RemoveReplica {
        /// Of this partition.
        partition: PartitionId,
        /// In this epoch; refused in any other.
        epoch: Epoch,
        /// The primary that asks.
        by: Replica,
        /// The one to be removed.
        replica: Replica,
    },
    /// A learner holds everything. **The primary sends this only after it has begun to wait for the learner with every record**: what
    /// it acknowledges from before sending on is on the learner too.
    LearnerComplete {
        /// Of this partition.
        partition: PartitionId,
        /// In this epoch; refused in any other.
        epoch: Epoch,
        /// The primary that reports.
        by: Replica,
        /// The learner.
        learner: Replica,
    },
    /// A complete replica acknowledges that it loses its role: it serves, acknowledges, and decides nothing more in this epoch.
    Release {
        /// Of this partition.
        partition: PartitionId,
        /// In this epoch; refused in any other.
        epoch: Epoch,
        /// The one that gives up its role.
        replica: Replica,
        /// If it was the primary: who has received its complete log and its waiting transactions.
        handed_to: Option<Replica>,
    },
    /// Says anew who should hold the partitions of a class, as [`super::Cluster::plan`] found; the partitions follow step by step.
    Retarget {
        /// The class.
        class: ClassId,
        /// For each partition the nodes, the one first that should be the primary.
        targets: Vec<Vec<NodeId>>,
    },
    /// The next plan gives the node nothing. Undone by [`Command::Restore`].
    Drain(NodeId),
    /// The node leaves for ever. Refused while it holds anything.
    Leave(NodeId),
    /// Creates a placement class; its partitions are held from its first targets on. Repeated with the same settings, it changes nothing.
    CreateClass(ClassId, ClassSettings),
    /// Creates a keyspace. Repeated with the same seed, it answers the id again.
    CreateKeyspace {
        /// Its name.
        name: KeyspaceName,
        /// The class whose partitions hold it.
        class: ClassId,
        /// Random bits of the proposer.
        seed: u64,
        /// Its settings.
        settings: KeyspaceSettings,
    },
    /// Alters the settings of a keyspace, except its chunk size, durability, and quota.
    AlterKeyspace {
        /// The keyspace.
        id: KeyspaceId,
        /// All settings, altered or not.
        settings: KeyspaceSettings,
    },
    /// Bounds what a keyspace may hold, in bytes, or bounds it no longer. It is for who runs the cluster, not for who administers the keyspace.
    SetQuota {
        /// The keyspace.
        id: KeyspaceId,
        /// The quota.
        quota: Option<u64>,
    },
    /// Drops a keyspace.
    DropKeyspace(KeyspaceId),
    /// Begins a snapshot of a keyspace. Repeated with the same seed, it answers the id again. One by the same name that is not complete makes room
    /// for it.
    BeginSnapshot {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The snapshot's name.
        name: KeyspaceName,
        /// When, in seconds since 1970.
        taken: u64,
        /// Random bits of the proposer.
        seed: u64,
    },
    /// Completes a snapshot: **all stops of the freeze keep what it shows, durably**.
    CompleteSnapshot {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The snapshot.
        snapshot: SnapshotId,
        /// The point of the freeze.
        point: Stand,
    },
    /// Drops a snapshot: nothing is kept for it any more.
    DropSnapshot {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The snapshot.
        snapshot: SnapshotId,
    },
    /// Raises the ring version to this one at least though nothing changes: what is born from then on is told from what was born before.
    Advance(RingVersion),
    /// Plans give a node that was drained its share again.
    Restore(NodeId),
    /// Drains a node, and has plans give what it holds to another one, which has to be active.
    Replace {
        /// The one that goes.
        old: NodeId,
        /// The one that takes its place.
        new: NodeId,
    },
    /// A node that is away will not come back, and **what nobody else has is lost**: partitions that wait for it begin anew with what
    /// their next holders have of them, which may be nothing. Refused while the node is present.
    Abandon(NodeId),
    /// A shard of a node has failed, and with it its replicas of some partitions, until the node starts again. **The node sends this only
    /// after the shard has ceased to serve, acknowledge, and decide.**
    Lose {
        /// The node that reports it, which runs on.
        replica: Replica,
        /// The partitions with an index that leaves this remainder
        shard: u32,
        /// when it is divided by this: the number of the node's shards.
        shards: u32,
    },
    /// Creates a user or a group. Repeated with the same seed, it answers the id again.
    CreateAccount {
        /// Its name.
        name: AccountName,
        /// Which of both.
        kind: AccountKind,
        /// Random bits of the proposer.
        seed: u64,
    },
    /// Removes a user or a group with all of its rights.
    RemoveAccount(AccountId),
    /// Gives a user the rights of a group.
    Enroll {
        /// The user.
        user: AccountId,
        /// The group.
        group: AccountId,
    },
    /// Undoes [`Command::Enroll`].
    Dismiss {
        /// The user.
        user: AccountId,
        /// The group.
        group: AccountId,
    },
    /// Grants and revokes rights.
    Grant {
        /// To whom, or from whom.
        account: AccountId,
        /// For what.
        scope: Scope,
        /// These are granted,
        more: Rights,
        /// and then these revoked.
        less: Rights,
    },
    /// Revokes the tokens of a user that are of an earlier generation than this one.
    RevokeTokens {
        /// The user.
        user: AccountId,
        /// The generation: the present one, or the next.
        before: u32,
    },
    /// Adds the next seal, by which tokens are made from then on.
    AddSeal(SealId, Seal),
    /// Removes a seal, and so revokes all tokens for which it stands.
    RemoveSeal(SealId),
}

/// What an accepted command answers, with the ring version at which it is in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in effect.
    Done(RingVersion),
    /// The node has this number.
    Registered(NodeId, RingVersion),
    /// The keyspace has this number.
    KeyspaceCreated(KeyspaceId, RingVersion),
    /// The user or group has this number.
    AccountCreated(AccountId, RingVersion),
    /// The snapshot has this number.
    SnapshotBegun(SnapshotId, RingVersion),
}

/// Why a command changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The cluster is not founded yet: try again later.
    NotFounded,
    /// It names an incarnation or an epoch that is over: fetch the ring.
    Stale,
    /// It names a node, class, keyspace, snapshot, partition, account, or seal that is not there, or was dropped, or has left.
    NotFound,
    /// It names something by a name that is taken, or asks for more than there may be.
    Taken,
    /// It is not for the sender to ask: it does not have the role.
    NotEntitled,
    /// Too few replicas would remain.
    TooFew,
    /// The node still holds something.
    Busy,
    /// A setting is out of bounds or cannot be altered.
    Invalid,
    /// Some partitions were last held by the node alone.
    LastCopy,
    /// The cluster has no secret, so there is nothing that tokens could be made of.
    NoSecret,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NotFounded => "the cluster is not founded yet; try again later",
            Refusal::Stale => "the incarnation or epoch is over; fetch the ring",
            Refusal::NotFound => {
                "there is no such node, class, keyspace, snapshot, partition, user, group, or seal"
            }
            Refusal::Taken => "the name is taken, or the limit is reached",
            Refusal::NotEntitled => "the sender does not have the role that may ask for it",
            Refusal::TooFew => "too few replicas would remain",
            Refusal::Busy => "the node still holds partitions; drain it first",
            Refusal::Invalid => "a setting is out of bounds or cannot be altered",
            Refusal::LastCopy => "the node has the only copy of some partitions",
            Refusal::NoSecret => {
                "the cluster has no secret, so everybody may do everything, and tokens would say nothing"
            }
        })
    }
}
