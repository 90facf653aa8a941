//! Placement: which partition a chunk belongs to, and which bytes a chunk is. The same in every language, for ever.
//!
//! `docs/protocol/placement.md` specifies it and `docs/protocol/placement-vectors.txt` has examples to check against. Nothing
//! here depends on the members of the cluster: what does is the ring (`plan_ring`).

use core::ops::Range;

use tyr_types::{Error, KeyspaceSettings, OFFSET_MAX, Result};

use crate::{
    ClassId, PartitionId,
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    layout,
};

/// What a client must know of a keyspace to find its chunks. Fixed when the keyspace is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The keyspace's placement class.
    pub class: ClassId,
    /// The class's number of partitions.
    pub partitions: PartitionCount,
    /// The keyspace's seed.
    pub seed: KeyspaceSeed,
    /// The keyspace's layout.
    pub layout: Layout,
}

impl Placement {
    /// The partition of a blob's chunk. `name` is the blob's locator, or its key if it has none: so the heads of all blobs with
    /// one locator share a partition, and so do their chunks 1, their chunks 2, and so on.
    pub fn partition_of(&self, name: &[u8], chunk: u64) -> PartitionId {
        PartitionId {
            class: self.class,
            index: self.partitions.index_of(placement_hash(&self.seed, name, chunk)),
        }
    }
}

/// Random bytes drawn when a keyspace is created, so that equal keys of different keyspaces lie apart, and nobody who does not
/// know them can choose keys that meet in one partition. The key of the placement hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyspaceSeed(pub [u8; 16]);

/// The number of partitions of a class: a power of two from 1 to [`PartitionCount::MAX`], fixed when the cluster is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionCount(u32);

impl PartitionCount {
    /// The most partitions that a class may have.
    pub const MAX: u32 = 1 << 16;

    /// Takes the number. Fails with [`tyr_types::ErrorKind::Invalid`] if it is not a power of two or out of bounds.
    pub fn new(count: u32) -> Result<Self> {
        if count.is_power_of_two() && count <= Self::MAX {
            return Ok(PartitionCount(count));
        }
        Err(Error::invalid(alloc::format!(
            "{count} is no number of partitions; use a power of two from 1 to {}",
            Self::MAX
        )))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }

    fn index_of(self, hash: u64) -> u32 {
        let [b0, b1, b2, b3, ..] = hash.to_le_bytes();
        u32::from_le_bytes([b0, b1, b2, b3]) & (self.0 - 1)
    }
}

/// 4096 partitions.
impl Default for PartitionCount {
    fn default() -> Self {
        PartitionCount(4096)
    }
}

impl Encode for PartitionCount {
    fn encode(&self, out: &mut Encoder) {
        self.0.encode(out);
    }
}

impl Decode for PartitionCount {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Self::new(u32::decode(input)?).map_err(|_| Malformed("a number of partitions is out of bounds"))
    }
}

/// How a keyspace cuts its blobs into chunks. So far chunks of one size; another layout is another case of these two functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    chunk_size: u64,
}

layout!(struct Layout { chunk_size } check |layout: &Layout| {
    let is_allowed = KeyspaceSettings { chunk_size: layout.chunk_size, ..KeyspaceSettings::default() }.check();
    ensure(is_allowed.is_ok(), "a chunk size is out of bounds")
});

impl Layout {
    /// The layout of a keyspace with these settings. Fails with [`tyr_types::ErrorKind::Invalid`] if they are out of bounds.
    pub fn of(settings: &KeyspaceSettings) -> Result<Self> {
        settings.check()?;
        Ok(Layout { chunk_size: settings.chunk_size })
    }

    /// The chunk that holds the byte at an offset.
    pub fn chunk_at(&self, offset: u64) -> u64 {
        offset / self.chunk_size
    }

    /// The bytes of a chunk; empty for a chunk past [`OFFSET_MAX`].
    pub fn range_of(&self, chunk: u64) -> Range<u64> {
        let start = chunk.saturating_mul(self.chunk_size).min(OFFSET_MAX);
        start..start.saturating_add(self.chunk_size).min(OFFSET_MAX)
    }
}

/// SipHash-2-4 under the seed of `name` followed by the chunk number in 8 little-endian bytes. The number's fixed length makes
/// the encoding injective without a length before the name.
pub fn placement_hash(seed: &KeyspaceSeed, name: &[u8], chunk: u64) -> u64 {
    let (words, rest) = name.as_chunks::<8>();
    // What is left of the name, the number, and the message's length modulo 256 always fill two words.
    let mut tail = [0; 16];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()..][..8].copy_from_slice(&chunk.to_le_bytes());
    tail[15] = name.len().wrapping_add(8).to_le_bytes()[0];
    let mut state = SipHash::new(seed);
    for word in words.iter().chain(tail.as_chunks().0) {
        state.absorb(u64::from_le_bytes(*word));
    }
    state.finish()
}

/// SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012).
struct SipHash([u64; 4]);

impl SipHash {
    fn new(seed: &KeyspaceSeed) -> Self {
        let [k0, k1] = [0, 8].map(|at| u64::from_le_bytes(core::array::from_fn(|i| seed.0[at + i])));
        // The constants spell "somepseudorandomlygeneratedbytes".
        SipHash([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..4).for_each(|_| self.round());
        self.0.iter().fold(0, |hash, word| hash ^ word)
    }

    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v3);
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.wrapping_add(*v3);
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.wrapping_add(*v1);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v2 = v2.rotate_left(32);
    }
}

#[cfg(test)]
mod tests;
