//! The bytes of an index table: an immutable file of sorted entries.
//!
//! A table is a tree of three levels. *Pages* hold the entries. A *span* covers a run of pages: which page holds
//! which keys, and a Bloom filter of them. The *root* says which span holds which keys. Pages, spans, and root are
//! [`part`]s of whole blocks of [`BLOCK_SIZE`] bytes; the last block of the file is the [`Footer`].
//! `docs/storage-format.md` has the byte tables.
//!
//! Invariant: what an encoder here has written, the decoder of the same or a later version reads. Which files exist
//! and when they are read is not decided here.

mod entries;
mod filter;
mod footer;
mod heads;
pub mod part;
mod root;
mod span;
mod summary;

pub use entries::{Entries, EntriesBuilder, Entry};
pub use filter::{Filter, key_hash};
pub use footer::{FORMAT_VERSION, Footer, FooterFault};
pub use root::{Root, RootBuilder, SpanPlace};
pub use span::{PagePlace, SPAN_PAGES_MAX, Span, SpanBuilder};
pub use summary::{TableId, TableSummary};

/// The unit of position and of length within a table, in bytes: the block that the disk is written in.
pub const BLOCK_SIZE: usize = 4096;
/// The longest key of an entry, in bytes: a blob's key of 4096 bytes and what the store puts around it.
pub const ENTRY_KEY_SIZE_MAX: usize = 8 << 10;
/// The longest value of an entry, in bytes.
pub const ENTRY_VALUE_SIZE_MAX: usize = 2 << 20;
/// The largest page size that may be asked for, in bytes; one entry that is larger gets a page of its own. Offsets within
/// a page have 16 bits.
pub const PAGE_SIZE_MAX: usize = 32 << 10;

/// How many leading bytes the two have in common.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
