//! Memory of the caller.
//!
//! What C passes is checked as far as it can be: null and impossible lengths are errors. That the rest is memory of that length, and stays
//! so until the operation has ended, is what every function asks of its caller.

use std::{
    borrow::Cow,
    ffi::{CStr, c_char},
};

use crate::{
    status::Failure,
    types::{tyr_buffer, tyr_bytes},
};

/// Where a result goes; nowhere if it is null.
pub struct Out<T>(*mut T);

// SAFETY: the caller leaves the memory to the operation, whichever thread it is on, until it has ended.
unsafe impl<T> Send for Out<T> {}

impl<T> Out<T> {
    /// A result that may be left out.
    pub fn optional(pointer: *mut T) -> Self {
        Out(pointer)
    }

    /// A result that has to go somewhere.
    pub fn required(pointer: *mut T) -> Result<Self, Failure> {
        if pointer.is_null() {
            return Err(Failure::invalid("a pointer for a result is null"));
        }
        Ok(Out(pointer))
    }

    /// Whether somebody wants it.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Puts the result there.
    pub fn put(&self, value: T) {
        if self.is_wanted() {
            // SAFETY: the caller says that it is memory for a T, which needs no dropping.
            unsafe { self.0.write(value) };
        }
    }
}

/// The text at a pointer.
pub fn text(pointer: *const c_char, what: &str) -> Result<String, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what} is null")));
    }
    // SAFETY: the caller says that it ends with a zero.
    let text = unsafe { CStr::from_ptr(pointer) };
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Failure::invalid(format!("{what} is not in UTF-8"))),
    }
}

/// A text that may be left out.
pub fn optional_text(pointer: *const c_char, what: &str) -> Result<Option<String>, Failure> {
    (!pointer.is_null()).then(|| text(pointer, what)).transpose()
}

/// The values of an array of the caller.
pub fn array<T: Copy>(pointer: *const T, count: usize) -> Result<Vec<T>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    check(pointer.cast(), count.saturating_mul(size_of::<T>()))?;
    // SAFETY: it was checked as far as it can be; the caller says the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) }.to_vec())
}

/// Bytes that are used as long as the operation lasts. The lifetime is the caller's word.
#[inline(always)]
pub fn borrowed(bytes: tyr_bytes) -> Result<&'static [u8], Failure> {
    if bytes.size == 0 {
        return Ok(&[]);
    }
    check(bytes.data.cast(), bytes.size)?;
    // SAFETY: it was checked as far as it can be; the caller says that they stay until the operation has ended.
    Ok(unsafe { std::slice::from_raw_parts(bytes.data.cast(), bytes.size) })
}

/// A key, copied unless the caller waits.
#[derive(Clone)]
pub enum Key {
    /// The caller's.
    Borrowed(&'static [u8]),
    /// A short one, which needs no memory of its own.
    Short([u8; SHORT_MAX], u8),
    /// A long one.
    Long(Vec<u8>),
}

const SHORT_MAX: usize = 46;

impl AsRef<[u8]> for Key {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        match self {
            Key::Borrowed(bytes) => bytes,
            Key::Short(bytes, size) => &bytes[..usize::from(*size)],
            Key::Long(bytes) => bytes,
        }
    }
}

/// A key, copied unless the caller waits.
#[inline(always)]
pub fn copied(bytes: tyr_bytes, waits: bool) -> Result<Key, Failure> {
    let borrowed = borrowed(bytes)?;
    if waits {
        return Ok(Key::Borrowed(borrowed));
    }
    let mut short = [0; SHORT_MAX];
    Ok(match (short.get_mut(..borrowed.len()), u8::try_from(borrowed.len())) {
        (Some(own), Ok(size)) => {
            own.copy_from_slice(borrowed);
            Key::Short(short, size)
        }
        _ => Key::Long(borrowed.to_vec()),
    })
}

/// What is to be written, in one or several parts.
#[derive(Clone)]
pub enum Parts {
    /// One, as nearly always.
    One(&'static [u8]),
    /// Several.
    Many(Vec<&'static [u8]>),
}

impl Parts {
    /// The parts that C passes.
    #[inline(always)]
    pub fn of(pointer: *const tyr_bytes, count: usize) -> Result<Parts, Failure> {
        if count == 1 && !pointer.is_null() {
            // SAFETY: the caller says that there is one.
            return borrowed(unsafe { pointer.read() }).map(Parts::One);
        }
        let parts = array(pointer, count)?;
        let parts = parts.into_iter().map(borrowed).collect::<Result<Vec<_>, _>>()?;
        check_total(parts.iter().map(|part| part.len()))?;
        Ok(if parts.is_empty() { Parts::One(&[]) } else { Parts::Many(parts) })
    }

    /// All of them in one piece, so that they are one operation of a transaction, which is done or leaves the transaction as it was.
    #[inline(always)]
    pub fn joined(self) -> Result<Cow<'static, [u8]>, Failure> {
        match self {
            Parts::One(part) => Ok(Cow::Borrowed(part)),
            Parts::Many(parts) => join(&parts).map(Cow::Owned),
        }
    }
}

fn join(parts: &[&[u8]]) -> Result<Vec<u8>, Failure> {
    let size = parts.iter().map(|part| part.len()).sum();
    let mut joined = Vec::new();
    joined.try_reserve_exact(size).map_err(|_| {
        Failure::invalid(format!(
            "there is no memory for {size} bytes in one piece; write them in several calls"
        ))
    })?;
    parts.iter().for_each(|part| joined.extend_from_slice(part));
    Ok(joined)
}

/// Where what is read goes, in one or several parts.
pub enum Room {
    /// One, as nearly always.
    One(&'static mut [u8]),
    /// Several.
    Many(Vec<&'static mut [u8]>),
}

impl Room {
    /// The buffers that C passes.
    #[inline(always)]
    pub fn of(pointer: *const tyr_buffer, count: usize) -> Result<Room, Failure> {
        if count == 1 && !pointer.is_null() {
            // SAFETY: the caller says that there is one.
            return lent(unsafe { pointer.read() }).map(Room::One);
        }
        let parts = array(pointer, count)?;
        let parts = parts.into_iter().map(lent).collect::<Result<Vec<_>, _>>()?;
        check_total(parts.iter().map(|part| part.len()))?;
        Ok(if parts.is_empty() { Room::One(&mut []) } else { Room::Many(parts) })
    }
}

#[inline(always)]
fn lent(buffer: tyr_buffer) -> Result<&'static mut [u8], Failure> {
    if buffer.size == 0 {
        return Ok(&mut []);
    }
    check(buffer.data.cast(), buffer.size)?;
    // SAFETY: it was checked as far as it can be; the caller leaves it to the operation until that has ended.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.data.cast(), buffer.size) })
}

#[inline(always)]
fn check(pointer: *const u8, size: usize) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("a pointer to {size} bytes is null")));
    }
    if size > isize::MAX.unsigned_abs() || pointer.addr().checked_add(size).is_none() {
        return Err(Failure::invalid(format!("{size} bytes are more than there can be")));
    }
    Ok(())
}

fn check_total(sizes: impl Iterator<Item = usize>) -> Result<(), Failure> {
    match sizes.into_iter().try_fold(0usize, usize::checked_add) {
        Some(_) => Ok(()),
        None => Err(Failure::invalid("the parts have more bytes than there can be")),
    }
}

/// Bytes of something that the library keeps.
pub fn shown(bytes: &[u8]) -> tyr_bytes {
    tyr_bytes { data: bytes.as_ptr().cast(), size: bytes.len() }
}
