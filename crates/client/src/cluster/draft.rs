//! What a transaction has done to one blob, as far as its caller's side must know it: whether the blob exists, how large it is, and which
//! attributes it has, each possibly as it was before.

use std::collections::BTreeMap;

use tyr_embed::Number;
use tyr_proto::{
    Operation,
    message::{BlobStat, Looked},
};
use tyr_types::Attributes;

use super::Entry;
use crate::driver::call::Found;
use std::sync::Arc;

/// The changes of one blob.
#[derive(Debug)]
pub struct Draft {
    /// Its keyspace.
    pub keyspace: Arc<Entry>,
    sizes: Vec<SizeStep>,
    presence: Presence,
    /// Whether attributes that it had before are gone.
    is_renewed: bool,
    attributes: BTreeMap<String, Option<Vec<u8>>>,
    operations: usize,
    /// Whether anything of the blob was read or checked.
    pub was_read: bool,
    /// Whether the size before counts as seen.
    pub size_is_seen: bool,
    /// Whether the commit is refused unless it existed before.
    pub has_to_exist: bool,
    /// Whether bytes were copied to it, which are not here.
    pub has_copies: bool,
}

/// Whether the blob exists after the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// If it did before.
    AsBefore,
    /// It does.
    Present,
    /// It does not.
    Absent,
}

#[derive(Clone, Copy, Debug)]
enum SizeStep {
    Reach(u64),
    Append(u64),
    Exactly(u64),
}

/// A size after changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The size.
    pub size: u64,
    /// Whether the size before has a part in it.
    pub is_from_base: bool,
    /// Where the first append begins whose place is not certain.
    pub floating: Option<u64>,
}

impl Draft {
    /// Nothing is changed.
    pub fn new(keyspace: Arc<Entry>) -> Self {
        Draft {
            keyspace,
            sizes: Vec::new(),
            presence: Presence::AsBefore,
            is_renewed: false,
            attributes: BTreeMap::new(),
            operations: 0,
            was_read: false,
            size_is_seen: false,
            has_to_exist: false,
            has_copies: false,
        }
    }

    /// Whether the blob exists after the changes.
    pub fn presence(&self) -> Presence {
        self.presence
    }

    /// How many operations there are.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Whether bytes were appended.
    pub fn has_appends(&self) -> bool {
        self.sizes.iter().any(|step| matches!(step, SizeStep::Append(_)))
    }

    /// Takes note of an operation.
    pub fn note(&mut self, operation: &Operation) {
        self.operations += 1;
        match operation {
            Operation::Create => {
                self.presence = Presence::Present;
                self.is_renewed = true;
                self.sizes.push(SizeStep::Exactly(0));
            }
            Operation::Delete => {
                self.presence = Presence::Absent;
                self.is_renewed = true;
                self.attributes.clear();
                self.sizes.clear();
                self.sizes.push(SizeStep::Exactly(0));
            }
            Operation::Write { offset, bytes } => {
                self.presence = Presence::Present;
                if !bytes.is_empty() {
                    self.sizes.push(SizeStep::Reach(offset + bytes.len() as u64));
                }
            }
            Operation::Append { bytes } => {
                self.presence = Presence::Present;
                self.sizes.push(SizeStep::Append(bytes.len() as u64));
            }
            Operation::Truncate { size } => self.sizes.push(SizeStep::Exactly(*size)),
            Operation::Transform { offset, transform } => {
                self.presence = Presence::Present;
                self.sizes.push(SizeStep::Reach(offset + transform.number_type().size() as u64));
            }
            Operation::SetAttribute { name, value } => {
                self.attributes.insert(name.clone(), value.as_deref().map(<[u8]>::to_vec));
            }
            Operation::Punch { .. } => {}
            // A copy.
            Operation::WriteStaged { offset, length } => {
                self.presence = Presence::Present;
                self.has_copies = true;
                self.sizes.push(SizeStep::Reach(offset + length));
            }
            Operation::AppendStaged { .. } | Operation::Lost { .. } => {}
        }
    }

    /// The size after the changes of a blob that had this one.
    pub fn size_over(&self, base: u64) -> Size {
        let mut size = Size { size: base, is_from_base: true, floating: None };
        for step in &self.sizes {
            match *step {
                SizeStep::Reach(end) => size.size = size.size.max(end),
                SizeStep::Append(length) => {
                    if size.is_from_base {
                        size.floating.get_or_insert(size.size);
                    }
                    size.size = size.size.saturating_add(length);
                }
                SizeStep::Exactly(exactly) => (size.size, size.is_from_base) = (exactly, false),
            }
        }
        size
    }

    /// An attribute after the changes, if they say what it is.
    pub fn attribute(&self, name: &str) -> Option<Option<Vec<u8>>> {
        let own = self.attributes.get(name).cloned();
        own.or(self.is_renewed.then_some(None))
    }
}

/// The attributes of a blob as callers know them.
pub fn attributes_of(known: &BTreeMap<String, Arc<[u8]>>) -> Attributes {
    known.iter().map(|(name, value)| (name.clone(), value.to_vec())).collect()
}

/// A blob as callers know it.
pub fn stat_of(found: &Found) -> tyr_embed::Stat {
    stat_of_looked(found.number, &found.looked)
}

/// The same, of what was seen at a number.
pub fn stat_of_looked(number: Number, looked: &Looked) -> tyr_embed::Stat {
    tyr_embed::Stat {
        size: looked.size,
        blob: tyr_embed::BlobId::from_u64(looked.creation.to_u64()),
        version: if looked.creation == Number::ZERO { Number::ZERO } else { number },
        attributes: attributes_of(&looked.attributes),
    }
}

/// As [`stat_of`], of what a head alone has told.
pub fn stat_of_head(number: Number, blob: &BlobStat) -> tyr_embed::Stat {
    tyr_embed::Stat {
        size: blob.size,
        blob: tyr_embed::BlobId::from_u64(blob.creation.to_u64()),
        version: number,
        attributes: attributes_of(&blob.attributes),
    }
}
