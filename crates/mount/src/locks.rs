//! Locks, and the wait for them.

use std::{
    collections::{HashMap, HashSet},
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tyr_fs::{Errno, Inode, Lock, LockKind, Owner, Result};

use crate::{shared::Shared, signals::is_signalled, waiting::Step};

impl Shared {
    /// Takes a lock as soon as it can be had, if there is a thread that waits for it. That nobody waits for any more who is gone, or has a signal to handle.
    pub async fn lock(&self, inode: &Inode, owner: Owner, lock: Lock, waiting: Option<u32>) -> Result<()> {
        if let Some(thread) = waiting {
            return self.wait_for(inode, owner, lock, || is_signalled(thread)).await;
        }
        let is_unsure = self.unlocking.is_expected(inode.number);
        match self.filesystem.lock(inode, owner, lock).await {
            Err(error) if error.errno() == Errno::EAGAIN && is_unsure => {
                self.unlocking.wait_for_expected(inode.number);
                self.filesystem.lock(inode, owner, lock).await
            }
            result => result,
        }
    }

    /// Takes a lock as soon as it can be had, or until nobody waits for it any more.
    async fn wait_for(
        &self,
        inode: &Inode,
        owner: Owner,
        lock: Lock,
        is_over: impl Fn() -> bool,
    ) -> Result<()> {
        let place = self.waiting.begin(inode.number, owner, lock);
        let mut is_said = false;
        let result = loop {
            match place.next(&is_over) {
                Step::Ask(asked) => {
                    let results = self.filesystem.lock_any(inode, &asked.wanted).await;
                    place.tell(asked, results);
                }
                Step::Say => match self.filesystem.begin_wait(inode, owner, lock).await {
                    Err(error) if error.errno() != Errno::EAGAIN => break place.leave(error),
                    result => {
                        is_said |= result.is_ok();
                        place.said(result.is_ok());
                    }
                },
                Step::End(result) => break result,
            }
        };
        if is_said {
            // What cannot be said now is said by the owner's next wait; all that others can do meanwhile is to give up too early.
            let _ = self.filesystem.end_wait(owner).await;
        }
        result
    }

    /// The lock of another owner that is in the way of one, and its process.
    pub async fn lock_in_the_way(
        &self,
        inode: &Inode,
        owner: Owner,
        lock: Lock,
    ) -> Result<Option<(Lock, u32)>> {
        let is_unsure = self.unlocking.is_expected(inode.number);
        let found = self.filesystem.lock_in_the_way(inode, owner, lock).await?;
        if found.is_none() || !is_unsure {
            return Ok(found);
        }
        self.unlocking.wait_for_expected(inode.number);
        self.filesystem.lock_in_the_way(inode, owner, lock).await
    }

    /// Gives up what an owner has of a range, and wakes those of this mount who wait for it.
    pub async fn unlock(&self, inode: &Inode, owner: Owner, start: u64, end: u64) -> Result<()> {
        let result = self.filesystem.unlock(inode, owner, start, end).await;
        self.waiting.wake(inode.number);
        result
    }

    /// Gives up all that an owner has of an inode that it has closed; later, if that cannot be done now.
    pub async fn unlock_all(&self, inode: &Inode, owner: u64) -> Result<()> {
        let owner = number(owner);
        let result = self.unlock(inode, owner, 0, u64::MAX).await;
        // Where there are no locks there are none to give up.
        let is_owed = result.as_ref().is_err_and(|error| error.errno() != Errno::ENOLCK);
        if is_owed && self.owed.add(inode, owner) {
            let (owed, filesystem) = (self.owed.clone(), self.filesystem.clone());
            let unlock =
                move |inode: &Inode, owner| pollster::block_on(filesystem.unlock(inode, owner, 0, u64::MAX));
            // Without a thread they go with this client, or when their owner takes another one.
            let _ = thread::Builder::new()
                .name("tyr-unlocks".to_owned())
                .spawn(move || owed.give_up_all(OWED_PAUSE, unlock));
        }
        result
    }

    /// Gives up what an owner should have given up before, as it is about to take a lock that is not to go with that.
    pub fn unlock_owed(&self, inode: &Inode, owner: u64) -> Result<()> {
        self.owed.give_up(inode, number(owner), |inode, owner| {
            pollster::block_on(self.filesystem.unlock(inode, owner, 0, u64::MAX))
        })
    }
}

/// The inodes of which locks are being given up because a file was closed, or may be soon.
#[derive(Debug, Default)]
pub struct Unlocking {
    closing: Mutex<Closing>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct Closing {
    /// How many files of each inode give theirs up.
    under_way: HashMap<u64, usize>,
    /// Files that somebody has closed who may have been the last one. The kernel says so before `close` returns, and in the background that
    /// he was: another thread may have been told, and not have come to it.
    flushed: HashMap<u64, HashSet<u64>>,
}

/// One that is under way, until it is dropped.
pub struct Unlocks<'a> {
    all: &'a Unlocking,
    inode: u64,
}

impl Unlocking {
    /// Somebody has closed a file through which locks may have been taken.
    pub fn expect(&self, inode: u64, handle: u64) {
        self.closing.lock().flushed.entry(inode).or_default().insert(handle);
    }

    /// The last one has.
    pub fn begin(&self, inode: u64, handle: u64) -> Unlocks<'_> {
        let mut closing = self.closing.lock();
        *closing.under_way.entry(inode).or_default() += 1;
        if let Some(flushed) = closing.flushed.get_mut(&inode) {
            flushed.remove(&handle);
            if flushed.is_empty() {
                closing.flushed.remove(&inode);
            }
        }
        self.has_changed.notify_all();
        Unlocks { all: self, inode }
    }

    /// Until none is under way for the inode.
    pub fn wait(&self, inode: u64) {
        self.has_changed
            .wait_while(&mut self.closing.lock(), |closing| closing.under_way.contains_key(&inode));
    }

    /// Whether some may be given up that whoever asks now is to find given up already.
    fn is_expected(&self, inode: u64) -> bool {
        let closing = self.closing.lock();
        closing.flushed.contains_key(&inode) || closing.under_way.contains_key(&inode)
    }

    /// Until none is expected any more for the inode, or for a moment: who has closed a file may not have been the last one.
    fn wait_for_expected(&self, inode: u64) {
        let mut closing = self.closing.lock();
        let is_expected = |closing: &mut Closing| closing.flushed.contains_key(&inode);
        self.has_changed.wait_while_for(&mut closing, is_expected, CLOSING_MAX);
        closing.flushed.remove(&inode);
        drop(closing);
        self.wait(inode);
    }
}

