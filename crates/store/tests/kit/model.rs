//! A store as anybody would write it who need not care for disks: maps of maps.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use tyr_store::Existence;
use tyr_types::{Attributes, Key, KeyspaceId, KeyspaceName, KeyspaceSettings};

/// Bytes that the model keeps together; what it does not keep is zeros.
pub const PAGE: u64 = PAGE_SIZE as u64;
const PAGE_SIZE: usize = 4096;

/// All keyspaces. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub spaces: BTreeMap<KeyspaceId, Space>,
    /// The last id that was given to a keyspace.
    pub last_space: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    pub name: KeyspaceName,
    pub settings: KeyspaceSettings,
    pub blobs: BTreeMap<Key, Arc<Blob>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blob {
    pub size: u64,
    pub attributes: Attributes,
    pub pages: BTreeMap<u64, Arc<[u8]>>,
}

/// A change of one blob, as a test wants it.
#[derive(Clone, Debug)]
pub struct Edit {
    pub space: KeyspaceId,
    pub key: Key,
    pub existence: Existence,
    pub cut: Option<u64>,
    /// Where nothing is left; disjoint, also from what is written.
    pub holes: Vec<Range<u64>>,
    /// The size afterwards; at least the end of every write.
    pub size: u64,
    pub attributes: Option<Attributes>,
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Whether large payload is written ahead of the transaction.
    pub staged: Staged,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Staged {
    Yes,
    No,
}

pub fn key(name: &str) -> Key {
    Key::new(name).expect("valid")
}

impl State {
    pub fn space(&self, id: KeyspaceId) -> &Space {
        &self.spaces[&id]
    }

    pub fn blob(&self, id: KeyspaceId, key: &Key) -> Option<&Arc<Blob>> {
        self.spaces.get(&id)?.blobs.get(key)
    }

    /// The id that the next keyspace gets.
    pub fn next_space(&self) -> KeyspaceId {
        KeyspaceId(self.last_space + 1)
    }

    pub fn create_space(&mut self, name: &str, settings: KeyspaceSettings) -> KeyspaceId {
        let id = self.next_space();
        let name = KeyspaceName::new(name).expect("valid");
        self.last_space = id.0;
        self.spaces.insert(id, Space { name, settings, blobs: BTreeMap::new() });
        id
    }

    pub fn apply(&mut self, edit: &Edit) {
        let blobs = &mut self.spaces.get_mut(&edit.space).expect("exists").blobs;
        if edit.existence == Existence::Delete {
            blobs.remove(&edit.key).expect("exists");
            return;
        }
        let mut blob = match edit.existence {
            Existence::Keep => Blob::clone(&blobs[&edit.key]),
            _ => Blob::default(),
        };
        if let Some(from) = edit.cut {
            blob.cut(from);
        }
        edit.holes.iter().for_each(|hole| blob.clear(hole));
        edit.writes.iter().for_each(|(offset, bytes)| blob.write(*offset, bytes));
        assert!(edit.size >= blob.end_of_pages_within(edit.size), "{edit:?}");
        blob.size = edit.size;
        blob.attributes = edit.attributes.clone().unwrap_or(blob.attributes);
        blobs.insert(edit.key.clone(), Arc::new(blob));
    }

    /// The totals that the store should report for a keyspace.
    pub fn totals(&self, id: KeyspaceId) -> (u64, u64) {
        let blobs = &self.spaces[&id].blobs;
        (blobs.len() as u64, blobs.values().fold(0, |bytes: u64, blob| bytes.wrapping_add(blob.size)))
    }
}

impl Blob {
    fn cut(&mut self, from: u64) {
        self.pages.split_off(&from.div_ceil(PAGE));
        if let Some(page) = self.pages.get_mut(&(from / PAGE)) {
            let mut bytes = page.to_vec();
            bytes[usize::try_from(from % PAGE).expect("fits")..].fill(0);
            *page = bytes.into();
        }
    }

