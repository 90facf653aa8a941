//! Locks that are to be given up and could not be, as the store did not serve: who had them has closed the file, and may be gone.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::{errno::Result, inode::Inode, locks::Owner};

/// All of them: each is tried again until it succeeds.
#[derive(Debug, Default)]
pub struct Owed {
    state: Mutex<State>,
    changed: Condvar,
    /// Held by who gives one up: an owner that takes a new lock waits until an old one is not being given up any more.
    giving_up: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Inodes, which may have moved since, and their owners.
    locks: Vec<(Inode, Owner)>,
    /// Whether a thread sees to them.
    is_seen_to: bool,
    has_ended: bool,
}

impl Owed {
    /// An owner has all its locks of an inode to give up. Whether a thread is to be begun for that, with [`Owed::give_up_all`].
    pub fn add(&self, inode: &Inode, owner: Owner) -> bool {
        let mut state = self.state.lock();
        if !state.locks.iter().any(|lock| is_of(lock, inode, owner)) {
            state.locks.push((inode.clone(), owner));
        }
        !state.has_ended && !std::mem::replace(&mut state.is_seen_to, true)
    }

    /// Gives up those of an owner, if there are any.
    pub fn give_up(
        &self,
        inode: &Inode,
        owner: Owner,
        unlock: impl FnOnce(&Inode, Owner) -> Result<()>,
    ) -> Result<()> {
        let is_it = |lock: &(Inode, Owner)| is_of(lock, inode, owner);
        if !self.state.lock().locks.iter().any(is_it) {
            return Ok(());
        }
        let _giving_up = self.giving_up.lock();
        // It may have been done meanwhile.
        if self.state.lock().locks.iter().any(is_it) {
            unlock(inode, owner)?;
            self.state.lock().locks.retain(|lock| !is_it(lock));
        }
        Ok(())
    }

    /// Gives up all, one after the other and over and over, with a pause after each round, until none is left or the client [goes](Owed::end).
    pub fn give_up_all(&self, pause: Duration, unlock: impl Fn(&Inode, Owner) -> Result<()>) {
        loop {
            let locks = self.state.lock().locks.clone();
            for (inode, owner) in &locks {
                if self.state.lock().has_ended {
                    return;
                }
                // What does not work now is tried again.
                let _ = self.give_up(inode, *owner, &unlock);
            }
            let mut state = self.state.lock();
            if state.locks.is_empty() || state.has_ended {
                state.is_seen_to = false;
                return;
            }
            self.changed.wait_for(&mut state, pause);
        }
    }

    /// The client goes, and with it all that it has.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }
}

/// Whether a lock is of this inode, wherever that lay, and of this owner.
fn is_of(lock: &(Inode, Owner), inode: &Inode, owner: Owner) -> bool {
    lock.0.number == inode.number && lock.1.is(owner)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{Errno, Kind, site::Site};

    fn inode(number: u64) -> Inode {
        Inode { number, kind: Kind::File, site: Site::fresh(number) }
    }

    fn owner(number: u64) -> Owner {
        Owner { of_ranges: true, number, process: 0 }
    }

    #[test]
    fn all_are_tried_until_they_succeed() {
        let owed = Owed::default();
        assert!(owed.add(&inode(20), owner(1)), "somebody has to see to it");
        assert!(
            !owed.add(&inode(20), owner(1))
                && !owed.add(&inode(20), owner(2))
                && !owed.add(&inode(30), owner(1))
        );
        let tries = RefCell::new(Vec::new());
        owed.give_up_all(Duration::ZERO, |inode, owner| {
            tries.borrow_mut().push((inode.number, owner.number));
            match tries.borrow().len() {
                ..=4 => Err(Errno::EIO.because("nothing is served")),
                _ => Ok(()),
            }
        });
        assert_eq!(tries.take(), [(20, 1), (20, 2), (30, 1), (20, 1), (20, 2), (30, 1), (20, 1)]);
        assert!(owed.add(&inode(20), owner(1)), "nobody sees to it any more");
    }

    #[test]
    fn who_takes_a_lock_gives_up_the_old_ones_first() {
        let owed = Owed::default();
        owed.add(&inode(20), owner(1));
        let of_files = Owner { of_ranges: false, ..owner(1) };
        let fails = |_: &Inode, _| Err(Errno::EIO.because("nothing is served"));
        assert_eq!(owed.give_up(&inode(20), owner(2), fails), Ok(()), "another one has nothing to give up");
        assert_eq!(owed.give_up(&inode(20), of_files, fails), Ok(()), "nor has one of whole files");
        let moved = Inode { site: Site::fresh(7), ..inode(20) };
        assert_eq!(owed.give_up(&moved, owner(1), fails).unwrap_err().errno(), Errno::EIO);
        assert_eq!(owed.give_up(&inode(20), owner(1), fails).unwrap_err().errno(), Errno::EIO);
        assert_eq!(owed.give_up(&inode(20), owner(1), |_, _| Ok(())), Ok(()));
        assert_eq!(owed.give_up(&inode(20), owner(1), fails), Ok(()), "it has nothing any more");
    }

    #[test]
    fn who_goes_tries_no_more() {
        let owed = Owed::default();
        owed.add(&inode(20), owner(1));
        owed.end();
        owed.give_up_all(Duration::ZERO, |_, _| unreachable!("it goes with the client"));
        assert!(!owed.add(&inode(30), owner(1)));
    }
}
