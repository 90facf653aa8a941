//! The machine's monotonic clock.

use std::time::{Duration, Instant};

use tyr_env::Clock;

/// Time since the clock was made, unmoved by changes of the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct OsClock(Instant);

impl OsClock {
    /// A clock that starts at zero now.
    pub fn new() -> Self {
        OsClock(Instant::now())
    }
}

impl Default for OsClock {
    fn default() -> Self {
        OsClock::new()
    }
}

impl Clock for OsClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_advances_and_never_goes_back() {
        let clock = OsClock::default();
        let start = clock.now();
        let mut last = start;
        while last == start {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
