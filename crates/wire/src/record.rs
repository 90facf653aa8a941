//! The records of the log: what a replay needs to rebuild every object of a store.
//!
//! A record is stored as its payload bytes followed by its body (see [`crate::frame`]); this module encodes bodies.
//! Places are absolute, so a body is encoded after its payload has been given a place.

use alloc::{string::String, vec::Vec};
use core::ops::Range;

use tyr_types::{Attributes, BlobId, Durability, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number};

use crate::{
    entry::{Entry, decode_attributes, decode_list, encode_attributes},
    extent::{Checksums, Leaf, Place, SegmentId},
    varint::{Malformed, Reader, write_prefixed, write_varint},
};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A transaction.
    Commit(Commit),
    /// An entry as it is now; everything about it that came before is void.
    Entry(EntryState),
    /// A leaf, other than a blob's first, as it is now.
    Leaf(LeafState),
    /// A keyspace was created or altered.
    Keyspace(KeyspaceState),
    /// A keyspace was dropped, with all its blobs.
    KeyspaceDropped(KeyspaceId),
}

/// A transaction: all of it holds, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its number.
    pub number: Number,
    /// What it did, blob by blob.
    pub blobs: Vec<BlobCommit>,
}

/// What a transaction does to the existence of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Existence {
    /// Nothing: it exists before and after.
    Keep = 0,
    /// It did not exist and does now.
    Create = 1,
    /// It existed and is gone.
    Delete = 2,
    /// It is gone, and another blob has the key.
    Replace = 3,
}

/// What a transaction did to one blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobCommit {
    /// Keyspace of the blob.
    pub keyspace: KeyspaceId,
    /// Key of the blob.
    pub key: Key,
    /// The blob that has the key afterwards, or had it before a delete.
    pub blob: BlobId,
    /// What became of its existence.
    pub existence: Existence,
    /// Its size before, if it existed: keyspace totals are kept by differences.
    pub size_before: Option<u64>,
    /// Its size afterwards.
    pub size: u64,
    /// Bytes at and beyond were cut off first.
    pub cut: Option<u64>,
    /// Of these ranges nothing is left; they are disjoint, also from what was written.
    pub holes: Vec<Range<u64>>,
    /// All attributes, if they changed.
    pub attributes: Option<Attributes>,
    /// What was written, in disjoint ranges.
    pub writes: Vec<Written>,
}

/// A range that was written, and where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// First byte in the blob.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
    /// Where they are.
    pub place: Place,
    /// Of the bytes.
    pub checksums: Checksums,
}

/// See [`Record::Entry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryState {
    /// Keyspace of the entry.
    pub keyspace: KeyspaceId,
    /// Key of the entry.
    pub key: Key,
    /// The entry.
    pub entry: Entry,
}

/// See [`Record::Leaf`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafState {
    /// Keyspace of the blob.
    pub keyspace: KeyspaceId,
    /// Key of the blob.
    pub key: Key,
    /// The blob.
    pub blob: BlobId,
    /// Which leaf, from 1: bytes `[index * LEAF_SPAN, (index + 1) * LEAF_SPAN)`.
    pub index: u64,
    /// The leaf.
    pub leaf: Leaf,
}

/// See [`Record::Keyspace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceState {
    /// Its identity.
    pub id: KeyspaceId,
    /// Its name.
    pub name: KeyspaceName,
    /// Its settings.
    pub settings: KeyspaceSettings,
    /// Its snapshots that have a name, in the order in which they were taken.
    pub snapshots: Vec<NamedSnapshot>,
}

/// A keyspace at one point, kept until it is dropped by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSnapshot {
    /// Its name; no two of a keyspace have the same. Snapshots are named as keyspaces are.
    pub name: KeyspaceName,
    /// The last transaction that it shows.
    pub number: Number,
    /// When it was taken, in seconds since 1970.
    pub taken: u64,
}

