//! What one transaction of the store does for a journal: blobs that are written and blobs that are deleted.

use std::{collections::BTreeMap, convert::Infallible};

use tyr_store::{BlobChange, Existence, Payload, Refused, Stop, Store, Ticket, Wait};
use tyr_types::{Error, Key, KeyspaceId, Result};

use super::Stored;

/// Changes of blobs; of two of the same blob the later one counts.
#[derive(Debug, Default)]
pub struct Batch {
    changes: BTreeMap<Key, Option<Vec<u8>>>,
    weight: usize,
    /// What is to be told when it is durable.
    pub stored: Vec<Stored>,
}

/// A blob's bytes in pieces, with their offsets; none if it is deleted.
type Pieces = Option<Vec<(u64, Payload)>>;

impl Batch {
    /// Writes a blob anew.
    pub fn put(&mut self, key: Key, bytes: Vec<u8>) {
        self.weight += bytes.len() + CHANGE_WEIGHT;
        self.changes.insert(key, Some(bytes));
    }

    /// Deletes a blob, if it is there.
    pub fn delete(&mut self, key: Key) {
        self.weight += CHANGE_WEIGHT;
        self.changes.insert(key, None);
    }

    /// About how many bytes its record takes.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Commits it. Fails with `full` if there is no space, having changed nothing.
    pub fn commit(&self, store: &Store, space: KeyspaceId, piece_max: usize) -> Result<Ticket> {
        let changes = self.stage(store, space, piece_max)?;
        let committed = store.transact(Wait::Allowed, |writer| {
            let mut is_missing = false;
            for (key, pieces) in &changes {
                match writer.head::<Infallible>(space, key) {
                    Ok(head) => {
                        if let Some(change) = change(head.is_some(), pieces) {
                            writer.put(space, key, change);
                        }
                    }
                    // All that is missing is loaded before the plan runs again.
                    Err(_) => is_missing = true,
                }
            }
            if is_missing { Err(Stop::<Infallible>::Miss) } else { Ok(()) }
        });
        match committed {
            Ok(((), ticket)) => Ok(ticket),
            Err(Refused::Failed(error)) => Err(error),
            Err(Refused::WouldBlock) => Err(Error::internal("a commit that may wait did not")),
            Err(Refused::Refused(never)) => match never {},
        }
    }

    /// Splits what is written into payloads, of which the store takes large ones at once.
    fn stage(&self, store: &Store, space: KeyspaceId, piece_max: usize) -> Result<Vec<(Key, Pieces)>> {
        let mut changes = Vec::with_capacity(self.changes.len());
        for (key, bytes) in &self.changes {
            let pieces = bytes.iter().flat_map(|bytes| bytes.chunks(piece_max));
            let staged = pieces.map(|piece| store.stage(space, piece)).collect::<Result<Vec<Payload>>>()?;
            let offsets = (0u64..).step_by(piece_max);
            changes.push((key.clone(), bytes.as_ref().map(|_| offsets.zip(staged).collect())));
        }
        Ok(changes)
    }
}

fn change(exists: bool, pieces: &Pieces) -> Option<BlobChange> {
    let existence = match (pieces, exists) {
        (None, false) => return None,
        (None, true) => Existence::Delete,
        (Some(_), false) => Existence::Create,
        (Some(_), true) => Existence::Replace,
    };
    let writes = pieces.clone().unwrap_or_default();
    let size = writes.last().map_or(0, |(offset, payload)| offset + payload.len() as u64);
    Some(BlobChange { existence, cut: None, size, attributes: None, writes })
}

/// What a change costs beside its bytes: key, numbers, places, checksums.
const CHANGE_WEIGHT: usize = 96;
