//! The working directory, where it is ours.
//!
//! The kernel's is then a directory that has been removed, so that what passes through by mistake finds nothing, rather than something else; and a
//! descriptor out of the way says to programs that are started which one is meant, and of which removed directory that holds: each time it is
//! another one. So what is left of an earlier time is not believed, as it is by a child that goes elsewhere before it starts a program.

use std::{
    ffi::{CString, c_int},
    fs,
    os::unix::ffi::OsStrExt,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    border::{Errno, Result},
    inheritance::reserve_record,
    own,
    places::told,
    real::errno,
    record::Use,
    session::is_guest_of_parent,
    table::{Description, world},
};

/// The working directory.
pub struct Working {
    /// Its path below the prefix, beginning with a slash.
    pub path: Vec<u8>,
    /// The descriptor that says so.
    keeper: c_int,
}

static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Its path below the prefix, if it is there.
pub fn path() -> Option<Vec<u8>> {
    match IS_OURS.load(Ordering::Acquire) {
        true => world().working.as_ref().map(|working| working.path.clone()),
        false => None,
    }
}

/// It is this from now on.
pub fn enter(description: &Description) -> Result<()> {
    let nowhere = Nowhere::make()?;
    let lowest = reserve_record(description, Use::WorkingDirectory(nowhere.name().to_vec()), 0)?;
    let keeper = own::raise(lowest, libc::F_DUPFD, KEEPERS);
    if let Err(errno) = nowhere.enter() {
        // SAFETY: it is a descriptor of this function.
        unsafe { libc::syscall(libc::SYS_close, keeper) };
        return Err(errno);
    }
    own::keep(keeper);
    if is_guest_of_parent() {
        return Ok(());
    }
    let working = Working { path: description.path.clone(), keeper };
    let before = world().working.replace(working);
    IS_OURS.store(true, Ordering::Release);
    close(before);
    Ok(())
}

/// A program has inherited a descriptor that says so, of one removed directory.
pub fn inherit(keeper: c_int, path: Vec<u8>, nowhere: &[u8]) {
    let current = fs::read_link("/proc/self/cwd").unwrap_or_default();
    let last = current.as_os_str().as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if last != [nowhere, b" (deleted)"].concat() {
        // SAFETY: it is a descriptor of the library's, from another time.
        unsafe { libc::close(keeper) };
        return;
    }
    own::keep(keeper);
    world().working = Some(Working { path, keeper });
    IS_OURS.store(true, Ordering::Release);
}

/// It is elsewhere from now on.
pub fn left() {
    if IS_OURS.load(Ordering::Acquire) && !is_guest_of_parent() {
        let before = world().working.take();
        IS_OURS.store(false, Ordering::Release);
        close(before);
    }
}

fn close(before: Option<Working>) {
    if let Some(Working { keeper, .. }) = before {
        // SAFETY: it is a descriptor of this module.
        unsafe { libc::close(keeper) };
    }
}

/// A directory that is there until it was entered.
struct Nowhere {
    /// It ends with a zero.
    path: Vec<u8>,
}

impl Nowhere {
    fn make() -> Result<Self> {
        let mut path = CString::from(c"/tmp/tyr-nowhere-XXXXXX").into_bytes_with_nul();
        // SAFETY: the template ends with a zero, and is this function's own.
        match unsafe { libc::mkdtemp(path.as_mut_ptr().cast()) }.is_null() {
            true => Err(Errno(errno())),
            false => Ok(Nowhere { path }),
        }
    }

    /// The last part of its path.
    fn name(&self) -> &[u8] {
        let path = self.path.strip_suffix(&[0]).unwrap_or(&self.path);
        path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    fn enter(self) -> Result<()> {
        // SAFETY: the path ends with a zero.
        told(unsafe { libc::chdir(self.path.as_ptr().cast()) }).map(drop)
    }
}

impl Drop for Nowhere {
    fn drop(&mut self) {
        // SAFETY: as above. What is not empty was somebody else's doing.
        unsafe { libc::rmdir(self.path.as_ptr().cast()) };
    }
}

/// Descriptors that say what the working directory is have higher numbers than programs have use for.
const KEEPERS: c_int = 700;
