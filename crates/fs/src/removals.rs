//! Names that were taken from directories here.
//!
//! Whoever lists a directory compacts its listing. One that is never listed, in which names come and go, is listed by those who take them, when they have
//! taken as many as it had entries.

use std::collections::HashMap;

use parking_lot::Mutex;

/// How many names were taken, by the numbers of the directories.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<HashMap<u64, Taken>>);

#[derive(Debug)]
struct Taken {
    names: usize,
    /// When there are so many it is time to list the directory.
    listed_at: usize,
}

impl Removals {
    /// A name was taken from a directory. Returns whether it is time to list it.
    pub fn note(&self, directory: u64) -> bool {
        let mut all = self.0.lock();
        if all.len() >= DIRECTORIES_MAX && !all.contains_key(&directory) {
            all.clear();
        }
        let taken = all.entry(directory).or_insert(Taken { names: 0, listed_at: NAMES_MIN });
        taken.names += 1;
        taken.names >= taken.listed_at
    }

    /// A directory was listed, and has so many entries.
    pub fn listed(&self, directory: u64, entries: usize) {
        if let Some(taken) = self.0.lock().get_mut(&directory) {
            *taken = Taken { names: 0, listed_at: entries.max(NAMES_MIN) };
        }
    }
}

/// Fewer names are not worth a look.
const NAMES_MIN: usize = 256;
/// Of so many directories at once it is known how many were taken.
const DIRECTORIES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_listed_when_as_many_names_were_taken_as_it_had_entries() {
        let removals = Removals::default();
        let times = |times: usize| (0..times).filter(|_| removals.note(7)).count();
        assert_eq!((times(NAMES_MIN - 1), times(1)), (0, 1));
        removals.listed(7, 1000);
        assert_eq!((times(999), times(1)), (0, 1));
        removals.listed(7, 0);
        assert_eq!((times(NAMES_MIN - 1), times(1)), (0, 1));
        // What is forgotten begins anew.
        (0..DIRECTORIES_MAX as u64).for_each(|other| assert!(!removals.note(100 + other)));
        assert_eq!(times(NAMES_MIN - 1), 0);
    }
}
