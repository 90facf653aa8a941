//! How a server stands, for those who ask.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tyr_proto::RingVersion;

/// How a server stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// It may serve.
    pub has_lease: bool,
    /// It may serve, and knows who holds what.
    pub is_ready: bool,
    /// It leads the cluster manager, as a majority of the voters has confirmed.
    pub leads: bool,
    /// So many nodes vote in the cluster manager, as far as this one knows.
    pub voters: usize,
    /// It serves no more, and has stopped or failed.
    pub has_ended: bool,
    /// The ring version that it wholly knows.
    pub ring_version: RingVersion,
}

/// A status that changes.
#[derive(Debug)]
pub(crate) struct State {
    status: Mutex<Status>,
    changed: Condvar,
    began: Instant,
}

impl Default for State {
    fn default() -> Self {
        State { status: Mutex::default(), changed: Condvar::new(), began: Instant::now() }
    }
}

impl State {
    /// What it is now.
    pub fn status(&self) -> Status {
        *self.status.lock()
    }

    /// How long it has run.
    pub fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// Changes it.
    pub fn show(&self, change: impl FnOnce(&mut Status)) {
        let mut status = self.status.lock();
        let before = *status;
        change(&mut status);
        if status.is_ready != before.is_ready {
            tracing::info!(ready = status.is_ready, "readiness has changed");
        }
        if *status != before {
            self.changed.notify_all();
        }
    }

    /// Waits until something holds; false if it does not in time.
    pub fn wait(&self, patience: Duration, holds: impl Fn(&Status) -> bool) -> bool {
        let end = Instant::now() + patience;
        let mut status = self.status.lock();
        while !holds(&status) {
            if self.changed.wait_until(&mut status, end).timed_out() {
                return holds(&status);
            }
        }
        true
    }
}
