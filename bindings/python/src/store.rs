//! Open stores, in both faces. One that is open is of use in both.

use std::{
    any::TypeId,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyTuple};
use tyr_client::{Error, Result};

use crate::{
    arguments::Offset,
    errors::{invalid, raise},
    face::{Asyncio, Blocking, Face, wait},
    keyspace::{AioKeyspace, Keyspace},
    life::{Handle, LetGo, remember},
    snapshot::{AioSnapshot, Snapshot},
    transaction::{AioTransaction, Running, Transaction},
    tries::{AioTries, Stopped, Tries},
    value::{Figure, Value, settings},
};

/// An open store, as each face wants it.
pub struct Opened {
    /// What does everything when it is first polled, if it is in a directory.
    pub blocking: Handle<tyr_client::Store>,
    /// What never blocks.
    pub asynchronous: Handle<tyr_client::Store>,
    place: Option<PathBuf>,
    is_cluster: bool,
    /// What lets go of it at the end, if it is what was opened.
    handles: Mutex<Vec<Weak<dyn LetGo>>>,
    /// What was opened, if this is the same store within another time: they are closed together, and that lives as long as this.
    first: Option<Arc<Opened>>,
}

impl Opened {
    /// What was opened.
    pub fn new(store: tyr_client::Store, place: Option<PathBuf>) -> Arc<Self> {
        let opened = Arc::new(Self::of(store, place, None));
        remember(Arc::downgrade(&opened));
        opened
    }

    /// The same store by another handle.
    fn beside(self: &Arc<Self>, store: tyr_client::Store) -> Arc<Self> {
        let first = self.first.as_ref().unwrap_or(self).clone();
        Arc::new(Self::of(store, self.place.clone(), Some(first)))
    }

    fn of(store: tyr_client::Store, place: Option<PathBuf>, first: Option<Arc<Opened>>) -> Self {
        let blocking = tyr_client::blocking::Store::from(store.clone()).into_ready();
        let is_cluster = store.is_cluster();
        let (blocking, asynchronous) = (Handle::new(blocking), Handle::new(store));
        let opened = Opened { blocking, asynchronous, place, is_cluster, handles: Mutex::default(), first };
        opened.keep(opened.blocking.let_go());
        opened.keep(opened.asynchronous.let_go());
        opened
    }

    fn first(&self) -> &Self {
        self.first.as_deref().unwrap_or(self)
    }

    /// Has something let go of the store when it is closed.
    pub fn keep(&self, handle: Weak<dyn LetGo>) {
        let mut handles = self.first().handles.lock();
        if handles.len().is_power_of_two() {
            handles.retain(|handle| handle.strong_count() > 0);
        }
        handles.push(handle);
    }

    /// Has everything let go of the store.
    pub fn let_go(&self) {
        let handles = std::mem::take(&mut *self.first().handles.lock());
        for handle in handles.iter().filter_map(Weak::upgrade) {
            handle.let_go();
        }
    }

    async fn close(&self, store: tyr_client::Store) -> Result<()> {
        let closed = store.close().await;
        self.let_go();
        closed
    }

    /// Closes it, because the interpreter ends.
    pub fn end(&self) {
        // Whether it was closed already, or cannot be: nobody is left to be told.
        if let Ok(store) = self.blocking.even_at_the_end() {
            let _ = wait(store.close());
        }
    }
}

/// A function of `tyr._run` for a face.
pub fn helper<'py, F: Face>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let is_aio = TypeId::of::<F>() == TypeId::of::<Asyncio>();
    let module = py.import(if is_aio { "tyr._run_aio" } else { "tyr._run" })?;
    module.getattr(name)
}

/// A store for Python in a face.
pub fn python_store<F: Face>(py: Python<'_>, opened: Arc<Opened>) -> PyResult<Bound<'_, PyAny>> {
    match TypeId::of::<F>() == TypeId::of::<Asyncio>() {
        true => Ok(Bound::new(py, AioStore::new(opened))?.into_any()),
        false => Ok(Bound::new(py, Store::new(opened))?.into_any()),
    }
}

/// A time to wait.
pub fn seconds(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(py, "a time is a number of seconds, neither below zero nor infinite"))
}

