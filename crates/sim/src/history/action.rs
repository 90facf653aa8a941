//! What a transaction did or saw, one step at a time.

use std::fmt;

use tyr_types::Number;

/// A blob of a history. Blobs are numbered in the order of their keys, so that the order of a scan can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Blob(pub u32);

/// A range of a blob that holds one little-endian `u64`: the part in some chunk of its own, or one of several in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register {
    /// The blob that it is in.
    pub blob: Blob,
    /// Which of the blob's ranges it is.
    pub part: u32,
}

/// One step of a transaction with what the store answered.
///
/// Steps that change something are recorded when they are asked for, since they may happen even if nobody hears of it. Steps
/// that only look are recorded when they were answered. An expected refusal is what it tells: a create that found the blob
/// there is `Exists { exists: true }`, a delete or read that found none is `Exists { exists: false }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A register was read. Also one of the parts of a read over several chunks, or of a snapshot.
    Read {
        /// What was read.
        register: Register,
        /// What it held; `None` if there were no bytes (no blob, past the end). A hole may also read as 0.
        value: Option<u64>,
        /// The version that the store says it read: that of the last write here or a later one of the same blob.
        number: Option<Number>,
    },
    /// A register is overwritten.
    Write {
        /// What is written.
        register: Register,
        /// The new value. No two writes of a history write the same one to a register, and none writes 0, which bytes that were
        /// never written read as, unless the numbers of all committed writes are known.
        value: u64,
        /// The number from the receipt.
        number: Option<Number>,
    },
    /// A whole list was read.
    ReadList {
        /// The list.
        blob: Blob,
        /// Its elements in order; `None` if there is no such blob.
        elements: Option<Vec<u64>>,
    },
    /// An element is appended to a list.
    Append {
        /// The list.
        blob: Blob,
        /// What is appended; unique within the list.
        element: u64,
        /// Where the store says that it was put, counted in elements.
        offset: Option<u64>,
    },
    /// A register is used as a counter: `operand` is added, wrapping.
    Add {
        /// The counter, which begins at zero.
        register: Register,
        /// How much is added; a subtraction is the wrapped negative.
        operand: u64,
        /// What the store says it was before.
        old: Option<u64>,
    },
    /// A blob that did not exist is created.
    Create {
        /// Which.
        blob: Blob,
        /// The number from the receipt.
        number: Option<Number>,
    },
    /// A blob that existed is deleted.
    Delete {
        /// Which.
        blob: Blob,
        /// The number from the receipt.
        number: Option<Number>,
    },
    /// Whether a blob exists was seen.
    Exists {
        /// Which.
        blob: Blob,
        /// Whether it was there.
        exists: bool,
    },
    /// A scan returned every blob that it found in a range; not part of the transaction's point in time.
    Scan {
        /// The first blob that could have been found.
        from: Blob,
        /// One past the last blob that could have been found; for a scan that met its limit, one past the last that it found.
        to: Blob,
        /// What was found, in the order returned.
        found: Vec<Blob>,
    },
}

impl Blob {
    /// One of its ranges.
    pub fn register(self, part: u32) -> Register {
        Register { blob: self, part }
    }
}

impl Action {
    /// Whether the step may change what others see.
    pub fn changes(&self) -> bool {
        match self {
            Action::Write { .. }
            | Action::Append { .. }
            | Action::Add { .. }
            | Action::Create { .. }
            | Action::Delete { .. } => true,
            Action::Read { .. } | Action::ReadList { .. } | Action::Exists { .. } | Action::Scan { .. } => {
                false
            }
        }
    }
}

impl fmt::Display for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.blob, self.part)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Read { register, value, number } => {
                write!(f, "read {register} = {}{}", Shown(*value), At(*number))
            }
            Action::Write { register, value, number } => {
                write!(f, "write {register} = {value}{}", At(*number))
            }
            Action::ReadList { blob, elements: None } => write!(f, "read list {blob} = none"),
            Action::ReadList { blob, elements: Some(elements) } => {
                write!(f, "read list {blob} = {}", Elements(elements))
            }
            Action::Append { blob, element, offset } => {
                write!(f, "append {element} to {blob}")?;
                offset.map_or(Ok(()), |offset| write!(f, " at {offset}"))
            }
            Action::Add { register, operand, old } => {
                write!(f, "add {} to {register}", operand.cast_signed())?;
                old.map_or(Ok(()), |old| write!(f, " (was {old})"))
            }
            Action::Create { blob, number } => write!(f, "create {blob}{}", At(*number)),
            Action::Delete { blob, number } => write!(f, "delete {blob}{}", At(*number)),
            Action::Exists { blob, exists: true } => write!(f, "{blob} is there"),
            Action::Exists { blob, exists: false } => write!(f, "{blob} is not there"),
            Action::Scan { from, to, found } => write!(f, "scan {from}..{to} finds {}", found.len()),
        }
    }
}

/// A value, or none.
pub(crate) struct Shown(pub(crate) Option<u64>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{value}"),
            None => f.write_str("none"),
        }
    }
}

struct At(Option<Number>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |number| write!(f, " @{number}"))
    }
}

/// The end of a list, and how much is before it.
struct Elements<'a>(&'a [u64]);

impl fmt::Display for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.0.len().saturating_sub(SHOWN_MAX);
        f.write_str("[")?;
        if hidden > 0 {
            write!(f, "({hidden} more) ")?;
        }
        for (i, element) in self.0[hidden..].iter().enumerate() {
            write!(f, "{}{element}", if i == 0 { "" } else { " " })?;
        }
        f.write_str("]")
    }
}

const SHOWN_MAX: usize = 8;
