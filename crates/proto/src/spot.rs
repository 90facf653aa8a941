//! Where payload lies in a node's files, for a reader on the node's host that is handed the files and reads them itself.
//!
//! What lies there never changes: a file that a reader may have is never written again where something lay. A reader trusts the bytes
//! only if they have their checksums.

use alloc::vec::Vec;

use crate::{
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    layout,
    message::READ_SIZE_MAX,
};

/// Names a file of a node, as long as the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName {
    /// The journal whose store it belongs to.
    pub journal: u64,
    /// Which file of that store.
    pub number: u64,
}

/// Payload in a file.
///
/// Invariant: the part lies within the stored bytes and is not empty, and there is one checksum for each block of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file.
    pub file: FileName,
    /// Where in it the stored bytes begin.
    pub position: u64,
    /// How many stored bytes the checksums cover.
    pub stored: u32,
    /// Where in them the part begins,
    pub from: u32,
    /// and how long it is.
    pub length: u32,
    /// The CRC-32C of each [`SPOT_BLOCK`] of the stored bytes; the last block may be short.
    pub checksums: Vec<u32>,
}

/// A part of what is read of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many zeros: nothing was written there.
    Zeros(u64),
    /// What lies there.
    Spot(Spot),
}

/// Bytes of payload under one checksum.
pub const SPOT_BLOCK: u32 = 4096;

/// As many stored bytes stand for a part at the most: its own, which are no more than can be asked for, and the rest of the block that it
/// begins in and of the one that it ends in.
const STORED_MAX: u64 = READ_SIZE_MAX + 2 * SPOT_BLOCK as u64;

/// Payload of fewer bytes than this is sent rather than shown.
pub const SPOT_MIN: usize = 16 << 10;

impl Spot {
    /// Where in the file the stored bytes end.
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.stored)
    }
}

impl Stretch {
    /// How many bytes it stands for.
    pub fn len(&self) -> u64 {
        match self {
            Stretch::Bytes(bytes) => bytes.len() as u64,
            Stretch::Zeros(length) => *length,
            Stretch::Spot(spot) => u64::from(spot.length),
        }
    }

    /// Whether it stands for nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

layout!(struct FileName { journal, number });
layout!(enum Stretch { 0 => Bytes(bytes), 1 => Zeros(length), 2 => Spot(spot) } check |stretch: &Stretch| {
    ensure(stretch.len() <= READ_SIZE_MAX, "more is answered than can be asked for")
});

impl Encode for Spot {
    fn encode(&self, out: &mut Encoder) {
        self.file.encode(out);
        out.varint(self.position);
        [self.stored, self.from, self.length].iter().for_each(|number| out.varint(u64::from(*number)));
        for checksum in &self.checksums {
            checksum.to_le_bytes().iter().for_each(|byte| out.byte(*byte));
        }
    }
}

impl Decode for Spot {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (file, position) = (FileName::decode(input)?, input.varint()?);
        let (stored, from, length) = (u32::decode(input)?, u32::decode(input)?, u32::decode(input)?);
        ensure(u64::from(stored) <= STORED_MAX, "more is stored than can be asked for")?;
        let ends_within = from.checked_add(length).is_some_and(|end| end <= stored);
        ensure(ends_within && length > 0, "a part does not lie within what is stored")?;
        ensure(position.checked_add(u64::from(stored)).is_some(), "a file ends before what is stored in it")?;
        let mut checksums = Vec::new();
        for _ in 0..stored.div_ceil(SPOT_BLOCK) {
            checksums.push(u32::from_le_bytes([input.byte()?, input.byte()?, input.byte()?, input.byte()?]));
        }
        Ok(Spot { file, position, stored, from, length, checksums })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::encoding::{from_bytes, to_bytes};

    /// A part of one byte, in the middle of so many stored ones.
    fn spot(stored: u32) -> Spot {
        let checksums = (0..stored.div_ceil(SPOT_BLOCK)).collect();
        let file = FileName { journal: 1, number: 2 };
        Spot { file, position: 0, stored, from: stored / 2, length: 1, checksums }
    }

    #[test]
    fn a_spot_has_no_more_stored_bytes_than_a_read_can_concern() {
        let stored_max = u32::try_from(STORED_MAX).unwrap();
        let largest = spot(stored_max);
        assert_eq!(from_bytes::<Spot>(&to_bytes(&largest)), Ok(largest));
        for stored in [stored_max + 1, 8 * stored_max] {
            from_bytes::<Spot>(&to_bytes(&spot(stored))).unwrap_err();
        }
    }
}
