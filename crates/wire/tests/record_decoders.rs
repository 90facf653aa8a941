//! No bytes make a decoder of records, entries, leaves, or keyspaces panic or reserve memory that they do not justify; what it
//! accepts has no other encoding; and whatever is encoded comes back.

mod limit;

use std::{ops::Range, sync::Arc};

use tyr_types::{Attributes, BlobId, Durability, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number};
use tyr_wire::{
    Malformed, Reader,
    entry::{Blob, Cut, Entry, Head},
    extent::{Checksums, Extent, LEAF_SPAN, Leaf, Place, SegmentId},
    record::{
        BlobCommit, Commit, EntryState, Existence, KeyspaceState, LeafState, NamedSnapshot, Record, Written,
    },
};

/// Makes values of the bytes that a fuzzer gives, so that it reaches what random bytes never spell.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Of any magnitude.
    fn number(&mut self) -> u64 {
        let width = u32::from(self.byte()) % 65;
        let bytes = [(); 8].map(|()| self.byte());
        u64::from_le_bytes(bytes).checked_shr(64 - width).unwrap_or(0)
    }

    /// At most `most`.
    fn up_to(&mut self, most: u64) -> u64 {
        self.number() % (most + 1)
    }

    fn small(&mut self, most: u32) -> u32 {
        u32::try_from(self.up_to(most.into())).expect("at most a u32")
    }

    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let len = self.byte() % 4;
        (0..len).map(|_| element(self)).collect()
    }

    fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() % 2 == 1).then(|| value(self))
    }

    fn version(&mut self) -> Number {
        Number::from_u64(self.number())
    }

    fn blob_id(&mut self) -> BlobId {
        BlobId::from_u64(self.number())
    }

    fn keyspace(&mut self) -> KeyspaceId {
        KeyspaceId(self.small(u32::MAX))
    }

    fn key(&mut self) -> Key {
        let rest = self.list(Source::byte);
        Key::new([&[self.byte()][..], &rest].concat()).expect("not empty, and short")
    }

    fn attributes(&mut self) -> Attributes {
        let mut attributes = Attributes::default();
        for _ in 0..self.byte() % 4 {
            let value = self.list(Source::byte);
            let name = char::from(b'a' + self.byte() % 26).to_string();
            attributes.set(&name, Some(&value)).expect("fits");
        }
        attributes
    }

    fn place(&mut self) -> Place {
        Place { segment: SegmentId(self.number()), position: self.small(u32::MAX) }
    }

    fn checksums(&mut self, stored: u32) -> Checksums {
        let count = stored.div_ceil(4096);
        let mut one = || u32::from_le_bytes([(); 4].map(|()| self.byte()));
        if count == 1 {
            return Checksums::One(one());
        }
        Checksums::Many((0..count).map(|_| one()).collect())
    }

    fn extent(&mut self) -> Extent {
        let span = u32::try_from(LEAF_SPAN).expect("fits");
        let start = self.small(span - 1);
        let len = 1 + self.small(span - start - 1);
        if self.byte().is_multiple_of(4) {
            return Extent::hole(start, len, self.version());
        }
        let skip = self.small(4095);
        let stored = skip + len + self.small(4096);
        let (number, place) = (self.version(), self.place());
        Extent { start, len, number, place, skip, stored, checksums: self.checksums(stored) }
    }

    fn head(&mut self, blob: BlobId) -> Arc<Head> {
        let (number, size) = (self.version(), self.number());
        Arc::new(Head { blob, number, size, attributes: Arc::new(self.attributes()) })
    }

    fn blob(&mut self) -> Blob {
        let id = self.blob_id();
        let mut heads = vec![self.head(id)];
        heads.extend(self.list(|source| source.head(id)));
        let cuts = self.list(|source| Cut { number: source.version(), from: source.number() });
        let deleted = self.option(Source::version).filter(|number| *number != Number::ZERO);
        Blob { id, heads, cuts, reach: self.number(), leaf: self.list(Source::extent), deleted }
    }

    fn entry(&mut self) -> Entry {
        Entry { applied: self.version(), blobs: self.list(Source::blob) }
    }

    fn leaf(&mut self) -> Leaf {
        Leaf { applied: self.version(), extents: self.list(Source::extent) }
    }

    fn written(&mut self) -> Written {
        let len = 1 + self.small(1 << 16);
        let offset = self.up_to((1 << 63) - 1 - u64::from(len));
        Written { offset, len, place: self.place(), checksums: self.checksums(len) }
    }

    fn hole(&mut self) -> Range<u64> {
        let len = 1 + u64::from(self.small(1 << 30));
        let start = self.up_to((1 << 63) - 1 - len);
        start..start + len
    }

    fn blob_commit(&mut self) -> BlobCommit {
        let existence = [Existence::Keep, Existence::Create, Existence::Delete, Existence::Replace];
        BlobCommit {
            keyspace: self.keyspace(),
            key: self.key(),
            blob: self.blob_id(),
            existence: existence[usize::from(self.byte() % 4)],
            size_before: self.option(Source::number),
            size: self.number(),
            cut: self.option(Source::number),
            holes: self.list(Source::hole),
            attributes: self.option(Source::attributes),
            writes: self.list(Source::written),
        }
    }

    fn keyspace_state(&mut self) -> KeyspaceState {
        let settings = KeyspaceSettings {
            durability: if self.byte().is_multiple_of(2) { Durability::Memory } else { Durability::Disk },
            multi_version: self.byte().is_multiple_of(2),
            chunk_size: 1 << (16 + self.byte() % 8),
            quota: self.option(Source::number).filter(|quota| *quota < u64::MAX),
        };
        let name = KeyspaceName::new(&format!("k{}", self.byte())).expect("allowed");
        let id = self.keyspace();
        KeyspaceState { id, name, settings, snapshots: self.list(Source::snapshot) }
    }

    fn snapshot(&mut self) -> NamedSnapshot {
        let name = KeyspaceName::new(&format!("s{}", self.byte())).expect("allowed");
        NamedSnapshot { name, number: Number::from_u64(self.number()), taken: self.number() }
    }

    fn record(&mut self) -> Record {
        match self.byte() % 5 {
            0 => Record::Commit(Commit { number: self.version(), blobs: self.list(Source::blob_commit) }),
            1 => {
                Record::Entry(EntryState { keyspace: self.keyspace(), key: self.key(), entry: self.entry() })
            }
            2 => Record::Leaf(LeafState {
                keyspace: self.keyspace(),
                key: self.key(),
                blob: self.blob_id(),
                index: self.number(),
                leaf: self.leaf(),
            }),
            3 => Record::Keyspace(self.keyspace_state()),
            _ => Record::KeyspaceDropped(self.keyspace()),
        }
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

/// What was read has no other encoding than the bytes that it was read from.
fn expect_canonical<'a, T>(
    bytes: &'a [u8],
    decode: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    encode: impl FnOnce(&T, &mut Vec<u8>),
) {
    let mut reader = Reader::new(bytes);
    let Ok(value) = decode(&mut reader) else { return };
    let read = &bytes[..bytes.len() - reader.remaining()];
    assert_eq!(encoded(|out| encode(&value, out)), read);
}

