//! The thread that goes on with operations for which nobody waits. It never waits itself, but for something to do.

use std::{
    collections::VecDeque,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{operation::Operation, queue::Queue, worker::Worker};

/// What there is to do.
#[derive(Default)]
struct Executor {
    work: Mutex<Work>,
    has_work: Condvar,
}

#[derive(Default)]
struct Work {
    ready: VecDeque<Arc<Operation>>,
    /// Queues at which nobody waited when an operation could go on, and until when they have time to; the earliest first.
    unattended: VecDeque<(Instant, Arc<Queue>)>,
}

static EXECUTOR: Worker<Executor> = Worker::new();

/// Has the thread go on with an operation.
pub fn push(operation: Arc<Operation>) {
    let executor = EXECUTOR.get();
    executor.work.lock().ready.push_back(operation);
    executor.has_work.notify_one();
}

/// Has the thread go on with the operations of a queue, if nobody has come to wait there in a while: who submits many comes soon, and to
/// wake a thread for each of them would cost more than they do.
pub fn watch(queue: Arc<Queue>) {
    let executor = EXECUTOR.get();
    executor.work.lock().unattended.push_back((Instant::now() + PATIENCE, queue));
    executor.has_work.notify_one();
}

/// Starts the thread, if it does not run.
pub fn start() -> io::Result<()> {
    EXECUTOR.start("tyr-operations", Executor::run)
}

/// After a fork: the thread is the parent's.
pub fn forget() {
    EXECUTOR.forget();
}

impl Executor {
    fn run(&self) {
        let mut work = self.work.lock();
        loop {
            if let Some(operation) = work.ready.pop_front() {
                MutexGuard::unlocked(&mut work, || operation.go_on());
                continue;
            }
            match work.unattended.front() {
                Some((until, _)) if *until > Instant::now() => {
                    let until = *until;
                    // Whether it is late is seen above.
                    let _late = self.has_work.wait_until(&mut work, until);
                }
                Some(_) => {
                    let unattended = work.unattended.pop_front();
                    MutexGuard::unlocked(&mut work, || {
                        if let Some((_, queue)) = unattended {
                            queue.attend();
                        }
                    });
                }
                None => self.has_work.wait(&mut work),
            }
        }
    }
}

/// How long operations of a queue wait for somebody to wait there.
const PATIENCE: Duration = Duration::from_millis(1);
