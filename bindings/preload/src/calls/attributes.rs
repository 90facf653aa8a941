//! Extended attributes.

use std::{
    ffi::{c_char, c_int, c_void},
    path::Path,
};

use libc::{size_t, ssize_t};
use tyr_fs::{Follow, Metadata, Put};

use crate::{
    border::{Errno, Outcome, Result, interpose},
    memory,
    places::{at, change_at},
    session::{Session, check_changes, session},
    table::taken,
    waiting::block_on,
};

interpose! {
    fn [getxattr](path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t => |(real, _)| {
        of_path(path, Follow::Yes, |found| get(found, name, value, size), |path| real(path, name, value, size))
    };
    fn [lgetxattr](path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t => |(real, _)| {
        of_path(path, Follow::No, |found| get(found, name, value, size), |path| real(path, name, value, size))
    };
    fn [fgetxattr](descriptor: c_int, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t => |_| {
        of_open(descriptor, |found| get(found, name, value, size))
    };
    fn [listxattr](path: *const c_char, names: *mut c_char, size: size_t) -> ssize_t => |(real, _)| {
        of_path(path, Follow::Yes, |found| list(found, names, size), |path| real(path, names, size))
    };
    fn [llistxattr](path: *const c_char, names: *mut c_char, size: size_t) -> ssize_t => |(real, _)| {
        of_path(path, Follow::No, |found| list(found, names, size), |path| real(path, names, size))
    };
    fn [flistxattr](descriptor: c_int, names: *mut c_char, size: size_t) -> ssize_t => |_| {
        of_open(descriptor, |found| list(found, names, size))
    };
    fn [setxattr](path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int =>
        |(real, _)| set_at(path, Follow::Yes, name, Some((value, size)), flags, |path| real(path, name, value, size, flags));
    fn [lsetxattr](path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int =>
        |(real, _)| set_at(path, Follow::No, name, Some((value, size)), flags, |path| real(path, name, value, size, flags));
    fn [fsetxattr](descriptor: c_int, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int => |_| {
        of_open(descriptor, |found| check_changes().and_then(|()| set(found, name, Some((value, size)), flags)))
    };
    fn [removexattr](path: *const c_char, name: *const c_char) -> c_int => |(real, _)| {
        set_at(path, Follow::Yes, name, None, libc::XATTR_REPLACE, |path| real(path, name))
    };
    fn [lremovexattr](path: *const c_char, name: *const c_char) -> c_int => |(real, _)| {
        set_at(path, Follow::No, name, None, libc::XATTR_REPLACE, |path| real(path, name))
    };
    fn [fremovexattr](descriptor: c_int, name: *const c_char) -> c_int => |_| {
        of_open(descriptor, |found| check_changes().and_then(|()| set(found, name, None, libc::XATTR_REPLACE)))
    };
}

fn of_path(
    path: *const c_char,
    follow: Follow,
    ours: impl Fn(&Metadata) -> Result<ssize_t>,
    theirs: impl FnOnce(*const c_char) -> ssize_t,
) -> Outcome<ssize_t> {
    let ours = |session: &Session, path: &Path| found_at(session, path, follow, &ours);
    at(libc::AT_FDCWD, path, follow, ours, |_, path| theirs(path))
}

/// Does something with what a path means, and looks for it anew if it has moved meanwhile.
fn found_at<T>(
    session: &Session,
    path: &Path,
    follow: Follow,
    work: impl Fn(&Metadata) -> Result<T>,
) -> Result<T> {
    let found = || block_on(session.view.metadata(path, follow));
    match work(&found()?) {
        Err(Errno(libc::ESTALE)) => work(&found()?),
        result => result,
    }
}

fn of_open<T>(descriptor: c_int, ours: impl FnOnce(&Metadata) -> Result<T>) -> Outcome<T> {
    let description = taken(descriptor)?;
    Some(description.metadata().and_then(|found| ours(&found)))
}

fn get(found: &Metadata, name: *const c_char, value: *mut c_void, size: size_t) -> Result<ssize_t> {
    let bytes = block_on(session()?.view.extended_found(found, memory::text(name)?))?;
    give(&bytes, value, size)
}

fn list(found: &Metadata, names: *mut c_char, size: size_t) -> Result<ssize_t> {
    let all = block_on(session()?.view.extended_names_found(found))?;
    let bytes: Vec<u8> = all.into_iter().flat_map(|name| [name, vec![0]].concat()).collect();
    give(&bytes, names.cast(), size)
}

fn give(bytes: &[u8], buffer: *mut c_void, size: size_t) -> Result<ssize_t> {
    let length = isize::try_from(bytes.len()).unwrap_or(isize::MAX);
    match size {
        0 => Ok(length),
        size if size < bytes.len() => Err(Errno(libc::ERANGE)),
        _ => memory::fill(buffer, bytes).map(|()| length),
    }
}

type Value = Option<(*const c_void, size_t)>;

fn set_at(
    path: *const c_char,
    follow: Follow,
    name: *const c_char,
    value: Value,
    flags: c_int,
    theirs: impl FnOnce(*const c_char) -> c_int,
) -> Outcome<c_int> {
    change_at(
        libc::AT_FDCWD,
        path,
        follow,
        |session, path| found_at(session, path, follow, |found| set(found, name, value, flags)),
        |_, path| theirs(path),
    )
}

fn set(found: &Metadata, name: *const c_char, value: Value, flags: c_int) -> Result<c_int> {
    let put = match flags {
        0 => Put::Any,
        libc::XATTR_CREATE => Put::Create,
        libc::XATTR_REPLACE => Put::Replace,
        _ => return Err(Errno(libc::EINVAL)),
    };
    let value = value.map(|(value, size)| memory::bytes(value, size)).transpose()?;
    Ok(block_on(session()?.view.set_extended_found(found, memory::text(name)?, value, put)).map(|()| 0)?)
}
