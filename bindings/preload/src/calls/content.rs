//! Reading and writing.

use std::{
    ffi::{c_int, c_void},
    mem,
    sync::MutexGuard,
    thread,
};

use libc::{iovec, off_t, size_t, ssize_t};
use tyr_fs::{File, Seek};

use crate::{
    border::{Errno, Outcome, Result, interpose},
    memory,
    places::told,
    real::errno,
    report::Count,
    session::{check_changes, lock},
    table::{Description, taken},
    waiting::block_on,
};

interpose! {
    fn [read](descriptor: c_int, buffer: *mut c_void, length: size_t) -> ssize_t => |(_, count)| {
        read(count, descriptor, Where::Offset, &[piece(buffer, length)])
    };
    fn [__read_chk](descriptor: c_int, buffer: *mut c_void, length: size_t, _room: size_t) -> ssize_t => |(_, count)| {
        read(count, descriptor, Where::Offset, &[piece(buffer, length)])
    };
    fn [write](descriptor: c_int, buffer: *const c_void, length: size_t) -> ssize_t => |(_, count)| {
        write(count, descriptor, Where::Offset, &[piece(buffer.cast_mut(), length)])
    };
    fn [pread pread64](descriptor: c_int, buffer: *mut c_void, length: size_t, offset: off_t) -> ssize_t => |(_, count)| {
        read(count, descriptor, Where::At(offset), &[piece(buffer, length)])
    };
    fn [__pread_chk __pread64_chk](descriptor: c_int, buffer: *mut c_void, length: size_t, offset: off_t, _room: size_t) -> ssize_t =>
        |(_, count)| read(count, descriptor, Where::At(offset), &[piece(buffer, length)]);
    fn [pwrite pwrite64](descriptor: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t => |(_, count)| {
        write(count, descriptor, Where::At(offset), &[piece(buffer.cast_mut(), length)])
    };
    fn [readv](descriptor: c_int, pieces: *const iovec, number: c_int) -> ssize_t => |(_, count)| {
        several(descriptor, pieces, number, |pieces| read(count, descriptor, Where::Offset, pieces))
    };
    fn [writev](descriptor: c_int, pieces: *const iovec, number: c_int) -> ssize_t => |(_, count)| {
        several(descriptor, pieces, number, |pieces| write(count, descriptor, Where::Offset, pieces))
    };
    fn [preadv preadv64](descriptor: c_int, pieces: *const iovec, number: c_int, offset: off_t) -> ssize_t => |(_, count)| {
        several(descriptor, pieces, number, |pieces| read(count, descriptor, Where::At(offset), pieces))
    };
    fn [pwritev pwritev64](descriptor: c_int, pieces: *const iovec, number: c_int, offset: off_t) -> ssize_t => |(_, count)| {
        several(descriptor, pieces, number, |pieces| write(count, descriptor, Where::At(offset), pieces))
    };
    fn [preadv2 preadv64v2](descriptor: c_int, pieces: *const iovec, number: c_int, offset: off_t, flags: c_int) -> ssize_t =>
        |(_, count)| several(descriptor, pieces, number, |pieces| match flags & !libc::RWF_HIPRI {
            0 => read(count, descriptor, Where::or_offset(offset), pieces),
            _ => Some(Err(Errno(libc::EOPNOTSUPP))),
        });
    fn [pwritev2 pwritev64v2](descriptor: c_int, pieces: *const iovec, number: c_int, offset: off_t, flags: c_int) -> ssize_t =>
        |(_, count)| several(descriptor, pieces, number, |pieces| write_as(count, descriptor, offset, pieces, flags));
    fn [lseek lseek64](descriptor: c_int, offset: off_t, whence: c_int) -> off_t => |_| {
        taken(descriptor).map(|description| seek(descriptor, &description, offset, whence))
    };
    fn [fsync fdatasync syncfs](descriptor: c_int) -> c_int => |_| sync(descriptor);
    fn [sync_file_range](descriptor: c_int, _offset: off_t, _length: off_t, _flags: c_int) -> c_int => |_| sync(descriptor);
}

/// Where something is read or written.
#[derive(Clone, Copy)]
pub enum Where {
    /// Where the descriptor is, which moves on.
    Offset,
    At(off_t),
}

impl Where {
    fn or_offset(offset: off_t) -> Self {
        if offset == -1 { Where::Offset } else { Where::At(offset) }
    }
}

pub fn piece(buffer: *mut c_void, length: size_t) -> iovec {
    iovec { iov_base: buffer, iov_len: length }
}

fn several<T>(
    descriptor: c_int,
    pieces: *const iovec,
    number: c_int,
    body: impl FnOnce(&[iovec]) -> Outcome<T>,
) -> Outcome<T> {
    taken(descriptor)?;
    let number = usize::try_from(number).ok().filter(|number| *number <= PIECES_MAX);
    match number.ok_or(Errno(libc::EINVAL)).and_then(|number| memory::values(pieces, number)) {
        Ok(pieces) => body(pieces),
        Err(errno) => Some(Err(errno)),
    }
}

pub fn read(count: &'static Count, descriptor: c_int, place: Where, pieces: &[iovec]) -> Outcome<ssize_t> {
    let description = taken(descriptor)?;
    Some(read_pieces(descriptor, &description, place, pieces).inspect(|read| count.read(read.unsigned_abs())))
}

fn read_pieces(
    descriptor: c_int,
    description: &Description,
    place: Where,
    pieces: &[iovec],
) -> Result<ssize_t> {
    let length = total(pieces)?;
    let read = |offset: off_t| {
        let offset = u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
        let bytes = block_on(description.readable()?.read(offset, length))?;
        let mut rest = bytes.as_slice();
        for piece in pieces {
            let (now, later) = rest.split_at(piece.iov_len.min(rest.len()));
            memory::fill(piece.iov_base, now)?;
            rest = later;
        }
        Ok(isize::try_from(bytes.len()).unwrap_or(isize::MAX))
    };
    match place {
        Where::At(offset) => read(offset),
        Where::Offset => {
            let _moving = Moving::begin(descriptor, description);
            let offset = offset(descriptor)?;
            let done = read(offset)?;
            move_to(descriptor, offset + done as off_t)?;
            Ok(done)
        }
    }
}

pub fn write(count: &'static Count, descriptor: c_int, place: Where, pieces: &[iovec]) -> Outcome<ssize_t> {
    let description = taken(descriptor)?;
    let written = write_pieces(descriptor, &description, place, pieces);
    Some(written.inspect(|written| count.written(written.unsigned_abs())))
}

fn write_pieces(
    descriptor: c_int,
    description: &Description,
    place: Where,
    pieces: &[iovec],
) -> Result<ssize_t> {
    let appends = flags(descriptor)? & libc::O_APPEND != 0;
    let length = if appends { total_appended(pieces)? } else { total(pieces)? };
    let joined;
    let bytes = match pieces {
        [piece] => &memory::bytes(piece.iov_base, piece.iov_len)?[..length],
        pieces => {
            joined = join(pieces, length)?;
            &joined
        }
    };
    let (file, done) = (description.writable()?, isize::try_from(length).unwrap_or(isize::MAX));
    check_changes()?;
    let write = |offset: off_t| -> Result<off_t> {
        let offset = u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
        block_on(file.write(offset, bytes))?;
        off_t::try_from(offset + length as u64).map_err(|_| Errno(libc::EFBIG))
    };
    // As Linux has it, what is written with O_APPEND goes to the end, wherever it was to go.
    let append = || -> Result<off_t> {
        let at =
            if bytes.is_empty() { block_on(file.metadata())?.size } else { block_on(file.append(bytes))? };
        off_t::try_from(at + length as u64).map_err(|_| Errno(libc::EFBIG))
    };
    match place {
        Where::At(offset) if offset < 0 => Err(Errno(libc::EINVAL)),
        Where::At(_) if appends => append().map(|_| done),
        Where::At(offset) => write(offset).map(|_| done),
        Where::Offset => {
            let _moving = Moving::begin(descriptor, description);
            let end = if appends { append()? } else { write(offset(descriptor)?)? };
            move_to(descriptor, end)?;
            Ok(done)
        }
    }
}

fn join(pieces: &[iovec], length: usize) -> Result<Vec<u8>> {
    let mut all = Vec::with_capacity(length);
    for piece in pieces {
        all.extend_from_slice(memory::bytes(piece.iov_base, piece.iov_len)?);
    }
    all.truncate(length);
    Ok(all)
}

/// Writes as the flags of `pwritev2` have it.
fn write_as(
    count: &'static Count,
    descriptor: c_int,
    offset: off_t,
    pieces: &[iovec],
    flags: c_int,
) -> Outcome<ssize_t> {
    const SYNC: c_int = libc::RWF_SYNC | libc::RWF_DSYNC;
    let description = taken(descriptor)?;
    if flags & !(libc::RWF_HIPRI | libc::RWF_APPEND | SYNC) != 0 {
        return Some(Err(Errno(libc::EOPNOTSUPP)));
    }
    let written = match flags & libc::RWF_APPEND {
        0 => write(count, descriptor, Where::or_offset(offset), pieces)?,
        _ => append(descriptor, &description, offset, pieces)
            .inspect(|written| count.written(written.unsigned_abs())),
    };
    Some(written.and_then(|written| match flags & SYNC {
        0 => Ok(written),
        _ => sync(descriptor).unwrap_or(Ok(0)).map(|_| written),
    }))
}

/// Writes to the end, where the descriptor is then if no offset is told.
fn append(descriptor: c_int, description: &Description, offset: off_t, pieces: &[iovec]) -> Result<ssize_t> {
    let (file, length) = (description.writable()?, total_appended(pieces)?);
    check_changes()?;
    if offset < -1 {
        return Err(Errno(libc::EINVAL));
    }
    let _moving = Moving::begin(descriptor, description);
    if length > 0 {
        let end = block_on(file.append(&join(pieces, length)?))? + length as u64;
        if offset == -1 {
            move_to(descriptor, off_t::try_from(end).map_err(|_| Errno(libc::EFBIG))?)?;
        }
    }
    Ok(isize::try_from(length).unwrap_or(isize::MAX))
}

fn total(pieces: &[iovec]) -> Result<usize> {
    let lengths = pieces.iter().try_fold(0_usize, |sum, piece| sum.checked_add(piece.iov_len));
    let length = lengths.filter(|length| isize::try_from(*length).is_ok()).ok_or(Errno(libc::EINVAL))?;
    Ok(length.min(memory::TRANSFER_MAX))
}

/// As many of the bytes as one append takes: what is written is fewer than was asked for then.
fn total_appended(pieces: &[iovec]) -> Result<usize> {
    Ok(total(pieces)?.min(File::APPEND_MAX))
}

/// Held by who uses the offset of a descriptor: by one thread, of one of the processes that have it.
struct Moving<'a> {
    descriptor: c_int,
    _threads: MutexGuard<'a, ()>,
}

