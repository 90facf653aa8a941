//! Keyspaces: isolated namespaces with their own settings.

use alloc::{format, string::String};
use core::fmt;

use crate::{Error, Result};

/// The smallest chunk size, in bytes.
pub const CHUNK_SIZE_MIN: u64 = 64 << 10;
/// The largest chunk size, in bytes.
pub const CHUNK_SIZE_MAX: u64 = 1 << 30;
/// The chunk size of a keyspace that asks for none, in bytes.
pub const CHUNK_SIZE_DEFAULT: u64 = 64 << 20;

/// Identifies a keyspace for ever: a dropped keyspace's id is never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyspaceId(pub u32);

/// The name of a keyspace: 1 to 255 bytes of letters, digits, `-`, `_`, and `.`, beginning with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyspaceName(String);

impl KeyspaceName {
    /// Checks and takes the name.
    pub fn new(name: &str) -> Result<Self> {
        let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if first && rest && name.len() <= 255 {
            return Ok(KeyspaceName(name.into()));
        }
        Err(Error::invalid(format!(
            "'{}' is no keyspace name; use 1 to 255 letters, digits, '-', '_', '.', beginning with a letter or digit",
            name.escape_debug()
        )))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What must have happened to a commit before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Durability {
    /// It is in memory. It reaches the disk soon after and survives a clean stop; a crash may take the last
    /// moments back, whole transactions at a time.
    Memory = 0,
    /// It is on disk and survives a crash of the machine.
    #[default]
    Disk = 1,
}

/// The settings of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceSettings {
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// Bytes of a blob that are placed together: a power of two from [`CHUNK_SIZE_MIN`] to [`CHUNK_SIZE_MAX`].
    /// Cannot be altered.
    pub chunk_size: u64,
    /// Whether superseded versions are kept for readers that pinned them.
    pub multi_version: bool,
    /// The most bytes that the blobs' sizes may add up to; none if `None`.
    pub quota: Option<u64>,
}

impl Default for KeyspaceSettings {
    fn default() -> Self {
        KeyspaceSettings {
            durability: Durability::Disk,
            chunk_size: CHUNK_SIZE_DEFAULT,
            multi_version: true,
            quota: None,
        }
    }
}

impl KeyspaceSettings {
    /// Fails with [`crate::ErrorKind::Invalid`] if a setting is out of bounds.
    pub fn check(&self) -> Result<()> {
        if self.quota == Some(u64::MAX) {
            return Err(Error::invalid(
                "a quota of 2^64-1 bytes is out of bounds; use a smaller one, or none",
            ));
        }
        if self.chunk_size.is_power_of_two() && (CHUNK_SIZE_MIN..=CHUNK_SIZE_MAX).contains(&self.chunk_size) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "chunk size {} is out of bounds; use a power of two from {CHUNK_SIZE_MIN} to {CHUNK_SIZE_MAX} bytes",
            self.chunk_size
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "0", "events-2013", "a.b_c"] {
            assert!(KeyspaceName::new(name).is_ok(), "{name}");
        }
        for name in ["", "-a", ".", "a/b", "a b", "é"] {
            assert!(KeyspaceName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn chunk_sizes_are_powers_of_two_within_bounds() {
        let with =
            |chunk_size| KeyspaceSettings { chunk_size, ..KeyspaceSettings::default() }.check().is_ok();
        assert!(with(CHUNK_SIZE_MIN) && with(CHUNK_SIZE_MAX) && with(1 << 20));
        assert!(!with(0) && !with(CHUNK_SIZE_MIN / 2) && !with(CHUNK_SIZE_MAX * 2) && !with((1 << 20) + 1));
    }

    #[test]
    fn a_quota_that_cannot_be_stored_is_refused() {
        let with = |quota| KeyspaceSettings { quota, ..KeyspaceSettings::default() }.check().is_ok();
        assert!(with(None) && with(Some(0)) && with(Some(u64::MAX - 1)));
        assert!(!with(Some(u64::MAX)));
    }
}
