//! Reading bytes of one blob at a number, for lone reads, snapshots, and transactions alike.

use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use tyr_store::{Head, Miss, Wait};
use tyr_types::{
    Attributes, BlobId, Error, KEY_SIZE_MAX, Key, KeyspaceId, KeyspaceName, Number, OFFSET_MAX, Result, Seek,
};
use zerocopy::FromZeros;

use crate::store::Core;
use crate::wait::{Mode, failure};

/// The state of a blob, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Bytes of content.
    pub size: u64,
    /// Which of the blobs that ever had this key it is.
    pub blob: BlobId,
    /// The number of the transaction that changed it last.
    pub version: Number,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A whole blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its state.
    pub stat: Stat,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A blob as listed by a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// Bytes of content.
    pub size: u64,
    /// The number of the transaction that changed it last.
    pub version: Number,
}

impl From<&Head> for Stat {
    fn from(head: &Head) -> Self {
        Stat {
            size: head.size,
            blob: head.blob,
            version: head.number,
            attributes: Attributes::clone(&head.attributes),
        }
    }
}

/// Fails unless a range begins before it ends, and ends at the largest offset at most.
pub(crate) fn check_range(range: &Range<u64>) -> Result<()> {
    Span::new(range.clone()).map(drop)
}

/// A checked range of bytes, open at the end or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
}

impl Span {
    pub(crate) const ALL: Span = Span { start: 0, end: None };

    pub(crate) fn new(range: impl RangeBounds<u64>) -> Result<Span> {
        let too_far = || Error::invalid("the range ends past 2^63-1; use a smaller one");
        let after = |last: u64| last.checked_add(1).ok_or_else(too_far);
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(last) => after(*last)?,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(after(*last)?),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        if end.unwrap_or(start).max(start) > OFFSET_MAX {
            return Err(too_far());
        }
        if let Some(end) = end.filter(|end| *end < start) {
            return Err(Error::invalid(format!("the range {start}..{end} ends before it starts")));
        }
        Ok(Span { start, end })
    }

    /// Bytes to read of a blob of this size.
    pub(crate) fn length(self, size: u64) -> u64 {
        self.end.map_or(size, |end| end.min(size)).saturating_sub(self.start)
    }
}

/// Where and when to read.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) core: &'a Core,
    pub(crate) mode: Mode,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a Key,
    pub(crate) at: Number,
}

impl Source<'_> {
    /// The state of the blob, if it exists.
    pub(crate) async fn head(&self) -> Result<Option<Arc<Head>>> {
        let Source { keyspace, at, .. } = *self;
        let key = self.key.clone();
        let op = move |engine: &tyr_store::Store, wait| engine.head(keyspace, &key, at, wait);
        self.core.waiting.call(self.mode, op).await
    }

    /// Where the next data or hole is, if the blob exists.
    pub(crate) async fn seek(&self, what: Seek, from: u64) -> Result<Option<Option<u64>>> {
        let Source { keyspace, at, .. } = *self;
        let key = self.key.clone();
        let op = move |engine: &tyr_store::Store, wait| engine.seek(keyspace, &key, at, what, from, wait);
        self.core.waiting.call(self.mode, op).await
    }

    /// Fills the buffer as far as the blob goes. State and bytes are of one version.
    pub(crate) async fn read_into(
        &self,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Option<(Arc<Head>, usize)>> {
        let Source { core, mode, keyspace, at, .. } = *self;
        match core.waiting.engine.read(keyspace, self.key, at, offset, buffer, mode.wait()) {
            Err(Miss::WouldBlock) if mode == Mode::Async => {}
            result => return result.map_err(failure),
        }
        // The caller's buffer may be gone before the thread is done, so it gets one of its own.
        let (read, own) = self.read_on_pool(offset, zeroed(buffer.len() as u64)?).await?;
        if let Some((_, len)) = read {
            buffer[..len].copy_from_slice(&own[..len]);
        }
        Ok(read)
    }

    /// As [`Source::read_into`], for a buffer that can be handed to another thread and back.
    async fn read_vec(
        &self,
        offset: u64,
        mut buffer: Vec<u8>,
    ) -> Result<(Option<(Arc<Head>, usize)>, Vec<u8>)> {
        let Source { core, mode, keyspace, at, .. } = *self;
        match core.waiting.engine.read(keyspace, self.key, at, offset, &mut buffer, mode.wait()) {
            Err(Miss::WouldBlock) if mode == Mode::Async => self.read_on_pool(offset, buffer).await,
            result => Ok((result.map_err(failure)?, buffer)),
        }
    }

    async fn read_on_pool(
        &self,
        offset: u64,
        mut buffer: Vec<u8>,
    ) -> Result<(Option<(Arc<Head>, usize)>, Vec<u8>)> {
        let Source { core, mode, keyspace, at, .. } = *self;
        let key = self.key.clone();
        let read = move |engine: &tyr_store::Store| {
            let read = engine.read(keyspace, &key, at, offset, &mut buffer, Wait::Allowed);
            Ok((read.map_err(failure)?, buffer))
        };
        core.waiting.block(mode, read).await
    }

    /// The bytes of the span as far as the blob goes. State and bytes are of one version.
    pub(crate) async fn read(&self, span: Span) -> Result<Option<(Arc<Head>, Vec<u8>)>> {
        // A short span costs one call. For a longer one the blob is asked first how much there is.
        let mut size = match span.end {
            Some(end) if end - span.start <= UNASKED_MAX => end,
            _ => match self.head().await? {
                Some(head) => head.size,
                None => return Ok(None),
            },
        };
        loop {
            let (read, mut bytes) = self.read_vec(span.start, zeroed(span.length(size))?).await?;
            let Some((head, len)) = read else { return Ok(None) };
            if span.length(head.size) <= bytes.len() as u64 {
                bytes.truncate(len);
                return Ok(Some((head, bytes)));
            }
            // It grew meanwhile; leave some room for more of that.
            size = head.size.saturating_add(head.size / 8);
        }
    }
}

