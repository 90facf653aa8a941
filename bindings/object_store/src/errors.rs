//! Errors of Týr in the words of object stores.

use object_store::Error;
use tyr_client::ErrorKind;

/// How this store calls itself in errors.
pub const STORE: &str = "Týr";

/// The error of an operation on a path.
pub fn at(path: impl Into<String>, error: tyr_client::Error) -> Error {
    let path = path.into();
    let source = Box::new(error);
    match source.kind() {
        ErrorKind::NotFound => Error::NotFound { path, source },
        ErrorKind::Exists => Error::AlreadyExists { path, source },
        ErrorKind::Conflict => Error::Precondition { path, source },
        ErrorKind::Denied => Error::PermissionDenied { path, source },
        _ => Error::Generic { store: STORE, source },
    }
}

/// The error of reading what has been opened. Nobody has set a condition that a conflict would be about.
pub fn reading(path: &str, error: tyr_client::Error) -> Error {
    match error.kind() {
        ErrorKind::Conflict => generic(format!(
            "{path} cannot be read any more as it was when it was opened: {error}; open it again, and see that its keyspace is multi_version"
        )),
        _ => at(path, error),
    }
}

/// What cannot be done here.
pub fn not_supported(what: &str) -> Error {
    Error::NotSupported { source: format!("{STORE} does not support {what}").into() }
}

/// Something is there that must not be.
pub fn exists(path: impl Into<String>) -> Error {
    Error::AlreadyExists { path: path.into(), source: "an object is there already".into() }
}

/// Something is not as the caller saw it.
pub fn changed(path: impl Into<String>) -> Error {
    Error::Precondition { path: path.into(), source: "the object has changed, or is gone".into() }
}

/// Something is not there.
pub fn missing(path: impl Into<String>) -> Error {
    Error::NotFound { path: path.into(), source: "no such object".into() }
}

/// The bytes of an upload were deleted before it was completed.
pub fn removed(path: &str) -> Error {
    generic(format!("the upload to {path} has been removed, as it was taken for abandoned; upload it again"))
}

/// Anything else.
pub fn generic(message: impl Into<String>) -> Error {
    Error::Generic { store: STORE, source: message.into().into() }
}
