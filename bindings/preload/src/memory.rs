//! Memory of the program.
//!
//! A null pointer is `EFAULT`. That the rest is memory of the length that a call says is what the manual of the call asks of its caller.

use std::ffi::{CStr, c_char, c_void};

use crate::border::{Errno, Result};

/// The text at a pointer, without the zero at its end.
pub fn text<'a>(pointer: *const c_char) -> Result<&'a [u8]> {
    if pointer.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller says that it ends with a zero, and keeps it as long as the call lasts.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Bytes that are read.
pub fn bytes<'a>(pointer: *const c_void, length: usize) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller says that there are so many bytes, and leaves them alone as long as the call lasts.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), length.min(TRANSFER_MAX)) })
}

/// Puts bytes where a program wants them, of which there is room for at least as many.
pub fn fill(pointer: *mut c_void, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if pointer.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller says that there is room for as many as it asked for, and no more were read.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer.cast(), bytes.len()) };
    Ok(())
}

/// Puts a value where a program wants it.
pub fn put<T>(pointer: *mut T, value: T) -> Result<()> {
    if pointer.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller says that it is memory for a T.
    unsafe { pointer.write(value) };
    Ok(())
}

/// The value at a pointer, if there is one.
pub fn get<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: the caller says that a pointer that is not null leads to a T.
    (!pointer.is_null()).then(|| unsafe { pointer.read() })
}

/// Several values.
pub fn values<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller says that there are so many.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// What one call reads or writes at most, as Linux has it.
pub const TRANSFER_MAX: usize = 0x7fff_f000;
