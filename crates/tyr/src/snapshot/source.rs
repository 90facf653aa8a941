//! What a keyspace is made of, or compared with: archives, or a snapshot.

use std::collections::BTreeSet;

use tyr_client::{
    Key,
    blocking::{Keyspace, Snapshot},
};

use super::{
    bytes::{PIECE, runs},
    export::{blob_of, pages},
    marker,
};
use crate::{
    archive::{Blob, Chain},
    failure::Result,
};

/// Blobs at one point.
pub trait Source: Sync {
    /// The keys of all blobs, in order.
    fn keys(&self) -> Box<dyn Iterator<Item = Result<Key>> + '_>;

    /// A blob, if it existed.
    fn blob(&self, key: &Key) -> Result<Option<Blob>>;

    /// Hands over the bytes of a grain of a blob that are not zeros, piece by piece, with their offsets.
    fn read_grain(
        &self,
        key: &Key,
        blob: &Blob,
        index: u64,
        take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()>;
}

impl Source for Chain {
    fn keys(&self) -> Box<dyn Iterator<Item = Result<Key>> + '_> {
        Box::new(self.last().catalog.blobs.keys().cloned().map(Ok))
    }

    fn blob(&self, key: &Key) -> Result<Option<Blob>> {
        Ok(self.last().catalog.blobs.get(key).cloned())
    }

    fn read_grain(
        &self,
        key: &Key,
        _: &Blob,
        index: u64,
        take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        Chain::read_grain(self, key, index, take)
    }
}

/// A keyspace in a snapshot.
pub struct View {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The keyspace.
    pub keyspace: Keyspace,
}

impl Source for View {
    fn keys(&self) -> Box<dyn Iterator<Item = Result<Key>> + '_> {
        let pages = pages(&self.snapshot, &self.keyspace);
        let keys = pages.flat_map(|page| match page {
            Ok(page) => page.into_iter().map(|entry| Ok(entry.key)).collect::<Vec<_>>(),
            Err(failure) => vec![Err(failure)],
        });
        Box::new(keys.filter(|key| !key.as_ref().is_ok_and(|key| key.as_bytes() == marker::KEY.as_bytes())))
    }

    fn blob(&self, key: &Key) -> Result<Option<Blob>> {
        match self.snapshot.stat(&self.keyspace, key) {
            Ok(stat) => Ok(Some(blob_of(stat, self.snapshot.written(&self.keyspace, key)?))),
            Err(_) if !self.snapshot.exists(&self.keyspace, key)? => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read_grain(
        &self,
        key: &Key,
        blob: &Blob,
        index: u64,
        take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let start = index * blob.grain;
        let end = start.saturating_add(blob.grain).min(blob.size);
        let mut offset = start;
        let mut buffer = vec![0; PIECE.min(usize::try_from(end - start).unwrap_or(PIECE))];
        while offset < end {
            let want = buffer.len().min(usize::try_from(end - offset).unwrap_or(PIECE));
            let read = self.snapshot.read_into(&self.keyspace, key, offset, &mut buffer[..want])?;
            for run in runs(&buffer[..read]) {
                take(offset + run.start as u64, &buffer[run])?;
            }
            offset += want as u64;
        }
        Ok(())
    }
}

/// Whether the prints of two blobs can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinship {
    /// They are of one keyspace.
    SameKeyspace,
    /// They are not, or it is not to be relied on.
    None,
}

/// Takes a piece at an offset: its bytes, and those of what it is compared with.
pub type Take<'a> = &'a mut dyn FnMut(u64, &[u8], &[u8]) -> Result<()>;

/// Walks through those pieces of a blob in which either it or what it is compared with has anything, with the bytes of both.
///
/// A piece that neither ever had is zeros in both. If both are of one keyspace, what has the same print is the same. `theirs` reads what it is compared with into a buffer and says how much there was.
pub fn walk(
    source: &dyn Source,
    key: &Key,
    blob: &Blob,
    other: Option<&Blob>,
    kinship: Kinship,
    theirs: &mut dyn FnMut(u64, &mut [u8]) -> Result<usize>,
    take: Take<'_>,
) -> Result<()> {
    let grain = blob.grain;
    let own: BTreeSet<u64> = blob.grains.keys().copied().collect();
    let mut all = own.clone();
    for (other, index) in other.iter().flat_map(|other| other.grains.keys().map(move |index| (other, index)))
    {
        // Those of the other may be larger or smaller.
        let (start, end) =
            (index * other.grain, (index * other.grain).saturating_add(other.grain).min(blob.size));
        if start < end {
            all.extend(start / grain..end.div_ceil(grain));
        }
    }
    for index in all {
        let print = blob.grains.get(&index).map_or(0, |grain| grain.print);
        let is_same = |other: &&Blob| other.same(blob, index, print).is_some();
        if kinship == Kinship::SameKeyspace && other.is_some_and(|other| is_same(&other)) {
            continue;
        }
        let start = index * grain;
        let end = start.saturating_add(grain).min(blob.size);
        let mut compare = Compare { at: start, end, piece: Vec::new(), theirs, take };
        if own.contains(&index) {
            source.read_grain(key, blob, index, &mut |offset, bytes| compare.put(offset, bytes))?;
        }
        compare.finish()?;
    }
    Ok(())
}

/// Puts together pieces of what comes in runs.
struct Compare<'a> {
    /// Where the piece begins that is being put together.
    at: u64,
    end: u64,
    piece: Vec<u8>,
    theirs: &'a mut dyn FnMut(u64, &mut [u8]) -> Result<usize>,
    take: Take<'a>,
}

impl Compare<'_> {
    fn put(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            while offset >= self.at.saturating_add(PIECE as u64) {
                self.flush()?;
            }
            let within = usize::try_from(offset.saturating_sub(self.at)).unwrap_or(0);
            let length = bytes.len().min(PIECE - within);
            self.piece.resize(self.piece.len().max(within + length), 0);
            self.piece[within..within + length].copy_from_slice(&bytes[..length]);
            (offset, bytes) = (offset + length as u64, &bytes[length..]);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let length = PIECE.min(usize::try_from(self.end - self.at).unwrap_or(PIECE));
        self.piece.resize(length, 0);
        let mut others = vec![0; length];
        let read = (self.theirs)(self.at, &mut others)?;
        others.truncate(read);
        (self.take)(self.at, &self.piece, &others)?;
        self.at += length as u64;
        self.piece.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        while self.at < self.end {
            self.flush()?;
        }
        Ok(())
    }
}
