//! What can go wrong, by what the caller should do about it.

use alloc::borrow::Cow;
use core::fmt;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The kinds of failure. Each tells the caller what to do; the numbers are the same on the wire and in every
/// language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another transaction changed what this one read: run it again.
    Conflict = 1,
    /// Cannot be served now, for instance because the store is poisoned or in use: retry later or reopen.
    Unavailable = 2,
    /// The blob, keyspace, or attribute does not exist.
    NotFound = 3,
    /// The blob or keyspace exists already.
    Exists = 4,
    /// The call itself is wrong: fix it.
    Invalid = 5,
    /// The caller may not do this.
    Denied = 6,
    /// No space is left on the device or in the quota: free some, then retry. Reads go on.
    Full = 7,
    /// The version that was asked for was collected because its reader did not renew it in time.
    Expired = 8,
    /// Bytes on disk or on the wire are not what was written: stop, then repair or restore.
    Corrupt = 9,
    /// A defect of Týr itself: report it.
    Internal = 10,
}

impl ErrorKind {
    /// Every kind, in the order of its number.
    pub const ALL: [ErrorKind; 10] = [
        ErrorKind::Conflict,
        ErrorKind::Unavailable,
        ErrorKind::NotFound,
        ErrorKind::Exists,
        ErrorKind::Invalid,
        ErrorKind::Denied,
        ErrorKind::Full,
        ErrorKind::Expired,
        ErrorKind::Corrupt,
        ErrorKind::Internal,
    ];

    /// The stable name, as printed by the command and used in metrics.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Conflict => "conflict",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::NotFound => "not-found",
            ErrorKind::Exists => "exists",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Denied => "denied",
            ErrorKind::Full => "full",
            ErrorKind::Expired => "expired",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure: its kind, and a sentence that says what was wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
}

macro_rules! constructors {
    ($($name:ident => $kind:ident),* $(,)?) => {
        $(
            #[doc = concat!("An error of kind [`ErrorKind::", stringify!($kind), "`].")]
            #[cold]
            pub fn $name(message: impl Into<Cow<'static, str>>) -> Self {
                Error { kind: ErrorKind::$kind, message: message.into() }
            }
        )*
    };
}

impl Error {
    constructors! {
        conflict => Conflict,
        unavailable => Unavailable,
        not_found => NotFound,
        exists => Exists,
        invalid => Invalid,
        denied => Denied,
        full => Full,
        expired => Expired,
        corrupt => Corrupt,
        internal => Internal,
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same error with what was being done put in front: `"{what}: {message}"`.
    #[must_use]
    pub fn context(self, what: impl fmt::Display) -> Self {
        Error { kind: self.kind, message: alloc::format!("{what}: {}", self.message).into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_dense_numbers_and_distinct_names() {
        for (index, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index + 1);
            assert_eq!(ErrorKind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
        }
    }

    #[test]
    fn context_keeps_the_kind() {
        let error = Error::not_found("no blob 'a'").context("read");
        assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "read: no blob 'a'"));
    }
}
