//! Reading: which extents hold the bytes, then the bytes, from the cache or verified from the disk.
//!
//! A read takes the blob's entry, and the leaves in range, as immutable objects. It is consistent if the entry is still the same after
//! the leaves were taken, since every commit to a blob replaces its entry. What a read has seen must be durable before
//! it is returned, or a crash could take back what somebody has acted on.

use std::{cell::RefCell, ops::Range, sync::Arc};

use tyr_env::Blocks;
use tyr_types::{Durability, Error, Key, KeyspaceId, Number, Result};
use tyr_wire::{
    entry::{Blob, Head},
    extent::{CHECKSUM_BLOCK, Extent, LEAF_SPAN, Leaf, Place, SegmentId},
    record::KeyspaceState,
};

use crate::{
    index_key::EntryKey,
    leaf,
    miss::{Miss, Wait},
    segment::Segment,
    store::{Store, entry_key},
};

/// Which bytes of the caller's buffer come from where.
pub(crate) struct Plan {
    pub(crate) head: Arc<Head>,
    /// How many bytes the blob has in the range.
    pub(crate) len: usize,
    pub(crate) fetches: Vec<Fetch>,
    /// The newest transaction that the result depends on.
    pub(crate) observed: Number,
}

/// A run of the buffer that one extent provides.
pub(crate) struct Fetch {
    buffer: Range<usize>,
    /// Of the stored bytes, those that go there.
    stored: Range<u32>,
    extent: Extent,
}

impl Fetch {
    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// The extent, and which of its stored bytes.
    pub(crate) fn stored(&self) -> (&Extent, Range<u32>) {
        (&self.extent, self.stored.clone())
    }
}

/// A checksum block that is not in the cache.
struct Missing {
    place: Place,
    len: usize,
    checksum: u32,
    /// Part of the block that is wanted, and where it goes.
    part: Range<usize>,
    buffer: usize,
}

/// How filling a buffer went.
pub(crate) enum Filled {
    /// It is filled.
    Whole,
    /// The segment is not in use any more: it was emptied meanwhile, so that the plan is stale.
    Gone(SegmentId),
}

/// How taking the leaves went.
enum Taken {
    Plan(Option<Plan>),
    /// A commit to the blob came in between.
    Raced,
}

impl Store {
    /// The head of a blob at a number: [`Number::MAX`] for the newest, else one that is pinned. `None` if there was no such blob.
    pub fn head(
        &self,
        keyspace: KeyspaceId,
        key: &Key,
        at: Number,
        wait: Wait,
    ) -> Result<Option<Arc<Head>>, Miss> {
        let settings = self.keyspaces.find(keyspace)?;
        self.check_readable()?;
        let entry = self.entry(&entry_key(keyspace, key), wait)?;
        let head = match at {
            Number::MAX => entry.current().and_then(Blob::head).cloned(),
            at => entry.at(at).map(|(_, head)| head.clone()),
        };
        if at == Number::MAX && settings.state.settings.durability == Durability::Disk {
            self.await_durable(entry.applied, wait)?;
        }
        Ok(head)
    }

