//! Tasks, the clock, and random numbers of a real process.
//!
//! The clock is the system's monotonic one that also counts while the machine sleeps: a lease runs out meanwhile, for the others do not sleep.
//! It counts from when the process first asked. All servers of a process share it.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
    time::Duration,
};

use tokio::time::Sleep;
use tyr_manager::Surroundings;
use tyr_proto::Time;

/// The surroundings of whatever runs in a tokio runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Here;

impl Surroundings for Here {
    type Sleep = Sleep;

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    fn now() -> Time {
        now()
    }

    fn sleep_until(time: Time) -> Sleep {
        tokio::time::sleep(Duration::from_micros(time.since(now())))
    }

    fn random() -> u64 {
        random()
    }
}

/// What the clock shows.
pub(crate) fn now() -> Time {
    static BEGINNING: OnceLock<u64> = OnceLock::new();
    let shown = clock();
    // Never zero, which is before everything.
    Time(shown.saturating_sub(*BEGINNING.get_or_init(|| shown)) + 1)
}

/// The system's clock, in microseconds.
fn clock() -> u64 {
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).expect("the clock counts from when the machine was started");
    let nanos = u64::try_from(time.tv_nsec).expect("a part of a second is not negative");
    seconds * 1_000_000 + nanos / 1_000
}

/// What the clock on the wall shows, for people, in milliseconds since 1970. It may be set, and nothing is decided by it.
pub(crate) fn wall_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A random number: a hash under a key that the standard library draws from the system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// 128 random bits.
pub(crate) fn random_bits() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
