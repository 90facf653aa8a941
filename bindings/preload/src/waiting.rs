//! Waiting for a future on the thread that called.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Condvar, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use crate::session::lock;

/// Runs a future to its end. Nothing of the thread's own is used, which may be gone already: programs write what they have buffered when they
/// end.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        bell.wait();
    }
}

#[derive(Default)]
struct Bell {
    has_rung: Mutex<bool>,
    ringing: Condvar,
}

impl Bell {
    fn wait(&self) {
        let mut has_rung = lock(&self.has_rung);
        while !*has_rung {
            has_rung = self.ringing.wait(has_rung).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *has_rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *lock(&self.has_rung) = true;
        self.ringing.notify_one();
    }
}
