//! The functions of the C library that this library stands before.

use std::{
    ffi::{CStr, c_int, c_long, c_void},
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

/// The next function of a name in the order of libraries, looked up when it is first called.
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// The function of a name, which ends with a zero.
    pub const fn of(name: &'static str) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("a name ends with one zero")
        };
        Real { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Where it is. What the C library does not have fails with `ENOSYS`.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with a zero.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            found = missing as extern "C" fn() -> c_long as *mut c_void;
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

extern "C" fn missing() -> c_long {
    set_errno(libc::ENOSYS);
    -1
}

/// The calling thread's error number.
pub fn errno() -> c_int {
    // SAFETY: the address is always valid.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(number: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number };
}
