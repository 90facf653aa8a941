//! `libtyr_preload`: a TýrFS for unmodified programs, without a mount.
//!
//! `LD_PRELOAD=libtyr_preload.so TYR_MOUNT=/prefix=SOURCE program` has the calls of the C library that name what lies below the prefix
//! answered by [`tyr_fs`]; everything else passes through to the C library. `docs/preload.md` says what a program sees.
//!
//! What holds everywhere:
//!
//! - `border` is the only way in: it decides whether a call is a program's or the library's own, catches panics, and makes errors of
//!   error numbers. Nothing that this library or its threads do is answered by it.
//! - A descriptor of ours is a real one, which keeps its offset and flags with the kernel (`inheritance`); what stands behind it is in
//!   `table`.
//! - No lock of the library is held while the file system works.

#![allow(unsafe_code, reason = "a border to C is unsafe throughout; each use says what it relies on")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "what programs pass is what the C library would have to believe, too"
)]

mod border;
mod calls;
mod inheritance;
#[cfg(target_arch = "x86_64")]
mod lists;
mod memory;
mod own;
mod paths;
mod places;
mod real;
mod record;
mod report;
mod session;
mod streams;
mod table;
mod waiting;
mod wide;
mod working;
