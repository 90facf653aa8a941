//! The bytes of a chunk at one version: what was written, and where nothing was.

use alloc::{sync::Arc, vec, vec::Vec};
use core::{fmt, ops::Range};

use tyr_types::{OFFSET_MAX, Operand, Transform};

use crate::{
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    entry::ChunkOperation,
    layout,
};

/// An immutable version of a chunk: runs of bytes that writes left, in order, not overlapping. A write makes a new version that shares
/// the bytes of its parent, so that it costs its own bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    extents: Vec<Extent>,
}

#[derive(Clone)]
struct Extent {
    start: u64,
    bytes: Arc<[u8]>,
    part: Range<usize>,
}

/// What replicas compare: whose payload the bytes are a part of does not show.
impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.start, &self.bytes[self.part.clone()])
    }
}

/// Equal bytes in equal places, whatever they are a part of.
impl PartialEq for Extent {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start && self.bytes[self.part.clone()] == other.bytes[other.part.clone()]
    }
}

impl Extent {
    fn end(&self) -> u64 {
        self.start + self.part.len() as u64
    }

    /// What of it lies in a range.
    fn within(&self, range: &Range<u64>) -> Option<Extent> {
        let (start, end) = (self.start.max(range.start), self.end().min(range.end));
        let skip =
            |position: u64| self.part.start + usize::try_from(position - self.start).expect("in memory");
        (start < end).then(|| Extent { start, bytes: self.bytes.clone(), part: skip(start)..skip(end) })
    }
}

impl Content {
    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Does what an operation says; a transform answers the old value.
    pub fn apply(&mut self, operation: &ChunkOperation) -> Option<Arc<[u8]>> {
        match operation {
            ChunkOperation::Write { offset, bytes, part } => {
                self.put(Extent { start: *offset, bytes: bytes.clone(), part: part.clone() });
                None
            }
            // It was resolved when it was logged, or is of a transaction that was refused.
            ChunkOperation::Staged { .. } => None,
            ChunkOperation::Cut { offset } => {
                self.keep_outside(*offset..u64::MAX);
                None
            }
            ChunkOperation::Transform { offset, transform, .. } => Some(self.transform(*offset, transform)),
        }
    }

    /// The bytes of a range, zeros where nothing was written, and whether all of them were written.
    pub fn read(&self, range: &Range<u64>) -> (Vec<u8>, bool) {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let mut covered = 0;
        for extent in self.extents.iter().filter_map(|extent| extent.within(range)) {
            let at = usize::try_from(extent.start - range.start).expect("below the length");
            bytes[at..at + extent.part.len()].copy_from_slice(&extent.bytes[extent.part.clone()]);
            covered += extent.part.len();
        }
        (bytes, covered == length)
    }

    fn put(&mut self, extent: Extent) {
        if extent.part.is_empty() {
            return;
        }
        self.keep_outside(extent.start..extent.end());
        let place = self.extents.partition_point(|other| other.start < extent.start);
        self.extents.insert(place, extent);
    }

    fn keep_outside(&mut self, range: Range<u64>) {
        let outside = |extent: &Extent| {
            let before = extent.within(&(0..range.start));
            let after = extent.within(&(range.end..u64::MAX));
            before.into_iter().chain(after)
        };
        self.extents = self.extents.iter().flat_map(outside).collect();
    }

    fn transform(&mut self, offset: u64, transform: &Transform) -> Arc<[u8]> {
        let size = transform.number_type().size();
        let (old, _) = self.read(&(offset..offset + size as u64));
        let operand =
            Operand::from_le_bytes(transform.number_type(), &old).expect("as many bytes as the type");
        let new: Arc<[u8]> = transform.apply(operand).to_le_bytes()[..size].into();
        self.put(Extent { start: offset, bytes: new, part: 0..size });
        old.into()
    }
}

layout!(struct Content { extents } check |content: &Content| {
    let apart = content.extents.windows(2).all(|pair| pair[0].end() <= pair[1].start);
    ensure(apart, "extents overlap or are not in order")
});

/// Where it begins, and of the payload only the part that is left of it.
impl Encode for Extent {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.start);
        out.payload_part(&self.bytes, &self.part);
    }
}

impl Decode for Extent {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let start = input.varint()?;
        let (bytes, part) = input.payload_part()?;
        let end = start.checked_add(part.len() as u64).filter(|end| *end <= OFFSET_MAX);
        ensure(!part.is_empty() && end.is_some(), "an extent is empty or out of bounds")?;
        Ok(Extent { start, bytes, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, bytes: &[u8]) -> ChunkOperation {
        ChunkOperation::Write { offset, bytes: bytes.into(), part: 0..bytes.len() }
    }

    #[test]
    fn later_writes_lie_over_earlier_ones_and_cuts_leave_nothing_behind() {
        let mut content = Content::default();
        content.apply(&write(2, b"abcdef"));
        content.apply(&write(4, b"XY"));
        assert_eq!(content.read(&(2..8)), (b"abXYef".to_vec(), true));
        assert_eq!(content.read(&(0..4)), (b"\0\0ab".to_vec(), false));
        content.apply(&ChunkOperation::Cut { offset: 5 });
        assert_eq!(content.read(&(2..8)), (b"abX\0\0\0".to_vec(), false));
        content.apply(&ChunkOperation::Cut { offset: 0 });
        assert!(content.is_empty());
    }

    #[test]
    fn a_transform_answers_what_was_there() {
        let mut content = Content::default();
        let add = Transform::add(Operand::U16(3));
        let operation = ChunkOperation::Transform { offset: 1, transform: add, answers: (0, 0) };
        assert_eq!(content.apply(&operation).as_deref(), Some(&[0, 0][..]));
        assert_eq!(content.apply(&operation).as_deref(), Some(&[3, 0][..]));
        assert_eq!(content.read(&(0..4)).0, [0, 6, 0, 0]);
    }
}