impl<'a> Moving<'a> {
    fn begin(descriptor: c_int, description: &'a Description) -> Self {
        let moving = Moving { descriptor, _threads: lock(&description.moving) };
        loop {
            match moving.control(libc::F_SETLKW, libc::F_WRLCK) {
                // As the kernel has it, no signal ends this.
                Err(Errno(libc::EINTR)) => {}
                // The kernel takes threads of one process, each of which waits for another file, for one that waits in a circle.
                Err(Errno(libc::EDEADLK)) => thread::yield_now(),
                // Where no such lock is to be had, it is the threads of this process that wait for each other.
                _ => return moving,
            }
        }
    }

    /// Asks for the kernel's lock of what keeps the descriptor's number. Each process has its own, which goes when it is killed.
    fn control(&self, command: c_int, kind: c_int) -> Result<()> {
        // SAFETY: it is made of numbers.
        let mut lock: libc::flock = unsafe { mem::zeroed() };
        lock.l_type = libc::c_short::try_from(kind).unwrap_or(0);
        // By the kernel itself: no thread is cancelled here, as it would be by the C library.
        // SAFETY: the lock is this function's own.
        told(unsafe { libc::syscall(libc::SYS_fcntl, self.descriptor, command, &raw mut lock) }).map(drop)
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        // What was closed meanwhile has no lock any more.
        let _ = self.control(libc::F_SETLK, libc::F_UNLCK);
    }
}

