//! Transactions, in both faces.
//!
//! Calls of one transaction that overlap wait for one another.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use pyo3::prelude::*;
use tyr_client::{Conflict, Error, Outcome, Result};

use crate::{
    arguments::{Given, Name, Offset, Target},
    errors::raise,
    face::{Asyncio, Blocking, Face},
    keyspace::{AioKeyspace, Keyspace, range},
    life::{Alive, LetGo},
    number::{Check, Transform},
    value::{Receipt, Value},
};

/// A transaction until it ends, and what came of it.
#[derive(Default)]
pub struct Running {
    transaction: tokio::sync::Mutex<Option<tyr_client::Transaction>>,
    receipt: Mutex<Option<tyr_client::Receipt>>,
    /// Whether its store was closed before it ended.
    was_cut_off: AtomicBool,
}

impl Running {
    /// One that begins.
    pub fn new(transaction: tyr_client::Transaction) -> Arc<Self> {
        Arc::new(Running { transaction: tokio::sync::Mutex::new(Some(transaction)), ..Running::default() })
    }

    /// Takes it, to end it.
    pub async fn take(&self) -> Option<tyr_client::Transaction> {
        self.transaction.lock().await.take()
    }

    /// Notes that it was committed.
    pub fn committed(&self, receipt: tyr_client::Receipt) {
        *self.receipt.lock() = Some(receipt);
    }

    fn was_cut_off(&self) -> bool {
        self.was_cut_off.load(Ordering::Acquire)
    }

    /// Why there is nothing left of it.
    #[cold]
    fn gone(&self) -> Error {
        match self.was_cut_off() {
            true => Error::unavailable("the store was closed before the transaction ended; open it again"),
            false => Error::invalid("the transaction has ended; begin another one"),
        }
    }

    async fn commit(&self) -> Result<Value> {
        let transaction = self.take().await.ok_or_else(|| self.gone())?;
        match transaction.commit().await? {
            Outcome::Committed(receipt) => {
                self.committed(receipt.clone());
                Ok(Value::Receipt(receipt))
            }
            Outcome::Conflict(conflict) => Err(conflicted(&conflict)),
        }
    }

    /// Ends it as a with statement does. What the body ended is ended.
    async fn exit(&self, is_well: bool) -> Result<Value> {
        match is_well && (self.transaction.lock().await.is_some() || self.was_cut_off()) {
            true => self.commit().await.map(|_| Value::Bool(false)),
            false => {
                drop(self.take().await);
                Ok(Value::Bool(false))
            }
        }
    }
}

impl LetGo for Running {
    fn let_go(&self) {
        // What is under way lets go when it fails.
        if let Ok(mut held) = self.transaction.try_lock()
            && let Some(transaction) = held.take()
        {
            self.was_cut_off.store(true, Ordering::Release);
            drop(transaction);
        }
    }
}

/// The error of a commit that was refused.
#[cold]
pub fn conflicted(conflict: &Conflict) -> Error {
    Error::conflict(format!("{conflict}; run it again"))
}

/// Does something with a transaction when it is its turn.
macro_rules! within {
    ($face:ident, $self:ident, $py:ident, |$transaction:ident| $body:expr) => {{
        let running = $self.usable($py)?;
        $face::drive($py, async move {
            let mut held = running.transaction.lock().await;
            let $transaction = held.as_mut().ok_or_else(|| running.gone())?;
            $body
        })
    }};
}

