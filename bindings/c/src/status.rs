//! What calls return, and the texts of errors.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_int},
};

use tyr_client::{Error, ErrorKind};

/// It is done.
pub const TYR_OK: c_int = 0;
/// Another transaction changed what this one read, or a check does not hold: run it again.
pub const TYR_CONFLICT: c_int = -1;
/// Cannot be served now: retry later.
pub const TYR_UNAVAILABLE: c_int = -2;
/// The blob, keyspace, or attribute does not exist.
pub const TYR_NOT_FOUND: c_int = -3;
/// The blob or keyspace exists already.
pub const TYR_EXISTS: c_int = -4;
/// The call itself is wrong: fix it.
pub const TYR_INVALID: c_int = -5;
/// The caller may not do this.
pub const TYR_DENIED: c_int = -6;
/// No space is left on the device or in the quota. Reads go on.
pub const TYR_FULL: c_int = -7;
/// What was to be read was collected, because it was not read in time.
pub const TYR_EXPIRED: c_int = -8;
/// Bytes on disk are not what was written.
pub const TYR_CORRUPT: c_int = -9;
/// A defect of Týr itself: report it.
pub const TYR_INTERNAL: c_int = -10;
/// The operation was cancelled by `tyr_cancel`. What it was to change happened as a whole or not at all.
pub const TYR_CANCELLED: c_int = -100;

/// How something ended that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub status: c_int,
    pub message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { status: -(error.kind() as c_int), message: error.message().to_owned() }
    }
}

impl Failure {
    /// A call that is wrong.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Failure { status: TYR_INVALID, message: message.into() }
    }

    /// An operation that was cancelled.
    #[cold]
    pub fn cancelled() -> Self {
        Failure { status: TYR_CANCELLED, message: "the operation was cancelled".into() }
    }

    /// A panic that was caught.
    #[cold]
    pub fn panicked() -> Self {
        Failure { status: TYR_INTERNAL, message: "libtyr has panicked; please report it".into() }
    }

    /// A commit that met a conflict.
    #[cold]
    pub fn conflict(conflict: &tyr_client::Conflict) -> Self {
        Failure { status: TYR_CONFLICT, message: conflict.to_string() }
    }

    /// The text as C wants it.
    pub fn text(&self) -> CString {
        let bytes: Vec<u8> = self.message.bytes().filter(|byte| *byte != 0).collect();
        CString::new(bytes).unwrap_or_default()
    }

    /// Keeps the text for the calling thread, and returns the status.
    #[cold]
    pub fn keep(self) -> c_int {
        // A thread that is ending has nowhere to keep it.
        let _kept = LAST.try_with(|last| *last.borrow_mut() = self.text());
        self.status
    }
}

/// This thread has had no error yet.
pub(crate) fn clear() {
    // A thread that is ending keeps none.
    let _cleared = LAST.try_with(|last| *last.borrow_mut() = CString::default());
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What was wrong with the last call of this thread that failed, as a sentence; in a callback, with the operation that it is called for.
/// Valid until the next call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn tyr_error_message() -> *const c_char {
    // A thread that is ending has no text any more.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The name of a status: `"ok"`, `"conflict"`, `"not-found"`, and so on. Never null.
///
/// @param status What a call returned.
#[unsafe(no_mangle)]
pub extern "C" fn tyr_status_name(status: c_int) -> *const c_char {
    name(status).as_ptr()
}

fn name(status: c_int) -> &'static CStr {
    match status {
        TYR_OK => c"ok",
        TYR_CONFLICT => c"conflict",
        TYR_UNAVAILABLE => c"unavailable",
        TYR_NOT_FOUND => c"not-found",
        TYR_EXISTS => c"exists",
        TYR_INVALID => c"invalid",
        TYR_DENIED => c"denied",
        TYR_FULL => c"full",
        TYR_EXPIRED => c"expired",
        TYR_CORRUPT => c"corrupt",
        TYR_INTERNAL => c"internal",
        TYR_CANCELLED => c"cancelled",
        _ => c"unknown",
    }
}

/// The kind of a status, if it has one.
pub(crate) fn kind_of(status: c_int) -> Option<ErrorKind> {
    ErrorKind::ALL.into_iter().find(|kind| -(*kind as c_int) == status)
}
