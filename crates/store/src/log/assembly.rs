//! Records on their way to the disk: laid out in frames, frames in chunks of a segment.
//!
//! A record's places are known as soon as it is appended, because a frame's records grow from its front and its large payload from a block
//! boundary that is fixed when the first such payload comes. A record that does not fit ends the frame.

use std::sync::Arc;

use tyr_env::{BLOCK_SIZE, Blocks, Write};
use tyr_types::{Error, Number, Result};
use tyr_wire::{
    extent::Place,
    frame::{
        FRAME_HEADER_SIZE, FrameHeader, RECORD_HEADER_SIZE, SEGMENT_HEADER_SIZE, SegmentHeader, SegmentKind,
    },
};

use super::LogPosition;
use crate::{
    payload::Payload,
    segment::{Segment, Segments},
};

/// A record to be appended: its payloads, and its body as a function of their places.
pub struct Draft<'a> {
    /// Each is stored once, in the order given.
    pub payloads: &'a [&'a Payload],
    /// Appends the body to the buffer. Its size may depend on the places only through varints of them.
    pub body: &'a dyn Fn(&[Place], &mut Vec<u8>),
}

/// Where and how the log continues.
pub struct Origin {
    /// The store's identity, for segment headers.
    pub store: [u8; 16],
    /// The number of this opening.
    pub epoch: u64,
    /// The segment being filled.
    pub segment: Arc<Segment>,
    /// Where the next frame begins in it; 0 if it is new.
    pub position: u32,
    /// The next frame's sequence.
    pub sequence: u64,
}

/// The frames and bulk payload that the next batch will write.
pub(super) struct Assembly {
    segments: Arc<Segments>,
    store: [u8; 16],
    epoch: u64,
    sequence: u64,
    settled: u64,
    /// Frames of the segment being filled, the last of them open.
    open: FrameChunk,
    frame: OpenFrame,
    /// Frames of segments that are full, and bulk payload.
    ready: Vec<Chunk>,
    /// Bytes of ready chunks and of payload attached to the open frame.
    queued: usize,
    /// Buffers of former batches.
    spare: Vec<Blocks>,
    body: Vec<u8>,
}

/// The frame being filled, by offsets from its first byte.
#[derive(Default)]
struct OpenFrame {
    /// Where it begins in the chunk.
    start: usize,
    /// Where the next record goes; 0 if there is no record yet.
    records_end: usize,
    /// Where large payload begins, once there is some.
    payload_start: Option<usize>,
    payload_end: usize,
    /// The large payload, which is written from where it is, without a copy.
    attached: Vec<Chunk>,
    last: Number,
}

/// Contiguous bytes for a segment.
pub(super) enum Chunk {
    Frames(FrameChunk),
    Payload { segment: Arc<Segment>, position: u32, payload: Payload },
}

pub(super) struct FrameChunk {
    segment: Arc<Segment>,
    position: u32,
    bytes: Blocks,
}

