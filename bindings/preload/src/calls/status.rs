//! What is known of files: the `stat` family, access, and the whole file system.

use std::{
    ffi::{c_char, c_int, c_long, c_uint},
    mem,
    path::Path,
};

use libc::{stat, statfs, statvfs, statx};
use tyr_fs::{Follow, Metadata, Room, Timestamp, Want};

use crate::{
    border::{Errno, Failing, Outcome, Result, interpose},
    memory,
    places::{at, told},
    session::{Session, check_changes, session},
    table::taken,
    waiting::block_on,
};

interpose! {
    fn [stat stat64](path: *const c_char, out: *mut stat) -> c_int => |(real, _)| {
        stat_at(libc::AT_FDCWD, path, out, 0, |_, path| real(path, out))
    };
    fn [lstat lstat64](path: *const c_char, out: *mut stat) -> c_int => |(real, _)| {
        stat_at(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW, |_, path| real(path, out))
    };
    fn [fstat fstat64](descriptor: c_int, out: *mut stat) -> c_int => |_| fstat(descriptor, out);
    fn [fstatat fstatat64](directory: c_int, path: *const c_char, out: *mut stat, flags: c_int) -> c_int => |(real, _)| {
        stat_at(directory, path, out, flags, |directory, path| real(directory, path, out, flags))
    };
    fn [__xstat __xstat64](version: c_int, path: *const c_char, out: *mut stat) -> c_int => |(real, _)| {
        stat_at(libc::AT_FDCWD, path, out, 0, |_, path| real(version, path, out))
    };
    fn [__lxstat __lxstat64](version: c_int, path: *const c_char, out: *mut stat) -> c_int => |(real, _)| {
        stat_at(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW, |_, path| real(version, path, out))
    };
    fn [__fxstat __fxstat64](_version: c_int, descriptor: c_int, out: *mut stat) -> c_int => |_| fstat(descriptor, out);
    fn [__fxstatat __fxstatat64](version: c_int, directory: c_int, path: *const c_char, out: *mut stat, flags: c_int) -> c_int =>
        |(real, _)| stat_at(directory, path, out, flags, |directory, path| real(version, directory, path, out, flags));
    fn [statx](directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut statx) -> c_int => |(real, _)| {
        if let Some(found) = found_empty(directory, path, flags) {
            return Some(found.and_then(|found| memory::put(out, extended(&found)).map(|()| 0)));
        }
        at(
            directory,
            path,
            follow(flags),
            |session, path| {
                let found = block_on(session.view.metadata(path, follow(flags)))?;
                memory::put(out, extended(&found)).map(|()| 0)
            },
            |directory, path| real(directory, path, flags, mask, out),
        )
    };
    fn [access euidaccess eaccess](path: *const c_char, mode: c_int) -> c_int => |(real, _)| {
        access_at(libc::AT_FDCWD, path, mode, 0, |_, path| real(path, mode))
    };
    fn [faccessat](directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int => |(real, _)| {
        access_at(directory, path, mode, flags, |directory, path| real(directory, path, mode, flags))
    };
    fn [statfs statfs64](path: *const c_char, out: *mut statfs) -> c_int => |(real, _)| {
        of_existing(path, |session| memory::put(out, whole(session.view.filesystem().room())).map(|()| 0), |path| real(path, out))
    };
    fn [fstatfs fstatfs64](descriptor: c_int, out: *mut statfs) -> c_int => |_| {
        taken(descriptor).map(|_| memory::put(out, whole(session()?.view.filesystem().room())).map(|()| 0))
    };
    fn [statvfs statvfs64](path: *const c_char, out: *mut statvfs) -> c_int => |(real, _)| {
        of_existing(path, |session| memory::put(out, whole_vfs(session.view.filesystem().room())).map(|()| 0), |path| real(path, out))
    };
    fn [pathconf](path: *const c_char, name: c_int) -> c_long => |(real, _)| {
        // The limits are Linux's, the same everywhere.
        of_existing(path, |_| told(real(c"/".as_ptr(), name)), |path| real(path, name))
    };
    fn [fstatvfs fstatvfs64](descriptor: c_int, out: *mut statvfs) -> c_int => |_| {
        taken(descriptor).map(|_| memory::put(out, whole_vfs(session()?.view.filesystem().room())).map(|()| 0))
    };
}

/// Answers what is asked of the file system that a path is in, if there is something of that name.
fn of_existing<T: Failing>(
    path: *const c_char,
    ours: impl FnOnce(&Session) -> Result<T>,
    theirs: impl FnOnce(*const c_char) -> T,
) -> Outcome<T> {
    let ours = |session: &Session, path: &Path| {
        block_on(session.view.metadata(path, Follow::Yes))?;
        ours(session)
    };
    at(libc::AT_FDCWD, path, Follow::Yes, ours, |_, path| theirs(path))
}

fn stat_at(
    directory: c_int,
    path: *const c_char,
    out: *mut stat,
    flags: c_int,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    if let Some(found) = found_empty(directory, path, flags) {
        return Some(found.and_then(|found| memory::put(out, status(&found)).map(|()| 0)));
    }
    at(
        directory,
        path,
        follow(flags),
        |session, path| {
            let found = block_on(session.view.metadata(path, follow(flags)))?;
            memory::put(out, status(&found)).map(|()| 0)
        },
        theirs,
    )
}

fn fstat(descriptor: c_int, out: *mut stat) -> Outcome<c_int> {
    let description = taken(descriptor)?;
    Some(description.metadata().and_then(|found| memory::put(out, status(&found)).map(|()| 0)))
}

/// What is known of a descriptor, if an empty path says that it is meant.
pub fn found_empty(descriptor: c_int, path: *const c_char, flags: c_int) -> Option<Result<Metadata>> {
    let is_empty = path.is_null() || memory::text(path).is_ok_and(<[u8]>::is_empty);
    match flags & libc::AT_EMPTY_PATH != 0 && is_empty {
        true => taken(descriptor).map(|description| description.metadata()),
        false => None,
    }
}

pub fn follow(flags: c_int) -> Follow {
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { Follow::No } else { Follow::Yes }
}

fn access_at(
    directory: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    at(
        directory,
        path,
        follow(flags),
        |session, path| {
            if mode & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
                return Err(Errno(libc::EINVAL));
            }
            let found = block_on(session.view.metadata(path, follow(flags)))?;
            for (bit, want) in
                [(libc::R_OK, Want::Read), (libc::W_OK, Want::Write), (libc::X_OK, Want::Enter)]
            {
                if mode & bit != 0 {
                    session.view.caller().require(&found, want)?;
                }
            }
            if mode & libc::W_OK != 0 {
                check_changes()?;
            }
            Ok(0)
        },
        theirs,
    )
}

