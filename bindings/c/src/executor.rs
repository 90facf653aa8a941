//! The thread that goes on with operations for which nobody waits, and calls callbacks.

use std::{
    collections::VecDeque,
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{operation::Operation, queue::Queue};

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

static CURRENT: AtomicPtr<Executor> = AtomicPtr::new(null_mut());

/// Has the thread go on with an operation.
pub fn push(operation: Arc<Operation>) {
    let executor = executor();
    executor.work.lock().ready.push_back(operation);
    executor.has_work.notify_one();
}

/// Has the thread go on with the operations of a queue, if nobody has come to wait there in a while: who submits many comes soon, and to
/// wake a thread for each of them would cost more than they do.
pub fn watch(queue: Arc<Queue>) {
    let executor = executor();
    executor.work.lock().unattended.push_back((Instant::now() + PATIENCE, queue));
    executor.has_work.notify_one();
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
