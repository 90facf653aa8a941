//! Where a trial's clients keep what: blobs by number, and registers at offsets of them.
//!
//! Blobs come in groups. What one operation touches is in one group, and a group is used for a while only: so a history falls into
//! parts that a checker can take one by one.

use tyr_sim::{Blob, Register};

/// A set of blobs that operations touch together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub u32);

impl Group {
    /// A blob with two registers, in two chunks.
    pub fn registers(self, which: u64) -> Blob {
        self.blob(u32::from(which % 2 == 1))
    }

    /// A blob that is written and read as a whole, over [`WIDE_PARTS`] chunks.
    pub fn wide(self) -> Blob {
        self.blob(2)
    }

    /// A list.
    pub fn list(self, which: u64) -> Blob {
        self.blob(3 + u32::from(which % 2 == 1))
    }

    /// A blob with two counters, the second across the border of two chunks.
    pub fn counters(self) -> Blob {
        self.blob(5)
    }

    /// A blob that is created and deleted, with one register.
    pub fn fleeting(self) -> Blob {
        self.blob(6)
    }

    /// Every blob of the group.
    pub fn blobs(self) -> impl Iterator<Item = Blob> {
        (0..BLOBS).map(move |which| self.blob(which))
    }

    fn blob(self, which: u32) -> Blob {
        Blob(self.0 * BLOBS + which)
    }
}

/// What is in a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Registers that are overwritten.
    Registers,
    /// As many bytes as several chunks have.
    Wide,
    /// Elements that are appended.
    List,
    /// Numbers that are added to.
    Counters,
    /// A register of a blob that comes and goes.
    Fleeting,
}

/// What a blob holds.
pub fn content(blob: Blob) -> Content {
    match blob.0 % BLOBS {
        0 | 1 => Content::Registers,
        2 => Content::Wide,
        3 | 4 => Content::List,
        5 => Content::Counters,
        _ => Content::Fleeting,
    }
}

/// The name of a blob; names are in the order of the numbers.
pub fn key(blob: Blob) -> String {
    format!("blob/{:08}", blob.0)
}

/// Where a register begins.
pub fn offset(register: Register) -> u64 {
    let part = u64::from(register.part);
    match content(register.blob) {
        Content::Counters => part * (CHUNK_SIZE - 4),
        Content::Registers => part * (CHUNK_SIZE + 8),
        Content::Wide | Content::List | Content::Fleeting => part * CHUNK_SIZE,
    }
}

/// The registers of a blob; none of a list.
pub fn parts(blob: Blob) -> u32 {
    match content(blob) {
        Content::Registers | Content::Counters => 2,
        Content::Wide => WIDE_PARTS,
        Content::Fleeting => 1,
        Content::List => 0,
    }
}

/// The value of a register in the content of its blob; none if it ends before.
pub fn value(register: Register, bytes: &[u8]) -> Option<u64> {
    let from = usize::try_from(offset(register)).ok()?;
    let found = bytes.get(from..from + 8)?;
    Some(u64::from_le_bytes(found.try_into().expect("eight bytes")))
}

/// The elements of a list; `None` if bytes are left over.
pub fn elements(bytes: &[u8]) -> Option<Vec<u64>> {
    let (elements, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| elements.iter().copied().map(u64::from_le_bytes).collect())
}

/// The bytes of a wide blob that holds one value everywhere.
pub fn wide_bytes(value: u64) -> Vec<u8> {
    let size = usize::try_from(CHUNK_SIZE * u64::from(WIDE_PARTS)).expect("it fits memory");
    value.to_le_bytes().iter().copied().cycle().take(size).collect()
}

/// Chunks of the trial's keyspace are as small as they may be, in bytes.
pub const CHUNK_SIZE: u64 = 64 << 10;
/// Chunks of a wide blob.
pub const WIDE_PARTS: u32 = 3;
const BLOBS: u32 = 7;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_group_has_every_content_and_no_blob_of_another() {
        let blobs: Vec<Blob> = Group(3).blobs().collect();
        assert_eq!(blobs.len(), 7);
        let all = [Content::Registers, Content::Wide, Content::List, Content::Counters, Content::Fleeting];
        assert!(all.into_iter().all(|wanted| blobs.iter().any(|blob| content(*blob) == wanted)));
        assert!(Group(2).blobs().chain(Group(4).blobs()).all(|other| !blobs.contains(&other)));
        assert!(blobs.iter().map(|blob| key(*blob)).is_sorted());
    }

    #[test]
    fn what_is_written_is_found_where_it_is_looked_for() {
        let wide = Group(1).wide();
        let bytes = wide_bytes(7_000_000_007);
        assert!((0..parts(wide)).all(|part| value(wide.register(part), &bytes) == Some(7_000_000_007)));
        assert_eq!(value(wide.register(parts(wide)), &bytes), None);
        assert_eq!(elements(&bytes[..16]).unwrap(), [7_000_000_007; 2]);
        assert_eq!(elements(&bytes[..15]), None);
    }
}
