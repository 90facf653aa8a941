//! Frames of a connection: what is written to a socket as one, with a checksum.
//!
//! ```text
//! | checksum: u32 | length: u32 | kind: u8 | channel: u8 | 0: u16 | request: u64 | body ... |
//! ```
//!
//! The checksum (CRC-32C) is that of everything after it, and the length that of the body. This layout never changes, so that
//! programs of any two versions understand that they do not understand one another.

use alloc::{borrow::Cow, sync::Arc, vec::Vec};
use core::ops::Range;

use super::Error;
use crate::{
    Reader,
    checksum::{crc32c, crc32c_append},
    shared::SharedBytes,
};

/// Bytes in front of a frame's body.
pub const FRAME_HEADER_SIZE: usize = 20;

/// The largest body that a frame can have, whatever is agreed on.
pub const BODY_SIZE_MAX: usize = 1 << 30;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Who dials, and what it speaks.
    Hello = 1,
    /// The listener agrees.
    Welcome = 2,
    /// The listener does not.
    Refused = 3,
    /// As many bytes may have been sent on the channel.
    Credit = 4,
    /// Is anybody there?
    Ping = 5,
    /// Yes.
    Pong = 6,
    /// Nothing more comes.
    Close = 7,
    /// The listener demands a proof of who dials.
    Challenge = 8,
    /// The dialer's proof.
    Proof = 9,
    /// Something that asks for no reply by its number.
    Message = 16,
    /// Something that does.
    Request = 17,
    /// The reply to a request.
    Reply = 18,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Refused,
        Kind::Credit,
        Kind::Ping,
        Kind::Pong,
        Kind::Close,
        Kind::Challenge,
        Kind::Proof,
        Kind::Message,
        Kind::Request,
        Kind::Reply,
    ];

    /// Whether it is for the program, and counted against the credit of its channel.
    pub fn is_counted(self) -> bool {
        matches!(self, Kind::Message | Kind::Request | Kind::Reply)
    }
}

/// What the body of a frame belongs to. Channels do not hold one another up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel(u8);

impl Channel {
    /// As many channels there are.
    pub const COUNT: usize = 8;

    /// All of them.
    pub const ALL: [Channel; Channel::COUNT] =
        [Channel(0), Channel(1), Channel(2), Channel(3), Channel(4), Channel(5), Channel(6), Channel(7)];

    /// The channel of a number below [`Channel::COUNT`].
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Channel::COUNT { Some(Channel(number)) } else { None }
    }

    /// Its place among all.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A frame that is ready to be sent, to one or to many.
#[derive(Clone, Debug)]
pub struct Frame(Arc<Parts>);

/// Invariant: the insets are in the order of their places, all of them after the header and none after the end.
#[derive(Debug)]
struct Parts {
    /// All bytes but those of the insets.
    bytes: Vec<u8>,
    insets: Vec<Inset>,
    /// How many bytes the frame has.
    size: usize,
}

/// Bytes of a frame that stay where they are until they are sent: large payload is not copied into every frame that has it.
#[derive(Clone, Debug)]
pub struct Inset {
    /// How many of the other bytes come before it.
    pub at: usize,
    /// Where it is.
    pub bytes: SharedBytes,
    /// What of that it is.
    pub part: Range<usize>,
}

impl Inset {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.part.clone()]
    }
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// What the body belongs to; 0 if it is for the connection itself.
    pub channel: Channel,
    /// Ties a reply to its request: the sender of a request chooses it. 0 for anything else.
    pub request: u64,
    /// Bytes of the body.
    pub body_size: usize,
}

impl Header {
    /// Bytes of the frame.
    pub fn frame_size(&self) -> usize {
        FRAME_HEADER_SIZE + self.body_size
    }

    /// How large the frame is that these bytes begin with, as far as it says so itself.
    pub fn claimed_size(bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(bytes);
        let (_, length) = (reader.u32().ok()?, reader.u32().ok()?);
        usize::try_from(length).ok()?.checked_add(FRAME_HEADER_SIZE)
    }

    /// The header and body of the frame that these bytes begin with; `None` if some of it is missing. One that is too large is refused
    /// before it is there.
    pub fn parse(bytes: &[u8], body_size_max: usize) -> Result<Option<(Header, &[u8])>, Error> {
        let mut reader = Reader::new(bytes);
        let (Ok(checksum), Ok(length)) = (reader.u32(), reader.u32()) else { return Ok(None) };
        let body_size = usize::try_from(length).map_err(|_| Error::FrameTooLarge)?;
        if body_size > body_size_max {
            return Err(Error::FrameTooLarge);
        }
        let Some(frame) = bytes.get(..FRAME_HEADER_SIZE + body_size) else { return Ok(None) };
        if crc32c(&frame[CHECKSUM_SIZE..]) != checksum {
            return Err(Error::Damaged);
        }
        let fields = (reader.u8()?, reader.u8()?, reader.u16()?, reader.u64()?);
        let (kind, channel, 0, request) = fields else { return Err(Error::UnknownFrame) };
        let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind).ok_or(Error::UnknownFrame)?;
        let channel = Channel::new(channel).ok_or(Error::UnknownFrame)?;
        Ok(Some((Header { kind, channel, request, body_size }, &frame[FRAME_HEADER_SIZE..])))
    }
}

