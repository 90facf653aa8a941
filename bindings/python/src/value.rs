//! What operations result in.

use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString},
};
use tyr_client::{Create, Durability, Operand};

use crate::{
    arguments::Offset,
    content::Content,
    errors::invalid,
    number::{into_python, wrong_slot},
};

/// What an operation results in, before Python has it.
pub enum Value {
    None,
    Bool(bool),
    Number(u64),
    MaybeNumber(Option<u64>),
    Bytes(Vec<u8>),
    /// To be looked at where it is.
    View(Vec<u8>),
    MaybeBytes(Option<Vec<u8>>),
    Many(Vec<Option<Vec<u8>>>),
    Operand(Operand),
    Stat(tyr_client::Stat),
    Stats(Vec<Option<tyr_client::Stat>>),
    Blob(tyr_client::Blob),
    Entries(Vec<tyr_client::Entry>),
    Slot(tyr_client::Slot),
    Receipt(tyr_client::Receipt),
    Keyspaces(Vec<tyr_client::KeyspaceSummary>),
    Snapshots(Vec<tyr_client::SnapshotSummary>),
    /// By name.
    Report(Vec<(&'static str, Figure)>),
    /// What needs Python to be made.
    Made(Make),
}

/// Makes an object.
type Make = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// A figure of a report.
pub enum Figure {
    Count(u64),
    Seconds(Option<f64>),
    Text(String),
    Texts(Vec<String>),
}

impl Value {
    /// What is made of what Python has.
    pub fn made<T: Into<PyClassInitializer<T>> + pyo3::PyClass + Send + 'static>(value: T) -> Self {
        Value::Made(Box::new(|py| Ok(Py::new(py, value)?.into_any())))
    }

    /// For Python.
    pub fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Value::None => py.None(),
            Value::Bool(is_so) => is_so.into_pyobject(py)?.to_owned().into_any().unbind(),
            Value::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
            Value::MaybeNumber(number) => number.into_pyobject(py)?.into_any().unbind(),
            Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
            Value::View(bytes) => Content::view(py, bytes)?,
            Value::MaybeBytes(bytes) => maybe_bytes(py, bytes.as_deref()),
            Value::Many(all) => PyList::new(py, all.iter().map(|bytes| maybe_bytes(py, bytes.as_deref())))?
                .into_any()
                .unbind(),
            Value::Operand(operand) => into_python(py, operand)?,
            Value::Stat(stat) => Py::new(py, Stat(stat))?.into_any(),
            Value::Stats(stats) => {
                let stats =
                    stats.into_iter().map(|stat| stat.map(|stat| Py::new(py, Stat(stat))).transpose());
                PyList::new(py, stats.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            Value::Blob(blob) => Py::new(py, Blob(blob))?.into_any(),
            Value::Entries(entries) => {
                let entries = entries.into_iter().map(|entry| Py::new(py, Entry(entry)));
                PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            Value::Slot(slot) => Py::new(py, Slot(slot))?.into_any(),
            Value::Receipt(receipt) => Py::new(py, Receipt(receipt))?.into_any(),
            Value::Keyspaces(all) => {
                let all = all.into_iter().map(|summary| Py::new(py, KeyspaceSummary(summary)));
                PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            Value::Snapshots(all) => {
                let all = all.into_iter().map(|summary| Py::new(py, SnapshotSummary(summary)));
                PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            Value::Report(figures) => {
                let report = PyDict::new(py);
                for (name, figure) in figures {
                    match figure {
                        Figure::Count(count) => report.set_item(name, count)?,
                        Figure::Seconds(seconds) => report.set_item(name, seconds)?,
                        Figure::Text(text) => report.set_item(name, text)?,
                        Figure::Texts(texts) => report.set_item(name, texts)?,
                    }
                }
                report.into_any().unbind()
            }
            Value::Made(make) => make(py)?,
        })
    }
}

fn maybe_bytes(py: Python<'_>, bytes: Option<&[u8]>) -> Py<PyAny> {
    bytes.map_or_else(|| py.None(), |bytes| PyBytes::new(py, bytes).into_any().unbind())
}

/// A key as text, in which bytes that are not UTF-8 are surrogates, as in names of files.
fn text<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(key) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, key).call_method1("decode", ("utf-8", "surrogateescape")),
    }
}

/// The state of a blob, without its bytes.
///
/// >>> events.put("log", b"first")
/// >>> events.stat("log").size
/// 5
#[pyclass(frozen, module = "tyr")]
pub struct Stat(tyr_client::Stat);

#[pymethods]
impl Stat {
    /// Bytes of content.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    /// Which of the blobs that ever had this key it is.
    #[getter]
    fn blob(&self) -> u64 {
        self.0.blob.to_u64()
    }

    /// The number of the transaction that changed it last.
    #[getter]
    fn version(&self) -> u64 {
        self.0.version.to_u64()
    }

    /// Its attributes.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let attributes = PyDict::new(py);
        for (name, value) in self.0.attributes.iter() {
            attributes.set_item(name, PyBytes::new(py, value))?;
        }
        Ok(attributes)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Stat>().is_ok_and(|other| self.0 == other.get().0)
    }

    fn __repr__(&self) -> String {
        format!("<tyr.Stat size={} version={}>", self.0.size, self.0.version.to_u64())
    }
}

/// A whole blob: its state, and its content of the same version.
#[pyclass(frozen, module = "tyr")]
pub struct Blob(tyr_client::Blob);

#[pymethods]
impl Blob {
    /// Its state.
    #[getter]
    fn stat(&self) -> Stat {
        Stat(self.0.stat.clone())
    }

    /// Its content.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.bytes)
    }

    fn __repr__(&self) -> String {
        format!("<tyr.Blob size={}>", self.0.stat.size)
    }
}

