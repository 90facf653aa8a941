//! Settings and measurements of an index.

use tyr_types::{Error, Result};
use tyr_wire::table::{BLOCK_SIZE, PAGE_SIZE_MAX, SPAN_PAGES_MAX};

/// Settings of an index. None of them is part of the format: an index may be opened with others than it was written with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// The most memory for roots, spans, and pages together, in bytes. A scan, build, or merge takes a few hundred KiB more
    /// for each table that it touches, while it runs.
    pub memory_max: u64,
    /// Bytes of a page, a multiple of 4096, at most 32 KiB. Larger ones make scans cheaper and lookups dearer.
    pub page_size: usize,
    /// How many pages share one Bloom filter and are found by one step of a search, 1 to 128.
    pub span_pages: usize,
    /// Bits of the Bloom filters for each entry, 1 to 32. With 16 about 0.1 % of the lookups of absent keys read a page in vain.
    pub filter_bits: u8,
    /// How many tables of similar size are merged into one, at least 2. Each entry is rewritten about
    /// log(all entries / entries of a flush) to this base times, and there are up to `fan_out - 1` tables of each size.
    pub fan_out: usize,
}

impl Default for IndexOptions {
    fn default() -> Self {
        IndexOptions {
            memory_max: 256 << 20,
            page_size: BLOCK_SIZE,
            span_pages: SPAN_PAGES_MAX,
            filter_bits: 16,
            fan_out: 8,
        }
    }
}

impl IndexOptions {
    /// Fails with [`tyr_types::ErrorKind::Invalid`] if a setting is out of bounds.
    pub fn check(&self) -> Result<()> {
        let page_fits = (BLOCK_SIZE..=PAGE_SIZE_MAX).contains(&self.page_size);
        if !page_fits || !self.page_size.is_multiple_of(BLOCK_SIZE) {
            return Err(Error::invalid(format!(
                "an index page of {} bytes is out of bounds; use a multiple of {BLOCK_SIZE} up to {PAGE_SIZE_MAX}",
                self.page_size
            )));
        }
        if !(1..=SPAN_PAGES_MAX).contains(&self.span_pages) {
            return Err(Error::invalid(format!("an index span has 1 to {SPAN_PAGES_MAX} pages")));
        }
        if !(1..=32).contains(&self.filter_bits) {
            return Err(Error::invalid("an index filter has 1 to 32 bits an entry"));
        }
        if self.fan_out < 2 {
            return Err(Error::invalid("an index merges at least 2 tables"));
        }
        Ok(())
    }
}

/// Measurements of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Visible tables.
    pub tables: usize,
    /// Their entries, tombstones and superseded ones among them.
    pub entries: u64,
    /// Their tombstones.
    pub tombstones: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// How often a span or page was found in memory since the index was opened.
    pub cache_hits: u64,
    /// How often it was not.
    pub cache_misses: u64,
    /// Bytes of roots, spans, and pages in memory.
    pub memory_used: u64,
}
