//! Writing and reading bytes, with payload that is shared written once.

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tyr_wire::{Malformed, Reader, connection::Inset, shared::SharedBytes, varint};

use crate::Payload;

/// Appends values to bytes.
///
/// A value may hold one payload in many places: a promise has it in its plan and in the writes that came of it, and a chunk in all its
/// versions. It is written where it comes first, and later places refer to that.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    /// How many bytes there were before.
    start: usize,
    /// Which parts of which payload have been written, by address and start.
    written: BTreeMap<(usize, usize), Written>,
    count: u64,
    /// Payload of this size and more is left out.
    keep_min: Option<usize>,
    kept: Vec<Payload>,
    /// Large parts of payload that were not copied, if they need not be.
    insets: Option<Vec<Inset>>,
    is_lost: bool,
}

#[derive(Debug)]
struct Written {
    end: usize,
    /// How many were written before.
    index: u64,
    /// Held so that nothing else gets its address.
    _held: Held,
}

/// What may come again.
#[derive(Clone, Debug)]
enum Held {
    Bytes(Arc<[u8]>),
    Payload(Payload),
}

/// Reads values off the front of bytes.
#[derive(Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    pieces: Vec<Held>,
    /// Payload that was left out, in the order in which it came first.
    kept: VecDeque<Payload>,
    hold: Option<Hold>,
    /// The memory that values in collections may take still.
    room: usize,
}

/// Copies payload to where it is wanted, if it is to be anywhere in particular.
pub type Hold = fn(&[u8]) -> Option<SharedBytes>;

/// A payload this small is written wherever it is: to refer to it would save nothing.
const SHARED_MIN: usize = 16;
/// Payload of this size and more is not copied into a frame: a further piece for the kernel costs as much as a copy of some kilobytes.
const INSET_MIN: usize = 16 << 10;
/// More memory than this, beside that of payload, is taken by no request that a client makes: its transactions have 256 Ki things at most.
const ROOM_MIN: usize = 32 << 20;
/// So few values of a collection take about as much room as the collection itself, which is one of another or none.
const FEW: usize = 2;
/// As much room as this is made behind bytes that need more than there is.
const SLACK: usize = 512;

