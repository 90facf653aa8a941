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
pub trait Face: 'static {
    /// What the caller gets for an operation: what it results in, or something to await.
    fn drive<F>(py: Python<'_>, future: F) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Value>> + 'static;
}

/// Waits on the calling thread, without the interpreter's lock.
pub struct Blocking;

/// Makes an awaitable.
pub struct Asyncio;

impl Face for Blocking {
    fn drive<F>(py: Python<'_>, future: F) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Value>> + 'static,
    {
        block_on(py, Movable(future))?.into_python(py)
    }
}

impl Face for Asyncio {
    fn drive<F>(py: Python<'_>, future: F) -> PyResult<Py<PyAny>>
    where
        F: Future<Output = Result<Value>> + 'static,
    {
        Ok(Py::new(py, Operation::new(Box::pin(Movable(future))))?.into_any())
    }
}

/// A future that may go to other threads.
///
/// The client's futures may, and everything else that an operation owns may. But some of them are of async closures that borrow, of
/// which the compiler cannot tell that they may whatever the lifetime is. As futures of operations own all that they need, nothing of
/// Python that is bound to a thread can be in one: it would have a lifetime.
pub struct Movable<F>(pub F);

// SAFETY: as above.
#[allow(unsafe_code, reason = "the compiler cannot tell of async closures that borrow")]
unsafe impl<F: 'static> Send for Movable<F> {}

impl<F: Future> Future for Movable<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned as the whole is, and never moved out.
        #[allow(unsafe_code, reason = "a pinned field")]
        let inner = unsafe { self.map_unchecked_mut(|movable| &mut movable.0) };
        inner.poll(context)
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
fn wait_a_while<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
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

/// Runs a future to its end, whatever signals come.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = wait_a_while(future.as_mut()) {
            return value;
        }
    }
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
