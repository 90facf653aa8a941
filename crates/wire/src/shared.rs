//! Bytes in memory that several hold, and nobody changes.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, ops::Deref};

/// Bytes that never change. Cloning shares them.
#[derive(Clone)]
pub struct SharedBytes(Kind);

#[derive(Clone)]
enum Kind {
    Plain(Arc<[u8]>),
    Grown(Arc<Vec<u8>>),
    Held(Arc<dyn Memory>),
}

/// Memory of a kind of its own that holds bytes.
pub trait Memory: Send + Sync {
    /// The bytes: always the same.
    fn bytes(&self) -> &[u8];

    /// The same bytes, and zeros to the end of the last block, if they are in memory that direct I/O takes.
    fn blocks(&self) -> Option<&[u8]>;
}

impl SharedBytes {
    /// Bytes that are held by other means than the allocator's.
    pub fn held(memory: Arc<dyn Memory>) -> Self {
        SharedBytes(Kind::Held(memory))
    }

    /// The bytes, and zeros to the end of the last block, if they are in memory that direct I/O takes.
    pub fn blocks(&self) -> Option<&[u8]> {
        match &self.0 {
            Kind::Plain(_) | Kind::Grown(_) => None,
            Kind::Held(memory) => memory.blocks(),
        }
    }

    /// Whether two are the same bytes in the same place.
    pub fn is(&self, other: &SharedBytes) -> bool {
        core::ptr::eq(&raw const **self, &raw const **other)
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Plain(bytes) => bytes,
            Kind::Grown(bytes) => bytes,
            Kind::Held(memory) => memory.bytes(),
        }
    }
}

impl From<Arc<[u8]>> for SharedBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        SharedBytes(Kind::Plain(bytes))
    }
}

/// They are not copied, so that what the vector has room for beyond them is held, too.
impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        SharedBytes(Kind::Grown(Arc::new(bytes)))
    }
}

/// They are not copied if they were a vector, and nobody else holds them.
impl From<SharedBytes> for Vec<u8> {
    fn from(shared: SharedBytes) -> Self {
        match shared.0 {
            Kind::Grown(bytes) => Arc::try_unwrap(bytes).unwrap_or_else(|bytes| bytes.to_vec()),
            _ => shared.to_vec(),
        }
    }
}

/// Equal bytes, wherever they are.
impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_vector_is_copied_only_if_others_hold_it() {
        let bytes = vec![7; 100];
        let at = bytes.as_ptr();
        let shared = SharedBytes::from(bytes);
        let other = shared.clone();
        assert!(shared.is(&other) && shared.as_ptr() == at);
        let copy = Vec::from(shared);
        assert!(copy == *other && copy.as_ptr() != at);
        let back = Vec::from(other);
        assert_eq!((back.len(), back.as_ptr()), (100, at));
    }

    #[test]
    fn equal_bytes_are_equal_however_they_are_held() {
        let (plain, grown) =
            (SharedBytes::from(Arc::<[u8]>::from(&b"same"[..])), SharedBytes::from(b"same".to_vec()));
        assert!(plain == grown && !plain.is(&grown) && plain.blocks().is_none());
        assert_ne!(plain, SharedBytes::from(b"others".to_vec()));
        assert_eq!(Vec::from(plain), b"same");
    }
}
