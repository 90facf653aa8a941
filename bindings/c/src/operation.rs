//! Operations: what a call begins and does not wait for.

use std::{
    ffi::{c_int, c_void},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    border, callbacks, executor,
    queue::{Ended, Queue},
    registry,
    status::{Failure, TYR_NOT_FOUND, TYR_OK},
    types::{tyr_async, tyr_operation},
};

type Doing = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// An operation under way.
pub(crate) struct Operation {
    stage: Mutex<Stage>,
    /// Whether somebody was told to go on with it.
    is_scheduled: AtomicBool,
    told: Told,
    handle: AtomicPtr<tyr_operation>,
}

enum Stage {
    Under(Doing),
    /// The callback is still to be called.
    Ended(Result<(), Failure>),
    Over,
}

/// Who is told when it has ended.
enum Told {
    Queue(Arc<Queue>, Given),
    Callback(unsafe extern "C" fn(*mut c_void, c_int), Given),
}

#[derive(Clone, Copy)]
struct Given(*mut c_void);

// SAFETY: it is only handed back to the program that gave it.
unsafe impl Send for Given {}
// SAFETY: as above.
unsafe impl Sync for Given {}

/// Does what a call asks for: to its end if the caller waits, else as far as it goes at once.
#[inline(always)]
pub(crate) fn perform(
    how: *mut tyr_async,
    doing: impl Future<Output = Result<(), Failure>> + 'static,
) -> Result<(), Failure> {
    if how.is_null() {
        return wait(doing);
    }
    begin(how, Box::pin(Movable(doing)))
}

/// Waits for what is done. In a directory it is done when it is first polled, so that nobody is to be woken.
#[inline(always)]
pub(crate) fn wait<T>(doing: impl Future<Output = T>) -> T {
    let mut doing = pin!(doing);
    match doing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => pollster::block_on(doing),
    }
}

/// A future that may go to other threads.
///
/// The client's futures may, and so may all else that those of this crate own. Some are of async closures that borrow, of which the
/// compiler cannot tell it.
struct Movable<F>(F);

// SAFETY: as above; nothing in this crate is bound to a thread.
unsafe impl<F: 'static> Send for Movable<F> {}

impl<F: Future> Future for Movable<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned as the whole is, and never moved out.
        unsafe { self.map_unchecked_mut(|movable| &mut movable.0) }.poll(context)
    }
}

fn begin(how: *mut tyr_async, mut doing: Doing) -> Result<(), Failure> {
    // SAFETY: it is not null; the caller says that it is one.
    let asked = unsafe { &mut *how };
    let context = Given(asked.context);
    executor::start().and_then(|()| callbacks::start()).map_err(|error| Failure {
        status: crate::status::TYR_UNAVAILABLE,
        message: format!("cannot start a thread: {error}"),
    })?;
    let told = match asked.callback {
        _ if !asked.queue.is_null() => {
            let queue = registry::find::<Queue>(asked.queue)?;
            // What is done at once needs no operation.
            if let Some(result) = go_on(&mut doing, Waker::noop()) {
                drop(doing);
                asked.operation = OVER;
                queue.end_at_once(Ended { context: context.0, operation: OVER, result });
                return Ok(());
            }
            queue.begin()?;
            Told::Queue(queue.arc(), context)
        }
        Some(callback) => Told::Callback(callback, context),
        None => {
            return Err(Failure::invalid("an operation that is not waited for needs a queue or a callback"));
        }
    };
    let operation = Arc::new(Operation {
        stage: Mutex::new(Stage::Under(doing)),
        is_scheduled: AtomicBool::new(true),
        told,
        handle: AtomicPtr::default(),
    });
    let handle = registry::insert(operation.clone());
    operation.handle.store(handle, Ordering::Release);
    asked.operation = handle;
    operation.go_on();
    Ok(())
}

/// Goes on with what is done; how it ended, if it has.
fn go_on(doing: &mut Doing, waker: &Waker) -> Option<Result<(), Failure>> {
    let polled = AssertUnwindSafe(|| doing.as_mut().poll(&mut Context::from_waker(waker)));
    match catch_unwind(polled) {
        Ok(Poll::Pending) => None,
        Ok(Poll::Ready(result)) => Some(result),
        Err(panic) => {
            std::mem::forget(panic);
            Some(Err(Failure::panicked()))
        }
    }
}

/// The handle of an operation that was over at once. No handle has no generation.
const OVER: *mut tyr_operation = std::ptr::without_provenance_mut(1);

impl Operation {
    /// Goes on with it.
    pub fn go_on(self: &Arc<Self>) {
        self.is_scheduled.store(false, Ordering::Release);
        let mut stage = self.stage.lock();
        if let Stage::Under(doing) = &mut *stage
            && let Some(result) = go_on(doing, &Waker::from(self.clone()))
        {
            self.end(stage, result);
        }
    }

    /// Ends it, which happens once. What it does is dropped before anybody is told, so that nothing of the caller's is touched afterwards.
    fn end(self: &Arc<Self>, mut stage: MutexGuard<'_, Stage>, result: Result<(), Failure>) {
        match &self.told {
            Told::Queue(queue, context) => {
                *stage = Stage::Over;
                drop(stage);
                queue.end(Ended { context: context.0, operation: self.leave(), result });
            }
            Told::Callback(..) => {
                *stage = Stage::Ended(result);
                drop(stage);
                callbacks::push(self.clone());
            }
        }
    }

    /// Calls the callback, if that is still to be done.
    pub fn call_back(&self) {
        let stage = std::mem::replace(&mut *self.stage.lock(), Stage::Over);
        let (Stage::Ended(result), Told::Callback(callback, context)) = (stage, &self.told) else { return };
        self.leave();
        let status = result.map_or_else(Failure::keep, |()| TYR_OK);
        // SAFETY: the program says that it can be called, once, with its context.
        unsafe { callback(context.0, status) };
    }

    /// Gives up its handle, and returns it for who is told of it.
    fn leave(&self) -> *mut tyr_operation {
        let handle = self.handle.load(Ordering::Acquire);
        // It is there: only this removes it.
        let _was_there = registry::remove::<Operation>(handle);
        handle
    }

    /// Has somebody go on with it.
    fn schedule(self: &Arc<Self>) {
        if self.is_scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        match &self.told {
            Told::Queue(queue, _) => queue.schedule(self.clone()),
            Told::Callback(..) => executor::push(self.clone()),
        }
    }

    fn cancel(self: &Arc<Self>) -> Result<(), Failure> {
        let stage = self.stage.lock();
        if !matches!(&*stage, Stage::Under(_)) {
            return Err(over());
        }
        self.end(stage, Err(Failure::cancelled()));
        Ok(())
    }
}

impl Wake for Operation {
    fn wake(self: Arc<Self>) {
        self.schedule();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.schedule();
    }
}

#[cold]
fn over() -> Failure {
    Failure { status: TYR_NOT_FOUND, message: "the operation is over".into() }
}

/// Cancels an operation. It ends with `TYR_CANCELLED`, and is told of like any other; its buffers and results are not touched any
/// more when this returns. What it was to change happened as a whole or not at all. Fails with `TYR_NOT_FOUND` if it is over.
///
/// @param operation What `tyr_async` was told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tyr_cancel(operation: *mut tyr_operation) -> c_int {
    border::call(|| match registry::find::<Operation>(operation) {
        Ok(operation) => operation.arc().cancel(),
        Err(failure) if operation.is_null() => Err(failure),
        Err(_) => Err(over()),
    })
}
