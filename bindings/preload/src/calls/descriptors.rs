//! Descriptors: closed, doubled, and their flags.

use std::{
    ffi::{c_int, c_uint, c_ulong, c_void},
    sync::Arc,
};

use super::{content, locks};
use crate::{
    border::{Errno, Outcome, Result, interpose},
    memory, own,
    places::told,
    session::is_guest_of_parent,
    table::{self, Description, taken},
};

interpose! {
    fn [dup](descriptor: c_int) -> c_int => |(real, _)| double(descriptor, || real(descriptor));
    fn [dup2](descriptor: c_int, other: c_int) -> c_int => |(real, _)| double_to(descriptor, other, || real(descriptor, other));
    fn [dup3](descriptor: c_int, other: c_int, flags: c_int) -> c_int => |(real, _)| {
        double_to(descriptor, other, || real(descriptor, other, flags))
    };
    fn [close_range](first: c_uint, last: c_uint, flags: c_int) -> c_int => |(real, _)| {
        let mut result = Ok(0);
        for (first, last) in own::others(first, last) {
            result = result.and(told(real(first, last, flags)));
        }
        if result.is_ok() && flags & CLOSE_RANGE_CLOEXEC == 0 && !is_guest_of_parent() {
            table::between(first, last).into_iter().for_each(forget);
        }
        Some(result)
    };
    fn [closefrom](first: c_int) -> c_int => |_| {
        for (first, last) in own::others(u32::try_from(first).unwrap_or(0), u32::MAX) {
            // SAFETY: it has no conditions; what was not open cannot be closed.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        if !is_guest_of_parent() {
            table::between(u32::try_from(first).unwrap_or(0), u32::MAX).into_iter().for_each(forget);
        }
        Some(Ok(0))
    };
    fn [ioctl](descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int => |(real, _)| {
        let description = taken(descriptor)?;
        Some(match request {
            FIOCLEX | FIONCLEX | libc::FIONBIO => told(real(descriptor, request, argument)),
            libc::FIONREAD if description.is_file() => left(descriptor, &description)
                .and_then(|left| memory::put(argument.cast::<c_int>(), left))
                .map(|()| 0),
            _ => Err(Errno(libc::ENOTTY)),
        })
    };
}

type Control = extern "C" fn(c_int, c_int, *mut c_void) -> c_int;

/// What is asked of a descriptor of ours.
pub fn fcntl(descriptor: c_int, command: c_int, argument: *mut c_void, real: Control) -> Outcome<c_int> {
    let description = taken(descriptor)?;
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => double(descriptor, || real(descriptor, command, argument)),
        libc::F_GETFL => Some(told(real(descriptor, command, argument)).map(|flags| {
            let access = if description.access == libc::O_PATH { libc::O_PATH } else { description.access };
            (flags & !(libc::O_ACCMODE | libc::O_NOFOLLOW)) | access
        })),
        libc::F_GETLK
        | libc::F_SETLK
        | libc::F_SETLKW
        | libc::F_OFD_GETLK
        | libc::F_OFD_SETLK
        | libc::F_OFD_SETLKW => {
            Some(locks::fcntl(descriptor, &description, command, argument.cast()).map(|()| 0))
        }
        libc::F_GETFD | libc::F_SETFD | libc::F_SETFL | libc::F_GETOWN | libc::F_SETOWN => None,
        _ => Some(Err(Errno(libc::EINVAL))),
    }
}

/// Closes what is ours.
pub fn close(descriptor: c_int, real: extern "C" fn(c_int) -> c_int) -> Outcome<c_int> {
    taken(descriptor)?;
    // What a child does before it starts a program is nothing to its parent.
    if is_guest_of_parent() {
        return None;
    }
    forget(descriptor);
    Some(told(real(descriptor)))
}

/// A descriptor is not ours any more: with it go the locks that the process has of its file.
pub fn forget(descriptor: c_int) {
    let Some(description) = table::remove(descriptor) else { return };
    locks::closed(&description);
}

fn double(descriptor: c_int, real: impl FnOnce() -> c_int) -> Outcome<c_int> {
    let description = taken(descriptor)?;
    if is_guest_of_parent() {
        return None;
    }
    Some(told(real()).and_then(|number| own(number, description)))
}

fn double_to(descriptor: c_int, other: c_int, real: impl FnOnce() -> c_int) -> Outcome<c_int> {
    let (description, replaced) = (taken(descriptor), taken(other));
    if is_guest_of_parent() || descriptor == other {
        return None;
    }
    if own::is_own(other) {
        // It has no place to go that who uses it would know.
        return Some(Err(Errno(libc::EBADF)));
    }
    if description.is_none() && replaced.is_none() {
        return None;
    }
    Some(told(real()).and_then(|number| {
        forget(other);
        match description {
            Some(description) => own(number, description),
            None => Ok(number),
        }
    }))
}

fn own(number: c_int, description: Arc<Description>) -> Result<c_int> {
    if let Err(errno) = table::check_fits(number) {
        // SAFETY: it was just made.
        unsafe { libc::close(number) };
        return Err(errno);
    }
    table::insert(number, description);
    Ok(number)
}

/// How many bytes there are from where a descriptor is to the end, as far as the number goes that tells it.
fn left(descriptor: c_int, description: &Description) -> Result<c_int> {
    let size = i64::try_from(description.metadata()?.size).unwrap_or(i64::MAX);
    let left = size.saturating_sub(content::offset(descriptor)?);
    Ok(c_int::try_from(left).unwrap_or(if left < 0 { c_int::MIN } else { c_int::MAX }))
}

const CLOSE_RANGE_CLOEXEC: c_int = 4;
const FIOCLEX: c_ulong = 0x5451;
const FIONCLEX: c_ulong = 0x5450;
