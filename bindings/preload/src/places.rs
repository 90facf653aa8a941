//! From the paths of programs to those of the file system.

use std::{
    ffi::{CString, OsStr, c_char, c_int},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tyr_fs::Follow;

use crate::{
    border::{Errno, Failing, Outcome, Result},
    inheritance::placed,
    memory,
    paths::{Place, descriptor_named, may_name_descriptor},
    real::errno,
    session::{Session, mounted, session},
    table::{self, Description},
    working,
};

/// What a path of a program means.
pub enum Found {
    /// It is ours: this is its path below the prefix, beginning with a slash.
    Ours(Vec<u8>),
    /// It is what the kernel takes it for.
    Unchanged,
    /// It leads out from what is ours: this is its absolute path.
    Elsewhere(CString),
}

/// What a path means, from a directory, to a call that goes on where a link at its end leads.
pub fn find(directory: c_int, path: &[u8]) -> Found {
    look(directory, path, Follow::Yes)
}

/// What a path means, from a directory.
fn look(directory: c_int, path: &[u8], follow: Follow) -> Found {
    match whole(directory, path) {
        None => Found::Unchanged,
        Some(whole) => {
            let named = described(&whole).filter(|(_, rest)| follow == Follow::Yes || !rest.is_empty());
            let whole = match named {
                Some((description, rest)) => {
                    [&mounted().1.prefix, description.path.as_slice(), rest.as_slice()].concat()
                }
                None => whole,
            };
            match placed(&whole) {
                Place::Ours(path) => Found::Ours(path),
                Place::Theirs => Found::Unchanged,
                Place::Out(path) => CString::new(path).map_or(Found::Unchanged, Found::Elsewhere),
            }
        }
    }
}

/// What of ours a path names as an open descriptor, as the kernel has such paths, and what of the path is left.
fn described(whole: &[u8]) -> Option<(Arc<Description>, Vec<u8>)> {
    if !may_name_descriptor(whole) {
        return None;
    }
    let (number, rest) = descriptor_named(whole, std::process::id())?;
    Some((table::taken(number)?, rest))
}

/// The file that a path names as an open descriptor by one of the links that the kernel has of them, as programs name it.
pub fn link_target(directory: c_int, path: &[u8]) -> Option<Vec<u8>> {
    let whole = whole(directory, path)?;
    // Those of the standard descriptors are links to such links.
    let (description, rest) = described(&whole).filter(|_| whole.last().is_some_and(u8::is_ascii_digit))?;
    rest.is_empty().then(|| [mounted().1.prefix.as_slice(), &description.path].concat())
}

/// A path from a directory as an absolute one, if it may be ours.
fn whole(directory: c_int, path: &[u8]) -> Option<Vec<u8>> {
    if path.is_empty() {
        return None;
    }
    let base = match () {
        () if path.starts_with(b"/") => Vec::new(),
        () if directory == libc::AT_FDCWD => match working::path() {
            Some(path) => [&mounted().1.prefix, path.as_slice(), b"/"].concat(),
            None => [current_directory()?.as_slice(), b"/"].concat(),
        },
        () => match table::taken(directory) {
            Some(description) => [&mounted().1.prefix, description.path.as_slice(), b"/"].concat(),
            None if !mounted().1.may_be_entered(path) && !may_name_descriptor(path) => return None,
            None => [path_of(directory)?.as_slice(), b"/"].concat(),
        },
    };
    Some([base.as_slice(), path].concat())
}

/// The kernel's working directory.
fn current_directory() -> Option<Vec<u8>> {
    let mut buffer = vec![0_u8; 4096];
    // SAFETY: the buffer is as long as it is said to be.
    let got = unsafe { libc::getcwd(buffer.as_mut_ptr().cast(), buffer.len()) };
    if got.is_null() {
        return None;
    }
    let end = buffer.iter().position(|byte| *byte == 0)?;
    buffer.truncate(end);
    Some(buffer)
}

/// The path of a descriptor of the kernel's.
fn path_of(descriptor: c_int) -> Option<Vec<u8>> {
    let link = CString::new(format!("/proc/self/fd/{descriptor}")).ok()?;
    let mut buffer = vec![0_u8; 4096];
    // SAFETY: the link ends with a zero, and the buffer is as long as it is said to be.
    let length = unsafe { libc::readlink(link.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    buffer.truncate(usize::try_from(length).ok()?);
    Some(buffer)
}

/// The path in the file system of one below the prefix.
pub fn inner(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&table::inner(&mounted().1, path)))
}

/// A call with a path: ours, or with another path for the kernel, or passed through.
pub fn at<T: Failing>(
    directory: c_int,
    path: *const c_char,
    follow: Follow,
    ours: impl FnOnce(&Session, &Path) -> Result<T>,
    theirs: impl FnOnce(c_int, *const c_char) -> T,
) -> Outcome<T> {
    match look(directory, memory::text(path).ok()?, follow) {
        Found::Ours(path) => Some(session().and_then(|session| ours(&session, &inner(&path)))),
        Found::Unchanged => None,
        Found::Elsewhere(path) => Some(told(theirs(libc::AT_FDCWD, path.as_ptr()))),
    }
}

/// As [`at`], for what changes something.
pub fn change_at<T: Failing>(
    directory: c_int,
    path: *const c_char,
    follow: Follow,
    ours: impl FnOnce(&Session, &Path) -> Result<T>,
    theirs: impl FnOnce(c_int, *const c_char) -> T,
) -> Outcome<T> {
    let ours = |session: &Session, path: &Path| {
        crate::session::check_changes()?;
        ours(session, path)
    };
    at(directory, path, follow, ours, theirs)
}

/// A call with two paths, which changes something. What is ours on one side only is on another device.
pub fn change_both<T: Failing>(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    ours: impl FnOnce(&Session, &Path, &Path) -> Result<T>,
    theirs: impl FnOnce((c_int, *const c_char), (c_int, *const c_char)) -> T,
) -> Outcome<T> {
    let old = look(from.0, memory::text(from.1).ok()?, Follow::No);
    let new = look(to.0, memory::text(to.1).ok()?, Follow::No);
    match (&old, &new) {
        (Found::Ours(old), Found::Ours(new)) => Some(crate::session::check_changes().and_then(|()| {
            let session = session()?;
            ours(&session, &inner(old), &inner(new))
        })),
        (Found::Unchanged, Found::Unchanged) => None,
        (Found::Ours(_), _) | (_, Found::Ours(_)) => Some(Err(Errno(libc::EXDEV))),
        _ => {
            let pair = |found: &Found, given: (c_int, *const c_char)| match found {
                Found::Elsewhere(path) => (libc::AT_FDCWD, path.as_ptr()),
                _ => given,
            };
            Some(told(theirs(pair(&old, from), pair(&new, to))))
        }
    }
}

/// What the C library has returned.
pub fn told<T: Failing>(value: T) -> Result<T> {
    if value.has_failed() { Err(Errno(errno())) } else { Ok(value) }
}
