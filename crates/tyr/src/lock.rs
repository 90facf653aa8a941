//! Locks on files that two runs of the command must not write at once.
//!
//! They are the kernel's (`flock`), so they go with the process that held them, however that ended. Where the file system knows no locks,
//! nobody is kept out.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// What became of the lock on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It is held until the file is closed.
    Held,
    /// Somebody else holds it.
    Busy,
    /// The file has not this name any more: whoever held the lock has removed or renamed it.
    Gone,
}

/// Locks a file that was opened by this name.
pub fn lock(file: &File, path: &Path) -> io::Result<Lock> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Lock::Busy),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) if (named.dev(), named.ino()) == (own.dev(), own.ino()) => Ok(Lock::Held),
        Ok(_) => Ok(Lock::Gone),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lock::Gone),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_counts_only_on_the_file_that_has_the_name() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("file");
        let open = || File::options().write(true).create(true).truncate(false).open(&path).expect("opens");
        let (first, second) = (open(), open());
        assert_eq!(lock(&first, &path).expect("locks"), Lock::Held);
        assert_eq!(lock(&second, &path).expect("locks"), Lock::Busy);
        fs::remove_file(&path).expect("removed");
        drop(first);
        assert_eq!(lock(&second, &path).expect("locks"), Lock::Gone);
        let third = open();
        assert_eq!(lock(&second, &path).expect("locks"), Lock::Gone);
        assert_eq!(lock(&third, &path).expect("locks"), Lock::Held);
    }
}
