//! The bytes of a chunk at one version: what was written, and where nothing was.

use alloc::{sync::Arc, vec, vec::Vec};
use core::{fmt, ops::Range};

use tyr_types::{OFFSET_MAX, Operand, Seek, Transform};

use crate::{
    Payload, Stretch,
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    entry::ChunkOperation,
    payload::Lost,
};

/// An immutable version of a chunk: extents that writes left, in order, not overlapping.
///
/// A write makes a new version that shares the payload of its parent and all leaves that it does not touch, so that it costs its own
/// bytes and one leaf. Small extents that lie beside one another are joined while that is cheap, and a leaf of very small ones is melted
/// into one extent, so that a chunk has no more of them than its size justifies.
#[derive(Clone, Default)]
pub struct Content {
    /// Some extents each, at least one and at most [`LEAF_MAX`].
    leaves: Vec<Arc<[Extent]>>,
}

#[derive(Clone)]
struct Extent {
    start: u64,
    payload: Payload,
    part: Range<usize>,
}

/// The most extents of a leaf.
const LEAF_MAX: usize = 64;
/// Extents in memory are joined up to this size.
const JOINED_MAX: usize = 16 << 10;
/// Extents of a full leaf become one if they have no more bytes than this.
const MELTED_MAX: u64 = 64 << 10;

impl Extent {
    fn end(&self) -> u64 {
        self.start + self.part.len() as u64
    }

    /// What of it lies in a range.
    fn within(&self, range: &Range<u64>) -> Option<Extent> {
        let (start, end) = (self.start.max(range.start), self.end().min(range.end));
        let skip =
            |position: u64| self.part.start + usize::try_from(position - self.start).expect("in memory");
        (start < end).then(|| Extent { start, payload: self.payload.clone(), part: skip(start)..skip(end) })
    }

    /// Both as one, if the second follows the first and that costs little.
    fn joined(&self, next: &Extent, added: &Extent) -> Option<Extent> {
        let length = self.part.len() + next.part.len();
        // What is joined again and again at least grows by half each time.
        let is_cheap = length <= JOINED_MAX && length < 3 * added.part.len();
        if !is_cheap || self.end() != next.start {
            return None;
        }
        let (one, two) = (self.payload.in_memory()?, next.payload.in_memory()?);
        let bytes = [&one[self.part.clone()], &two[next.part.clone()]].concat();
        Some(Extent { start: self.start, part: 0..bytes.len(), payload: bytes.into() })
    }
}

impl Content {
    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Does what an operation says; a transform answers the old value. Fails if that cannot be read.
    pub fn apply(&mut self, operation: &ChunkOperation) -> Result<Option<Arc<[u8]>>, Lost> {
        match operation {
            ChunkOperation::Write { offset, bytes, part } => {
                self.put(Extent { start: *offset, payload: bytes.clone(), part: part.clone() });
            }
            // It was resolved when it was logged, or is of a transaction that was refused.
            ChunkOperation::Staged { .. } => {}
            ChunkOperation::Cut { range } if range.is_empty() => {}
            ChunkOperation::Cut { range } => self.replace(range.clone(), None),
            ChunkOperation::Transform { offset, transform, .. } => {
                return self.transform(*offset, transform).map(Some);
            }
        }
        Ok(None)
    }

    /// The bytes of a range, zeros where nothing was written, and whether all of them were written.
    pub fn read(&self, range: &Range<u64>) -> Result<(Vec<u8>, bool), Lost> {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let mut covered = 0;
        for extent in self.within(range) {
            let at = usize::try_from(extent.start - range.start).expect("below the length");
            extent.payload.read(extent.part.start, &mut bytes[at..at + extent.part.len()])?;
            covered += extent.part.len();
        }
        Ok((bytes, covered == length))
    }

    /// The same as [`Content::read`], but of what lies in files that can be shown only where.
    pub fn locate(&self, range: &Range<u64>) -> Result<(Vec<Stretch>, bool), Lost> {
        let mut stretches = Vec::new();
        let (mut end, mut whole) = (range.start, true);
        for extent in self.within(range) {
            if extent.start > end {
                whole = false;
                stretches.push(Stretch::Zeros(extent.start - end));
            }
            end = extent.end();
            match extent.payload.spots(&extent.part) {
                Some(spots) => stretches.extend(spots.into_iter().map(Stretch::Spot)),
                None => {
                    let mut bytes = vec![0; extent.part.len()];
                    extent.payload.read(extent.part.start, &mut bytes)?;
                    stretches.push(Stretch::Bytes(bytes));
                }
            }
        }
        if end < range.end {
            whole = false;
            stretches.push(Stretch::Zeros(range.end - end));
        }
        Ok((stretches, whole))
    }

    /// Where in a range the first byte is that was written, or the first that was not.
    pub fn seek(&self, range: &Range<u64>, what: Seek) -> Option<u64> {
        let mut end = range.start;
        for extent in self.within(range) {
            match what {
                Seek::Data => return Some(extent.start),
                Seek::Hole if extent.start > end => break,
                Seek::Hole => end = extent.end(),
            }
        }
        (what == Seek::Hole && end < range.end).then_some(end)
    }

