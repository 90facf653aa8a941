//! What a server is besides sockets and threads: its membership, its shards, and the journal of its partitions' logs.
//!
//! A [`Node`] is told what happens and says what is to be done, like the protocol itself; it has no clock, thread, or socket. A
//! [`Journal`] keeps what partitions log on a store. The caller carries things between the two, and between the node and the world. A
//! server that runs its shards on several threads takes the parts: one [`Member`], a [`Shard`] and a [`Journal`] for each
//! thread, and gives every [`Notice`] of the member to all shards.

#![forbid(unsafe_code)]

mod journal;
mod member;
mod node;
mod shard;

pub use journal::{Journal, Options, Restored, Start, Stored, entry_max};
pub use member::{Member, Notice, Settings};
pub use node::Node;
pub use shard::Shard;
