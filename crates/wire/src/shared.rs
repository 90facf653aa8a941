//! Bytes in memory that several hold, and nobody changes.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, ops::Deref};

/// Bytes that never change. Cloning shares them.
#[derive(Clone)]
pub struct SharedBytes(Kind);

#[derive(Clone)]
enum Kind {
    Plain(Arc<[u8]>),
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
            Kind::Plain(_) => None,
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
            Kind::Held(memory) => memory.bytes(),
        }
    }
}

impl From<Arc<[u8]>> for SharedBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        SharedBytes(Kind::Plain(bytes))
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Arc::<[u8]>::from(bytes).into()
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
