//! Keyspaces, and the operations on their blobs outside of transactions, in both faces.

use std::{ops::Bound as Limit, sync::Arc};

use pyo3::{prelude::*, types::PyDict};
use tyr_client::{ErrorKind, Outcome, Result, Seek};

use crate::{
    arguments::{Given, Name, Offset, Target},
    errors::raise,
    face::{Asyncio, Blocking, Face},
    life::Handle,
    number::Transform,
    store::{Opened, helper, seconds},
    transaction::conflicted,
    value::{KeyspaceSettings, Value},
};

/// What is read, from where it begins to where it ends.
pub type Range = (Limit<u64>, Limit<u64>);

/// A range as it is handed in.
pub fn range(start: Offset, end: Option<Offset>) -> Range {
    (Limit::Included(start.0), end.map_or(Limit::Unbounded, |end| Limit::Excluded(end.0)))
}

macro_rules! keyspace {
    ($class:ident, $face:ident, $module:literal, $mode:ident, $doc:literal) => {
        #[doc = $doc]
        #[pyclass(frozen, module = $module)]
        pub struct $class {
            /// Its handle.
            keyspace: Handle<Arc<tyr_client::Keyspace>>,
            name: String,
            /// Its store.
            pub store: Arc<Opened>,
        }

        impl $class {
            /// One of a store.
            pub fn new(keyspace: tyr_client::Keyspace, store: Arc<Opened>) -> Self {
                let (name, keyspace) = (keyspace.name().to_owned(), Handle::new(Arc::new(keyspace)));
                store.keep(keyspace.let_go());
                $class { keyspace, name, store }
            }

            /// Its handle, if it can be used.
            pub fn usable(&self, py: Python<'_>) -> PyResult<Arc<tyr_client::Keyspace>> {
                self.keyspace.usable().map_err(|error| raise(py, &error))
            }
        }

        #[pymethods]
        impl $class {
            /// Its name.
            #[getter]
            fn name(&self) -> &str {
                &self.name
            }

            /// Its settings as they are now, or in a cluster as they were last heard of.
            #[getter]
            fn settings(&self, py: Python<'_>) -> PyResult<KeyspaceSettings> {
                let keyspace = self.usable(py)?;
                Ok(KeyspaceSettings(py.detach(|| keyspace.settings())))
            }

            /// The same keyspace, whose calls by this handle wait so many seconds for a cluster.
            #[pyo3(name = "within")]
            fn with_deadline(&self, py: Python<'_>, deadline: f64) -> PyResult<Self> {
                let keyspace = self.usable(py)?.within(seconds(py, deadline)?);
                Ok(Self::new(keyspace, self.store.clone()))
            }

            /// Creates an empty blob. Raises Exists if it exists.
            fn create(&self, py: Python<'_>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.create(key).await.map(|()| Value::None) })
            }

            /// Deletes a blob. Raises NotFound if it does not exist.
            fn delete(&self, py: Python<'_>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.delete(key).await.map(|()| Value::None) })
            }

            /// Reads the bytes of a blob from start to end, or to where it ends. Raises NotFound if it does not exist.
            #[pyo3(signature = (key, start=Offset(0), end=None), text_signature = "($self, key, start=0, end=None)")]
            fn read(&self, py: Python<'_>, key: Name, start: Offset, end: Option<Offset>) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.read(key, range(start, end)).await.map(Value::Bytes) })
            }

            /// As read, but results in a memoryview of what was read: nothing is copied, and NumPy can use it as it is.
            #[pyo3(signature = (key, start=Offset(0), end=None), text_signature = "($self, key, start=0, end=None)")]
            fn read_view(&self, py: Python<'_>, key: Name, start: Offset, end: Option<Offset>) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.read(key, range(start, end)).await.map(Value::View) })
            }

            /// Reads bytes at an offset into a buffer, such as a NumPy array, and results in how many there were.
            #[pyo3(signature = (key, buffer, offset=Offset(0)), text_signature = "($self, key, buffer, offset=0)")]
            fn read_into(&self, py: Python<'_>, key: Name, mut buffer: Target, offset: Offset) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move {
                    let read = keyspace.read_into(key, offset.0, buffer.bytes()).await?;
                    Ok(Value::Number(read as u64))
                })
            }

            /// Reads many whole blobs, each as of some moment during the call; None for one that does not exist.
            fn read_many(&self, py: Python<'_>, keys: Vec<Name>) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, read_many(keyspace, keys))
            }

            /// Writes bytes at an offset; creates the blob if it does not exist, and extends it as needed.
            fn write(&self, py: Python<'_>, key: Name, offset: Offset, data: Given) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.write(key, offset.0, data).await.map(|()| Value::None) })
            }

            /// Makes the bytes the whole content of a blob; keeps its attributes, and creates it if it does not exist.
            fn put(&self, py: Python<'_>, key: Name, data: Given) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.put(key, data).await.map(|()| Value::None) })
            }

            /// Puts many blobs in one transaction: pairs of keys and bytes, or a dictionary. All of it happens, or nothing.
            fn put_many(&self, py: Python<'_>, items: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                self.usable(py)?;
                let items = match items.cast::<PyDict>() {
                    Ok(items) => items.items().extract::<Vec<(Name, Given)>>()?,
                    Err(_) => items.try_iter()?.map(|item| item?.extract()).collect::<PyResult<_>>()?,
                };
                let store = self.store.$mode.usable().map_err(|error| raise(py, &error))?;
                let keyspace = self.usable(py)?;
                $face::drive(py, put_many(store, keyspace, items))
            }

            /// Appends bytes and results in their offset; creates the blob if it does not exist.
            fn append(&self, py: Python<'_>, key: Name, data: Given) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.append(key, data).await.map(Value::Number) })
            }

            /// Makes the blob this long, cutting it or extending it with zeros. Raises NotFound if it does not exist.
            fn truncate(&self, py: Python<'_>, key: Name, size: Offset) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.truncate(key, size.0).await.map(|()| Value::None) })
            }

            /// Leaves a hole from start to end: its bytes read as zeros and take no room. The size stays. Raises NotFound if there is no such blob.
            fn punch(&self, py: Python<'_>, key: Name, start: Offset, end: Offset) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.punch(key, start.0..end.0).await.map(|()| Value::None) })
            }

            /// Where at or after an offset the next data begins, or None. Raises NotFound if there is no such blob.
            #[pyo3(signature = (key, offset=Offset(0)), text_signature = "($self, key, offset=0)")]
            fn seek_data(&self, py: Python<'_>, key: Name, offset: Offset) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move {
                    keyspace.seek(key, Seek::Data, offset.0).await.map(Value::MaybeNumber)
                })
            }

            /// Where at or after an offset the next hole begins, the end of the blob at the latest; None if the offset is there or after it.
            /// Raises NotFound if there is no such blob.
            #[pyo3(signature = (key, offset=Offset(0)), text_signature = "($self, key, offset=0)")]
            fn seek_hole(&self, py: Python<'_>, key: Name, offset: Offset) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move {
                    keyspace.seek(key, Seek::Hole, offset.0).await.map(Value::MaybeNumber)
                })
            }

            /// The state of a blob. Raises NotFound if it does not exist.
            fn stat(&self, py: Python<'_>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.stat(key).await.map(Value::Stat) })
            }

            /// The states of many blobs, each as of some moment during the call; None for one that does not exist.
            fn stats(&self, py: Python<'_>, keys: Vec<Name>) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.stats(&keys).await.map(Value::Stats) })
            }

            /// Whether a blob exists.
            fn exists(&self, py: Python<'_>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.exists(key).await.map(Value::Bool) })
            }

            /// The value of an attribute, or None. Raises NotFound if the blob does not exist.
            fn attribute(&self, py: Python<'_>, key: Name, name: String) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.attribute(key, &name).await.map(Value::MaybeBytes) })
            }

            /// Sets an attribute, or unsets it if there is no value. Raises NotFound if the blob does not exist.
            fn set_attribute(
                &self,
                py: Python<'_>,
                key: Name,
                name: String,
                value: Option<Given>,
            ) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move {
                    let value = value.as_ref().map(AsRef::as_ref);
                    keyspace.set_attribute(key, &name, value).await.map(|()| Value::None)
                })
            }

            /// Transforms the number at an offset and results in its old value. Never conflicts. Creates the blob if it does not exist.
            fn transform(
                &self,
                py: Python<'_>,
                key: Name,
                offset: Offset,
                transform: PyRef<'_, Transform>,
            ) -> PyResult<Py<PyAny>> {
                let (keyspace, transform) = (self.usable(py)?, transform.0);
                $face::drive(py, async move {
                    keyspace.transform(key, offset.0, transform).await.map(Value::Operand)
                })
            }

            /// State and content of a blob, of one version. Raises NotFound if it does not exist.
            fn get(&self, py: Python<'_>, key: Name) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move { keyspace.get(key).await.map(Value::Blob) })
            }

            /// Up to so many blobs whose keys have the prefix, in the order of their keys, beginning after a key. Fewer mean that
            /// there are no more. Not a snapshot: every blob that exists throughout is listed once, others may be.
            #[pyo3(
                signature = (prefix=Name::empty(), after=None, limit=Offset(1000)),
                text_signature = "($self, prefix=b'', after=None, limit=1000)"
            )]
            fn scan(&self, py: Python<'_>, prefix: Name, after: Option<Name>, limit: Offset) -> PyResult<Py<PyAny>> {
                let keyspace = self.usable(py)?;
                $face::drive(py, async move {
                    let after = after.as_ref().map(AsRef::as_ref);
                    keyspace.scan(prefix, after, limit.count()).await.map(Value::Entries)
                })
            }

            /// Iterates over all blobs whose keys have the prefix, page by page.
            #[pyo3(signature = (prefix=None, after=None))]
            fn scan_all<'py>(
                slf: Bound<'py, Self>,
                prefix: Option<Bound<'py, PyAny>>,
                after: Option<Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "scan_all")?.call1((slf, prefix, after))
            }

            /// A transaction whose operations are on this keyspace, for a with statement: commits at its end, and rolls back after an
            /// exception. Raises Conflict if somebody changed what it has read; see retrying.
            fn transaction<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "transaction_of")?.call1((slf,))
            }

            /// The tries of a transaction on this keyspace, until one commits: each is to be used by a with statement.
            fn retrying<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "retrying_of")?.call1((slf,))
            }

            /// Calls a function with a transaction on this keyspace until it commits, and results in what the function returns.
            fn run<'py>(slf: Bound<'py, Self>, body: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "run_of")?.call1((slf, body))
            }

            /// The store that it belongs to.
            #[getter]
            fn store<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                crate::store::python_store::<$face>(slf.py(), slf.get().store.clone())
            }

            fn __repr__(&self) -> String {
                format!("<{}.Keyspace '{}'>", $module, self.name)
            }
        }
    };
}

