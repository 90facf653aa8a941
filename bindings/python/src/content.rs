//! Bytes that were read, for Python to look at where they are.

use std::{ffi::c_int, ptr::NonNull};

use pyo3::{exceptions::PyBufferError, ffi, prelude::*, types::PyMemoryView};

/// What was read. Supports the buffer protocol, so that `memoryview` and NumPy use it without a copy; it may be written to.
#[pyclass(frozen, module = "tyr")]
pub struct Content {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns the bytes, and only Python code that holds a view of them looks at them, as with a bytearray.
#[allow(unsafe_code, reason = "owned memory behind a pointer")]
unsafe impl Send for Content {}
// SAFETY: as above; nothing here reads or writes them.
#[allow(unsafe_code, reason = "owned memory behind a pointer")]
unsafe impl Sync for Content {}

impl Content {
    /// A view of the bytes.
    pub fn view(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Py<PyAny>> {
        let bytes = Box::leak(bytes.into_boxed_slice());
        let len = bytes.len();
        let content = Content { start: NonNull::from(bytes).cast(), len };
        let content = Py::new(py, content)?;
        Ok(PyMemoryView::from(content.bind(py))?.into_any().unbind())
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        let bytes = NonNull::slice_from_raw_parts(self.start, self.len);
        // SAFETY: this is the box that was leaked, and views keep this object alive, so none is left.
        #[allow(unsafe_code, reason = "takes the box back")]
        drop(unsafe { Box::from_raw(bytes.as_ptr()) });
    }
}

#[pymethods]
impl Content {
    fn __len__(&self) -> usize {
        self.len
    }

    #[allow(unsafe_code, reason = "the buffer protocol is one of pointers")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let content = slf.get();
        let len = ffi::Py_ssize_t::try_from(content.len)?;
        // SAFETY: the memory lives as long as the object, of which the view gets a reference.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), content.start.as_ptr().cast(), len, 0, flags)
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}
