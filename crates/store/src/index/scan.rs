//! Several tables read as one, in the order of keys; the newest decides.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

use tyr_types::{Error, Result};

use super::cursor::Cursor;

/// The entries of several tables, each key once.
pub(super) struct Merged {
    /// The cursor with the smallest key on top, the newest of those with the same key. All of them are at an entry.
    sources: BinaryHeap<Source>,
    begun: bool,
    last_key: Vec<u8>,
}

struct Source {
    cursor: Cursor,
    /// Larger is older.
    age: usize,
}

impl Merged {
    /// Of cursors that are at their beginnings, the newest first.
    pub fn new(cursors: Vec<Cursor>) -> Result<Self> {
        let mut sources = Vec::with_capacity(cursors.len());
        for (age, mut cursor) in cursors.into_iter().enumerate() {
            if cursor.advance()? {
                sources.push(Source { cursor, age });
            }
        }
        Ok(Merged { sources: sources.into(), begun: false, last_key: Vec::new() })
    }

    /// Goes to the next key. False if there is none.
    pub fn advance(&mut self) -> Result<bool> {
        if self.begun {
            self.leave_key()?;
        }
        self.begun = true;
        Ok(!self.sources.is_empty())
    }

    /// The current key and its value; none is a tombstone.
    ///
    /// # Panics
    ///
    /// If [`advance`](Self::advance) has not just returned true.
    pub fn entry(&self) -> (&[u8], Option<&[u8]>) {
        let top = self.sources.peek().expect("advance returned true");
        (top.cursor.key(), top.cursor.value())
    }

    /// Moves every cursor past the current key.
    fn leave_key(&mut self) -> Result<()> {
        self.last_key.clear();
        if let Some(top) = self.sources.peek() {
            self.last_key.extend_from_slice(top.cursor.key());
        }
        while let Some(mut top) = self.sources.peek_mut() {
            if top.cursor.key() != self.last_key {
                break;
            }
            if !top.cursor.advance()? {
                PeekMut::pop(top);
            }
        }
        Ok(())
    }
}

impl Ord for Source {
    /// Reversed, because the heap has its largest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.cursor.key().cmp(self.cursor.key()).then(other.age.cmp(&self.age))
    }
}

impl PartialOrd for Source {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Source {}

/// Keys with a value, in order, as they were when the scan began. After an error there is nothing more.
pub struct Scan {
    state: Result<Merged, Option<Error>>,
}

impl Scan {
    pub(super) fn new(merged: Result<Merged>) -> Self {
        Scan { state: merged.map_err(Some) }
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Box<[u8]>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let merged = match &mut self.state {
                Ok(merged) => merged,
                Err(error) => return error.take().map(Err),
            };
            match merged.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.state = Err(None);
                    return Some(Err(error));
                }
            }
            if let (key, Some(value)) = merged.entry() {
                return Some(Ok((key.to_vec(), value.into())));
            }
        }
    }
}

impl std::iter::FusedIterator for Scan {}
