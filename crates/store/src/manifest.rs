//! The manifest: where a replay of the log begins, and everything that a checkpoint knows besides the index.
//!
//! It is one small file that is replaced as a whole: written under another name, synced, renamed, names synced. A store is what its
//! manifest says plus the log from [`Manifest::position`] on.

use std::io;

use tyr_env::{Access, BLOCK_SIZE, Blocks, Disk};
use tyr_types::{BlobId, Error, Key, KeyspaceId, Number, Result};
use tyr_wire::{
    Malformed, Reader,
    extent::{LEAF_SPAN, Place, SegmentId},
    frame::{FORMAT_VERSION, SegmentKind},
    record::KeyspaceState,
    varint::{write_prefixed, write_varint},
};

use crate::{
    failure::disk_error,
    garbage::Garbage,
    index::TableSummary,
    index_key::{EntryKey, LeafKey},
    log::LogPosition,
    options::{SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN},
};

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The store's identity.
    pub identity: [u8; 16],
    /// The opening that wrote it.
    pub epoch: u32,
    /// Whether the store was closed: the log ends at `position`.
    pub clean: bool,
    /// Capacity of segments.
    pub segment_size: u32,
    /// Where the replay begins; segment 0 if the log has no segment yet.
    pub position: LogPosition,
    /// The last transaction before `position`.
    pub last: Number,
    /// No segment with an id below is in use but `segments`; those from here on may have come into use since.
    pub next_segment: SegmentId,
    /// No segment ever had this id or a higher one.
    pub unused_segment: SegmentId,
    /// Newest first.
    pub tables: Vec<TableSummary>,
    /// All segments in use.
    pub segments: Vec<SegmentState>,
    /// The id of the next keyspace.
    pub next_keyspace: u32,
    /// All keyspaces with their number of blobs and bytes at `position`.
    pub keyspaces: Vec<(KeyspaceState, u64, u64)>,
    /// What is still to be collected.
    pub garbage: Vec<Garbage>,
    /// Entries that have a history.
    pub historic_entries: Vec<EntryKey>,
    /// Leaves that have a history, with the entry of their blob.
    pub historic_leaves: Vec<(LeafKey, Key)>,
}

/// A segment, as a manifest has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// Its identity.
    pub id: SegmentId,
    /// What it holds.
    pub kind: SegmentKind,
    /// Bytes that live extents refer to, roughly.
    pub live: u64,
    /// One past the last byte in use.
    pub filled: u64,
}

/// The manifest's file name.
pub const MANIFEST_NAME: &str = "manifest";
/// Its name while it is being written.
pub const MANIFEST_NEW_NAME: &str = "manifest-new";
/// The most of what may count as live in a segment.
pub const SEGMENT_LIVE_MAX: u64 = u32::MAX as u64;

const MAGIC: u64 = u64::from_le_bytes(*b"TyrMnfst");
const HEADER_SIZE: usize = 20;
/// More than anybody counts to.
const COUNT_MAX: u64 = 1 << 60;
/// One past the last leaf of the largest blob.
const LEAF_INDEX_MAX: u64 = tyr_types::OFFSET_MAX / LEAF_SPAN + 1;
/// Bytes behind the header, whose length has 32 bits there.
const BODY_SIZE_MAX: u64 = u32::MAX as u64;

