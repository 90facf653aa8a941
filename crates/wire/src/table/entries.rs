//! Sorted entries that can be searched where they lie.
//!
//! What all keys share at their front is stored once; the rest of each key stands before its value. The offsets of
//! the entries come first, so that a search is a binary search without decoding what it skips.
//!
//! Invariants: keys ascend strictly; there is at least one entry. A reader relies on neither for safety: [`Entries::check`]
//! tests them, and on other bytes a search finds something or nothing, without panic.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::common_prefix;
use crate::{
    Malformed, Reader,
    varint::{varint_size, write_varint},
};

/// One entry, its key without the part that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key after [`Entries::prefix`].
    pub suffix: &'a [u8],
    /// The value, or none for a tombstone.
    pub value: Option<&'a [u8]>,
    /// One past the last byte of the value, counted from the first byte of the entries.
    pub end: usize,
}

/// Sorted entries as they lie in a part.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    prefix: &'a [u8],
    offsets: &'a [[u8; 2]],
}

impl<'a> Entries<'a> {
    /// Reads the header; entries are decoded when they are asked for.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let count = usize::from(reader.u16()?);
        let prefix = usize::from(reader.u16()?);
        let prefix = reader.bytes(prefix)?;
        let (offsets, _) = reader.bytes(count * 2)?.as_chunks();
        Ok(Entries { bytes, prefix, offsets })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there is no entry; no encoder writes that.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The entry at an index below [`len`](Self::len).
    pub fn entry(&self, index: usize) -> Result<Entry<'a>, Malformed> {
        self.read_entry(&mut self.reader_at(index)?)
    }

    /// The index of the entry with this key, or as an error that of the first entry with a larger key.
    pub fn search(&self, key: &[u8]) -> Result<Result<usize, usize>, Malformed> {
        let Some(suffix) = key.strip_prefix(self.prefix) else {
            return Ok(Err(if key < self.prefix { 0 } else { self.len() }));
        };
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.reader_at(middle)?.prefixed()?.cmp(suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// Tests everything that an encoder guarantees.
    pub fn check(&self) -> Result<(), Malformed> {
        let first = 4 + self.prefix.len() + self.offsets.len() * 2;
        let mut reader = Reader::new(self.bytes.get(first..).unwrap_or_default());
        let mut previous: Option<&[u8]> = None;
        for offset in self.offsets {
            if usize::from(u16::from_le_bytes(*offset)) != self.bytes.len() - reader.remaining() {
                return Err(Malformed("entries do not follow one another"));
            }
            let entry = self.read_entry(&mut reader)?;
            if previous.is_some_and(|previous| previous >= entry.suffix) {
                return Err(Malformed("keys do not ascend"));
            }
            previous = Some(entry.suffix);
        }
        if previous.is_none() {
            return Err(Malformed("there are no entries"));
        }
        reader.finish()
    }

    fn read_entry(&self, reader: &mut Reader<'a>) -> Result<Entry<'a>, Malformed> {
        let suffix = reader.prefixed()?;
        let value = match reader.varint_usize()? {
            0 => None,
            tag => Some(reader.bytes(tag - 1)?),
        };
        Ok(Entry { suffix, value, end: self.bytes.len() - reader.remaining() })
    }

    fn reader_at(&self, index: usize) -> Result<Reader<'a>, Malformed> {
        let offset = self.offsets.get(index).ok_or(Malformed("there is no entry of this index"))?;
        let bytes = self.bytes.get(usize::from(u16::from_le_bytes(*offset))..);
        bytes.map(Reader::new).ok_or(Malformed("an entry lies past the end"))
    }
}

/// Collects entries and encodes them.
#[derive(Debug, Default)]
pub struct EntriesBuilder {
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    lengths: Vec<(usize, Option<usize>)>,
    /// How many leading bytes all keys share.
    shared: usize,
    /// Encoded size of all entries, without offsets, if nothing were shared.
    unshared_size: usize,
}

impl EntriesBuilder {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there is no entry yet.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// An upper bound of the encoded size, in bytes, if this entry were added.
    pub fn size_with(&self, key: &[u8], value: Option<&[u8]>) -> usize {
        let shared = self.shared_with(key);
        let count = self.len() + 1;
        4 + shared + 2 * count + self.unshared_size + entry_size(key, value) - shared * count
    }

    /// Adds an entry, whose key is larger than all so far.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.shared = self.shared_with(key);
        self.unshared_size += entry_size(key, value);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.lengths.push((key.len(), value.map(<[u8]>::len)));
    }

    /// Appends the encoded entries, at least one, and starts again without any.
    ///
    /// # Panics
    ///
    /// If there are so many entries, or so large ones before the last, that an offset does not fit into 16 bits.
    pub fn encode_into(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&small(self.len()));
        out.extend_from_slice(&small(self.shared));
        out.extend_from_slice(&self.bytes[..self.shared]);
        let offsets = out.len();
        out.resize(offsets + 2 * self.len(), 0);
        let mut rest = self.bytes.as_slice();
        for (index, &(key_size, value_size)) in self.lengths.iter().enumerate() {
            let offset = small(out.len() - start);
            out[offsets + 2 * index..][..2].copy_from_slice(&offset);
            let (key, after_key) = rest.split_at(key_size);
            let (value, after_value) = after_key.split_at(value_size.unwrap_or(0));
            rest = after_value;
            write_varint(out, (key_size - self.shared) as u64);
            out.extend_from_slice(&key[self.shared..]);
            write_varint(out, value_size.map_or(0, |size| size as u64 + 1));
            out.extend_from_slice(value);
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        (self.shared, self.unshared_size) = (0, 0);
    }

    fn shared_with(&self, key: &[u8]) -> usize {
        if self.is_empty() { key.len() } else { common_prefix(&self.bytes[..self.shared], key) }
    }
}

fn entry_size(key: &[u8], value: Option<&[u8]>) -> usize {
    let value_size = value.map_or(0, <[u8]>::len);
    varint_size(key.len() as u64) + key.len() + varint_size(value_size as u64 + 1) + value_size
}

fn small(number: usize) -> [u8; 2] {
    u16::try_from(number).expect("parts are closed before offsets need more than 16 bits").to_le_bytes()
}