    /// What lies in a range.
    fn within<'a>(&'a self, range: &Range<u64>) -> impl Iterator<Item = Extent> + use<'a> {
        let range = range.clone();
        let first = self.leaves.partition_point(|leaf| end_of(leaf) <= range.start);
        let touched = range.clone();
        let extents = self.leaves[first..].iter().flat_map(|leaf| leaf.iter());
        extents
            .take_while(move |extent| extent.start < range.end)
            .filter_map(move |extent| extent.within(&touched))
    }

    fn put(&mut self, extent: Extent) {
        if !extent.part.is_empty() {
            self.replace(extent.start..extent.end(), Some(extent));
        }
    }

    /// Puts an extent, or nothing, in the place of what lies in a range.
    fn replace(&mut self, range: Range<u64>, new: Option<Extent>) {
        // With what lies beside it, which the new extent may be joined to.
        let first = self.leaves.partition_point(|leaf| end_of(leaf) < range.start);
        let last = self.leaves.partition_point(|leaf| leaf[0].start <= range.end).max(first);
        let touched = || self.leaves[first..last].iter().flat_map(|leaf| leaf.iter());
        let mut run: Vec<Extent> = touched().filter_map(|extent| extent.within(&(0..range.start))).collect();
        let mut place = run.len();
        run.extend(new);
        let is_new = run.len() > place;
        run.extend(touched().filter_map(|extent| extent.within(&(range.end..u64::MAX))));
        if is_new {
            place = join(&mut run, place);
        }
        if run.len() > LEAF_MAX
            && let Some(melted) = melt(&run)
        {
            run = Vec::from([melted]);
        }
        let ends_with_it = place + 1 >= run.len();
        self.leaves.splice(first..last, leaves_of(&run, ends_with_it));
    }

    fn transform(&mut self, offset: u64, transform: &Transform) -> Result<Arc<[u8]>, Lost> {
        let size = transform.number_type().size();
        let (old, _) = self.read(&(offset..offset + size as u64))?;
        let operand =
            Operand::from_le_bytes(transform.number_type(), &old).expect("as many bytes as the type");
        let new = transform.apply(operand).to_le_bytes()[..size].into();
        self.put(Extent { start: offset, payload: new, part: 0..size });
        Ok(old.into())
    }

    fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.leaves.iter().flat_map(|leaf| leaf.iter())
    }

    /// The ranges in which there is something, the largest that there are.
    fn covered(&self) -> Vec<Range<u64>> {
        let mut covered: Vec<Range<u64>> = Vec::new();
        for extent in self.extents() {
            match covered.last_mut() {
                Some(last) if last.end == extent.start => last.end = extent.end(),
                _ => covered.push(extent.start..extent.end()),
            }
        }
        covered
    }

    /// How many extents there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.extents().count()
    }
}

/// Joins an extent of a run with small ones beside it. Returns where it is then.
fn join(run: &mut Vec<Extent>, mut place: usize) -> usize {
    while let Some(left) = place.checked_sub(1)
        && let Some(joined) = run[left].joined(&run[place], &run[place])
    {
        run.splice(left..=place, [joined]);
        place = left;
    }
    while let Some(right) = run.get(place + 1)
        && let Some(joined) = run[place].joined(right, &run[place])
    {
        run.splice(place..=place + 1, [joined]);
    }
    place
}

/// A run of extents without gaps and with few bytes as one.
fn melt(run: &[Extent]) -> Option<Extent> {
    let (start, end) = (run.first()?.start, run.last()?.end());
    let is_whole = run.windows(2).all(|pair| pair[0].end() == pair[1].start);
    if !is_whole || end - start > MELTED_MAX {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    for extent in run {
        let at = usize::try_from(extent.start - start).ok()?;
        extent.payload.read(extent.part.start, &mut bytes[at..at + extent.part.len()]).ok()?;
    }
    Some(Extent { start, part: 0..bytes.len(), payload: bytes.into() })
}

/// Leaves of a run: full ones if it goes on at its end, and otherwise such as have room.
fn leaves_of(run: &[Extent], goes_on: bool) -> Vec<Arc<[Extent]>> {
    let size = if goes_on || run.len() <= LEAF_MAX { LEAF_MAX } else { LEAF_MAX / 2 };
    run.chunks(size).map(Arc::from).collect()
}

fn end_of(leaf: &[Extent]) -> u64 {
    leaf.last().map_or(0, Extent::end)
}

/// What replicas compare: whose payload the bytes are a part of does not show, nor how they were cut.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        let covered = self.covered();
        let same = |range: &Range<u64>| self.read(range).is_ok_and(|bytes| Ok(bytes) == other.read(range));
        covered == other.covered() && covered.iter().all(same)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs =
            self.covered().into_iter().map(|range| (range.start, self.read(&range).map(|(bytes, _)| bytes)));
        f.debug_map().entries(runs).finish()
    }
}

impl Encode for Content {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.extents().count() as u64);
        self.extents().for_each(|extent| extent.encode(out));
    }
}

impl Decode for Content {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let extents: Vec<Extent> = Decode::decode(input)?;
        let apart = extents.windows(2).all(|pair| pair[0].end() <= pair[1].start);
        ensure(apart, "extents overlap or are not in order")?;
        Ok(Content { leaves: leaves_of(&extents, true) })
    }
}

/// Where it begins, and of the payload only the part that is left of it.
impl Encode for Extent {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.start);
        out.payload_part(&self.payload, &self.part);
    }
}

impl Decode for Extent {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let start = input.varint()?;
        let (payload, part) = input.payload_part()?;
        let end = start.checked_add(part.len() as u64).filter(|end| *end <= OFFSET_MAX);
        ensure(!part.is_empty() && end.is_some(), "an extent is empty or out of bounds")?;
        Ok(Extent { start, payload, part })
    }
}

#[cfg(test)]
mod tests;
