//! What a shard shows of how it is doing and of what it has done. Its thread writes it down between two batches of mail; whoever reads it
//! never holds the thread up for longer than it takes to copy it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tyr_proto::{OldestPin, Uses, cluster::ShardReport};
use tyr_types::Error;

use crate::work::{Detail, Work};

/// What a shard shows. Handles are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Mail that waits.
    queue: AtomicUsize,
    shown: Mutex<Shown>,
    /// Why the shard does nothing any more.
    failure: Mutex<Option<Error>>,
}

/// What was shown last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// How the shard is doing, every second.
    pub report: ShardReport,
    /// What it has done, every few milliseconds.
    pub work: Work,
    /// What it holds of keyspaces with quotas, ten times a second.
    pub uses: Uses,
    /// More of what it has done, every second.
    pub detail: Arc<Detail>,
    /// The number that a reader has held for longest, every second.
    pub pin: Option<OldestPin>,
}

impl Figures {
    /// Mail has come.
    pub fn came(&self) {
        self.0.queue.fetch_add(1, Ordering::Relaxed);
    }

    /// Mail was taken.
    pub fn taken(&self) {
        self.0.queue.fetch_sub(1, Ordering::Relaxed);
    }

    /// What was shown last.
    pub fn shown(&self) -> Shown {
        let mut shown = self.0.shown.lock().clone();
        shown.report.queue = self.0.queue.load(Ordering::Relaxed) as u64;
        shown.report.has_failed = self.failure().is_some();
        shown
    }

    /// The shard has ceased to do anything.
    pub fn fail(&self, error: Error) {
        *self.0.failure.lock() = Some(error);
    }

    /// Why it has, if it has.
    pub fn failure(&self) -> Option<Error> {
        self.0.failure.lock().clone()
    }

    /// This is how it is doing.
    pub fn report(&self, report: ShardReport) {
        self.0.shown.lock().report = report;
    }

    /// What it held last of keyspaces with quotas.
    pub fn held(&self) -> Uses {
        self.0.shown.lock().uses.clone()
    }

    /// This is what it holds of keyspaces with quotas.
    pub fn uses(&self, uses: Uses) {
        self.0.shown.lock().uses = uses;
    }

    /// This is what it has done in detail, and the number that a reader has held for longest.
    pub fn detail(&self, detail: Detail, pin: Option<OldestPin>) {
        let detail = Arc::new(detail);
        let mut shown = self.0.shown.lock();
        (shown.detail, shown.pin) = (detail, pin);
    }

    /// This is what it has done. Put off if somebody is reading.
    pub fn work(&self, work: &Work) {
        if let Some(mut shown) = self.0.shown.try_lock() {
            shown.work.clone_from(work);
        }
    }
}