const CHECKSUM_SIZE: usize = 4;
/// Most frames without payload are no larger: these are written into memory that need not grow.
const SMALL_SIZE: usize = 128;

impl Frame {
    /// A message whose body is what `write` appends. `None` if it is larger than any frame.
    pub fn message(channel: Channel, write: impl FnOnce(&mut Vec<u8>)) -> Option<Self> {
        Self::copied((Kind::Message, channel, 0), write)
    }

    /// A message whose body is what `write` appends, with what it returns put in between: places count from the first of all bytes, which
    /// is not the first that it appends. `None` if it is larger than any frame.
    pub fn message_with_insets(
        channel: Channel,
        write: impl FnOnce(&mut Vec<u8>) -> Vec<Inset>,
    ) -> Option<Self> {
        let mut bytes = Self::begin();
        let insets = write(&mut bytes);
        Self::end(bytes, insets, (Kind::Message, channel, 0))
    }

    /// A request, by a number that the sender chooses.
    pub fn request(channel: Channel, number: u64, write: impl FnOnce(&mut Vec<u8>)) -> Option<Self> {
        Self::copied((Kind::Request, channel, number), write)
    }

    /// The reply to a request.
    pub fn reply(channel: Channel, number: u64, write: impl FnOnce(&mut Vec<u8>)) -> Option<Self> {
        Self::copied((Kind::Reply, channel, number), write)
    }

    /// A frame for the connection itself.
    pub(super) fn control(kind: Kind, channel: Channel, body: &[u8]) -> Self {
        Self::copied((kind, channel, 0), |out| out.extend_from_slice(body)).expect("the body is short")
    }

    fn copied(what: (Kind, Channel, u64), write: impl FnOnce(&mut Vec<u8>)) -> Option<Self> {
        let mut bytes = Self::begin();
        write(&mut bytes);
        Self::end(bytes, Vec::new(), what)
    }

    /// The place for the header, and room for what follows.
    fn begin() -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SMALL_SIZE);
        bytes.resize(FRAME_HEADER_SIZE, 0);
        bytes
    }

    fn end(mut bytes: Vec<u8>, insets: Vec<Inset>, what: (Kind, Channel, u64)) -> Option<Self> {
        let (kind, channel, request) = what;
        let size = insets.iter().fold(bytes.len(), |size, inset| size + inset.part.len());
        let body_size = size.checked_sub(FRAME_HEADER_SIZE).filter(|size| *size <= BODY_SIZE_MAX)?;
        let length = u32::try_from(body_size).ok()?;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        (bytes[8], bytes[9]) = (kind as u8, channel.0);
        bytes[12..20].copy_from_slice(&request.to_le_bytes());
        let mut parts = Parts { bytes, insets, size };
        let checksum = parts.checksum();
        parts.bytes[..CHECKSUM_SIZE].copy_from_slice(&checksum.to_le_bytes());
        Some(Frame(Arc::new(parts)))
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// All bytes of it, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.0.pieces()
    }

    /// All bytes of it in a row.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.0.insets.is_empty() {
            true => Cow::Borrowed(&self.0.bytes),
            false => {
                let mut bytes = Vec::with_capacity(self.size());
                self.pieces().for_each(|piece| bytes.extend_from_slice(piece));
                Cow::Owned(bytes)
            }
        }
    }

    /// What it says, in a row.
    pub fn body(&self) -> Cow<'_, [u8]> {
        match self.bytes() {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[FRAME_HEADER_SIZE..]),
            Cow::Owned(mut bytes) => Cow::Owned(bytes.split_off(FRAME_HEADER_SIZE)),
        }
    }

    /// Whether it is for the program, and counted against the credit of its channel.
    pub fn is_counted(&self) -> bool {
        Kind::ALL.into_iter().any(|kind| kind as u8 == self.0.bytes[8] && kind.is_counted())
    }

    pub(super) fn body_size(&self) -> usize {
        self.0.size - FRAME_HEADER_SIZE
    }

    /// What its body belongs to.
    pub fn channel(&self) -> Channel {
        Channel(self.0.bytes[9])
    }
}

/// Frames are equal that are the same to who receives them.
impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Frame {}

impl Parts {
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = core::iter::once(0).chain(self.insets.iter().map(|inset| inset.at));
        let ends = self.insets.iter().map(|inset| inset.at).chain(core::iter::once(self.bytes.len()));
        let written = starts.zip(ends).map(|(start, end)| &self.bytes[start..end]);
        let insets = self.insets.iter().map(|inset| Some(inset.bytes())).chain(core::iter::once(None));
        written.zip(insets).flat_map(|(written, inset)| core::iter::once(written).chain(inset))
    }

    fn checksum(&self) -> u32 {
        if self.insets.is_empty() {
            return crc32c(&self.bytes[CHECKSUM_SIZE..]);
        }
        let mut pieces = self.pieces();
        let first = crc32c(&pieces.next().unwrap_or_default()[CHECKSUM_SIZE..]);
        pieces.fold(first, crc32c_append)
    }
}
