//! How often it is noted that somebody was told no: [`BURST`] times at once, and then once in [`EVERY`]. Otherwise whoever has a token could fill
//! the files with attempts until what was done is in none of them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tyr_proto::{Time, access::AccountId};

/// By who asked; none is who knows the secret.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<BTreeMap<Option<AccountId>, Budget>>);

#[derive(Debug)]
struct Budget {
    left: u64,
    /// When it was last added to.
    since: Time,
    omitted: u64,
}

impl Attempts {
    /// Whether another one is noted, and how many were not before it.
    pub fn note(&self, who: Option<AccountId>, now: Time) -> Option<u64> {
        let mut known = self.0.lock();
        let budget = known.entry(who).or_insert(Budget { left: BURST, since: now, omitted: 0 });
        let due = now.since(budget.since) / EVERY;
        budget.left = budget.left.saturating_add(due).min(BURST);
        budget.since = Time(budget.since.0 + due * EVERY);
        match budget.left.checked_sub(1) {
            Some(left) => {
                budget.left = left;
                Some(std::mem::take(&mut budget.omitted))
            }
            None => {
                budget.omitted += 1;
                None
            }
        }
    }
}

/// At once.
const BURST: u64 = 100;
/// Later, in microseconds: of each user some hundred kilobytes in a day.
const EVERY: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_on_trying_is_noted_now_and_then_and_counted() {
        let attempts = Attempts::default();
        let (ada, bob) = (Some(AccountId(1)), Some(AccountId(2)));
        let noted = (0..1000).filter(|at| attempts.note(ada, Time(*at)).is_some()).count() as u64;
        assert_eq!(noted, BURST);
        assert_eq!(attempts.note(bob, Time(1000)), Some(0), "others are noted");
        assert_eq!(attempts.note(ada, Time(EVERY)), Some(1000 - BURST));
        assert_eq!(attempts.note(ada, Time(EVERY)), None);
        let later = Time(EVERY * 10 * BURST);
        let noted = (0..1000).filter(|_| attempts.note(ada, later).is_some()).count() as u64;
        assert_eq!(noted, BURST, "and no more is saved up");
    }
}
