//! The name of a blob.

use alloc::sync::Arc;
use core::{
    borrow::Borrow,
    fmt::{self, Write as _},
};

use crate::{Error, Result};

/// The longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 4096;

/// The name of a blob within its keyspace: 1 to [`KEY_SIZE_MAX`] arbitrary bytes, ordered bytewise.
/// Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// Takes the bytes as a key. Fails with [`crate::ErrorKind::Invalid`] if there are none or too many.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self> {
        let bytes = bytes.as_ref();
        match bytes.len() {
            0 => Err(Error::invalid("the key is empty; a key has 1 to 4096 bytes")),
            1..=KEY_SIZE_MAX => Ok(Key(bytes.into())),
            n => Err(Error::invalid(alloc::format!(
                "the key has {n} bytes; a key has 1 to {KEY_SIZE_MAX} bytes"
            ))),
        }
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Prints UTF-8 as it is, and escapes other bytes and control characters.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            for character in part.valid().chars() {
                match character.is_control() {
                    true => write!(f, "{}", character.escape_debug())?,
                    false => f.write_char(character)?,
                }
            }
            write!(f, "{}", part.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_1_to_4096_bytes() {
        assert!(Key::new(b"").is_err());
        assert!(Key::new([0; KEY_SIZE_MAX]).is_ok());
        assert!(Key::new([0; KEY_SIZE_MAX + 1]).is_err());
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped() {
        let key = Key::new(b"caf\xc3\xa9/\xff").expect("valid key");
        assert_eq!(alloc::format!("{key}"), "café/\\xff");
    }
}
