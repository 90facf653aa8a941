//! What is put together from a format, to descriptors.

use std::{
    ffi::{c_char, c_int, c_void},
    ptr::null_mut,
};

use crate::{
    border::{Errno, Outcome, Outside, Result, interpose},
    memory,
    places::told,
    table::taken,
};

interpose! {
    fn [vdprintf](descriptor: c_int, format: *const c_char, list: *mut c_void) -> c_int => |_| {
        // SAFETY: the format and the list are the program's.
        print(descriptor, |text| unsafe { vasprintf(text, format, list) })
    };
    fn [__vdprintf_chk](descriptor: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int => |_| {
        // SAFETY: as above.
        print(descriptor, |text| unsafe { __vasprintf_chk(text, flag, format, list) })
    };
}

/// Has the C library put a text together, and writes it.
fn print(descriptor: c_int, put_together: impl FnOnce(*mut *mut c_char) -> c_int) -> Outcome<c_int> {
    taken(descriptor)?;
    let mut text = null_mut();
    let printed = told(put_together(&raw mut text));
    Some(printed.and_then(|length| {
        let bytes = memory::bytes(text.cast_const().cast(), usize::try_from(length).unwrap_or(0));
        let written = bytes.and_then(|bytes| write(descriptor, bytes));
        // SAFETY: it is the C library's memory, which it has given away.
        unsafe { libc::free(text.cast()) };
        written.map(|()| length)
    }))
}

/// Writes all of it, as a program does.
fn write(descriptor: c_int, bytes: &[u8]) -> Result<()> {
    let _outside = Outside::enter();
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: the bytes are there.
        let written = told(unsafe { libc::write(descriptor, rest.as_ptr().cast(), rest.len()) })?;
        rest = rest.get(written.unsigned_abs()..).filter(|_| written > 0).ok_or(Errno(libc::EIO))?;
    }
    Ok(())
}

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vasprintf_chk(
        text: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        list: *mut c_void,
    ) -> c_int;
}