    /// Reads from `offset` on into the buffer, as of a number (see [`Store::head`]): the head, and how many bytes the blob has there. Holes
    /// are zeros. `None` if there was no such blob.
    pub fn read(
        &self,
        keyspace: KeyspaceId,
        key: &Key,
        at: Number,
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<(Arc<Head>, usize)>, Miss> {
        let keyspace = self.keyspaces.find(keyspace)?;
        self.check_readable()?;
        self.read_in(&keyspace.state, key, at, offset, buffer, wait)
    }

    /// As [`Store::read`], in a keyspace that was there a moment ago.
    fn read_in(
        &self,
        keyspace: &KeyspaceState,
        key: &Key,
        at: Number,
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<(Arc<Head>, usize)>, Miss> {
        let key = entry_key(keyspace.id, key);
        let mut gone = None;
        loop {
            let Some(plan) = self.plan(&key, at, offset, buffer.len(), wait)? else { return Ok(None) };
            if keyspace.settings.durability == Durability::Disk {
                self.await_durable(plan.observed, wait)?;
            }
            match self.fetch(&plan, buffer, wait)? {
                Filled::Whole => return Ok(Some((plan.head, plan.len))),
                // What was planned after a segment was emptied does not refer to it.
                Filled::Gone(segment) if gone == Some(segment) => {
                    // Unless it went with its keyspace.
                    self.keyspaces.find(keyspace.id)?;
                    return Err(lost(&key, segment).into());
                }
                Filled::Gone(segment) => gone = Some(segment),
            }
        }
    }

    /// Fails if the store was closed. A store that has stopped writing still reads.
    pub(crate) fn check_readable(&self) -> Result<()> {
        if self.closed.load(std::sync::atomic::Ordering::Acquire) {
            return Err(Error::unavailable("the store is closed; open it again"));
        }
        Ok(())
    }

    pub(crate) fn await_durable(&self, number: Number, wait: Wait) -> Result<(), Miss> {
        if number <= self.log.durable() {
            return Ok(());
        }
        match wait {
            Wait::Never => Err(Miss::WouldBlock),
            Wait::Allowed => Ok(self.log.wait(number)?),
        }
    }

    /// Decides where the bytes come from. Retries when commits interfere; in the end it keeps them out.
    pub(crate) fn plan(
        &self,
        key: &EntryKey,
        at: Number,
        offset: u64,
        len: usize,
        wait: Wait,
    ) -> Result<Option<Plan>, Miss> {
        for _ in 0..OPTIMISTIC_READS {
            if let Taken::Plan(plan) = self.take(key, at, offset, len, wait)? {
                return Ok(plan);
            }
        }
        let _commit = match wait {
            Wait::Never => self.commit.try_lock().ok_or(Miss::WouldBlock)?,
            Wait::Allowed => self.commit.lock(),
        };
        match self.take(key, at, offset, len, wait)? {
            Taken::Plan(plan) => Ok(plan),
            Taken::Raced => Err(Error::internal("a blob changed while commits were kept out").into()),
        }
    }

    fn take(&self, key: &EntryKey, at: Number, offset: u64, len: usize, wait: Wait) -> Result<Taken, Miss> {
        let entry = self.entry(key, wait)?;
        let found = match at {
            Number::MAX => entry.current().and_then(|blob| Some((blob, blob.head()?))),
            at => entry.at(at),
        };
        let Some((blob, head)) = found else {
            if at == Number::MAX {
                let durable = self.keyspaces.find(key.0)?.state.settings.durability == Durability::Disk;
                if durable {
                    self.await_durable(entry.applied, wait)?;
                }
            }
            return Ok(Taken::Plan(None));
        };
        let number = if at == Number::MAX { entry.applied } else { at };
        let mut plan = Plan {
            head: head.clone(),
            len: 0,
            fetches: Vec::new(),
            observed: Number::from_u64(blob.id.to_u64()),
        };
        plan.len = usize::try_from(head.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(len);
        if plan.len < len {
            plan.observed = plan.observed.max(head.number);
        }
        let multiple =
            self.lay_out(key, blob, number, offset, &mut plan, |leaf| self.leaf_of(key, leaf, wait))?;
        if multiple && at == Number::MAX {
            let now = self.entry(key, wait)?;
            if now.applied != entry.applied {
                return Ok(Taken::Raced);
            }
        }
        Ok(Taken::Plan(Some(plan)))
    }

    /// Adds the fetches for `plan.len` bytes from `offset`; whether leaves other than the entry's were needed.
    pub(crate) fn lay_out<E>(
        &self,
        key: &EntryKey,
        blob: &Blob,
        number: Number,
        offset: u64,
        plan: &mut Plan,
        mut leaf: impl FnMut(&(KeyspaceId, tyr_types::BlobId, u64)) -> Result<Arc<Leaf>, E>,
    ) -> Result<bool, E> {
        let end = offset + plan.len as u64;
        let mut multiple = false;
        let mut covered = 0;
        for (index, range) in leaf::split(offset..end) {
            let base = index * LEAF_SPAN;
            if base >= blob.reach {
                break;
            }
            let shared;
            let extents = if index == 0 {
                &blob.leaf
            } else {
                multiple = true;
                shared = leaf(&(key.0, blob.id, index))?;
                &shared.extents
            };
            for piece in leaf::visible(extents, &blob.cuts, index, range, number) {
                let extent = &extents[piece.extent];
                plan.observed = plan.observed.max(extent.number);
                if extent.is_hole() {
                    continue;
                }
                let from = extent.skip + piece.range.start - extent.start;
                let to = extent.skip + piece.range.end - extent.start;
                let start =
                    usize::try_from(base + u64::from(piece.range.start) - offset).unwrap_or(usize::MAX);
                let buffer = start..start + (to - from) as usize;
                covered += buffer.len();
                plan.fetches.push(Fetch { buffer, stored: from..to, extent: extent.clone() });
            }
        }
        if covered < plan.len {
            // A hole may be the work of a cut, or of nobody.
            plan.observed = plan.observed.max(blob.cuts.last().map_or(Number::ZERO, |cut| cut.number));
            plan.observed = plan.observed.max(plan.head.number);
        }
        Ok(multiple)
    }

    /// Fills the buffer by the plan.
    pub(crate) fn fetch(&self, plan: &Plan, buffer: &mut [u8], wait: Wait) -> Result<Filled, Miss> {
        let mut filled = 0;
        let mut missing = Vec::new();
        for fetch in &plan.fetches {
            buffer[filled..fetch.buffer.start].fill(0);
            filled = fetch.buffer.end;
            self.fetch_cached(fetch, buffer, &mut missing);
        }
        buffer[filled..plan.len].fill(0);
        if missing.is_empty() {
            return Ok(Filled::Whole);
        }
        if wait == Wait::Never {
            return Err(Miss::WouldBlock);
        }
        Ok(self.fetch_missing(missing, buffer)?)
    }

    fn fetch_cached(&self, fetch: &Fetch, buffer: &mut [u8], missing: &mut Vec<Missing>) {
        let extent = &fetch.extent;
        let checksums = extent.checksums.as_slice();
        let mut to = fetch.buffer.start;
        let mut stored = fetch.stored.start as usize;
        while stored < fetch.stored.end as usize {
            let index = stored / CHECKSUM_BLOCK;
            let base = index * CHECKSUM_BLOCK;
            let len = CHECKSUM_BLOCK.min(extent.stored as usize - base);
            let part = stored - base..len.min(fetch.stored.end as usize - base);
            let place = extent.place.advanced(u32::try_from(base).unwrap_or(u32::MAX));
            let step = part.len();
            match self.cache.find(place) {
                Some(block) if block.len() == len => buffer[to..to + step].copy_from_slice(&block[part]),
                _ if self.recent.copy(
                    place.advanced(u32::try_from(part.start).unwrap_or(0)),
                    &mut buffer[to..to + step],
                ) => {}
                _ => missing.push(Missing { place, len, checksum: checksums[index], part, buffer: to }),
            }
            to += step;
            stored = base + len;
        }
    }

    fn fetch_missing(&self, mut missing: Vec<Missing>, buffer: &mut [u8]) -> Result<Filled> {
        missing.sort_unstable_by_key(|block| block.place);
        let mut rest = missing.as_slice();
        while let Some(first) = rest.first() {
            let Some(segment) = self.segments.find(first.place.segment) else {
                return Ok(Filled::Gone(first.place.segment));
            };
            let (run, after) = rest.split_at(run_length(rest, segment.written()));
            rest = after;
            let end = run.iter().map(Missing::end).max().unwrap_or(first.place.position);
            let len = (end - first.place.position) as usize;
            with_scratch(len, |scratch| {
                let start = self.read_stored(&segment, first.place, len, scratch)?;
                for block in run {
                    let at = start + (block.place.position - first.place.position) as usize;
                    let bytes = &scratch.as_bytes()[at..at + block.len];
                    if crc32c(bytes) != block.checksum {
                        return Err(damaged(&segment, block.place));
                    }
                    self.cache.insert(block.place, bytes);
                    let part = &bytes[block.part.clone()];
                    buffer[block.buffer..block.buffer + part.len()].copy_from_slice(part);
                }
                Ok(())
            })?;
        }
        Ok(Filled::Whole)
    }

    /// Reads what is visible of a leaf at its newest over zeros; where it begins and ends is for the caller to know.
    pub(crate) fn read_leaf(
        &self,
        extents: &[Extent],
        pieces: &[leaf::Piece],
        buffer: &mut [u8],
    ) -> Result<Filled> {
        let base = pieces.first().map_or(0, |piece| piece.range.start);
        let mut missing = Vec::new();
        for piece in pieces {
            let extent = &extents[piece.extent];
            if extent.is_hole() {
                continue;
            }
            let from = extent.skip + piece.range.start - extent.start;
            let start = (piece.range.start - base) as usize;
            let fetch = Fetch {
                buffer: start..start + piece.range.len(),
                stored: from..from + (piece.range.end - piece.range.start),
                extent: extent.clone(),
            };
            self.fetch_cached(&fetch, buffer, &mut missing);
        }
        self.fetch_missing(missing, buffer)
    }

    /// Reads stored bytes, unverified, from memory if they have not been written yet; returns where in `scratch` they begin.
    pub(crate) fn read_stored(
        &self,
        segment: &Segment,
        place: Place,
        len: usize,
        scratch: &mut Blocks,
    ) -> Result<usize> {
        let end = u64::from(place.position) + len as u64;
        if end > segment.written() && self.log.read_pending(place, &mut scratch.as_bytes_mut()[..len]) {
            return Ok(0);
        }
        // Whole blocks, so that direct I/O needs no copy.
        let position = u64::from(place.position);
        let first = position - position % tyr_env::BLOCK_SIZE as u64;
        let start = usize::try_from(position - first).expect("less than a block");
        let aligned = (start + len).next_multiple_of(tyr_env::BLOCK_SIZE);
        scratch.resize(aligned);
        let read = segment.file.read_at(first, scratch.as_bytes_mut());
        read.map_err(|error| crate::failure::disk_error(&format!("reading {}", segment.name()), &error))?;
        Ok(start)
    }
}

impl Missing {
    /// One past its last byte in the segment.
    fn end(&self) -> u32 {
        self.place.position.saturating_add(u32::try_from(self.len).unwrap_or(u32::MAX))
    }
}

/// How many of the blocks, which are in the order of their places, one read of the file should bring: they are close to one another. A block that
/// may not have been written yet is fetched alone, for what waits to be written lies in pieces.
fn run_length(blocks: &[Missing], written: u64) -> usize {
    let Some(first) = blocks.first().filter(|first| u64::from(first.end()) <= written) else { return 1 };
    let mut end = first.end();
    let close = blocks[1..].iter().take_while(|next| {
        let is_close = next.place.segment == first.place.segment
            && u64::from(next.end()) <= written
            && next.place.position <= end.saturating_add(READ_GAP_MAX)
            && next.end() - first.place.position <= READ_SIZE_MAX;
        end = end.max(next.end());
        is_close
    });
    1 + close.count()
}

/// Runs `with` on a block-aligned buffer of at least `len` bytes, plus room for misalignment at both ends, that the thread keeps.
pub(crate) fn with_scratch<T>(len: usize, with: impl FnOnce(&mut Blocks) -> T) -> T {
    thread_local!(static SCRATCH: RefCell<Blocks> = RefCell::default());
    SCRATCH.with(|scratch| {
        let mut scratch = scratch.try_borrow_mut().expect("not used recursively");
        scratch.resize(len + 2 * tyr_env::BLOCK_SIZE);
        with(&mut scratch)
    })
}

#[cold]
pub(crate) fn lost(key: &EntryKey, segment: SegmentId) -> Error {
    Error::corrupt(format!(
        "blob '{}' has bytes in segment {}, which is not in the store; run a check and restore the blob from a copy",
        key.1, segment.0
    ))
}

pub(crate) fn damaged(segment: &Segment, place: Place) -> Error {
    Error::corrupt(format!(
        "stored bytes at position {} of {} are damaged (checksum mismatch); run a check and restore the blob from a copy",
        place.position,
        segment.name()
    ))
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    tyr_wire::checksum::crc32c(bytes)
}

/// After so many interferences a read takes the commit lock.
const OPTIMISTIC_READS: usize = 8;

/// One read of the disk brings at most so many bytes.
const READ_SIZE_MAX: u32 = 1 << 20;

/// Bytes between two blocks that are rather read along than skipped: what the device delivers in the time of another request.
const READ_GAP_MAX: u32 = 32 << 10;

#[cfg(test)]
mod tests;
