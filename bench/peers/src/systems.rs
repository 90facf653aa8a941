//! The systems that are compared.

mod echo;
mod postgres;
mod rados;
mod redis;
mod tyr;

use std::path::PathBuf;

use serde::Serialize;

use crate::{
    case::Durability,
    scratch::Scratch,
    system::{Outcome, System},
};
pub use echo::serve as serve_echo;

/// A system that Týr is compared with, as chosen on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// A server that sends back as many bytes as it was asked for: what the network and this program can do.
    Echo,
    /// Redis that syncs its log before it answers, or has none; one copy of everything.
    Redis,
    /// RADOS, the object store of Ceph, on BlueStore.
    Rados,
    /// PostgreSQL; one copy of everything.
    Postgres,
}

/// How systems are started.
pub struct Setting {
    /// How many copies there are of everything, of a system that has them.
    pub replicas: u32,
    /// When operations are acknowledged.
    pub durability: Durability,
    /// The `tyr` command.
    pub tyr: PathBuf,
    /// Threads of a Týr server that work on partitions.
    pub shards: u32,
    /// Partitions, or placement groups.
    pub partitions: u32,
}

impl Peer {
    /// All that there are.
    pub const ALL: [Peer; 4] = [Peer::Echo, Peer::Redis, Peer::Rados, Peer::Postgres];

    /// Whether it takes part in a comparison with so many replicas: bounds do in all.
    pub fn keeps(self, replicas: u32, durability: Durability) -> bool {
        let is_durable = durability == Durability::Disk;
        match self {
            Peer::Echo => true,
            Peer::Rados => is_durable,
            Peer::Redis => replicas == 1,
            Peer::Postgres => replicas == 1 && is_durable,
        }
    }

    /// Starts it.
    pub async fn start(self, setting: &Setting, scratch: &Scratch) -> Outcome<Box<dyn System>> {
        Ok(match self {
            Peer::Echo => Box::new(echo::Echo::start(scratch).await?),
            Peer::Redis => Box::new(redis::Redis::start(setting, scratch).await?),
            Peer::Postgres => Box::new(postgres::Postgres::start(scratch).await?),
            Peer::Rados => Box::new(rados::Rados::start(setting, scratch).await?),
        })
    }
}

/// Starts a cluster of Týr.
pub async fn start_tyr(setting: &Setting, scratch: &Scratch) -> Outcome<Box<dyn System>> {
    Ok(Box::new(tyr::Tyr::start(setting, scratch).await?))
}
