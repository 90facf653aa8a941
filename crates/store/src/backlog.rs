//! What is left to do in the background: garbage to release, histories to forget, leaves to defragment.
//!
//! The backlog only remembers; the work is done one step of [maintenance](crate::maintain) at a time. What a crash must not forget is saved with
//! every checkpoint.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use parking_lot::{Condvar, Mutex};
use tyr_types::{BlobId, Key, KeyspaceId};
use tyr_wire::{
    Malformed, Reader,
    extent::Place,
    varint::{write_prefixed, write_varint},
};

use crate::{
    garbage::Garbage,
    index_key::{EntryKey, LeafKey},
    manifest::decode_key,
};

/// Whose payload a place in a bulk segment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Keyspace of the blob.
    pub keyspace: KeyspaceId,
    /// Key of the blob.
    pub key: Key,
    /// The blob.
    pub blob: BlobId,
    /// First byte of the blob that it was written for.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
}

/// The work that waits.
#[derive(Default)]
pub(crate) struct Backlog {
    state: Mutex<Work>,
    signal: Condvar,
}

/// See [`Backlog`].
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) owners: Vec<(Place, Owner)>,
    pub(crate) garbage: VecDeque<Garbage>,
    /// Garbage that could not be collected since the store was opened.
    pub(crate) put_aside: Vec<Garbage>,
    pub(crate) fragmented: BTreeSet<(EntryKey, BlobId, u64)>,
    pub(crate) historic_entries: BTreeSet<EntryKey>,
    pub(crate) historic_leaves: BTreeMap<LeafKey, Key>,
    /// A pin was released since histories were last looked through.
    pub(crate) history_due: bool,
    pub(crate) checkpoint_due: bool,
    /// Something was added since [`Backlog::wait`] last returned.
    woken: bool,
}

impl Owner {
    /// Takes over what another note of the same payload says: of several, each may know a part of the range.
    pub(crate) fn widen(&mut self, other: &Owner) {
        if (self.keyspace, self.blob) != (other.keyspace, other.blob) {
            *self = other.clone();
            return;
        }
        let end = |owner: &Owner| owner.offset.saturating_add(u64::from(owner.len));
        let end = end(self).max(end(other));
        self.offset = self.offset.min(other.offset);
        self.len = u32::try_from(end - self.offset).unwrap_or(u32::MAX);
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.keyspace.0));
        write_prefixed(out, self.key.as_bytes());
        write_varint(out, self.blob.to_u64());
        write_varint(out, self.offset);
        write_varint(out, u64::from(self.len));
    }

    /// Reads one back.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Owner {
            keyspace: KeyspaceId(reader.varint_u32()?),
            key: decode_key(reader)?,
            blob: BlobId::from_u64(reader.varint()?),
            offset: reader.varint()?,
            len: reader.varint_u32()?,
        })
    }
}

impl Work {
    /// Also what was put aside.
    pub(crate) fn all_garbage(&self) -> impl Iterator<Item = &Garbage> {
        self.garbage.iter().chain(&self.put_aside)
    }
}

impl Backlog {
    pub(crate) fn add_owner(&self, key: &EntryKey, blob: BlobId, offset: u64, len: u32, place: Place) {
        let owner = Owner { keyspace: key.0, key: key.1.clone(), blob, offset, len };
        self.state.lock().owners.push((place, owner));
    }

    pub(crate) fn add_garbage(&self, garbage: Option<Garbage>) {
        if let Some(garbage) = garbage {
            self.add(|work| work.garbage.push_back(garbage));
        }
    }

    pub(crate) fn add_fragmented(&self, key: &EntryKey, blob: BlobId, leaf: u64) {
        self.add(|work| {
            work.fragmented.insert((key.clone(), blob, leaf));
        });
    }

    pub(crate) fn add_historic_entry(&self, key: &EntryKey) {
        self.state.lock().historic_entries.insert(key.clone());
    }

    pub(crate) fn add_historic_leaf(&self, key: &EntryKey, leaf: &LeafKey) {
        self.state.lock().historic_leaves.insert(*leaf, key.1.clone());
    }

    /// The caller holds the commit lock, so that nobody adds it meanwhile.
    pub(crate) fn remove_historic_entry(&self, key: &EntryKey) {
        self.state.lock().historic_entries.remove(key);
    }

    /// The caller holds the commit lock, so that nobody adds it meanwhile.
    pub(crate) fn remove_historic_leaf(&self, leaf: &LeafKey) {
        self.state.lock().historic_leaves.remove(leaf);
    }

    pub(crate) fn pin_released(&self) {
        let mut work = self.state.lock();
        if work.historic_entries.is_empty() && work.historic_leaves.is_empty() {
            return;
        }
        work.history_due = true;
        work.woken = true;
        self.signal.notify_all();
    }

    pub(crate) fn request_checkpoint(&self) {
        self.add(|work| work.checkpoint_due = true);
    }

    /// Adds work and wakes the thread that does it.
    fn add(&self, change: impl FnOnce(&mut Work)) {
        let mut work = self.state.lock();
        change(&mut work);
        if !std::mem::replace(&mut work.woken, true) {
            self.signal.notify_all();
        }
    }

    pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, Work> {
        self.state.lock()
    }

    pub(crate) fn wake(&self) {
        self.add(|_| {});
    }

    /// Blocks until there may be something to do.
    pub(crate) fn wait(&self) {
        let mut work = self.state.lock();
        while !std::mem::take(&mut work.woken) {
            self.signal.wait(&mut work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(blob: u64, offset: u64, len: u32) -> Owner {
        let key = Key::new("a").expect("valid");
        Owner { keyspace: KeyspaceId(1), key, blob: BlobId::from_u64(blob), offset, len }
    }

    #[test]
    fn a_note_of_a_part_of_a_payload_does_not_hide_the_rest() {
        let whole = owner(1, 60_000, 30_000);
        let mut known = whole.clone();
        known.widen(&owner(1, 60_000, 5536));
        assert_eq!(known, whole);
        let mut known = owner(1, 65_536, 24_464);
        known.widen(&owner(1, 60_000, 5536));
        assert_eq!(known, whole);
        known.widen(&owner(2, 0, 10));
        assert_eq!(known, owner(2, 0, 10));
    }
}