impl Assembly {
    pub(super) fn new(segments: Arc<Segments>, origin: Origin) -> Self {
        let mut assembly = Assembly {
            segments,
            store: origin.store,
            epoch: origin.epoch,
            sequence: origin.sequence,
            settled: origin.sequence - 1,
            open: FrameChunk { segment: origin.segment, position: origin.position, bytes: Blocks::default() },
            frame: OpenFrame::default(),
            ready: Vec::new(),
            queued: 0,
            spare: Vec::new(),
            body: Vec::new(),
        };
        if origin.position == 0 {
            assembly.write_log_header();
        }
        assembly
    }

    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.open.segment
    }

    pub(super) fn settle(&mut self, sequence: u64) {
        self.settled = self.settled.max(sequence);
    }

    /// Puts an empty frame in front of all others of this opening. Fails with `full` if there is no space.
    pub(super) fn begin(&mut self, last: Number) -> Result<()> {
        let position = self.open.position as usize + self.frame.start;
        if position + BLOCK_SIZE > self.segments.capacity() as usize {
            self.roll()?;
        }
        self.frame.records_end = FRAME_HEADER_SIZE;
        self.frame.last = last;
        self.end_frame();
        Ok(())
    }

    pub(super) fn append(&mut self, draft: &Draft<'_>, number: Number) -> Result<Vec<Place>> {
        loop {
            if let Some(places) = self.try_append(draft, number) {
                return Ok(places);
            }
            let is_fresh = self.open.position as usize + self.frame.start <= SEGMENT_HEADER_SIZE;
            if self.frame.records_end > 0 {
                self.end_frame();
            } else if is_fresh || !self.fits_a_segment(draft) {
                return Err(Error::invalid(format!(
                    "the transaction is too large: it does not fit a segment of {} bytes; commit in several parts, or write it in larger pieces",
                    self.segments.capacity()
                )));
            } else {
                self.roll()?;
            }
        }
    }

    /// Whether a record fits a segment of its own.
    fn fits_a_segment(&mut self, draft: &Draft<'_>) -> bool {
        self.encode_body(draft, &vec![Place::default(); draft.payloads.len()]);
        let payload: usize =
            draft.payloads.iter().map(|payload| payload.blocks().map_or(payload.len(), <[u8]>::len)).sum();
        let records =
            FRAME_HEADER_SIZE + RECORD_HEADER_SIZE + self.body.len() + PLACE_SIZE_MAX * draft.payloads.len();
        let slack = SEGMENT_HEADER_SIZE + RECORDS_SLACK + 2 * BLOCK_SIZE;
        records + payload + slack <= self.segments.capacity() as usize
    }

    /// Appends to the open frame, or says that it does not fit.
    fn try_append(&mut self, draft: &Draft<'_>, number: Number) -> Option<Vec<Place>> {
        let (mut inline, mut aligned) = (0, 0);
        for payload in draft.payloads {
            match payload.blocks() {
                Some(blocks) => aligned += blocks.len(),
                None => inline += payload.len(),
            }
        }
        let record = self.frame.records_end.max(FRAME_HEADER_SIZE);
        let dummy = vec![Place::default(); draft.payloads.len()];
        self.encode_body(draft, &dummy);
        let bound = RECORD_HEADER_SIZE + inline + self.body.len() + PLACE_SIZE_MAX * dummy.len();
        let payload_start = match self.frame.payload_start {
            Some(start) => start,
            None if aligned > 0 => (record + bound + RECORDS_SLACK).next_multiple_of(BLOCK_SIZE),
            None => usize::MAX,
        };
        let payload_end = self.frame.payload_end.max(if aligned > 0 { payload_start } else { 0 }) + aligned;
        let end = payload_end.max(record + bound).next_multiple_of(BLOCK_SIZE);
        let base = self.open.position as usize + self.frame.start;
        if record + bound > payload_start
            || base + end > self.segments.capacity() as usize
            || end > FRAME_SIZE_MAX.max(bound + aligned + 2 * BLOCK_SIZE)
        {
            return None;
        }
        let places = self.place(draft, record + RECORD_HEADER_SIZE, payload_end - aligned);
        self.encode_body(draft, &places);
        if aligned > 0 {
            self.frame.payload_start = Some(payload_start);
            self.frame.payload_end = payload_end;
        }
        self.copy_record(draft, record, inline);
        self.attach(draft, &places);
        self.frame.last = number.max(self.frame.last);
        Some(places)
    }

    fn encode_body(&mut self, draft: &Draft<'_>, places: &[Place]) {
        self.body.clear();
        (draft.body)(places, &mut self.body);
    }

    /// Absolute places for the payloads: small ones from `inline`, large ones from `aligned`, both offsets in the frame.
    fn place(&self, draft: &Draft<'_>, mut inline: usize, mut aligned: usize) -> Vec<Place> {
        let base = self.open.position as usize + self.frame.start;
        let mut places = Vec::with_capacity(draft.payloads.len());
        for payload in draft.payloads {
            let (offset, size) = match payload.blocks() {
                Some(blocks) => (&mut aligned, blocks.len()),
                None => (&mut inline, payload.len()),
            };
            let position = u32::try_from(base + *offset).expect("a segment's positions fit 32 bits");
            places.push(Place { segment: self.open.segment.id, position });
            *offset += size;
        }
        places
    }

    fn copy_record(&mut self, draft: &Draft<'_>, record: usize, inline: usize) {
        let start = self.frame.start;
        let end = record + RECORD_HEADER_SIZE + inline + self.body.len();
        if self.open.bytes.len() < start + end {
            self.open.bytes.resize(start + end);
        }
        let frame = &mut self.open.bytes.as_bytes_mut()[start..];
        let size = |len: usize| u32::try_from(len).expect("a record fits a segment").to_le_bytes();
        frame[record..record + 4].copy_from_slice(&size(inline));
        frame[record + 4..record + 8].copy_from_slice(&size(self.body.len()));
        let mut at = record + RECORD_HEADER_SIZE;
        let small = draft.payloads.iter().filter(|payload| payload.blocks().is_none());
        for bytes in small.filter_map(|payload| payload.bytes()).chain([self.body.as_slice()]) {
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        self.frame.records_end = end;
    }

    fn attach(&mut self, draft: &Draft<'_>, places: &[Place]) {
        self.queued +=
            draft.payloads.iter().filter_map(|payload| payload.blocks()).map(<[u8]>::len).sum::<usize>();
        let large = draft.payloads.iter().zip(places).filter(|(payload, _)| payload.blocks().is_some());
        self.frame.attached.extend(large.map(|(payload, place)| Chunk::Payload {
            segment: self.open.segment.clone(),
            position: place.position,
            payload: Payload::clone(payload),
        }));
    }

    /// Seals the open frame, if it has a record, and returns where the next one begins.
    pub(super) fn end_frame(&mut self) -> LogPosition {
        if self.frame.records_end > 0 {
            let end = self.frame.payload_end.max(self.frame.records_end).next_multiple_of(BLOCK_SIZE);
            let size = |bytes: usize| u32::try_from(bytes).expect("a frame fits a segment");
            let header = FrameHeader {
                segment: self.open.segment.id,
                sequence: self.sequence,
                settled: self.settled,
                epoch: self.epoch,
                last: self.frame.last,
                records_end: size(self.frame.records_end),
                frame_end: size(end),
                mark: self.open.segment.mark(),
            };
            let start = self.frame.start;
            self.open.bytes.resize(start + self.frame.payload_start.unwrap_or(end));
            header.seal(&mut self.open.bytes.as_bytes_mut()[start..]);
            self.sequence += 1;
            let frame = std::mem::take(&mut self.frame);
            self.frame.start = start + end;
            if !frame.attached.is_empty() {
                self.detach(start + end);
                self.ready.extend(frame.attached);
            }
            self.open.segment.fill_to(u64::from(self.open.position) + self.frame.start as u64);
        }
        let position = self.open.position + u32::try_from(self.frame.start).expect("positions fit 32 bits");
        LogPosition { place: Place { segment: self.open.segment.id, position }, sequence: self.sequence }
    }

    /// Begins a new chunk `distance` bytes behind the beginning of the open one, which is ready.
    fn detach(&mut self, distance: usize) {
        let position = self.open.position + u32::try_from(distance).expect("positions fit 32 bits");
        let bytes = self.spare.pop().unwrap_or_default();
        let next = FrameChunk { segment: self.open.segment.clone(), position, bytes };
        self.queued += self.open.bytes.len();
        self.ready.push(Chunk::Frames(std::mem::replace(&mut self.open, next)));
        self.frame.start = 0;
    }

    /// Goes on in another segment. The open frame is empty.
    fn roll(&mut self) -> Result<()> {
        let segment = self.segments.take(SegmentKind::Log)?;
        let bytes = self.spare.pop().unwrap_or_default();
        let full = std::mem::replace(&mut self.open, FrameChunk { segment, position: 0, bytes });
        if !full.bytes.is_empty() {
            self.queued += full.bytes.len();
            self.ready.push(Chunk::Frames(full));
        }
        self.write_log_header();
        Ok(())
    }

    fn write_log_header(&mut self) {
        self.open.segment.begin_at(self.sequence, SegmentHeader::mark_of(&self.store));
        let header = self.segment_header(&self.open.segment, self.sequence);
        self.open.bytes.resize(SEGMENT_HEADER_SIZE);
        self.open.bytes.as_bytes_mut()[..SEGMENT_HEADER_SIZE].copy_from_slice(&header);
        self.open.segment.fill_to(SEGMENT_HEADER_SIZE as u64);
        self.frame = OpenFrame { start: SEGMENT_HEADER_SIZE, ..OpenFrame::default() };
    }

    fn segment_header(&self, segment: &Segment, first_sequence: u64) -> Vec<u8> {
        let (segment, kind, mark) = (segment.id, segment.kind, segment.mark());
        SegmentHeader { store: self.store, segment, kind, first_sequence, mark }.encode()
    }

    /// Queues the header of a new bulk segment; returns where payload may begin.
    pub(super) fn write_bulk_header(&mut self, segment: &Arc<Segment>) -> u32 {
        let mut bytes = Blocks::zeroed(SEGMENT_HEADER_SIZE);
        bytes.as_bytes_mut().copy_from_slice(&self.segment_header(segment, 0));
        self.queued += bytes.len();
        self.ready.push(Chunk::Frames(FrameChunk { segment: segment.clone(), position: 0, bytes }));
        u32::try_from(SEGMENT_HEADER_SIZE).expect("a constant")
    }

    pub(super) fn push_bulk(&mut self, segment: Arc<Segment>, position: u32, payload: Payload) {
        self.queued += payload.len();
        self.ready.push(Chunk::Payload { segment, position, payload });
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.open.bytes.len() + self.queued
    }

    /// Whether the segment being filled is at least half full.
    pub(super) fn is_half_full(&self) -> bool {
        2 * (u64::from(self.open.position) + self.frame.start as u64) >= u64::from(self.segments.capacity())
    }

    /// Everything that waits to be written.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.ready.iter().chain(&self.frame.attached)
    }

    /// Whether bytes of the open frames cover the place; copies them if so.
    pub(super) fn copy_open(&self, place: Place, buffer: &mut [u8]) -> bool {
        self.open.copy_to(place, buffer)
    }

    /// Takes all there is to write. The open frame has been ended.
    pub(super) fn take_chunks(&mut self) -> Vec<Chunk> {
        if !self.open.bytes.is_empty() {
            self.detach(self.open.bytes.len());
        }
        self.queued = 0;
        std::mem::take(&mut self.ready)
    }

    /// Keeps the buffers of written chunks for later ones.
    pub(super) fn reuse(&mut self, chunks: Vec<Chunk>) {
        for chunk in chunks {
            if let Chunk::Frames(mut frames) = chunk
                && self.spare.len() < SPARE_BUFFERS
            {
                frames.bytes.clear();
                self.spare.push(frames.bytes);
            }
        }
    }
}

