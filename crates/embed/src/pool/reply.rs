//! A value that one thread promises and one task awaits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A promise, and the future of what is promised. Dropping the promise unkept resolves the future to `None`.
pub(crate) fn promise<T>() -> (Promise<T>, Reply<T>) {
    let slot = Arc::new(Mutex::new(Slot { state: State::Pending, waker: None }));
    (Promise(slot.clone()), Reply(slot))
}

pub(crate) struct Promise<T>(Arc<Mutex<Slot<T>>>);

pub(crate) struct Reply<T>(Arc<Mutex<Slot<T>>>);

struct Slot<T> {
    state: State<T>,
    waker: Option<Waker>,
}

enum State<T> {
    Pending,
    Kept(T),
    Broken,
}

impl<T> Promise<T> {
    pub(crate) fn keep(self, value: T) {
        self.resolve(State::Kept(value));
    }

    fn resolve(&self, state: State<T>) {
        let mut slot = self.0.lock();
        if !matches!(slot.state, State::Pending) {
            return;
        }
        slot.state = state;
        let waker = slot.waker.take();
        // A waker runs foreign code, which may come back to this slot.
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.resolve(State::Broken);
    }
}

impl<T> Future for Reply<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.lock();
        match std::mem::replace(&mut slot.state, State::Broken) {
            State::Kept(value) => Poll::Ready(Some(value)),
            State::Broken => Poll::Ready(None),
            State::Pending => {
                slot.state = State::Pending;
                match &mut slot.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_kept_promise_wakes_the_task_once_and_delivers() {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let mut cx = Context::from_waker(&waker);
        let (promise, mut reply) = promise();
        assert!(Pin::new(&mut reply).poll(&mut cx).is_pending());
        promise.keep(7);
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(Pin::new(&mut reply).poll(&mut cx), Poll::Ready(Some(7)));
    }

    #[test]
    fn a_dropped_promise_resolves_to_nothing() {
        let (promise, mut reply) = promise::<u8>();
        drop(promise);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut reply).poll(&mut cx), Poll::Ready(None));
    }
}
