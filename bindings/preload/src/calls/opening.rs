//! Opening files and directories.

use std::{
    ffi::{OsStr, c_char, c_int, c_uint},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
};

use tyr_fs::{Follow, How, Kind, Want};

use super::directories::resolve;
use crate::{
    border::{Errno, Outcome, Result, interpose},
    inheritance::reserve,
    memory,
    places::{at, inner},
    session::{Session, check_changes, is_guest_of_parent, mounted, session},
    table::{self, Description},
    waiting::block_on,
};

interpose! {
    fn [open open64](path: *const c_char, flags: c_int, mode: c_uint) -> c_int => |(real, _)| {
        open_at(libc::AT_FDCWD, path, flags, mode, |_, path| real(path, flags, mode))
    };
    fn [openat openat64](directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int => |(real, _)| {
        open_at(directory, path, flags, mode, |directory, path| real(directory, path, flags, mode))
    };
    fn [__open_2 __open64_2](path: *const c_char, flags: c_int) -> c_int => |(real, _)| {
        open_at(libc::AT_FDCWD, path, flags, 0, |_, path| real(path, flags))
    };
    fn [__openat_2 __openat64_2](directory: c_int, path: *const c_char, flags: c_int) -> c_int => |(real, _)| {
        open_at(directory, path, flags, 0, |directory, path| real(directory, path, flags))
    };
    fn [creat creat64](path: *const c_char, mode: c_uint) -> c_int => |(real, _)| {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        open_at(libc::AT_FDCWD, path, flags, mode, |_, path| real(path, mode))
    };
    fn [mkstemp mkstemp64](template: *mut c_char) -> c_int => |_| make_temporary(template, 0, 0);
    fn [mkostemp mkostemp64](template: *mut c_char, flags: c_int) -> c_int => |_| make_temporary(template, 0, flags);
    fn [mkstemps mkstemps64](template: *mut c_char, suffix: c_int) -> c_int => |_| make_temporary(template, suffix, 0);
    fn [mkostemps mkostemps64](template: *mut c_char, suffix: c_int, flags: c_int) -> c_int => |_| {
        make_temporary(template, suffix, flags)
    };
    fn [mkdtemp](template: *mut c_char) -> *mut c_char => |_| {
        ours(template).map(|()| {
            fill_template(template, 0, |path| {
                check_changes()?;
                Ok(block_on(session()?.maker().create_directory(path, 0o700)).map(drop)?)
            })?;
            Ok(template)
        })
    };
}

fn open_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    at(
        directory,
        path,
        if flags & libc::O_NOFOLLOW != 0 { Follow::No } else { Follow::Yes },
        |session, path| {
            let own = path.as_os_str().as_bytes();
            let below = own.strip_prefix(mounted().1.directory.as_slice()).unwrap_or(own).to_vec();
            open_path(session, path, &below, flags, mode)
        },
        theirs,
    )
}

