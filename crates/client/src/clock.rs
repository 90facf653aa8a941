//! The clock of a client: it counts from when the client began, also while the machine sleeps, since what is lent to it runs out meanwhile.

use std::time::Duration;

use tokio::time::Instant;
use tyr_proto::Time;

/// A clock; copies show the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    /// What the system's clock that counts sleep showed then; nothing if time is a simulator's.
    awake_or_not: Option<Duration>,
}

impl Clock {
    /// One that counts as the system's clocks do.
    pub fn real() -> Self {
        Clock { began: Instant::now(), awake_or_not: Some(since_boot()) }
    }

    /// One that counts the time of the runtime that this is called in.
    #[cfg(feature = "simulation")]
    pub fn simulated() -> Self {
        Clock { began: Instant::now(), awake_or_not: None }
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// What it shows at a moment, unless the machine sleeps until then.
    pub fn at(&self, moment: Instant) -> Time {
        let passed = moment.saturating_duration_since(self.began) + self.slept();
        Time(u64::try_from(passed.as_micros()).unwrap_or(u64::MAX))
    }

    /// For how long the machine has slept, in whole milliseconds: the two clocks are not read at the same moment.
    fn slept(&self) -> Duration {
        let Some(began) = self.awake_or_not else { return Duration::ZERO };
        let slept = since_boot().saturating_sub(began).saturating_sub(self.began.elapsed());
        Duration::from_millis(u64::try_from(slept.as_millis()).unwrap_or(u64::MAX))
    }
}

fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
