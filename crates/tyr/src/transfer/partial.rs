//! A file or symbolic link of an export under the name that it has until it is whole.
//!
//! The name depends on the key alone: what a killed export left is found and replaced by the next. Several exports may write to one directory at once. Whoever
//! writes a file holds a lock on it, and nobody else removes it, so that a file of which one export has written half never gets its name from the other.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use tyr_client::{Error, Key};

use super::checksum::Checksum;
use crate::{
    failure::{Failure, Result},
    lock::{Lock, lock},
};

/// Removed when dropped before it was finished.
pub struct Partial {
    path: PathBuf,
    is_finished: bool,
}

impl Partial {
    /// Creates the file that is to be at `path`, and locks it. The file is to be closed last. Fails if another export is writing it.
    pub fn create(key: &Key, path: &Path) -> Result<(File, Self)> {
        let partial = place(key, path);
        loop {
            let created = File::options().write(true).create_new(true).mode(0o600).open(&partial);
            let file = match created {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    remove_old(&partial)?;
                    continue;
                }
                Err(error) => return Err(failed("create", &partial, &error)),
            };
            match lock(&file, &partial).map_err(|error| failed("lock", &partial, &error))? {
                Lock::Held => return Ok((file, Partial { path: partial, is_finished: false })),
                Lock::Busy => return Err(busy(&partial)),
                // Another export has taken it for one that was left.
                Lock::Gone => {}
            }
        }
    }

    /// Creates the symbolic link that is to be at `path`. It is whole from the beginning, so there is no lock.
    pub fn link(key: &Key, path: &Path, target: &Path) -> Result<Self> {
        let partial = place(key, path);
        remove_old(&partial)?;
        symlink(target, &partial).map_err(|error| failed("create the symbolic link", &partial, &error))?;
        Ok(Partial { path: partial, is_finished: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub fn finish(mut self, path: &Path) -> Result<()> {
        fs::rename(&self.path, path).map_err(|error| failed("create", path, &error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_finished {
            // There is a failure that matters more.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn place(key: &Key, path: &Path) -> PathBuf {
    let key = key.as_bytes();
    let backwards: Vec<u8> = key.iter().rev().copied().collect();
    path.with_file_name(format!(".{}{}.tyr-partial", Checksum::of(key), Checksum::of(&backwards)))
}

/// Removes what a killed export left. Fails if it is being written.
fn remove_old(path: &Path) -> Result<()> {
    let open = |options: &mut fs::OpenOptions| {
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()).open(path)
    };
    // It may have the mode already that it is to have. What cannot be opened, like a symbolic link, has no lock.
    let old = open(File::options().write(true)).or_else(|_| open(File::options().read(true)));
    match old.as_ref().map(|old| lock(old, path)) {
        Ok(Ok(Lock::Busy)) => return Err(busy(path)),
        Ok(Ok(Lock::Gone)) => return Ok(()),
        _ => {}
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, &error)),
        _ => Ok(()),
    }
}

#[cold]
fn busy(path: &Path) -> Failure {
    Failure::Store(Error::unavailable(format!(
        "another export is writing '{}'; run this one again when that has ended",
        path.display()
    )))
}

#[cold]
fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::local(format!("cannot {what} '{}'", path.display()), error)
}
