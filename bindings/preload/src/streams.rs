//! Streams of the C library over descriptors of ours.
//!
//! The C library's own streams call the kernel, not this library. So a stream over what is ours gets functions of its own; and when a
//! standard descriptor becomes ours, by `dup2` or because it was inherited, the variable of its standard stream is such a one meanwhile.

use std::{
    collections::HashMap,
    ffi::{c_char, c_int, c_void},
    ptr::null_mut,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicPtr, Ordering},
    },
};

use libc::{FILE, off64_t, size_t, ssize_t};

use crate::{
    border::{Errno, Outside, Result, interpose},
    calls::{forget, open_path},
    memory,
    places::{Found, find, inner, told},
    real::errno,
    session::{lock, session},
    table::{self, taken},
    wide::Wide,
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
                let before = told(unsafe { libc::fcntl(descriptor, libc::F_GETFL) })?;
                // SAFETY: as above.
                told(unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_APPEND) })?;
                if before & libc::O_APPEND == 0 {
                    go_to_end(descriptor, flags)?;
                }
            }
            stream(descriptor, mode)
        }))
    };
    fn [freopen freopen64](path: *const c_char, mode: *const c_char, before: *mut FILE) -> *mut FILE => |(real, _)| {
        let Ok(text) = memory::text(path) else {
            // The same file is meant, in another mode.
            let description = taken(made(before)?.descriptor);
            return Some(match description {
                Some(description) => reopen(&description.path, mode, before),
                None => Err(Errno(libc::EBADF)),
            });
        };
        match find(libc::AT_FDCWD, text) {
            Found::Ours(path) => Some(reopen(&path, mode, before)),
            Found::Unchanged => leave(path, mode, before, real),
            Found::Elsewhere(path) => {
                let left = leave(path.as_ptr(), mode, before, real);
                Some(left.unwrap_or_else(|| told(real(path.as_ptr(), mode, before))))
            }
        }
    };
}

/// Opens a path below the prefix as a stream of this mode does.
fn open(path: &[u8], mode: *const c_char) -> Result<c_int> {
    let flags = flags_of(mode)?;
    let descriptor = open_path(&*session()?, &inner(path), path, flags, 0o666)?;
    if let Err(errno) = go_to_end(descriptor, flags) {
        forget(descriptor);
        // SAFETY: it was just made.
        unsafe { libc::close(descriptor) };
        return Err(errno);
    }
    Ok(descriptor)
}

/// A stream that appends, and does not read, tells from its beginning where what it writes goes.
fn go_to_end(descriptor: c_int, flags: c_int) -> Result<()> {
    if flags & (libc::O_ACCMODE | libc::O_APPEND) != libc::O_WRONLY | libc::O_APPEND {
        return Ok(());
    }
    let _outside = Outside::enter();
    // SAFETY: it has no conditions.
    match unsafe { libc::lseek64(descriptor, 0, libc::SEEK_END) } {
        -1 => Err(Errno(errno())),
        _ => Ok(()),
    }
}

/// The flags of `open` that a mode stands for.
fn flags_of(mode: *const c_char) -> Result<c_int> {
    let mode = memory::text(mode)?;
    let (first, rest) = mode.split_first().ok_or(Errno(libc::EINVAL))?;
    if mode.windows(CODED.len()).any(|part| part == CODED) {
        return Err(Errno(libc::EINVAL));
    }
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
    pub static mut stdin: *mut FILE;
    pub static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// A stream that this library has made.
pub struct Made {
    pub descriptor: c_int,
    /// The flags of `open` that its mode stands for.
    flags: c_int,
    pub wide: Mutex<Wide>,
}

static MADE: Mutex<Option<HashMap<usize, Arc<Made>>>> = Mutex::new(None);

/// What is known of all streams, for who forks.
pub fn all_made() -> MutexGuard<'static, Option<HashMap<usize, Arc<Made>>>> {
    lock(&MADE)
}

/// What is known of a stream, if this library has made it.
pub fn made(stream: *mut FILE) -> Option<Arc<Made>> {
    all_made().as_ref()?.get(&stream.addr()).cloned()
}

/// What is behind a stream.
struct Cookie {
    descriptor: c_int,
    buffer: Vec<u8>,
    stream: *mut FILE,
}

/// A stream over a descriptor, which is closed with it.
fn stream(descriptor: c_int, mode: *const c_char) -> Result<*mut FILE> {
    let flags = flags_of(mode)?;
    let mut cookie = Box::new(Cookie { descriptor, buffer: vec![0; BUFFER], stream: null_mut() });
    let buffer = cookie.buffer.as_mut_ptr();
    let functions = Functions { read, write, seek, close };
    let cookie = Box::into_raw(cookie);
    // SAFETY: the mode ends with a zero, the functions are for such a cookie, and the buffer lives until the stream is closed. In all versions of the C library
    // the number of the descriptor lies at this place of a stream; no other one is set so.
    let stream = unsafe {
        let stream = fopencookie(cookie.cast(), mode, functions);
        if stream.is_null() {
            let errno = errno();
            drop(Box::from_raw(cookie));
            return Err(Errno(errno));
        }
        (*cookie).stream = stream;
        libc::setvbuf(stream, buffer.cast(), libc::_IOFBF, BUFFER);
        stream.cast::<u8>().add(DESCRIPTOR_OFFSET).cast::<c_int>().write(descriptor);
        stream
    };
    let made = Arc::new(Made { descriptor, flags, wide: Mutex::default() });
    all_made().get_or_insert_default().insert(stream.addr(), made);
    Ok(stream)
}

