//! How long another guest has said nothing, as far as this client could hear it.

use std::time::{Duration, Instant};

/// The silence of a guest.
///
/// Only time in which its blob was read again and again counts: who could read nothing for a while, be it that the cluster was away or that this process
/// was stopped, knows of nobody that he was silent, and waits anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    /// What it said last.
    beat: u64,
    since: Instant,
    /// When its blob was read last.
    read: Instant,
}

impl Silence {
    /// It was found to say this.
    pub fn new(beat: u64, now: Instant) -> Self {
        Silence { beat, since: now, read: now }
    }

    /// It says this now. Whether it has said nothing else for so long.
    pub fn lasts(&mut self, beat: u64, now: Instant, patience: Duration) -> bool {
        if beat != self.beat || now.saturating_duration_since(self.read) > GAP_MAX {
            *self = Silence::new(beat, now);
            return false;
        }
        self.read = self.read.max(now);
        now.saturating_duration_since(self.since) >= patience
    }
}

/// Who reads less often than this may have missed something. Guests read each second.
const GAP_MAX: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    /// One that said something first at the beginning, and what is asked of it so many seconds later.
    fn begun() -> (Silence, impl Fn(&mut Silence, u64, u64) -> bool) {
        let (began, patience) = (Instant::now(), Duration::from_secs(5));
        let lasts = move |silence: &mut Silence, beat, second| {
            silence.lasts(beat, began + Duration::from_secs(second), patience)
        };
        (Silence::new(1, began), lasts)
    }

    #[test]
    fn silence_lasts_from_the_last_word_on() {
        let (mut silence, lasts) = begun();
        assert!((1..5).all(|second| !lasts(&mut silence, 1, second)));
        assert!(!lasts(&mut silence, 2, 5));
        assert!((6..10).all(|second| !lasts(&mut silence, 2, second)));
        assert!((10..20).all(|second| lasts(&mut silence, 2, second)));
    }

    #[test]
    fn who_could_hear_nothing_waits_anew() {
        let (mut silence, lasts) = begun();
        assert!(!lasts(&mut silence, 1, 2));
        // The cluster was away: the other one could say as little as was heard.
        assert!(!lasts(&mut silence, 1, 60));
        assert!((61..65).all(|second| !lasts(&mut silence, 1, second)));
        assert!(lasts(&mut silence, 1, 65));
    }
}
