//! The way in from C.

use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::status::{Failure, TYR_OK};

/// Runs a call from C: panics and failures become a status.
#[inline]
pub fn call(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // What a panic may have left half done is behind locks of its own, or is given up.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => TYR_OK,
        Ok(Err(failure)) => failure.keep(),
        Err(panic) => {
            // A payload that panics when dropped is not worth another panic.
            std::mem::forget(panic);
            Failure::panicked().keep()
        }
    }
}
