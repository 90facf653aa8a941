//! What becomes of the file system when threads and programs begin, and when processes end.

use std::{
    env,
    ffi::{CString, OsString, c_char, c_int, c_void},
    mem,
    os::unix::ffi::OsStringExt as _,
    ptr::null_mut,
};

use libc::{pthread_attr_t, pthread_t, sigset_t};

use crate::{
    border::{Inside, Outcome, interpose, is_inside},
    memory,
    places::told,
    real::Real,
    report,
    session::{finish, is_guest_of_parent, is_on, leave},
    table::taken,
};

type List = *const *const c_char;

interpose! {
    fn [execve](path: *const c_char, arguments: List, environment: List) -> c_int => |(real, _)| {
        replace(|| is_program(memory::text(path).ok()?), || real(path, arguments, environment))
    };
    fn [execv](path: *const c_char, arguments: List) -> c_int => |(real, _)| {
        replace(|| is_program(memory::text(path).ok()?), || real(path, arguments))
    };
    fn [execvp](file: *const c_char, arguments: List) -> c_int => |(real, _)| {
        replace(|| is_in_path(memory::text(file).ok()?), || real(file, arguments))
    };
    fn [execvpe](file: *const c_char, arguments: List, environment: List) -> c_int => |(real, _)| {
        replace(|| is_in_path(memory::text(file).ok()?), || real(file, arguments, environment))
    };
    fn [fexecve](descriptor: c_int, arguments: List, environment: List) -> c_int => |(real, _)| {
        let is_program = || match taken(descriptor) {
            Some(_) => None,
            None => is_program(format!("/proc/self/fd/{descriptor}").as_bytes()),
        };
        replace(is_program, || real(descriptor, arguments, environment))
    };
}

/// The process becomes another program, which opens the file system for itself: what others keep for this one is given up, unless there is
/// no such program.
fn replace(is_program: impl FnOnce() -> Option<()>, real: impl FnOnce() -> c_int) -> Outcome<c_int> {
    if is_guest_of_parent() || is_program().is_none() {
        return None;
    }
    leave();
    report::tell();
    Some(told(real()))
}

/// Whether the kernel finds a file that may be run.
fn is_program(path: &[u8]) -> Option<()> {
    let path = CString::new(path).ok()?;
    // SAFETY: it is made of numbers.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the path ends with a zero, and the status is this function's own.
    let may_be = unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0
            && libc::stat(path.as_ptr(), &raw mut status) == 0
    };
    (may_be && status.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(())
}

/// The same for a name that is looked for as shells do.
fn is_in_path(file: &[u8]) -> Option<()> {
    if file.contains(&b'/') {
        return is_program(file);
    }
    let path = env::var_os("PATH").map_or_else(|| b"/bin:/usr/bin".to_vec(), OsString::into_vec);
    path.split(|byte| *byte == b':').find_map(|directory| {
        let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
        is_program(&[directory, separator, file].concat())
    })
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
