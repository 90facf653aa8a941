//! What a store has, holds, and has done.

use std::sync::atomic::Ordering;

use tyr_wire::frame::SegmentKind;

use crate::{index::IndexStats, store::Store};

/// A snapshot of counters and sizes. Bytes unless said otherwise; totals since opening.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The number of this opening.
    pub epoch: u32,
    /// How I/O is done.
    pub io: String,
    /// Capacity of a segment.
    pub segment_size: u64,
    /// Segments of the log.
    pub log_segments: usize,
    /// Segments of bulk payload.
    pub bulk_segments: usize,
    /// Bytes in segments that are live, roughly.
    pub live: u64,
    /// Bytes of segments in use that have been filled.
    pub filled: u64,
    /// Bytes of files that are kept for recycling.
    pub idle: u64,
    /// Bytes of the file that holds space back for deleting when the device is full.
    pub reserve: u64,
    /// Written to the log.
    pub log_written: u64,
    /// Written to bulk segments.
    pub bulk_written: u64,
    /// Batches written.
    pub batches: u64,
    /// The index on disk.
    pub index: IndexStats,
    /// Entries and leaves in memory.
    pub objects: u64,
    /// Of these, changed since the last checkpoint.
    pub dirty: u64,
    /// Payload in memory.
    pub cached: u64,
    /// Lookups of payload blocks that found them in memory.
    pub cache_hits: u64,
    /// Lookups that did not.
    pub cache_misses: u64,
    /// Pins held, a count.
    pub pins: usize,
    /// Seconds since the oldest pin was taken.
    pub oldest_pin: Option<f64>,
    /// Pieces of garbage waiting to be collected, a count.
    pub garbage: usize,
    /// Leaves waiting to be defragmented, a count.
    pub fragmented: usize,
    /// What maintenance failed with at last, unless all that there was to do has been done since. What is damaged is left alone until the store
    /// is opened again.
    pub maintenance_failure: Option<String>,
}

impl Store {
    /// See [`Stats`].
    pub fn stats(&self) -> Stats {
        let segments = self.segments.all();
        let log_segments = segments.iter().filter(|segment| segment.kind == SegmentKind::Log).count();
        let counters = self.log.counters();
        let (cache_hits, cache_misses) = self.cache.hits_and_misses();
        let (pins, oldest_pin) = self.pins.keyspaces.summary();
        let (garbage, fragmented) = {
            let work = self.backlog.lock();
            (work.all_garbage().count(), work.fragmented.len())
        };
        Stats {
            epoch: self.epoch,
            io: self.disk.describe(),
            segment_size: u64::from(self.segments.capacity()),
            log_segments,
            bulk_segments: segments.len() - log_segments,
            live: segments.iter().map(|segment| segment.live()).sum(),
            filled: segments.iter().map(|segment| segment.filled()).sum(),
            idle: self.segments.idle_bytes(),
            reserve: self.segments.reserve_bytes(),
            log_written: counters.log_bytes.load(Ordering::Relaxed),
            bulk_written: counters.bulk_bytes.load(Ordering::Relaxed),
            batches: counters.batches.load(Ordering::Relaxed),
            index: self.index.stats(),
            objects: self.entries.bytes() + self.leaves.bytes(),
            dirty: self.entries.dirty_bytes() + self.leaves.dirty_bytes(),
            cached: self.cache.bytes() + self.recent.bytes(),
            cache_hits,
            cache_misses,
            pins,
            oldest_pin,
            garbage,
            fragmented,
            maintenance_failure: self.failure.lock().clone(),
        }
    }
}
