//! The store of one shard with its two threads: one performs group commits, one does maintenance.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tyr_env::Disk;
use tyr_os::{IoMode, OsClock, OsDisk, OsOptions};
use tyr_store::{Create, Maintained, Options, Store};
use tyr_types::{Error, Result};

use crate::{alarm::Alarm, event::Events};

/// A store that is open. Dropped without [`Target::close`], it is as if the process had been killed.
pub(crate) struct Target {
    pub store: Arc<Store>,
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    maintenance: AtomicBool,
    commits: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Target {
    /// Opens the store in a directory, or makes one if that is wanted.
    pub fn open(
        directory: &Path,
        io: IoMode,
        create: Create,
        options: Options,
        events: &Events,
    ) -> Result<Target> {
        let is_new = create != Create::Never;
        let disk = OsDisk::open(directory, OsOptions { create: is_new, io })
            .map_err(|error| open_failure(&error))?;
        let disk: Arc<dyn Disk> = disk;
        let clock = Arc::new(OsClock::new());
        let store = Store::open(disk.clone(), clock, create, options)
            .map_err(|error| error.context(format!("store '{}'", directory.display())))?;
        let (store, stop) = (Arc::new(store), Arc::new(Stop::default()));
        let mut target = Target {
            store: store.clone(),
            disk,
            directory: directory.to_owned(),
            stop: stop.clone(),
            threads: Vec::new(),
        };
        let (driven, until) = (store.clone(), stop.clone());
        target.spawn("tyr-commit", events, move || driven.drive_commits(&until.commits))?;
        let of = directory.to_owned();
        target.spawn("tyr-maintain", events, move || maintain(&store, &of, &stop))?;
        Ok(target)
    }

    fn spawn(&mut self, name: &str, events: &Events, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let alarm = Alarm::new(name, events);
        let watched = move || {
            let _alarm = alarm;
            body();
        };
        let spawned = std::thread::Builder::new().name(name.into()).spawn(watched);
        let thread =
            spawned.map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Stops cleanly: everything is durable, and the next start reads nothing again.
    pub fn close(mut self) -> Result<()> {
        self.end(&self.stop.maintenance);
        let closed = self.store.close();
        self.join();
        closed
    }

    fn end(&self, flag: &AtomicBool) {
        {
            let _held = self.stop.lock.lock();
            flag.store(true, Ordering::SeqCst);
        }
        self.stop.bell.notify_all();
        self.store.wake_drivers();
    }

    fn join(&mut self) {
        self.end(&self.stop.maintenance);
        self.end(&self.stop.commits);
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _panicked = thread.join();
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.join();
    }
}

/// Does maintenance until it is told to stop. A step that fails has reported itself to the store; it is logged once, and kept from failing
/// in a tight loop.
fn maintain(store: &Store, directory: &Path, stop: &Stop) {
    let mut pause = PAUSE_MIN;
    let mut told = None;
    while !stop.maintenance.load(Ordering::SeqCst) {
        match store.maintain() {
            Ok(Maintained::Worked) => pause = PAUSE_MIN,
            Ok(Maintained::Idle) => {
                pause = PAUSE_MIN;
                store.wait_for_maintenance(&stop.maintenance);
            }
            Err(error) => {
                if told.as_ref() != Some(&error) {
                    tracing::warn!(directory = %directory.display(), %error, "maintenance of a store failed");
                    told = Some(error);
                }
                stop.pause(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

impl Stop {
    fn pause(&self, pause: Duration) {
        let mut held = self.lock.lock();
        if !self.maintenance.load(Ordering::SeqCst) {
            // Woken early only to stop.
            let _ = self.bell.wait_for(&mut held, pause);
        }
    }
}

/// The message names the directory already.
pub(crate) fn open_failure(error: &io::Error) -> Error {
    use io::ErrorKind;

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

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(10);
