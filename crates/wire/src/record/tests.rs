use alloc::{sync::Arc, vec};

use super::*;
use crate::{
    entry::{Blob, Head},
    extent::Extent,
};

fn key(text: &str) -> Key {
    Key::new(text).expect("valid key")
}

fn commit() -> Record {
    let mut attributes = Attributes::default();
    attributes.set("owner", Some(b"alice")).expect("fits");
    Record::Commit(Commit {
        number: Number::first_of_epoch(3),
        blobs: vec![
            BlobCommit {
                keyspace: KeyspaceId(1),
                key: key("a"),
                blob: BlobId::from_u64(7),
                existence: Existence::Keep,
                size_before: Some(10),
                size: 9010,
                cut: Some(4),
                holes: Vec::new(),
                attributes: Some(attributes),
                writes: vec![Written {
                    offset: 10,
                    len: 9000,
                    place: Place { segment: SegmentId(2), position: 8192 },
                    checksums: Checksums::of(&[1; 9000]),
                }],
            },
            BlobCommit {
                keyspace: KeyspaceId(2),
                key: key("b"),
                blob: BlobId::from_u64(8),
                existence: Existence::Create,
                size_before: None,
                size: 0,
                cut: None,
                holes: Vec::new(),
                attributes: None,
                writes: vec![],
            },
        ],
    })
}

/// One that leaves holes, and writes nothing.
fn punched() -> Record {
    let commit = BlobCommit {
        keyspace: KeyspaceId(1),
        key: key("a"),
        blob: BlobId::from_u64(7),
        existence: Existence::Keep,
        size_before: Some(90_000),
        size: 90_000,
        cut: None,
        holes: [300..70_000, 80_000..80_001].into(),
        attributes: None,
        writes: Vec::new(),
    };
    Record::Commit(Commit { number: Number::from_u64(9), blobs: vec![commit] })
}

fn every_kind() -> Vec<Record> {
    let blob = BlobId::from_u64(7);
    let extent = Extent {
        start: 0,
        len: 3,
        number: Number::from_u64(9),
        place: Place { segment: SegmentId(1), position: 100 },
        skip: 0,
        stored: 3,
        checksums: Checksums::of(b"abc"),
    };
    let head = Head { blob, number: Number::from_u64(9), size: 3, attributes: Arc::default() };
    let entry = Entry {
        applied: Number::from_u64(9),
        blobs: vec![Blob {
            id: blob,
            heads: vec![Arc::new(head)],
            cuts: vec![],
            reach: 3,
            leaf: vec![extent.clone()],
            deleted: None,
        }],
    };
    let leaf = Leaf { applied: Number::from_u64(9), extents: vec![extent] };
    let settings = KeyspaceSettings { quota: Some(0), ..KeyspaceSettings::default() };
    vec![
        commit(),
        punched(),
        Record::Entry(EntryState { keyspace: KeyspaceId(1), key: key("a"), entry }),
        Record::Leaf(LeafState { keyspace: KeyspaceId(1), key: key("a"), blob, index: 5, leaf }),
        Record::Keyspace(KeyspaceState {
            id: KeyspaceId(1),
            name: KeyspaceName::new("events").expect("valid name"),
            settings,
            snapshots: Vec::new(),
        }),
        Record::Keyspace(KeyspaceState {
            id: KeyspaceId(2),
            name: KeyspaceName::new("events").expect("valid name"),
            settings: KeyspaceSettings::default(),
            snapshots: vec![NamedSnapshot {
                name: KeyspaceName::new("monday").expect("valid name"),
                number: Number::from_u64(77),
                taken: 1_700_000_000,
            }],
        }),
        Record::KeyspaceDropped(KeyspaceId(1)),
    ]
}

#[test]
fn every_kind_comes_back_as_it_was() {
    for record in every_kind() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(Record::decode(&bytes), Ok(record));
    }
}

#[test]
fn a_record_cut_short_or_with_a_tail_is_refused() {
    for record in every_kind() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        for len in 0..bytes.len() {
            assert!(Record::decode(&bytes[..len]).is_err(), "{record:?} cut at {len}");
        }
        bytes.push(0);
        assert!(Record::decode(&bytes).is_err());
    }
}

#[test]
fn the_bytes_of_a_commit_do_not_change() {
    let mut bytes = Vec::new();
    commit().encode(&mut bytes);
    let hex: String = bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("commit.hex").trim());
}

#[test]
fn holes_follow_where_a_flag_says_so() {
    let mut bytes = Vec::new();
    punched().encode(&mut bytes);
    let (before, holes) = bytes.split_at(bytes.len() - 11);
    // Two: of 69 700 bytes at 300, of one byte at 80 000; and no writes.
    assert_eq!(holes, [2, 0xac, 2, 0xc4, 0xa0, 4, 0x80, 0xf1, 4, 1, 0]);
    assert_eq!(before[3] & BlobCommit::HOLES, BlobCommit::HOLES);
}

#[test]
fn a_count_that_the_bytes_cannot_hold_is_refused() {
    let mut bytes = vec![1, 9];
    write_varint(&mut bytes, u64::MAX);
    assert!(Record::decode(&bytes).is_err());
}