impl Record {
    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Commit(commit) => {
                out.push(1);
                commit.encode(out);
            }
            Record::Entry(state) => {
                out.push(2);
                encode_name(state.keyspace, &state.key, out);
                state.entry.encode(out);
            }
            Record::Leaf(state) => {
                out.push(3);
                encode_name(state.keyspace, &state.key, out);
                write_varint(out, state.blob.to_u64());
                write_varint(out, state.index);
                state.leaf.encode(out);
            }
            Record::Keyspace(state) => {
                out.push(4);
                state.encode(out);
            }
            Record::KeyspaceDropped(id) => {
                out.push(5);
                write_varint(out, u64::from(id.0));
            }
        }
    }

    /// Reads one back; the bytes hold exactly one.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let record = match reader.u8()? {
            1 => Record::Commit(Commit::decode(&mut reader)?),
            2 => {
                let (keyspace, key) = decode_name(&mut reader)?;
                Record::Entry(EntryState { keyspace, key, entry: Entry::decode(&mut reader)? })
            }
            3 => {
                let (keyspace, key) = decode_name(&mut reader)?;
                let (blob, index) = (BlobId::from_u64(reader.varint()?), reader.varint()?);
                Record::Leaf(LeafState { keyspace, key, blob, index, leaf: Leaf::decode(&mut reader)? })
            }
            4 => Record::Keyspace(KeyspaceState::decode(&mut reader)?),
            5 => Record::KeyspaceDropped(KeyspaceId(reader.varint_u32()?)),
            _ => return Err(Malformed("a record is of an unknown kind")),
        };
        reader.finish()?;
        Ok(record)
    }
}

impl Commit {
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, self.number.to_u64());
        write_varint(out, self.blobs.len() as u64);
        self.blobs.iter().for_each(|blob| blob.encode(out));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let number = Number::from_u64(reader.varint()?);
        Ok(Commit { number, blobs: decode_list(reader, BlobCommit::decode)? })
    }
}

impl BlobCommit {
    const CUT: u8 = 1 << 2;
    const ATTRIBUTES: u8 = 1 << 3;
    const EXISTED: u8 = 1 << 4;
    const HOLES: u8 = 1 << 5;

    fn encode(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            self.existence as u8
                | flag(self.cut.is_some(), Self::CUT)
                | flag(self.attributes.is_some(), Self::ATTRIBUTES)
                | flag(self.size_before.is_some(), Self::EXISTED)
                | flag(!self.holes.is_empty(), Self::HOLES),
        );
        encode_name(self.keyspace, &self.key, out);
        write_varint(out, self.blob.to_u64());
        write_varint(out, self.size);
        self.size_before.iter().for_each(|&size| write_varint(out, size));
        self.cut.iter().for_each(|&cut| write_varint(out, cut));
        if !self.holes.is_empty() {
            write_varint(out, self.holes.len() as u64);
            for hole in &self.holes {
                write_varint(out, hole.start);
                write_varint(out, hole.end - hole.start);
            }
        }
        self.attributes.iter().for_each(|attributes| encode_attributes(attributes, out));
        write_varint(out, self.writes.len() as u64);
        for write in &self.writes {
            write_varint(out, write.offset);
            write_varint(out, u64::from(write.len));
            encode_place(write.place, out);
            write.checksums.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = reader.u8()?;
        if flags >> 6 != 0 {
            return Err(Malformed("a blob's commit has unknown flags"));
        }
        let existence = match flags & 3 {
            0 => Existence::Keep,
            1 => Existence::Create,
            2 => Existence::Delete,
            _ => Existence::Replace,
        };
        let (keyspace, key) = decode_name(reader)?;
        let (blob, size) = (BlobId::from_u64(reader.varint()?), reader.varint()?);
        let size_before = if flags & Self::EXISTED != 0 { Some(reader.varint()?) } else { None };
        let cut = if flags & Self::CUT != 0 { Some(reader.varint()?) } else { None };
        let holes = if flags & Self::HOLES != 0 { decode_list(reader, decode_hole)? } else { Vec::new() };
        if holes.is_empty() != (flags & Self::HOLES == 0) {
            return Err(Malformed("a blob's commit says that it has holes, and has none"));
        }
        let attributes = if flags & Self::ATTRIBUTES != 0 { Some(decode_attributes(reader)?) } else { None };
        let writes = decode_list(reader, Written::decode)?;
        Ok(BlobCommit { keyspace, key, blob, existence, size_before, size, cut, holes, attributes, writes })
    }
}

