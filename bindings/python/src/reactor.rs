//! What wakes an event loop when operations are ready: one descriptor for each loop, and one wake-up for however many of them.
//!
//! Futures are polled on the thread of their loop only. Who wakes them, a thread of the store, notes a number and writes to the
//! descriptor unless somebody has already: it needs no lock of the interpreter, and owns nothing of Python.

use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::Mutex;
use pyo3::{exceptions::PyRuntimeError, prelude::*, sync::PyOnceLock};
use rustix::event::{EventfdFlags, eventfd};
use tyr_client::{Error, Result};

use crate::{errors::raise, operation::Boxed, value::Value};

/// The operations of one event loop.
#[pyclass(frozen, module = "tyr._tyr")]
pub struct Reactor {
    event_loop: Py<PyAny>,
    /// What was woken.
    pub ready: Arc<Ready>,
    table: Arc<Table>,
}

/// Which operations were woken, and what tells the loop.
pub struct Ready {
    woken: Mutex<Vec<u64>>,
    event: OwnedFd,
    names: AtomicU64,
}

type Table = Mutex<HashMap<u64, Entry>>;

struct Entry {
    boxed: Boxed,
    waker: Waker,
    future: Py<PyAny>,
}

/// Names an operation that waits.
pub struct Waiting {
    id: u64,
    table: Arc<Table>,
}

impl Waiting {
    /// Drops its future.
    pub fn forget(&self) {
        let entry = self.table.lock().remove(&self.id);
        // Outside of the lock: it may own the last reference to anything.
        drop(entry);
    }
}

/// Wakes one operation.
struct Bell {
    id: u64,
    ready: Arc<Ready>,
    is_rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // One that was polled to its end is not found any more, so that nothing needs to be unrung but by a new waker.
        if self.is_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_first = {
            let mut woken = self.ready.woken.lock();
            woken.push(self.id);
            woken.len() == 1
        };
        if is_first {
            // Cannot fail but by overflow, and then it is set.
            let _ = rustix::io::write(&self.ready.event, &1u64.to_ne_bytes());
        }
    }
}

impl Ready {
    /// A new name.
    pub fn name(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    /// What wakes the operation of that name, once.
    pub fn wake(self: &Arc<Self>, id: u64) -> Arc<impl Wake + Send + Sync + 'static> {
        Arc::new(Bell { id, ready: self.clone(), is_rung: AtomicBool::new(false) })
    }

    fn take(&self) -> Vec<u64> {
        let mut count = [0; 8];
        // Before the list is taken: who comes after that writes again. Nothing to be read means that it was taken already.
        let _ = rustix::io::read(&self.event, &mut count);
        std::mem::take(&mut *self.woken.lock())
    }
}

impl Reactor {
    fn new(py: Python<'_>, event_loop: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|error| {
            let error =
                Error::unavailable(format!("cannot make a descriptor to wake the event loop: {error}"));
            raise(py, &error)
        })?;
        let descriptor = event.as_raw_fd();
        let ready = Ready { woken: Mutex::default(), event, names: AtomicU64::new(0) };
        let reactor = Reactor {
            event_loop: event_loop.clone().unbind(),
            ready: Arc::new(ready),
            table: Arc::default(),
        };
        let reactor = Py::new(py, reactor)?;
        event_loop.call_method1("add_reader", (descriptor, reactor.getattr(py, "_drain")?))?;
        Ok(reactor)
    }

    /// A future of the loop.
    pub fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.event_loop.bind(py).call_method0(pyo3::intern!(py, "create_future"))
    }

    /// Keeps an operation until it is ready, or forgotten.
    pub fn keep(&self, id: u64, boxed: Boxed, waker: Waker, future: Py<PyAny>) -> Arc<Waiting> {
        // It may have been woken before: then it is in the list, which is looked at later, on this thread.
        self.table.lock().insert(id, Entry { boxed, waker, future });
        Arc::new(Waiting { id, table: self.table.clone() })
    }

    fn poll(&self, py: Python<'_>, id: u64) -> PyResult<()> {
        let Some(mut entry) = self.table.lock().remove(&id) else { return Ok(()) };
        let future = entry.future.bind(py);
        if future.call_method0(pyo3::intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        // A bell rings once.
        entry.waker = Waker::from(self.ready.wake(id));
        let mut context = Context::from_waker(&entry.waker);
        match entry.boxed.as_mut().poll(&mut context) {
            Poll::Pending => {
                self.table.lock().insert(id, entry);
            }
            Poll::Ready(result) => answer(py, future, result)?,
        }
        Ok(())
    }
}

fn answer(py: Python<'_>, future: &Bound<'_, PyAny>, result: Result<Value>) -> PyResult<()> {
    let value = match result {
        Ok(value) => value.into_python(py),
        Err(error) => Err(raise(py, &error)),
    };
    match value {
        Ok(value) => future.call_method1(pyo3::intern!(py, "set_result"), (value,))?,
        Err(error) => future.call_method1(pyo3::intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

#[pymethods]
impl Reactor {
    /// Polls what was woken. Called by the loop.
    fn _drain(&self, py: Python<'_>) -> PyResult<()> {
        for id in self.ready.take() {
            self.poll(py, id)?;
        }
        Ok(())
    }
}

static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

thread_local! {
    /// Those of this thread's loops, the last one used last.
    static REACTORS: RefCell<Vec<Py<Reactor>>> = const { RefCell::new(Vec::new()) };
}

/// That of the running event loop.
pub fn running(py: Python<'_>) -> PyResult<Py<Reactor>> {
    let running = RUNNING_LOOP.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("asyncio")?.getattr("_get_running_loop")?.unbind())
    })?;
    let event_loop = running.bind(py).call0()?;
    if event_loop.is_none() {
        return Err(PyRuntimeError::new_err("no asyncio event loop is running"));
    }
    let known = REACTORS.with_borrow(|reactors| {
        let mut known = reactors.iter().rev();
        known.find(|reactor| reactor.get().event_loop.is(&event_loop)).map(|reactor| reactor.clone_ref(py))
    });
    if let Some(reactor) = known {
        return Ok(reactor);
    }
    let reactor = Reactor::new(py, &event_loop)?;
    let mut kept = REACTORS.take();
    // Loops that were closed are let go of.
    kept.retain(|reactor| {
        let closed = reactor.get().event_loop.bind(py).call_method0("is_closed");
        !closed.and_then(|closed| closed.is_truthy()).unwrap_or(true)
    });
    kept.push(reactor.clone_ref(py));
    REACTORS.set(kept);
    Ok(reactor)
}
