//! Who waits for whom: owners of locks that would wait for one another for ever are told.

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Caller, Errno, Filesystem, Follow, Inode, Lock, LockKind, Owner, Result, View};

/// An owner of locks of ranges at a client.
struct Someone {
    files: Filesystem,
    owner: Owner,
}

impl Someone {
    fn new(files: &Filesystem, number: u64) -> Someone {
        Someone { files: files.clone(), owner: Owner { of_ranges: true, number, process: 1 } }
    }

    fn lock(&self, inode: &Inode, kind: LockKind) -> Result<()> {
        block_on(self.files.lock(inode, self.owner, Lock { kind, start: 0, end: 9 }))
    }

    fn has(self, inode: &Inode) -> Someone {
        self.lock(inode, LockKind::Exclusive).unwrap();
        self
    }

    /// What comes of a wait for a whole file.
    fn waits_for(&self, inode: &Inode) -> Result<()> {
        let lock = Lock { kind: LockKind::Exclusive, start: 0, end: u64::MAX };
        assert_eq!(block_on(self.files.lock(inode, self.owner, lock)).unwrap_err().errno(), Errno::EAGAIN);
        block_on(self.files.begin_wait(inode, self.owner, lock))
    }

    fn cannot_wait_for(&self, inode: &Inode) {
        assert_eq!(self.waits_for(inode).unwrap_err().errno(), Errno::EDEADLK);
    }
}

/// Two clients of a file system, with three files in it.
fn clients(place: &tempfile::TempDir) -> ([Filesystem; 2], [Inode; 3]) {
    let store = block_on(Store::open(place.path())).unwrap();
    let clients = [0; 2].map(|_| block_on(Filesystem::open_or_create(&store, "files")).unwrap());
    let view = View::new(clients[0].clone(), Caller::superuser());
    let inodes = ["/one", "/two", "/three"].map(|path| {
        block_on(view.put(path, b"")).unwrap();
        block_on(view.metadata(path, Follow::Yes)).unwrap().inode
    });
    (clients, inodes)
}

#[test]
fn the_last_one_of_a_circle_is_told() {
    let place = tempfile::tempdir().unwrap();
    let ([here, there], [one, two, three]) = clients(&place);
    let first = Someone::new(&here, 1).has(&one);
    let second = Someone::new(&here, 2).has(&two);
    // The same number at another client is somebody else.
    let third = Someone::new(&there, 1).has(&three);

    first.waits_for(&two).unwrap();
    second.cannot_wait_for(&one);
    second.waits_for(&three).unwrap();
    third.cannot_wait_for(&one);
    third.cannot_wait_for(&two);

    // Somebody who has nothing can wait for any of them.
    Someone::new(&there, 2).waits_for(&one).unwrap();
    // Nobody waits for who does not wait any more.
    block_on(second.files.end_wait(second.owner)).unwrap();
    third.waits_for(&one).unwrap();
    second.cannot_wait_for(&three);
}

#[test]
fn who_waits_when_no_more_waits_can_be_noted_is_told_so() {
    let place = tempfile::tempdir().unwrap();
    let ([here, _], [one, ..]) = clients(&place);
    let first = Someone::new(&here, 1).has(&one);
    let guest = format!("!guest/{:x}", block_on(here.guests()).unwrap()[0]);
    block_on(here.keyspace().set_attribute(&guest, "other", Some(&vec![0; 64_912]))).unwrap();
    let second = Someone::new(&here, 2);
    let mut more = (3..).map(|number| Someone::new(&here, number));
    assert!(more.by_ref().take(10).any(|other| other.waits_for(&one).is_err()));
    assert_eq!(second.waits_for(&one).unwrap_err().errno(), Errno::ENOLCK);
    block_on(first.files.unlock(&one, first.owner, 0, u64::MAX)).unwrap();
    second.lock(&one, LockKind::Exclusive).unwrap();
}

#[test]
fn two_who_share_a_lock_cannot_both_wait_to_have_it_alone() {
    let place = tempfile::tempdir().unwrap();
    let ([here, there], [one, ..]) = clients(&place);
    let (first, second) = (Someone::new(&here, 1), Someone::new(&there, 1));
    first.lock(&one, LockKind::Shared).unwrap();
    second.lock(&one, LockKind::Shared).unwrap();
    first.waits_for(&one).unwrap();
    second.cannot_wait_for(&one);
    block_on(second.files.unlock(&one, second.owner, 0, u64::MAX)).unwrap();
    first.lock(&one, LockKind::Exclusive).unwrap();
}

#[test]
fn who_is_gone_waits_for_nobody() {
    let place = tempfile::tempdir().unwrap();
    let ([here, there], [one, two, _]) = clients(&place);
    let first = Someone::new(&here, 1).has(&one);
    let second = Someone::new(&there, 1).has(&two);
    second.waits_for(&one).unwrap();
    first.cannot_wait_for(&two);
    block_on(there.leave()).unwrap();
    first.lock(&two, LockKind::Exclusive).unwrap();
    second.waits_for(&one).unwrap();
}
