//! What a server and a client must know of a keyspace: where its chunks are, and which bytes they hold.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;

use tyr_types::{KeyspaceId, Result};

use crate::{
    BlobName, KeyspaceSeed, Layout, PartitionCount, PartitionId, Placement, Snapshots,
    cluster::{self, KeyspaceState},
    stages::stage_parts,
};

/// A keyspace as the protocol sees it. The placement never changes while the keyspace exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    /// Where its chunks are.
    pub placement: Placement,
    /// Whether superseded versions are kept for readers that pinned them.
    pub multi_version: bool,
    /// Its snapshots with names.
    pub snapshots: Snapshots,
    /// Whether it was dropped: nobody reads or writes it any more, and its blobs are being deleted.
    pub is_dropped: bool,
}

/// All keyspaces, those that were dropped included.
pub type Keyspaces = BTreeMap<KeyspaceId, Keyspace>;

/// Whether a blob's head is in a partition, as far as is known.
pub(crate) fn is_placed(keyspaces: &Keyspaces, blob: &BlobName, partition: PartitionId) -> bool {
    keyspaces.get(&blob.keyspace).is_none_or(|keyspace| keyspace.partition_of(blob, 0) == partition)
}

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

impl Keyspace {
    /// A keyspace as the cluster manager tells of it and of its class. Fails with [`tyr_types::ErrorKind::Invalid`] if a setting is out
    /// of bounds, which none is that comes from there.
    pub fn of(known: &cluster::Keyspace, class: &cluster::ClassSettings) -> Result<Self> {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&known.seed.to_le_bytes());
        let placement = Placement {
            class: known.class,
            partitions: PartitionCount::new(class.partitions)?,
            seed: KeyspaceSeed(seed),
            layout: Layout::of(&known.settings)?,
        };
        let snapshots = known.snapshots.clone();
        let is_dropped = known.state == KeyspaceState::Dropped;
        Ok(Keyspace { placement, multi_version: known.settings.multi_version, snapshots, is_dropped })
    }

    /// The partitions that hold its heads, in order.
    pub fn partitions(&self) -> Vec<PartitionId> {
        let class = self.placement.class;
        (0..self.placement.partitions.get()).map(|index| PartitionId { class, index }).collect()
    }

    /// Whether a partition is one of them.
    pub fn has(&self, partition: PartitionId) -> bool {
        self.placement.class == partition.class && partition.index < self.placement.partitions.get()
    }

    /// The partition of a chunk.
    pub fn partition_of(&self, blob: &BlobName, chunk: u64) -> PartitionId {
        self.placement.partition_of(blob.key.as_bytes(), chunk)
    }

    /// Cuts `length` bytes at `offset` at the borders of chunks. They end at or before the largest offset and fit memory.
    pub fn pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let layout = &self.placement.layout;
        let mut pieces = Vec::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let chunk = layout.chunk_at(at);
            let bytes = layout.range_of(chunk);
            let stop = end.min(bytes.end);
            let part = |position: u64| usize::try_from(position - offset).expect("payload fits memory");
            let within = at - bytes.start..stop - bytes.start;
            pieces.push(Piece { chunk, within, part: part(at)..part(stop) });
            at = stop;
        }
        pieces
    }

    /// As [`Keyspace::pieces`], of staged payload: cut at the borders of its stages, too.
    pub fn staged_pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let cut = |stage: Range<u64>| {
            let start = usize::try_from(stage.start).expect("payload fits memory");
            let pieces = self.pieces(offset + stage.start, stage.end - stage.start).into_iter();
            pieces.map(move |piece| Piece { part: start + piece.part.start..start + piece.part.end, ..piece })
        };
        stage_parts(length).flat_map(cut).collect()
    }
}