/// Where a descriptor is: the kernel knows.
pub fn offset(descriptor: c_int) -> Result<off_t> {
    // SAFETY: it has no conditions.
    match unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) } {
        -1 => Err(Errno(errno())),
        offset => Ok(offset),
    }
}

/// A descriptor is there from now on.
pub fn move_to(descriptor: c_int, offset: off_t) -> Result<off_t> {
    // SAFETY: it has no conditions.
    match unsafe { libc::lseek(descriptor, offset, libc::SEEK_SET) } {
        -1 => Err(Errno(errno())),
        offset => Ok(offset),
    }
}

/// The flags that the kernel keeps for a descriptor.
pub fn flags(descriptor: c_int) -> Result<c_int> {
    // SAFETY: it has no conditions.
    match unsafe { libc::fcntl(descriptor, libc::F_GETFL) } {
        -1 => Err(Errno(errno())),
        flags => Ok(flags),
    }
}

pub fn seek(descriptor: c_int, description: &Description, offset: off_t, whence: c_int) -> Result<off_t> {
    if !description.is_file() {
        // Who reads a directory by its descriptor goes back to its beginning only.
        return move_to(descriptor, if whence == libc::SEEK_SET { offset } else { 0 });
    }
    let _moving = Moving::begin(descriptor, description);
    let target = match whence {
        libc::SEEK_SET => Some(offset),
        libc::SEEK_CUR => self::offset(descriptor)?.checked_add(offset),
        libc::SEEK_END => {
            let size = block_on(description.file()?.metadata())?.size;
            off_t::try_from(size).ok().and_then(|size| size.checked_add(offset))
        }
        libc::SEEK_DATA | libc::SEEK_HOLE => {
            let what = if whence == libc::SEEK_DATA { Seek::Data } else { Seek::Hole };
            let from = u64::try_from(offset).map_err(|_| Errno(libc::ENXIO))?;
            off_t::try_from(block_on(description.file()?.seek(what, from))?).ok()
        }
        _ => return Err(Errno(libc::EINVAL)),
    };
    let target = target.ok_or(Errno(libc::EOVERFLOW))?;
    if target < 0 {
        return Err(Errno(libc::EINVAL));
    }
    move_to(descriptor, target)
}

pub fn sync(descriptor: c_int) -> Outcome<c_int> {
    let description = taken(descriptor)?;
    Some(match description.is_file() {
        true => description.file().and_then(|file| Ok(block_on(file.sync()).map(|()| 0)?)),
        false => Ok(0),
    })
}

/// As many as Linux takes.
const PIECES_MAX: usize = 1024;