/// Does on a thread of its own what would make the caller wait for a cluster.
async fn aside<T: Send + 'static>(
    store: tyr_client::Store,
    ask: impl FnOnce(&tyr_client::Store) -> T + Send + 'static,
) -> Result<T> {
    if !store.is_cluster() {
        return Ok(ask(&store));
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let asking = move || {
        // Nobody may wait any more.
        let _ = sender.send(ask(&store));
    };
    thread::Builder::new()
        .name("tyr-ask".into())
        .spawn(asking)
        .map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
    receiver.await.map_err(|_| Error::internal("a question died on its thread; please report it"))
}

macro_rules! store {
    (
        $class:ident, $face:ident, $module:literal, $mode:ident, $keyspace:ident, $snapshot:ident, $transaction:ident, $tries:ident,
        $doc:literal, { $($own:tt)* }
    ) => {
        #[doc = $doc]
        #[pyclass(frozen, module = $module)]
        pub struct $class {
            opened: Arc<Opened>,
        }

        impl $class {
            /// One that is open.
            pub fn new(opened: Arc<Opened>) -> Self {
                $class { opened }
            }

            /// Its handle, if it can be used.
            #[cfg(feature = "bench")]
            pub fn handle(&self, py: Python<'_>) -> PyResult<tyr_client::Store> {
                self.usable(py)
            }

            fn usable(&self, py: Python<'_>) -> PyResult<tyr_client::Store> {
                self.opened.$mode.usable().map_err(|error| raise(py, &error))
            }
        }

        #[pymethods]
        impl $class {
            $($own)*

            /// Whether it is a cluster.
            #[getter]
            fn is_cluster(&self) -> bool {
                self.opened.is_cluster
            }

            /// Whether it was closed, or is of another process.
            #[getter]
            fn closed(&self) -> bool {
                self.opened.$mode.usable().is_err()
            }

            /// The directory or URL that was opened.
            #[getter]
            fn place(&self) -> Option<OsString> {
                self.opened.place.clone().map(PathBuf::into_os_string)
            }

            /// The same store, whose calls by this handle, and those of what it opens and begins, wait so many seconds for a cluster.
            #[pyo3(name = "within")]
            fn with_deadline(&self, py: Python<'_>, deadline: f64) -> PyResult<Self> {
                let deadline = seconds(py, deadline)?;
                let store = self.opened.asynchronous.usable().map_err(|error| raise(py, &error))?.within(deadline);
                Ok(Self::new(self.opened.beside(store)))
            }

            /// Creates a keyspace. Raises Exists if the name is taken, and Invalid if the name or a setting is out of bounds.
            #[pyo3(signature = (name, *, durability="disk", chunk_size=None, multi_version=true, quota=None))]
            fn create_keyspace(
                &self,
                py: Python<'_>,
                name: String,
                durability: &str,
                chunk_size: Option<Offset>,
                multi_version: bool,
                quota: Option<Offset>,
            ) -> PyResult<Py<PyAny>> {
                let settings = settings(py, durability, chunk_size, multi_version, quota)?;
                let (store, opened) = (self.usable(py)?, self.opened.clone());
                $face::drive(py, async move {
                    let keyspace = store.create_keyspace(&name, settings).await?;
                    Ok(Value::made($keyspace::new(keyspace, opened)))
                })
            }

            /// A handle of an existing keyspace. Raises NotFound if there is none of that name. A cluster is asked only for a name that
            /// was not heard of: a keyspace that another client has dropped goes on to be found until something in it is asked for,
            /// which raises NotFound.
            fn keyspace(&self, py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
                let (store, opened) = (self.usable(py)?, self.opened.clone());
                $face::drive(py, async move {
                    let keyspace = aside(store, move |store| store.keyspace(&name)).await??;
                    Ok(Value::made($keyspace::new(keyspace, opened)))
                })
            }

            /// All keyspaces in the order of their names. If no node of a cluster answers, these are those that were known last.
            fn keyspaces(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let store = self.usable(py)?;
                $face::drive(py, async move {
                    aside(store, tyr_client::Store::keyspaces).await.map(Value::Keyspaces)
                })
            }

            /// Gives a keyspace other settings; those that are not named become the defaults. Its chunk size cannot be altered.
            #[pyo3(signature = (name, *, durability="disk", chunk_size=None, multi_version=true, quota=None))]
            fn alter_keyspace(
                &self,
                py: Python<'_>,
                name: String,
                durability: &str,
                chunk_size: Option<Offset>,
                multi_version: bool,
                quota: Option<Offset>,
            ) -> PyResult<Py<PyAny>> {
                let settings = settings(py, durability, chunk_size, multi_version, quota)?;
                let store = self.usable(py)?;
                $face::drive(py, async move {
                    store.alter_keyspace(&name, settings).await.map(|()| Value::None)
                })
            }

            /// Drops a keyspace with everything in it. Handles of it raise NotFound from then on. The nodes of a cluster hear of it one
            /// after the other: for a fraction of a second other clients may still read what is in it, and what they write is gone
            /// with it. If another one of its name is created, every client has to open that anew.
            fn drop_keyspace(&self, py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
                let store = self.usable(py)?;
                $face::drive(py, async move { store.drop_keyspace(&name).await.map(|()| Value::None) })
            }

            /// Begins a transaction, which is also a context manager. Local: costs nothing until something is read.
            fn begin(&self, py: Python<'_>) -> PyResult<$transaction> {
                let running = Running::new(self.usable(py)?.begin());
                let let_go: Weak<Running> = Arc::downgrade(&running);
                self.opened.keep(let_go);
                Ok($transaction::new(running))
            }

            /// A transaction for a with statement: commits at its end, and rolls back after an exception. Raises Conflict if somebody
            /// changed what it has read; see run and retrying.
            fn transaction(&self, py: Python<'_>) -> PyResult<$transaction> {
                self.begin(py)
            }

            /// Pins all blobs of the keyspaces at one point: what the snapshot shows never changes and never conflicts.
            #[pyo3(signature = (*keyspaces))]
            fn snapshot(&self, py: Python<'_>, keyspaces: Vec<Py<$keyspace>>) -> PyResult<Py<PyAny>> {
                let (store, opened) = (self.usable(py)?, self.opened.clone());
                let keyspaces = keyspaces.iter().map(|keyspace| keyspace.get().usable(py));
                let keyspaces = keyspaces.collect::<PyResult<Vec<_>>>()?;
                $face::drive(py, async move {
                    let keyspaces: Vec<_> = keyspaces.iter().map(|keyspace| &**keyspace).collect();
                    let snapshot = store.snapshot(&keyspaces).await?;
                    Ok(Value::made($snapshot::new(snapshot, &opened)))
                })
            }

            /// Takes a snapshot of a keyspace that lasts until it is dropped by its name, also when the store is closed. Raises Exists if the
            /// keyspace has one of that name.
            fn create_snapshot(&self, py: Python<'_>, keyspace: Py<$keyspace>, name: String) -> PyResult<Py<PyAny>> {
                let (store, keyspace) = (self.usable(py)?, keyspace.get().usable(py)?);
                $face::drive(py, async move {
                    store.create_snapshot(&keyspace, &name).await.map(|()| Value::None)
                })
            }

            /// Opens a snapshot by its name, to be read until it is closed. Raises NotFound if there is none of that name.
            fn open_snapshot(&self, py: Python<'_>, keyspace: Py<$keyspace>, name: String) -> PyResult<Py<PyAny>> {
                let (store, opened) = (self.usable(py)?, self.opened.clone());
                let keyspace = keyspace.get().usable(py)?;
                $face::drive(py, async move {
                    let snapshot = store.open_snapshot(&keyspace, &name).await?;
                    Ok(Value::made($snapshot::new(snapshot, &opened)))
                })
            }

            /// The snapshots of a keyspace that have names, in the order in which they were taken.
            fn snapshots(&self, py: Python<'_>, keyspace: Py<$keyspace>) -> PyResult<Py<PyAny>> {
                let (store, keyspace) = (self.usable(py)?, keyspace.get().usable(py)?);
                $face::drive(py, async move { store.snapshots(&keyspace).await.map(Value::Snapshots) })
            }

            /// Drops a snapshot by its name. Raises NotFound if there is none of that name.
            fn drop_snapshot(&self, py: Python<'_>, keyspace: Py<$keyspace>, name: String) -> PyResult<Py<PyAny>> {
                let (store, keyspace) = (self.usable(py)?, keyspace.get().usable(py)?);
                $face::drive(py, async move {
                    store.drop_snapshot(&keyspace, &name).await.map(|()| Value::None)
                })
            }

            /// The tries of a transaction, until one commits: each is to be used by a with statement.
            fn retrying<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "retrying")?.call1((slf,))
            }

            /// Calls a function with a transaction until it commits, and results in what the function returns. After a conflict it
            /// is called again, after a pause that grows, and at last when it is its turn. An exception rolls back.
            fn run<'py>(slf: Bound<'py, Self>, body: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "run")?.call1((slf, body))
            }

            /// Makes a function one that is run in a transaction until it commits; the transaction is its first argument.
            fn transactional<'py>(slf: Bound<'py, Self>, body: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                helper::<$face>(slf.py(), "transactional")?.call1((slf, body))
            }

            fn _tries(&self, py: Python<'_>) -> PyResult<$tries> {
                let stopped = Stopped::new(self.usable(py)?);
                let let_go: Weak<Stopped> = Arc::downgrade(&stopped);
                self.opened.keep(let_go);
                Ok($tries::new(stopped))
            }

            /// How reads of a cluster were answered so far, by name.
            fn reads(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let reads = self.usable(py)?.reads();
                Value::Report(vec![
                    ("from_files", Figure::Count(reads.from_files)),
                    ("bytes_from_files", Figure::Count(reads.bytes_from_files)),
                    ("from_network", Figure::Count(reads.from_network)),
                    ("bytes_from_network", Figure::Count(reads.bytes_from_network)),
                    ("fell_back", Figure::Count(reads.fell_back)),
                    ("damaged", Figure::Count(reads.damaged)),
                ])
                .into_python(py)
            }

            /// What a store in a directory holds and has done, by name.
            fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let store = self.usable(py)?;
                $face::drive(py, async move { store.stats().map(stats) })
            }

            /// Reads and verifies everything in a directory. What is wrong is listed in the report as damage.
            fn check(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let store = self.usable(py)?;
                $face::drive(py, async move {
                    let report = store.check().await?;
                    Ok(Value::Report(vec![
                        ("tables", Figure::Count(report.tables)),
                        ("frames", Figure::Count(report.frames)),
                        ("entries", Figure::Count(report.entries)),
                        ("extents", Figure::Count(report.extents)),
                        ("bytes", Figure::Count(report.bytes)),
                        ("miscounted", Figure::Count(report.miscounted)),
                        ("damage", Figure::Texts(report.damage)),
                    ]))
                })
            }

            /// Reclaims all space of a directory that is worth it, now.
            fn compact(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let store = self.usable(py)?;
                $face::drive(py, async move {
                    let report = store.compact().await?;
                    Ok(Value::Report(vec![
                        ("segments", Figure::Count(report.segments)),
                        ("bytes_before", Figure::Count(report.bytes_before)),
                        ("bytes_after", Figure::Count(report.bytes_after)),
                    ]))
                })
            }

            /// Returns when every commit so far is on disk, those of keyspaces of durability "memory" included.
            fn flush(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let store = self.usable(py)?;
                $face::drive(py, async move { store.flush().await.map(|()| Value::None) })
            }

            /// Stops the store cleanly. Every later operation, on any handle, raises Unavailable. One that is closed already, or is of another
            /// process, is left as it is.
            fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                let (store, opened) = (self.opened.$mode.usable().ok(), self.opened.clone());
                $face::drive(py, async move {
                    match store {
                        Some(store) => opened.close(store).await.map(|()| Value::None),
                        None => Ok(Value::None),
                    }
                })
            }

            fn __repr__(&self) -> String {
                let place = self.opened.place.as_ref().map(|place| place.display().to_string());
                format!("<{}.Store '{}'>", $module, place.unwrap_or_default())
            }
        }
    };
}

