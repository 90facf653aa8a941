//! What a journal logs with one transaction of its store: entries of all its partitions, and where logs were cut, in order.

use tyr_proto::{ClassId, Epoch, PartitionId};
use tyr_types::{Error, Result};
use tyr_wire::{Malformed, Reader, varint};

use super::Stored;

/// Part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An entry of a log.
    Entry {
        /// Which one.
        stored: Stored,
        /// What it is.
        bytes: &'a [u8],
    },
    /// The entries of a log after this one are gone, those of earlier records included.
    Cut {
        /// Whose log.
        partition: PartitionId,
        /// The last that is left.
        last: u64,
    },
}

/// Appends an item to a record.
pub fn append(record: &mut Vec<u8>, item: Item<'_>) {
    let (kind, partition, index) = match item {
        Item::Entry { stored, .. } => (ENTRY, stored.partition, stored.index),
        Item::Cut { partition, last } => (CUT, partition, last),
    };
    record.extend([kind, partition.class.0]);
    varint::write_varint(record, partition.index.into());
    varint::write_varint(record, index);
    if let Item::Entry { stored, bytes } = item {
        varint::write_varint(record, stored.epoch.0.into());
        varint::write_varint(record, bytes.len() as u64);
        record.extend_from_slice(bytes);
    }
}

/// The items of a record. Fails with `corrupt` if it has none or something else.
pub fn items(record: &[u8]) -> Result<Vec<Item<'_>>> {
    let mut reader = Reader::new(record);
    let mut items = Vec::new();
    while !reader.is_empty() {
        let item = item(&mut reader).map_err(|_| Error::corrupt("a record of the journal is malformed"))?;
        items.push(item);
    }
    Ok(items)
}

fn item<'a>(reader: &mut Reader<'a>) -> Result<Item<'a>, Malformed> {
    let kind = reader.u8()?;
    let class = ClassId(reader.u8()?);
    let partition = PartitionId { class, index: reader.varint_u32()? };
    let index = reader.varint()?;
    match kind {
        CUT => Ok(Item::Cut { partition, last: index }),
        ENTRY => {
            let stored = Stored { partition, index, epoch: Epoch(reader.varint_u32()?) };
            let length = reader.varint_usize()?;
            Ok(Item::Entry { stored, bytes: reader.bytes(length)? })
        }
        _ => Err(Malformed("an item of a record is of no known kind")),
    }
}

const ENTRY: u8 = 1;
const CUT: u8 = 2;