/// Opens what a path of the file system means; `below` is the same below the prefix.
pub fn open_path(session: &Session, path: &Path, below: &[u8], flags: c_int, mode: c_uint) -> Result<c_int> {
    let view = &session.view;
    let is_path = flags & libc::O_PATH != 0;
    let access = if is_path { libc::O_PATH } else { flags & libc::O_ACCMODE };
    let creates = flags & libc::O_CREAT != 0 && !is_path;
    // No file that is made is a directory: Linux says so since 6.4.
    if creates && flags & libc::O_DIRECTORY != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let truncates = flags & libc::O_TRUNC != 0 && !is_path;
    if (access != libc::O_RDONLY && !is_path) || truncates {
        check_changes()?;
    }
    let follow = if flags & libc::O_NOFOLLOW != 0 { Follow::No } else { Follow::Yes };
    if is_path || flags & libc::O_DIRECTORY != 0 {
        let (below, found) = resolve(below, follow)?;
        if flags & libc::O_DIRECTORY != 0 && found.inode.kind != Kind::Directory {
            return Err(Errno(libc::ENOTDIR));
        }
        if !is_path {
            view.caller().require(&found, Want::Read)?;
            if access != libc::O_RDONLY {
                return Err(Errno(libc::EISDIR));
            }
        }
        return give(Description::new(found.inode, below, access), flags);
    }
    if follow == Follow::No {
        match block_on(view.metadata(path, Follow::No)) {
            Ok(found) if found.inode.kind == Kind::Symlink => return Err(Errno(libc::ELOOP)),
            Err(error) if error.errno().number() == libc::ENOENT && creates => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
    let how = How {
        reads: access != libc::O_WRONLY,
        writes: access != libc::O_RDONLY,
        creates: (creates && check_changes().is_ok()).then_some(mode & 0o7777),
        is_new: creates && flags & libc::O_EXCL != 0,
        truncates,
    };
    match block_on(session.maker().open(path, how)) {
        Ok(file) => {
            if flags & libc::O_NOATIME != 0 || mounted().1.options.is_read_only {
                file.without_access_times();
            }
            give(Description::of_file(file, below.to_vec(), access, session), flags)
        }
        Err(error) if error.errno().number() == libc::EISDIR && access == libc::O_RDONLY && !creates => {
            let (below, found) = resolve(below, Follow::Yes)?;
            view.caller().require(&found, Want::Read)?;
            give(Description::new(found.inode, below, access), flags)
        }
        Err(error) => Err(error.into()),
    }
}

/// A descriptor for what was opened.
fn give(description: Description, flags: c_int) -> Result<c_int> {
    let number = reserve(&description, flags)?;
    // One that a child has before it starts a program is none of its parent's.
    if !is_guest_of_parent() {
        table::insert(number, Arc::new(description));
    }
    Ok(number)
}

/// Whether a template is ours.
fn ours(template: *const c_char) -> Option<()> {
    match crate::places::find(libc::AT_FDCWD, memory::text(template).ok()?) {
        crate::places::Found::Ours(_) => Some(()),
        _ => None,
    }
}

fn make_temporary(template: *mut c_char, suffix: c_int, flags: c_int) -> Outcome<c_int> {
    ours(template).map(|()| {
        let mut number = -1;
        fill_template(template, suffix, |path| {
            let flags = (flags & !libc::O_ACCMODE) | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
            let own = path.as_os_str().as_bytes();
            let below = own.strip_prefix(mounted().1.directory.as_slice()).unwrap_or(own).to_vec();
            number = open_path(&*session()?, path, &below, flags, 0o600)?;
            Ok(())
        })?;
        Ok(number)
    })
}

/// Replaces the six letters X of a template until what it names could be made.
fn fill_template(template: *mut c_char, suffix: c_int, make: impl FnMut(&Path) -> Result<()>) -> Result<()> {
    let mut make = make;
    let text = memory::text(template)?.to_vec();
    let end = usize::try_from(suffix).ok().and_then(|suffix| text.len().checked_sub(suffix));
    let end = end.filter(|end| text[..*end].ends_with(b"XXXXXX")).ok_or(Errno(libc::EINVAL))?;
    for _ in 0..TRIES {
        let mut letters = [0_u8; 6];
        // SAFETY: the buffer is as long as it is said to be.
        if unsafe { libc::getrandom(letters.as_mut_ptr().cast(), letters.len(), 0) } != 6 {
            return Err(Errno(libc::EAGAIN));
        }
        for letter in &mut letters {
            *letter = LETTERS[usize::from(*letter) % LETTERS.len()];
        }
        let mut tried = text.clone();
        tried[end - 6..end].copy_from_slice(&letters);
        let crate::places::Found::Ours(below) = crate::places::find(libc::AT_FDCWD, &tried) else {
            return Err(Errno(libc::EINVAL));
        };
        match make(&inner(&below)) {
            Err(Errno(libc::EEXIST)) => {}
            Err(errno) => return Err(errno),
            Ok(()) => {
                // SAFETY: the template is the program's to be written to, and has six letters there.
                let place = unsafe { template.add(end - 6) };
                return memory::fill(place.cast(), &letters);
            }
        }
    }
    Err(Errno(libc::EEXIST))
}

/// The path of bytes.
pub fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// As often as the C library tries.
const TRIES: usize = 10_000;