fn stats(stats: tyr_client::Stats) -> Value {
    let count = |count: usize| Figure::Count(count as u64);
    Value::Report(vec![
        ("epoch", Figure::Count(u64::from(stats.epoch))),
        ("io", Figure::Text(stats.io)),
        ("segment_size", Figure::Count(stats.segment_size)),
        ("log_segments", count(stats.log_segments)),
        ("bulk_segments", count(stats.bulk_segments)),
        ("live", Figure::Count(stats.live)),
        ("filled", Figure::Count(stats.filled)),
        ("idle", Figure::Count(stats.idle)),
        ("log_written", Figure::Count(stats.log_written)),
        ("bulk_written", Figure::Count(stats.bulk_written)),
        ("batches", Figure::Count(stats.batches)),
        ("objects", Figure::Count(stats.objects)),
        ("dirty", Figure::Count(stats.dirty)),
        ("cached", Figure::Count(stats.cached)),
        ("cache_hits", Figure::Count(stats.cache_hits)),
        ("cache_misses", Figure::Count(stats.cache_misses)),
        ("pins", count(stats.pins)),
        ("oldest_pin", Figure::Seconds(stats.oldest_pin)),
        ("garbage", count(stats.garbage)),
        ("fragmented", count(stats.fragmented)),
    ])
}