fn decode_hole(reader: &mut Reader<'_>) -> Result<Range<u64>, Malformed> {
    let (start, len) = (reader.varint()?, reader.varint()?);
    match tyr_types::range_end(start, len) {
        Ok(end) if len > 0 => Ok(start..end),
        _ => Err(Malformed("a hole is out of bounds")),
    }
}

impl Written {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (offset, len) = (reader.varint()?, reader.varint_u32()?);
        let place = decode_place(reader)?;
        if len == 0 || tyr_types::range_end(offset, u64::from(len)).is_err() {
            return Err(Malformed("a write's range is out of bounds"));
        }
        Ok(Written { offset, len, place, checksums: Checksums::decode(reader, len)? })
    }
}

impl KeyspaceState {
    /// Snapshots follow. Without any, the bytes are those of the time before there were any.
    const SNAPSHOTS: u8 = 1 << 1;

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.id.0));
        write_prefixed(out, self.name.as_str().as_bytes());
        out.push(self.settings.durability as u8);
        let has_snapshots = if self.snapshots.is_empty() { 0 } else { Self::SNAPSHOTS };
        out.push(u8::from(self.settings.multi_version) | has_snapshots);
        write_varint(out, self.settings.chunk_size);
        write_varint(out, self.settings.quota.map_or(0, |quota| quota.saturating_add(1)));
        if has_snapshots != 0 {
            write_varint(out, self.snapshots.len() as u64);
            for snapshot in &self.snapshots {
                write_prefixed(out, snapshot.name.as_str().as_bytes());
                write_varint(out, snapshot.number.to_u64());
                write_varint(out, snapshot.taken);
            }
        }
    }

    /// Reads one back.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let id = KeyspaceId(reader.varint_u32()?);
        let name = decode_keyspace_name(reader)?;
        let durability = match reader.u8()? {
            0 => Durability::Memory,
            1 => Durability::Disk,
            _ => return Err(Malformed("a keyspace's durability is unknown")),
        };
        let flags = reader.u8()?;
        if flags & !(1 | Self::SNAPSHOTS) != 0 {
            return Err(Malformed("a keyspace's versioning is unknown"));
        }
        let multi_version = flags & 1 != 0;
        let settings = KeyspaceSettings {
            durability,
            multi_version,
            chunk_size: reader.varint()?,
            quota: reader.varint()?.checked_sub(1),
        };
        settings.check().map_err(|_| Malformed("a keyspace's settings are out of bounds"))?;
        let snapshots = match flags & Self::SNAPSHOTS {
            0 => Vec::new(),
            _ => decode_list(reader, NamedSnapshot::decode)?,
        };
        if flags & Self::SNAPSHOTS != 0 && snapshots.is_empty() {
            return Err(Malformed("a keyspace has no snapshots where some are said to follow"));
        }
        Ok(KeyspaceState { id, name, settings, snapshots })
    }
}

impl NamedSnapshot {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = decode_keyspace_name(reader)?;
        Ok(NamedSnapshot { name, number: Number::from_u64(reader.varint()?), taken: reader.varint()? })
    }
}

fn decode_keyspace_name(reader: &mut Reader<'_>) -> Result<KeyspaceName, Malformed> {
    let name = String::from_utf8(reader.prefixed()?.into())
        .map_err(|_| Malformed("a keyspace's name is no text"))?;
    KeyspaceName::new(&name).map_err(|_| Malformed("a keyspace's name is not allowed"))
}

fn encode_name(keyspace: KeyspaceId, key: &Key, out: &mut Vec<u8>) {
    write_varint(out, u64::from(keyspace.0));
    write_prefixed(out, key.as_bytes());
}

fn decode_name(reader: &mut Reader<'_>) -> Result<(KeyspaceId, Key), Malformed> {
    let keyspace = KeyspaceId(reader.varint_u32()?);
    let key = Key::new(reader.prefixed()?).map_err(|_| Malformed("a key's length is out of bounds"))?;
    Ok((keyspace, key))
}

fn encode_place(place: Place, out: &mut Vec<u8>) {
    write_varint(out, place.segment.0);
    write_varint(out, u64::from(place.position));
}

fn decode_place(reader: &mut Reader<'_>) -> Result<Place, Malformed> {
    Ok(Place { segment: SegmentId(reader.varint()?), position: reader.varint_u32()? })
}

#[cfg(test)]
mod tests;
