//! How the nodes of a run keep their logs, drawn from its seed.

use std::num::NonZeroU32;

use tyr_types::Durability;

use crate::random::Random;

/// How nodes run their partitions and where they keep their logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageProfile {
    /// Shards of each node.
    pub shards: NonZeroU32,
    /// The shipped journal and store, or else a model of a disk.
    pub store: Option<StoreProfile>,
}

/// What the store of a node is like, and what goes wrong with its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreProfile {
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Memory for the store's index.
    pub index_cache: u64,
    /// The store's log is checkpointed after so many bytes.
    pub log_size: u64,
    /// A partition's state is checkpointed after so many bytes.
    pub checkpoint_size: u64,
    /// Payload of so many bytes is kept on disk only.
    pub payload_min: usize,
    /// Starts of a node during which a write or sync of its disk fails, in parts per million.
    pub errors: u32,
    /// It fails within so many operations of the disk.
    pub operations: u64,
    /// Starts of a node during which its disk has little space, in parts per million.
    pub full: u32,
}

impl StorageProfile {
    /// One shard, on a model of a disk.
    pub fn model() -> Self {
        StorageProfile { shards: NonZeroU32::MIN, store: None }
    }

    /// What a seed draws: some shards, and one time in four the shipped store. Drawn by itself, so that it leaves alone what else the
    /// seed draws. A cluster whose memory is all it has is not given disks that fail: it may lose more than it can survive.
    pub fn drawn(seed: u64, durability: Durability) -> Self {
        let mut random = Random::new(seed ^ STORAGE_SALT);
        let shards = NonZeroU32::new([1, 1, 2, 3][random.index(4)]).expect("not zero");
        if random.below(4) > 0 {
            return StorageProfile { shards, store: None };
        }
        let fails = durability == Durability::Disk && random.below(2) == 0;
        let store = StoreProfile {
            segment_size: 1 << (17 + random.below(3)),
            index_cache: 1 << (18 + random.below(6)),
            log_size: 1 << (16 + random.below(6)),
            checkpoint_size: 1 << (10 + random.below(10)),
            errors: if fails { 300_000 } else { 0 },
            operations: 1 << (4 + random.below(10)),
            full: if fails && random.below(2) == 0 { 500_000 } else { 0 },
            payload_min: [1, 16, 64, 4096][random.index(4)],
        };
        StorageProfile { shards, store: Some(store) }
    }
}

impl StoreProfile {
    /// How the store is opened.
    pub fn options(&self) -> tyr_store::Options {
        tyr_store::Options {
            segment_size: self.segment_size,
            inline_max: 4096,
            index_cache: self.index_cache,
            data_cache: 0,
            checkpoint_size: self.log_size,
            // What is live is moved soon and often.
            slack_segments: 2,
        }
    }

    /// How the journal is opened.
    pub fn journal(&self) -> tyr_node::Options {
        let StoreProfile { checkpoint_size, payload_min, .. } = *self;
        // One thread: which of several reads first is not for a seed to say.
        tyr_node::Options { checkpoint_size, payload_min, readers: 1 }
    }
}

/// Sets the choices about storage apart from all others of a seed.
const STORAGE_SALT: u64 = 0x746f_7261_6765;
