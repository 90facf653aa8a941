//! How a store is opened.

use std::path::Path;
use std::sync::Arc;

use tyr_env::{Clock, Disk};
use tyr_os::{IoMode, OsClock, OsDisk, OsOptions};
use tyr_types::{Error, Result};

use crate::pool::promise;
use crate::store::Store;
use crate::wait::Mode;

/// What to do about a store that exists, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// Open the store; create it if there is none.
    #[default]
    IfMissing,
    /// Open an existing store; fail with [`crate::ErrorKind::NotFound`] if there is none.
    Never,
    /// Create a new store; fail with [`crate::ErrorKind::Exists`] if there is one.
    New,
}

/// Options for opening a store; made by [`Store::options`].
///
/// ```
/// # pollster::block_on(async {
/// # let directory = tempfile::tempdir().unwrap();
/// use tyr_embed::{Create, Store};
///
/// let options = Store::options().create(Create::New).data_cache(64 << 20);
/// let store = options.open(directory.path().join("store")).await?;
/// store.close().await
/// # }).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until they are opened"]
pub struct OpenOptions {
    create: Create,
    io: IoMode,
    engine: tyr_store::Options,
    disk: Option<Arc<dyn Disk>>,
    clock: Option<Arc<dyn Clock>>,
    rebuild_index: bool,
}

impl OpenOptions {
    pub(crate) fn new() -> Self {
        OpenOptions {
            create: Create::default(),
            io: IoMode::default(),
            engine: tyr_store::Options::default(),
            disk: None,
            clock: None,
            rebuild_index: false,
        }
    }

    /// Whether to create the store. By default it is created if there is none.
    pub fn create(mut self, create: Create) -> Self {
        self.create = create;
        self
    }

    /// Bytes of memory for content that was read or written lately. 256 MiB by default.
    pub fn data_cache(mut self, bytes: u64) -> Self {
        self.engine.data_cache = bytes;
        self
    }

    /// Bytes of memory for the index. 256 MiB by default.
    pub fn index_cache(mut self, bytes: u64) -> Self {
        self.engine.index_cache = bytes;
        self
    }

    /// Bytes of a segment file, the unit in which space is reserved and reclaimed. 64 MiB by default.
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.engine.segment_size = bytes;
        self
    }

    /// How files are read and written. The default is the best that works in the directory; others are for tests and
    /// measurements.
    pub fn io(mut self, mode: IoMode) -> Self {
        self.io = mode;
        self
    }

    /// Uses this disk, for instance a simulated one, instead of the directory given to [`OpenOptions::open`].
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Uses this clock, for instance a simulated one, to tell how old snapshots and transactions are.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Makes the index anew from the log, instead of relying on its tables: for a store whose tables are damaged. It must exist. Reads
    /// all of the log; fails with [`crate::ErrorKind::Corrupt`], and changes nothing, if that is damaged too.
    pub fn rebuild_index(mut self) -> Self {
        self.rebuild_index = true;
        self
    }

    /// Opens the store in the directory and recovers what was committed. Nobody else can open it meanwhile.
    ///
    /// Fails with [`crate::ErrorKind::Unavailable`] if it is open already, in this process or another.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref().to_path_buf();
        let (promise, reply) = promise();
        std::thread::Builder::new()
            .name("tyr-open".into())
            .spawn(move || promise.keep(self.open_blocking(&path, Mode::Async)))
            .map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
        reply.await.unwrap_or_else(|| Err(Error::internal("opening the store died; please report it")))
    }

    pub(crate) fn open_blocking(self, path: &Path, mode: Mode) -> Result<Store> {
        // Before anything is made.
        self.engine.check()?;
        let own = match &self.disk {
            Some(_) => None,
            None => {
                let options =
                    OsOptions { create: self.create != Create::Never && !self.rebuild_index, io: self.io };
                Some(OsDisk::open(path, options).map_err(open_failure)?)
            }
        };
        let disk = self.disk.or_else(|| Some(own.clone()?)).expect("one of them is there");
        let create = match self.create {
            Create::IfMissing => tyr_store::Create::IfMissing,
            Create::Never => tyr_store::Create::Never,
            Create::New => tyr_store::Create::New,
        };
        let clock = self.clock.unwrap_or_else(|| Arc::new(OsClock::new()));
        let opened = match self.rebuild_index {
            false => tyr_store::Store::open(disk, clock, create, self.engine.clone()),
            true => tyr_store::Store::open_rebuilding(disk, clock, self.engine.clone()),
        };
        let engine = opened
            .inspect_err(|_| own.iter().for_each(|disk| disk.withdraw()))
            .map_err(|error| error.context(format!("store '{}'", path.display())))?;
        Store::start(engine, self.engine.inline_max, mode)
    }
}

/// The message names the directory already.
fn open_failure(error: std::io::Error) -> Error {
    use std::io::ErrorKind;

    let message = error.to_string();
    match error.kind() {
        ErrorKind::NotFound => Error::not_found(message),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::denied(message),
        ErrorKind::NotADirectory | ErrorKind::Unsupported | ErrorKind::InvalidInput => {
            Error::invalid(message)
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::full(message),
        _ => Error::unavailable(message),
    }
}
