//! Records: what the volumes and the index of an archive consist of.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | kind |
//! | 3 | zeros |
//! | 4 | length of the body, little-endian |
//! | 4 | CRC-32C of the eight bytes before and of the body |
//! | | the body |

use std::{collections::BTreeMap, io::Read};

use tyr_types::{Attributes, BlobId, KEY_SIZE_MAX, Key, Number, OFFSET_MAX};
use tyr_wire::{
    Malformed, Reader,
    checksum::{crc32c, crc32c_append},
    varint::{write_prefixed, write_varint},
};

use super::catalog::{Blob, Grain, Place};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A blob of which records follow in this volume.
    Blob(Key, Blob),
    /// Bytes of the last blob at an offset.
    Data(u64, Vec<u8>),
    /// All bytes of a grain of the last blob that are not zeros have been written, since the grain or blob before.
    Grain(u64, u64),
    /// Everything of the last blob has been written.
    Whole,
    /// A blob that earlier volumes have is no more.
    Gone(Key),
    /// The volume ends here.
    End,
}

/// How reading a record went.
#[derive(Debug)]
pub enum Next {
    /// There is one, which takes so many bytes.
    Record(Record, u64),
    /// The file ends where a record would begin.
    Nothing,
    /// What is there is no record, and why.
    Malformed(&'static str),
}

/// Bytes before the body.
pub const HEADER_SIZE: usize = 12;
/// A body is at most so long: a blob's record with a million grains, or a piece of data.
pub const BODY_SIZE_MAX: usize = 64 << 20;

impl Record {
    const BLOB: u8 = 1;
    const DATA: u8 = 2;
    const GRAIN: u8 = 3;
    const WHOLE: u8 = 4;
    const GONE: u8 = 5;
    const END: u8 = 6;

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_SIZE];
        out[0] = match self {
            Record::Blob(key, blob) => {
                write_prefixed(&mut out, key.as_bytes());
                encode_blob(blob, &mut out);
                Self::BLOB
            }
            Record::Data(offset, bytes) => {
                write_varint(&mut out, *offset);
                out.extend_from_slice(bytes);
                Self::DATA
            }
            Record::Grain(index, print) => {
                write_varint(&mut out, *index);
                write_varint(&mut out, *print);
                Self::GRAIN
            }
            Record::Whole => Self::WHOLE,
            Record::Gone(key) => {
                write_prefixed(&mut out, key.as_bytes());
                Self::GONE
            }
            Record::End => Self::END,
        };
        let length = u32::try_from(out.len() - HEADER_SIZE).expect("a record's body is bounded");
        out[4..8].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32c_append(crc32c(&out[..8]), &out[HEADER_SIZE..]);
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads the next one.
    pub fn read(from: &mut impl Read) -> std::io::Result<Next> {
        let mut header = [0; HEADER_SIZE];
        match read_up_to(from, &mut header)? {
            0 => return Ok(Next::Nothing),
            HEADER_SIZE => {}
            _ => return Ok(Next::Malformed("is cut off within a record")),
        }
        let [kind, zero, one, two, l0, l1, l2, l3, c0, c1, c2, c3] = header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if [zero, one, two] != [0; 3] || length > BODY_SIZE_MAX {
            return Ok(Next::Malformed("has a record that is none"));
        }
        // As much as comes, so that a wrong length takes no memory.
        let mut body = Vec::new();
        from.take(length as u64).read_to_end(&mut body)?;
        if body.len() < length {
            return Ok(Next::Malformed("is cut off within a record"));
        }
        if crc32c_append(crc32c(&header[..8]), &body) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Ok(Next::Malformed("has a record with a wrong checksum"));
        }
        Ok(match Self::decode(kind, body) {
            Ok(record) => Next::Record(record, (HEADER_SIZE + length) as u64),
            Err(Malformed(why)) => Next::Malformed(why),
        })
    }

    fn decode(kind: u8, mut body: Vec<u8>) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&body);
        let record = match kind {
            Self::BLOB => Record::Blob(decode_key(&mut reader)?, decode_blob(&mut reader)?),
            Self::DATA => {
                let offset = reader.varint()?;
                let bytes = reader.remaining();
                let is_within = offset.checked_add(bytes as u64).is_some_and(|end| end <= OFFSET_MAX);
                if !is_within {
                    return Err(Malformed("has data past the last offset"));
                }
                let start = body.len() - bytes;
                return Ok(Record::Data(offset, body.split_off(start)));
            }
            Self::GRAIN => Record::Grain(reader.varint()?, reader.varint()?),
            Self::WHOLE => Record::Whole,
            Self::GONE => Record::Gone(decode_key(&mut reader)?),
            Self::END => Record::End,
            _ => return Err(Malformed("has a record of an unknown kind")),
        };
        reader.finish()?;
        Ok(record)
    }
}

/// Fills the buffer as far as there is something.
pub fn read_up_to(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn decode_key(reader: &mut Reader<'_>) -> Result<Key, Malformed> {
    let bytes = reader.prefixed()?;
    if bytes.len() > KEY_SIZE_MAX {
        return Err(Malformed("has a key that is too long"));
    }
    Key::new(bytes).map_err(|_| Malformed("has a key that is none"))
}

fn encode_blob(blob: &Blob, out: &mut Vec<u8>) {
    write_varint(out, blob.created.to_u64());
    write_varint(out, blob.version.to_u64());
    write_varint(out, blob.size);
    write_varint(out, blob.attributes.iter().count() as u64);
    for (name, value) in blob.attributes.iter() {
        write_prefixed(out, name.as_bytes());
        write_prefixed(out, value);
    }
    write_varint(out, blob.grain);
    write_varint(out, blob.grains.len() as u64);
    for (index, grain) in &blob.grains {
        write_varint(out, *index);
        write_varint(out, grain.print);
        // Zero where the bytes are not here.
        write_varint(out, grain.place.map_or(0, |place| u64::from(place.volume) + 1));
        write_varint(out, grain.place.map_or(0, |place| place.position));
    }
}

fn decode_blob(reader: &mut Reader<'_>) -> Result<Blob, Malformed> {
    let (created, version) = (BlobId::from_u64(reader.varint()?), Number::from_u64(reader.varint()?));
    let size = reader.varint()?;
    if size > OFFSET_MAX {
        return Err(Malformed("has a blob that is too large"));
    }
    let mut attributes = Attributes::default();
    for _ in 0..reader.varint()? {
        let name = std::str::from_utf8(reader.prefixed()?);
        let name = name.map_err(|_| Malformed("has an attribute whose name is no text"))?;
        let value = reader.prefixed()?;
        attributes.set(name, Some(value)).map_err(|_| Malformed("has an attribute that is out of bounds"))?;
    }
    let grain = reader.varint()?;
    if !grain.is_power_of_two() || grain > OFFSET_MAX {
        return Err(Malformed("has a blob whose grain is no power of two"));
    }
    let mut grains = BTreeMap::new();
    for _ in 0..reader.varint()? {
        let (index, print) = (reader.varint()?, reader.varint()?);
        let (volume, position) = (reader.varint()?, reader.varint()?);
        let place = match volume.checked_sub(1) {
            None => None,
            Some(volume) => {
                let volume = u32::try_from(volume).map_err(|_| Malformed("names a volume that cannot be"))?;
                Some(Place { volume, position })
            }
        };
        if index.checked_mul(grain).is_none_or(|start| start >= size) {
            return Err(Malformed("has a grain past the end of its blob"));
        }
        grains.insert(index, Grain { print, place });
    }
    Ok(Blob { created, version, size, attributes, grain, grains, is_whole: false })
}