fn use_record(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        assert_eq!(encoded(|out| record.encode(out)), bytes, "{record:?}");
    }
}

/// Some bytes replaced: each pair of `damage` says which and by what.
fn damaged(mut valid: Vec<u8>, damage: &[u8]) -> Vec<u8> {
    let size = valid.len();
    for [position, byte] in damage.as_chunks().0.iter().take(4) {
        valid[usize::from(*position) % size] = *byte;
    }
    valid
}

#[test]
fn records_survive_any_bytes() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        use_record(bytes);
        // Every kind, with the rest left to chance.
        (1..6).for_each(|kind| use_record(&[&[kind], bytes].concat()));
    });
}

#[test]
fn damaged_records_survive() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        let (damage, bytes) = bytes.split_at(bytes.len().min(8));
        let record = Source(bytes).record();
        let valid = encoded(|out| record.encode(out));
        assert_eq!(Record::decode(&valid), Ok(record));
        use_record(&damaged(valid, damage));
    });
}

#[test]
fn entries_leaves_and_keyspaces_survive_any_bytes() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        expect_canonical(bytes, Entry::decode, Entry::encode);
        expect_canonical(bytes, Leaf::decode, Leaf::encode);
        expect_canonical(bytes, Extent::decode, Extent::encode);
        expect_canonical(bytes, KeyspaceState::decode, KeyspaceState::encode);
    });
}

#[test]
fn damaged_entries_leaves_and_keyspaces_survive() {
    limit::memory();
    bolero::check!().for_each(|bytes: &[u8]| {
        let (damage, bytes) = bytes.split_at(bytes.len().min(8));
        let source = &mut Source(bytes);
        let entry = encoded(|out| source.entry().encode(out));
        expect_canonical(&damaged(entry, damage), Entry::decode, Entry::encode);
        let leaf = encoded(|out| source.leaf().encode(out));
        expect_canonical(&damaged(leaf, damage), Leaf::decode, Leaf::encode);
        let keyspace = encoded(|out| source.keyspace_state().encode(out));
        expect_canonical(&damaged(keyspace, damage), KeyspaceState::decode, KeyspaceState::encode);
    });
}

#[test]
fn counts_without_elements_are_refused_before_memory_is_reserved() {
    limit::memory();
    let huge = encoded(|out| tyr_wire::varint::write_varint(out, u64::MAX));
    for count in [&huge[..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff, 0xff, 0x03]] {
        let bytes = [&[9], count, &[0; 100]].concat();
        assert!(Entry::decode(&mut Reader::new(&bytes)).is_err());
        assert!(Leaf::decode(&mut Reader::new(&bytes)).is_err());
        assert!(Record::decode(&[&[1][..], &bytes].concat()).is_err());
    }
}
