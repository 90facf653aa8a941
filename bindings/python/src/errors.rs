//! What goes wrong, as exceptions: one class for each kind, defined in `tyr.errors`.

use pyo3::{prelude::*, sync::PyOnceLock, types::PyType};
use tyr_client::{Error, ErrorKind};

/// The classes in the order of their kinds.
static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();

fn classes(py: Python<'_>) -> PyResult<&Vec<Py<PyType>>> {
    CLASSES.get_or_try_init(py, || {
        let by_kind = py.import("tyr.errors")?.getattr("BY_KIND")?;
        let class = |kind: &ErrorKind| Ok(by_kind.get_item(kind.name())?.cast_into::<PyType>()?.unbind());
        ErrorKind::ALL.iter().map(class).collect()
    })
}

/// The exception for an error.
#[cold]
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    match classes(py) {
        Ok(classes) => {
            let class = classes[error.kind() as usize - 1].bind(py);
            PyErr::from_type(class.clone(), (error.message().to_owned(),))
        }
        Err(failed) => failed,
    }
}

/// An exception of kind *invalid*.
#[cold]
pub fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raise(py, &Error::invalid(message.into()))
}
