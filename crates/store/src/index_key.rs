//! The keys of the on-disk index: one kind byte, then fields in big-endian order, so that bytes sort as the fields do.

use tyr_types::{BlobId, Key, KeyspaceId};
use tyr_wire::extent::SegmentId;

/// Which entry: keyspace and key.
pub type EntryKey = (KeyspaceId, Key);

/// Which leaf: keyspace, blob, and index from 1; a blob's first leaf lives in its entry.
pub type LeafKey = (KeyspaceId, BlobId, u64);

const ENTRY: u8 = 1;
const LEAF: u8 = 2;
const BULK: u8 = 3;

/// A key of the index, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKey {
    /// Its value is an encoded entry.
    Entry(EntryKey),
    /// Its value is an encoded leaf.
    Leaf(LeafKey),
    /// Which blob a bulk payload was written for, by segment and position; its value is an encoded
    /// [`crate::backlog::Owner`].
    Bulk(SegmentId, u32),
}

/// The key of an entry.
pub fn entry_key((keyspace, key): &EntryKey) -> Vec<u8> {
    let mut bytes = keyspace_prefix(*keyspace);
    bytes.extend_from_slice(key.as_bytes());
    bytes
}

/// What the keys of a keyspace's entries begin with.
pub fn keyspace_prefix(keyspace: KeyspaceId) -> Vec<u8> {
    [&[ENTRY][..], &keyspace.0.to_be_bytes()].concat()
}

/// The key of a leaf.
pub fn leaf_key(&(keyspace, blob, index): &LeafKey) -> Vec<u8> {
    [&[LEAF][..], &keyspace.0.to_be_bytes(), &blob.to_u64().to_be_bytes(), &index.to_be_bytes()].concat()
}

/// The key of a bulk payload's owner.
pub fn bulk_key(segment: SegmentId, position: u32) -> Vec<u8> {
    [&[BULK][..], &segment.0.to_be_bytes(), &position.to_be_bytes()].concat()
}

/// The inverse of all of them. `None` for bytes that are no key.
pub fn parse(bytes: &[u8]) -> Option<IndexKey> {
    let (&kind, rest) = bytes.split_first()?;
    match kind {
        ENTRY => {
            let (keyspace, key) = rest.split_first_chunk()?;
            Some(IndexKey::Entry((KeyspaceId(u32::from_be_bytes(*keyspace)), Key::new(key).ok()?)))
        }
        LEAF => {
            let (keyspace, rest) = rest.split_first_chunk()?;
            let (blob, rest) = rest.split_first_chunk()?;
            let (keyspace, blob) = (u32::from_be_bytes(*keyspace), u64::from_be_bytes(*blob));
            Some(IndexKey::Leaf((
                KeyspaceId(keyspace),
                BlobId::from_u64(blob),
                u64::from_be_bytes(rest.try_into().ok()?),
            )))
        }
        BULK => {
            let (segment, rest) = rest.split_first_chunk()?;
            Some(IndexKey::Bulk(
                SegmentId(u64::from_be_bytes(*segment)),
                u32::from_be_bytes(rest.try_into().ok()?),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        let entry = (KeyspaceId(3), Key::new("a/b").expect("valid"));
        let leaf = (KeyspaceId(3), BlobId::from_u64(9), 12);
        assert_eq!(parse(&entry_key(&entry)), Some(IndexKey::Entry(entry)));
        assert_eq!(parse(&leaf_key(&leaf)), Some(IndexKey::Leaf(leaf)));
        assert_eq!(parse(&bulk_key(SegmentId(4), 4096)), Some(IndexKey::Bulk(SegmentId(4), 4096)));
        assert_eq!([parse(&[]), parse(&[1, 0]), parse(&[9, 9])], [None, None, None]);
    }

    #[test]
    fn leaves_sort_by_keyspace_blob_and_index() {
        let keys = [(1, 1, 1), (1, 1, 2), (1, 1, 256), (1, 2, 1), (2, 1, 1)]
            .map(|(keyspace, blob, index)| leaf_key(&(KeyspaceId(keyspace), BlobId::from_u64(blob), index)));
        assert!(keys.is_sorted());
    }
}
