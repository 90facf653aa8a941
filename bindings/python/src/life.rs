//! What ends the life of a handle besides its owner: a fork, after which the store's threads are gone, and the end of the interpreter.
//!
//! A handle knows in which process it was made. In another one it fails, and it is forgotten instead of dropped: to stop a store means
//! to wait for its threads. Before the interpreter ends, all stores are closed, and whoever still waits is waited for, so that no thread
//! comes back to an interpreter that is gone.

use std::{
    mem::ManuallyDrop,
    ops::Deref,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex, RwLock};
use pyo3::prelude::*;
use tyr_client::{Error, Result};

use crate::store::Opened;

/// How often this process was forked from another one since the module was loaded.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Whether the interpreter ends.
static ENDS: AtomicBool = AtomicBool::new(false);
/// Calls that wait without the interpreter's lock.
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);
static STORES: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());
static IDLE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// Something of a store, which is of use in the process in which it was made.
pub struct Alive<T> {
    forks: u64,
    value: ManuallyDrop<T>,
}

impl<T> Alive<T> {
    /// Of this process.
    pub fn new(value: T) -> Self {
        Alive { forks: FORKS.load(Ordering::Relaxed), value: ManuallyDrop::new(value) }
    }

    /// What it is, if it is of this process.
    pub fn usable(&self) -> Result<&T> {
        if self.forks == FORKS.load(Ordering::Relaxed) && !ENDS.load(Ordering::Relaxed) {
            return Ok(&self.value);
        }
        Err(self.refusal())
    }

    #[cold]
    fn refusal(&self) -> Error {
        if ENDS.load(Ordering::Relaxed) {
            return Error::unavailable("the interpreter is ending, and its stores are closed");
        }
        Error::unavailable(
            "the store was opened before this process was forked; open it again in this process, or start processes with 'spawn'",
        )
    }

    fn is_forked(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }
}

impl<T> Deref for Alive<T> {
    type Target = T;

    /// What it is, for what needs no store.
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Alive<T> {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        // SAFETY: it is dropped once, here, and not used afterwards.
        #[allow(unsafe_code, reason = "what is forgotten after a fork must not be dropped")]
        unsafe {
            ManuallyDrop::drop(&mut self.value);
        }
    }
}

/// What lets go of a store when it is closed, though its owner in Python lives on: so that a directory can be opened again at once.
pub trait LetGo: Send + Sync {
    /// Lets go of it.
    fn let_go(&self);
}

/// A handle of a store until that is closed.
pub struct Handle<T>(Alive<Arc<Kept<T>>>);

/// What a handle keeps.
pub struct Kept<T>(RwLock<Option<T>>);

impl<T: Clone> Kept<T> {
    fn value(&self) -> Result<T> {
        let value = self.0.read().clone();
        value.ok_or_else(|| Error::unavailable("the store is closed; open it again"))
    }
}

impl<T: Send + Sync> LetGo for Kept<T> {
    fn let_go(&self) {
        let kept = self.0.write().take();
        drop(kept);
    }
}

impl<T: Clone + Send + Sync + 'static> Handle<T> {
    /// Of this process.
    pub fn new(value: T) -> Self {
        Handle(Alive::new(Arc::new(Kept(RwLock::new(Some(value))))))
    }

    /// What it is, if it can be used.
    pub fn usable(&self) -> Result<T> {
        self.0.usable()?.value()
    }

    /// What it is, also when the interpreter ends.
    pub fn even_at_the_end(&self) -> Result<T> {
        if self.0.is_forked() {
            return Err(self.0.refusal());
        }
        Alive::deref(&self.0).value()
    }

    /// What lets go of it.
    pub fn let_go(&self) -> Weak<dyn LetGo> {
        let weak: Weak<Kept<T>> = Arc::downgrade(&self.0);
        weak
    }
}

/// Has a store closed when the interpreter ends.
pub fn remember(store: Weak<Opened>) {
    let mut stores = STORES.lock();
    stores.retain(|store| store.strong_count() > 0);
    stores.push(store);
}

/// A call that waits without the interpreter's lock.
pub struct UnderWay(());

impl UnderWay {
    /// Begins it.
    pub fn new() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        UnderWay(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if UNDER_WAY.fetch_sub(1, Ordering::SeqCst) == 1 && ENDS.load(Ordering::SeqCst) {
            let _held = IDLE.0.lock();
            IDLE.1.notify_all();
        }
    }
}

/// Called in a child after a fork.
#[pyfunction]
#[pyo3(name = "_forked")]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // Nobody else is under way in this process, and who held the list is gone.
    UNDER_WAY.store(0, Ordering::SeqCst);
    if let Some(mut stores) = STORES.try_lock() {
        stores.clear();
    }
}

/// Called before the interpreter ends: closes all stores, and waits for those who wait for them.
#[pyfunction]
#[pyo3(name = "_end")]
pub fn end(py: Python<'_>) {
    ENDS.store(true, Ordering::SeqCst);
    let stores: Vec<_> = STORES.lock().iter().filter_map(Weak::upgrade).collect();
    py.detach(|| {
        for store in stores {
            store.end();
        }
        let mut held = IDLE.0.lock();
        while UNDER_WAY.load(Ordering::SeqCst) > 0 {
            if IDLE.1.wait_for(&mut held, END_WAIT_MAX).timed_out() {
                break;
            }
        }
    });
}

/// Longer than any call waits for a store that is closed.
const END_WAIT_MAX: Duration = Duration::from_secs(10);
