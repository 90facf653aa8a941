//! How a caller waits for an operation: on its thread, or by awaiting.

use std::{
    cell::RefCell,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use pyo3::prelude::*;
use tyr_client::Result;

use crate::{errors::raise, life::UnderWay, operation::Operation, value::Value};

/// A way of waiting.
pub trait Face {
    /// What the caller gets for an operation: what it results in, or something to await.
    fn drive<F>(py: Python<'_>, future: F) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Value>> + Send + 'static;
}

/// Waits on the calling thread, without the interpreter's lock.
pub struct Blocking;

/// Makes an awaitable.
pub struct Asyncio;

impl Face for Blocking {
    fn drive<F>(py: Python<'_>, future: F) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Value>> + Send + 'static,
    {
        block_on(py, future)?.into_python(py)
    }
}

impl Face for Asyncio {
    fn drive<F>(py: Python<'_>, future: F) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Value>> + Send + 'static,
    {
        Ok(Py::new(py, Operation::new(Box::pin(future)))?.into_any())
    }
}

/// Runs a future to its end. Signals are looked at again and again while it waits: if a handler raises, the future is dropped, so that
/// what it was to do happens as a whole or not at all.
pub fn block_on<T: Send>(py: Python<'_>, future: impl Future<Output = Result<T>> + Send) -> PyResult<T> {
    let mut future = pin!(future);
    loop {
        let polled = py.detach(|| {
            let _under_way = UnderWay::new();
            wait_a_while(future.as_mut())
        });
        match polled {
            Poll::Ready(result) => return result.map_err(|error| raise(py, &error)),
            Poll::Pending => py.check_signals()?,
        }
    }
}

/// Polls until the future is ready or it is time to look at signals.
fn wait_a_while<T>(mut future: Pin<&mut (impl Future<Output = T> + Send)>) -> Poll<T> {
    PARKED.with_borrow(|waker| {
        let mut context = Context::from_waker(waker);
        let mut is_late = false;
        loop {
            let polled = future.as_mut().poll(&mut context);
            if polled.is_ready() || is_late {
                return polled;
            }
            thread::park_timeout(SIGNALS_INTERVAL);
            // Whatever ended it, one more poll tells; then signals are looked at, which costs little once in a wait.
            is_late = true;
        }
    })
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static PARKED: RefCell<Waker> = RefCell::new(Waker::from(Arc::new(Unpark(thread::current()))));
}

/// Soon enough for who presses ctrl-C.
const SIGNALS_INTERVAL: Duration = Duration::from_millis(50);