fn descriptor(cookie: *mut c_void) -> c_int {
    // SAFETY: it is the box that was made for the stream.
    unsafe { (*cookie.cast::<Cookie>()).descriptor }
}

extern "C" fn read(cookie: *mut c_void, buffer: *mut c_char, size: size_t) -> ssize_t {
    let _outside = Outside::enter();
    // SAFETY: the C library has so much room.
    unsafe { libc::read(descriptor(cookie), buffer.cast(), size) }
}

extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, size: size_t) -> ssize_t {
    let _outside = Outside::enter();
    // SAFETY: the C library has so many bytes. It takes 0 for a failure.
    unsafe { libc::write(descriptor(cookie), buffer.cast(), size) }.max(0)
}

extern "C" fn seek(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    let _outside = Outside::enter();
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
    let _outside = Outside::enter();
    if let Some(all) = &mut *all_made() {
        all.remove(&cookie.stream.addr());
    }
    // SAFETY: the descriptor is the stream's. A standard stream's variable is the usual one again after this.
    let result = unsafe { libc::close(cookie.descriptor) };
    for ours in &OURS {
        // What it was before is of no use; the stream is gone when this returns.
        let _ = ours.compare_exchange(cookie.stream, null_mut(), Ordering::Relaxed, Ordering::Relaxed);
    }
    result
}

/// The standard streams as the C library has made them.
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

/// Which standard stream it is.
fn standard(stream: *mut FILE) -> Option<usize> {
    // SAFETY: the variables are the C library's.
    unsafe { [stdin, stdout, stderr] }.iter().position(|standard| *standard == stream)
}

/// What a stream of ours holds goes to its file, and what it has read ahead is forgotten.
fn finish(stream: *mut FILE) {
    // SAFETY: the stream is the program's. What cannot be written is lost, as with every stream that is opened again.
    unsafe {
        libc::fflush(stream);
        __fpurge(stream);
        libc::clearerr(stream);
    }
}

/// Whether a stream of ours can be of another file: the C library decides by the mode it was made with what may be done with it. A
/// standard stream is used as what it is.
fn check_mode(stream: *mut FILE, made: &Made, flags: c_int) -> Result<()> {
    const COMPARED: c_int = libc::O_ACCMODE | libc::O_APPEND;
    match standard(stream).is_some() || (made.flags ^ flags) & COMPARED == 0 {
        true => Ok(()),
        false => Err(Errno(libc::EOPNOTSUPP)),
    }
}

/// A descriptor becomes what another one is, which is closed.
fn exchange(descriptor: c_int, opened: c_int, flags: c_int) -> Result<()> {
    let description = table::remove(opened);
    // SAFETY: the descriptors are this library's own, or the stream's.
    let moved = unsafe {
        let moved = told(libc::dup3(opened, descriptor, flags & libc::O_CLOEXEC));
        libc::close(opened);
        moved
    };
    moved?;
    forget(descriptor);
    if let Some(description) = description {
        table::insert(descriptor, description);
    }
    Ok(())
}

/// A stream is to be of a file of ours. That can be a standard stream, as its descriptor becomes that, or a stream of ours.
fn reopen(path: &[u8], mode: *const c_char, before: *mut FILE) -> Result<*mut FILE> {
    let (index, flags) = (standard(before), flags_of(mode)?);
    let number = match (made(before), index) {
        (Some(made), _) => {
            check_mode(before, &made, flags)?;
            finish(before);
            made.descriptor
        }
        (None, Some(index)) => {
            // SAFETY: the stream is the program's.
            unsafe { libc::fflush(before) };
            c_int::try_from(index).unwrap_or(0)
        }
        (None, None) => return Err(Errno(libc::EOPNOTSUPP)),
    };
    exchange(number, open(path, mode)?, flags)?;
    // SAFETY: the variables are the C library's.
    Ok(index.map_or(before, |index| unsafe { [stdin, stdout, stderr] }[index]))
}

type Reopen = extern "C" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE;

/// A stream is to be of a file that is not ours. A standard stream of ours gives its place back to the C library's. `None` if nothing of this is ours.
fn leave(
    path: *const c_char,
    mode: *const c_char,
    before: *mut FILE,
    real: Reopen,
) -> Option<Result<*mut FILE>> {
    let Some(made) = made(before) else {
        // SAFETY: the stream is the program's.
        let number = unsafe { libc::fileno(before) };
        taken(number)?;
        let reopened = told(real(path, mode, before));
        forget(number);
        return Some(reopened);
    };
    let usual = standard(before).map(|index| USUAL[index].load(Ordering::Relaxed));
    Some(flags_of(mode).and_then(|flags| {
        check_mode(before, &made, flags)?;
        finish(before);
        match usual.filter(|usual| !usual.is_null()) {
            Some(usual) => {
                let reopened = told(real(path, mode, usual));
                forget(made.descriptor);
                reopened
            }
            None => {
                // SAFETY: the path ends with a zero.
                let opened = told(unsafe { libc::open(path, flags, 0o666) })?;
                exchange(made.descriptor, opened, flags).map(|()| before)
            }
        }
    }))
}

unsafe extern "C" {
    /// Forgets what a stream has in its buffer.
    fn __fpurge(stream: *mut FILE);
}

/// What a stream reads or writes at once. Each is a request.
const BUFFER: usize = 128 << 10;
/// Where a stream of the C library has the number of its descriptor.
const DESCRIPTOR_OFFSET: usize = 112;
/// What a mode says that wants another encoding than the locale's.
const CODED: &[u8] = b",ccs=";
