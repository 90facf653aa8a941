//! The last block of a table file.
//!
//! Magic, version, and checksum stand at the same place in every version, so that an older program can tell a newer
//! table from a damaged one.

use core::fmt;

use super::{BLOCK_SIZE, TableId};
use crate::{Malformed, Reader};

/// The version that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"TYRTABLE";
const CHECKSUM_AT: usize = BLOCK_SIZE - 4;

/// What the last block says about the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The table.
    pub table: TableId,
    /// How many entries, tombstones among them.
    pub entries: u64,
    /// How many of them are tombstones.
    pub tombstones: u64,
    /// The first block of the root's part, which is also how many blocks the spans have.
    pub root_block: u64,
    /// How many blocks the root's part has.
    pub root_blocks: u64,
}

/// Why a footer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FooterFault {
    /// It is not what was written.
    Malformed(Malformed),
    /// It was written by a newer program, in this version of the format.
    Version(u32),
}

impl From<Malformed> for FooterFault {
    fn from(malformed: Malformed) -> Self {
        FooterFault::Malformed(malformed)
    }
}

impl fmt::Display for FooterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FooterFault::Malformed(malformed) => malformed.fmt(f),
            FooterFault::Version(version) => write!(
                f,
                "it has format version {version}, this program supports versions up to {FORMAT_VERSION}; use a newer program"
            ),
        }
    }
}

impl Footer {
    /// The block, and its checksum.
    pub fn encode(&self) -> ([u8; BLOCK_SIZE], u32) {
        let mut block = [0; BLOCK_SIZE];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let fields = [self.table.0, self.entries, self.tombstones, self.root_block, self.root_blocks];
        for (index, field) in fields.iter().enumerate() {
            block[16 + 8 * index..][..8].copy_from_slice(&field.to_le_bytes());
        }
        let checksum = crate::checksum::crc32c(&block[..CHECKSUM_AT]);
        block[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        (block, checksum)
    }

    /// Decodes the last block of a file; returns its checksum as well.
    pub fn decode(block: &[u8]) -> Result<(Self, u32), FooterFault> {
        let (content, checksum) = block.split_last_chunk().ok_or(Malformed("the footer is too short"))?;
        let checksum = u32::from_le_bytes(*checksum);
        let mut reader = Reader::new(content);
        if reader.array()? != MAGIC {
            return Err(Malformed("the footer has no magic").into());
        }
        if crate::checksum::crc32c(content) != checksum {
            return Err(Malformed("the footer's checksum does not match").into());
        }
        let version = reader.u32()?;
        if version != FORMAT_VERSION {
            return Err(FooterFault::Version(version));
        }
        reader.u32()?;
        let footer = Footer {
            table: TableId(reader.u64()?),
            entries: reader.u64()?,
            tombstones: reader.u64()?,
            root_block: reader.u64()?,
            root_blocks: reader.u64()?,
        };
        Ok((footer, checksum))
    }
}