keyspace!(
    Keyspace,
    Blocking,
    "tyr",
    blocking,
    r#"An isolated namespace of blobs with its own settings.

Every operation is atomic by itself, and durable when it returns unless the keyspace is of durability "memory". Keys are text
or bytes; data is anything that supports the buffer protocol.

>>> events.put("log", b"first")
>>> events.append("log", b" second")
5
>>> events.read("log", 6)
b'second'
>>> import numpy as np
>>> events.put("array", np.arange(4.0))
>>> np.frombuffer(events.read_view("array"))
array([0., 1., 2., 3.])
>>> events.put_many({"log/1": b"one", "log/2": b"two"})
>>> [entry.name for entry in events.scan("log/")]
['log/1', 'log/2']
>>> events.set_attribute("log", "type", b"text")
>>> events.stat("log").attributes
{'type': b'text'}
"#
);

keyspace!(
    AioKeyspace,
    Asyncio,
    "tyr.aio",
    asynchronous,
    r#"An isolated namespace of blobs: the methods of tyr.Keyspace, to be awaited.

>>> async def main():
...     events = await (await tyr.aio.open(directory)).create_keyspace("async-events")
...     await asyncio.gather(events.put("a", b"one"), events.put("b", b"two"))
...     return await events.read_many(["a", "b", "c"])
>>> asyncio.run(main())
[b'one', b'two', None]
"#
);

