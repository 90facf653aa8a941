//! Frames: what the log writes at once.
//!
//! A segment is a header block followed by frames. A frame begins at a block boundary with a [`FrameHeader`]; its records follow, each with
//! its small payload in front of its body; large payload of the frame's records follows from a block boundary on:
//!
//! ```text
//! | header | record | record | ... zeros | payload, 4096-aligned ... | payload ... zeros |
//! record = | inline: u32 | body: u32 | inline payload bytes | body bytes |
//! ```
//!
//! The frame's checksum covers its header and records; large payload has checksums of its own, in the records. A frame
//! is valid only in its place: it names its segment, its position in the log, and the epoch of its writer, and has the mark of its segment's
//! header, which nobody knows who only writes payload. So nothing that a recycled file held before is taken for one, payload that looks like
//! frames included.

use alloc::vec::Vec;

use tyr_types::{KeyspaceId, Number};

use crate::{
    extent::SegmentId,
    varint::{Malformed, Reader},
};

/// Bytes of a frame's header.
pub const FRAME_HEADER_SIZE: usize = 64;

/// Bytes of a record's header.
pub const RECORD_HEADER_SIZE: usize = 8;

/// Bytes of a segment's header; frames or payload follow.
pub const SEGMENT_HEADER_SIZE: usize = 4096;

/// The version of everything a store writes but its tables. A store of a later version is refused, one of an earlier one is read: since 2 the log's
/// frames have marks.
pub const FORMAT_VERSION: u32 = 2;

const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"TyrF");
const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"TyrSegmt");

/// The beginning of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The segment that the frame is in.
    pub segment: SegmentId,
    /// The frame's position in the log, counted from 1 without a gap.
    pub sequence: u64,
    /// Every frame up to this one was durable when this one was written; only later ones may be torn.
    pub settled: u64,
    /// The opening of the store that wrote it; see [`Number::epoch`].
    pub epoch: u64,
    /// The last transaction that had been numbered.
    pub last: Number,
    /// Bytes of header and records.
    pub records_end: u32,
    /// Bytes of the frame, whole blocks.
    pub frame_end: u32,
    /// The [mark](SegmentHeader::mark) of the segment.
    pub mark: u64,
}

impl FrameHeader {
    /// Writes the header and the checksum in front of `frame`, which holds the records already.
    pub fn seal(&self, frame: &mut [u8]) {
        let mut header = Vec::with_capacity(FRAME_HEADER_SIZE);
        header.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        for word in [self.segment.0, self.sequence, self.settled, self.epoch, self.last.to_u64()] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&self.records_end.to_le_bytes());
        header.extend_from_slice(&self.frame_end.to_le_bytes());
        header.extend_from_slice(&self.mark.to_le_bytes());
        frame[..FRAME_HEADER_SIZE].copy_from_slice(&header);
        let checksum = crate::checksum::crc32c(&frame[8..self.records_end as usize]);
        frame[4..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads the header alone; its checksum, which covers the records too, is not verified yet.
    /// `None` if these bytes are no frame's header.
    pub fn peek(block: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(block);
        if reader.u32().ok()? != FRAME_MAGIC {
            return None;
        }
        reader.u32().ok()?;
        let header = FrameHeader {
            segment: SegmentId(reader.u64().ok()?),
            sequence: reader.u64().ok()?,
            settled: reader.u64().ok()?,
            epoch: reader.u64().ok()?,
            last: Number::from_u64(reader.u64().ok()?),
            records_end: reader.u32().ok()?,
            frame_end: reader.u32().ok()?,
            mark: reader.u64().ok()?,
        };
        let sound = header.records_end as usize >= FRAME_HEADER_SIZE
            && header.records_end <= header.frame_end
            && header.frame_end.is_multiple_of(4096);
        sound.then_some(header)
    }

    /// Whether `frame`, which has at least `records_end` bytes, has the checksum that it was sealed with.
    pub fn verify(&self, frame: &[u8]) -> bool {
        let (Some(stored), Some(covered)) = (frame.get(4..8), frame.get(8..self.records_end as usize)) else {
            return false;
        };
        stored == crate::checksum::crc32c(covered).to_le_bytes()
    }
}

/// One record of a frame: where its inline payload begins within the frame, and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Bytes before its inline payload, from the frame's first.
    pub inline_start: usize,
    /// The inline payload.
    pub inline: &'a [u8],
    /// The encoded [`crate::record::Record`].
    pub body: &'a [u8],
}

/// Cuts the records of a verified frame apart. `frame` holds at least `records_end` bytes.
pub fn records<'a>(
    header: &FrameHeader,
    frame: &'a [u8],
) -> impl Iterator<Item = Result<RawRecord<'a>, Malformed>> + 'a {
    let area = frame.get(..header.records_end as usize).unwrap_or_default();
    let mut reader = Reader::new(area.get(FRAME_HEADER_SIZE..).unwrap_or_default());
    let total = area.len();
    core::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let mut next = || {
            let (inline, body) = (reader.u32()? as usize, reader.u32()? as usize);
            let inline_start = total - reader.remaining();
            Ok(RawRecord { inline_start, inline: reader.bytes(inline)?, body: reader.bytes(body)? })
        };
        let record = next();
        if record.is_err() {
            reader = Reader::new(&[]);
        }
        Some(record)
    })
}

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// Frames of the log.
    Log,
    /// Bulk payload of one keyspace.
    Bulk(KeyspaceId),
}

