//! The descriptors that the library has for itself: its connections, and files of a store in a directory.
//!
//! They are kept out of the way of programs that give numbers themselves, as shells do, and of those that close whatever is open.

use std::{
    any::Any,
    ffi::{c_int, c_void},
    sync::atomic::{AtomicU8, Ordering},
};

use crate::{
    border::{cross, is_inside},
    real::{Real, errno, set_errno},
    report::Count,
    session::{is_guest_of_parent, is_on},
};

/// Whether each descriptor is the library's own, in this process or in guests that share its memory.
static OWN: [AtomicU8; OWN_MAX] = [const { AtomicU8::new(0) }; OWN_MAX];

fn place(descriptor: c_int) -> Option<&'static AtomicU8> {
    OWN.get(usize::try_from(descriptor).ok()?)
}

/// Whether a descriptor is the library's own.
pub fn is_own(descriptor: c_int) -> bool {
    place(descriptor).is_some_and(is_marked)
}

fn is_marked(place: &AtomicU8) -> bool {
    match place.load(Ordering::Relaxed) {
        0 => false,
        OF_GUESTS => is_guest_of_parent(),
        _ => true,
    }
}

/// Of a range of descriptors, what lies between those that are the library's own.
pub fn others(first: u32, last: u32) -> Vec<(u32, u32)> {
    let mut ranges = Vec::new();
    let mut start = first;
    for (number, place) in (0_u32..).zip(&OWN).skip(first as usize) {
        if number > last {
            break;
        }
        if is_marked(place) {
            if number > start {
                ranges.push((start, number - 1));
            }
            start = number + 1;
        }
    }
    if start <= last {
        ranges.push((start, last));
    }
    ranges
}

/// A descriptor that was made for the library goes where nobody looks for a number.
pub fn put_aside(descriptor: c_int) -> c_int {
    if descriptor < 0 || !is_on() || !is_inside() {
        return descriptor;
    }
    let before = errno();
    let raised = match descriptor >= LOWEST {
        true => descriptor,
        false => raise(descriptor, libc::F_DUPFD_CLOEXEC, LOWEST),
    };
    keep(raised);
    set_errno(before);
    raised
}

/// Gives a descriptor that nobody else knows another number, one that is not lower if such a one is to be had: where a process may have few, one of
/// the highest. Where there is no room at all, it stays where it is.
pub fn raise(descriptor: c_int, command: c_int, lowest: c_int) -> c_int {
    // SAFETY: it is made of numbers.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the limit is this function's own.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let most = c_int::try_from(limit.rlim_cur).unwrap_or(c_int::MAX);
    let wanted = lowest.min(most - most / 4);
    if descriptor >= wanted {
        return descriptor;
    }
    // By the kernel itself: what the library does with its own descriptors comes by here.
    // SAFETY: they have no conditions.
    let raised = unsafe { libc::syscall(libc::SYS_fcntl, descriptor, command, wanted) };
    match c_int::try_from(raised) {
        Ok(raised) if raised >= 0 => {
            // SAFETY: as above; it is known by its other number from now on.
            unsafe { libc::syscall(libc::SYS_close, descriptor) };
            raised
        }
        _ => descriptor,
    }
}

/// What a call has returned; if that is a descriptor for the library, where it is kept.
pub fn kept<T: 'static>(count: &Count, mut result: T) -> T {
    if count.opens
        && let Some(descriptor) = (&mut result as &mut dyn Any).downcast_mut()
    {
        *descriptor = put_aside(*descriptor);
    }
    result
}

macro_rules! making {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C" fn exported($($argument: $type),*) -> c_int {
                static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
                // SAFETY: the C library's function of this name has this type.
                let real = unsafe {
                    std::mem::transmute::<*mut c_void, extern "C" fn($($type),*) -> c_int>(REAL.address())
                };
                put_aside(real($($argument),*))
            }
        };
    )*};
}

making! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int);
    fn epoll_create1(flags: c_int);
    fn eventfd(initial: u32, flags: c_int);
    fn inotify_init1(flags: c_int);
}

#[unsafe(export_name = "socketpair")]
unsafe extern "C" fn socket_pair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    pair: *mut [c_int; 2],
) -> c_int {
    static REAL: Real = Real::of("socketpair\0");
    type Make = extern "C" fn(c_int, c_int, c_int, *mut [c_int; 2]) -> c_int;
    // SAFETY: the C library's function of this name has this type.
    let real = unsafe { std::mem::transmute::<*mut c_void, Make>(REAL.address()) };
    let result = real(domain, kind, protocol, pair);
    if result == 0 && is_on() && is_inside() {
        // SAFETY: the call has succeeded, so they are there.
        unsafe { *pair = (*pair).map(put_aside) };
    }
    result
}

macro_rules! controlling {
    ($($name:ident),*) => {$(
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C" fn exported(descriptor: c_int, command: c_int, argument: *mut c_void) -> c_int {
                static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
                static COUNT: Count = Count::of(stringify!($name));
                // SAFETY: the C library's function of this name has this type.
                let real = unsafe {
                    std::mem::transmute::<*mut c_void, extern "C" fn(c_int, c_int, *mut c_void) -> c_int>(REAL.address())
                };
                let doubles = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
                cross(&COUNT, || crate::calls::fcntl(descriptor, command, argument, real), || {
                    let result = real(descriptor, command, argument);
                    if doubles { put_aside(result) } else { result }
                })
            }
        };
    )*};
}

// Programs pass the third argument as one of several; it lies where a fixed one does.
controlling!(fcntl, fcntl64);

/// A descriptor is the library's own. One of a guest is nothing to its parent, whatever has that number there.
pub fn keep(descriptor: c_int) {
    match place(descriptor) {
        Some(place) if is_guest_of_parent() => {
            // What is the parent's own stays that.
            let _ = place.compare_exchange(0, OF_GUESTS, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some(place) => place.store(1, Ordering::Relaxed),
        None => {}
    }
}

#[unsafe(export_name = "close")]
unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    static REAL: Real = Real::of("close\0");
    static COUNT: Count = Count::of("close");
    // SAFETY: the C library's function of this name has this type.
    let real = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(REAL.address()) };
    if is_own(descriptor) {
        if !is_inside() {
            set_errno(libc::EBADF);
            return -1;
        }
        if let Some(place) = place(descriptor) {
            place.store(0, Ordering::Relaxed);
        }
    }
    cross(&COUNT, || crate::calls::close(descriptor, real), || real(descriptor))
}

/// More than programs have use for, and few enough for the usual limit of 1024.
pub const LOWEST: c_int = 600;
/// The mark of a guest's own.
const OF_GUESTS: u8 = 2;
/// Higher ones are nobody's concern.
const OWN_MAX: usize = 1 << 16;
