//! What the other guests said last, and whose words are read next.
//!
//! If each guest read the words of all others every second, that would be as many reads as the square of their number. So a guest reads those
//! of its [`NEIGHBOURS`], the guests before it in the ring of all numbers, of those that it suspects to be silent, and of [`EACH`] others in
//! turn. Who falls silent is noticed by its neighbours as soon as if all listened; where they have gone as well, by whoever comes to it in
//! turn. What was said earlier of orphans and departures stays true, so that an old word only lets them wait longer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    guest::{BEAT, Said, Seen},
    silence::Silence,
};

/// The words of the guests that this one knows of.
#[derive(Debug, Default)]
pub(crate) struct Words {
    heard: BTreeMap<u64, Heard>,
    /// Whose turn is over.
    last: u64,
}

#[derive(Debug)]
struct Heard {
    seen: Seen,
    /// When this word of it was read first.
    since: Instant,
    silence: Silence,
    /// Whether it had said nothing else when it was read last, though it had the time.
    is_suspect: bool,
}

impl Words {
    /// Whose words are to be read now, by the guest `me`, of all that there are, in ascending order; all others are forgotten.
    pub fn turn(&mut self, me: Option<u64>, guests: &[u64]) -> Vec<u64> {
        self.heard.retain(|guest, _| guests.binary_search(guest).is_ok());
        let others: Vec<u64> = guests.iter().copied().filter(|guest| Some(*guest) != me).collect();
        if others.len() <= NEIGHBOURS + EACH {
            return others;
        }
        // Those before `me`, the next one first; who is no guest has no neighbours.
        let start = others.partition_point(|other| *other < me.unwrap_or(0));
        let before = || others[..start].iter().rev().chain(others[start..].iter().rev()).copied();
        let is_suspect = |other: &u64| self.heard.get(other).is_some_and(|heard| heard.is_suspect);
        let neighbours = before().take(if me.is_some() { NEIGHBOURS } else { 0 });
        let mut read: BTreeSet<u64> =
            neighbours.chain(before().filter(is_suspect).take(SUSPECTS_MAX)).collect();
        let next = others.partition_point(|other| *other <= self.last);
        let in_turn: Vec<u64> = others[next..].iter().chain(&others[..next]).copied().take(EACH).collect();
        self.last = in_turn.last().copied().unwrap_or(0);
        read.extend(in_turn);
        read.into_iter().collect()
    }

    /// A guest's word was read. Returns whether it has said nothing else for so long.
    pub fn hear(&mut self, guest: u64, seen: Seen, now: Instant, patience: Duration) -> bool {
        let Some(heard) = self.heard.get_mut(&guest) else {
            let silence = Silence::new(seen.beat, now);
            self.heard.insert(guest, Heard { seen, since: now, silence, is_suspect: false });
            return false;
        };
        let is_over = heard.silence.lasts(seen.beat, now, patience);
        if heard.seen.beat != seen.beat {
            (heard.seen, heard.since) = (seen, now);
        }
        heard.is_suspect = now.saturating_duration_since(heard.since) >= 2 * BEAT;
        is_over
    }

    /// A guest is none any more.
    pub fn forget(&mut self, guest: u64) {
        self.heard.remove(&guest);
    }

    /// What these have said last, as far as that was heard; the others may hold everything, and have read of nothing.
    pub fn said(&self, guests: impl IntoIterator<Item = u64>) -> Vec<Said> {
        let said = |guest| {
            let seen = self.heard.get(&guest).map(|heard| heard.seen.clone()).unwrap_or_default();
            Said { guest, seen }
        };
        guests.into_iter().map(said).collect()
    }
}

/// After how many beats at the latest a guest reads a new word of each of so many others; none if it reads all of them at each.
pub(crate) fn beats_until_all(others: usize) -> u32 {
    match others <= NEIGHBOURS + EACH {
        true => 0,
        false => u32::try_from(others.div_ceil(EACH)).unwrap_or(u32::MAX),
    }
}