/// The first block of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store that it belongs to.
    pub store: [u8; 16],
    /// Its identity.
    pub segment: SegmentId,
    /// What it holds.
    pub kind: SegmentKind,
    /// The sequence of its first frame; 0 in a bulk segment.
    pub first_sequence: u64,
    /// What its frames have to be taken for such; 0 in a bulk segment, and in one of an early build.
    pub mark: u64,
}

impl SegmentHeader {
    /// The block, of [`SEGMENT_HEADER_SIZE`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(SEGMENT_HEADER_SIZE);
        block.extend_from_slice(&SEGMENT_MAGIC.to_le_bytes());
        block.extend_from_slice(&[0; 4]);
        block.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        block.extend_from_slice(&self.store);
        block.extend_from_slice(&self.segment.0.to_le_bytes());
        block.extend_from_slice(&self.first_sequence.to_le_bytes());
        let keyspace = match self.kind {
            SegmentKind::Log => u64::MAX,
            SegmentKind::Bulk(keyspace) => u64::from(keyspace.0),
        };
        block.extend_from_slice(&keyspace.to_le_bytes());
        block.extend_from_slice(&self.mark.to_le_bytes());
        block.resize(SEGMENT_HEADER_SIZE, 0);
        let checksum = crate::checksum::crc32c(&block[12..]);
        block[8..12].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// Reads one back. `None` if the block is no segment's header, or a damaged one, or of another version.
    pub fn decode(block: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(block.get(..SEGMENT_HEADER_SIZE)?);
        if reader.u64().ok()? != SEGMENT_MAGIC
            || reader.u32().ok()? != crate::checksum::crc32c(&block[12..SEGMENT_HEADER_SIZE])
        {
            return None;
        }
        if !(1..=FORMAT_VERSION).contains(&reader.u32().ok()?) {
            return None;
        }
        let store = reader.array().ok()?;
        let (segment, first_sequence) = (SegmentId(reader.u64().ok()?), reader.u64().ok()?);
        let kind = match reader.u64().ok()? {
            u64::MAX => SegmentKind::Log,
            keyspace => SegmentKind::Bulk(KeyspaceId(u32::try_from(keyspace).ok()?)),
        };
        let mark = reader.u64().ok()?;
        Some(SegmentHeader { store, segment, kind, first_sequence, mark })
    }

    /// The mark of the log segments of a store: a part of its random identity, which whoever may read its files knows.
    pub fn mark_of(store: &[u8; 16]) -> u64 {
        let (mark, _) = store.split_first_chunk().expect("there are sixteen");
        u64::from_le_bytes(*mark)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn sealed() -> (FrameHeader, Vec<u8>) {
        let mut frame = vec![0; 4096];
        let record = [&2u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"in", b"bod"].concat();
        frame[64..64 + record.len()].copy_from_slice(&record);
        let header = FrameHeader {
            segment: SegmentId(5),
            sequence: 9,
            settled: 8,
            epoch: 2,
            last: Number::first_of_epoch(2),
            records_end: 64 + 13,
            frame_end: 4096,
            mark: 77,
        };
        header.seal(&mut frame);
        (header, frame)
    }

    #[test]
    fn a_sealed_frame_is_read_back() {
        let (header, frame) = sealed();
        assert_eq!(FrameHeader::peek(&frame), Some(header.clone()));
        assert!(header.verify(&frame));
        let all: Vec<_> = records(&header, &frame).collect();
        assert_eq!(all, [Ok(RawRecord { inline_start: 72, inline: b"in", body: b"bod" })]);
    }

    #[test]
    fn every_flipped_bit_of_header_and_records_is_found() {
        let (header, frame) = sealed();
        for bit in 0..header.records_end as usize * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let accepted = FrameHeader::peek(&damaged)
                .is_some_and(|peeked| peeked.frame_end == 4096 && peeked.verify(&damaged));
            assert!(!accepted, "bit {bit}");
        }
    }

    #[test]
    fn records_that_end_early_are_refused() {
        let (mut header, frame) = sealed();
        header.records_end -= 1;
        assert!(records(&header, &frame).any(|record| record.is_err()));
    }

    #[test]
    fn a_segment_header_comes_back_and_every_flipped_bit_is_found() {
        for kind in [SegmentKind::Log, SegmentKind::Bulk(KeyspaceId(3))] {
            let header =
                SegmentHeader { store: [7; 16], segment: SegmentId(1), kind, first_sequence: 4, mark: 9 };
            let block = header.encode();
            assert_eq!(SegmentHeader::decode(&block), Some(header));
            for bit in 0..100 * 8 {
                let mut damaged = block.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(SegmentHeader::decode(&damaged), None, "bit {bit}");
            }
        }
    }
}
