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

    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.take() {
            State::New(future) => self.begin(py, future),
            State::Waiting { future, waiting } => {
                let asked = future.bind(py);
                if asked.call_method0("done")?.is_truthy()? {
                    return Err(PyStopIteration::new_err((asked.call_method0("result")?.unbind(),)));
                }
                // Whoever drives this does not wait for what it was told to wait for.
                *self.state.lock() = State::Waiting { future, waiting };
                Err(PyRuntimeError::new_err("the operation is awaited by something else than asyncio"))
            }
            State::Done => Err(PyRuntimeError::new_err("the operation was awaited already")),
        }
    }

    fn begin<'py>(&self, py: Python<'py>, mut boxed: Boxed) -> PyResult<Bound<'py, PyAny>> {
        // Most of what is in memory is ready at once, and needs neither a loop nor a waker.
        if let Poll::Ready(result) = boxed.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Err(ended(py, result));
        }
        let running = reactor::running(py)?;
        let reactor = running.get();
        let id = reactor.ready.name();
        let waker = Waker::from(reactor.ready.wake(id));
        // Again, for it to know whom to wake.
        match boxed.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => Err(ended(py, result)),
            Poll::Pending => {
                let future = reactor.future(py)?;
                future.setattr(pyo3::intern!(py, "_asyncio_future_blocking"), true)?;
                let waiting = reactor.keep(id, boxed, waker, future.clone().unbind());
                *self.state.lock() = State::Waiting { future: future.clone().unbind(), waiting };
                Ok(future)
            }
        }
    }
}

/// What ends an awaitable: its result in a StopIteration, or what went wrong.
fn ended(py: Python<'_>, result: Result<Value>) -> PyErr {
    match result.map_err(|error| raise(py, &error)).and_then(|value| value.into_python(py)) {
        // The bare value is the result, as long as it is no tuple, which none is: the exception need not be made.
        Ok(value) => PyStopIteration::new_err(value),
        Err(error) => error,
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

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py)
    }

    /// Goes on, as a coroutine does.
    fn send<'py>(&self, py: Python<'py>, _value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py)
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
