//! Snapshots, in both faces.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tyr_client::Error;

use crate::{
    arguments::{Name, Offset, Target},
    errors::raise,
    face::{Asyncio, Blocking, Face},
    keyspace::{AioKeyspace, Keyspace, range},
    life::Handle,
    store::{Opened, helper},
    value::Value,
};

/// A snapshot until it is let go of.
type Held = Handle<Arc<Mutex<Option<Arc<tyr_client::Snapshot>>>>>;

fn usable(py: Python<'_>, held: &Held) -> PyResult<Arc<tyr_client::Snapshot>> {
    let snapshot = held.usable().and_then(|snapshot| {
        snapshot.lock().clone().ok_or_else(|| Error::invalid("the snapshot is closed; take another one"))
    });
    snapshot.map_err(|error| raise(py, &error))
}

macro_rules! snapshot {
    ($class:ident, $face:ident, $module:literal, $keyspace:ident, $doc:literal, { $($own:tt)* }) => {
        #[doc = $doc]
        #[pyclass(frozen, module = $module)]
        pub struct $class {
            snapshot: Held,
        }

        impl $class {
            /// Of what was taken.
            pub fn new(snapshot: tyr_client::Snapshot, store: &Opened) -> Self {
                let snapshot = Handle::new(Arc::new(Mutex::new(Some(Arc::new(snapshot)))));
                store.keep(snapshot.let_go());
                $class { snapshot }
            }

            fn both(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
            ) -> PyResult<(Arc<tyr_client::Snapshot>, Arc<tyr_client::Keyspace>)> {
                Ok((usable(py, &self.snapshot)?, keyspace.get().usable(py)?))
            }
        }

        #[pymethods]
        impl $class {
            $($own)*

            /// The number of the newest transaction that it shows; 0 in a cluster.
            #[getter]
            fn number(&self, py: Python<'_>) -> PyResult<u64> {
                Ok(usable(py, &self.snapshot)?.number().to_u64())
            }

            /// Lets go of what it shows.
            fn close(&self, py: Python<'_>) {
                if let Ok(snapshot) = self.snapshot.usable() {
                    let snapshot = snapshot.lock().take();
                    py.detach(|| drop(snapshot));
                }
            }

            /// Reads the bytes of a blob; see Keyspace.read.
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
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move {
                    snapshot.read(&keyspace, key, range(start, end)).await.map(Value::Bytes)
                })
            }

            /// Reads the bytes of a blob without a copy; see Keyspace.read_view.
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
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move {
                    snapshot.read(&keyspace, key, range(start, end)).await.map(Value::View)
                })
            }

            /// Reads bytes at an offset into a buffer; see Keyspace.read_into.
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
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move {
                    let read = snapshot.read_into(&keyspace, key, offset.0, buffer.bytes()).await?;
                    Ok(Value::Number(read as u64))
                })
            }

            /// The state of a blob; see Keyspace.stat.
            fn stat(&self, py: Python<'_>, keyspace: &Bound<'_, $keyspace>, key: Name) -> PyResult<Py<PyAny>> {
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move { snapshot.stat(&keyspace, key).await.map(Value::Stat) })
            }

            /// Whether a blob existed.
            fn exists(&self, py: Python<'_>, keyspace: &Bound<'_, $keyspace>, key: Name) -> PyResult<Py<PyAny>> {
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move { snapshot.exists(&keyspace, key).await.map(Value::Bool) })
            }

            /// The value of an attribute; see Keyspace.attribute.
            fn attribute(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                key: Name,
                name: String,
            ) -> PyResult<Py<PyAny>> {
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move {
                    snapshot.attribute(&keyspace, key, &name).await.map(Value::MaybeBytes)
                })
            }

            /// State and content of a blob; see Keyspace.get.
            fn get(&self, py: Python<'_>, keyspace: &Bound<'_, $keyspace>, key: Name) -> PyResult<Py<PyAny>> {
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move { snapshot.get(&keyspace, key).await.map(Value::Blob) })
            }

            /// Blobs in the order of their keys, exactly those that existed; see Keyspace.scan.
            #[pyo3(
                signature = (keyspace, prefix=Name::empty(), after=None, limit=Offset(1000)),
                text_signature = "($self, keyspace, prefix=b'', after=None, limit=1000)"
            )]
            fn scan(
                &self,
                py: Python<'_>,
                keyspace: &Bound<'_, $keyspace>,
                prefix: Name,
                after: Option<Name>,
                limit: Offset,
            ) -> PyResult<Py<PyAny>> {
                let (snapshot, keyspace) = self.both(py, keyspace)?;
                $face::drive(py, async move {
                    let after = after.as_ref().map(AsRef::as_ref);
                    snapshot.scan(&keyspace, prefix, after, limit.count()).await.map(Value::Entries)
                })
            }

            /// Iterates over all blobs whose keys have the prefix, page by page.
            #[pyo3(signature = (keyspace, prefix=None, after=None))]
            fn scan_all<'py>(
                slf: Bound<'py, Self>,
                keyspace: Bound<'py, $keyspace>,
                prefix: Option<Bound<'py, PyAny>>,
                after: Option<Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "scan_all_of")?.call1((slf, keyspace, prefix, after))
            }
        }
    };
}

snapshot!(
    Snapshot,
    Blocking,
    "tyr",
    Keyspace,
    r#"All blobs of some keyspaces as they were at one point.

Writers go on meanwhile; what they replace is kept until the snapshot is closed.

>>> events.put("log", b"before")
>>> with store.snapshot(events) as snapshot:
...     events.put("log", b"after")
...     snapshot.read(events, "log"), events.read("log")
(b'before', b'after')
"#,
    {
        fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
            slf
        }

        #[pyo3(signature = (*_exception))]
        fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> bool {
            self.close(py);
            false
        }
    }
);

snapshot!(
    AioSnapshot,
    Asyncio,
    "tyr.aio",
    AioKeyspace,
    r#"All blobs of some keyspaces as they were at one point: the methods of tyr.Snapshot, to be awaited."#,
    {
        fn __aenter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
            Asyncio::drive(py, async move { Ok(Value::Made(Box::new(move |_| Ok(slf.into_any())))) })
        }

        #[pyo3(signature = (*_exception))]
        fn __aexit__(
            &self,
            py: Python<'_>,
            _exception: &Bound<'_, pyo3::types::PyTuple>,
        ) -> PyResult<Py<PyAny>> {
            self.close(py);
            Asyncio::drive(py, async move { Ok(Value::Bool(false)) })
        }
    }
);
