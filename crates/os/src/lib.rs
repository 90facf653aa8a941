//! The real environment: a directory on a Linux file system, and the machine's clock.
//!
//! [`OsDisk`] implements [`tyr_env::Disk`] and [`OsClock`] implements [`tyr_env::Clock`]. All that the code above does to
//! the operating system goes through here, and so does all that it has to know about file systems: whether they take
//! direct I/O, durable writes, reservations, or none of them. There is no cache and no thread here.
//!
//! `unsafe` is confined to the modules `ring` and `allocator`.

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(feature = "allocator")]
mod allocator;
mod bounce;
mod clock;
mod directory;
mod disk;
mod file;
mod lock;
mod ring;
mod run;
#[cfg(test)]
mod testing;

#[cfg(feature = "allocator")]
pub use allocator::Allocator;
pub use clock::OsClock;
pub use disk::{IoMode, OsDisk, OsOptions};

/// Puts what was being done in front of an error, keeping its kind.
pub(crate) fn context(what: impl std::fmt::Display) -> impl FnOnce(rustix::io::Errno) -> std::io::Error {
    move |errno| {
        let error = std::io::Error::from(errno);
        std::io::Error::new(error.kind(), format!("{what}: {error}"))
    }
}

/// A call that breaks the contract of [`tyr_env::Disk`].
#[cold]
pub(crate) fn invalid(what: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, what)
}
