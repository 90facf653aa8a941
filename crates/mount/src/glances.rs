//! Glances at something else while something is awaited.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

/// Awaits something on this thread, and has a look each time that it has taken [`GLANCE`] longer. The look is told for how long it was awaited by then.
pub fn await_glancing<T>(work: impl Future<Output = T>, mut look: impl FnMut(Duration)) -> T {
    let mut work = pin!(work);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    let mut began = None;
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
        let began = *began.get_or_insert_with(Instant::now);
        while !bell.has_rung_within(GLANCE) {
            look(began.elapsed());
        }
    }
}

/// What is awaited has come on.
#[derive(Debug, Default)]
struct Bell {
    rings: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    /// Whether it has rung since it was asked last, or does so in time.
    fn has_rung_within(&self, time: Duration) -> bool {
        let mut rings = self.rings.lock();
        self.rung.wait_while_for(&mut rings, |rings| !*rings, time);
        std::mem::take(&mut *rings)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.rings.lock() = true;
        self.rung.notify_one();
    }
}

/// How long something is awaited between two looks.
pub const GLANCE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::{future, thread};

    use super::*;

    #[test]
    fn what_is_there_at_once_is_not_waited_for() {
        assert_eq!(await_glancing(async { 7 }, |_| unreachable!("it is there")), 7);
    }

    #[test]
    fn who_waits_looks_and_gets_what_he_waits_for() {
        let (waker, looks) = (Mutex::new(None::<Waker>), Mutex::new(Vec::new()));
        let work = future::poll_fn(|context| match looks.lock().len() {
            ..3 => {
                *waker.lock() = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready("done"),
        });
        let look = |waited| {
            looks.lock().push(waited);
            if looks.lock().len() == 3 {
                waker.lock().take().into_iter().for_each(Waker::wake);
            }
        };
        assert_eq!(await_glancing(work, look), "done");
        let looks = looks.into_inner();
        assert!(looks.len() == 3 && looks.is_sorted() && looks[0] >= GLANCE, "{looks:?}");
    }

    #[test]
    fn another_thread_wakes_who_waits() {
        let mut begun = false;
        let work = future::poll_fn(|context| {
            if std::mem::replace(&mut begun, true) {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        });
        await_glancing(work, drop);
    }
}
