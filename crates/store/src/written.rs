//! Which parts of a blob were ever written, and a print of each that is another one whenever its bytes are: what an incremental copy
//! needs to know.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher},
};

use tyr_types::{Key, KeyspaceId, Number, Result};
use tyr_wire::extent::LEAF_SPAN;

use crate::{
    leaf,
    miss::Wait,
    store::{Store, entry_key},
};

impl Store {
    /// The identity of this store: 128 random bits that were drawn when it was created.
    pub fn identity(&self) -> u128 {
        u128::from_le_bytes(self.identity)
    }

    /// Of a blob at a number that is pinned: its parts of `grain` bytes (a multiple of [`LEAF_SPAN`]) of which anything was written, by
    /// their place, each with a print. The bytes of a part are the same wherever its print is, but may be the same under another one, too.
    /// `None` if there was no such blob.
    pub fn written(
        &self,
        keyspace: KeyspaceId,
        key: &Key,
        at: Number,
        grain: u64,
    ) -> Result<Option<BTreeMap<u64, u64>>> {
        self.keyspaces.find(keyspace)?;
        self.check_readable()?;
        let key = entry_key(keyspace, key);
        let entry = self.loaded(self.entry(&key, Wait::Allowed))?;
        let Some((blob, head)) = entry.at(at) else { return Ok(None) };
        let leaves_in_grain = (grain / LEAF_SPAN).max(1);
        let mut prints = Prints::default();
        let mut next = Some(0);
        while let Some(from) = next.take() {
            // The first leaf lies with the head.
            let indexes = if from == 0 { vec![0] } else { self.leaves_from(keyspace, blob.id, from)? };
            next = indexes.last().map(|last| last + 1);
            for index in indexes {
                let base = index * LEAF_SPAN;
                if base >= head.size {
                    next = None;
                    break;
                }
                let shared;
                let extents = if index == 0 {
                    &blob.leaf
                } else {
                    shared = self.loaded(self.leaf_of(&key, &(keyspace, blob.id, index), Wait::Allowed))?;
                    &shared.extents
                };
                let range = 0..u32::try_from(LEAF_SPAN.min(head.size - base)).expect("a leaf's span fits");
                for piece in leaf::visible(extents, &blob.cuts, index, range, at) {
                    let bytes = base + u64::from(piece.range.start)..base + u64::from(piece.range.end);
                    prints.add(index / leaves_in_grain, bytes, extents[piece.extent].number);
                }
            }
        }
        Ok(Some(prints.finish()))
    }
}

/// The prints of parts: what is visible in each, and by which transaction it was written. That is what its bytes follow from.
#[derive(Default)]
struct Prints {
    of: BTreeMap<u64, DefaultHasher>,
    last: Option<(u64, std::ops::Range<u64>, Number)>,
}

impl Prints {
    /// Adds what comes next. What two extents of one transaction hold side by side counts as one, as it is after they were joined.
    fn add(&mut self, grain: u64, bytes: std::ops::Range<u64>, number: Number) {
        if let Some((of, last, by)) = &mut self.last
            && (*of, last.end, *by) == (grain, bytes.start, number)
        {
            last.end = bytes.end;
            return;
        }
        self.flush();
        self.last = Some((grain, bytes, number));
    }

    fn flush(&mut self) {
        let Some((grain, bytes, number)) = self.last.take() else { return };
        let hasher = self.of.entry(grain).or_default();
        for part in [bytes.start, bytes.end, number.to_u64()] {
            hasher.write_u64(part);
        }
    }

    fn finish(mut self) -> BTreeMap<u64, u64> {
        self.flush();
        self.of.into_iter().map(|(grain, hasher)| (grain, hasher.finish())).collect()
    }
}
