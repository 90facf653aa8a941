//! Which blobs a simulated cluster has, what each is for, and where its registers lie.

use std::ops::Range;

use tyr_proto::BlobName;
use tyr_types::{Key, KeyspaceId};

use super::profile::Profile;
use crate::{Blob, Register};

/// Which blobs are what.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    blobs: [u32; 6],
}

/// The sort of a blob, in the order of a profile's counts; documents come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Registers.
    Registers,
    /// A list.
    List,
    /// A counter.
    Counter,
    /// An account.
    Account,
    /// One that comes and goes.
    Passing,
    /// A document, to which anything may be done.
    Document,
}

/// Bytes of a chunk in the simulation: the least that is allowed.
pub const CHUNK: u64 = tyr_types::CHUNK_SIZE_MIN;
/// Where lists begin: close before the border of a chunk, so that they cross it soon.
pub const LIST_START: u64 = CHUNK - 40;
/// Registers of a blob.
pub const PARTS: u32 = 4;
/// A register that is no range of its blob, but an attribute: beside the others.
pub const ATTRIBUTE: u32 = PARTS;
/// The name of that attribute.
pub const ATTRIBUTE_NAME: &str = "register";
/// The keyspace of all blobs.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);
/// The keyspace that is dropped in some runs.
pub const DOOMED: KeyspaceId = KeyspaceId(2);

impl Layout {
    /// The blobs of a profile.
    pub fn of(profile: &Profile) -> Self {
        let [registers, lists, counters, accounts, passing] = profile.blobs;
        Layout { blobs: [registers, lists, counters, accounts, passing, profile.documents] }
    }

    /// The blobs of a sort.
    pub fn blobs(&self, sort: Sort) -> Vec<Blob> {
        let before: u32 = self.blobs[..sort as usize].iter().sum();
        (before..before + self.blobs[sort as usize]).map(Blob).collect()
    }

    /// All accounts.
    pub fn accounts(&self) -> Vec<Register> {
        self.blobs(Sort::Account).into_iter().map(|blob| blob.register(0)).collect()
    }
}

/// The name of a blob: in the order of the blobs.
pub fn name(blob: Blob) -> BlobName {
    BlobName { keyspace: KEYSPACE, key: Key::new(format!("b{:04}", blob.0)).expect("a short key") }
}

/// The blob of a name.
pub fn blob_of(name: &BlobName) -> Blob {
    let digits = std::str::from_utf8(&name.key.as_bytes()[1..]).expect("a key of ours");
    Blob(digits.parse().expect("a key of ours"))
}

/// Where a register lies: every other one across the border of two chunks.
pub fn offset_of(register: Register) -> u64 {
    let chunk = u64::from(register.part / 2);
    if register.part.is_multiple_of(2) { chunk * CHUNK + 8 } else { (chunk + 1) * CHUNK - 4 }
}

/// The bytes of a register.
pub fn range_of(register: Register) -> Range<u64> {
    offset_of(register)..offset_of(register) + 8
}

/// All registers of a blob: of every other one those in its first chunk only.
pub fn all_parts(blob: Blob) -> Vec<Register> {
    let parts = if is_small(blob) { 1 } else { PARTS };
    (0..parts).map(|part| blob.register(part)).collect()
}

/// Whether a blob of registers has a single chunk.
pub fn is_small(blob: Blob) -> bool {
    blob.0 % 2 == 1
}
