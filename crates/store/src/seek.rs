//! Where there is data in a blob, and where there are holes.

use std::ops::Range;

use tyr_types::{Durability, Key, KeyspaceId, Number, Seek};
use tyr_wire::extent::LEAF_SPAN;

use crate::{
    leaf,
    miss::{Miss, Wait},
    store::{Store, entry_key},
};

impl Store {
    /// Where at or after an offset the next data or hole begins, as of a number (see [`Store::head`]); the end of a blob is a hole.
    /// `Some(None)` if there is no more data, or if the offset is at the end or after it. `None` if there was no such blob. Of one that is
    /// being written, each leaf is looked at as of some moment during the call.
    pub fn seek(
        &self,
        keyspace: KeyspaceId,
        key: &Key,
        at: Number,
        what: Seek,
        from: u64,
        wait: Wait,
    ) -> Result<Option<Option<u64>>, Miss> {
        let Some(head) = self.head(keyspace, key, at, wait)? else { return Ok(None) };
        if from >= head.size {
            return Ok(Some(None));
        }
        if wait == Wait::Never {
            // Which leaves there are may have to be read from disk.
            return Err(Miss::WouldBlock);
        }
        let owner = entry_key(keyspace, key);
        let entry = self.entry(&owner, wait)?;
        let Some(blob) = entry.blobs.iter().find(|blob| blob.id == head.blob) else { return Ok(None) };
        let mut search = Search { what, end: from, found: None };
        let mut next = Some(from / LEAF_SPAN);
        while let Some(first) = next.take() {
            // The first leaf lies with the head.
            let indexes = if first == 0 { vec![0] } else { self.leaves_from(keyspace, blob.id, first)? };
            for index in indexes {
                let base = index * LEAF_SPAN;
                if base >= head.size || search.found.is_some() {
                    next = None;
                    break;
                }
                next = Some(index + 1);
                let narrow = |value: u64| u32::try_from(value.min(LEAF_SPAN)).expect("a leaf's span fits");
                let range = narrow(from.saturating_sub(base))..narrow(head.size - base);
                let shared;
                let extents = if index == 0 {
                    &blob.leaf
                } else {
                    shared = self.leaf_of(&owner, &(keyspace, blob.id, index), wait)?;
                    &shared.extents
                };
                let pieces = leaf::visible(extents, &blob.cuts, index, range, at);
                for piece in pieces.into_iter().filter(|piece| !extents[piece.extent].is_hole()) {
                    search.meet(base + u64::from(piece.range.start)..base + u64::from(piece.range.end));
                }
            }
        }
        if at == Number::MAX && self.keyspaces.find(keyspace)?.state.settings.durability == Durability::Disk {
            self.await_durable(self.entry(&owner, wait)?.applied, wait)?;
        }
        Ok(Some(search.finish()))
    }
}

/// Meets the data of a blob from an offset on, in order.
struct Search {
    what: Seek,
    /// From the offset to here there is data.
    end: u64,
    found: Option<u64>,
}

impl Search {
    fn meet(&mut self, data: Range<u64>) {
        match self.what {
            _ if self.found.is_some() => {}
            Seek::Data => self.found = Some(data.start),
            Seek::Hole if data.start > self.end => self.found = Some(self.end),
            Seek::Hole => self.end = data.end,
        }
    }

    fn finish(self) -> Option<u64> {
        self.found.or((self.what == Seek::Hole).then_some(self.end))
    }
}

#[cfg(test)]
mod tests;
