//! Names: made, removed, renamed, linked; and owners and permissions.

use std::ffi::{c_char, c_int, c_uint};

use libc::{gid_t, mode_t, size_t, ssize_t, uid_t};
use tyr_fs::{Changes, Errno as FileErrno, Follow, Kind, Over};

use super::directories::{below, resolve};
use crate::{
    border::{Errno, Outcome, Result, interpose},
    memory,
    places::{at, change_at, change_both, inner, link_target},
    session::{check_changes, session, set_umask},
    table::{Description, taken},
    waiting::block_on,
};

interpose! {
    fn [mkdir](path: *const c_char, mode: mode_t) -> c_int => |(real, _)| {
        make_directory(libc::AT_FDCWD, path, mode, |_, path| real(path, mode))
    };
    fn [mkdirat](directory: c_int, path: *const c_char, mode: mode_t) -> c_int => |(real, _)| {
        make_directory(directory, path, mode, |directory, path| real(directory, path, mode))
    };
    fn [mknod](path: *const c_char, mode: mode_t, device: libc::dev_t) -> c_int => |(real, _)| {
        make_node(libc::AT_FDCWD, path, mode, |_, path| real(path, mode, device))
    };
    fn [mknodat](directory: c_int, path: *const c_char, mode: mode_t, device: libc::dev_t) -> c_int => |(real, _)| {
        make_node(directory, path, mode, |directory, path| real(directory, path, mode, device))
    };
    fn [mkfifo](path: *const c_char, mode: mode_t) -> c_int => |(real, _)| {
        make_node(libc::AT_FDCWD, path, libc::S_IFIFO, |_, path| real(path, mode))
    };
    fn [mkfifoat](directory: c_int, path: *const c_char, mode: mode_t) -> c_int => |(real, _)| {
        make_node(directory, path, libc::S_IFIFO, |directory, path| real(directory, path, mode))
    };
    fn [rmdir](path: *const c_char) -> c_int => |(real, _)| {
        remove(libc::AT_FDCWD, path, libc::AT_REMOVEDIR, |_, path| real(path))
    };
    fn [unlink](path: *const c_char) -> c_int => |(real, _)| remove(libc::AT_FDCWD, path, 0, |_, path| real(path));
    fn [unlinkat](directory: c_int, path: *const c_char, flags: c_int) -> c_int => |(real, _)| {
        remove(directory, path, flags, |directory, path| real(directory, path, flags))
    };
    fn [remove](path: *const c_char) -> c_int => |(real, _)| {
        change_at(
            libc::AT_FDCWD,
            path,
            Follow::No,
            |session, path| match block_on(session.view.remove_file(path)) {
                Err(error) if error.errno() == FileErrno::EISDIR => {
                    Ok(block_on(session.view.remove_directory(path)).map(|()| 0)?)
                }
                result => Ok(result.map(|()| 0)?),
            },
            |_, path| real(path),
        )
    };
    fn [rename](from: *const c_char, to: *const c_char) -> c_int => |(real, _)| {
        let (from, to) = ((libc::AT_FDCWD, from), (libc::AT_FDCWD, to));
        rename_both(from, to, 0, |(_, from), (_, to)| real(from, to))
    };
    fn [renameat](from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char) -> c_int => |(real, _)| {
        rename_both((from_directory, from), (to_directory, to), 0, |from, to| real(from.0, from.1, to.0, to.1))
    };
    fn [renameat2](from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_uint) -> c_int =>
        |(real, _)| rename_both((from_directory, from), (to_directory, to), flags, |from, to| real(from.0, from.1, to.0, to.1, flags));
    fn [link](from: *const c_char, to: *const c_char) -> c_int => |(real, _)| {
        let (from, to) = ((libc::AT_FDCWD, from), (libc::AT_FDCWD, to));
        link_both(from, to, 0, |(_, from), (_, to)| real(from, to))
    };
    fn [linkat](from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_int) -> c_int =>
        |(real, _)| link_both((from_directory, from), (to_directory, to), flags, |from, to| real(from.0, from.1, to.0, to.1, flags));
    fn [symlink](target: *const c_char, path: *const c_char) -> c_int => |(real, _)| {
        make_link(target, libc::AT_FDCWD, path, |_, path| real(target, path))
    };
    fn [symlinkat](target: *const c_char, directory: c_int, path: *const c_char) -> c_int => |(real, _)| {
        make_link(target, directory, path, |directory, path| real(target, directory, path))
    };
    fn [readlink](path: *const c_char, buffer: *mut c_char, length: size_t) -> ssize_t => |(real, _)| {
        read_link(libc::AT_FDCWD, path, buffer, length, |_, path| real(path, buffer, length))
    };
    fn [__readlink_chk](path: *const c_char, buffer: *mut c_char, length: size_t, room: size_t) -> ssize_t => |(real, _)| {
        read_link(libc::AT_FDCWD, path, buffer, length, |_, path| real(path, buffer, length, room))
    };
    fn [readlinkat](directory: c_int, path: *const c_char, buffer: *mut c_char, length: size_t) -> ssize_t => |(real, _)| {
        read_link(directory, path, buffer, length, |directory, path| real(directory, path, buffer, length))
    };
    fn [__readlinkat_chk](directory: c_int, path: *const c_char, buffer: *mut c_char, length: size_t, room: size_t) -> ssize_t =>
        |(real, _)| read_link(directory, path, buffer, length, |directory, path| real(directory, path, buffer, length, room));
    fn [chmod](path: *const c_char, mode: mode_t) -> c_int => |(real, _)| {
        change(libc::AT_FDCWD, path, Follow::Yes, &of_mode(mode), |_, path| real(path, mode))
    };
    fn [lchmod](path: *const c_char, mode: mode_t) -> c_int => |(real, _)| {
        change_mode(libc::AT_FDCWD, path, mode, libc::AT_SYMLINK_NOFOLLOW, |_, path| real(path, mode))
    };
    fn [fchmodat](directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int => |(real, _)| {
        change_mode(directory, path, mode, flags, |directory, path| real(directory, path, mode, flags))
    };
    fn [fchmod](descriptor: c_int, mode: mode_t) -> c_int => |_| change_open(descriptor, &of_mode(mode));
    fn [chown](path: *const c_char, uid: uid_t, gid: gid_t) -> c_int => |(real, _)| {
        change(libc::AT_FDCWD, path, Follow::Yes, &of_owner(uid, gid), |_, path| real(path, uid, gid))
    };
    fn [lchown](path: *const c_char, uid: uid_t, gid: gid_t) -> c_int => |(real, _)| {
        change(libc::AT_FDCWD, path, Follow::No, &of_owner(uid, gid), |_, path| real(path, uid, gid))
    };
    fn [fchownat](directory: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int => |(real, _)| {
        if flags & libc::AT_EMPTY_PATH != 0 && memory::text(path).is_ok_and(<[u8]>::is_empty) {
            return change_open(directory, &of_owner(uid, gid));
        }
        let follow = super::status::follow(flags);
        change(directory, path, follow, &of_owner(uid, gid), |directory, path| real(directory, path, uid, gid, flags))
    };
    fn [fchown](descriptor: c_int, uid: uid_t, gid: gid_t) -> c_int => |_| change_open(descriptor, &of_owner(uid, gid));
    fn [truncate truncate64](path: *const c_char, size: libc::off_t) -> c_int => |(real, _)| {
        change_at(
            libc::AT_FDCWD,
            path,
            Follow::Yes,
            |session, path| {
                let changes = of_size(size)?;
                Ok(block_on(session.view.change(path, Follow::Yes, &changes)).map(|_| 0)?)
            },
            |_, path| real(path, size),
        )
    };
    fn [ftruncate ftruncate64](descriptor: c_int, size: libc::off_t) -> c_int => |_| {
        let description = taken(descriptor)?;
        Some(truncate(&description, size))
    };
    fn [umask](mask: mode_t) -> c_int => |(real, _)| {
        // New files get their permissions by this everywhere.
        let before = real(mask);
        set_umask(mask);
        Some(Ok(before))
    };
}

fn make_directory(
    directory: c_int,
    path: *const c_char,
    mode: mode_t,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    let mode = mode & 0o7777;
    change_at(
        directory,
        path,
        Follow::No,
        |session, path| Ok(block_on(session.maker().create_directory(path, mode)).map(|_| 0)?),
        theirs,
    )
}

/// Only regular files are made so.
fn make_node(
    directory: c_int,
    path: *const c_char,
    mode: mode_t,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    let how = tyr_fs::How { creates: Some(mode & 0o7777), ..tyr_fs::How::NEW };
    change_at(
        directory,
        path,
        Follow::No,
        |session, path| match mode & libc::S_IFMT {
            0 | libc::S_IFREG => Ok(block_on(session.maker().open(path, how)).map(|_| 0)?),
            _ => Err(Errno(libc::EPERM)),
        },
        theirs,
    )
}

fn remove(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    change_at(
        directory,
        path,
        Follow::No,
        |session, path| match flags {
            0 => Ok(block_on(session.view.remove_file(path)).map(|()| 0)?),
            libc::AT_REMOVEDIR => Ok(block_on(session.view.remove_directory(path)).map(|()| 0)?),
            _ => Err(Errno(libc::EINVAL)),
        },
        theirs,
    )
}

type At = (c_int, *const c_char);

fn rename_both(from: At, to: At, flags: c_uint, theirs: impl FnOnce(At, At) -> c_int) -> Outcome<c_int> {
    change_both(
        from,
        to,
        |session, from, to| {
            let over = match flags {
                0 => Over::Replace,
                libc::RENAME_NOREPLACE => Over::Refuse,
                libc::RENAME_EXCHANGE => Over::Exchange,
                _ => return Err(Errno(libc::EINVAL)),
            };
            Ok(block_on(session.view.rename_over(from, to, over)).map(|()| 0)?)
        },
        theirs,
    )
}

fn link_both(from: At, to: At, flags: c_int, theirs: impl FnOnce(At, At) -> c_int) -> Outcome<c_int> {
    change_both(
        from,
        to,
        |session, from, to| match flags {
            0 => Ok(block_on(session.view.hard_link(from, to)).map(|_| 0)?),
            libc::AT_SYMLINK_FOLLOW => {
                let (from, _) = resolve(&below(from), Follow::Yes)?;
                Ok(block_on(session.view.hard_link(inner(&from), to)).map(|_| 0)?)
            }
            _ if flags & libc::AT_EMPTY_PATH != 0 => Err(Errno(libc::EOPNOTSUPP)),
            _ => Err(Errno(libc::EINVAL)),
        },
        theirs,
    )
}

fn make_link(
    target: *const c_char,
    directory: c_int,
    path: *const c_char,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    change_at(
        directory,
        path,
        Follow::No,
        |session, path| {
            let target = super::opening::path_of(memory::text(target)?);
            Ok(block_on(session.view.symlink(target, path)).map(|_| 0)?)
        },
        theirs,
    )
}

fn read_link(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    length: size_t,
    theirs: impl FnOnce(c_int, *const c_char) -> ssize_t,
) -> Outcome<ssize_t> {
    let give = |mut target: Vec<u8>| {
        if length == 0 {
            return Err(Errno(libc::EINVAL));
        }
        target.truncate(length);
        memory::fill(buffer.cast(), &target)?;
        Ok(isize::try_from(target.len()).unwrap_or(isize::MAX))
    };
    if let Some(target) = link_target(directory, memory::text(path).ok()?) {
        return Some(give(target));
    }
    at(directory, path, Follow::No, |session, path| give(block_on(session.view.read_link(path))?), theirs)
}

/// Changes what a path means.
pub fn change(
    directory: c_int,
    path: *const c_char,
    follow: Follow,
    changes: &Changes,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    change_at(
        directory,
        path,
        follow,
        |session, path| Ok(block_on(session.view.change(path, follow, changes)).map(|_| 0)?),
        theirs,
    )
}

/// Changes the permissions of what a path means. A symbolic link has none.
fn change_mode(
    directory: c_int,
    path: *const c_char,
    mode: mode_t,
    flags: c_int,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    let follow = super::status::follow(flags);
    change_at(
        directory,
        path,
        follow,
        |session, path| {
            if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 {
                return Err(Errno(libc::EINVAL));
            }
            if follow == Follow::No
                && block_on(session.view.metadata(path, follow))?.inode.kind == Kind::Symlink
            {
                return Err(Errno(libc::EOPNOTSUPP));
            }
            Ok(block_on(session.view.change(path, follow, &of_mode(mode))).map(|_| 0)?)
        },
        theirs,
    )
}

/// Changes what is open.
pub fn change_open(descriptor: c_int, changes: &Changes) -> Outcome<c_int> {
    let description = taken(descriptor)?;
    Some(check_changes().and_then(|()| {
        let found = description.metadata()?;
        Ok(block_on(session()?.view.change_found(&found, changes)).map(|()| 0)?)
    }))
}

fn truncate(description: &Description, size: libc::off_t) -> Result<c_int> {
    let Changes { size, .. } = of_size(size)?;
    // It is no bad descriptor, POSIX has it, but one that is not good for this.
    let file = description.writable().map_err(|errno| match errno {
        Errno(libc::EBADF) => Errno(libc::EINVAL),
        errno => errno,
    })?;
    check_changes()?;
    Ok(block_on(file.truncate(size.unwrap_or(0))).map(|()| 0)?)
}

fn of_size(size: libc::off_t) -> Result<Changes> {
    let size = u64::try_from(size).map_err(|_| Errno(libc::EINVAL))?;
    Ok(Changes { size: Some(size), ..Changes::default() })
}

fn of_mode(mode: mode_t) -> Changes {
    Changes { mode: Some(mode & 0o7777), ..Changes::default() }
}

fn of_owner(uid: uid_t, gid: gid_t) -> Changes {
    let given = |number: u32| (number != u32::MAX).then_some(number);
    Changes { uid: given(uid), gid: given(gid), ..Changes::default() }
}
