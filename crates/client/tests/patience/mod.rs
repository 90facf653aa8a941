//! How long tests wait for what has to happen some time.

use std::time::{Duration, Instant};

/// Does something until that has come of it; fails if it has not after a long time.
pub fn until(what: &str, mut has_come: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(100);
    while !has_come() {
        assert!(Instant::now() < end, "{what} does not happen");
    }
}