impl Core {
    /// Up to `limit` blobs, batch by batch, so that one caller does not hold up others for long.
    pub(crate) async fn scan(
        &self,
        mode: Mode,
        keyspace: KeyspaceId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        at: Number,
    ) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        if prefix.len() > KEY_SIZE_MAX {
            return Ok(entries);
        }
        // No key lies between what is too long for a key and its longest part that is not.
        let mut after = after.map(|after| after[..after.len().min(KEY_SIZE_MAX)].to_vec());
        while entries.len() < limit {
            let batch_size = SCAN_BATCH.min(limit - entries.len());
            let (prefix, from) = (prefix.to_vec(), after.take());
            let scan = move |engine: &tyr_store::Store| {
                engine.scan(keyspace, &prefix, from.as_deref(), batch_size, at)
            };
            let batch = self.waiting.block(mode, scan).await?;
            let done = batch.len() < batch_size;
            let entry = |(key, head): (Key, Arc<Head>)| Entry { key, size: head.size, version: head.number };
            entries.extend(batch.into_iter().map(entry));
            if done {
                break;
            }
            after = entries.last().map(|entry| entry.key.as_bytes().to_vec());
        }
        Ok(entries)
    }
}

/// The error of an operation on a blob that does not exist.
#[cold]
pub(crate) fn no_blob(keyspace: &KeyspaceName, key: &Key) -> Error {
    Error::not_found(format!("keyspace '{keyspace}' has no blob '{key}'; write or create it first"))
}

/// Zeroed memory for a read. Fails for more than [`READ_SIZE_MAX`] or if there is not as much memory.
pub(crate) fn zeroed(len: u64) -> Result<Vec<u8>> {
    let refused = || {
        let message = format!("reading {len} bytes at once is too much; read parts with read_into");
        Error::invalid(message)
    };
    let len = usize::try_from(len).ok().filter(|len| *len <= READ_SIZE_MAX).ok_or_else(refused)?;
    u8::new_vec_zeroed(len).map_err(|_| refused())
}

/// Up to here a buffer is allocated without asking how large the blob is, in bytes.
pub(crate) const UNASKED_MAX: u64 = 64 << 10;

/// Blobs listed by one call of the engine.
const SCAN_BATCH: usize = 1024;

/// The most bytes that one read returns as a vector: more is hardly meant, and a sparse blob may claim 2^63.
pub(crate) const READ_SIZE_MAX: usize = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_checked() {
        assert_eq!(Span::new(..).unwrap(), Span::ALL);
        assert_eq!(Span::new(3..=5).unwrap(), Span { start: 3, end: Some(6) });
        assert_eq!(Span::new(3..3).unwrap().length(10), 0);
        #[expect(clippy::reversed_empty_ranges, reason = "it is what must be refused")]
        let reversed = Span::new(5..3);
        assert!(reversed.is_err());
        assert!(Span::new(..=u64::MAX).is_err());
        assert!(Span::new(OFFSET_MAX + 1..).is_err());
        assert!(Span::new(..=OFFSET_MAX).is_err());
        assert!(Span::new(OFFSET_MAX..OFFSET_MAX).is_ok());
    }

    #[test]
    fn a_span_is_cut_at_the_size() {
        let span = Span::new(4..10).unwrap();
        assert_eq!([0, 4, 7, 10, 99].map(|size| span.length(size)), [0, 0, 3, 6, 6]);
        assert_eq!(Span::new(4..).unwrap().length(99), 95);
    }

    #[test]
    fn memory_is_bounded() {
        assert_eq!(zeroed(u64::MAX).unwrap_err().kind(), tyr_types::ErrorKind::Invalid);
        assert_eq!(zeroed(3).unwrap(), [0; 3]);
    }
}