impl Manifest {
    /// Replaces the manifest on disk, durably.
    pub fn write(&self, disk: &dyn Disk) -> Result<()> {
        let mut body = Vec::new();
        self.encode(&mut body);
        let len = u32::try_from(body.len()).ok().filter(|len| u64::from(*len) <= BODY_SIZE_MAX);
        let len = len.ok_or_else(|| Error::internal("the manifest is larger than 4 GiB"))?;
        let mut blocks = Blocks::zeroed(HEADER_SIZE + body.len());
        let bytes = blocks.as_bytes_mut();
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&len.to_le_bytes());
        bytes[16..20].copy_from_slice(&tyr_wire::checksum::crc32c(&body).to_le_bytes());
        bytes[HEADER_SIZE..HEADER_SIZE + body.len()].copy_from_slice(&body);
        replace(disk, &blocks).map_err(|error| disk_error("writing the manifest", &error))
    }

    /// Reads the manifest; `None` if there is none.
    pub fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        let failed = |error| disk_error("reading the manifest", &error);
        let file = match disk.open(MANIFEST_NAME, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let length = file.length().map_err(failed)?;
        if length > (HEADER_SIZE as u64 + BODY_SIZE_MAX).next_multiple_of(BLOCK_SIZE as u64) {
            return Err(damaged("it is too long"));
        }
        let mut blocks = Blocks::zeroed(usize::try_from(length).unwrap_or(0));
        let bytes = &mut blocks.as_bytes_mut()[..usize::try_from(length).unwrap_or(0)];
        file.read_at(0, bytes).map_err(failed)?;
        Self::parse(bytes).map(Some)
    }

    /// Decodes the bytes of a manifest's file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u64().ok() != Some(MAGIC) {
            return Err(damaged("it does not begin as one"));
        }
        let version = reader.u32()?;
        if !(1..=FORMAT_VERSION).contains(&version) {
            return Err(Error::unavailable(format!(
                "the store has format version {version}, this program reads versions up to {FORMAT_VERSION}; use a matching release of Týr"
            )));
        }
        let (len, checksum) = (reader.u32()? as usize, reader.u32()?);
        let body = reader.bytes(len).map_err(|_| damaged("it ends early"))?;
        if tyr_wire::checksum::crc32c(body) != checksum {
            return Err(damaged("its checksum does not match"));
        }
        let mut reader = Reader::new(body);
        let manifest = Self::decode(&mut reader).and_then(|manifest| {
            reader.finish()?;
            manifest.check()?;
            Ok(manifest)
        });
        manifest.map_err(|malformed| damaged(malformed.0))
    }

    /// Fails if a number is larger than any store's, so that whoever calculates with it need not fear an overflow.
    fn check(&self) -> Result<(), Malformed> {
        let size = u64::from(self.segment_size);
        let is_segment = |segment: &SegmentState| {
            segment.id.0 <= COUNT_MAX && segment.live <= SEGMENT_LIVE_MAX && segment.filled <= size
        };
        let is_keyspace = |(state, ..): &(KeyspaceState, u64, u64)| state.id.0 < self.next_keyspace;
        let is_leaf = |((_, _, index), _): &(LeafKey, Key)| *index <= LEAF_INDEX_MAX;
        let is_garbage = |garbage: &Garbage| garbage.from() <= LEAF_INDEX_MAX;
        let sound = size.is_power_of_two()
            && (SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&size)
            && u64::from(self.position.place.position) <= size
            && self.position.sequence <= COUNT_MAX
            && self.next_segment <= self.unused_segment
            && self.unused_segment.0 <= COUNT_MAX
            && self.next_keyspace < u32::MAX
            && self.segments.iter().all(is_segment)
            && self.keyspaces.iter().all(is_keyspace)
            && self.garbage.iter().all(is_garbage)
            && self.historic_leaves.iter().all(is_leaf);
        if sound { Ok(()) } else { Err(Malformed("a number in it is out of bounds")) }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.identity);
        write_varint(out, u64::from(self.epoch));
        out.push(u8::from(self.clean));
        write_varint(out, u64::from(self.segment_size));
        write_varint(out, self.position.place.segment.0);
        write_varint(out, u64::from(self.position.place.position));
        write_varint(out, self.position.sequence);
        write_varint(out, self.last.to_u64());
        write_varint(out, self.next_segment.0);
        encode_list(&self.tables, out, |table, out| table.encode_into(out));
        encode_list(&self.segments, out, SegmentState::encode);
        write_varint(out, u64::from(self.next_keyspace));
        encode_list(&self.keyspaces, out, |(state, blobs, bytes), out| {
            state.encode(out);
            write_varint(out, *blobs);
            write_varint(out, *bytes);
        });
        encode_list(&self.garbage, out, Garbage::encode);
        encode_list(&self.historic_entries, out, |(keyspace, key), out| {
            write_varint(out, u64::from(keyspace.0));
            write_prefixed(out, key.as_bytes());
        });
        encode_list(&self.historic_leaves, out, |((keyspace, blob, index), key), out| {
            write_varint(out, u64::from(keyspace.0));
            write_varint(out, blob.to_u64());
            write_varint(out, *index);
            write_prefixed(out, key.as_bytes());
        });
        write_varint(out, self.unused_segment.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let identity = reader.array()?;
        let epoch = reader.varint_u32()?;
        let clean = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed("whether it was closed is neither yes nor no")),
        };
        let segment_size = reader.varint_u32()?;
        let place = Place { segment: SegmentId(reader.varint()?), position: reader.varint_u32()? };
        let position = LogPosition { place, sequence: reader.varint()? };
        let last = Number::from_u64(reader.varint()?);
        let next_segment = SegmentId(reader.varint()?);
        let tables = decode_list(reader, TableSummary::decode)?;
        let segments = decode_list(reader, SegmentState::decode)?;
        let next_keyspace = reader.varint_u32()?;
        let keyspaces = decode_list(reader, |reader| {
            Ok((KeyspaceState::decode(reader)?, reader.varint()?, reader.varint()?))
        })?;
        let garbage = decode_list(reader, Garbage::decode)?;
        let historic_entries =
            decode_list(reader, |reader| Ok((KeyspaceId(reader.varint_u32()?), decode_key(reader)?)))?;
        let historic_leaves = decode_list(reader, |reader| {
            let leaf =
                (KeyspaceId(reader.varint_u32()?), BlobId::from_u64(reader.varint()?), reader.varint()?);
            Ok((leaf, decode_key(reader)?))
        })?;
        // The first manifests of this version end here.
        let unused_segment = if reader.is_empty() { next_segment } else { SegmentId(reader.varint()?) };
        Ok(Manifest {
            identity,
            epoch,
            clean,
            segment_size,
            position,
            last,
            next_segment,
            unused_segment,
            tables,
            segments,
            next_keyspace,
            keyspaces,
            garbage,
            historic_entries,
            historic_leaves,
        })
    }
}

