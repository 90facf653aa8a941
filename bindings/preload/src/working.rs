//! The working directory, where it is ours.
//!
//! The kernel's is then a directory that has been removed, so that what passes through by mistake finds nothing, rather than something else; and a
//! descriptor out of the way says to programs that are started which one is meant.

use std::{
    ffi::{CString, OsStr, c_int},
    fs,
    os::unix::ffi::OsStrExt,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    border::{Errno, Result},
    inheritance::reserve_record,
    own,
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
    let lowest = reserve_record(description, Use::WorkingDirectory, 0)?;
    // SAFETY: both are descriptors of this function.
    let keeper = unsafe {
        let keeper = libc::fcntl(lowest, libc::F_DUPFD, KEEPERS);
        libc::close(lowest);
        keeper
    };
    if keeper < 0 {
        return Err(Errno(errno()));
    }
    if path().is_none() {
        enter_nowhere()?;
    }
    if is_guest_of_parent() {
        return Ok(());
    }
    let working = Working { path: description.path.clone(), keeper };
    let before = world().working.replace(working);
    IS_OURS.store(true, Ordering::Release);
    close(before);
    Ok(())
}

/// A program has inherited it.
pub fn inherit(keeper: c_int, description: Description) {
    own::keep(keeper);
    let before = world().working.replace(Working { path: description.path, keeper });
    IS_OURS.store(true, Ordering::Release);
    close(before);
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

fn enter_nowhere() -> Result<()> {
    let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
    let mut template = CString::from(c"/tmp/tyr-nowhere-XXXXXX").into_bytes_with_nul();
    // SAFETY: the template ends with a zero, and is this function's own.
    if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
        return Err(Errno(errno()));
    }
    // SAFETY: as above.
    let entered = unsafe { libc::chdir(template.as_ptr().cast()) };
    let errno = errno();
    template.pop();
    fs::remove_dir(OsStr::from_bytes(&template)).map_err(failed)?;
    if entered < 0 { Err(Errno(errno)) } else { Ok(()) }
}

/// Descriptors that say what the working directory is have higher numbers than programs have use for.
const KEEPERS: c_int = 700;
