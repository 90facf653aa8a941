//! The protocol of a cluster as pure state machines: placement, the ring, the cluster manager's decisions, partition replicas, heads,
//! the chain commit, and the client.
//!
//! Everything here is `no_std` and deterministic: no clock, thread, file, socket, or randomly ordered map. Events come in as calls
//! with the time as an argument, effects are taken out of queues. A message that promises something is emitted only by the
//! completion of the write that backs it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cluster;
mod configuration;
mod lease;
mod leases;
mod node;

pub use configuration::{ClassId, Configuration, Epoch, PartitionId, Replica, RingVersion};
pub use lease::{Lease, LeaseRequest, LeaseTerms};
pub use leases::{Grant, Leases};
pub use node::{Incarnation, NodeId, Time};
