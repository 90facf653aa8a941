//! The lock that keeps a second user out of a directory.
//!
//! The lock is the kernel's (`flock`), so it goes with the process that held it, however that ended. It counts only on the file that
//! has the name `lock` once it is locked: whoever removes that file holds it, and whoever locked a removed one tries again, so no two
//! processes hold locks on two files of the name. The file stays; it is removed only by the one who created it and then found
//! that the directory is not his. It holds the process id of the last holder, for the message that the next one gets. It fills one
//! block, so that it can be read with direct I/O to find out whether that works here.

use std::{fmt, io, path::Path};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, FlockOperation, Mode, OFlags},
    io::Errno,
};
use tyr_env::{BLOCK_SIZE, LOCK_NAME};

use crate::context;

/// Exclusive use of a directory, for as long as it lives.
pub(crate) struct DirectoryLock {
    file: OwnedFd,
    found: Found,
    /// The process that took it; a child of a fork has a copy that means nothing.
    process: u32,
}

/// The lock file as it was before the lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Missing,
    /// Perhaps somebody else's file of the same name.
    Empty,
    /// With a process id.
    Used,
}

impl DirectoryLock {
    /// Locks the directory. Fails with `ResourceBusy`, and names the holder, if somebody else has it, even this process; with
    /// `InvalidInput` if a file of this name holds something else.
    pub(crate) fn take(directory: impl AsFd, path: &Path) -> io::Result<Self> {
        let directory = directory.as_fd();
        loop {
            let (file, is_new) = open(directory).map_err(context(format_args!(
                "cannot open the lock file of directory '{}'",
                path.display()
            )))?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(busy(path, holder(&file))),
                Err(errno) => {
                    return Err(context(format_args!("cannot lock directory '{}'", path.display()))(errno));
                }
            }
            let failed = |errno| {
                context(format_args!("cannot use the lock file of directory '{}'", path.display()))(errno)
            };
            // Removed since by the one who created it: once more.
            if !has_name(directory, &file).map_err(failed)? {
                continue;
            }
            let found = match rustix::fs::fstat(&file).map_err(failed)?.st_size {
                0 if is_new => Found::Missing,
                0 => Found::Empty,
                _ if is_ours(&file) => Found::Used,
                _ => return Err(foreign(path)),
            };
            let lock = DirectoryLock { file, found, process: std::process::id() };
            if let Err(errno) = write_holder(&lock.file) {
                lock.withdraw(directory);
                return Err(failed(errno));
            }
            return Ok(lock);
        }
    }

    /// Makes the lock file what it was before the lock was taken. The lock is held on.
    pub(crate) fn withdraw(&self, directory: impl AsFd) {
        // Should it fail, a file stays that harms nobody.
        let _ = match self.found {
            Found::Missing => rustix::fs::unlinkat(directory, LOCK_NAME, AtFlags::empty()),
            Found::Empty => rustix::fs::ftruncate(&self.file, 0),
            Found::Used => Ok(()),
        };
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file would do, if no child were between its fork and its exec: it holds the file open that long.
        if std::process::id() == self.process {
            let _closing_it_does_as_well = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// Opens the lock file; whether it was created.
fn open(directory: impl AsFd) -> Result<(OwnedFd, bool), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    loop {
        let create = flags | OFlags::CREATE | OFlags::EXCL;
        match rustix::fs::openat(&directory, LOCK_NAME, create, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {}
            result => return Ok((result?, true)),
        }
        match rustix::fs::openat(&directory, LOCK_NAME, flags, Mode::empty()) {
            // Removed in between.
            Err(Errno::NOENT) => {}
            result => return Ok((result?, false)),
        }
    }
}

/// Whether the file is the one that has the lock's name now.
fn has_name(directory: impl AsFd, file: &OwnedFd) -> Result<bool, Errno> {
    let own = rustix::fs::fstat(file)?;
    match rustix::fs::statat(directory, LOCK_NAME, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

impl fmt::Debug for DirectoryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectoryLock")
    }
}

/// Writes this process's id, followed by blanks to fill the block. A full device is no error here: what is stored on it
/// can still be read, and then the file merely does not say who holds the lock.
fn write_holder(file: &OwnedFd) -> Result<(), Errno> {
    let mut block = [b' '; BLOCK_SIZE];
    let text = std::process::id().to_string();
    block[..text.len()].copy_from_slice(text.as_bytes());
    block[BLOCK_SIZE - 1] = b'\n';
    match rustix::io::retry_on_intr(|| rustix::io::pwrite(file, &block, 0)) {
        Ok(_) | Err(Errno::NOSPC | Errno::DQUOT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The process id in the lock file, if there is a credible one.
fn holder(file: &OwnedFd) -> Option<u32> {
    let mut text = [0; 32];
    let length = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut text[..], 0)).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split_whitespace().next()?.parse().ok()
}

/// Whether the file is a process id followed by blanks, as [`write_holder`] writes it, perhaps cut short.
fn is_ours(file: &OwnedFd) -> bool {
    let mut text = [0; BLOCK_SIZE + 1];
    let Ok(length) = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut text[..], 0)) else {
        return false;
    };
    let text = &text[..length.min(text.len())];
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    length <= BLOCK_SIZE && digits > 0 && text[digits..].iter().all(u8::is_ascii_whitespace)
}

#[cold]
fn foreign(path: &Path) -> io::Error {
    let message = format!(
        "directory '{}' holds a file '{LOCK_NAME}' that is not Týr's; choose another directory",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cold]
fn busy(path: &Path, holder: Option<u32>) -> io::Error {
    let path = path.display();
    let message = match holder {
        Some(id) if id == std::process::id() => {
            format!("directory '{path}' is already open in this process (process {id}); close it first")
        }
        Some(id) => format!("directory '{path}' is in use by process {id}; stop it first"),
        None => format!("directory '{path}' is in use by another process; stop it first"),
    };
    io::Error::new(io::ErrorKind::ResourceBusy, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_dropped_is_free_though_a_child_has_a_copy_of_its_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = std::fs::File::open(directory.path()).expect("opens");
        let take = || DirectoryLock::take(&file, directory.path());
        let lock = take().expect("is free");
        let copy = rustix::io::dup(&lock.file).expect("is copied");
        assert_eq!(take().expect_err("is held").kind(), io::ErrorKind::ResourceBusy);
        drop(lock);
        take().expect("is free again");
        drop(copy);
    }
}