/// A blob as listed by a scan.
#[pyclass(frozen, module = "tyr")]
pub struct Entry(tyr_client::Entry);

#[pymethods]
impl Entry {
    /// Its key.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.key.as_bytes())
    }

    /// Its key as text; bytes that are not UTF-8 are surrogates, as in names of files.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text(py, self.0.key.as_bytes())
    }

    /// Bytes of content.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    /// The number of the transaction that changed it last.
    #[getter]
    fn version(&self) -> u64 {
        self.0.version.to_u64()
    }

    fn __repr__(&self) -> String {
        format!("<tyr.Entry '{}' size={}>", self.0.key, self.0.size)
    }
}

/// Names an append or a transform of a transaction, of which the receipt tells the offset or the old value.
#[pyclass(frozen, module = "tyr")]
pub struct Slot(tyr_client::Slot);

/// What a committed transaction resulted in.
///
/// >>> with store.transaction() as transaction:
/// ...     slot = transaction.append(events, "log", b"an event")
/// >>> transaction.receipt.offset(slot)
/// 0
#[pyclass(frozen, module = "tyr")]
pub struct Receipt(pub tyr_client::Receipt);

#[pymethods]
impl Receipt {
    /// The number of the transaction; 0 in a cluster.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number().to_u64()
    }

    /// The offset at which an append put its bytes.
    fn offset(&self, py: Python<'_>, slot: &Slot) -> PyResult<u64> {
        self.0.offset(slot.0).ok_or_else(|| wrong_slot(py, "an append"))
    }

    /// The value that a transform replaced.
    fn old(&self, py: Python<'_>, slot: &Slot) -> PyResult<Py<PyAny>> {
        into_python(py, self.0.old(slot.0).ok_or_else(|| wrong_slot(py, "a transform"))?)
    }
}

/// Settings of a keyspace.
#[pyclass(frozen, module = "tyr")]
pub struct KeyspaceSettings(pub tyr_client::KeyspaceSettings);

#[pymethods]
impl KeyspaceSettings {
    /// `disk` or `memory`.
    #[getter]
    fn durability(&self) -> &'static str {
        match self.0.durability {
            Durability::Memory => "memory",
            Durability::Disk => "disk",
        }
    }

    /// Bytes of a chunk.
    #[getter]
    fn chunk_size(&self) -> u64 {
        self.0.chunk_size
    }

    /// Whether versions are kept for who reads them.
    #[getter]
    fn multi_version(&self) -> bool {
        self.0.multi_version
    }

    /// How many bytes it may hold, or None.
    #[getter]
    fn quota(&self) -> Option<u64> {
        self.0.quota
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<KeyspaceSettings>().is_ok_and(|other| self.0 == other.get().0)
    }

    fn __repr__(&self) -> String {
        format!("<tyr.KeyspaceSettings durability='{}' chunk_size={}>", self.durability(), self.0.chunk_size)
    }
}

/// A keyspace as listed by `Store.keyspaces`.
#[pyclass(frozen, module = "tyr")]
pub struct KeyspaceSummary(tyr_client::KeyspaceSummary);

#[pymethods]
impl KeyspaceSummary {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Its identity, which no other keyspace of the store ever has.
    #[getter]
    fn id(&self) -> u32 {
        self.0.id.0
    }

    /// Its settings.
    #[getter]
    fn settings(&self) -> KeyspaceSettings {
        KeyspaceSettings(self.0.settings.clone())
    }

    /// How many blobs exist in it; None in a cluster, which does not know.
    #[getter]
    fn blobs(&self) -> Option<u64> {
        self.0.blobs
    }

    /// The sum of their sizes; None in a cluster.
    #[getter]
    fn bytes(&self) -> Option<u64> {
        self.0.bytes
    }

    fn __repr__(&self) -> String {
        format!("<tyr.KeyspaceSummary '{}'>", self.0.name)
    }
}

/// A snapshot that has a name, as listed by `Store.snapshots`.
#[pyclass(frozen, module = "tyr")]
pub struct SnapshotSummary(tyr_client::SnapshotSummary);

#[pymethods]
impl SnapshotSummary {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// When it was taken, in seconds since 1970, by the clock of who took it.
    #[getter]
    fn taken(&self) -> u64 {
        self.0.taken
    }

    /// Whether it can be opened: on a cluster one may be listed that is being taken, or whose taker has failed.
    #[getter]
    fn is_complete(&self) -> bool {
        self.0.is_complete
    }

    fn __repr__(&self) -> String {
        format!("<tyr.SnapshotSummary '{}'>", self.0.name)
    }
}

/// Settings as they were handed in.
pub fn settings(
    py: Python<'_>,
    durability: &str,
    chunk_size: Option<Offset>,
    multi_version: bool,
    quota: Option<Offset>,
) -> PyResult<tyr_client::KeyspaceSettings> {
    let durability = match durability {
        "disk" => Durability::Disk,
        "memory" => Durability::Memory,
        _ => return Err(invalid(py, "the durability is 'disk' or 'memory'")),
    };
    let usual = tyr_client::KeyspaceSettings::default();
    let chunk_size = chunk_size.map_or(usual.chunk_size, |size| size.0);
    let quota = quota.map(|quota| quota.0);
    Ok(tyr_client::KeyspaceSettings { durability, chunk_size, multi_version, quota })
}

/// What to do about a store that exists, or does not.
pub fn create(py: Python<'_>, name: &str) -> PyResult<Create> {
    match name {
        "if-missing" => Ok(Create::IfMissing),
        "never" => Ok(Create::Never),
        "new" => Ok(Create::New),
        _ => Err(invalid(py, "create is 'if-missing', 'never', or 'new'")),
    }
}