store!(
    Store,
    Blocking,
    "tyr",
    blocking,
    Keyspace,
    Snapshot,
    Transaction,
    Tries,
    r#"An open store: one in a directory, or a cluster.

>>> accounts = store.create_keyspace("accounts")
>>> accounts.put_many({"anna": b"10", "bert": b"0"})
>>> def move(transaction, amount):
...     anna = int(transaction.read(accounts, "anna"))
...     bert = int(transaction.read(accounts, "bert"))
...     transaction.put(accounts, "anna", b"%d" % (anna - amount))
...     transaction.put(accounts, "bert", b"%d" % (bert + amount))
...     return anna - amount
>>> store.run(lambda transaction: move(transaction, 4))
6
>>> store.transactional(move)(1)
5
>>> for attempt in store.retrying():
...     with attempt as transaction:
...         transaction.put(accounts, "anna", b"0")
>>> accounts.read_many(["anna", "bert"])
[b'0', b'5']
"#,
    {
        /// The same store with an asyncio API.
        #[getter]
        fn aio(&self) -> AioStore {
            AioStore::new(self.opened.clone())
        }

        fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
            slf
        }

        #[pyo3(signature = (*_exception))]
        fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<bool> {
            // Who closed it in the block has what is wanted.
            match self.usable(py) {
                Ok(_) => self.close(py).map(|_| false),
                Err(_) => Ok(false),
            }
        }
    }
);

