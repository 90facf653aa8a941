//! The nouns of Týr: names, numbers, limits, settings, transforms, and errors.
//!
//! Everything here is a plain value. This crate is `no_std`: no clock, thread, file, socket, or randomly
//! ordered map compiles in it, so protocol code that is built on it stays deterministic.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attributes;
mod error;
mod key;
mod keyspace;
mod number;
mod seek;
mod transform;

pub use attributes::{ATTRIBUTE_NAME_MAX, ATTRIBUTES_SIZE_MAX, Attributes};
pub use error::{Error, ErrorKind, Result};
pub use key::{KEY_SIZE_MAX, Key};
pub use keyspace::{
    CHUNK_SIZE_DEFAULT, CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, Durability, KeyspaceId, KeyspaceName,
    KeyspaceSettings,
};
pub use number::{BlobId, Number};
pub use seek::Seek;
pub use transform::{NumberType, Op, Operand, Transform};

/// The largest offset a blob may have: positions fit a signed 64-bit integer, as POSIX and Java expect.
pub const OFFSET_MAX: u64 = i64::MAX as u64;

/// A transaction that makes room may write as many bytes about that, though there is none: it touches several blobs, and deletes one of them or
/// punches a hole in it, and writes nothing to that one.
pub const BESIDE_MAX: u64 = 8 << 10;

/// Checks that `[offset, offset + length)` lies within [`OFFSET_MAX`] and returns its end.
pub fn range_end(offset: u64, length: u64) -> Result<u64> {
    match offset.checked_add(length) {
        Some(end) if end <= OFFSET_MAX => Ok(end),
        _ => Err(Error::invalid(alloc::format!(
            "range of {length} bytes at offset {offset} ends past 2^63-1; use a smaller offset or length"
        ))),
    }
}
