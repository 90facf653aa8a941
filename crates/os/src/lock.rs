//! The lock that keeps a second user out of a directory.
//!
//! The lock is the kernel's (`flock`), so it goes with the process that held it, however that ended. The `lock` file is never
//! removed, or two processes could hold locks on two files of the same name; it holds the process id of the last holder, for
//! the message that the next one gets. It fills one block, so that it can be read with direct I/O to find out whether
//! that works here.

use std::{fmt, io, path::Path};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
};
use tyr_env::{BLOCK_SIZE, LOCK_NAME};

use crate::context;

/// Exclusive use of a directory, for as long as it lives.
pub(crate) struct DirectoryLock {
    /// Closing it releases the lock.
    _file: OwnedFd,
}

impl DirectoryLock {
    /// Locks the directory. Fails with `ResourceBusy`, and names the holder, if somebody else has it, even this process.
    pub(crate) fn take(directory: impl AsFd, path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(directory, LOCK_NAME, flags, Mode::RUSR | Mode::WUSR)
            .map_err(context(format_args!("cannot open the lock file of directory '{}'", path.display())))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(busy(path, holder(&file))),
            Err(errno) => {
                return Err(context(format_args!("cannot lock directory '{}'", path.display()))(errno));
            }
        }
        write_holder(&file)
            .map_err(context(format_args!("cannot write the lock file of directory '{}'", path.display())))?;
        Ok(DirectoryLock { _file: file })
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