/// So many guests each one reads every second,
const NEIGHBOURS: usize = 3;
/// and so many others in turn,
const EACH: usize = 5;
/// and of those that may be silent at most so many.
const SUSPECTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::PATIENCE;

    fn seen(beat: u64) -> Seen {
        Seen { beat, ..Seen::default() }
    }

    /// What a guest of these reads in each of so many seconds, if all others speak but those that are `silent`; and who is overdue when.
    fn listens(
        me: Option<u64>,
        guests: &[u64],
        silent: &[u64],
        seconds: u64,
    ) -> (Vec<Vec<u64>>, BTreeMap<u64, u64>) {
        let (mut words, began) = (Words::default(), Instant::now());
        let (mut read, mut overdue) = (Vec::new(), BTreeMap::new());
        for second in 0..seconds {
            let turn = words.turn(me, guests);
            for guest in &turn {
                let beat = if silent.contains(guest) { 0 } else { second };
                if words.hear(*guest, seen(beat), began + Duration::from_secs(second), PATIENCE) {
                    overdue.entry(*guest).or_insert(second);
                }
            }
            read.push(turn);
        }
        (read, overdue)
    }

    #[test]
    fn a_few_guests_all_listen_to_all() {
        let guests: Vec<u64> = (1..=9).collect();
        let (read, overdue) = listens(Some(4), &guests, &[7], 20);
        assert!(read.iter().all(|turn| *turn == [1, 2, 3, 5, 6, 7, 8, 9]));
        assert_eq!((overdue, beats_until_all(8)), (BTreeMap::from([(7, 15)]), 0));
    }

    #[test]
    fn each_of_many_is_heard_in_turn_and_neighbours_always() {
        let guests: Vec<u64> = (0..100).map(|guest| 10 * guest + 3).collect();
        for me in [3, 23, 503, 993] {
            let (read, overdue) = listens(Some(me), &guests, &[], 20);
            assert!(read.iter().all(|turn| turn.len() <= NEIGHBOURS + EACH && !turn.contains(&me)));
            let position = guests.iter().position(|guest| *guest == me).unwrap_or(0);
            for distance in 1..=NEIGHBOURS {
                let neighbour = guests[(position + 100 - distance) % 100];
                assert!(read.iter().all(|turn| turn.contains(&neighbour)), "{neighbour} before {me}");
            }
            let all: BTreeSet<u64> = read.into_iter().flatten().collect();
            assert_eq!((all.len(), beats_until_all(99)), (99, 20));
            assert_eq!(overdue, BTreeMap::new());
        }
    }

    #[test]
    fn a_silent_neighbour_is_overdue_as_soon_as_ever() {
        let guests: Vec<u64> = (0..100).collect();
        let (_, overdue) = listens(Some(1), &guests, &[99], 20);
        assert_eq!(overdue.get(&99), Some(&15));
    }

    #[test]
    fn who_comes_to_a_silent_one_in_turn_listens_to_it_from_then_on() {
        let guests: Vec<u64> = (0..50).collect();
        let (read, overdue) = listens(None, &guests, &[22], 40);
        let first = read.iter().position(|turn| turn.contains(&22)).map(|at| at as u64);
        // It is suspected when it is read again, ten seconds later, and overdue when nothing else was read for so long.
        assert_eq!((first, overdue), (Some(4), BTreeMap::from([(22, 4 + 10 + 15)])));
    }

    #[test]
    fn of_many_silent_ones_those_next_before_are_listened_to() {
        let guests: Vec<u64> = (0..200).collect();
        let silent: Vec<u64> = (50..150).collect();
        let (read, overdue) = listens(Some(160), &guests, &silent, 120);
        assert!(read.iter().all(|turn| turn.len() <= NEIGHBOURS + SUSPECTS_MAX + EACH));
        assert_eq!(overdue.keys().copied().collect::<Vec<_>>(), (142..150).collect::<Vec<_>>());
    }

    #[test]
    fn who_speaks_again_is_suspected_no_more() {
        let guests: Vec<u64> = (0..50).collect();
        let (mut words, began) = (Words::default(), Instant::now());
        let at = |second| began + Duration::from_secs(second);
        assert!(!words.hear(20, seen(1), at(0), PATIENCE));
        assert!(!words.hear(20, seen(1), at(1), PATIENCE), "it had no time to speak");
        assert!(!words.heard[&20].is_suspect);
        assert!(!words.hear(20, seen(1), at(10), PATIENCE));
        assert!(words.heard[&20].is_suspect && words.turn(None, &guests).contains(&20));
        assert!(!words.hear(20, seen(2), at(11), PATIENCE));
        assert!(!words.heard[&20].is_suspect && !words.turn(None, &guests).contains(&20));
    }

    #[test]
    fn of_whom_nothing_was_heard_nothing_is_known() {
        let mut words = Words::default();
        words.hear(1, Seen { beat: 4, round: 1, until: 70, ..Seen::default() }, Instant::now(), PATIENCE);
        let until: Vec<u64> = words.said([1, 2]).iter().map(|said| said.seen.until).collect();
        assert_eq!(until, [70, 0]);
        words.turn(None, &[2]);
        assert_eq!(words.said([1])[0].seen, Seen::default(), "it is gone");
    }
}
