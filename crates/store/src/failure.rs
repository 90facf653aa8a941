//! Failures of the disk as errors that say what to do.

use std::io;

use tyr_types::{Error, Number};

/// Turns a failed disk operation into an error: no space is `full`, everything else `unavailable`, with what was being done.
pub fn disk_error(what: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Error::full(format!(
                "{what}: no space left ({error}); free space on the device, or delete blobs and run 'tyr compact', then try again"
            ))
        }
        io::ErrorKind::UnexpectedEof => Error::corrupt(format!(
            "{what}: the file is shorter than it should be; restore it or run a check"
        )),
        io::ErrorKind::NotFound => {
            Error::corrupt(format!("{what}: the file is missing ({error}); restore it from a backup"))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Error::denied(format!("{what}: {error}; check the permissions of the directory and its files"))
        }
        _ => Error::unavailable(format!("{what}: {error}; check the device")),
    }
}

/// Something on the disk names a transaction that no opening has logged.
pub fn never_logged(number: Number) -> Error {
    Error::corrupt(format!(
        "the store names transaction {number}, which was never logged; run a check, and restore the directory from a backup"
    ))
}
