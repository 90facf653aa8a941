//! Which chunk holds which bytes, and which partition holds which chunk.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;

use tyr_types::KeyspaceId;

use crate::{BlobName, ClassId, PartitionId};

/// How the blobs of a keyspace are cut and placed. Never changes while the keyspace exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The placement class.
    pub class: ClassId,
    /// The number of partitions of the class: a power of two.
    pub partitions: u32,
    /// Makes the keyspace's placement differ from that of others.
    pub seed: u64,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// Whether superseded versions are kept for readers that pinned them.
    pub multi_version: bool,
}

/// The layouts of all keyspaces.
pub type Layouts = BTreeMap<KeyspaceId, Layout>;

/// The part of a range that lies in one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The chunk.
    pub chunk: u64,
    /// The bytes within the chunk.
    pub within: Range<u64>,
    /// The bytes within the range that was cut.
    pub part: Range<usize>,
}

impl Layout {
    /// The partition of a chunk.
    pub fn partition_of(&self, blob: &BlobName, chunk: u64) -> PartitionId {
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ self.seed;
        let key = blob.key.as_bytes().iter().copied();
        for byte in key.chain(chunk.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash ^= hash >> 32;
        let index = hash & u64::from(self.partitions - 1);
        PartitionId { class: self.class, index: u32::try_from(index).expect("below a u32") }
    }

    /// Cuts `length` bytes at `offset` at the borders of chunks.
    pub fn pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let chunk = at / self.chunk_size;
            let stop = end.min((chunk + 1) * self.chunk_size);
            let start = chunk * self.chunk_size;
            let part = |position: u64| usize::try_from(position - offset).expect("payload fits memory");
            pieces.push(Piece { chunk, within: at - start..stop - start, part: part(at)..part(stop) });
            at = stop;
        }
        pieces
    }
}
