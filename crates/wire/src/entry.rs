//! What a store knows of one key: the blob that has it now, and former states that somebody may still read.

use alloc::{string::String, sync::Arc, vec::Vec};

use tyr_types::{Attributes, BlobId, Number};

use crate::{
    extent::{Extent, decode_extents, encode_extents},
    varint::{Malformed, Reader, write_prefixed, write_varint},
};

/// The head of a blob as one transaction left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The creation number of the blob.
    pub blob: BlobId,
    /// The transaction.
    pub number: Number,
    /// Size in bytes.
    pub size: u64,
    /// Attributes.
    pub attributes: Arc<Attributes>,
}

/// A shrinking truncate: what was written before `number` at or beyond `from` is gone. Kept instead of touching
/// every leaf beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The transaction that truncated.
    pub number: Number,
    /// The size that it left.
    pub from: u64,
}

/// One blob that has or had the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its creation number.
    pub id: BlobId,
    /// Oldest first, at least one; all but the last are kept for pins.
    pub heads: Vec<Arc<Head>>,
    /// In the order of their numbers.
    pub cuts: Vec<Cut>,
    /// One past the furthest byte ever written; no leaf exists at or beyond it.
    pub reach: u64,
    /// The extents of the first leaf, which lives with the head.
    pub leaf: Vec<Extent>,
    /// The transaction that deleted the blob.
    pub deleted: Option<Number>,
}

/// Everything known of one key. Without blobs it says that the key is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The last transaction that changed it; the log's tail is replayed only beyond.
    pub applied: Number,
    /// Oldest first; all but the last are deleted.
    pub blobs: Vec<Blob>,
}

impl Entry {
    /// The blob that has the key now.
    pub fn current(&self) -> Option<&Blob> {
        self.blobs.last().filter(|blob| blob.deleted.is_none())
    }

    /// The blob that had the key at `number`, and its head then.
    pub fn at(&self, number: Number) -> Option<(&Blob, &Arc<Head>)> {
        let blob = self.blobs.iter().rev().find(|blob| blob.id.to_u64() <= number.to_u64())?;
        if blob.deleted.is_some_and(|deleted| deleted <= number) {
            return None;
        }
        Some((blob, blob.heads.iter().rev().find(|head| head.number <= number)?))
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, self.applied.to_u64());
        write_varint(out, self.blobs.len() as u64);
        self.blobs.iter().for_each(|blob| blob.encode(out));
    }

    /// Reads one back.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let applied = Number::from_u64(reader.varint()?);
        Ok(Entry { applied, blobs: decode_list(reader, Blob::decode)? })
    }
}

impl Blob {
    /// The newest head.
    pub fn head(&self) -> Option<&Arc<Head>> {
        self.heads.last()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, self.id.to_u64());
        write_varint(out, self.reach);
        write_varint(out, self.deleted.map_or(0, Number::to_u64));
        write_varint(out, self.cuts.len() as u64);
        for cut in &self.cuts {
            write_varint(out, cut.number.to_u64());
            write_varint(out, cut.from);
        }
        write_varint(out, self.heads.len() as u64);
        for head in &self.heads {
            write_varint(out, head.number.to_u64());
            write_varint(out, head.size);
            encode_attributes(&head.attributes, out);
        }
        encode_extents(&self.leaf, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let id = BlobId::from_u64(reader.varint()?);
        let reach = reader.varint()?;
        let deleted = Some(Number::from_u64(reader.varint()?)).filter(|&number| number != Number::ZERO);
        let cuts = decode_list(reader, |reader| {
            Ok(Cut { number: Number::from_u64(reader.varint()?), from: reader.varint()? })
        })?;
        let heads = decode_list(reader, |reader| {
            let (number, size) = (Number::from_u64(reader.varint()?), reader.varint()?);
            Ok(Arc::new(Head { blob: id, number, size, attributes: Arc::new(decode_attributes(reader)?) }))
        })?;
        if heads.is_empty() {
            return Err(Malformed("a blob has no head"));
        }
        Ok(Blob { id, heads, cuts, reach, leaf: decode_extents(reader)?, deleted })
    }
}

/// Reads a count and as many elements; every element takes at least one byte, so the count is bounded by the bytes.
pub(crate) fn decode_list<'a, T>(
    reader: &mut Reader<'a>,
    mut decode: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = reader.varint_usize()?;
    if count > reader.remaining() {
        return Err(Malformed("there are fewer elements than announced"));
    }
    (0..count).map(|_| decode(reader)).collect()
}

pub(crate) fn encode_attributes(attributes: &Attributes, out: &mut Vec<u8>) {
    write_varint(out, attributes.len() as u64);
    for (name, value) in attributes.iter() {
        write_prefixed(out, name.as_bytes());
        write_prefixed(out, value);
    }
}

pub(crate) fn decode_attributes(reader: &mut Reader<'_>) -> Result<Attributes, Malformed> {
    let mut attributes = Attributes::default();
    let mut before: &[u8] = &[];
    for _ in 0..reader.varint()? {
        let name = reader.prefixed()?;
        if name <= before {
            return Err(Malformed("attributes are not in the order of their names"));
        }
        before = name;
        let name = String::from_utf8(name.into()).map_err(|_| Malformed("an attribute's name is no text"))?;
        attributes
            .set(&name, Some(reader.prefixed()?))
            .map_err(|_| Malformed("attributes are out of bounds"))?;
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(blob: BlobId, number: u64, size: u64) -> Arc<Head> {
        Arc::new(Head { blob, number: Number::from_u64(number), size, attributes: Arc::default() })
    }

    fn blob(id: u64, heads: &[(u64, u64)], deleted: Option<u64>) -> Blob {
        let id = BlobId::from_u64(id);
        Blob {
            id,
            heads: heads.iter().map(|&(number, size)| head(id, number, size)).collect(),
            cuts: [Cut { number: Number::from_u64(6), from: 1 }].into(),
            reach: 70,
            leaf: Vec::new(),
            deleted: deleted.map(Number::from_u64),
        }
    }

    #[test]
    fn each_number_sees_the_head_of_its_time() {
        let entry = Entry {
            applied: Number::from_u64(20),
            blobs: [blob(3, &[(3, 0), (5, 50)], Some(8)), blob(10, &[(10, 1), (20, 2)], None)].into(),
        };
        let size_at = |number| entry.at(Number::from_u64(number)).map(|(_, head)| head.size);
        assert_eq!([2, 3, 4, 5, 7].map(size_at), [None, Some(0), Some(0), Some(50), Some(50)]);
        assert_eq!([8, 9, 10, 19, 20, 99].map(size_at), [None, None, Some(1), Some(1), Some(2), Some(2)]);
    }

    #[test]
    fn an_entry_comes_back_as_it_was() {
        let mut entry =
            Entry { applied: Number::from_u64(9), blobs: [blob(3, &[(3, 0), (5, 50)], Some(8))].into() };
        let mut attributes = Attributes::default();
        attributes.set("content-type", Some(b"text/plain")).expect("fits");
        Arc::make_mut(&mut entry.blobs[0].heads[1]).attributes = Arc::new(attributes);
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Entry::decode(&mut reader), Ok(entry));
        assert_eq!(reader.finish(), Ok(()));
        for cut in 0..bytes.len() {
            assert!(Entry::decode(&mut Reader::new(&bytes[..cut])).is_err());
        }
    }
}
