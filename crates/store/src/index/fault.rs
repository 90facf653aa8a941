//! What failures of the disk mean to the caller.

use std::io;

use tyr_types::Error;

/// The error of an operation on a file that failed.
#[cold]
pub(super) fn io_error(name: &str, action: &str, error: &io::Error) -> Error {
    let message = format!("cannot {action} {name}: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Error::full(message)
        }
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => Error::corrupt(message),
        _ => Error::unavailable(message),
    }
}
