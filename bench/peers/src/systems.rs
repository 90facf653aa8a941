//! The systems that are compared.

mod device;
mod echo;
mod etcd;
mod http;
mod minio;
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
    /// A loop over a file past the page cache: what the disk can do.
    Device,
    /// A server that sends back as many bytes as it was asked for: what the network and this program can do.
    Echo,
    /// Redis that syncs its log before it answers, or has none; one copy of everything.
    Redis,
    /// RADOS, the object store of Ceph, on BlueStore.
    Rados,
    /// PostgreSQL; one copy of everything.
    Postgres,
    /// etcd, for numbers and locks; three copies of everything.
    Etcd,
    /// MinIO, an object store; one copy of everything. Only if it is named, for it has to be built.
    Minio,
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
    /// Bytes of a data set.
    pub set_size: u64,
}

impl Peer {
    /// All that are packaged.
    pub const PACKAGED: [Peer; 6] =
        [Peer::Device, Peer::Echo, Peer::Redis, Peer::Rados, Peer::Postgres, Peer::Etcd];

    /// Whether it takes part in a comparison with so many replicas: bounds do in all.
    pub fn keeps(self, replicas: u32, durability: Durability) -> bool {
        let is_durable = durability == Durability::Disk;
        match self {
            Peer::Echo => true,
            Peer::Device | Peer::Rados => is_durable,
            Peer::Redis => replicas == 1,
            Peer::Postgres | Peer::Minio => replicas == 1 && is_durable,
            Peer::Etcd => replicas == 3 && is_durable,
        }
    }
}

/// Starts peers, in the order in which they were asked for.
pub async fn start_peers(
    peers: &[Peer],
    setting: &Setting,
    scratch: &Scratch,
) -> Outcome<Vec<Box<dyn System>>> {
    let etcd = if peers.contains(&Peer::Etcd) { Some(etcd::Etcd::start(scratch).await?) } else { None };
    let mut systems: Vec<Box<dyn System>> = Vec::new();
    for peer in peers {
        systems.push(match peer {
            Peer::Device => Box::new(device::Device::start(setting.set_size, scratch)?),
            Peer::Echo => Box::new(echo::Echo::start(scratch).await?),
            Peer::Redis => Box::new(redis::Redis::start(setting, scratch).await?),
            Peer::Postgres => Box::new(postgres::Postgres::start(scratch).await?),
            Peer::Rados => Box::new(rados::Rados::start(setting, etcd.clone(), scratch).await?),
            Peer::Minio => Box::new(minio::Minio::start(scratch).await?),
            Peer::Etcd => Box::new(etcd.clone().ok_or("etcd was started before")?),
        });
    }
    Ok(systems)
}

/// Starts a cluster of Týr.
pub async fn start_tyr(setting: &Setting, scratch: &Scratch) -> Outcome<Box<dyn System>> {
    Ok(Box::new(tyr::Tyr::start(setting, scratch).await?))
}