macro_rules! transaction {
    ($class:ident, $pending:ident, $face:ident, $module:literal, $keyspace:ident, $doc:literal, { $($own:tt)* }) => {
        #[doc = $doc]
        #[pyclass(frozen, module = $module)]
        pub struct $class {
            running: Alive<Arc<Running>>,
        }

        impl $class {
            /// One that runs.
            pub fn new(running: Arc<Running>) -> Self {
                $class { running: Alive::new(running) }
            }

            /// What runs.
            pub fn usable(&self, py: Python<'_>) -> PyResult<Arc<Running>> {
                self.running.usable().cloned().map_err(|error| raise(py, &error))
            }
        }

        #[pymethods]
        impl $class {
            $($own)*

            /// What it resulted in, once it is committed; None before.
            #[getter]
            fn receipt(&self) -> Option<Receipt> {
                self.running.receipt.lock().clone().map(Receipt)
            }

            /// What finds out how this transaction ended, in case that its commit is not answered in time: to be taken before.
            fn pending(&self, py: Python<'_>) -> PyResult<$pending> {
                let running = self.usable(py)?;
                let held = running.transaction.try_lock();
                let held = held.map_err(|_| raise(py, &Error::invalid("another call of the transaction is under way")))?;
                let transaction = held.as_ref().ok_or_else(|| raise(py, &running.gone()))?;
                Ok($pending { pending: Alive::new(Arc::new(transaction.pending())) })
            }

            /// Reads the bytes of a blob from start to end, or to where it ends. All reads of a blob show the state that the first
            /// one saw, with the transaction's own changes.
            #[pyo3(
                signature = (keyspace, key, start=Offset(0), end=None),
                text_signature = "($self, keyspace, key, start=0, end=None)"
            )]
            fn read(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                start: Offset,
                end: Option<Offset>,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.read(&keyspace, key, range(start, end)).await.map(Value::Bytes)
                })
            }

            /// As read, but results in a memoryview of what was read, without a copy.
            #[pyo3(
                signature = (keyspace, key, start=Offset(0), end=None),
                text_signature = "($self, keyspace, key, start=0, end=None)"
            )]
            fn read_view(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                start: Offset,
                end: Option<Offset>,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.read(&keyspace, key, range(start, end)).await.map(Value::View)
                })
            }

            /// Reads bytes at an offset into a buffer, and results in how many there were.
            #[pyo3(
                signature = (keyspace, key, buffer, offset=Offset(0)),
                text_signature = "($self, keyspace, key, buffer, offset=0)"
            )]
            fn read_into(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                mut buffer: Target,
                offset: Offset,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    let read = transaction.read_into(&keyspace, key, offset.0, buffer.bytes()).await?;
                    Ok(Value::Number(read as u64))
                })
            }

            /// The state of a blob. Raises NotFound if it does not exist.
            fn stat(&self, py: Python<'_>, keyspace: &Bound<'_, $keyspace>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| transaction.stat(&keyspace, key).await.map(Value::Stat))
            }

            /// Whether a blob exists.
            fn exists(&self, py: Python<'_>, keyspace: &Bound<'_, $keyspace>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| transaction.exists(&keyspace, key).await.map(Value::Bool))
            }

            /// The value of an attribute, or None. Raises NotFound if the blob does not exist.
            fn attribute(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                name: String,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.attribute(&keyspace, key, &name).await.map(Value::MaybeBytes)
                })
            }

            /// Makes the commit a conflict unless the condition holds then. It is about the committed state of the blob; changes of
            /// this transaction do not count.
            fn check(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                check: PyRef<'_, Check>,
            ) -> PyResult<Py<PyAny>> {
                let (keyspace, check) = (keyspace.get().usable(py)?, check.0.clone());
                within!($face, self, py, |transaction| {
                    transaction.check(&keyspace, key, check).map(|()| Value::None)
                })
            }

            /// Creates an empty blob. Raises Exists if it exists.
            fn create(&self, py: Python<'_>, keyspace: &Bound<'_, $keyspace>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.create(&keyspace, key).await.map(|()| Value::None)
                })
            }

            /// Deletes a blob. Raises NotFound if it does not exist.
            fn delete(&self, py: Python<'_>, keyspace: &Bound<'_, $keyspace>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.delete(&keyspace, key).await.map(|()| Value::None)
                })
            }

            /// Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
            fn write(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                offset: Offset,
                data: Given,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.write(&keyspace, key, offset.0, data).await.map(|()| Value::None)
                })
            }

            /// Makes the bytes the whole content of a blob; keeps its attributes, and creates it if it does not exist.
            fn put(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                data: Given,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.put(&keyspace, key, data).await.map(|()| Value::None)
                })
            }

            /// Appends bytes, at an offset that the receipt tells for the slot.
            fn append(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                data: Given,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.append(&keyspace, key, data).await.map(Value::Slot)
                })
            }

            /// Makes the blob this long, cutting it or extending it with zeros. Raises NotFound if it does not exist.
            fn truncate(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                size: Offset,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.truncate(&keyspace, key, size.0).await.map(|()| Value::None)
                })
            }

            /// Leaves a hole from start to end: its bytes read as zeros and take no room. The size stays. Raises NotFound if there is no such blob.
            fn punch(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                start: Offset,
                end: Offset,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    transaction.punch(&keyspace, key, start.0..end.0).await.map(|()| Value::None)
                })
            }

            /// Sets an attribute, or unsets it if there is no value. Raises NotFound if the blob does not exist.
            fn set_attribute(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                name: String,
                value: Option<Given>,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = keyspace.get().usable(py)?;
                within!($face, self, py, |transaction| {
                    let value = value.as_ref().map(AsRef::as_ref);
                    transaction.set_attribute(&keyspace, key, &name, value).await.map(|()| Value::None)
                })
            }

            /// Transforms the number at an offset when the transaction commits; the receipt tells the old value for the slot.
            fn transform(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                offset: Offset,
                transform: PyRef<'_, Transform>,
            ) -> PyResult<Py<PyAny>> {
                let (keyspace, transform) = (keyspace.get().usable(py)?, transform.0);
                within!($face, self, py, |held| {
                    held.transform(&keyspace, key, offset.0, transform).await.map(Value::Slot)
                })
            }

            /// Forgets the transaction.
            fn rollback(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let running = self.usable(py)?;
                $face::drive(py, async move {
                    drop(running.take().await);
                    Ok(Value::None)
                })
            }

            /// Commits: everything that was done happens at one point in time, or nothing. Results in the receipt. Raises Conflict if
            /// somebody changed what was read or checked. Unavailable says what is known; pending finds out the rest.
            fn commit(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let running = self.usable(py)?;
                $face::drive(py, async move { running.commit().await })
            }
        }

        /// Finds out how a transaction ended whose commit was not answered in time.
        #[pyclass(frozen, module = $module)]
        pub struct $pending {
            pending: Alive<Arc<tyr_client::Pending>>,
        }

        #[pymethods]
        impl $pending {
            /// The receipt of the transaction, if it was committed. Raises Conflict if it was refused.
            fn outcome(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let pending = self.pending.usable().cloned().map_err(|error| raise(py, &error))?;
                $face::drive(py, async move {
                    match pending.outcome().await? {
                        Outcome::Committed(receipt) => Ok(Value::Receipt(receipt)),
                        Outcome::Conflict(conflict) => Err(conflicted(&conflict)),
                    }
                })
            }
        }
    };
}

