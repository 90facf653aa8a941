//! The keyspaces of a store and their totals.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;
use tyr_types::{Error, KeyspaceId, KeyspaceName, KeyspaceSettings, Result};
use tyr_wire::record::KeyspaceState;

/// A keyspace as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceRecord {
    /// Its identity.
    pub id: KeyspaceId,
    /// Its name.
    pub name: KeyspaceName,
    /// Its settings.
    pub settings: KeyspaceSettings,
    /// How many blobs it has.
    pub blobs: u64,
    /// What their sizes add up to, modulo 2^64.
    pub bytes: u64,
}

/// A keyspace in use.
#[derive(Debug)]
pub struct Keyspace {
    /// Name and settings.
    pub state: KeyspaceState,
    /// Both wrap around: a replay may meet what goes before what came, and three sparse blobs may have 2^64 bytes.
    blobs: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Keyspace {
    /// A keyspace with known totals.
    pub fn new(state: KeyspaceState, blobs: u64, bytes: u64) -> Self {
        Keyspace { state, blobs: Arc::new(AtomicU64::new(blobs)), bytes: Arc::new(AtomicU64::new(bytes)) }
    }

    /// What the sizes of its blobs add up to, modulo 2^64.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts a blob that changed from one size to another; `None` where it does not exist.
    pub fn count(&self, before: Option<u64>, after: Option<u64>) {
        let difference = u64::from(after.is_some()).wrapping_sub(u64::from(before.is_some()));
        self.blobs.fetch_add(difference, Ordering::Relaxed);
        self.bytes.fetch_add(after.unwrap_or(0).wrapping_sub(before.unwrap_or(0)), Ordering::Relaxed);
    }

    /// As reported.
    pub fn record(&self) -> KeyspaceRecord {
        KeyspaceRecord {
            id: self.state.id,
            name: self.state.name.clone(),
            settings: self.state.settings.clone(),
            blobs: self.blobs.load(Ordering::Relaxed),
            bytes: self.bytes(),
        }
    }
}

/// All keyspaces of a store.
#[derive(Default)]
pub struct Keyspaces(RwLock<Table>);

#[derive(Default)]
struct Table {
    by_id: BTreeMap<KeyspaceId, Arc<Keyspace>>,
    next: u32,
}

impl Keyspaces {
    /// The keyspace. Fails with `not found` if it was dropped.
    pub fn find(&self, id: KeyspaceId) -> Result<Arc<Keyspace>> {
        let found = self.0.read().by_id.get(&id).cloned();
        found.ok_or_else(|| Error::not_found(format!("keyspace {} does not exist; it was dropped", id.0)))
    }

    /// Whether the keyspace exists.
    pub fn contains(&self, id: KeyspaceId) -> bool {
        self.0.read().by_id.contains_key(&id)
    }

    /// The keyspace of that name.
    pub fn find_name(&self, name: &KeyspaceName) -> Option<Arc<Keyspace>> {
        self.0.read().by_id.values().find(|keyspace| keyspace.state.name == *name).cloned()
    }

    /// All of them, by id.
    pub fn all(&self) -> Vec<Arc<Keyspace>> {
        self.0.read().by_id.values().cloned().collect()
    }

    /// The id that the next new keyspace gets; never one that was in use.
    pub fn next_id(&self) -> KeyspaceId {
        KeyspaceId(self.0.read().next.max(1))
    }

    /// Makes sure that ids below are not given out again.
    pub fn skip_to(&self, next: u32) {
        let mut table = self.0.write();
        table.next = table.next.max(next);
    }

    /// Adds a keyspace, or replaces name and settings of one, keeping its totals.
    pub fn put(&self, state: KeyspaceState) {
        let mut table = self.0.write();
        table.next = table.next.max(state.id.0 + 1);
        let keyspace = match table.by_id.get(&state.id) {
            Some(old) => Keyspace { state, blobs: old.blobs.clone(), bytes: old.bytes.clone() },
            None => Keyspace::new(state, 0, 0),
        };
        table.by_id.insert(keyspace.state.id, Arc::new(keyspace));
    }

    /// Adds a keyspace with its totals.
    pub fn restore(&self, keyspace: Keyspace) {
        let mut table = self.0.write();
        table.next = table.next.max(keyspace.state.id.0 + 1);
        table.by_id.insert(keyspace.state.id, Arc::new(keyspace));
    }

    /// Removes a keyspace; whether it was there.
    pub fn remove(&self, id: KeyspaceId) -> bool {
        self.0.write().by_id.remove(&id).is_some()
    }
}
