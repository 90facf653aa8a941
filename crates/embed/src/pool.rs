//! The threads that do what may block on behalf of asynchronous callers, and that tell them the time.
//!
//! Threads start when there is work and none is idle, up to a fixed number, and end when the pool is closed. Jobs start in
//! the order in which they came. A job that was handed over runs to its end, also if nobody awaits it any more; this is what
//! makes dropped futures safe. Jobs must not own the pool, so that the last owner can join the threads.

mod reply;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tyr_types::{Error, Result};

pub(crate) use reply::{Promise, promise};

type Job = Box<dyn FnOnce() + Send>;

/// A bounded number of threads for blocking work.
#[derive(Default)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notified when there is a job or a new earliest alarm, and at the end.
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    alarms: BinaryHeap<Reverse<Alarm>>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    closed: bool,
}

impl Pool {
    /// Runs the job on a thread of the pool.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (promise, reply) = promise();
        self.submit(Box::new(move || promise.keep(job())))?;
        let died = || Error::internal("an operation died on an I/O thread; please report it");
        reply.await.unwrap_or_else(|| Err(died()))
    }

    /// Returns at the deadline. Fails when the pool is closed, so that who would wait again does not.
    pub(crate) async fn sleep_until(&self, deadline: Instant) -> Result<()> {
        let (promise, reply) = promise();
        {
            let mut queue = self.shared.queue.lock();
            if queue.closed {
                return Err(closed());
            }
            queue.ensure_thread(&self.shared)?;
            queue.alarms.push(Reverse(Alarm { deadline, promise }));
        }
        self.shared.work.notify_one();
        reply.await;
        if self.shared.queue.lock().closed { Err(closed()) } else { Ok(()) }
    }

    fn submit(&self, job: Job) -> Result<()> {
        let mut queue = self.shared.queue.lock();
        if queue.closed {
            return Err(closed());
        }
        queue.ensure_thread(&self.shared)?;
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Runs the jobs that are queued, then ends the threads. Later jobs are refused.
    pub(crate) fn close(&self) {
        let threads = {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.threads)
        };
        self.shared.work.notify_all();
        threads.into_iter().for_each(join);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    fn ensure_thread(&mut self, shared: &Arc<Shared>) -> Result<()> {
        if self.idle > self.jobs.len() || self.threads.len() >= THREADS_MAX {
            return Ok(());
        }
        let shared = shared.clone();
        let spawned = std::thread::Builder::new().name("tyr-io".into()).spawn(move || shared.work());
        match spawned {
            Ok(thread) => self.threads.push(thread),
            // One thread is enough to get on.
            Err(_) if !self.threads.is_empty() => {}
            Err(error) => return Err(Error::unavailable(format!("cannot start an I/O thread: {error}"))),
        }
        Ok(())
    }

    /// Takes the alarms that are due. All are due when the pool is closed.
    fn due(&mut self) -> Vec<Alarm> {
        if self.alarms.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(Reverse(alarm)) = self.alarms.peek() {
            if alarm.deadline > now && !self.closed {
                break;
            }
            due.extend(self.alarms.pop().map(|Reverse(alarm)| alarm));
        }
        due
    }
}

impl Shared {
    /// What each thread does until the pool is closed.
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            let due = queue.due();
            let job = queue.jobs.pop_front();
            if due.is_empty() && job.is_none() {
                if queue.closed {
                    return;
                }
                queue.idle += 1;
                match queue.alarms.peek().map(|Reverse(alarm)| alarm.deadline) {
                    Some(deadline) => drop(self.work.wait_until(&mut queue, deadline)),
                    None => self.work.wait(&mut queue),
                }
                queue.idle -= 1;
                continue;
            }
            drop(queue);
            for alarm in due {
                alarm.promise.keep(());
            }
            if let Some(job) = job {
                // A job that panics breaks its promise, which its caller reports; the thread lives on for the others.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
            queue = self.queue.lock();
        }
    }
}

struct Alarm {
    deadline: Instant,
    promise: Promise<()>,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.deadline.cmp(&other.deadline)
    }
}

/// Joins a thread, unless it is this one: dropping the last reference to a task may drop a store on its own threads.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        // The threads catch the panics of what they run, so there is no result to look at.
        let _ = thread.join();
    }
}

#[cold]
pub(crate) fn closed() -> Error {
    Error::unavailable("the store is closed; open it again")
}

/// Enough to keep a fast device busy; the jobs wait for I/O, not for processors.
const THREADS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pollster::block_on;

    use super::*;

    #[test]
    fn jobs_run_and_deliver() {
        let pool = Pool::default();
        assert_eq!(block_on(pool.run(|| Ok(6 * 7))).unwrap(), 42);
    }

    #[test]
    fn a_job_that_panics_is_reported_and_the_pool_lives_on() {
        let pool = Pool::default();
        let died = block_on(pool.run(|| -> Result<()> { std::panic::resume_unwind(Box::new("planned")) }));
        assert_eq!(died.unwrap_err().kind(), tyr_types::ErrorKind::Internal);
        assert_eq!(block_on(pool.run(|| Ok(1))).unwrap(), 1);
    }

    #[test]
    fn more_jobs_than_threads_all_run() {
        let pool = Pool::default();
        let (sent, received) = std::sync::mpsc::channel();
        for n in 0..10 * THREADS_MAX {
            let sent = sent.clone();
            pool.submit(Box::new(move || sent.send(n).unwrap())).unwrap();
        }
        pool.close();
        drop(sent);
        let mut ran: Vec<usize> = received.iter().collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..10 * THREADS_MAX).collect::<Vec<_>>());
        assert!(pool.submit(Box::new(|| ())).is_err());
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines_and_when_the_pool_closes() {
        let pool = Pool::default();
        let start = Instant::now();
        let deadline = start + Duration::from_millis(2);
        block_on(pool.sleep_until(deadline)).unwrap();
        assert!(Instant::now() >= deadline);
        let far = Instant::now() + Duration::from_secs(3600);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| block_on(pool.sleep_until(far)));
            while pool.shared.queue.lock().alarms.is_empty() && !sleeper.is_finished() {
                std::thread::yield_now();
            }
            pool.close();
            assert!(sleeper.join().unwrap().is_err());
        });
        assert!(Instant::now() < far);
        assert!(block_on(pool.sleep_until(far)).is_err());
    }
}
