//! What becomes of the file system when threads and programs begin, and when processes end.

use std::{
    ffi::{c_char, c_int, c_void},
    mem,
    ptr::null_mut,
};

use libc::{pthread_attr_t, pthread_t, sigset_t};

use crate::{
    border::{Inside, Outcome, interpose, is_inside},
    places::told,
    real::Real,
    report,
    session::{finish, is_guest_of_parent, is_on, leave},
};

type List = *const *const c_char;

interpose! {
    fn [execve](path: *const c_char, arguments: List, environment: List) -> c_int => |(real, _)| {
        replace(|| real(path, arguments, environment))
    };
    fn [execv](path: *const c_char, arguments: List) -> c_int => |(real, _)| replace(|| real(path, arguments));
    fn [execvp](file: *const c_char, arguments: List) -> c_int => |(real, _)| replace(|| real(file, arguments));
    fn [execvpe](file: *const c_char, arguments: List, environment: List) -> c_int => |(real, _)| {
        replace(|| real(file, arguments, environment))
    };
    fn [fexecve](descriptor: c_int, arguments: List, environment: List) -> c_int => |(real, _)| {
        replace(|| real(descriptor, arguments, environment))
    };
}

/// The process becomes another program, which opens the file system for itself. If it does not, neither has anything been lost.
fn replace(real: impl FnOnce() -> c_int) -> Outcome<c_int> {
    if is_guest_of_parent() {
        return None;
    }
    leave();
    report::tell();
    Some(told(real()))
}

macro_rules! ending {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(status: c_int) -> ! {
            if is_on() && !is_inside() && !is_guest_of_parent() {
                let _inside = Inside::enter();
                // A panic here has nobody to be told.
                let _ = std::panic::catch_unwind(finish);
            }
            static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
            // SAFETY: the C library's function of this name has this type.
            let real = unsafe { mem::transmute::<*mut c_void, extern "C" fn(c_int) -> !>(REAL.address()) };
            real(status)
        }
    )*};
}
ending!(_exit, _Exit);

/// What a thread is to do.
struct Beginning {
    routine: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
}

/// What a thread of the library calls passes through, and it handles no signals of the program's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Create = extern "C" fn(
        *mut pthread_t,
        *const pthread_attr_t,
        extern "C" fn(*mut c_void) -> *mut c_void,
        *mut c_void,
    ) -> c_int;
    static REAL: Real = Real::of("pthread_create\0");
    // SAFETY: the C library's function of this name has this type.
    let real = unsafe { mem::transmute::<*mut c_void, Create>(REAL.address()) };
    if !is_inside() {
        return real(thread, attributes, routine, argument);
    }
    let beginning = Box::into_raw(Box::new(Beginning { routine, argument }));
    // SAFETY: the sets are this function's own.
    let before = unsafe {
        let mut all: sigset_t = mem::zeroed();
        let mut before: sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let result = real(thread, attributes, begin, beginning.cast());
    // SAFETY: as above; a box that no thread was given is this function's still.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        if result != 0 {
            drop(Box::from_raw(beginning));
        }
    }
    result
}

extern "C" fn begin(argument: *mut c_void) -> *mut c_void {
    Inside::stay();
    // SAFETY: it is the box that was made for this thread.
    let Beginning { routine, argument } = *unsafe { Box::from_raw(argument.cast::<Beginning>()) };
    routine(argument)
}
