//! Writing and reading bytes, with payload that is shared written once.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::ops::Range;

use tyr_wire::{Malformed, Reader, varint};

/// Appends values to bytes.
///
/// A value may hold one payload in many places: a promise has it in its plan and in the writes that came of it, and a chunk in all its
/// versions. It is written where it comes first, and later places refer to that.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    /// Which parts of which payload have been written, by address and start.
    written: BTreeMap<(usize, usize), Written>,
    count: u64,
}

#[derive(Debug)]
struct Written {
    end: usize,
    /// How many were written before.
    index: u64,
    /// Held so that no other payload gets its address.
    _payload: Arc<[u8]>,
}

/// Reads values off the front of bytes.
#[derive(Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    pieces: Vec<Arc<[u8]>>,
}

/// A payload this small is written wherever it is: to refer to it would save nothing.
const SHARED_MIN: usize = 16;

impl Encoder {
    /// Appends to these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Encoder { bytes, ..Encoder::default() }
    }

    /// All bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends one byte.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Appends a number: one byte below 128, ten at most.
    pub fn varint(&mut self, value: u64) {
        varint::write_varint(&mut self.bytes, value);
    }

    /// Appends these bytes, and not their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a whole payload, or a reference to where it was written whole before.
    pub fn payload(&mut self, payload: &Arc<[u8]>) {
        let known = self.find(payload, &(0..payload.len())).filter(|(found, _)| *found == (0..payload.len()));
        match known {
            Some((_, index)) => self.varint(index << 1 | 1),
            None => self.write(payload, 0..payload.len()),
        }
    }

    /// Appends a part of a payload, which [`Decoder::payload_part`] reads, or a reference to where it was written before. Of the rest
    /// nothing is written.
    pub fn payload_part(&mut self, payload: &Arc<[u8]>, part: &Range<usize>) {
        match self.find(payload, part) {
            Some((found, index)) => {
                self.varint(index << 1 | 1);
                self.varint((part.start - found.start) as u64);
                self.varint(part.len() as u64);
            }
            None => self.write(payload, part.clone()),
        }
    }

    /// A part that was written and contains this one.
    fn find(&self, payload: &Arc<[u8]>, part: &Range<usize>) -> Option<(Range<usize>, u64)> {
        let address = address(payload);
        let upto = self.written.range((address, 0)..=(address, part.start)).next_back();
        let ((_, start), written) = upto.filter(|_| part.len() >= SHARED_MIN)?;
        (part.end <= written.end).then_some((*start..written.end, written.index))
    }

    fn write(&mut self, payload: &Arc<[u8]>, part: Range<usize>) {
        self.varint((part.len() as u64) << 1);
        self.bytes(&payload[part.clone()]);
        if part.len() >= SHARED_MIN {
            let written = Written { end: part.end, index: self.count, _payload: payload.clone() };
            self.written.insert((address(payload), part.start), written);
            self.count += 1;
        }
    }
}

fn address(payload: &Arc<[u8]>) -> usize {
    Arc::as_ptr(payload).cast::<u8>().addr()
}

impl<'a> Decoder<'a> {
    /// Reads from the first of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes), pieces: Vec::new() }
    }

    /// Fails unless everything has been read.
    pub fn finish(self) -> Result<(), Malformed> {
        self.reader.finish()
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.reader.u8()
    }

    /// A number.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        self.reader.varint()
    }

    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        self.reader.bytes(count)
    }

    /// As many bytes as an array has.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.reader.array()
    }

    /// How many elements follow. Each takes at least one byte, so there are no more than bytes.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.reader.varint_usize()?;
        if count > self.reader.remaining() {
            return Err(Malformed("there are fewer elements than announced"));
        }
        Ok(count)
    }

    /// A whole payload.
    pub fn payload(&mut self) -> Result<Arc<[u8]>, Malformed> {
        self.piece().map(|(piece, _)| piece)
    }

    /// A payload, and the part of it that is meant.
    pub fn payload_part(&mut self) -> Result<(Arc<[u8]>, Range<usize>), Malformed> {
        let (piece, is_reference) = self.piece()?;
        if !is_reference {
            let whole = 0..piece.len();
            return Ok((piece, whole));
        }
        let (start, length) = (self.reader.varint_usize()?, self.reader.varint_usize()?);
        match start.checked_add(length) {
            Some(end) if length >= SHARED_MIN && end <= piece.len() => Ok((piece, start..end)),
            _ => Err(Malformed("a reference to payload is out of bounds")),
        }
    }

    /// Payload, and whether it was there before.
    fn piece(&mut self) -> Result<(Arc<[u8]>, bool), Malformed> {
        let size_or_index = self.reader.varint()?;
        let is_reference = size_or_index & 1 == 1;
        let Ok(size_or_index) = usize::try_from(size_or_index >> 1) else {
            return Err(Malformed("a payload is larger than memory"));
        };
        if is_reference {
            let known = self.pieces.get(size_or_index).cloned();
            return known.map(|piece| (piece, true)).ok_or(Malformed("a reference to payload goes nowhere"));
        }
        let piece: Arc<[u8]> = self.reader.bytes(size_or_index)?.into();
        if piece.len() >= SHARED_MIN {
            self.pieces.push(piece.clone());
        }
        Ok((piece, false))
    }
}
