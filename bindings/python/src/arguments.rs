//! What Python hands in: keys, offsets, and buffers, which are used where they are.

use std::{ptr::NonNull, slice};

use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyBufferError, PyOverflowError, PyTypeError},
    prelude::*,
    types::{PyBytes, PyMemoryView, PyString},
};
use smallvec::SmallVec;

use crate::errors::invalid;

/// A key, prefix, or anything else that is short: text as UTF-8, or bytes.
pub struct Name(SmallVec<[u8; SHORT_MAX]>);

/// A name of that many bytes costs no memory of its own.
const SHORT_MAX: usize = 64;

impl Name {
    /// No bytes: the prefix of everything.
    pub fn empty() -> Self {
        Name(SmallVec::new())
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Name {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            if let Ok(text) = text.to_str() {
                return Ok(Name(text.as_bytes().into()));
            }
            // Names that are not UTF-8 are told with surrogates.
            let encoded = object.call_method1("encode", ("utf-8", "surrogateescape"))?;
            return Ok(Name(encoded.extract::<Vec<u8>>()?.into()));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Name(bytes.as_bytes().into()));
        }
        let given = Given::extract(object).map_err(|_| {
            PyTypeError::new_err("a name is of type str or bytes, or supports the buffer protocol")
        })?;
        Ok(Name(given.as_ref().into()))
    }
}

/// An offset, size, or number.
#[derive(Clone, Copy)]
pub struct Offset(pub u64);

impl Offset {
    /// As how many there are at most.
    pub fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Offset {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract::<u64>().map(Offset).map_err(|error| {
            let py = object.py();
            if error.is_instance_of::<PyOverflowError>(py) {
                return invalid(py, "an offset or size is out of bounds: it is a number from 0 to 2^63-1");
            }
            error
        })
    }
}

/// Bytes to be written, where Python has them. As long as this lives, its owner does not move or free them.
pub struct Given(Owner);

enum Owner {
    Bytes { _bytes: Py<PyBytes>, start: NonNull<u8>, len: usize },
    Buffer(PyUntypedBuffer),
}

// SAFETY: bytes never change, and a buffer that is held is neither moved nor freed; somebody who writes to one meanwhile is as
// careless as somebody who does so while a file is written, and what is stored is copied before it is looked at twice.
#[allow(unsafe_code, reason = "a pointer to what is owned beside it")]
unsafe impl Send for Given {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer to what is owned beside it")]
unsafe impl Sync for Given {}

impl Given {
    fn of_bytes(bytes: &Bound<'_, PyBytes>) -> Self {
        let slice = bytes.as_bytes();
        let (start, len) = (NonNull::from(slice).cast(), slice.len());
        Given(Owner::Bytes { _bytes: bytes.clone().unbind(), start, len })
    }
}

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        let (start, len) = match &self.0 {
            Owner::Bytes { start, len, .. } => (start.as_ptr(), *len),
            Owner::Buffer(buffer) => (buffer.buf_ptr().cast(), buffer.len_bytes()),
        };
        if len == 0 {
            return &[];
        }
        // SAFETY: the owner keeps them where they are, and they are contiguous.
        #[allow(unsafe_code, reason = "bytes of Python")]
        unsafe {
            slice::from_raw_parts(start, len)
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Given {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Given::of_bytes(&bytes));
        }
        // Scattered, as a column of an array is: in the order in which NumPy would write it. What has no dimensions, or says nothing of how it lies,
        // is small: it is copied, too.
        if let Some(buffer) = bytes_of(object)?.filter(PyUntypedBuffer::is_c_contiguous) {
            return Ok(Given(Owner::Buffer(buffer)));
        }
        let whole = PyMemoryView::from(&object)?.call_method0("tobytes")?;
        Ok(Given::of_bytes(whole.cast::<PyBytes>()?))
    }
}

/// The buffer of an object; `None` if it has no shape or strides, as an array without dimensions. What has Python's objects in it has addresses for
/// bytes, which mean nothing elsewhere and must not be written over.
fn bytes_of(object: Borrowed<'_, '_, PyAny>) -> PyResult<Option<PyUntypedBuffer>> {
    let buffer = match PyUntypedBuffer::get(&object) {
        Ok(buffer) => Some(buffer),
        Err(error) if error.is_instance_of::<PyBufferError>(object.py()) => None,
        Err(error) => return Err(error),
    };
    let has_objects = match &buffer {
        Some(buffer) => names_objects(buffer.format().to_bytes()),
        None => {
            names_objects(PyMemoryView::from(&object)?.getattr("format")?.extract::<String>()?.as_bytes())
        }
    };
    if has_objects {
        return Err(PyTypeError::new_err(
            "the buffer has Python objects in it, and not their values; convert it to a type of numbers or of bytes first",
        ));
    }
    Ok(buffer)
}

/// Whether a format has objects in it. The names of fields are between colons.
fn names_objects(format: &[u8]) -> bool {
    format.split(|byte| *byte == b':').step_by(2).any(|types| types.contains(&b'O'))
}

/// Where bytes are to be put.
pub struct Target(PyUntypedBuffer);

impl Target {
    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        let len = self.0.len_bytes();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the buffer is held, contiguous, and writable.
        #[allow(unsafe_code, reason = "bytes of Python")]
        unsafe {
            slice::from_raw_parts_mut(self.0.buf_ptr().cast(), len)
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Target {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let buffer = match bytes_of(object)? {
            Some(buffer) => buffer,
            // One without dimensions is one of bytes.
            None => PyUntypedBuffer::get(&PyMemoryView::from(&object)?.call_method1("cast", ("B",))?)?,
        };
        if buffer.readonly() {
            return Err(PyTypeError::new_err("the buffer cannot be written to"));
        }
        if !buffer.is_c_contiguous() {
            return Err(invalid(
                object.py(),
                "the buffer is not contiguous; read into one that is, then copy",
            ));
        }
        Ok(Target(buffer))
    }
}
