//! A file or symbolic link of an export, or a file that `tyr blob get` writes, under the name that it has until it is whole.
//!
//! The name depends on the key alone, or on the name of the file: what a killed run left is found and replaced by the next. Several runs may write to one
//! directory at once. Whoever writes a file holds a lock on it, and nobody else removes it, so that a file of which one run has written half never gets its
//! name from the other. It is as short whatever the name is, and no link that somebody laid in its place is followed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use tyr_client::Error;

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
    /// Creates the file that is to be at `path`, with a mode as far as the process gives it, and locks it. The file is to be closed last. Fails if another
    /// run is writing what has the same `name` in that directory.
    pub fn create(name: &[u8], path: &Path, mode: u32) -> Result<(File, Self)> {
        let partial = place(name, path);
        loop {
            let created = File::options().write(true).create_new(true).mode(mode).open(&partial);
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
                // Another run has taken it for one that was left.
                Lock::Gone => {}
            }
        }
    }

    /// Creates the symbolic link that is to be at `path`. It is whole from the beginning, so there is no lock.
    pub fn link(name: &[u8], path: &Path, target: &Path) -> Result<Self> {
        let partial = place(name, path);
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

fn place(name: &[u8], path: &Path) -> PathBuf {
    let backwards: Vec<u8> = name.iter().rev().copied().collect();
    path.with_file_name(format!(".{}{}.tyr-partial", Checksum::of(name), Checksum::of(&backwards)))
}

/// Removes what a killed run left. Fails if it is being written.
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
        "another run of this command is writing '{}'; run this one again when that has ended",
        path.display()
    )))
}

#[cold]
fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::local(format!("cannot {what} '{}'", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_run_is_writing_is_left_to_it_and_a_link_is_not_followed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (path, victim) = (scratch.path().join("file"), scratch.path().join("victim"));
        let (file, first) = Partial::create(b"file", &path, 0o600).expect("created");
        let failure = Partial::create(b"file", &path, 0o600).map(drop).expect_err("it is being written");
        assert_eq!(failure.kind(), "unavailable");
        assert!(first.path().exists(), "it is still the first one's");
        let place = first.path().to_owned();
        drop((first, file));
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, &place).expect("linked");
        let (mut file, partial) = Partial::create(b"file", &path, 0o600).expect("created");
        io::Write::write_all(&mut file, b"content").expect("written");
        partial.finish(&path).expect("renamed");
        assert_eq!(fs::read(&path).expect("is there"), b"content");
        assert_eq!(fs::read(&victim).expect("is there"), b"precious");
    }
}