    fn clear(&mut self, hole: &Range<u64>) {
        for (number, page) in self.pages.range_mut(hole.start / PAGE..hole.end.div_ceil(PAGE)) {
            let within =
                |at: u64| usize::try_from(at.clamp(number * PAGE, (number + 1) * PAGE) - number * PAGE);
            let mut bytes = page.to_vec();
            bytes[within(hole.start).expect("fits")..within(hole.end).expect("fits")].fill(0);
            *page = bytes.into();
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = usize::try_from(at % PAGE).expect("fits");
            let len = (bytes.len() - done).min(PAGE_SIZE - within);
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE_SIZE].into());
            let mut new = page.to_vec();
            new[within..within + len].copy_from_slice(&bytes[done..done + len]);
            *page = new.into();
            done += len;
        }
    }

    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            let within = usize::try_from(at % PAGE).expect("fits");
            let part = (len - bytes.len()).min(PAGE_SIZE - within);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => bytes.extend_from_slice(&page[within..within + part]),
                None => bytes.resize(bytes.len() + part, 0),
            }
        }
        bytes
    }

    /// Nothing to check but that a test does not set a size below what it has written.
    fn end_of_pages_within(&self, size: u64) -> u64 {
        let last = self.pages.keys().next_back().map_or(0, |page| page * PAGE);
        last.min(size)
    }
}

impl Edit {
    /// A change of a blob that exists and stays as it is.
    pub fn keep(state: &State, space: KeyspaceId, key: &Key) -> Self {
        let blob = state.blob(space, key).expect("exists");
        Edit { size: blob.size, existence: Existence::Keep, ..Self::create(space, key) }
    }

    /// A new empty blob.
    pub fn create(space: KeyspaceId, key: &Key) -> Self {
        Edit {
            space,
            key: key.clone(),
            existence: Existence::Create,
            cut: None,
            holes: Vec::new(),
            size: 0,
            attributes: None,
            writes: Vec::new(),
            staged: Staged::No,
        }
    }

    /// As [`Edit::keep`], or as [`Edit::create`] if there is no such blob.
    pub fn any(state: &State, space: KeyspaceId, key: &Key) -> Self {
        match state.blob(space, key) {
            Some(_) => Self::keep(state, space, key),
            None => Self::create(space, key),
        }
    }

    pub fn delete(space: KeyspaceId, key: &Key) -> Self {
        Edit { existence: Existence::Delete, ..Self::create(space, key) }
    }

    pub fn replace(space: KeyspaceId, key: &Key) -> Self {
        Edit { existence: Existence::Replace, ..Self::create(space, key) }
    }

    #[must_use]
    pub fn write(mut self, offset: u64, bytes: Vec<u8>) -> Self {
        self.size = self.size.max(offset + bytes.len() as u64);
        self.writes.push((offset, bytes));
        self
    }

    #[must_use]
    pub fn append(self, bytes: Vec<u8>) -> Self {
        let size = self.size;
        self.write(size, bytes)
    }

    /// Cuts off or extends with zeros.
    #[must_use]
    pub fn truncate(mut self, size: u64) -> Self {
        if size < self.size {
            self.cut = Some(size);
        }
        self.size = size;
        self
    }

    #[must_use]
    pub fn punch(mut self, hole: Range<u64>) -> Self {
        self.holes.push(hole);
        self
    }

    #[must_use]
    pub fn attribute(mut self, state: &State, name: &str, value: Option<&[u8]>) -> Self {
        let old = state.blob(self.space, &self.key).filter(|_| self.existence == Existence::Keep);
        let mut attributes = old.map(|blob| blob.attributes.clone()).unwrap_or_default();
        attributes.set(name, value).expect("fits");
        self.attributes = Some(attributes);
        self
    }

    #[must_use]
    pub fn staged(self) -> Self {
        Edit { staged: Staged::Yes, ..self }
    }
}