store!(
    AioStore,
    Asyncio,
    "tyr.aio",
    asynchronous,
    AioKeyspace,
    AioSnapshot,
    AioTransaction,
    AioTries,
    r#"An open store: the methods of tyr.Store, to be awaited.

>>> async def main():
...     async with await tyr.aio.open(directory) as store:
...         counters = await store.create_keyspace("async-counters")
...         await counters.transform("visits", 0, tyr.Transform.add(2, "u64"))
...         async def double(transaction):
...             visits = int.from_bytes(await transaction.read(counters, "visits"), "little")
...             await transaction.put(counters, "visits", (2 * visits).to_bytes(8, "little"))
...             return 2 * visits
...         return await store.run(double)
>>> asyncio.run(main())
4
"#,
    {
        /// The same store with an API that blocks.
        #[getter]
        fn blocking(&self) -> Store {
            Store::new(self.opened.clone())
        }

        fn __aenter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
            Asyncio::drive(py, async move { Ok(Value::Made(Box::new(move |_| Ok(slf.into_any())))) })
        }

        #[pyo3(signature = (*_exception))]
        fn __aexit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
            let (store, opened) = (self.usable(py), self.opened.clone());
            Asyncio::drive(py, async move {
                // Who closed it in the block has what is wanted.
                if let Ok(store) = store {
                    opened.close(store).await?;
                }
                Ok(Value::Bool(false))
            })
        }
    }
);
