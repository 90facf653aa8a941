//! An operation as something to await: it does nothing before, and all or nothing when it is cancelled.
//!
//! It behaves like a coroutine, so that it can be awaited, gathered, and made a task. What is ready at once never goes through the event
//! loop.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use pyo3::{
    exceptions::{PyRuntimeError, PyRuntimeWarning, PyStopIteration},
    prelude::*,
    types::{PyTuple, PyType},
};
use tyr_client::Result;

use crate::{errors::raise, reactor, value::Value};

/// A future of any operation.
pub type Boxed = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;

/// What an operation of the asyncio API returns: await it, once.
#[pyclass(frozen, module = "tyr.aio")]
pub struct Operation {
    state: Mutex<State>,
}

enum State {
    New(Boxed),
    Waiting { future: Py<PyAny>, waiting: Arc<reactor::Waiting> },
    Done,
}

impl Operation {
    /// One that has not begun.
    pub fn new(future: Boxed) -> Self {
        Operation { state: Mutex::new(State::New(future)) }
    }

    fn take(&self) -> State {
        mem::replace(&mut *self.state.lock(), State::Done)
    }

    fn step<'py>(&self, py: Python<'py>) -> PyResult<Step<'py>> {
        match self.take() {
            State::New(future) => self.begin(py, future),
            State::Waiting { future, waiting } => {
                let asked = future.bind(py);
                if asked.call_method0("done")?.is_truthy()? {
                    return Ok(Step::Ended(asked.call_method0("result")?.unbind()));
                }
                // Whoever drives this does not wait for what it was told to wait for.
                *self.state.lock() = State::Waiting { future, waiting };
                Err(PyRuntimeError::new_err("the operation is awaited by something else than asyncio"))
            }
            State::Done => Err(PyRuntimeError::new_err("the operation was awaited already")),
        }
    }

    fn begin<'py>(&self, py: Python<'py>, mut boxed: Boxed) -> PyResult<Step<'py>> {
        // Most of what is in memory is ready at once, and needs neither a loop nor a waker.
        if let Poll::Ready(result) = boxed.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return ended(py, result);
        }
        let running = reactor::running(py)?;
        let reactor = running.get();
        let id = reactor.ready.name();
        let waker = Waker::from(reactor.ready.wake(id));
        // Again, for it to know whom to wake.
        match boxed.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => ended(py, result),
            Poll::Pending => {
                let future = reactor.future(py)?;
                future.setattr(pyo3::intern!(py, "_asyncio_future_blocking"), true)?;
                let waiting = reactor.keep(id, boxed, waker, future.clone().unbind());
                *self.state.lock() = State::Waiting { future: future.clone().unbind(), waiting };
                Ok(Step::Waits(future))
            }
        }
    }
}

/// What an awaitable does next.
enum Step<'py> {
    /// It waits for a future of the loop.
    Waits(Bound<'py, PyAny>),
    /// It has ended with this, which is no tuple and no exception.
    Ended(Py<PyAny>),
}

fn ended<'py>(py: Python<'py>, result: Result<Value>) -> PyResult<Step<'py>> {
    match result {
        Ok(value) => value.into_python(py).map(Step::Ended),
        Err(error) => Err(raise(py, &error)),
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        match self.take() {
            State::New(future) => {
                drop(future);
                let warned = Python::try_attach(|py| {
                    let category = py.get_type::<PyRuntimeWarning>();
                    PyErr::warn(
                        py,
                        category.as_any(),
                        c"an operation of tyr was never awaited, and did nothing",
                        1,
                    )
                });
                // A warning that is made an error has nowhere to go from here.
                drop(warned);
            }
            State::Waiting { waiting, .. } => waiting.forget(),
            State::Done => {}
        }
    }
}

#[pymethods]
impl Operation {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// None means that it has ended, with a StopIteration that is set already.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.step(py)? {
            Step::Waits(future) => Ok(Some(future)),
            Step::Ended(value) => {
                // SAFETY: both are objects that are alive. Setting the bare value spares making the exception, which nobody looks at.
                #[allow(unsafe_code, reason = "no safe way to end an iterator with a value is as quick")]
                let () =
                    unsafe { pyo3::ffi::PyErr_SetObject(pyo3::ffi::PyExc_StopIteration, value.as_ptr()) };
                Ok(None)
            }
        }
    }

    /// Goes on, as a coroutine does.
    fn send<'py>(&self, py: Python<'py>, _value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.step(py)? {
            Step::Waits(future) => Ok(future),
            Step::Ended(value) => Err(PyStopIteration::new_err((value,))),
        }
    }

    /// Ends it with an exception, as a coroutine does: what it was to do happens as a whole or not at all.
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.close();
        let exception = match (kind.cast::<PyType>(), value) {
            (Ok(class), Some(value)) if !value.is_instance(class)? => class.call1((value,))?,
            (Ok(_), Some(value)) => value,
            (Ok(class), None) => class.call0()?,
            (Err(_), _) => kind,
        };
        if let Some(traceback) = traceback {
            exception.call_method1("with_traceback", PyTuple::new(py, [traceback])?)?;
        }
        Err(PyErr::from_value(exception))
    }

    /// Ends it.
    fn close(&self) {
        if let State::Waiting { waiting, .. } = self.take() {
            waiting.forget();
        }
    }
}
