//! What a voter needs of the process that it runs in, and how openraft gets it.
//!
//! The functions have no receiver because openraft's have none: an implementation finds its runtime by the task that calls.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    ops::{Add, AddAssign, Sub, SubAssign},
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use openraft::{AsyncRuntime, async_runtime::AsyncOneshotSendExt};
use tokio::sync::oneshot;
use tyr_proto::Time;

/// Tasks, a clock, and random numbers.
pub trait Surroundings:
    Copy + Default + fmt::Debug + Ord + Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static
{
    /// A wait.
    type Sleep: Future<Output = ()> + Send + Sync + 'static;

    /// Runs a task beside the one that calls.
    fn spawn(task: impl Future<Output = ()> + Send + 'static);
    /// The node's monotonic clock.
    fn now() -> Time;
    /// Waits until the clock shows this.
    fn sleep_until(time: Time) -> Self::Sleep;
    /// A random number.
    fn random() -> u64;

    /// Waits for so many microseconds.
    fn sleep(micros: u64) -> Self::Sleep {
        Self::sleep_until(Self::now().after(micros))
    }
}

/// Openraft's view of the surroundings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RaftRuntime<S>(PhantomData<S>);

/// A moment of the node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment<S>(Time, PhantomData<S>);

impl<S: Surroundings> Moment<S> {
    fn from_time(time: Time) -> Self {
        Moment(time, PhantomData)
    }
}

impl<S: Surroundings> openraft::Instant for Moment<S> {
    fn now() -> Self {
        Moment::from_time(S::now())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl<S: Surroundings> Add<Duration> for Moment<S> {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Moment::from_time(self.0.after(micros(duration)))
    }
}

impl<S: Surroundings> AddAssign<Duration> for Moment<S> {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl<S: Surroundings> Sub<Duration> for Moment<S> {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Moment::from_time(Time(self.0.0.saturating_sub(micros(duration))))
    }
}

impl<S: Surroundings> Sub for Moment<S> {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.since(earlier.0))
    }
}

impl<S: Surroundings> SubAssign<Duration> for Moment<S> {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// The end of a task.
pub struct JoinHandle<T>(oneshot::Receiver<T>);

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// What was waited for took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it took too long")
    }
}

/// A future that is given up after a time.
pub struct Bounded<S: Surroundings, F> {
    future: Pin<Box<F>>,
    sleep: Pin<Box<S::Sleep>>,
}

impl<S: Surroundings, F: Future> Future for Bounded<S, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(value) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        self.sleep.as_mut().poll(context).map(|()| Err(Elapsed))
    }
}

/// Sends one value to one receiver.
pub struct OneshotSender<T>(oneshot::Sender<T>);

impl<T> fmt::Debug for OneshotSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneshotSender")
    }
}

impl<T: Send> AsyncOneshotSendExt<T> for OneshotSender<T> {
    fn send(self, value: T) -> Result<(), T> {
        self.0.send(value)
    }
}

/// Random numbers of the surroundings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random<S>(PhantomData<S>);

impl<S: Surroundings> rand_core::RngCore for Random<S> {
    fn next_u32(&mut self) -> u32 {
        u32::try_from(S::random() >> 32).expect("32 bits are left")
    }

    fn next_u64(&mut self) -> u64 {
        S::random()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        rand_core::impls::fill_bytes_via_next(self, bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl<S: Surroundings> AsyncRuntime for RaftRuntime<S> {
    type JoinError = oneshot::error::RecvError;
    type JoinHandle<T: Send + 'static> = JoinHandle<T>;
    type Sleep = S::Sleep;
    type Instant = Moment<S>;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + Send> = Bounded<S, T>;
    type ThreadLocalRng = Random<S>;
    type OneshotSender<T: Send> = OneshotSender<T>;
    type OneshotReceiver<T: Send> = oneshot::Receiver<T>;
    type OneshotReceiverError = oneshot::error::RecvError;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + Send + 'static,
        T::Output: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        S::spawn(async move {
            // Whoever does not wait for the end has dropped the receiver.
            let _unheard = sender.send(future.await);
        });
        JoinHandle(receiver)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        S::sleep(micros(duration))
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        S::sleep_until(deadline.0)
    }

    fn timeout<R, F: Future<Output = R> + Send>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        Self::timeout_at(Moment::from_time(S::now().after(micros(duration))), future)
    }

    fn timeout_at<R, F: Future<Output = R> + Send>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        Bounded { future: Box::pin(future), sleep: Box::pin(S::sleep_until(deadline.0)) }
    }

    fn is_panic(_: &Self::JoinError) -> bool {
        // A task that panics ends the process, or the test.
        false
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        Random(PhantomData)
    }

    fn oneshot<T: Send>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (OneshotSender(sender), receiver)
    }
}
