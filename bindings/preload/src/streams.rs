//! Streams of the C library over descriptors of ours.
//!
//! The C library's own streams call the kernel, not this library. So a stream over what is ours gets functions of its own; and when a
//! standard descriptor becomes ours, by `dup2` or because it was inherited, the variable of its standard stream is such a one meanwhile.

use std::{
    ffi::{c_char, c_int, c_void},
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use libc::{FILE, off64_t, size_t, ssize_t};

use crate::{
    border::{Errno, Result, interpose},
    calls::{forget, open_path},
    memory,
    places::{Found, find, inner, told},
    real::errno,
    session::session,
    table::{self, taken},
};

interpose! {
    fn [fopen fopen64](path: *const c_char, mode: *const c_char) -> *mut FILE => |(real, _)| {
        match find(libc::AT_FDCWD, memory::text(path).ok()?) {
            Found::Ours(path) => Some(open(&path, mode).and_then(|descriptor| stream(descriptor, mode))),
            Found::Unchanged => None,
            Found::Elsewhere(path) => Some(told(real(path.as_ptr(), mode))),
        }
    };
    fn [fdopen](descriptor: c_int, mode: *const c_char) -> *mut FILE => |_| {
        let description = taken(descriptor)?;
        Some(flags_of(mode).and_then(|flags| {
            let access = flags & libc::O_ACCMODE;
            if description.access != libc::O_RDWR && description.access != access {
                return Err(Errno(libc::EINVAL));
            }
            if flags & libc::O_APPEND != 0 {
                // SAFETY: it has no conditions.
                told(unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_APPEND) })?;
            }
            stream(descriptor, mode)
        }))
    };
    fn [freopen freopen64](path: *const c_char, mode: *const c_char, before: *mut FILE) -> *mut FILE => |(real, _)| {
        match find(libc::AT_FDCWD, memory::text(path).ok()?) {
            Found::Ours(path) => Some(reopen(&path, mode, before)),
            Found::Unchanged => None,
            Found::Elsewhere(path) => Some(told(real(path.as_ptr(), mode, before))),
        }
    };
}

/// Opens a path below the prefix as a stream of this mode does.
fn open(path: &[u8], mode: *const c_char) -> Result<c_int> {
    let flags = flags_of(mode)?;
    open_path(&*session()?, &inner(path), path, flags, 0o666)
}

/// The flags of `open` that a mode stands for.
fn flags_of(mode: *const c_char) -> Result<c_int> {
    let mode = memory::text(mode)?;
    let (first, rest) = mode.split_first().ok_or(Errno(libc::EINVAL))?;
    let has = |letter: u8| rest.iter().take_while(|byte| **byte != b',').any(|byte| *byte == letter);
    let access = if has(b'+') { libc::O_RDWR } else { libc::O_WRONLY };
    let mut flags = match first {
        b'r' if has(b'+') => libc::O_RDWR,
        b'r' => libc::O_RDONLY,
        b'w' => access | libc::O_CREAT | libc::O_TRUNC,
        b'a' => access | libc::O_CREAT | libc::O_APPEND,
        _ => return Err(Errno(libc::EINVAL)),
    };
    if has(b'e') {
        flags |= libc::O_CLOEXEC;
    }
    if has(b'x') {
        flags |= libc::O_EXCL;
    }
    Ok(flags)
}

/// What the C library is to call.
#[repr(C)]
struct Functions {
    read: extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// What is behind a stream.
struct Cookie {
    descriptor: c_int,
    stream: *mut FILE,
    buffer: Vec<u8>,
}

/// A stream over a descriptor, which is closed with it.
fn stream(descriptor: c_int, mode: *const c_char) -> Result<*mut FILE> {
    let mut cookie = Box::new(Cookie { descriptor, stream: null_mut(), buffer: vec![0; BUFFER] });
    let buffer = cookie.buffer.as_mut_ptr();
    let functions = Functions { read, write, seek, close };
    let cookie = Box::into_raw(cookie);
    // SAFETY: the mode ends with a zero, the functions are for such a cookie, and the buffer lives until the stream is closed. In all versions of the C library
    // the number of the descriptor lies at this place of a stream; no other one is set so.
    unsafe {
        let stream = fopencookie(cookie.cast(), mode, functions);
        if stream.is_null() {
            let errno = errno();
            drop(Box::from_raw(cookie));
            return Err(Errno(errno));
        }
        (*cookie).stream = stream;
        libc::setvbuf(stream, buffer.cast(), libc::_IOFBF, BUFFER);
        stream.cast::<u8>().add(DESCRIPTOR_OFFSET).cast::<c_int>().write(descriptor);
        Ok(stream)
    }
}

fn descriptor(cookie: *mut c_void) -> c_int {
    // SAFETY: it is the box that was made for the stream.
    unsafe { (*cookie.cast::<Cookie>()).descriptor }
}

extern "C" fn read(cookie: *mut c_void, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the C library has so much room.
    unsafe { libc::read(descriptor(cookie), buffer.cast(), size) }
}

extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, size: size_t) -> ssize_t {
    // SAFETY: the C library has so many bytes. It takes 0 for a failure.
    unsafe { libc::write(descriptor(cookie), buffer.cast(), size) }.max(0)
}