/// What is known of an inode, as `stat` has it.
pub fn status(found: &Metadata) -> stat {
    // SAFETY: it is made of numbers.
    let mut out: stat = unsafe { mem::zeroed() };
    let nanoseconds = |time: Timestamp| i64::from(time.nanoseconds);
    out.st_dev = DEVICE;
    out.st_ino = found.inode.number;
    out.st_mode = found.st_mode();
    out.st_nlink = found.links.into();
    (out.st_uid, out.st_gid) = (found.uid, found.gid);
    out.st_rdev = found.device.into();
    out.st_size = i64::try_from(found.size).unwrap_or(i64::MAX);
    out.st_blksize = UNIT;
    out.st_blocks = i64::try_from(found.data_size.div_ceil(512)).unwrap_or(i64::MAX);
    (out.st_atime, out.st_atime_nsec) = (found.accessed.seconds, nanoseconds(found.accessed));
    (out.st_mtime, out.st_mtime_nsec) = (found.modified.seconds, nanoseconds(found.modified));
    (out.st_ctime, out.st_ctime_nsec) = (found.changed.seconds, nanoseconds(found.changed));
    out
}

/// The same as `statx` has it.
fn extended(found: &Metadata) -> statx {
    // SAFETY: it is made of numbers.
    let mut out: statx = unsafe { mem::zeroed() };
    let time = |time: Timestamp| {
        // SAFETY: it is made of numbers.
        let mut out: libc::statx_timestamp = unsafe { mem::zeroed() };
        (out.tv_sec, out.tv_nsec) = (time.seconds, time.nanoseconds);
        out
    };
    out.stx_mask = libc::STATX_BASIC_STATS;
    out.stx_blksize = u32::try_from(UNIT).unwrap_or(4096);
    out.stx_nlink = found.links;
    (out.stx_uid, out.stx_gid) = (found.uid, found.gid);
    out.stx_mode = u16::try_from(found.st_mode()).unwrap_or(0);
    out.stx_ino = found.inode.number;
    out.stx_size = found.size;
    out.stx_blocks = found.data_size.div_ceil(512);
    out.stx_atime = time(found.accessed);
    out.stx_mtime = time(found.modified);
    out.stx_ctime = time(found.changed);
    (out.stx_rdev_major, out.stx_rdev_minor) =
        (libc::major(found.device.into()), libc::minor(found.device.into()));
    (out.stx_dev_major, out.stx_dev_minor) = (libc::major(DEVICE), libc::minor(DEVICE));
    out
}

/// All blocks, and those that are left, by the quota. Nobody knows how much room a cluster has without one: as much as no program takes for none.
fn blocks(room: Option<Room>) -> (u64, u64) {
    room.map_or((UNKNOWN, UNKNOWN), |room| room.blocks(BLOCK))
}

fn whole(room: Option<Room>) -> statfs {
    let (blocks, left) = blocks(room);
    // SAFETY: it is made of numbers.
    let mut out: statfs = unsafe { mem::zeroed() };
    out.f_type = MAGIC;
    out.f_bsize = 4096;
    (out.f_blocks, out.f_bfree, out.f_bavail) = (blocks, left, left);
    (out.f_files, out.f_ffree) = (UNKNOWN, UNKNOWN);
    out.f_namelen = 255;
    out.f_frsize = 4096;
    out
}

fn whole_vfs(room: Option<Room>) -> statvfs {
    let (blocks, left) = blocks(room);
    // SAFETY: it is made of numbers.
    let mut out: statvfs = unsafe { mem::zeroed() };
    (out.f_bsize, out.f_frsize) = (BLOCK, BLOCK);
    (out.f_blocks, out.f_bfree, out.f_bavail) = (blocks, left, left);
    (out.f_files, out.f_ffree, out.f_favail) = (UNKNOWN, UNKNOWN, UNKNOWN);
    out.f_namemax = 255;
    out
}

/// A device of which the kernel has none: `t` and `yr`.
const DEVICE: u64 = 0x0007_4000_0007_9072;
/// The file system's own number: `Tyr`.
const MAGIC: i64 = 0x0054_7972;
/// What a program reads or writes best at once. Each is a request.
const UNIT: i64 = 128 << 10;
const UNKNOWN: u64 = 1 << 40;
/// Bytes of a block.
const BLOCK: u64 = 4096;
