//! Files that are shown to readers outside of the store: where payload lies in segments of bulk payload, and which files these are.
//!
//! What lies in such a file where a reader was told stays there as long as the reader has the file open: nothing is written over what was
//! written, and a segment that was shown is removed when it is empty instead of being recycled.

use std::{ops::Range, sync::Arc};

use tyr_types::{Durability, Key, KeyspaceId, Number};
use tyr_wire::{
    extent::{CHECKSUM_BLOCK, SegmentId},
    frame::SegmentKind,
};

use crate::{
    miss::{Miss, Wait},
    read::Fetch,
    segment::Segment,
    store::{Store, entry_key},
};

/// Some bytes of a blob in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The segment.
    pub segment: SegmentId,
    /// Where in its file the bytes under the checksums begin.
    pub position: u64,
    /// How many these are.
    pub size: u32,
    /// Which of them are meant.
    pub part: Range<u32>,
    /// The CRC-32C of each 4 KiB of them; the last block may be short.
    pub checksums: Vec<u32>,
}

/// A file that is shown. As long as this exists it keeps its name, unless it is removed.
#[derive(Debug)]
pub struct ShownSegment(Arc<Segment>);

impl ShownSegment {
    /// The name of its file in the store's directory.
    pub fn name(&self) -> String {
        self.0.name()
    }
}

impl Store {
    /// Where bytes of a blob lie as it is now, in order and all of them; `None` if some are not in files that can be shown, are holes, or
    /// lie past its end.
    pub fn stored(
        &self,
        keyspace: KeyspaceId,
        key: &Key,
        range: Range<u64>,
        wait: Wait,
    ) -> Result<Option<Vec<Stored>>, Miss> {
        let settings = self.keyspaces.find(keyspace)?;
        self.check_readable()?;
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let key = entry_key(keyspace, key);
        let Some(plan) = self.plan(&key, Number::MAX, range.start, length, wait)? else { return Ok(None) };
        if settings.state.settings.durability == Durability::Disk {
            self.await_durable(plan.observed, wait)?;
        }
        let covered: usize = plan.fetches.iter().map(Fetch::len).sum();
        if covered < length {
            return Ok(None);
        }
        Ok(plan.fetches.iter().map(|fetch| self.stored_of(fetch)).collect())
    }

    fn stored_of(&self, fetch: &Fetch) -> Option<Stored> {
        let (extent, wanted) = fetch.stored();
        let block = u32::try_from(CHECKSUM_BLOCK).ok()?;
        let first = wanted.start / block;
        let base = first * block;
        let end = wanted.end.next_multiple_of(block).min(extent.stored);
        let place = extent.place.advanced(base);
        let segment = self.segments.find(place.segment).filter(|segment| can_be_shown(segment))?;
        let position = u64::from(place.position);
        if position + u64::from(end - base) > segment.written() {
            return None;
        }
        let blocks = first as usize..end.div_ceil(block) as usize;
        let checksums = extent.checksums.as_slice().get(blocks)?.to_vec();
        let part = wanted.start - base..wanted.end - base;
        Some(Stored { segment: place.segment, position, size: end - base, part, checksums })
    }

    /// Shows a file of the store, if it is one that can be: from here on it is not recycled. Whoever opens it opens it by its name.
    pub fn show(&self, segment: SegmentId) -> Option<ShownSegment> {
        let segment = self.segments.find(segment).filter(|segment| can_be_shown(segment))?;
        segment.show();
        Some(ShownSegment(segment))
    }
}

/// Whether it may be shown: logs hold what is none of a reader's business.
fn can_be_shown(segment: &Segment) -> bool {
    matches!(segment.kind, SegmentKind::Bulk(_))
}

#[cfg(test)]
mod tests;
