//! When to say again what was said and not answered, or was refused through no fault of its own.

use crate::{Refusal, Time, TransactionId};

/// How often something was said, and when last. Each time without an answer the next is waited for twice as long: what is not answered
/// may just as well wait its turn, and saying it again makes that wait longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tries {
    at: Time,
    count: u32,
}

/// The wait doubles so many times.
const DOUBLINGS_MAX: u32 = 4;

impl Tries {
    /// Said for the first time, or to somebody else, or with progress since.
    pub fn first(at: Time) -> Self {
        Tries { at, count: 0 }
    }

    /// Whether it is to be said again, which the first time it is after `after` microseconds.
    pub fn is_due(self, now: Time, after: u64) -> bool {
        now.since(self.at) >= self.wait(after)
    }

    /// It is said again.
    pub fn again(&mut self, at: Time) {
        (self.at, self.count) = (at, self.count.saturating_add(1));
    }

    /// The wait for an answer begins anew.
    pub fn waits_from(&mut self, at: Time) {
        self.at = at;
    }

    /// For how many microseconds an answer is waited for.
    fn wait(self, after: u64) -> u64 {
        after << self.count.min(DOUBLINGS_MAX)
    }

    /// How often it was said again.
    pub fn count(self) -> u32 {
        self.count
    }

    /// From when on it is due.
    pub fn due_at(self, after: u64) -> Time {
        self.at.after(self.wait(after))
    }
}

/// How long what was refused is not sent again, each time under another id. A failure passes, so that is asked for at once. For room it waits longer each time, and
/// not as long as others: who all want more together than there is room for would otherwise come back at the same moment for ever, each with enough
/// to keep the others out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How often there was no room.
    crowded: u32,
}

/// What was refused is sent again after so many microseconds. For want of room after up to twice as many,
const PAUSE: u64 = 10_000;
/// and that doubles so many times.
const PAUSE_DOUBLINGS_MAX: u32 = 5;

impl Pauses {
    /// For how many microseconds after this refusal.
    pub fn next(&mut self, id: TransactionId, refusal: Refusal) -> u64 {
        if refusal != Refusal::Busy {
            return PAUSE;
        }
        let least = PAUSE << self.crowded.min(PAUSE_DOUBLINGS_MAX);
        self.crowded = self.crowded.saturating_add(1);
        least + spread(id) % least
    }
}

/// A number that neighbours do not share: the last step of splitmix64 (G. L. Steele et al., "Fast splittable pseudorandom number generators", 2014).
fn spread(id: TransactionId) -> u64 {
    let mixed = id.session.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id.sequence;
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RingVersion, SessionId};

    #[test]
    fn who_finds_no_room_waits_longer_each_time_and_not_as_long_as_others() {
        let id = |session, sequence| TransactionId {
            session: SessionId(session),
            sequence,
            birth: RingVersion(1),
        };
        let mut pauses = Pauses::default();
        for least in [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 320_000] {
            assert_eq!(pauses.next(id(1, 1), Refusal::Fenced), 10_000, "a failure passes");
            let pause = pauses.next(id(1, least), Refusal::Busy);
            assert!((least..2 * least).contains(&pause), "{pause} after {least}");
        }
        let first = |session| Pauses::default().next(id(session, 7), Refusal::Busy) / 1_000;
        let drawn: alloc::collections::BTreeSet<u64> = (1..=20).map(first).collect();
        assert!(drawn.len() > 5, "twenty clients come back at different times: {drawn:?}");
    }

    #[test]
    fn each_wait_is_twice_as_long_up_to_a_bound() {
        let mut tries = Tries::first(Time(100));
        let mut waits = alloc::vec::Vec::new();
        for _ in 0..6 {
            let (said_at, due_at) = (tries.at, tries.due_at(10));
            assert!(!tries.is_due(Time(due_at.0 - 1), 10) && tries.is_due(due_at, 10));
            waits.push(due_at.since(said_at));
            tries.again(due_at);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 160]);
    }
}
