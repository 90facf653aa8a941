//! Reading the frames of a log segment, in order.

use std::sync::Arc;

use tyr_env::{BLOCK_SIZE, Blocks};
use tyr_types::{Error, Result};
use tyr_wire::{
    extent::Place,
    frame::{self, FrameHeader, SEGMENT_HEADER_SIZE},
    record::Record,
};

use crate::{failure::disk_error, segment::Segment};

/// Walks over the frames of one segment until one is not valid in its place.
pub(crate) struct FrameScan {
    segment: Arc<Segment>,
    position: u64,
    /// The sequence that the next frame must have; 0 for any.
    sequence: u64,
    /// No frame may be of an epoch before that of the frame before it.
    epoch: u64,
    length: u64,
    window: Window,
    /// Bytes to read at once: few where large payload lies between the records.
    window_size: usize,
}

/// What comes next in a segment.
pub(crate) enum Scanned {
    Frame(Frame),
    /// No valid frame at [`FrameScan::position`].
    End,
}

/// A valid frame: its header and records.
pub(crate) struct Frame {
    pub(crate) header: FrameHeader,
    pub(crate) place: Place,
    bytes: Vec<u8>,
}

/// A part of the file in memory.
struct Window {
    start: u64,
    bytes: Blocks,
}

impl FrameScan {
    /// From the first frame on.
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        let sequence = segment.first_sequence();
        Self::from(segment, SEGMENT_HEADER_SIZE as u64, sequence, 0)
    }

    /// From a known frame on.
    pub(crate) fn from(segment: Arc<Segment>, position: u64, sequence: u64, epoch: u64) -> Self {
        let window = Window { start: 0, bytes: Blocks::default() };
        FrameScan { segment, position, sequence, epoch, length: 0, window, window_size: WINDOW_SIZE }
    }

    /// Where the next frame would begin.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The sequence that it would have.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The next frame.
    pub(crate) fn next(&mut self) -> Result<Scanned> {
        let Some((header, bytes)) = self.frame_at(self.position)? else { return Ok(Scanned::End) };
        if (self.sequence != 0 && header.sequence != self.sequence) || header.epoch < self.epoch {
            return Ok(Scanned::End);
        }
        let position =
            u32::try_from(self.position).map_err(|_| Error::internal("a segment is larger than 4 GiB"))?;
        let place = Place { segment: self.segment.id, position };
        self.position += u64::from(header.frame_end);
        let is_sparse = (header.frame_end - header.records_end) as usize > WINDOW_SIZE / 2;
        self.window_size = if is_sparse { SPARSE_WINDOW_SIZE } else { WINDOW_SIZE };
        self.sequence = header.sequence + 1;
        self.epoch = header.epoch;
        Ok(Scanned::Frame(Frame { header, place, bytes }))
    }

    /// Fails unless everything before `end` was frames.
    pub(crate) fn check_end(&self, end: u64) -> Result<()> {
        if self.position >= end {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the frame at position {} of {} is damaged; run a check and restore what it names from a copy",
            self.position,
            self.segment.name()
        )))
    }

    /// Looks at every block from here on for a frame that `is_proof`.
    pub(crate) fn any_later(&mut self, is_proof: impl Fn(&FrameHeader) -> bool) -> Result<bool> {
        let mut position = self.position;
        while position < self.length()? {
            if let Some((header, _)) = self.frame_at(position)?
                && is_proof(&header)
            {
                return Ok(true);
            }
            position += BLOCK_SIZE as u64;
        }
        Ok(false)
    }

    fn length(&mut self) -> Result<u64> {
        if self.length == 0 {
            let length = self.segment.file.length();
            let length =
                length.map_err(|error| disk_error(&format!("reading {}", self.segment.name()), &error))?;
            self.length = length - length % BLOCK_SIZE as u64;
        }
        Ok(self.length)
    }

    /// The frame at a position, if it is whole and was written for this segment.
    fn frame_at(&mut self, position: u64) -> Result<Option<(FrameHeader, Vec<u8>)>> {
        let length = self.length()?;
        if position + BLOCK_SIZE as u64 > length {
            return Ok(None);
        }
        let Some(header) = FrameHeader::peek(self.bytes(position, BLOCK_SIZE)?) else { return Ok(None) };
        let fits = position + u64::from(header.frame_end) <= length;
        if header.segment != self.segment.id || header.mark != self.segment.mark() || !fits {
            return Ok(None);
        }
        let records = self.bytes(position, header.records_end as usize)?;
        Ok(header.verify(records).then(|| (header.clone(), records.to_vec())))
    }

    fn bytes(&mut self, position: u64, len: usize) -> Result<&[u8]> {
        let held = self.window.start..self.window.start + self.window.bytes.len() as u64;
        if position < held.start || position + len as u64 > held.end {
            let rest = usize::try_from(self.length()? - position).unwrap_or(usize::MAX);
            self.window.bytes.resize(self.window_size.max(len).min(rest));
            let read = self.segment.file.read_at(position, self.window.bytes.as_bytes_mut());
            read.map_err(|error| disk_error(&format!("reading {}", self.segment.name()), &error))?;
            self.window.start = position;
        }
        let start = usize::try_from(position - self.window.start).expect("within the window");
        Ok(&self.window.bytes.as_bytes()[start..start + len])
    }
}

impl Frame {
    /// Its records, each with the position of its inline payload in the segment.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<(u32, Record)>> + '_ {
        frame::records(&self.header, &self.bytes).map(|raw| {
            let raw = raw?;
            let start = self.place.position + u32::try_from(raw.inline_start).unwrap_or(u32::MAX);
            Ok((start, Record::decode(raw.body)?))
        })
    }
}

const WINDOW_SIZE: usize = 256 << 10;
const SPARSE_WINDOW_SIZE: usize = 16 << 10;
