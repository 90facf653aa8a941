//! How an operation waits: on the calling thread, or by handing over what may block.
//!
//! Every operation is written once, as an `async fn` that waits only through the functions here. For a blocking caller they
//! block and are ready at once, so that its future never pends and one poll runs it to the end: no executor, no hand-off.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use event_listener::{EventListener, Listener};
use tyr_store::{Miss, Ticket, Wait};
use tyr_types::{Error, Result};

use crate::pool::Pool;

/// How the caller wants to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Never on the calling thread.
    Async,
    /// On the calling thread.
    Blocking,
}

/// The engine, and the threads for those who must not block in it.
pub(crate) struct Waiting {
    pub(crate) engine: Arc<tyr_store::Store>,
    pub(crate) pool: Pool,
}

impl Mode {
    pub(crate) fn wait(self) -> Wait {
        match self {
            Mode::Async => Wait::Never,
            Mode::Blocking => Wait::Allowed,
        }
    }
}

impl Waiting {
    /// Runs an operation here if it need not block or may, else on the pool.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        mode: Mode,
        mut op: impl FnMut(&tyr_store::Store, Wait) -> Result<T, Miss> + Send + 'static,
    ) -> Result<T> {
        match op(&self.engine, mode.wait()) {
            Err(Miss::WouldBlock) if mode == Mode::Async => {
                let engine = self.engine.clone();
                self.pool.run(move || op(&engine, Wait::Allowed).map_err(failure)).await
            }
            result => result.map_err(failure),
        }
    }

    /// Runs an operation that always may block.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        mode: Mode,
        op: impl FnOnce(&tyr_store::Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match mode {
            Mode::Blocking => op(&self.engine),
            Mode::Async => {
                let engine = self.engine.clone();
                self.pool.run(move || op(&engine)).await
            }
        }
    }

    /// Waits until a commit is as durable as its keyspaces ask for.
    pub(crate) async fn settle(&self, mode: Mode, mut ticket: Ticket) -> Result<()> {
        match mode {
            Mode::Blocking => ticket.wait(),
            Mode::Async => poll_fn(|cx| ticket.poll(cx)).await,
        }
    }

    /// Waits until the deadline. Fails if the store is closed, for which a blocking caller does not look.
    pub(crate) async fn sleep_until(&self, mode: Mode, deadline: Instant) -> Result<()> {
        match mode {
            Mode::Blocking => {
                std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
                Ok(())
            }
            Mode::Async => self.pool.sleep_until(deadline).await,
        }
    }

    /// Waits for a notification, at most until the deadline. Fails as [`Waiting::sleep_until`] does.
    pub(crate) async fn listen_until(
        &self,
        mode: Mode,
        mut listener: EventListener,
        deadline: Instant,
    ) -> Result<()> {
        if mode == Mode::Blocking {
            // Whether notified or too late, the caller looks again.
            let _ = listener.wait_deadline(deadline);
            return Ok(());
        }
        let mut alarm = pin!(self.pool.sleep_until(deadline));
        poll_fn(|cx| match pin!(&mut listener).poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => alarm.as_mut().poll(cx),
        })
        .await
    }
}

/// Runs the future of a blocking caller.
pub(crate) fn run_to_end<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("what a blocking caller waits for blocks instead of pending"),
    }
}

/// The error of a call that was allowed to block.
pub(crate) fn failure(miss: Miss) -> Error {
    match miss {
        Miss::Failed(error) => error,
        Miss::WouldBlock => Error::internal("the engine would block although it may; please report it"),
    }
}
