//! Where bytes of a blob are: extents, and the leaves that list them.
//!
//! A blob's content is cut into leaves of [`LEAF_SPAN`] bytes. A leaf lists the extents that were written into it, oldest
//! first; where two overlap, the later one holds. An extent refers to a stored payload, which is checksummed in
//! blocks of [`CHECKSUM_BLOCK`] bytes counted from the payload's first byte, so that a small read verifies little.

use alloc::{sync::Arc, vec::Vec};

use tyr_types::Number;

use crate::varint::{Malformed, Reader, write_varint};

/// Bytes of a blob that one leaf describes. The smallest chunk is one leaf.
pub const LEAF_SPAN: u64 = tyr_types::CHUNK_SIZE_MIN;

/// Bytes of payload under one checksum.
pub const CHECKSUM_BLOCK: usize = 4096;

/// Identifies a segment file; never given to another, even when the file is recycled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u64);

/// A position in a segment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Which segment.
    pub segment: SegmentId,
    /// Bytes from its beginning.
    pub position: u32,
}

impl Place {
    /// The place `bytes` further on in the same segment.
    #[must_use]
    pub fn advanced(self, bytes: u32) -> Self {
        Place { segment: self.segment, position: self.position.saturating_add(bytes) }
    }
}

/// The crc32c of each [`CHECKSUM_BLOCK`] of a stored payload, in order; the last block may be short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// One block, the common case of small writes: no allocation.
    One(u32),
    /// Several blocks, shared by every extent of the payload.
    Many(Arc<[u32]>),
}

impl Checksums {
    /// Computes those of a payload.
    pub fn of(payload: &[u8]) -> Self {
        if payload.len() <= CHECKSUM_BLOCK {
            return Checksums::One(crate::checksum::crc32c(payload));
        }
        Checksums::Many(payload.chunks(CHECKSUM_BLOCK).map(crate::checksum::crc32c).collect())
    }

    /// All of them.
    pub fn as_slice(&self) -> &[u32] {
        match self {
            Checksums::One(checksum) => core::slice::from_ref(checksum),
            Checksums::Many(checksums) => checksums,
        }
    }

    /// Those of `blocks`, for a part of the payload.
    pub fn part(&self, blocks: core::ops::Range<usize>) -> Self {
        match self.as_slice().get(blocks) {
            Some(all) if all.len() == self.as_slice().len() => self.clone(),
            Some([one]) => Checksums::One(*one),
            Some(some) => Checksums::Many(some.into()),
            None => Checksums::Many([].into()),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for checksum in self.as_slice() {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>, stored: u32) -> Result<Self, Malformed> {
        let count = (stored as usize).div_ceil(CHECKSUM_BLOCK);
        let bytes = reader.bytes(count * 4)?;
        let mut checksums = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        if count == 1 {
            return Ok(Checksums::One(checksums.next().unwrap_or_default()));
        }
        Ok(Checksums::Many(checksums.collect()))
    }
}

/// A run of bytes in a leaf, and the payload that holds them; or a hole, which hides what was there and has no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte, counted from the leaf's.
    pub start: u32,
    /// How many bytes, at least 1; `start + len` is at most [`LEAF_SPAN`].
    pub len: u32,
    /// The transaction that wrote them.
    pub number: Number,
    /// Where the stored bytes begin, at a checksum block of the payload.
    pub place: Place,
    /// Stored bytes before the first that counts; less than [`CHECKSUM_BLOCK`].
    pub skip: u32,
    /// Stored bytes under the checksums: at least `skip + len`; of a hole none.
    pub stored: u32,
    /// Of the stored bytes.
    pub checksums: Checksums,
}

impl Extent {
    /// A hole.
    pub fn hole(start: u32, len: u32, number: Number) -> Self {
        let checksums = Checksums::Many([].into());
        Extent { start, len, number, place: Place::default(), skip: 0, stored: 0, checksums }
    }

    /// Whether nothing is there: its bytes are zeros.
    pub fn is_hole(&self) -> bool {
        self.stored == 0
    }

    /// One past the last byte, counted from the leaf's first.
    pub fn end(&self) -> u32 {
        self.start + self.len
    }

