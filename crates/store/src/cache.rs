//! Verified payload blocks in memory: direct I/O leaves nothing in the page cache.
//!
//! The unit is the checksum block of a payload, so whatever is in here has been verified once and is exactly what was stored.

use std::sync::Arc;

use quick_cache::{Weighter, sync::Cache};
use tyr_wire::extent::{CHECKSUM_BLOCK, Place};

use crate::mixing::Mixing;

/// A cache of payload blocks by place.
pub struct BlockCache {
    blocks: Cache<Place, Arc<[u8]>, BlockWeight, Mixing>,
}

#[derive(Clone)]
struct BlockWeight;

impl Weighter<Place, Arc<[u8]>> for BlockWeight {
    fn weight(&self, _: &Place, block: &Arc<[u8]>) -> u64 {
        block.len() as u64 + BLOCK_OVERHEAD
    }
}

impl BlockCache {
    /// An empty cache of about `bytes`.
    pub fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / (CHECKSUM_BLOCK as u64)).unwrap_or(usize::MAX).max(16);
        let options = quick_cache::OptionsBuilder::new()
            .estimated_items_capacity(items)
            .weight_capacity(bytes)
            .build()
            .expect("all options are set");
        let lifecycle = quick_cache::sync::DefaultLifecycle::default();
        BlockCache { blocks: Cache::with_options(options, BlockWeight, Mixing, lifecycle) }
    }

    /// The block that begins at the place.
    pub fn find(&self, place: Place) -> Option<Arc<[u8]>> {
        self.blocks.get(&place)
    }

    /// Keeps a verified block.
    pub fn insert(&self, place: Place, block: &[u8]) {
        self.blocks.insert(place, block.into());
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Lookups that found their block, and that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.blocks.hits(), self.blocks.misses())
    }
}

/// Key, links, and allocation, roughly.
const BLOCK_OVERHEAD: u64 = 64;

#[cfg(test)]
mod tests {
    use tyr_wire::extent::SegmentId;

    use super::*;

    #[test]
    fn blocks_that_fit_stay_wherever_they_lie() {
        let cache = BlockCache::new(64 << 20);
        let places: Vec<Place> = (0..12_000_u32)
            .map(|number| Place {
                segment: SegmentId(7 + u64::from(number / 6000)),
                position: 64 + (number % 6000) * 4096,
            })
            .collect();
        let block = [7; CHECKSUM_BLOCK];
        places.iter().for_each(|place| cache.insert(*place, &block));
        let kept = places.iter().filter(|place| cache.find(**place).is_some()).count();
        assert!(kept > 11_900, "{kept} of 12000 are left");
    }
}
