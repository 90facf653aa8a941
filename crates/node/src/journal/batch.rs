//! What one transaction of the store does for a journal: entries that are logged, blobs that are written and blobs that are deleted.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    convert::Infallible,
};

use tyr_proto::{PartitionId, Payload as Kept};
use tyr_store::{BlobChange, Existence, Payload, Refused, Stop, Store, Ticket, Wait};
use tyr_types::{Error, Key, KeyspaceId, Result};
use tyr_wire::shared::SharedBytes;

use super::{
    Stored,
    bundle::{self, Item},
    bundles::Note,
};

/// Changes of blobs; of two of the same blob the later one counts.
#[derive(Debug, Default)]
pub struct Batch {
    changes: BTreeMap<Key, Change>,
    /// What it logs, until it is sealed,
    bundle: Vec<u8>,
    /// and how many bytes that is.
    logged: u64,
    is_sealed: bool,
    weight: usize,
    /// What is to be told when it is durable.
    pub stored: Vec<Stored>,
    /// What it does to logs.
    pub notes: Vec<Note>,
    /// What leaves memory when it is durable.
    pub kept: Vec<Kept>,
}

/// What becomes of a blob.
#[derive(Debug)]
enum Change {
    Deleted,
    Put(Bytes, Before),
    /// In pieces with their offsets, of which the store has the large ones.
    Staged(Vec<(u64, Payload)>, Before),
}

/// What is known of a blob before it is written.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// It does not exist, so the store need not look for it.
    Absent,
    Unknown,
}

/// What a blob is to hold: encoded for it, logged, or shared with what is in memory.
#[derive(Debug)]
enum Bytes {
    Own(Vec<u8>),
    Bundle(Vec<u8>),
    Shared(SharedBytes),
}

impl Batch {
    /// Writes a blob anew.
    pub fn put(&mut self, key: Key, bytes: Vec<u8>) {
        self.change(key, Bytes::Own(bytes), Before::Unknown);
    }

    /// Logs an entry.
    pub fn log(&mut self, stored: Stored, bytes: &[u8]) {
        self.log_anew(stored, bytes);
        self.stored.push(stored);
    }

    /// Logs an entry that is durable already.
    pub fn log_anew(&mut self, stored: Stored, bytes: &[u8]) {
        self.append(Item::Entry { stored, bytes });
        self.notes.push(Note::Entry(stored.partition, stored.index, bytes.len() as u64));
    }

    /// Logs that a log has no entries after this one any more.
    pub fn cut(&mut self, partition: PartitionId, last: u64) {
        self.append(Item::Cut { partition, last });
        self.notes.push(Note::Cut(partition, last));
    }

    fn append(&mut self, item: Item<'_>) {
        let before = self.bundle.len();
        bundle::append(&mut self.bundle, item);
        self.weight += self.bundle.len() - before;
        self.logged += (self.bundle.len() - before) as u64;
    }

    /// Puts what it logs, if it logs anything, under a key that has nothing: nothing may be added to it after that. Returns how many
    /// bytes that is.
    pub fn seal(&mut self, key: Key) -> u64 {
        self.is_sealed = true;
        if !self.bundle.is_empty() {
            let bytes = Bytes::Bundle(std::mem::take(&mut self.bundle));
            self.changes.insert(key, Change::Put(bytes, Before::Absent));
        }
        self.logged
    }

    /// Writes a payload, under a key that has none.
    pub fn put_payload(&mut self, key: Key, bytes: SharedBytes) {
        self.change(key, Bytes::Shared(bytes), Before::Absent);
    }

    fn change(&mut self, key: Key, bytes: Bytes, before: Before) {
        self.weight += bytes.as_slice().len() + CHANGE_WEIGHT;
        match self.changes.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(Change::Put(bytes, before))),
            // What is deleted by this batch is there until then.
            Entry::Occupied(mut occupied) => drop(occupied.insert(Change::Put(bytes, Before::Unknown))),
        }
    }

    /// Deletes a blob, if it is there.
    pub fn delete(&mut self, key: Key) {
        self.weight += CHANGE_WEIGHT;
        self.changes.insert(key, Change::Deleted);
    }

    /// Whether it is not to be added to any more.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// About how many bytes its bundle takes.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Commits it. Fails with `full` if there is no space, having changed nothing; what was staged by then is not staged again.
    pub fn commit(&mut self, store: &Store, space: KeyspaceId, piece_max: usize) -> Result<Ticket> {
        self.stage(store, space, piece_max)?;
        let committed = store.transact(Wait::Allowed, |writer| {
            let mut is_missing = false;
            for (key, change) in &self.changes {
                if let Change::Staged(_, Before::Absent) = change {
                    change.of_blob(false).into_iter().for_each(|change| writer.put_new(space, key, change));
                    continue;
                }
                match writer.head::<Infallible>(space, key) {
                    Ok(head) => {
                        if let Some(change) = change.of_blob(head.is_some()) {
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
    fn stage(&mut self, store: &Store, space: KeyspaceId, piece_max: usize) -> Result<()> {
        for change in self.changes.values_mut() {
            let Change::Put(bytes, before) = &*change else { continue };
            // What is logged stays in the store's log, beside which nothing is to be written, however much it is.
            let size = if let Bytes::Bundle(_) = bytes { BUNDLE_PIECE.min(piece_max) } else { piece_max };
            let length = bytes.as_slice().len();
            let pieces = (0..length).step_by(size).map(|start| {
                let part = start..length.min(start + size);
                let payload = match bytes {
                    Bytes::Own(bytes) | Bytes::Bundle(bytes) => store.stage(space, &bytes[part]),
                    Bytes::Shared(bytes) => store.stage_shared(space, bytes, part),
                };
                payload.map(|payload| (start as u64, payload))
            });
            *change = Change::Staged(pieces.collect::<Result<_>>()?, *before);
        }
        Ok(())
    }
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) | Bytes::Bundle(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl Change {
    /// What it means for a blob that exists or does not.
    fn of_blob(&self, exists: bool) -> Option<BlobChange> {
        let writes = match self {
            Change::Staged(pieces, _) => pieces.clone(),
            Change::Deleted | Change::Put(..) => Vec::new(),
        };
        let existence = match (self, exists) {
            (Change::Deleted, false) => return None,
            (Change::Deleted, true) => Existence::Delete,
            (_, false) => Existence::Create,
            (_, true) => Existence::Replace,
        };
        let size = writes.last().map_or(0, |(offset, payload)| offset + payload.len() as u64);
        Some(BlobChange { existence, cut: None, holes: Vec::new(), size, attributes: None, writes })
    }
}

/// What a change costs beside its bytes: key, numbers, places, checksums.
const CHANGE_WEIGHT: usize = 96;
/// A bundle is written in pieces of at most this size, which the store's log takes by default.
const BUNDLE_PIECE: usize = 32 << 10;
