//! Payload that a journal keeps out of memory: blobs of their own, beside the entries and states that refer to them by number.
//!
//! A number belongs to a partition. It is given when an entry or a state with the payload is written, and is free again when nothing in
//! memory has the payload any more. Its blob goes with the partition's next checkpoint: what is dead by then is referred to neither by that
//! checkpoint nor by an entry that a restart reads after it, for the log and the state in memory hold the payload of all these.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tyr_proto::{
    FileName, PartitionId, Payload, Spot,
    encoding::{Decode, Malformed, from_bytes_keeping},
    payload::{Home, Lost, Place},
};
use tyr_store::{Miss, Store, Stored, Wait};
use tyr_types::{Error, KeyspaceId, Number, Result};
use tyr_wire::{Reader, varint};

use super::keys;

/// The payload of a journal.
#[derive(Debug)]
pub struct Shelf {
    journal: u64,
    store: Weak<Store>,
    space: KeyspaceId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers whose payload nobody has any more.
    dead: BTreeMap<PartitionId, Dead>,
    failure: Option<Error>,
}

/// Payload of a partition that nobody has any more.
#[derive(Debug, Default)]
struct Dead {
    numbers: Vec<u64>,
    bytes: u64,
}

/// The home of one payload.
#[derive(Debug)]
struct Kept {
    shelf: Arc<Shelf>,
    place: Place,
    size: usize,
}

impl Shelf {
    /// That of a new journal. It does not keep the store open.
    pub fn new(store: &Arc<Store>, space: KeyspaceId) -> Arc<Shelf> {
        static JOURNALS: AtomicU64 = AtomicU64::new(0);
        let journal = JOURNALS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Shelf { journal, store: Arc::downgrade(store), space, state: Mutex::default() })
    }

    /// Which journal of the process it belongs to.
    pub fn journal(&self) -> u64 {
        self.journal
    }

    /// The number of a payload in a partition, if it has one.
    pub fn number(&self, partition: PartitionId, payload: &Payload) -> Option<u64> {
        payload.number(self.journal, partition)
    }

    /// The home of a number, for so many bytes.
    pub fn home(self: &Arc<Self>, partition: PartitionId, number: u64, size: usize) -> Arc<dyn Home> {
        Arc::new(Kept {
            shelf: self.clone(),
            place: Place { journal: self.journal, partition, number },
            size,
        })
    }

    /// Notes that nobody has the payload of a number, of so many bytes.
    pub fn bury(&self, partition: PartitionId, number: u64, size: usize) {
        let mut state = self.state.lock();
        let dead = state.dead.entry(partition).or_default();
        dead.numbers.push(number);
        dead.bytes += size as u64;
    }

    /// The numbers of a partition that have died since the last call.
    pub fn take_dead(&self, partition: PartitionId) -> Vec<u64> {
        self.state.lock().dead.remove(&partition).unwrap_or_default().numbers
    }

    /// The bytes of these.
    pub fn dead_size(&self, partition: PartitionId) -> u64 {
        self.state.lock().dead.get(&partition).map_or(0, |dead| dead.bytes)
    }

    /// Why payload could not be read, if that has happened.
    pub fn failure(&self) -> Option<Error> {
        self.state.lock().failure.clone()
    }

    fn fail(&self, error: Error) -> Lost {
        self.state.lock().failure.get_or_insert(error);
        Lost
    }
}

impl Home for Kept {
    fn place(&self) -> Place {
        self.place
    }

    fn read(&self, from: usize, buffer: &mut [u8]) -> Result<(), Lost> {
        let Place { partition, number, .. } = self.place;
        let shelf = &self.shelf;
        let failed = |error: Error| {
            shelf.fail(error.context(format_args!("payload {number} of partition {partition}")))
        };
        let store = shelf.store.upgrade().ok_or_else(|| failed(Error::unavailable("its store is closed")))?;
        let key = keys::payload(partition, number);
        match store.read(shelf.space, &key, Number::MAX, from as u64, buffer, Wait::Allowed) {
            Ok(Some((_, length))) if length >= buffer.len() => Ok(()),
            Ok(_) => Err(failed(Error::corrupt("it is missing"))),
            Err(Miss::Failed(error)) => Err(failed(error)),
            Err(Miss::WouldBlock) => Err(failed(Error::internal("a read that may wait did not"))),
        }
    }

    fn spots(&self, part: &Range<usize>) -> Option<Vec<Spot>> {
        let store = self.shelf.store.upgrade()?;
        let key = keys::payload(self.place.partition, self.place.number);
        let range = part.start as u64..part.end as u64;
        // Who cannot be told where it is gets the bytes, or finds out why not.
        let stored = store.stored(self.shelf.space, &key, range, Wait::Allowed).ok()??;
        Some(stored.into_iter().map(|stored| self.spot(stored)).collect())
    }
}

impl Kept {
    fn spot(&self, stored: Stored) -> Spot {
        let Stored { segment, position, size, part, checksums } = stored;
        let file = FileName { journal: self.shelf.journal, number: segment.0 };
        let (from, length) = (part.start, part.end - part.start);
        Spot { file, position, stored: size, from, length, checksums }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shelf.bury(self.place.partition, self.place.number, self.size);
    }
}

/// Appends which payload a value refers to, in order: how many, and of each its number and its length.
pub fn append_list(bytes: &mut Vec<u8>, list: &[(u64, usize)]) {
    varint::write_varint(bytes, list.len() as u64);
    for (number, length) in list {
        varint::write_varint(bytes, *number);
        varint::write_varint(bytes, *length as u64);
    }
}

/// The payload of a partition that a restart has come across, by number: one of each, however often it is referred to.
#[derive(Debug)]
pub struct Finder {
    shelf: Arc<Shelf>,
    partition: PartitionId,
    found: BTreeMap<u64, Payload>,
}

impl Finder {
    /// One that has found nothing.
    pub fn new(shelf: Arc<Shelf>, partition: PartitionId) -> Finder {
        Finder { shelf, partition, found: BTreeMap::new() }
    }

    /// A value from its list of payload and its bytes.
    pub fn decode<T: Decode>(&mut self, bytes: &[u8]) -> Result<T, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut kept = Vec::new();
        for _ in 0..reader.varint()? {
            let (number, length) = (reader.varint()?, reader.varint_usize()?);
            let home = || Payload::at_home(length, self.shelf.home(self.partition, number, length));
            let payload = self.found.entry(number).or_insert_with(home);
            if payload.len() != length {
                return Err(Malformed("a payload has two lengths"));
            }
            kept.push(payload.clone());
        }
        from_bytes_keeping(reader.rest(), kept)
    }

    /// Whether a number was come across.
    pub fn has(&self, number: u64) -> bool {
        self.found.contains_key(&number)
    }
}
