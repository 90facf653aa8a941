//! Time that passes only when told to.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tyr_env::Clock;

/// A clock that starts at zero and is advanced by hand.
#[derive(Debug, Default)]
pub struct SimClock(Mutex<Duration>);

impl SimClock {
    /// A clock at zero.
    pub fn new() -> Arc<SimClock> {
        Arc::default()
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock();
        *now = now.saturating_add(by);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        *self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_when_advanced() {
        let clock = SimClock::new();
        assert_eq!((clock.now(), clock.now()), (Duration::ZERO, Duration::ZERO));
        clock.advance(Duration::from_secs(2));
        clock.advance(Duration::from_millis(1));
        assert_eq!(clock.now(), Duration::from_millis(2001));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Duration::MAX);
    }
}