impl Chunk {
    pub(super) fn segment(&self) -> &Arc<Segment> {
        match self {
            Chunk::Frames(frames) => &frames.segment,
            Chunk::Payload { segment, .. } => segment,
        }
    }

    pub(super) fn as_write(&self) -> Write<'_> {
        match self {
            Chunk::Frames(frames) => Write {
                file: &*frames.segment.file,
                position: u64::from(frames.position),
                bytes: frames.bytes.as_bytes(),
            },
            Chunk::Payload { segment, position, payload } => Write {
                file: &*segment.file,
                position: u64::from(*position),
                bytes: payload.blocks().unwrap_or_default(),
            },
        }
    }

    /// Copies the bytes at `place` if they are all here.
    pub(super) fn copy_to(&self, place: Place, buffer: &mut [u8]) -> bool {
        match self {
            Chunk::Frames(frames) => frames.copy_to(place, buffer),
            Chunk::Payload { segment, position, payload } => {
                copy(segment, *position, payload.blocks().unwrap_or_default(), place, buffer)
            }
        }
    }
}

impl FrameChunk {
    fn copy_to(&self, place: Place, buffer: &mut [u8]) -> bool {
        copy(&self.segment, self.position, self.bytes.as_bytes(), place, buffer)
    }
}

fn copy(segment: &Segment, position: u32, bytes: &[u8], place: Place, buffer: &mut [u8]) -> bool {
    if segment.id != place.segment || place.position < position {
        return false;
    }
    let start = (place.position - position) as usize;
    let source = bytes.get(start..start + buffer.len());
    source.iter().for_each(|source| buffer.copy_from_slice(source));
    source.is_some()
}

/// A frame is ended when it is this large, which bounds what a replay must hold in memory; a larger record has a frame to itself.
const FRAME_SIZE_MAX: usize = 1 << 20;

/// Room for records behind the one that brings the first large payload: some twenty small ones. Without it each such record would end
/// a frame and cost a block.
const RECORDS_SLACK: usize = 2048;

/// A place's varints: segment at most 10 bytes, position at most 5.
const PLACE_SIZE_MAX: usize = 15;

const SPARE_BUFFERS: usize = 4;
