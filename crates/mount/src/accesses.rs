//! Times of access that are not in the store yet.
//!
//! Noting one takes a commit, for which nobody who reads is to wait, and a file that is read is often written, read again, or removed soon. So they are
//! noted some time later, by a thread of the mount. Until then those who ask this mount are told of them from here. A mount that
//! dies takes them with it, as one of Linux does with `lazytime`.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tyr_fs::{Inode, Metadata, Timestamp};

/// All of them.
#[derive(Debug, Default)]
pub struct Accesses {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By the numbers of inodes.
    unnoted: HashMap<u64, (Inode, Timestamp)>,
    /// Since when, those of which more than one is to be noted first.
    order: VecDeque<(Instant, u64)>,
    /// What is being noted.
    under_way: Option<(u64, Timestamp)>,
    /// All are to be noted at once, and no more come.
    has_ended: bool,
}

impl Accesses {
    /// A file was read at a time. False if there are too many to be noted later.
    pub fn add(&self, inode: &Inode, time: Timestamp) -> bool {
        let mut state = self.state.lock();
        if state.order.len() >= UNNOTED_MAX || state.has_ended {
            return false;
        }
        match state.unnoted.get_mut(&inode.number) {
            Some((_, last)) => *last = time.max(*last),
            None => {
                state.unnoted.insert(inode.number, (inode.clone(), time));
                state.order.push_back((Instant::now(), inode.number));
                self.changed.notify_all();
            }
        }
        true
    }

    /// When an inode was read last, for all that this mount knows.
    pub fn last(&self, metadata: &Metadata) -> Timestamp {
        let (state, number) = (self.state.lock(), metadata.inode.number);
        let unnoted = state.unnoted.get(&number).map(|(_, last)| *last);
        let under_way = state.under_way.filter(|(noted, _)| *noted == number).map(|(_, last)| last);
        unnoted.into_iter().chain(under_way).fold(metadata.accessed, Timestamp::max)
    }

    /// Forgets those of an inode, of which something else is set now; what is being noted comes before that.
    pub fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        state.unnoted.remove(&number);
        while state.under_way.is_some_and(|(noted, _)| noted == number) {
            self.changed.wait(&mut state);
        }
    }

    /// Has all be noted at once.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Notes what is due, until it [ends](Accesses::end) and nothing is left.
    pub fn note_all(&self, note: impl Fn(&Inode, Timestamp)) {
        let mut state = self.state.lock();
        while let Some((inode, time)) = self.next(&mut state) {
            state.under_way = Some((inode.number, time));
            MutexGuard::unlocked(&mut state, || note(&inode, time));
            state.under_way = None;
            self.changed.notify_all();
        }
    }

    /// Waits until one is due, and takes it out.
    fn next(&self, state: &mut MutexGuard<'_, State>) -> Option<(Inode, Timestamp)> {
        loop {
            let due = state.order.front().map(|(since, _)| *since + NOTED_AFTER);
            match due {
                None if state.has_ended => return None,
                None => self.changed.wait(state),
                Some(due) if !state.has_ended && Instant::now() < due => {
                    let _ = self.changed.wait_until(state, due);
                }
                Some(_) => {
                    let (_, number) = state.order.pop_front().expect("the first one is there");
                    // One that is not there was forgotten.
                    if let Some(unnoted) = state.unnoted.remove(&number) {
                        return Some(unnoted);
                    }
                }
            }
        }
    }
}

/// They are noted so long after the first of a file.
const NOTED_AFTER: Duration = Duration::from_secs(20);
/// As many wait at the most; more are noted by who reads.
const UNNOTED_MAX: usize = 65_536;

#[cfg(test)]
pub mod tests {
    use tyr_fs::{Kind, site::Site};

    use super::*;

    const EARLY: Timestamp = Timestamp { seconds: 5, nanoseconds: 0 };
    const LATE: Timestamp = Timestamp { seconds: 9, nanoseconds: 0 };

    fn inode(number: u64) -> Inode {
        Inode { number, kind: Kind::File, site: Site::fresh(number) }
    }

    /// What is known of some file.
    pub fn metadata(number: u64) -> Metadata {
        Metadata {
            inode: inode(number),
            mode: 0o644,
            uid: 0,
            gid: 0,
            device: 0,
            links: 1,
            size: 0,
            data_size: 0,
            may_have_holes: false,
            cut: None,
            accessed: EARLY,
            modified: EARLY,
            changed: EARLY,
            target: None,
            acl: None,
            leaving: None,
        }
    }

    #[test]
    fn the_last_access_is_told_until_it_is_noted_and_noted_once() {
        let accesses = Accesses::default();
        assert!(accesses.add(&inode(20), LATE) && accesses.add(&inode(20), EARLY));
        assert!(accesses.add(&inode(30), LATE));
        assert_eq!(accesses.last(&metadata(20)), LATE);
        accesses.forget(30);
        assert_eq!(accesses.last(&metadata(30)), EARLY, "another one is set");
        accesses.end();
        assert!(!accesses.add(&inode(40), LATE), "nobody would note it");
        let noted = Mutex::new(Vec::new());
        accesses.note_all(|inode, time| {
            assert_eq!(accesses.last(&metadata(20)), LATE, "it is told as long as it is under way");
            noted.lock().push((inode.number, time));
        });
        assert_eq!(*noted.lock(), [(20, LATE)]);
        assert_eq!(accesses.last(&metadata(20)), EARLY);
    }

    #[test]
    fn who_sets_another_one_waits_for_what_is_under_way() {
        let accesses = Accesses::default();
        accesses.add(&inode(20), LATE);
        accesses.end();
        let order = Mutex::new(Vec::new());
        let (begun, has_begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                accesses.note_all(|_, _| {
                    begun.send(()).expect("somebody waits for it");
                    order.lock().push("noted");
                });
            });
            has_begun.recv().expect("it is noted");
            accesses.forget(20);
            order.lock().push("set");
        });
        assert_eq!(*order.lock(), ["noted", "set"]);
    }
}