/// Blobs one after the other; in a cluster several are on their way at once.
async fn read_many(keyspace: Arc<tyr_client::Keyspace>, keys: Vec<Name>) -> Result<Value> {
    let keyspace = &*keyspace;
    let mut all = Vec::with_capacity(keys.len());
    for keys in keys.chunks(AT_ONCE_MAX) {
        let reads = keys.iter().map(|key| Box::pin(maybe_read(keyspace, key)));
        for read in join(reads.collect()).await {
            all.push(read?);
        }
    }
    Ok(Value::Many(all))
}

async fn maybe_read(keyspace: &tyr_client::Keyspace, key: &Name) -> Result<Option<Vec<u8>>> {
    match keyspace.read(key, ..).await {
        Ok(bytes) => Ok(Some(bytes)),
        // Unless it is the keyspace that is gone.
        Err(error) if error.kind() == ErrorKind::NotFound && !keyspace.exists(key).await? => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for all of a few futures.
async fn join<T>(mut futures: Vec<std::pin::Pin<Box<impl Future<Output = T>>>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        let mut is_pending = false;
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *result = Some(value),
                    std::task::Poll::Pending => is_pending = true,
                }
            }
        }
        match is_pending {
            true => std::task::Poll::Pending,
            false => std::task::Poll::Ready(results.drain(..).flatten().collect()),
        }
    })
    .await
}

/// Nothing is read, so that it cannot conflict.
async fn put_many(
    store: tyr_client::Store,
    keyspace: Arc<tyr_client::Keyspace>,
    items: Vec<(Name, Given)>,
) -> Result<Value> {
    let mut transaction = store.begin();
    for (key, data) in &items {
        transaction.put(&keyspace, key, data).await?;
    }
    match transaction.commit().await? {
        Outcome::Committed(_) => Ok(Value::None),
        Outcome::Conflict(conflict) => Err(conflicted(&conflict)),
    }
}

/// As many reads are on their way at once.
const AT_ONCE_MAX: usize = 64;
