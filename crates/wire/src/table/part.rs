//! Parts: whole blocks with a checksum that also covers where they belong.
//!
//! The checksum begins with the table's id and the part's position, so a block that was written to or read from
//! the wrong place is noticed, not only one whose bits have changed.

use alloc::vec::Vec;

use super::{BLOCK_SIZE, TableId};
use crate::Malformed;

/// Bytes before the content: checksum and length.
pub const HEADER_SIZE: usize = 8;

/// Where a part belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The table whose file it is in.
    pub table: TableId,
    /// The number of its first block in the file.
    pub block: u64,
}

/// How many blocks a part with so many bytes of content has.
pub fn blocks(content: usize) -> usize {
    (HEADER_SIZE + content).div_ceil(BLOCK_SIZE)
}

/// Makes `part` an empty part, to which content is then appended.
pub fn begin(part: &mut Vec<u8>) {
    part.clear();
    part.extend_from_slice(&[0; HEADER_SIZE]);
}

/// Pads the part to whole blocks and writes its header.
///
/// # Panics
///
/// If the part was not begun, or its content has 4 GiB or more.
pub fn seal(part: &mut Vec<u8>, place: Place) {
    let length = u32::try_from(part.len() - HEADER_SIZE).expect("parts are far below 4 GiB");
    part.resize(part.len().next_multiple_of(BLOCK_SIZE), 0);
    part[4..HEADER_SIZE].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(place, &part[4..]);
    part[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The content of a sealed part that was read from `place`.
pub fn open(part: &[u8], place: Place) -> Result<&[u8], Malformed> {
    let (sum, rest) = part.split_first_chunk().ok_or(TOO_SHORT)?;
    let (length, content) = rest.split_first_chunk().ok_or(TOO_SHORT)?;
    if u32::from_le_bytes(*sum) != checksum(place, rest) {
        return Err(Malformed("the checksum does not match"));
    }
    usize::try_from(u32::from_le_bytes(*length))
        .ok()
        .and_then(|length| content.get(..length))
        .ok_or(Malformed("a part is longer than its blocks"))
}

fn checksum(place: Place, bytes: &[u8]) -> u32 {
    let mut origin = [0; 16];
    origin[..8].copy_from_slice(&place.table.0.to_le_bytes());
    origin[8..].copy_from_slice(&place.block.to_le_bytes());
    crate::checksum::crc32c_append(crate::checksum::crc32c(&origin), bytes)
}

const TOO_SHORT: Malformed = Malformed("a part is too short");