transaction!(
    Transaction,
    Pending,
    Blocking,
    "tyr",
    Keyspace,
    r#"A transaction over any number of blobs.

As a context manager it commits at the end, and rolls back after an exception. Writes, appends, and transforms never conflict; only
what was read or checked does.

>>> events.put("new", b"content")
>>> with store.transaction() as transaction:
...     content = transaction.read(events, "new")
...     transaction.put(events, "done", content)
...     transaction.delete(events, "new")
>>> events.exists("new"), events.read("done")
(False, b'content')
"#,
    {
        fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
            slf
        }

        #[pyo3(signature = (kind=None, value=None, traceback=None))]
        fn __exit__(
            &self,
            py: Python<'_>,
            kind: Option<Bound<'_, PyAny>>,
            value: Option<Bound<'_, PyAny>>,
            traceback: Option<Bound<'_, PyAny>>,
        ) -> PyResult<Py<PyAny>> {
            let (running, is_well) = (self.usable(py)?, kind.is_none());
            drop((value, traceback));
            Blocking::drive(py, async move { running.exit(is_well).await })
        }
    }
);

transaction!(
    AioTransaction,
    AioPending,
    Asyncio,
    "tyr.aio",
    AioKeyspace,
    r#"A transaction over any number of blobs: the methods of tyr.Transaction, to be awaited.

>>> async def main():
...     store = await tyr.aio.open(directory)
...     files = await store.create_keyspace("async-files")
...     async with store.transaction() as transaction:
...         await transaction.put(files, "a", b"one")
...         await transaction.put(files, "b", b"two")
...     return await files.read_many(["a", "b"])
>>> asyncio.run(main())
[b'one', b'two']
"#,
    {
        fn __aenter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
            Asyncio::drive(py, async move { Ok(Value::Made(Box::new(move |_| Ok(slf.into_any())))) })
        }

        #[pyo3(signature = (kind=None, value=None, traceback=None))]
        fn __aexit__(
            &self,
            py: Python<'_>,
            kind: Option<Bound<'_, PyAny>>,
            value: Option<Bound<'_, PyAny>>,
            traceback: Option<Bound<'_, PyAny>>,
        ) -> PyResult<Py<PyAny>> {
            let (running, is_well) = (self.usable(py)?, kind.is_none());
            drop((value, traceback));
            Asyncio::drive(py, async move { running.exit(is_well).await })
        }
    }
);
