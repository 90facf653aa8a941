//! `libtyr`: the client of Týr for C and C++.
//!
//! `include/tyr.h` is generated from this crate, comments included, and `include/tyr.hpp` is written over it. Every function takes
//! handles and plain memory, and returns a status.
//!
//! What holds everywhere:
//!
//! - A handle is the number of a place in the `registry`, never an address. One that was freed, is of another kind, or was made up is an
//!   error. What a handle names lives on as long as an operation uses it.
//! - `border::call` is the only way in: it catches panics, and keeps the text of the error for the calling thread.
//! - What may wait is a future that is written once. Without a [`types::tyr_async`] the caller waits for it; with one it becomes an
//!   [`operation`], which whoever waits at its queue goes on with, or else a thread of the library. Another one calls callbacks.
//! - Memory of the caller is touched only between the call and the end of its operation.

#![allow(unsafe_code, reason = "a border to C is unsafe throughout; each use says what it relies on")]
#![allow(non_camel_case_types, reason = "names as they are in C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the comments are those of the header; what C may pass is said once, in types"
)]

mod border;
mod callbacks;
mod executor;
mod fork;
pub mod keyspace;
pub mod list;
mod memory;
pub mod operation;
pub mod options;
pub mod queue;
mod registry;
pub mod reporting;
pub mod running;
pub mod snapshot;
pub mod status;
pub mod store;
pub mod transaction;
mod tries;
pub mod types;
mod worker;
