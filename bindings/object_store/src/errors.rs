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

/// Anything else.
pub fn generic(message: impl Into<String>) -> Error {
    Error::Generic { store: STORE, source: message.into().into() }
}
