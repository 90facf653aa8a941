//! The two threads that every open store has: one performs group commits that nobody waits for on a thread of his own, one
//! does maintenance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tyr_store::Maintained;
use tyr_types::{Error, Result};

use crate::pool::join;

/// The running threads. [`Background::stop`] ends them.
pub(crate) struct Background {
    driver: Loop,
    maintenance: Loop,
}

struct Loop {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    requested: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Background {
    pub(crate) fn start(engine: &Arc<tyr_store::Store>) -> Result<Background> {
        let drive = |engine: &tyr_store::Store, stop: &Stop| engine.drive_commits(&stop.requested);
        let mut driver = Loop::start(engine, "tyr-commit", drive)?;
        match Loop::start(engine, "tyr-maintain", maintain) {
            Ok(maintenance) => Ok(Background { driver, maintenance }),
            Err(error) => {
                driver.end(engine);
                Err(error)
            }
        }
    }

    /// Ends maintenance, closes the engine while commits are still driven, then ends the rest.
    pub(crate) fn stop(mut self, engine: &tyr_store::Store) -> Result<()> {
        self.maintenance.end(engine);
        let closed = engine.close();
        self.driver.end(engine);
        closed
    }
}

impl Loop {
    fn start(
        engine: &Arc<tyr_store::Store>,
        name: &str,
        body: impl FnOnce(&tyr_store::Store, &Stop) + Send + 'static,
    ) -> Result<Loop> {
        let stop = Arc::new(Stop::default());
        let (engine, seen) = (engine.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || body(&engine, &seen))
            .map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Loop { stop, thread: Some(thread) })
    }

    fn end(&mut self, engine: &tyr_store::Store) {
        {
            let _held = self.stop.lock.lock();
            self.stop.requested.store(true, Ordering::SeqCst);
        }
        self.stop.bell.notify_all();
        engine.wake_drivers();
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

/// The body of the maintenance thread. A step that fails has reported itself to the engine, which refuses what it cannot do
/// any more; here it is only kept from failing in a tight loop.
fn maintain(engine: &tyr_store::Store, stop: &Stop) {
    let mut pause = PAUSE_MIN;
    while !stop.requested.load(Ordering::SeqCst) {
        match engine.maintain() {
            Ok(Maintained::Worked) => pause = PAUSE_MIN,
            Ok(Maintained::Idle) => {
                pause = PAUSE_MIN;
                engine.wait_for_maintenance(&stop.requested);
            }
            Err(_) => {
                stop.pause(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

impl Stop {
    fn pause(&self, pause: Duration) {
        let mut held = self.lock.lock();
        if !self.requested.load(Ordering::SeqCst) {
            // Woken early only to stop.
            let _ = self.bell.wait_for(&mut held, pause);
        }
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(10);
