//! The store: what its parts share, and how objects get from the index into memory.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tyr_env::Disk;
use tyr_types::{
    BlobId, Durability, Error, ErrorKind, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number, Result,
};
use tyr_wire::{
    Reader,
    entry::Entry,
    extent::{Extent, Leaf, Place},
    record::{KeyspaceState, Record},
};

use crate::{
    backlog::Backlog,
    cache::BlockCache,
    checkpoint::{CheckpointState, Merging},
    compacting::Compacting,
    garbage::Garbage,
    index::Index,
    index_key::{self, EntryKey, LeafKey},
    keyspaces::{KeyspaceRecord, Keyspaces},
    leaf,
    log::{Draft, Log},
    miss::{Miss, Wait},
    objects::{Objects, Weigh},
    options::Options,
    pace::Pace,
    pins::Pins,
    recent::Recent,
    segment::Segments,
};

/// A storage target: the log, the index, and everything in memory. It starts no threads; all methods may be called from many.
///
/// Locks are taken in this order: compacting, merging, checkpoint, commit, shard of entries, shard of leaves, log.
pub struct Store {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    /// The identity that every segment of this store carries.
    pub(crate) identity: [u8; 16],
    pub(crate) epoch: u32,
    pub(crate) segments: Arc<Segments>,
    pub(crate) log: Arc<Log>,
    pub(crate) index: Index,
    pub(crate) entries: Objects<EntryKey, Entry>,
    pub(crate) leaves: Objects<LeafKey, Leaf>,
    pub(crate) cache: BlockCache,
    pub(crate) recent: Recent,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) pins: Arc<Pins>,
    pub(crate) commit: Mutex<CommitState>,
    /// The last transaction that has been applied to the objects in memory, with all before it.
    pub(crate) applied: AtomicU64,
    pub(crate) checkpoint: Mutex<CheckpointState>,
    /// Held by whoever empties a segment.
    pub(crate) compacting: Mutex<Compacting>,
    /// Bytes that were logged again because they had to move.
    pub(crate) said_again: AtomicU64,
    /// Whether the last step of maintenance was to forget what released pins had kept.
    pub(crate) has_just_forgotten: AtomicBool,
    /// Held by the one merge of tables that is going on.
    pub(crate) merging: Mutex<Merging>,
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) pace: Pace,
    /// See [`crate::Stats::maintenance_failure`].
    pub(crate) failure: Mutex<Option<String>>,
    /// Maintenance is woken when so many bytes have been written.
    pub(crate) next_wake: AtomicU64,
    /// Bytes of blobs that were deleted or cut off since it was opened, of each no more than wakes maintenance.
    pub(crate) freed: AtomicU64,
    /// See [`Store::keep_free`].
    pub(crate) kept_free: AtomicU64,
    pub(crate) closed: AtomicBool,
}

/// What the commit lock guards: the order of transactions.
pub(crate) struct CommitState {
    /// The number of the next transaction.
    pub(crate) next: Number,
}

impl Store {
    /// All keyspaces, by id.
    pub fn keyspaces(&self) -> Vec<KeyspaceRecord> {
        self.keyspaces.all().iter().map(|keyspace| keyspace.record()).collect()
    }

    /// Creates a keyspace, durably. Fails with `exists` if the name is taken, `invalid` if a setting is out of bounds.
    pub fn create_keyspace(&self, name: KeyspaceName, settings: KeyspaceSettings) -> Result<KeyspaceId> {
        settings.check()?;
        let mut commit = self.commit.lock();
        if self.keyspaces.find_name(&name).is_some() {
            return Err(Error::exists(format!(
                "keyspace '{name}' exists already; choose another name or drop it first"
            )));
        }
        let state = KeyspaceState { id: self.keyspaces.next_id(), name, settings, snapshots: Vec::new() };
        let id = state.id;
        self.append_control(&mut commit, &Record::Keyspace(state.clone()))?;
        self.keyspaces.put(state);
        drop(commit);
        self.log.flush()?;
        Ok(id)
    }