    /// Whether it holds any byte of `start..end`.
    pub fn overlaps(&self, start: u32, end: u32) -> bool {
        self.start < end && start < self.end()
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.start));
        write_varint(out, u64::from(self.len));
        write_varint(out, self.number.to_u64());
        write_varint(out, self.place.segment.0);
        write_varint(out, u64::from(self.place.position));
        write_varint(out, u64::from(self.skip));
        write_varint(out, u64::from(self.stored));
        self.checksums.encode(out);
    }

    /// Reads one back and checks that it lies within a leaf and within its payload.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (start, len) = (reader.varint_u32()?, reader.varint_u32()?);
        let number = Number::from_u64(reader.varint()?);
        let place = Place { segment: SegmentId(reader.varint()?), position: reader.varint_u32()? };
        let (skip, stored) = (reader.varint_u32()?, reader.varint_u32()?);
        if len == 0 || u64::from(start) + u64::from(len) > LEAF_SPAN {
            return Err(Malformed("an extent does not lie within its leaf"));
        }
        let is_hole = stored == 0 && skip == 0 && place == Place::default();
        let is_within =
            (skip as usize) < CHECKSUM_BLOCK && u64::from(skip) + u64::from(len) <= u64::from(stored);
        if !is_hole && !is_within {
            return Err(Malformed("an extent does not lie within its payload"));
        }
        if u64::from(stored) > LEAF_SPAN + 2 * CHECKSUM_BLOCK as u64 {
            return Err(Malformed("an extent refers to more payload than it can use"));
        }
        let checksums = Checksums::decode(reader, stored)?;
        Ok(Extent { start, len, number, place, skip, stored, checksums })
    }
}

/// The extents of one leaf and how far the log has been applied to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// The last transaction that changed it; the log's tail is replayed only beyond.
    pub applied: Number,
    /// Oldest first.
    pub extents: Vec<Extent>,
}

impl Leaf {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, self.applied.to_u64());
        encode_extents(&self.extents, out);
    }

    /// Reads one back.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Leaf { applied: Number::from_u64(reader.varint()?), extents: decode_extents(reader)? })
    }
}

pub(crate) fn encode_extents(extents: &[Extent], out: &mut Vec<u8>) {
    write_varint(out, extents.len() as u64);
    extents.iter().for_each(|extent| extent.encode(out));
}

pub(crate) fn decode_extents(reader: &mut Reader<'_>) -> Result<Vec<Extent>, Malformed> {
    /// An extent takes this many bytes at least, so a count that the bytes cannot hold allocates nothing.
    const EXTENT_SIZE_MIN: usize = 7;
    let count = reader.varint_usize()?;
    if count > reader.remaining() / EXTENT_SIZE_MIN {
        return Err(Malformed("there are fewer extents than announced"));
    }
    (0..count).map(|_| Extent::decode(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u32, len: u32) -> Extent {
        let payload = alloc::vec![7; len as usize];
        Extent {
            start,
            len,
            number: Number::first_of_epoch(1),
            place: Place { segment: SegmentId(3), position: 4096 },
            skip: 0,
            stored: len,
            checksums: Checksums::of(&payload),
        }
    }

    #[test]
    fn a_leaf_comes_back_as_it_was() {
        let leaf =
            Leaf { applied: Number::first_of_epoch(2), extents: [extent(0, 100), extent(50, 9000)].into() };
        let mut bytes = Vec::new();
        leaf.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Leaf::decode(&mut reader), Ok(leaf));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn extents_outside_of_leaf_or_payload_are_refused() {
        for bad in [
            Extent { len: 0, ..extent(0, 1) },
            Extent { start: 65_000, ..extent(0, 1000) },
            Extent { skip: 1, ..extent(0, 10) },
            Extent { skip: 4096, stored: 5000, ..extent(0, 10) },
        ] {
            let mut bytes = Vec::new();
            bad.encode(&mut bytes);
            assert!(Extent::decode(&mut Reader::new(&bytes)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_part_of_the_checksums_is_that_of_the_part() {
        let payload: Vec<u8> = (0..20_000u32).map(|i| i.to_le_bytes()[0]).collect();
        let whole = Checksums::of(&payload);
        assert_eq!(whole.part(1..3), Checksums::of(&payload[4096..3 * 4096]));
        assert_eq!(whole.part(4..5), Checksums::of(&payload[4 * 4096..]));
        assert_eq!(whole.part(0..5), whole);
    }
}
