//! The bytes of Týr: what is written to disk, as pure functions over slices, and the connection between two programs as a state machine.
//!
//! Decoders never panic and never allocate more than the bytes they were given justify, whatever these bytes are.
//! Nothing here does I/O. This crate is `no_std`: no clock, thread, file, or randomly ordered map compiles in it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod checksum;
pub mod connection;
pub mod entry;
pub mod extent;
pub mod frame;
pub mod record;
pub mod shared;
pub mod table;
pub mod varint;

pub use varint::{Malformed, Reader};