    /// Alters a keyspace, durably. The chunk size cannot be altered, and one that has named snapshots keeps its versions.
    pub fn alter_keyspace(&self, id: KeyspaceId, settings: KeyspaceSettings) -> Result<()> {
        settings.check()?;
        let mut commit = self.commit.lock();
        let old = self.keyspaces.find(id)?;
        if old.state.settings.chunk_size != settings.chunk_size {
            return Err(Error::invalid(format!(
                "the chunk size of keyspace '{}' is {} and cannot be altered; create another keyspace and copy the blobs",
                old.state.name, old.state.settings.chunk_size
            )));
        }
        if !settings.multi_version && !old.state.snapshots.is_empty() {
            return Err(Error::invalid(format!(
                "keyspace '{}' has snapshots, which need former versions; drop its snapshots first",
                old.state.name
            )));
        }
        let state = KeyspaceState { settings, ..old.state.clone() };
        self.append_control(&mut commit, &Record::Keyspace(state.clone()))?;
        self.keyspaces.put(state);
        drop(commit);
        self.log.flush()
    }

    /// Drops a keyspace with all its blobs, durably. Its bulk files are given back as soon as nobody reads them.
    pub fn drop_keyspace(&self, id: KeyspaceId) -> Result<()> {
        let mut commit = self.commit.lock();
        self.keyspaces.find(id)?;
        self.append_freeing(&mut commit, &Record::KeyspaceDropped(id))?;
        self.forget_keyspace(id);
        self.backlog.add_garbage(Some(Garbage::Keyspace(id)));
        drop(commit);
        self.log.flush()?;
        self.backlog.request_checkpoint();
        Ok(())
    }

    /// Removes a keyspace from memory: what changed since the last checkpoint is released and becomes nothing, so that it hides
    /// what the index says; the rest is left to collection. The caller holds the commit lock, or is the only thread.
    pub(crate) fn forget_keyspace(&self, id: KeyspaceId) {
        if let Ok(keyspace) = self.keyspaces.find(id) {
            self.pin_named(
                &keyspace.state.snapshots,
                &KeyspaceState { snapshots: Vec::new(), ..keyspace.state.clone() },
            );
        }
        self.keyspaces.remove(id);
        self.entries.replace_dirty(
            |(keyspace, _)| *keyspace == id,
            |entry| {
                let extents = entry.blobs.iter().flat_map(|blob| &blob.leaf);
                extents.for_each(|extent| self.release_extent(extent));
                Entry { applied: entry.applied, blobs: Vec::new() }
            },
        );
        self.leaves.replace_dirty(
            |(keyspace, _, _)| *keyspace == id,
            |leaf| {
                leaf.extents.iter().for_each(|extent| self.release_extent(extent));
                Leaf { applied: leaf.applied, extents: Vec::new() }
            },
        );
        self.log.close_bulk(id);
    }

    /// Logs a record that carries no payload and belongs to no transaction; it takes a number like one.
    pub(crate) fn append_control(&self, commit: &mut CommitState, record: &Record) -> Result<()> {
        let body = |_: &[_], out: &mut Vec<u8>| record.encode(out);
        self.append(commit, &Draft { payloads: &[], body: &body }, Durability::Disk).map(drop)
    }

    /// As [`Store::append_control`], with the reserve released if the device is full: for what frees space.
    pub(crate) fn append_freeing(&self, commit: &mut CommitState, record: &Record) -> Result<()> {
        match self.append_control(commit, record) {
            Err(error) if error.kind() == ErrorKind::Full && self.segments.release_reserve() => {
                self.append_control(commit, record)
            }
            result => result,
        }
    }

    /// Logs a record under the next number; returns the places of its payload.
    pub(crate) fn append(
        &self,
        commit: &mut CommitState,
        draft: &Draft<'_>,
        durability: Durability,
    ) -> Result<Vec<Place>> {
        self.check_open()?;
        let places = self.log.append(draft, commit.next, durability)?;
        commit.next = commit.next.next();
        Ok(places)
    }

    /// Stops cleanly: everything durable, a checkpoint, and a mark that nothing follows. Every later call fails.
    pub fn close(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        {
            // No commit comes after this, and those before are part of the checkpoint.
            let _commit = self.commit.lock();
            self.closed.store(true, Ordering::Release);
        }
        self.log.check_poison()?;
        self.checkpoint_forgetting(|store| store.checkpoint_as(true))
    }