impl Drop for Unlocks<'_> {
    fn drop(&mut self) {
        let mut closing = self.all.closing.lock();
        if let Some(under_way) = closing.under_way.get_mut(&self.inode) {
            *under_way -= 1;
            if *under_way == 0 {
                closing.under_way.remove(&self.inode);
                self.all.has_changed.notify_all();
            }
        }
    }
}

/// The owner of locks of ranges, as the kernel names it.
pub fn owner(owner: fuser::LockOwner, process: u32) -> Owner {
    Owner { of_ranges: true, number: owner.0, process }
}

/// The owner of this number, for who tells nobody which process it is.
fn number(number: u64) -> Owner {
    owner(fuser::LockOwner(number), 0)
}

/// A lock, as the kernel asks for it.
pub fn lock(kind: i32, start: u64, end: u64) -> Lock {
    let kind = if kind == libc::F_RDLCK { LockKind::Shared } else { LockKind::Exclusive };
    Lock { kind, start, end }
}

/// What the kernel calls a lock.
pub fn kind(lock: Lock) -> i32 {
    match lock.kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    }
}

/// Who was not the last to close a file is waited for so long.
const CLOSING_MAX: Duration = Duration::from_millis(100);

/// How long is waited before what could not be given up is tried again.
const OWED_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use pollster::block_on;
    use tyr_client::Store;
    use tyr_fs::{Filesystem, Kind, New};

    use super::*;
    use crate::{Settings, Sharing};

    fn shared(place: &tempfile::TempDir) -> (Shared, [Inode; 2]) {
        let store = block_on(Store::open(place.path())).unwrap();
        let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
        let root = files.root();
        let inodes = [b"one", b"two"]
            .map(|name| block_on(files.make(&root, name, &New::of(Kind::File, 0o644))).unwrap().inode);
        (Shared::new(files, root, Settings::of("files", Sharing::Shared), false), inodes)
    }

    /// Nobody sees a process of this number, so it has no signals.
    const NOBODY: Option<u32> = Some(0);
    const WHOLE: Lock = Lock { kind: LockKind::Exclusive, start: 0, end: u64::MAX };

    #[test]
    fn all_who_wait_have_it_in_the_order_in_which_they_came() {
        let place = tempfile::tempdir().unwrap();
        let (shared, [inode, _]) = shared(&place);
        block_on(shared.lock(&inode, number(1000), WHOLE, None)).unwrap();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for owner in 0..100 {
                let (shared, inode, order) = (&shared, &inode, &order);
                scope.spawn(move || {
                    block_on(shared.lock(inode, number(owner), WHOLE, NOBODY)).unwrap();
                    order.lock().push(owner);
                    block_on(shared.unlock(inode, number(owner), 0, u64::MAX)).unwrap();
                });
                while shared.waiting.count(inode.number) <= usize::try_from(owner).unwrap() {
                    thread::yield_now();
                }
            }
            block_on(shared.unlock(&inode, number(1000), 0, u64::MAX)).unwrap();
        });
        assert_eq!(order.into_inner(), (0..100).collect::<Vec<_>>());
        assert_eq!(shared.waiting.count(inode.number), 0);
    }

    #[test]
    fn one_of_two_who_would_wait_for_each_other_is_told() {
        let place = tempfile::tempdir().unwrap();
        let (shared, inodes) = shared(&place);
        for (owner, inode) in (0..).zip(&inodes) {
            block_on(shared.lock(inode, number(owner), WHOLE, None)).unwrap();
        }
        let waits = |owner: u64, own: &Inode, other: &Inode| {
            let result = block_on(shared.lock(other, number(owner), WHOLE, NOBODY));
            block_on(shared.unlock(own, number(owner), 0, u64::MAX)).unwrap();
            result.map_err(|error| error.errno())
        };
        let results = thread::scope(|scope| {
            let first = scope.spawn(|| waits(0, &inodes[0], &inodes[1]));
            let second = waits(1, &inodes[1], &inodes[0]);
            [first.join().unwrap(), second]
        });
        assert!(
            matches!(results, [Ok(()), Err(Errno::EDEADLK)] | [Err(Errno::EDEADLK), Ok(())]),
            "{results:?}"
        );
    }
}
