//! The protocol of a cluster as pure state machines: placement, the ring, the cluster manager's decisions, partition replicas, heads,
//! the chain commit, and the client.
//!
//! Everything here is `no_std` and deterministic: no clock, thread, file, socket, or randomly ordered map. Events come in as calls
//! with the time as an argument, effects are taken out of queues. A message that promises something is emitted only by the
//! completion of the write that backs it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod access;
mod answered;
mod appends;
mod cached;
pub mod canary;
mod chunk;
mod client;
pub mod cluster;
mod configuration;
mod contact;
mod content;
mod early;
mod effects;
pub mod encoding;
pub mod entry;
mod evaluate;
mod freeze;
mod gone;
mod handovers;
mod head;
mod keeps;
mod keyspace;
mod lease;
mod leases;
mod limits;
mod log;
pub mod message;
mod node;
mod overlay;
mod partition;
pub mod payload;
mod placement;
mod popular;
mod quota;
mod ring;
mod router;
mod size;
mod snapshots;
mod spot;
mod stages;
mod state;
mod trace;
mod transaction;
mod tries;
mod upkeep;

pub use answered::Answered;
pub use chunk::Chunk;
pub use client::{
    BlobCopy, BlobPlan, Check, Client, ClientOutput, Copies, CopySource, End, Event, FrozenBlob, Next,
    Opened, Opening, ReadAnswer, ReadId, Run, SeenCopy, Snapshot, Told, Transaction,
};
pub use configuration::{ClassId, Configuration, Epoch, PartitionId, Replica, RingVersion};
pub use contact::Contact;
pub use content::Content;
pub use freeze::{Extent, FREEZE_BLOBS_MAX, FREEZE_MAX, FREEZE_PREFIXES_MAX, Freeze, Stand};
pub use handovers::{Awaited, permit_release};
pub use head::{Blob, Head, is_final};
pub use keeps::{Keep, KeepName, Keeps};
pub use keyspace::{Keyspace, Keyspaces, Piece};
pub use lease::{Lease, LeaseRequest, LeaseTerms};
pub use leases::{Grant, Leases};
pub use limits::Limits;
pub use log::Log;
pub use node::{Incarnation, NodeId, ShardId, Time};
pub use partition::{OldestPin, PIN_TIMEOUT, Partition, RESEND_AFTER};
pub use payload::Payload;
pub use placement::{KeyspaceSeed, Layout, PartitionCount, Placement, placement_hash};
pub use quota::{Bound, Bounds, Use, Uses};
pub use ring::{
    Assignment, ClassSettings, Member, MemberState, RingError, Target, TargetKind, ZoneId, ZoneRule,
    plan_ring,
};
pub use router::{Output, Router};
pub use snapshots::{NamedSnapshot, SNAPSHOTS_MAX, SnapshotId, Snapshots};
pub use spot::{FileName, SPOT_BLOCK, SPOT_MIN, Spot, Stretch};
pub use stages::{Stage, StageCopy, Stages};
pub use state::{Record, State};
pub use trace::TraceContext;
pub use transaction::{
    BlobName, CONDITIONS_MAX, ChunkName, Condition, HeadPlan, Operation, OperationResult, Outcome, Plan,
    Refusal, ResultValue, Seen, SessionId, StopPlan, TransactionId,
};
pub use tries::Pauses;
pub use upkeep::{Upkeep, UpkeepTerms};
