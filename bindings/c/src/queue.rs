//! Completion queues: operations end there, and who waits goes on with them.

use std::{
    cell::RefCell,
    collections::VecDeque,
    ffi::{CString, c_int, c_void},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    border, executor,
    memory::Out,
    operation::Operation,
    registry,
    status::{Failure, TYR_OK},
    types::{tyr_event, tyr_operation, tyr_queue},
};

/// A queue.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    has_some: Condvar,
}

#[derive(Default)]
struct State {
    ended: VecDeque<Ended>,
    /// Those that can go on.
    ready: VecDeque<Arc<Operation>>,
    under_way: usize,
    /// Who waits, and of these who sleeps. Each counts for itself, whoever or whatever wakes it.
    waiting: usize,
    sleeping: usize,
    is_freed: bool,
    /// Whether the library's thread looks after what is ready.
    is_watched: bool,
    /// Whether somebody has waited here since it last did.
    was_waited_at: bool,
}

/// An operation that has ended.
pub(crate) struct Ended {
    pub context: *mut c_void,
    pub operation: *mut tyr_operation,
    pub result: Result<(), Failure>,
}

// SAFETY: the pointers are only handed back to the program.
unsafe impl Send for Ended {}

impl Queue {
    /// One more is under way.
    pub fn begin(&self) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if state.is_freed {
            return Err(freed());
        }
        state.under_way += 1;
        Ok(())
    }

    /// One has ended that never was under way.
    pub fn end_at_once(&self, ended: Ended) {
        let mut state = self.state.lock();
        state.ended.push_back(ended);
        self.wake(state);
    }

    /// One has ended.
    pub fn end(&self, ended: Ended) {
        let mut state = self.state.lock();
        state.under_way -= 1;
        state.ended.push_back(ended);
        self.wake(state);
    }

    /// One can go on: who waits here does that, or the library's thread if nobody comes.
    pub fn schedule(self: &Arc<Self>, operation: Arc<Operation>) {
        let mut state = self.state.lock();
        state.ready.push_back(operation);
        if state.waiting > 0 {
            self.wake(state);
        } else if !state.is_watched {
            state.is_watched = true;
            drop(state);
            executor::watch(self.clone());
        }
    }

    /// Wakes one who sleeps, when the lock is open: one who woke to find it closed would go to sleep again.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let is_somebody_asleep = state.sleeping > 0;
        drop(state);
        if is_somebody_asleep {
            self.has_some.notify_one();
        }
    }

    /// Goes on with what can, if nobody waits here.
    pub fn attend(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_watched = false;
        if state.waiting > 0 || state.ready.is_empty() {
            return;
        }
        if std::mem::take(&mut state.was_waited_at) {
            // Who comes often comes again.
            state.is_watched = true;
            drop(state);
            return executor::watch(self.clone());
        }
        let ready = std::mem::take(&mut state.ready);
        drop(state);
        ready.into_iter().for_each(|operation| operation.go_on());
    }

    fn wait(
        self: &Arc<Self>,
        max: usize,
        until: Option<Instant>,
        tell: impl FnMut(Ended),
    ) -> Result<(), Failure> {
        let mut state = self.state.lock();
        state.waiting += 1;
        state.was_waited_at = true;
        let mut is_late = false;
        loop {
            // All that can go on, before anything is told: what ends together is told together.
            while !state.ready.is_empty() {
                let ready = std::mem::take(&mut state.ready);
                drop(state);
                ready.into_iter().for_each(|operation| operation.go_on());
                state = self.state.lock();
            }
            if !state.ended.is_empty() || state.is_freed || is_late {
                break;
            }
            state.sleeping += 1;
            match until {
                Some(until) => is_late = self.has_some.wait_until(&mut state, until).timed_out(),
                None => self.has_some.wait(&mut state),
            }
            state.sleeping -= 1;
        }
        state.waiting -= 1;
        let count = max.min(state.ended.len());
        state.ended.drain(..count).for_each(tell);
        let is_freed = state.is_freed;
        if state.waiting == 0 {
            if !state.ready.is_empty() && !state.is_watched {
                state.is_watched = true;
                drop(state);
                executor::watch(self.clone());
            }
        } else if !state.ended.is_empty() || !state.ready.is_empty() {
            // What this one was woken for may be another one's.
            self.wake(state);
        }
        if is_freed { Err(freed()) } else { Ok(()) }
    }
}

#[cold]
fn freed() -> Failure {
    Failure::invalid("the queue was freed")
}

thread_local! {
    /// The texts of the events that were told last.
    static MESSAGES: RefCell<Vec<CString>> = const { RefCell::new(Vec::new()) };
}

/// Makes a queue, at which operations end that were begun with it.
///
/// @param queue Where its handle goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_queue_create(queue: *mut *mut tyr_queue) -> c_int {
    border::call(|| {
        let out = Out::required(queue)?;
        out.put(registry::insert(Arc::new(Queue::default())));
        Ok(())
    })
}

/// Frees a queue. Who waits at it is told `TYR_INVALID`. Fails with `TYR_INVALID` as long as operations that end there are under way:
/// wait for them, or cancel them, first.
///
/// @param queue The queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_queue_free(queue: *mut tyr_queue) -> c_int {
    border::call(|| {
        let found = registry::find::<Queue>(queue)?;
        let mut state = found.state.lock();
        if state.under_way > 0 {
            let count = state.under_way;
            return Err(Failure::invalid(format!(
                "{count} operations of the queue are under way; wait for them, or cancel them, first"
            )));
        }
        state.is_freed = true;
        drop(state);
        found.has_some.notify_all();
        registry::remove::<Queue>(queue).map(drop)
    })
}

/// Waits until operations have ended, and tells which. Threads may wait at one queue together.
///
/// @param queue The queue.
/// @param events Where they go.
/// @param max How many there is room for.
/// @param timeout_ms How long to wait for the first one, in milliseconds; below zero for ever.
/// @param count How many they are: none if none ended in time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_queue_wait(
    queue: *mut tyr_queue,
    events: *mut tyr_event,
    max: usize,
    timeout_ms: i64,
    count: *mut usize,
) -> c_int {
    border::call(|| {
        let out = Out::required(count)?;
        let found = registry::find::<Queue>(queue)?.arc();
        if events.is_null() || max == 0 {
            return Err(Failure::invalid("there is no room for events"));
        }
        let until = u64::try_from(timeout_ms).ok();
        // A time that no clock reaches is for ever.
        let until = until.and_then(|timeout| Instant::now().checked_add(Duration::from_millis(timeout)));
        MESSAGES.with_borrow_mut(|messages| {
            messages.clear();
            let mut told = 0;
            let tell = |ended: Ended| {
                let (status, message) = match ended.result {
                    Ok(()) => (TYR_OK, c"".as_ptr()),
                    Err(failure) => {
                        let text = failure.text();
                        let message = text.as_ptr();
                        messages.push(text);
                        (failure.status, message)
                    }
                };
                let Ended { context, operation, .. } = ended;
                let event = tyr_event { context, operation, status, message };
                // SAFETY: there are at most as many as the caller has room for.
                unsafe { events.add(told).write(event) };
                told += 1;
            };
            found.wait(max, until, tell)?;
            out.put(told);
            Ok(())
        })
    })
}