impl Encoder {
    /// Appends to these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Encoder { start: bytes.len(), bytes, ..Encoder::default() }
    }

    /// Appends to these bytes, and leaves out payload of a size and more: whoever reads needs it beside the bytes.
    pub fn keeping(bytes: Vec<u8>, keep_min: usize) -> Self {
        Encoder { keep_min: Some(keep_min), ..Encoder::new(bytes) }
    }

    /// Appends to these bytes, and does not copy large payload that is in memory.
    pub fn with_insets(bytes: Vec<u8>) -> Self {
        Encoder { insets: Some(Vec::new()), ..Encoder::new(bytes) }
    }

    /// All bytes. If payload could not be read, those that were there before: no value has no bytes, so that nobody takes them for one.
    pub fn finish(self) -> Vec<u8> {
        self.finish_keeping().0
    }

    /// All bytes, and the payload that was left out, in the order in which it came first.
    pub fn finish_keeping(mut self) -> (Vec<u8>, Vec<Payload>) {
        if self.is_lost {
            self.bytes.truncate(self.start);
        }
        (self.bytes, self.kept)
    }

    /// All bytes, and the payload that was not copied, in the order of its places.
    pub fn finish_with_insets(mut self) -> (Vec<u8>, Vec<Inset>) {
        let insets = self.insets.take().filter(|_| !self.is_lost);
        (self.finish(), insets.unwrap_or_default())
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
        self.reserve(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// The same of a part of bytes that need not be copied if they are many.
    pub fn shared_bytes(&mut self, bytes: &SharedBytes, part: Range<usize>) {
        match &mut self.insets {
            Some(insets) if part.len() >= INSET_MIN => {
                insets.push(Inset { at: self.bytes.len(), bytes: bytes.clone(), part });
            }
            _ => self.bytes(&bytes[part]),
        }
    }

    /// Makes room for so many bytes, and for what may follow: otherwise the next byte would move all of them.
    fn reserve(&mut self, count: usize) {
        if self.bytes.capacity() - self.bytes.len() < count {
            self.bytes.reserve(count.saturating_add(SLACK));
        }
    }

    /// Appends a whole payload, or a reference to where it was written whole before.
    pub fn payload(&mut self, payload: &Payload) {
        self.whole(Held::Payload(payload.clone()));
    }

    /// Appends bytes, or a reference to where the same were written before.
    pub fn shared(&mut self, bytes: &Arc<[u8]>) {
        self.whole(Held::Bytes(bytes.clone()));
    }

    fn whole(&mut self, held: Held) {
        let whole = 0..held.len();
        if let Some((_, index)) = self.find(&held, &whole).filter(|(found, _)| *found == whole) {
            return self.varint(index << 1 | 1);
        }
        match self.keep(&held, &whole) {
            Some(index) => self.varint(index << 1 | 1),
            None => self.write(held, whole),
        }
    }

    /// Appends a part of a payload, which [`Decoder::payload_part`] reads, or a reference to where it was written before. Of the rest
    /// nothing is written.
    pub fn payload_part(&mut self, payload: &Payload, part: &Range<usize>) {
        let held = Held::Payload(payload.clone());
        let found = self.find(&held, part).map(|(found, index)| (found.start, index));
        match found.or_else(|| Some((0, self.keep(&held, part)?))) {
            Some((start, index)) => {
                self.varint(index << 1 | 1);
                self.varint((part.start - start) as u64);
                self.varint(part.len() as u64);
            }
            None => self.write(held, part.clone()),
        }
    }

    /// A part that was written and contains this one.
    fn find(&self, held: &Held, part: &Range<usize>) -> Option<(Range<usize>, u64)> {
        let address = held.address();
        let upto = self.written.range((address, 0)..=(address, part.start)).next_back();
        let ((_, start), written) = upto.filter(|_| part.len() >= SHARED_MIN)?;
        (part.end <= written.end).then_some((*start..written.end, written.index))
    }

    /// Leaves a payload out, if that is wanted. Returns how it is referred to.
    fn keep(&mut self, held: &Held, part: &Range<usize>) -> Option<u64> {
        let Held::Payload(payload) = held else { return None };
        let is_large = self.keep_min.is_some_and(|min| payload.len() >= min && part.len() >= SHARED_MIN);
        is_large.then(|| {
            self.kept.push(payload.clone());
            self.note(held.clone(), 0..payload.len())
        })
    }

    fn note(&mut self, held: Held, part: Range<usize>) -> u64 {
        let (address, index) = (held.address(), self.count);
        self.written.insert((address, part.start), Written { end: part.end, index, _held: held });
        self.count += 1;
        index
    }

    fn write(&mut self, held: Held, part: Range<usize>) {
        self.varint((part.len() as u64) << 1);
        match &held {
            Held::Bytes(bytes) => self.bytes(&bytes[part.clone()]),
            Held::Payload(payload) => match payload.in_memory() {
                Some(bytes) => self.shared_bytes(&bytes, part.clone()),
                None => {
                    let start = self.bytes.len();
                    self.reserve(part.len());
                    self.bytes.resize(start + part.len(), 0);
                    self.is_lost |= payload.read(part.start, &mut self.bytes[start..]).is_err();
                }
            },
        }
        if part.len() >= SHARED_MIN {
            self.note(held, part);
        }
    }
}

impl Held {
    fn len(&self) -> usize {
        match self {
            Held::Bytes(bytes) => bytes.len(),
            Held::Payload(payload) => payload.len(),
        }
    }

    fn address(&self) -> usize {
        match self {
            Held::Bytes(bytes) => Arc::as_ptr(bytes).cast::<u8>().addr(),
            Held::Payload(payload) => payload.address(),
        }
    }
}

impl<'a> Decoder<'a> {
    /// Reads from the first of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder::keeping(bytes, Vec::new())
    }

    /// Reads from the first of these bytes, with the payload that was left out of them.
    pub fn keeping(bytes: &'a [u8], kept: Vec<Payload>) -> Self {
        let (reader, kept) = (Reader::new(bytes), kept.into());
        Decoder { reader, pieces: Vec::new(), kept, hold: None, room: usize::MAX }
    }

    /// Reads from the first of these bytes, and copies payload to where it is wanted.
    pub fn holding(bytes: &'a [u8], hold: Hold) -> Self {
        Decoder { hold: Some(hold), ..Decoder::new(bytes) }
    }

    /// The same of bytes that somebody sends who is not trusted: a value of a byte may take a hundred times as much memory, and that is bounded.
    pub fn of_stranger(bytes: &'a [u8], hold: Hold) -> Self {
        Decoder { room: ROOM_MIN + 2 * bytes.len(), ..Decoder::holding(bytes, hold) }
    }

    /// Takes room for the values of a collection, but for a few.
    #[inline]
    pub fn take_room<T>(&mut self, count: usize) -> Result<(), Malformed> {
        if count <= FEW {
            return Ok(());
        }
        let left = self.room.checked_sub(count.saturating_mul(size_of::<T>()));
        self.room = left.ok_or(Malformed("so many values take too much memory"))?;
        Ok(())
    }

    /// Fails unless everything has been read.
    pub fn finish(self) -> Result<(), Malformed> {
        if !self.kept.is_empty() {
            return Err(Malformed("payload was kept that nothing refers to"));
        }
        self.reader.finish()
    }

    /// Whether everything has been read.
    pub fn is_at_end(&self) -> bool {
        self.reader.is_empty()
    }

    /// Whether the next byte is this one.
    pub fn begins_with(&self, byte: u8) -> bool {
        self.reader.rest().first() == Some(&byte)
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
    pub fn payload(&mut self) -> Result<Payload, Malformed> {
        self.payload_piece().map(|(piece, _)| piece)
    }

    /// A payload, and the part of it that is meant.
    pub fn payload_part(&mut self) -> Result<(Payload, Range<usize>), Malformed> {
        let (piece, is_reference) = self.payload_piece()?;
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

    /// Bytes that may have come before.
    pub fn shared(&mut self) -> Result<Arc<[u8]>, Malformed> {
        match self.piece(|bytes| Held::Bytes(bytes.into()))? {
            (Held::Bytes(bytes), _) => Ok(bytes),
            (Held::Payload(_), _) => Err(Malformed("a reference to bytes goes to payload")),
        }
    }

    fn payload_piece(&mut self) -> Result<(Payload, bool), Malformed> {
        let hold = self.hold;
        let held = |bytes: &[u8]| {
            let wanted = hold.and_then(|hold| hold(bytes));
            Held::Payload(wanted.map_or_else(|| bytes.into(), Payload::from))
        };
        match self.piece(held)? {
            (Held::Payload(payload), is_reference) => Ok((payload, is_reference)),
            (Held::Bytes(_), _) => Err(Malformed("a reference to payload goes to other bytes")),
        }
    }

    /// What is here, and whether it was there before.
    fn piece(&mut self, hold: impl Fn(&[u8]) -> Held) -> Result<(Held, bool), Malformed> {
        let size_or_index = self.reader.varint()?;
        let is_reference = size_or_index & 1 == 1;
        let Ok(size_or_index) = usize::try_from(size_or_index >> 1) else {
            return Err(Malformed("a payload is larger than memory"));
        };
        if is_reference {
            if size_or_index == self.pieces.len() {
                self.pieces.extend(self.kept.pop_front().map(Held::Payload));
            }
            let known = self.pieces.get(size_or_index).cloned();
            return known.map(|piece| (piece, true)).ok_or(Malformed("a reference to payload goes nowhere"));
        }
        let piece = hold(self.reader.bytes(size_or_index)?);
        if piece.len() >= SHARED_MIN {
            self.pieces.push(piece.clone());
        }
        Ok((piece, false))
    }
}
