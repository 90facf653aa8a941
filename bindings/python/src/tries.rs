//! The tries of a run, for Python code that drives them itself.
//!
//! The client runs a closure until it commits. Here the closure hands its transaction out, and waits until it comes back: so a run can
//! be stopped at each try, and a with statement can be its body.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use parking_lot::Mutex;
use pyo3::prelude::*;
use tyr_client::{Error, Receipt, Result, Transaction as Given};

use crate::{
    errors::raise,
    face::{Asyncio, Blocking, Face, Movable},
    life::{Alive, LetGo},
    transaction::{AioTransaction, Running, Transaction},
    value::Value,
};

type Run = Pin<Box<dyn Future<Output = Result<Receipt>> + Send>>;

/// A run that stops at each of its tries.
pub struct Stopped {
    run: tokio::sync::Mutex<Option<Run>>,
    exchange: Arc<Exchange>,
    /// The transaction of the try that is under way.
    running: Mutex<Weak<Running>>,
    /// Whether its store was closed before it ended.
    was_cut_off: AtomicBool,
}

/// Where a run and its driver leave a transaction for one another.
#[derive(Default)]
struct Exchange {
    handed: Mutex<Option<Given>>,
    returned: Mutex<Option<(Given, Result<()>)>>,
}

impl Stopped {
    /// A run of a store.
    pub fn new(store: tyr_client::Store) -> Arc<Self> {
        let exchange = Arc::new(Exchange::default());
        let theirs = exchange.clone();
        let run = async move {
            let own = store.clone();
            let body = async move |transaction: &mut Given| {
                // What is put in its place costs nothing and does nothing.
                let given = std::mem::replace(transaction, own.begin());
                *theirs.handed.lock() = Some(given);
                let (given, result) = poll_fn(|_| match theirs.returned.lock().take() {
                    Some(returned) => Poll::Ready(returned),
                    // Whoever returns it polls.
                    None => Poll::Pending,
                })
                .await;
                *transaction = given;
                result
            };
            store.run(body).await.map(|committed| committed.receipt)
        };
        let run: Run = Box::pin(Movable(run));
        Arc::new(Stopped {
            run: tokio::sync::Mutex::new(Some(run)),
            exchange,
            running: Mutex::default(),
            was_cut_off: AtomicBool::new(false),
        })
    }

    fn was_cut_off(&self) -> bool {
        self.was_cut_off.load(Ordering::Acquire)
    }

    /// Why there is nothing left of it.
    #[cold]
    fn gone(&self) -> Error {
        match self.was_cut_off() {
            true => Error::unavailable("the store was closed before the run ended; open it again"),
            false => Error::invalid("the run has ended"),
        }
    }

    /// Goes on until the next try begins, or the run ends.
    async fn advance(&self) -> Result<Option<Receipt>> {
        let mut held = self.run.lock().await;
        let run = held.as_mut().ok_or_else(|| self.gone())?;
        let ended = poll_fn(|context| match run.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(result.map(Some)),
            Poll::Pending if self.exchange.handed.lock().is_some() => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        })
        .await;
        if !matches!(ended, Ok(None)) {
            *held = None;
        }
        ended
    }

    async fn begin(&self) -> Result<Arc<Running>> {
        loop {
            let handed = self.exchange.handed.lock().take();
            match handed {
                Some(transaction) => {
                    let running = Running::new(transaction);
                    *self.running.lock() = Arc::downgrade(&running);
                    if self.was_cut_off() {
                        self.let_go();
                        return Err(self.gone());
                    }
                    return Ok(running);
                }
                None if self.advance().await?.is_some() => return Err(self.gone()),
                None => {}
            }
        }
    }

    /// Ends a try. Results in whether the run is over: then its transaction is committed or, if the body failed, rolled back.
    async fn finish(&self, running: &Running, result: Result<()>) -> Result<bool> {
        const ENDED: &str =
            "a run commits its transaction by itself; end its body instead of the transaction";
        let Some(transaction) = running.take().await else {
            return match self.was_cut_off() {
                // It is the body's own.
                true if result.is_err() => Ok(true),
                true => Err(self.gone()),
                false => Err(Error::invalid(ENDED)),
            };
        };
        let has_failed = result.is_err();
        *self.exchange.returned.lock() = Some((transaction, result));
        match self.advance().await {
            Ok(Some(receipt)) => {
                running.committed(receipt);
                Ok(true)
            }
            Ok(None) => Ok(false),
            // It is the body's own.
            Err(_) if has_failed => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl LetGo for Stopped {
    fn let_go(&self) {
        // What is under way lets go when it fails.
        let run = self.run.try_lock().map(|mut held| held.take());
        if !matches!(run, Ok(None)) {
            self.was_cut_off.store(true, Ordering::Release);
        }
        drop(run);
        let running = self.running.lock().upgrade();
        if let Some(running) = running {
            running.let_go();
        }
        let (handed, returned) = (self.exchange.handed.lock().take(), self.exchange.returned.lock().take());
        drop((handed, returned));
    }
}

macro_rules! tries {
    ($class:ident, $transaction:ident, $face:ident) => {
        /// The tries of a run.
        #[pyclass(frozen, module = "tyr._tyr")]
        pub struct $class {
            stopped: Alive<Arc<Stopped>>,
        }

        impl $class {
            /// Of a run.
            pub fn new(stopped: Arc<Stopped>) -> Self {
                $class { stopped: Alive::new(stopped) }
            }

            fn usable(&self, py: Python<'_>) -> PyResult<Arc<Stopped>> {
                self.stopped.usable().cloned().map_err(|error| raise(py, &error))
            }
        }

        #[pymethods]
        impl $class {
            /// The transaction of the next try, when it is its time.
            fn begin(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let stopped = self.usable(py)?;
                $face::drive(py, async move {
                    stopped.begin().await.map(|running| Value::made($transaction::new(running)))
                })
            }

            /// Ends a try: well, with a conflict, or with another failure of its body. Results in whether it was the last one.
            #[pyo3(signature = (transaction, failure=None))]
            fn finish(
                &self,
                py: Python<'_>,
                transaction: &Bound<'_, $transaction>,
                failure: Option<&str>,
            ) -> PyResult<Py<PyAny>> {
                let (stopped, running) = (self.usable(py)?, transaction.get().usable(py)?);
                let result = match failure {
                    None => Ok(()),
                    Some("conflict") => Err(Error::conflict("met by the body")),
                    Some(_) => Err(Error::invalid("the body failed")),
                };
                $face::drive(py, async move { stopped.finish(&running, result).await.map(Value::Bool) })
            }
        }
    };
}

tries!(Tries, Transaction, Blocking);
tries!(AioTries, AioTransaction, Asyncio);
