//! What is about to be looked up: who has listed a directory asks for its entries, mostly in their order. So many are asked for at once then, and those
//! that follow are known.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use parking_lot::Mutex;
use tyr_fs::Entry;

/// Directories that were listed, the latest one last.
#[derive(Default)]
pub struct Ahead(Mutex<VecDeque<Listed>>);

struct Listed {
    directory: u64,
    entries: Arc<Vec<Entry>>,
    /// The place of the entry after the one that was looked up last.
    next: usize,
    /// Entries up to this one were looked up, by themselves or with others.
    looked: usize,
    /// So many are looked up at once next.
    at_once: usize,
}

impl Ahead {
    /// A directory is listed, from its beginning.
    pub fn list(&self, directory: u64, entries: &Arc<Vec<Entry>>) {
        let mut lists = self.0.lock();
        lists.retain(|listed| listed.directory != directory);
        lists.push_back(Listed {
            directory,
            entries: entries.clone(),
            next: 0,
            looked: 0,
            at_once: AT_ONCE_FIRST,
        });
        let mut total: usize = lists.iter().map(|listed| listed.entries.len()).sum();
        while lists.len() > LISTS_MAX || (total > ENTRIES_MAX && lists.len() > 1) {
            total -= lists.pop_front().map_or(0, |listed| listed.entries.len());
        }
    }

    /// A listing has told what entries up to this one are.
    pub fn told(&self, directory: u64, looked: usize) {
        if let Some(listed) = self.0.lock().iter_mut().find(|listed| listed.directory == directory) {
            listed.looked = listed.looked.max(looked);
        }
    }

    /// A directory is not being listed any more. What is small is remembered, as some ask only then.
    pub fn close(&self, directory: u64) {
        self.0.lock().retain(|listed| listed.directory != directory || listed.entries.len() <= ENTRIES_MAX);
    }

    /// A name is looked up. Returns which entries are worth looking up with it, from its own on, if it follows those that were.
    pub fn follow(&self, directory: u64, name: &[u8]) -> Option<(Arc<Vec<Entry>>, Range<usize>)> {
        let mut lists = self.0.lock();
        let listed = lists.iter_mut().find(|listed| listed.directory == directory)?;
        let after = listed.entries.get(listed.next..)?;
        let place = listed.next + after.iter().take(SKIPPED_MAX + 1).position(|entry| entry.name == name)?;
        listed.next = place + 1;
        if place < listed.looked {
            return None;
        }
        listed.looked = listed.entries.len().min(place + listed.at_once);
        listed.at_once = AT_ONCE_MAX.min(2 * listed.at_once);
        Some((listed.entries.clone(), place..listed.looked))
    }
}

/// So many entries are looked up at once first, and twice as many each time that somebody goes on to ask for them,
const AT_ONCE_FIRST: usize = 64;
/// up to so many.
const AT_ONCE_MAX: usize = 256;
/// So many entries may be passed over by who asks for them in their order.
const SKIPPED_MAX: usize = 7;
/// So many directories are remembered,
const LISTS_MAX: usize = 16;
/// and of those that are not open, and beside the latest one, so many entries.
const ENTRIES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_fs::Kind;

    use super::*;

    fn entries(count: usize) -> Arc<Vec<Entry>> {
        let entry = |place: usize| Entry { name: name(place), number: place as u64, kind: Kind::File };
        Arc::new((0..count).map(entry).collect())
    }

    fn name(place: usize) -> Vec<u8> {
        format!("n{place:06}").into_bytes()
    }

    fn follow(ahead: &Ahead, directory: u64, place: usize) -> Option<Range<usize>> {
        ahead.follow(directory, &name(place)).map(|(_, range)| range)
    }

    #[test]
    fn who_asks_in_order_is_ahead_by_many_each_time_and_up_to_the_end() {
        let ahead = Ahead::default();
        ahead.list(1, &entries(800));
        let found: Vec<_> = (0..800).filter_map(|place| follow(&ahead, 1, place)).collect();
        assert_eq!(found, [0..64, 64..192, 192..448, 448..704, 704..800]);
    }

    #[test]
    fn what_the_listing_told_is_not_asked_for_again() {
        let ahead = Ahead::default();
        ahead.list(1, &entries(150));
        ahead.told(1, 64);
        let found: Vec<_> = (0..150).filter_map(|place| follow(&ahead, 1, place)).collect();
        assert_eq!(found, [64..128, 128..150]);
        ahead.list(1, &entries(150));
        assert_eq!(follow(&ahead, 1, 0), Some(0..64), "it was listed anew");
    }

    #[test]
    fn some_may_be_passed_over_and_who_jumps_about_is_not_followed() {
        let ahead = Ahead::default();
        ahead.list(1, &entries(1000));
        assert_eq!(follow(&ahead, 1, SKIPPED_MAX), Some(7..71));
        assert_eq!(follow(&ahead, 1, 100), None);
        assert_eq!(follow(&ahead, 1, 3), None);
        assert_eq!(follow(&ahead, 2, 0), None, "it was not listed");
        assert_eq!((8..80).find_map(|place| follow(&ahead, 1, place)), Some(71..199));
    }

    #[test]
    fn only_so_much_is_remembered() {
        let ahead = Ahead::default();
        let small = entries(3);
        for directory in 0..=LISTS_MAX as u64 {
            ahead.list(directory, &small);
        }
        assert_eq!(follow(&ahead, 0, 0), None);
        assert_eq!(follow(&ahead, 1, 0), Some(0..3));
        let large = entries(ENTRIES_MAX + 1);
        ahead.list(100, &large);
        assert_eq!(Arc::strong_count(&small), 1, "the latest one alone is too much");
        assert_eq!(follow(&ahead, 100, 0), Some(0..64));
        ahead.close(100);
        assert_eq!(Arc::strong_count(&large), 1);
        ahead.list(1, &small);
        ahead.close(1);
        assert_eq!(follow(&ahead, 1, 0), Some(0..3));
    }
}
