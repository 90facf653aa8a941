//! What the store's manifest keeps of each table.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use crate::{Malformed, Reader, varint::write_varint};

/// Names a table and its file; a younger table has a larger one. While the file exists no other table gets the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u64);

const NAME_PREFIX: &str = "table-";

impl TableId {
    /// The name of the table's file.
    pub fn file_name(self) -> String {
        format!("{NAME_PREFIX}{}", self.0)
    }

    /// The table whose file has this name, if it is the name of a table's file.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let id = TableId(name.strip_prefix(NAME_PREFIX)?.parse().ok()?);
        (id.file_name() == name).then_some(id)
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME_PREFIX}{}", self.0)
    }
}

/// A finished table, as the manifest names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// The table.
    pub id: TableId,
    /// How many entries it has, tombstones among them.
    pub entries: u64,
    /// How many of them are tombstones.
    pub tombstones: u64,
    /// The length of its file.
    pub bytes: u64,
    /// The checksum of its footer, so that no other file is taken for it.
    pub checksum: u32,
}

impl TableSummary {
    /// Appends it: four varints, then the checksum in four bytes.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        for number in [self.id.0, self.entries, self.tombstones, self.bytes] {
            write_varint(out, number);
        }
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// Reads one.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(TableSummary {
            id: TableId(reader.varint()?),
            entries: reader.varint()?,
            tombstones: reader.varint()?,
            bytes: reader.varint()?,
            checksum: reader.u32()?,
        })
    }
}
