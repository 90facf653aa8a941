//! The cluster manager: the consensus that logs the commands of [`tyr_proto::cluster::Cluster`], and the leases that its leader holds.
//!
//! It rests on openraft, which asks its surroundings for tasks, time, and random numbers; [`Surroundings`] gives it ours, so that a
//! simulation runs what is shipped. It does no I/O but through [`Journal`] and [`Transport`], and is not on the way of data. Each has an
//! implementation here: [`DiskJournal`] on a disk of `tyr_env`, and [`Exchange`] over messages that may be lost.

#![forbid(unsafe_code)]

mod codec;
#[cfg(test)]
mod decoders;
mod election;
mod electorate;
mod gossip;
mod journal;
mod machine;
mod surroundings;
mod transport;
mod types;
mod voter;

pub use gossip::{Gossip, GossipEffect, GossipTiming, PACKET_SIZE_MAX, Peer};
pub use journal::{Change, DiskJournal, Journal, Kept};
pub use surroundings::{RaftRuntime, Surroundings};
pub use transport::{Exchange, NoAnswer, Post, Transport, describe};
pub use types::{Premise, Proposal, Request, Response, VoterId};
pub use voter::{Timing, Unavailable, Voter};
