//! What goes wrong with files: the number that POSIX has for it, and a sentence.

use std::{borrow::Cow, fmt};

use tyr_client::ErrorKind;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error number of POSIX.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Errno = Errno(libc::$name);)*

            /// Its symbolic name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Errno::$name => stringify!($name),)*
                    _ => "EIO",
                }
            }
        }
    };
}

numbers! {
    /// The caller may not do this to the file.
    EACCES,
    /// Somebody else holds a lock that is in the way.
    EAGAIN,
    /// The file is not open for this.
    EBADF,
    /// It is in use in a way that forbids this.
    EBUSY,
    /// The wait would never end: it is for somebody who waits for this owner.
    EDEADLK,
    /// The name exists already.
    EEXIST,
    /// The file would be too large.
    EFBIG,
    /// The wait was interrupted.
    EINTR,
    /// The call makes no sense.
    EINVAL,
    /// The store could not do it.
    EIO,
    /// It is a directory.
    EISDIR,
    /// Too many symbolic links on the way.
    ELOOP,
    /// The file has too many links.
    EMLINK,
    /// A name or path is too long.
    ENAMETOOLONG,
    /// Too many clients have files of the file system open.
    ENFILE,
    /// There is no such extended attribute.
    ENODATA,
    /// There is no such name.
    ENOENT,
    /// No more room for locks, or none are granted any more.
    ENOLCK,
    /// No room is left.
    ENOSPC,
    /// It is no directory.
    ENOTDIR,
    /// The directory has entries.
    ENOTEMPTY,
    /// It cannot be done to what this is.
    ENOTSUP,
    /// There is no data, or no hole, after the offset.
    ENXIO,
    /// Only the owner, or the superuser, may do this.
    EPERM,
    /// The file system is only to be read.
    EROFS,
    /// The file is no more.
    ESTALE,
    /// What is renamed has to be copied instead.
    EXDEV,
    /// The value does not fit.
    ERANGE,
}

impl Errno {
    /// The number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// An error with this number.
    #[cold]
    pub fn because(self, message: impl Into<Cow<'static, str>>) -> Error {
        Error { errno: self, message: message.into() }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure: its number, and what was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    errno: Errno,
    message: Cow<'static, str>,
}

impl Error {
    /// The error number.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// What was wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.errno.name())
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::from_raw_os_error(error.errno.number())
    }
}

/// What the store says of its blobs, as what is said of files. That a blob is missing is known better where it was looked for.
impl From<tyr_client::Error> for Error {
    fn from(error: tyr_client::Error) -> Self {
        let errno = match error.kind() {
            ErrorKind::Denied => Errno::EACCES,
            ErrorKind::Full => Errno::ENOSPC,
            ErrorKind::NotFound => Errno::ESTALE,
            ErrorKind::Invalid => Errno::EINVAL,
            _ => Errno::EIO,
        };
        errno.because(error.message().to_owned())
    }
}

/// Why a try of a transaction ends: the store failed, or the answer is no.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The store failed, or something has changed meanwhile.
    Store(tyr_client::Error),
    /// The answer is no, as far as what was read still holds.
    Refused(Error),
}

impl From<tyr_client::Error> for Stop {
    fn from(error: tyr_client::Error) -> Self {
        Stop::Store(error)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(error)
    }
}

/// What was read of several blobs does not fit together; it is read again.
#[cold]
pub(crate) fn changed() -> Stop {
    Stop::Store(tyr_client::Error::conflict("a file has changed meanwhile; run it again"))
}

/// Bytes in the store are none that this library writes.
#[cold]
pub(crate) fn damaged(what: &str) -> Error {
    Errno::EIO
        .because(format!("the file system is damaged, or of another version: {what} cannot be understood"))
}
