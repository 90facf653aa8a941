//! Pins: numbers at which somebody still reads, so that what is visible there is not collected.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use tyr_env::Clock;
use tyr_types::{KeyspaceId, Number};

use crate::index_key::EntryKey;

/// All pins of a store.
pub struct Pins {
    /// Of single blobs.
    pub blobs: BlobPins,
    /// Of whole keyspaces.
    pub keyspaces: KeyspacePins,
}

impl Pins {
    /// No pins yet; their ages are told by the clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let keyspaces = KeyspacePins {
            count: AtomicUsize::new(0),
            sets: RwLock::default(),
            ages: RwLock::default(),
            serial: AtomicUsize::new(0),
            clock,
        };
        Pins { blobs: BlobPins::default(), keyspaces }
    }

    /// The numbers at which the blob of a key is pinned, ascending.
    pub fn of(&self, key: &EntryKey) -> Vec<Number> {
        self.blobs.with(key, |set| self.keyspaces.with(key.0, set))
    }
}

/// A multiset of pinned numbers.
#[derive(Clone, Debug, Default)]
pub struct PinSet(BTreeMap<Number, u32>);

impl PinSet {
    /// Adds one pin.
    pub fn add(&mut self, number: Number) {
        *self.0.entry(number).or_default() += 1;
    }

    /// Takes one pin away; whether none is left at all.
    pub fn remove(&mut self, number: Number) -> bool {
        if let Some(count) = self.0.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&number);
            }
        }
        self.0.is_empty()
    }

    /// The pinned numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Number> + '_ {
        self.0.keys().copied()
    }
}

/// Pins of single blobs. One is added only while the blob's shard of entries is locked.
#[derive(Default)]
pub struct BlobPins(Mutex<FxHashMap<EntryKey, PinSet>>);

impl BlobPins {
    /// Pins the blob of a key at `number`.
    pub fn add(&self, key: &EntryKey, number: Number) {
        self.0.lock().entry(key.clone()).or_default().add(number);
    }

    /// Takes such a pin away.
    pub fn remove(&self, key: &EntryKey, number: Number) {
        let mut pins = self.0.lock();
        if pins.get_mut(key).is_some_and(|set| set.remove(number)) {
            pins.remove(key);
        }
    }

    /// Runs `with` on the pins of one blob.
    pub fn with<T>(&self, key: &EntryKey, with: impl FnOnce(Option<&PinSet>) -> T) -> T {
        let pins = self.0.lock();
        if pins.is_empty() {
            return with(None);
        }
        with(pins.get(key))
    }
}

/// The pins of whole keyspaces. Few, and rarely changed; reading them costs one load while there is none.
pub struct KeyspacePins {
    count: AtomicUsize,
    sets: RwLock<BTreeMap<KeyspaceId, PinSet>>,
    /// When each pin began.
    ages: RwLock<BTreeMap<(Number, u64), Duration>>,
    serial: AtomicUsize,
    clock: Arc<dyn Clock>,
}

impl KeyspacePins {
    /// Pins every blob of the keyspace at `number`. The caller holds the commit lock.
    pub fn add(&self, keyspace: KeyspaceId, number: Number) {
        self.sets.write().entry(keyspace).or_default().add(number);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Takes such a pin away.
    pub fn remove(&self, keyspace: KeyspaceId, number: Number) {
        let mut sets = self.sets.write();
        if sets.get_mut(&keyspace).is_some_and(|set| set.remove(number)) {
            sets.remove(&keyspace);
        }
        self.count.fetch_sub(1, Ordering::Release);
    }

    /// The numbers pinned in the keyspace, ascending, together with those of one blob.
    pub fn with(&self, keyspace: KeyspaceId, blob: Option<&PinSet>) -> Vec<Number> {
        let mut numbers: Vec<Number> = blob.map(|set| set.iter().collect()).unwrap_or_default();
        if self.count.load(Ordering::Acquire) > 0
            && let Some(set) = self.sets.read().get(&keyspace)
        {
            numbers.extend(set.iter());
            numbers.sort_unstable();
            numbers.dedup();
        }
        numbers
    }

    /// Notes that a pin began now; returns what [`KeyspacePins::ended`] wants.
    pub fn began(&self, number: Number) -> (Number, u64) {
        let id = (number, self.serial.fetch_add(1, Ordering::Relaxed) as u64);
        self.ages.write().insert(id, self.clock.now());
        id
    }

    /// Forgets a pin's beginning.
    pub fn ended(&self, id: (Number, u64)) {
        self.ages.write().remove(&id);
    }

    /// How many pins there are, and the seconds since the oldest of them began.
    pub fn summary(&self) -> (usize, Option<f64>) {
        let ages = self.ages.read();
        let oldest = ages.values().min().map(|began| self.clock.now().saturating_sub(*began));
        (ages.len(), oldest.map(|age| age.as_secs_f64()))
    }
}