impl SegmentState {
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, self.id.0);
        write_varint(
            out,
            match self.kind {
                SegmentKind::Log => 0,
                SegmentKind::Bulk(keyspace) => u64::from(keyspace.0) + 1,
            },
        );
        write_varint(out, self.live);
        write_varint(out, self.filled);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let id = SegmentId(reader.varint()?);
        let kind = match reader.varint()?.checked_sub(1) {
            None => SegmentKind::Log,
            Some(keyspace) => SegmentKind::Bulk(KeyspaceId(
                u32::try_from(keyspace).map_err(|_| Malformed("a keyspace's id is larger than 32 bits"))?,
            )),
        };
        Ok(SegmentState { id, kind, live: reader.varint()?, filled: reader.varint()? })
    }
}

pub(crate) fn decode_key(reader: &mut Reader<'_>) -> Result<Key, Malformed> {
    Key::new(reader.prefixed()?).map_err(|_| Malformed("a key's length is out of bounds"))
}

fn encode_list<T>(list: &[T], out: &mut Vec<u8>, encode: impl Fn(&T, &mut Vec<u8>)) {
    write_varint(out, list.len() as u64);
    list.iter().for_each(|element| encode(element, out));
}

fn decode_list<'a, T>(
    reader: &mut Reader<'a>,
    mut decode: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = reader.varint_usize()?;
    if count > reader.remaining() {
        return Err(Malformed("there are fewer elements than announced"));
    }
    (0..count).map(|_| decode(reader)).collect()
}

fn replace(disk: &dyn Disk, blocks: &Blocks) -> io::Result<()> {
    match disk.remove(MANIFEST_NEW_NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(MANIFEST_NEW_NAME, Access::Create)?;
    file.reserve(blocks.len() as u64)?;
    file.write_at(0, blocks.as_bytes())?;
    file.sync()?;
    disk.rename(MANIFEST_NEW_NAME, MANIFEST_NAME)?;
    disk.sync_names()
}

fn damaged(why: &str) -> Error {
    Error::corrupt(format!("the manifest is damaged: {why}; restore the directory from a backup"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn manifest() -> Manifest {
        Manifest {
            identity: [3; 16],
            epoch: 2,
            clean: true,
            segment_size: 1 << 20,
            position: LogPosition { place: Place { segment: SegmentId(1), position: 4096 }, sequence: 17 },
            last: Number::first_of_epoch(2),
            next_segment: SegmentId(5),
            unused_segment: SegmentId(8),
            tables: Vec::new(),
            segments: vec![SegmentState {
                id: SegmentId(4),
                kind: SegmentKind::Bulk(KeyspaceId(1)),
                live: 7,
                filled: 8192,
            }],
            next_keyspace: 2,
            keyspaces: Vec::new(),
            garbage: Vec::new(),
            historic_entries: vec![(KeyspaceId(1), Key::new("a").expect("valid"))],
            historic_leaves: Vec::new(),
        }
    }

    fn bytes() -> Vec<u8> {
        let disk = tyr_sim_env::SimDisk::new(1);
        manifest().write(&*disk).expect("writes");
        disk.read_file(MANIFEST_NAME).expect("is there")
    }

    #[test]
    fn it_comes_back_as_it_was() {
        assert_eq!(Manifest::parse(&bytes()), Ok(manifest()));
    }

    #[test]
    fn a_newer_version_is_refused_with_its_number() {
        let mut bytes = bytes();
        bytes[8..12].copy_from_slice(&9u32.to_le_bytes());
        let error = Manifest::parse(&bytes).expect_err("refused");
        assert!(error.message().contains("format version 9"), "{error}");
    }

    #[test]
    fn every_damaged_byte_is_found() {
        let bytes = bytes();
        let used = HEADER_SIZE + u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        for position in 0..used {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x40;
            assert!(Manifest::parse(&damaged).is_err(), "byte {position}");
        }
    }
}