    /// Fails if the store was closed or has stopped writing.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::unavailable("the store is closed; open it again"));
        }
        self.log.check_poison()
    }

    /// The entry of a key; an empty one if nothing is known of it.
    pub(crate) fn entry(&self, key: &EntryKey, wait: Wait) -> Result<Arc<Entry>, Miss> {
        if wait == Wait::Never {
            return self.entries.find(key).ok_or(Miss::WouldBlock);
        }
        let load = || {
            let entry = self.load_entry(key)?;
            entry.blobs.iter().for_each(|blob| self.note_fragmented(key, blob.id, 0, &blob.leaf));
            Ok::<Entry, Error>(entry)
        };
        Ok(self.entries.find_or_load(key, load)?)
    }

    fn load_entry(&self, key: &EntryKey) -> Result<Entry> {
        match self.index.get(&index_key::entry_key(key))? {
            Some(value) => Entry::decode(&mut Reader::new(&value)).map_err(|malformed| {
                Error::from(malformed).context(format_args!("index entry of key '{}'", key.1))
            }),
            None => Ok(Entry::default()),
        }
    }

    /// A leaf other than a blob's first; an empty one if nothing was written there.
    pub(crate) fn leaf(&self, key: &LeafKey, wait: Wait) -> Result<Arc<Leaf>, Miss> {
        if wait == Wait::Never {
            return self.leaves.find(key).ok_or(Miss::WouldBlock);
        }
        Ok(self.leaves.find_or_load(key, || self.load_leaf(key))?)
    }

    /// As [`Store::leaf`], noting one that is met in many pieces.
    pub(crate) fn leaf_of(&self, owner: &EntryKey, key: &LeafKey, wait: Wait) -> Result<Arc<Leaf>, Miss> {
        if wait == Wait::Never {
            return self.leaves.find(key).ok_or(Miss::WouldBlock);
        }
        let load = || {
            let leaf = self.load_leaf(key)?;
            self.note_fragmented(owner, key.1, key.2, &leaf.extents);
            Ok::<Leaf, Error>(leaf)
        };
        Ok(self.leaves.find_or_load(key, load)?)
    }

    /// The list of leaves to defragment does not outlive the process: they are found again when they are loaded, moved, or written. One that
    /// nobody ever touches costs nobody time.
    pub(crate) fn note_fragmented(&self, owner: &EntryKey, blob: BlobId, index: u64, extents: &[Extent]) {
        if leaf::is_fragmented(extents) {
            self.backlog.add_fragmented(owner, blob, index);
        }
    }

    fn load_leaf(&self, key: &LeafKey) -> Result<Leaf> {
        match self.index.get(&index_key::leaf_key(key))? {
            Some(value) => Leaf::decode(&mut Reader::new(&value)).map_err(|malformed| {
                Error::from(malformed).context(format_args!(
                    "index entry of leaf {} of blob {}",
                    key.2,
                    key.1.to_u64()
                ))
            }),
            None => Ok(Leaf::default()),
        }
    }

    /// The numbers at which the blob of a key is pinned, ascending. The caller holds the key's shard of entries.
    pub(crate) fn pins_of(&self, key: &EntryKey) -> Vec<Number> {
        self.pins.of(key)
    }
}

impl Weigh for Entry {
    fn weight(&self) -> usize {
        let blobs = self.blobs.iter().map(|blob| {
            let heads: usize = blob.heads.iter().map(|head| 120 + head.attributes.size()).sum();
            heads + weigh_extents(&blob.leaf) + 96
        });
        blobs.sum()
    }
}

impl Weigh for Leaf {
    fn weight(&self) -> usize {
        weigh_extents(&self.extents)
    }
}

fn weigh_extents(extents: &[Extent]) -> usize {
    extents.iter().map(|extent| 80 + extent.checksums.as_slice().len() * 4).sum()
}

/// Pairs a keyspace with a key.
pub(crate) fn entry_key(keyspace: KeyspaceId, key: &Key) -> EntryKey {
    (keyspace, key.clone())
}
