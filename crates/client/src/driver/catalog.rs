//! The keyspaces of the cluster, as far as they are known here. The driver writes it; every handle reads it.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;
use tyr_proto::{
    ClassId, Keyspace, Keyspaces, Snapshots,
    cluster::{self, ClassSettings, KeyspaceState},
};
use tyr_types::{Durability, Error, KeyspaceId, KeyspaceSettings, Result};

use crate::words;

/// What is known.
#[derive(Debug, Default)]
pub struct Catalog(RwLock<Table>);

#[derive(Debug, Default)]
struct Table {
    keyspaces: BTreeMap<KeyspaceId, cluster::Keyspace>,
    classes: BTreeMap<ClassId, ClassSettings>,
}

impl Table {
    /// A keyspace as the protocol sees it; none if nothing was heard of its class, which no cluster leaves out.
    fn layout(&self, id: KeyspaceId) -> Option<Keyspace> {
        let known = self.keyspaces.get(&id)?;
        Keyspace::of(known, self.classes.get(&known.class)?).ok()
    }

    fn exists(&self, id: KeyspaceId) -> bool {
        let known = self.keyspaces.get(&id).filter(|known| self.classes.contains_key(&known.class));
        known.is_some_and(|known| known.state == KeyspaceState::Exists)
    }
}

impl Catalog {
    /// Takes note of a class.
    pub fn note_class(&self, id: ClassId, settings: ClassSettings) {
        self.0.write().classes.insert(id, settings);
    }

    /// Takes note of a keyspace.
    pub fn note_keyspace(&self, id: KeyspaceId, keyspace: cluster::Keyspace) {
        self.0.write().keyspaces.insert(id, keyspace);
    }

    /// All keyspaces as the protocol sees them, those that were dropped included: somebody may still have a handle.
    pub fn placed(&self) -> Arc<Keyspaces> {
        let table = self.0.read();
        let placed = table.keyspaces.keys().filter_map(|id| Some((*id, table.layout(*id)?)));
        Arc::new(placed.collect())
    }

    /// The keyspace of a name.
    pub fn find(&self, name: &str) -> Option<(KeyspaceId, cluster::Keyspace)> {
        self.all().into_iter().find(|(_, known)| known.name.as_str() == name)
    }

    /// All keyspaces that exist.
    pub fn all(&self) -> Vec<(KeyspaceId, cluster::Keyspace)> {
        let table = self.0.read();
        let exists = table.keyspaces.iter().filter(|(id, _)| table.exists(**id));
        exists.map(|(id, known)| (*id, known.clone())).collect()
    }

    /// Fails unless a keyspace exists.
    pub fn require(&self, id: KeyspaceId, name: &str) -> Result<()> {
        if self.exists(id) { Ok(()) } else { Err(words::dropped(name)) }
    }

    /// Whether a keyspace exists.
    pub fn exists(&self, id: KeyspaceId) -> bool {
        self.0.read().exists(id)
    }

    /// The settings of a keyspace that was once known.
    pub fn settings(&self, id: KeyspaceId) -> KeyspaceSettings {
        self.0.read().keyspaces.get(&id).map(|known| known.settings.clone()).unwrap_or_default()
    }

    /// The snapshots of a keyspace that have names.
    pub fn snapshots(&self, id: KeyspaceId) -> Snapshots {
        self.0.read().keyspaces.get(&id).map(|known| known.snapshots.clone()).unwrap_or_default()
    }

    /// What the placement of a keyspace begins with that was once known: random bits.
    pub fn seed(&self, id: KeyspaceId) -> u64 {
        self.0.read().keyspaces.get(&id).map_or(0, |known| known.seed)
    }

    /// A keyspace as the protocol sees it.
    pub fn layout(&self, id: KeyspaceId) -> Option<Keyspace> {
        self.0.read().layout(id)
    }

    /// The class for a new keyspace: the first that keeps what the keyspace asks for.
    pub fn class_for(&self, durability: Durability) -> Result<ClassId> {
        let table = self.0.read();
        let fits = table.classes.iter().find(|(_, class)| class.durability == durability);
        let word = match durability {
            Durability::Memory => "memory",
            Durability::Disk => "disk",
        };
        let missing = || {
            Error::invalid(format!(
                "the cluster has no placement class of durability '{word}'; ask for another durability"
            ))
        };
        fits.map(|(id, _)| *id).ok_or_else(missing)
    }

    /// Whether everything that is acknowledged is on disk.
    pub fn is_on_disk(&self) -> bool {
        self.0.read().classes.values().all(|class| class.durability == Durability::Disk)
    }
}
