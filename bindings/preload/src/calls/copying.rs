//! Copies from descriptor to descriptor, and room for files.

use std::{ffi::c_int, ffi::c_uint};

use libc::{off_t, size_t, ssize_t};
use tyr_fs::Allocate;

use super::content;
use crate::{
    border::{Errno, Outcome, Result, interpose},
    memory,
    places::told,
    report::Count,
    session::check_changes,
    table::{Description, taken},
    waiting::block_on,
};

interpose! {
    fn [copy_file_range](from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint)
        -> ssize_t => |(_, count)| {
            if taken(from).is_none() && taken(to).is_none() {
                return None;
            }
            let (source, target) = ((from, from_offset), (to, to_offset));
            Some(match flags {
                0 => check_not_appended(to, Errno(libc::EBADF))
                    .and_then(|()| length_apart(source, target, length))
                    .and_then(|length| copy(count, source, target, length)),
                _ => Err(Errno(libc::EINVAL)),
            })
        };
    fn [sendfile sendfile64](to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t => |(_, count)| {
        if taken(from).is_none() && taken(to).is_none() {
            return None;
        }
        Some(
            check_not_appended(to, Errno(libc::EINVAL))
                .and_then(|()| copy(count, (from, offset), (to, std::ptr::null_mut()), length)),
        )
    };
    fn [fallocate fallocate64](descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int => |_| {
        allocate(descriptor, mode, offset, length)
    };
    fn [posix_fallocate posix_fallocate64](descriptor: c_int, offset: off_t, length: off_t) -> c_int => |_| {
        // It returns the number of the error.
        allocate(descriptor, 0, offset, length).map(|result| Ok(result.map_or_else(|Errno(number)| number, |_| 0)))
    };
}

/// Nothing is copied to where every write goes to the end.
fn check_not_appended(to: c_int, refusal: Errno) -> Result<()> {
    match taken(to).is_some() && content::flags(to)? & libc::O_APPEND != 0 {
        true => Err(refusal),
        false => Ok(()),
    }
}

/// Where a copy begins on one side.
fn place(descriptor: c_int, offset: *mut off_t) -> Result<off_t> {
    memory::get(offset.cast_const()).map_or_else(|| content::offset(descriptor), Ok)
}

/// How much is copied at most. Bytes of one file are not copied over one another, and of what lies after its end when the copy begins there is nothing to copy, also if the
/// copy makes it longer.
fn length_apart(
    (from, from_offset): (c_int, *mut off_t),
    (to, to_offset): (c_int, *mut off_t),
    length: usize,
) -> Result<usize> {
    let (Some(reader), Some(writer)) = (taken(from), taken(to)) else { return Ok(length) };
    if reader.inode.number != writer.inode.number || !reader.is_file() {
        return Ok(length);
    }
    let (from, to) = (place(from, from_offset)?, place(to, to_offset)?);
    let size = off_t::try_from(reader.metadata()?.size).unwrap_or(off_t::MAX);
    let length = off_t::try_from(length).unwrap_or(off_t::MAX).min(size.saturating_sub(from)).max(0);
    match to.saturating_add(length) > from && to < from.saturating_add(length) {
        true => Err(Errno(libc::EINVAL)),
        false => Ok(usize::try_from(length).unwrap_or(0)),
    }
}

/// Has the store copy from a file to another one, and returns how many bytes there were.
fn copy_within(
    (reader, from): (&Description, off_t),
    (writer, to): (&Description, off_t),
    length: usize,
) -> Result<usize> {
    let offset = |at: off_t| u64::try_from(at).map_err(|_| Errno(libc::EINVAL));
    let (source, target) = (reader.readable()?, writer.writable()?);
    let copied = block_on(source.copy(offset(from)?, (&target, offset(to)?), length as u64))?;
    usize::try_from(copied).map_err(|_| Errno(libc::EINVAL))
}

/// Copies some of what is asked for: what fits into a buffer, at each time, until either side has no more.
fn copy(
    count: &'static Count,
    (from, from_offset): (c_int, *mut off_t),
    (to, to_offset): (c_int, *mut off_t),
    length: usize,
) -> Result<ssize_t> {
    let (reader, writer) = (taken(from), taken(to));
    if writer.is_some() {
        check_changes()?;
    }
    let length = length.min(memory::TRANSFER_MAX);
    let mut from_at = place(from, from_offset)?;
    // What is no file has no offset, as a socket.
    let mut to_at = match memory::get(to_offset.cast_const()) {
        Some(offset) => Some(offset),
        None if writer.is_some() => Some(content::offset(to)?),
        None => None,
    };
    let read = |at: off_t, length: usize| match &reader {
        Some(reader) => {
            let at = u64::try_from(at).map_err(|_| Errno(libc::EINVAL))?;
            Ok(block_on(reader.readable()?.read(at, length))?)
        }
        None => {
            let mut buffer = vec![0; length];
            // SAFETY: the buffer is as long as it is said to be.
            let read = told(unsafe { libc::pread(from, buffer.as_mut_ptr().cast(), length, at) })?;
            buffer.truncate(read.unsigned_abs());
            Ok(buffer)
        }
    };
    let write = |at: Option<off_t>, bytes: &[u8]| match (&writer, at) {
        (Some(writer), Some(at)) => {
            let at = u64::try_from(at).map_err(|_| Errno(libc::EINVAL))?;
            Ok(block_on(writer.writable()?.write(at, bytes)).map(|()| bytes.len())?)
        }
        (_, Some(at)) => {
            // SAFETY: the bytes are there.
            told(unsafe { libc::pwrite(to, bytes.as_ptr().cast(), bytes.len(), at) }).map(isize::unsigned_abs)
        }
        (_, None) => {
            // SAFETY: as above.
            told(unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) }).map(isize::unsigned_abs)
        }
    };
    let mut done = 0;
    while done < length {
        let copied = match (&reader, &writer, to_at) {
            // Bytes of one file that lie over one another go through the process.
            (Some(reader), Some(writer), Some(to_at)) if reader.inode.number != writer.inode.number => {
                copy_within((reader, from_at), (writer, to_at), length - done).map(|copied| (copied, copied))
            }
            _ => read(from_at, (length - done).min(PIECE)).and_then(|bytes| match bytes.as_slice() {
                [] => Ok((0, 0)),
                bytes => write(to_at, bytes).map(|written| (bytes.len(), written)),
            }),
        };
        // What was copied before something failed is told first.
        let (read, written) = match copied {
            Err(errno) if done == 0 => return Err(errno),
            Err(_) | Ok((0, _)) => break,
            Ok(copied) => copied,
        };
        done += written;
        from_at += off_t::try_from(written).unwrap_or(0);
        to_at = to_at.map(|at| at + off_t::try_from(written).unwrap_or(0));
        if written < read {
            break;
        }
    }
    match from_offset.is_null() {
        true => drop(content::move_to(from, from_at)?),
        false => memory::put(from_offset, from_at)?,
    }
    match (to_offset.is_null(), to_at) {
        (true, Some(at)) => drop(content::move_to(to, at)?),
        (false, Some(at)) => memory::put(to_offset, at)?,
        (_, None) => {}
    }
    if reader.is_some() {
        count.read(done);
    }
    if writer.is_some() {
        count.written(done);
    }
    Ok(isize::try_from(done).unwrap_or(isize::MAX))
}

fn allocate(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> Outcome<c_int> {
    const KEEP_AND_PUNCH: c_int = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
    const KEEP_AND_ZERO: c_int = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_ZERO_RANGE;
    let description = taken(descriptor)?;
    Some(check_changes().and_then(|()| {
        let what = match mode {
            0 => Allocate::Extend,
            libc::FALLOC_FL_KEEP_SIZE => Allocate::Keep,
            KEEP_AND_PUNCH | KEEP_AND_ZERO => Allocate::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero,
            _ => return Err(Errno(libc::EOPNOTSUPP)),
        };
        let at = |number: off_t| u64::try_from(number).map_err(|_| Errno(libc::EINVAL));
        Ok(block_on(description.writable()?.allocate(what, at(offset)?, at(length)?)).map(|()| 0)?)
    }))
}

/// What is copied at once.
const PIECE: usize = 8 << 20;
