//! The part of the contract of [`crate::Disk`] that every disk checks in the same way, so that a mistake shows on all.

use std::io;

use crate::BLOCK_SIZE;

/// The longest file name, in bytes.
pub const NAME_SIZE_MAX: usize = 255;
/// The longest file, in bytes: positions fit a signed 64-bit integer.
pub const LENGTH_MAX: u64 = i64::MAX as u64;
/// The name that no file may have, because real directories keep their lock under it.
pub const LOCK_NAME: &str = "lock";

/// Fails with `InvalidInput` unless a file may have this name: 1 to [`NAME_SIZE_MAX`] bytes without `/` and zero bytes, and none of
/// `.`, `..`, and [`LOCK_NAME`].
pub fn check_name(name: &str) -> io::Result<()> {
    let plain = (1..=NAME_SIZE_MAX).contains(&name.len()) && !name.contains(['/', '\0']);
    if plain && ![".", "..", LOCK_NAME].contains(&name) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("'{}' is no name for a file of a disk", name.escape_debug()),
    ))
}

/// Fails with `InvalidInput` unless `bytes` are whole blocks in aligned memory and `position` is a multiple of [`BLOCK_SIZE`] from
/// which they do not reach beyond [`LENGTH_MAX`]. No bytes at all need no alignment.
pub fn check_blocks(position: u64, bytes: &[u8]) -> io::Result<()> {
    let end = position.checked_add(bytes.len() as u64).filter(|end| *end <= LENGTH_MAX);
    let whole = position.is_multiple_of(BLOCK_SIZE as u64) && bytes.len().is_multiple_of(BLOCK_SIZE);
    let aligned = bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(BLOCK_SIZE);
    if end.is_some() && whole && aligned {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{} bytes at {position} are not whole blocks in aligned memory", bytes.len()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Blocks;

    #[test]
    fn only_plain_names_pass() {
        let longest = "x".repeat(NAME_SIZE_MAX);
        for name in ["a", "a.b", "...", "locks", "é", &longest] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let too_long = "x".repeat(NAME_SIZE_MAX + 1);
        for name in ["", ".", "..", "../a", "/a", "a/", "a\0", LOCK_NAME, &too_long] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn only_whole_aligned_blocks_pass() {
        let blocks = Blocks::zeroed(2 * BLOCK_SIZE);
        let (bytes, one) = (blocks.as_bytes(), &blocks.as_bytes()[..BLOCK_SIZE]);
        let last = LENGTH_MAX + 1 - BLOCK_SIZE as u64;
        for (position, bytes) in [(0, bytes), (4096, one), (8192, &[][..]), (last - 4096, one)] {
            assert!(check_blocks(position, bytes).is_ok(), "{position}");
        }
        for (position, bytes) in [
            (1, one),
            (512, one),
            (0, &one[1..]),
            (0, &bytes[512..512 + BLOCK_SIZE]),
            (last, one),
            (u64::MAX - 4095, bytes),
        ] {
            assert!(check_blocks(position, bytes).is_err(), "{position}");
        }
    }
}