extern "C" fn seek(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    let Some(by) = memory::get(offset.cast_const()) else { return -1 };
    // SAFETY: it has no conditions.
    match unsafe { libc::lseek64(descriptor(cookie), by, whence) } {
        -1 => -1,
        found => memory::put(offset, found).map_or(-1, |()| 0),
    }
}

extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: it is the box that was made for the stream, which ends with this.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    // SAFETY: the descriptor is the stream's. A standard stream's variable is the usual one again after this.
    let result = unsafe { libc::close(cookie.descriptor) };
    for ours in &OURS {
        // What it was before is of no use; the stream is gone when this returns.
        let _ = ours.compare_exchange(cookie.stream, null_mut(), Ordering::Relaxed, Ordering::Relaxed);
    }
    result
}

/// The standard streams as the C library has them.
static USUAL: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];
/// Those that stand in their places while their descriptors are ours.
static OURS: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];

/// A standard descriptor has become ours, or is not any more: its stream is the right one for it from now on.
pub fn follow(descriptor: c_int) {
    let Some(index) = usize::try_from(descriptor).ok().filter(|index| *index < 3) else { return };
    // SAFETY: the variables are the C library's, which reads them anew at each use. A program that changes what its standard
    // streams are about while other threads use them has to expect anything.
    unsafe {
        let variable = match index {
            0 => &raw mut stdin,
            1 => &raw mut stdout,
            _ => &raw mut stderr,
        };
        let ours = OURS[index].load(Ordering::Relaxed);
        if taken(descriptor).is_none() {
            if !ours.is_null() && *variable == ours {
                *variable = USUAL[index].load(Ordering::Relaxed);
            }
            return;
        }
        if !ours.is_null() && *variable == ours {
            return;
        }
        let ours = match ours.is_null() {
            false => ours,
            true => {
                let mode = if index == 0 { c"r" } else { c"w" };
                let Ok(made) = stream(descriptor, mode.as_ptr()) else { return };
                if index == 2 {
                    libc::setvbuf(made, null_mut(), libc::_IONBF, 0);
                }
                OURS[index].store(made, Ordering::Relaxed);
                made
            }
        };
        USUAL[index].store(*variable, Ordering::Relaxed);
        libc::clearerr(ours);
        *variable = ours;
    }
}

/// A stream is to be of another file. Only a standard stream can be, as its descriptor becomes that.
fn reopen(path: &[u8], mode: *const c_char, before: *mut FILE) -> Result<*mut FILE> {
    // SAFETY: the variables are the C library's.
    let standard = unsafe { [stdin, stdout, stderr] };
    let index = standard.iter().position(|stream| *stream == before).ok_or(Errno(libc::EOPNOTSUPP))?;
    let number = c_int::try_from(index).unwrap_or(0);
    // SAFETY: the stream is the program's.
    unsafe { libc::fflush(before) };
    let opened = open(path, mode)?;
    let description = table::remove(opened).ok_or(Errno(libc::EBADF))?;
    // SAFETY: the descriptors are this function's own, or the standard one.
    let moved = unsafe {
        let moved = told(libc::dup2(opened, number));
        libc::close(opened);
        moved
    };
    moved?;
    forget(number);
    table::insert(number, description);
    // SAFETY: the variables are the C library's.
    Ok(unsafe { [stdin, stdout, stderr] }[index])
}

/// What a stream reads or writes at once. Each is a request.
const BUFFER: usize = 128 << 10;
/// Where a stream of the C library has the number of its descriptor.
const DESCRIPTOR_OFFSET: usize = 112;
