//! Placement classes and keyspaces: what they are told at creation, and what of it may be altered.

use alloc::{format, string::ToString};

use tyr_types::{Durability, Error, KeyspaceName, KeyspaceSettings, Result};

use crate::{ClassId, Configuration, Snapshots, ZoneRule};

/// The settings of a placement class. None can be altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// Replicas of each partition, 1 to [`REPLICAS_MAX`].
    pub replicas: u8,
    /// The fewest complete replicas with which a partition takes writes, 1 to `replicas`.
    pub min_replicas: u8,
    /// Partitions: a power of two up to [`PARTITIONS_MAX`].
    pub partitions: u32,
    /// What a record of its partitions survives. Its keyspaces have the same.
    pub durability: Durability,
    /// Where replicas lie relative to one another.
    pub zones: ZoneRule,
}

impl ClassSettings {
    /// `replicas` copies on disk, in distinct zones as far as there are any, with everything else as it is by default: 4096 partitions, and writes as long as
    /// one replica of up to two is complete, or two of more.
    pub fn new(replicas: u8) -> Self {
        ClassSettings {
            replicas,
            min_replicas: if replicas <= 2 { 1 } else { 2 },
            partitions: 4096,
            durability: Durability::Disk,
            zones: ZoneRule::Prefer,
        }
    }

    /// Fails with [`tyr_types::ErrorKind::Invalid`] if a setting is out of bounds.
    pub fn check(&self) -> Result<()> {
        let invalid = |what: &str| Err(Error::invalid(what.to_string()));
        if self.replicas == 0 || self.replicas > REPLICAS_MAX {
            return invalid(&format!(
                "{} replicas are out of bounds; use 1 to {REPLICAS_MAX}",
                self.replicas
            ));
        }
        if self.min_replicas == 0 || self.min_replicas > self.replicas {
            return invalid(&format!(
                "min_replicas {} is out of bounds; use 1 to replicas",
                self.min_replicas
            ));
        }
        if !self.partitions.is_power_of_two() || self.partitions > PARTITIONS_MAX {
            return invalid(&format!(
                "{} partitions are out of bounds; use a power of two up to {PARTITIONS_MAX}",
                self.partitions
            ));
        }
        Ok(())
    }

    /// Whether a partition of this class takes writes under the configuration. One that does not still serves reads.
    pub fn takes_writes(&self, configuration: &Configuration) -> bool {
        configuration.replicas.len() >= usize::from(self.min_replicas)
    }
}

/// A keyspace as the cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    /// Its name; no two keyspaces that exist have the same.
    pub name: KeyspaceName,
    /// The placement class whose partitions hold it.
    pub class: ClassId,
    /// What the placement hash begins with, so that equal keys of two keyspaces lie apart. Never altered.
    pub seed: u64,
    /// Its settings.
    pub settings: KeyspaceSettings,
    /// Whether it exists.
    pub state: KeyspaceState,
    /// Its snapshots with names.
    pub snapshots: Snapshots,
}

/// Whether a keyspace exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyspaceState {
    /// It does.
    Exists,
    /// It was dropped: nothing new is prepared in it, and its bytes are removed. Its id is never given again.
    Dropped,
}

/// The most replicas of a class.
pub const REPLICAS_MAX: u8 = 16;
/// The most partitions of a class.
pub const PARTITIONS_MAX: u32 = 1 << 16;
