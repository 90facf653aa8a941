//! Scans: the keys of a keyspace in order, from memory and index together.

use std::{iter::Peekable, ops::Bound, sync::Arc};

use tyr_types::{Durability, Key, KeyspaceId, Number, Result};
use tyr_wire::{
    Reader,
    entry::{Blob, Entry, Head},
};

use crate::{
    index::Scan,
    index_key::{self, EntryKey, IndexKey},
    miss::Wait,
    store::Store,
};

impl Store {
    /// Up to `limit` blobs of a keyspace whose keys begin with `prefix` and come after `after`, in order, as of a number (see [`Store::head`]).
    /// A key that exists throughout a series of scans, each continuing after the last key of the one before, is met exactly once.
    pub fn scan(
        &self,
        keyspace: KeyspaceId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        at: Number,
    ) -> Result<Vec<(Key, Arc<Head>)>> {
        let settings = self.keyspaces.find(keyspace)?;
        self.check_readable()?;
        let mut found = Vec::new();
        let mut observed = Number::ZERO;
        let mut from = start_of(keyspace, prefix, after);
        while found.len() < limit {
            // Memory first: what a checkpoint moves to the index meanwhile is then met there or here, never nowhere.
            let changed = self.changed_after(keyspace, &from);
            let last =
                (changed.len() == PAGE).then(|| changed.last().map(|((_, key), _)| key.clone())).flatten();
            let page = Page {
                keyspace,
                changed: changed.into_iter().peekable(),
                indexed: self.indexed_after(&from).peekable(),
            };
            let mut is_over = last.is_none();
            for item in page {
                let (key, entry) = item?;
                if last.as_ref().is_some_and(|last| key > *last) {
                    break;
                }
                if !key.as_bytes().starts_with(prefix) {
                    is_over |= key.as_bytes() > prefix;
                    break;
                }
                observed = observed.max(entry.applied);
                let head = match at {
                    Number::MAX => entry.current().and_then(Blob::head).cloned(),
                    at => entry.at(at).map(|(_, head)| head.clone()),
                };
                found.extend(head.map(|head| (key, head)));
                if found.len() == limit {
                    break;
                }
            }
            match last {
                Some(last) if !is_over => from = Bound::Excluded(index_key::entry_key(&(keyspace, last))),
                _ => break,
            }
        }
        if settings.state.settings.durability == Durability::Disk && at == Number::MAX {
            self.loaded(self.await_durable(observed, Wait::Allowed))?;
        }
        Ok(found)
    }

    /// Changed entries from a bound on, a page at most.
    fn changed_after(&self, keyspace: KeyspaceId, from: &Bound<Vec<u8>>) -> Vec<(EntryKey, Arc<Entry>)> {
        let key = |bytes: &[u8]| match index_key::parse(bytes) {
            Some(IndexKey::Entry(key)) => Some(key),
            _ => None,
        };
        let end = smallest_key(KeyspaceId(keyspace.0.saturating_add(1)));
        let first = match from {
            Bound::Included(bytes) => {
                key(bytes).map_or(Bound::Included(smallest_key(keyspace)), Bound::Included)
            }
            Bound::Excluded(bytes) => {
                key(bytes).map_or(Bound::Included(smallest_key(keyspace)), Bound::Excluded)
            }
            Bound::Unbounded => Bound::Unbounded,
        };
        self.entries.dirty_range((first.as_ref(), Bound::Excluded(&end)), PAGE)
    }

    fn indexed_after(&self, from: &Bound<Vec<u8>>) -> Scan {
        self.index.scan(from.as_ref().map(Vec::as_slice))
    }
}

/// Changed and indexed entries merged; where both have a key, the changed one holds.
struct Page<I: Iterator<Item = (EntryKey, Arc<Entry>)>> {
    keyspace: KeyspaceId,
    changed: Peekable<I>,
    indexed: Peekable<Scan>,
}

impl<I: Iterator<Item = (EntryKey, Arc<Entry>)>> Page<I> {
    /// The key of the next indexed entry, if there is one in the keyspace.
    fn indexed_key(&mut self) -> Option<Result<Key>> {
        let key = match self.indexed.peek()? {
            Ok((key, _)) => index_key::parse(key),
            Err(error) => return Some(Err(error.clone())),
        };
        match key {
            Some(IndexKey::Entry((keyspace, key))) if keyspace == self.keyspace => Some(Ok(key)),
            _ => None,
        }
    }
}

impl<I: Iterator<Item = (EntryKey, Arc<Entry>)>> Iterator for Page<I> {
    type Item = Result<(Key, Arc<Entry>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let indexed = match self.indexed_key() {
            Some(Err(error)) => return Some(Err(error)),
            Some(Ok(key)) => Some(key),
            None => None,
        };
        let changed = self.changed.peek().map(|((_, key), _)| key.clone());
        match (changed, indexed) {
            (Some(changed), indexed) if indexed.as_ref().is_none_or(|indexed| changed <= *indexed) => {
                if indexed.is_some_and(|indexed| changed == indexed) {
                    self.indexed.next();
                }
                self.changed.next().map(|((_, key), entry)| Ok((key, entry)))
            }
            (_, Some(key)) => {
                let value = match self.indexed.next()? {
                    Ok((_, value)) => value,
                    Err(error) => return Some(Err(error)),
                };
                let entry = Entry::decode(&mut Reader::new(&value)).map_err(tyr_types::Error::from);
                Some(entry.map(|entry| (key, Arc::new(entry))))
            }
            _ => None,
        }
    }
}

fn start_of(keyspace: KeyspaceId, prefix: &[u8], after: Option<&[u8]>) -> Bound<Vec<u8>> {
    let with = |key: &[u8]| [&index_key::keyspace_prefix(keyspace)[..], key].concat();
    match after {
        Some(after) if after >= prefix => Bound::Excluded(with(after)),
        _ => Bound::Included(with(prefix)),
    }
}

fn smallest_key(keyspace: KeyspaceId) -> EntryKey {
    (keyspace, Key::new([0]).expect("one byte is a key"))
}

/// Changed entries that are looked at together.
const PAGE: usize = 1024;
