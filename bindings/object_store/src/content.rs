//! The bytes of an object as a stream, as they were when it was opened.

use bytes::Bytes;
use futures::{StreamExt, stream, stream::BoxStream};
use object_store::Result;
use tyr_client::{Keyspace, Transaction};

use crate::errors;

/// So many bytes are read at once.
const PIECE: u64 = 8 << 20;

/// Bytes of a blob that a transaction is to read.
pub struct Content {
    /// The transaction, which has seen the blob.
    pub transaction: Transaction,
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The path, for errors.
    pub path: String,
    /// The blob that has the bytes.
    pub key: Vec<u8>,
    /// Which are left to read.
    pub range: std::ops::Range<u64>,
}

impl Content {
    /// The next of them.
    async fn next(&mut self) -> Result<Bytes> {
        let end = self.range.end.min(self.range.start.saturating_add(PIECE));
        let range = std::mem::replace(&mut self.range.start, end)..end;
        let length = range.end - range.start;
        let read = self.transaction.read(&self.keyspace, &self.key, range).await;
        let bytes = read.map_err(|error| errors::reading(&self.path, error))?;
        if bytes.len() as u64 == length {
            Ok(bytes.into())
        } else {
            let (path, found) = (&self.path, bytes.len());
            Err(errors::generic(format!("{path} has lost bytes: {found} of {length} are there")))
        }
    }

    /// All that is left, in one piece.
    pub async fn all(&mut self) -> Result<Bytes> {
        if self.range.end - self.range.start <= PIECE {
            return if self.range.is_empty() { Ok(Bytes::new()) } else { self.next().await };
        }
        let mut all = Vec::new();
        while !self.range.is_empty() {
            all.extend_from_slice(&self.next().await?);
        }
        Ok(all.into())
    }

    /// All that is left, piece by piece.
    pub fn stream(self) -> BoxStream<'static, Result<Bytes>> {
        let next = async |mut content: Content| {
            if content.range.is_empty() {
                return None;
            }
            let next = content.next().await;
            if next.is_err() {
                content.range.start = content.range.end;
            }
            Some((next, content))
        };
        stream::unfold(self, next).fuse().boxed()
    }
}
