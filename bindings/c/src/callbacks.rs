//! The thread that calls callbacks, in the order in which their operations have ended.
//!
//! It does nothing else: a callback may wait for other operations, which go on without it.

use std::{collections::VecDeque, io, sync::Arc};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{operation::Operation, worker::Worker};

/// What there is to do.
#[derive(Default)]
struct Callbacks {
    ended: Mutex<VecDeque<Arc<Operation>>>,
    has_ended: Condvar,
}

static CALLBACKS: Worker<Callbacks> = Worker::new();

/// Has the thread call the callback of an operation that has ended.
pub fn push(operation: Arc<Operation>) {
    let callbacks = CALLBACKS.get();
    callbacks.ended.lock().push_back(operation);
    callbacks.has_ended.notify_one();
}

/// Starts the thread, if it does not run.
pub fn start() -> io::Result<()> {
    CALLBACKS.start("tyr-callbacks", Callbacks::run)
}

/// After a fork: the thread is the parent's.
pub fn forget() {
    CALLBACKS.forget();
}

impl Callbacks {
    fn run(&self) {
        let mut ended = self.ended.lock();
        loop {
            match ended.pop_front() {
                Some(operation) => MutexGuard::unlocked(&mut ended, || operation.call_back()),
                None => self.has_ended.wait(&mut ended),
            }
        }
    }
}
