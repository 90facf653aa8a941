//! Functions of the C library that look through directories for a program: `scandir`, and `glob`. It would ask the kernel for them.

use std::{
    ffi::{c_char, c_int, c_void},
    mem::{offset_of, transmute},
    ptr::null_mut,
};

use libc::{dirent, size_t};

use crate::{
    border::{Inside, is_inside},
    memory,
    places::{Found, find},
    real::{Real, errno, set_errno},
    session::is_on,
};

type Filter = Option<extern "C-unwind" fn(*const dirent) -> c_int>;
type Order = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;
type Names = *mut *mut *mut dirent;

macro_rules! scanning {
    ($(fn [$($name:ident)+] $arguments:tt of $directory:expr;)*) => {$($(
        scanning!(@one $name $arguments of $directory);
    )+)*};
    (@one $name:ident ($($argument:ident: $type:ty),*) of $directory:expr) => {
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn exported($($argument: $type,)* path: *const c_char, names: Names, filter: Filter, order: Order) -> c_int {
                static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
                type Scan = extern "C-unwind" fn($($type,)* *const c_char, Names, Filter, Order) -> c_int;
                // SAFETY: the C library's function of this name has this type.
                let real = unsafe { transmute::<*mut c_void, Scan>(REAL.address()) };
                if !is_ours($directory, path) {
                    return real($($argument,)* path, names, filter, order);
                }
                // SAFETY: what is passed on is what the program has passed.
                unsafe { scan($directory, path, names, filter, order) }
            }
        };
    };
}

scanning! {
    fn [scandir scandir64]() of libc::AT_FDCWD;
    fn [scandirat scandirat64](directory: c_int) of directory;
}

/// Whether a path leads to where the C library finds nothing.
fn is_ours(directory: c_int, path: *const c_char) -> bool {
    if !is_on() || is_inside() {
        return false;
    }
    let before = errno();
    let inside = Inside::enter();
    let is_ours = memory::text(path).is_ok_and(|path| !matches!(find(directory, path), Found::Unchanged));
    drop(inside);
    set_errno(before);
    is_ours
}

/// Lists a directory as the C library does, by the calls that a program would make. Nothing is kept that would have to be dropped: what the program
/// gives may throw, or jump away.
///
/// # Safety
///
/// The path ends with a zero, and there is room for the list.
unsafe fn scan(directory: c_int, path: *const c_char, names: Names, filter: Filter, order: Order) -> c_int {
    let before = errno();
    // SAFETY: the path is the program's, and what is read and freed was made here.
    unsafe {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let descriptor = libc::openat(directory, path, flags);
        if descriptor < 0 {
            return -1;
        }
        let stream = libc::fdopendir(descriptor);
        if stream.is_null() {
            libc::close(descriptor);
            return -1;
        }
        let mut list = List { places: null_mut(), room: 0, length: 0 };
        let failed = loop {
            set_errno(0);
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break errno();
            }
            if filter.is_none_or(|filter| filter(entry) != 0) && !list.add(entry) {
                break libc::ENOMEM;
            }
        };
        libc::closedir(stream);
        if failed != 0 {
            list.free();
            set_errno(failed);
            return -1;
        }
        if let Some(order) = order
            && list.length > 0
        {
            libc::qsort(list.places.cast(), list.length, size_of::<*mut dirent>(), Some(order));
        }
        names.write(list.places);
        set_errno(before);
        c_int::try_from(list.length).unwrap_or(c_int::MAX)
    }
}

/// Entries as the C library gives them: the program frees each of them, and the list.
struct List {
    places: *mut *mut dirent,
    room: size_t,
    length: size_t,
}

impl List {
    /// Adds a copy of an entry, if there is memory for that.
    ///
    /// # Safety
    ///
    /// The entry is as long as it says.
    unsafe fn add(&mut self, entry: *const dirent) -> bool {
        // SAFETY: the list has as much room as it says, and grows with the C library's own memory.
        unsafe {
            if self.length == self.room {
                let room = (2 * self.room).max(16);
                let places = libc::realloc(self.places.cast(), room * size_of::<*mut dirent>());
                if places.is_null() {
                    return false;
                }
                (self.places, self.room) = (places.cast(), room);
            }
            let length = size_t::from((*entry).d_reclen);
            let copy = libc::malloc(length);
            if copy.is_null() {
                return false;
            }
            copy.copy_from_nonoverlapping(entry.cast(), length);
            self.places.add(self.length).write(copy.cast());
        }
        self.length += 1;
        true
    }

    /// # Safety
    ///
    /// Nobody else has it.
    unsafe fn free(self) {
        // SAFETY: they were made by `add`.
        unsafe {
            for place in 0..self.length {
                libc::free((*self.places.add(place)).cast());
            }
            libc::free(self.places.cast());
        }
    }
}

/// What `glob` finds, `glob_t`, and by which functions if others than its own are to be used.
#[repr(C)]
struct Globbed {
    count: size_t,
    paths: *mut *mut c_char,
    offset: size_t,
    flags: c_int,
    close: *const c_void,
    read: *const c_void,
    open: *const c_void,
    lstat: *const c_void,
    stat: *const c_void,
}

const _: () = assert!(
    size_of::<Globbed>() == size_of::<libc::glob_t>()
        && offset_of!(Globbed, offset) == offset_of!(libc::glob_t, gl_offs)
);

type Failing = Option<extern "C-unwind" fn(*const c_char, c_int) -> c_int>;

macro_rules! globbing {
    ($($name:ident)*) => {$(
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn exported(pattern: *const c_char, flags: c_int, failing: Failing, out: *mut Globbed) -> c_int {
                static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
                type Glob = extern "C-unwind" fn(*const c_char, c_int, Failing, *mut Globbed) -> c_int;
                // SAFETY: the C library's function of this name has this type.
                let real = unsafe { transmute::<*mut c_void, Glob>(REAL.address()) };
                if !is_on() || is_inside() || flags & OTHER_FUNCTIONS != 0 {
                    return real(pattern, flags, failing, out);
                }
                // The C library looks by the calls that a program would make: a pattern may lead to several places.
                // SAFETY: the caller says that it is what `glob` fills.
                unsafe {
                    (*out).close = libc::closedir as *const c_void;
                    (*out).read = libc::readdir as *const c_void;
                    (*out).open = libc::opendir as *const c_void;
                    (*out).lstat = libc::lstat as *const c_void;
                    (*out).stat = libc::stat as *const c_void;
                }
                let result = real(pattern, flags | OTHER_FUNCTIONS, failing, out);
                // SAFETY: as above.
                unsafe { (*out).flags &= !OTHER_FUNCTIONS };
                result
            }
        };
    )*};
}
globbing!(glob glob64);

/// `GLOB_ALTDIRFUNC`.
const OTHER_FUNCTIONS: c_int = 1 << 9;
