//! Tasks, the clock, and random numbers of a real process.
//!
//! The clock is the system's monotonic one, and counts from when the process first asked. All servers of a process share it.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
    time::Duration,
};

use tokio::time::{Instant, Sleep};
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
        tokio::time::sleep_until(beginning() + Duration::from_micros(time.0))
    }

    fn random() -> u64 {
        random()
    }
}

/// What the clock shows.
pub(crate) fn now() -> Time {
    Time(u64::try_from(beginning().elapsed().as_micros()).unwrap_or(u64::MAX))
}

/// A random number: a hash under a key that the standard library draws from the system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// 128 random bits.
pub(crate) fn random_bits() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}

/// A moment before every other one that is asked for.
fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}
