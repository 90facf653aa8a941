//! Fuzz targets: no bytes make a decoder of the engine panic, and what it accepts has no other encoding.
//!
//! Those of what lies inside records are in `tyr-wire`.

use tyr_types::{BlobId, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number};
use tyr_wire::{
    Malformed, Reader,
    record::{KeyspaceState, NamedSnapshot},
    table::{TableId, TableSummary},
};

use crate::{
    backlog::Owner,
    garbage::Garbage,
    index_key::{self, IndexKey},
    manifest::Manifest,
};

/// As many values one after the other as the bytes hold.
fn expect_canonical<'a, T>(
    bytes: &'a [u8],
    decode: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>,
    encode: impl Fn(&T, &mut Vec<u8>),
) {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let before = reader.rest();
        let Ok(value) = decode(&mut reader) else { return };
        let mut again = Vec::new();
        encode(&value, &mut again);
        assert_eq!(again, before[..before.len() - reader.remaining()]);
    }
}

#[test]
fn garbage_and_owners_survive_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        expect_canonical(bytes, Garbage::decode, Garbage::encode);
        expect_canonical(bytes, Owner::decode, Owner::encode);
    });
}

#[test]
fn index_keys_survive_any_bytes() {
    bolero::check!().for_each(|bytes: &[u8]| {
        for kind in 0..5 {
            let bytes = [&[kind], bytes].concat();
            let again = match index_key::parse(&bytes) {
                Some(IndexKey::Entry(key)) => index_key::entry_key(&key),
                Some(IndexKey::Leaf(key)) => index_key::leaf_key(&key),
                Some(IndexKey::Bulk(segment, position)) => index_key::bulk_key(segment, position),
                None => continue,
            };
            assert_eq!(again, bytes);
        }
    });
}

/// The file of a manifest with this body, its length and checksum as they should be.
fn file(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("short").to_le_bytes();
    let checksum = tyr_wire::checksum::crc32c(body).to_le_bytes();
    [b"TyrMnfst", &1u32.to_le_bytes()[..], &len, &checksum, body].concat()
}

/// Something of everything that a manifest has.
fn manifest() -> Manifest {
    let (keyspace, key) = (KeyspaceId(2), Key::new("a").expect("valid"));
    let blob = BlobId::from_u64(7);
    let name = KeyspaceName::new("k").expect("valid");
    let snapshot = NamedSnapshot { name: name.clone(), number: Number::from_u64(5), taken: 6 };
    let settings = KeyspaceSettings::default();
    let state = KeyspaceState { id: keyspace, name, settings, snapshots: vec![snapshot] };
    Manifest {
        tables: vec![TableSummary { id: TableId(3), entries: 2, tombstones: 1, bytes: 8192, checksum: 9 }],
        keyspaces: vec![(state, 3, 4)],
        garbage: vec![
            Garbage::Blob { keyspace, blob, from: 1 },
            Garbage::Cut { keyspace, key: key.clone(), blob, from: 2 },
            Garbage::Keyspace(KeyspaceId(1)),
        ],
        historic_leaves: vec![((keyspace, blob, 5), key)],
        ..crate::manifest::tests::manifest()
    }
}

fn varint_fills(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    reader.varint().is_ok() && reader.is_empty()
}

fn use_manifest(body: &[u8]) {
    if let Ok(manifest) = Manifest::parse(&file(body)) {
        let mut again = Vec::new();
        manifest.encode(&mut again);
        // Its last field is missing in manifests that are older than that.
        let older = again.strip_prefix(body).is_some_and(varint_fills);
        assert!(again == body || older, "{again:?} from {body:?}");
    }
}

#[test]
fn manifests_survive_any_bytes() {
    let mut sample = Vec::new();
    manifest().encode(&mut sample);
    use_manifest(&sample);
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = Manifest::parse(bytes);
        use_manifest(bytes);
        let mut damaged = sample.clone();
        for [position, byte] in bytes.as_chunks().0.iter().take(4) {
            let position = usize::from(*position) % damaged.len();
            damaged[position] = *byte;
        }
        use_manifest(&damaged);
        // Behind the identity everything is left to chance.
        use_manifest(&[&sample[..16], bytes].concat());
    });
}
