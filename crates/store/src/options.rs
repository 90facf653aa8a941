//! How a store is opened.

use tyr_types::{Error, Result};

/// Whether opening may create a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// Open what is there, or create a store in an empty directory.
    #[default]
    IfMissing,
    /// Only open what is there.
    Never,
    /// Only create; fail if there is a store.
    New,
}

/// Sizes of a store, in bytes unless said otherwise.
#[derive(Clone, Debug)]
pub struct Options {
    /// Capacity of a segment file: a power of two from [`SEGMENT_SIZE_MIN`] to [`SEGMENT_SIZE_MAX`]. Fixed when the
    /// store is created; an existing store keeps its own.
    pub segment_size: u64,
    /// Payload up to this size goes into the log, with one write; larger payload to its keyspace's own segments, with another. At least 4096,
    /// and taken as an eighth of a segment if it is more.
    pub inline_max: usize,
    /// Memory for the index: cached blocks of tables, and entries and leaves in use.
    pub index_cache: u64,
    /// Memory for cached payload.
    pub data_cache: u64,
    /// The log is checkpointed after this much of it, which bounds the time to open after a crash.
    pub checkpoint_size: u64,
    /// Files may use so many segments besides twice what is live before any writer waits for maintenance: those being filled, those that a
    /// replay would read, and those kept ready. A count.
    pub slack_segments: u32,
}

/// The smallest segment, for tests.
pub const SEGMENT_SIZE_MIN: u64 = 128 << 10;
/// The largest segment.
pub const SEGMENT_SIZE_MAX: u64 = 1 << 30;

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_size: 64 << 20,
            inline_max: 64 << 10,
            index_cache: 256 << 20,
            data_cache: 256 << 20,
            checkpoint_size: 128 << 20,
            slack_segments: 12,
        }
    }
}

impl Options {
    /// Fails with [`tyr_types::ErrorKind::Invalid`] if a size is out of bounds.
    pub fn check(&self) -> Result<()> {
        let size = self.segment_size;
        if !size.is_power_of_two() || !(SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&size) {
            return Err(Error::invalid(format!(
                "segment size {size} is out of bounds; use a power of two from {SEGMENT_SIZE_MIN} to {SEGMENT_SIZE_MAX} bytes"
            )));
        }
        if self.inline_max < 4096 {
            return Err(Error::invalid(format!(
                "inline_max {} is too small; use at least 4096",
                self.inline_max
            )));
        }
        Ok(())
    }
}
