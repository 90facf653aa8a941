//! The thread that goes on with operations for which nobody waits, and calls callbacks.

use std::{
    collections::VecDeque,
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use parking_lot::{Condvar, Mutex};

use crate::operation::Operation;

/// Operations that can go on.
#[derive(Default)]
struct Executor {
    ready: Mutex<VecDeque<Arc<Operation>>>,
    has_ready: Condvar,
}

static CURRENT: AtomicPtr<Executor> = AtomicPtr::new(null_mut());

/// Has the thread go on with an operation.
pub fn push(operation: Arc<Operation>) {
    let executor = executor();
    executor.ready.lock().push_back(operation);
    executor.has_ready.notify_one();
}

/// Starts the thread, if it does not run.
pub fn start() -> std::io::Result<()> {
    if !CURRENT.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let new: &'static Executor = Box::leak(Box::default());
    let is_first = CURRENT
        .compare_exchange(null_mut(), std::ptr::from_ref(new).cast_mut(), Ordering::AcqRel, Ordering::Acquire)
        .is_ok();
    if is_first {
        let run = move || new.run();
        if let Err(error) = std::thread::Builder::new().name("tyr-callbacks".into()).spawn(run) {
            CURRENT.store(null_mut(), Ordering::Release);
            return Err(error);
        }
    }
    Ok(())
}

/// After a fork: the thread is the parent's.
pub fn forget() {
    CURRENT.store(null_mut(), Ordering::Release);
}

fn executor() -> &'static Executor {
    // SAFETY: it was leaked, and is never freed.
    match unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        Some(executor) => executor,
        // Only a child of a fork comes here, with an operation of its parent that nobody can go on with.
        None => Box::leak(Box::default()),
    }
}

impl Executor {
    fn run(&self) {
        loop {
            let mut ready = self.ready.lock();
            let operation = loop {
                match ready.pop_front() {
                    Some(operation) => break operation,
                    None => self.has_ready.wait(&mut ready),
                }
            };
            drop(ready);
            operation.go_on();
        }
    }
}
