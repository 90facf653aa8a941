//! Inodes of which the kernel may have pages that others may change: of these it believes nothing for longer than that is certain.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// How often each is watched.
#[derive(Clone, Debug, Default)]
pub struct Watched(Arc<Mutex<HashMap<u64, usize>>>);

/// An inode is watched as long as this lives.
#[derive(Debug)]
pub struct Watch {
    watched: Watched,
    number: u64,
}

impl Watched {
    /// Watches an inode.
    pub fn add(&self, number: u64) -> Watch {
        *self.0.lock().entry(number).or_default() += 1;
        Watch { watched: self.clone(), number }
    }

    /// Whether an inode is watched.
    pub fn has(&self, number: u64) -> bool {
        self.0.lock().contains_key(&number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.watched.0.lock();
        if let Some(times) = watched.get_mut(&self.number) {
            *times -= 1;
            if *times == 0 {
                watched.remove(&self.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_watched_until_all_who_do_have_ended() {
        let watched = Watched::default();
        let [one, other] = [watched.add(5), watched.add(5)];
        drop(one);
        assert!(watched.has(5) && !watched.has(6));
        drop(other);
        assert!(!watched.has(5));
    }
}
