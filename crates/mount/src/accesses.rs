//! Times of access that are not in the store yet.
//!
//! Noting one takes a commit, for which nobody who reads is to wait: it is noted when the kernel has its bytes. Until it is, those who ask
//! this mount are told of it from here.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Condvar, Mutex};
use tyr_fs::{Metadata, Timestamp};

use crate::handles::OpenFile;

/// All of them.
#[derive(Debug, Default)]
pub struct Accesses {
    /// By the numbers of inodes, with how many are still to be noted.
    unnoted: Mutex<HashMap<u64, (Timestamp, usize)>>,
    noted: Condvar,
}

/// One of them. When this is dropped it is in the store, or will not be.
#[derive(Debug)]
pub struct Unnoted {
    accesses: Arc<Accesses>,
    open: Arc<OpenFile>,
    time: Timestamp,
}

impl Accesses {
    /// A file was read at a time.
    pub fn add(self: &Arc<Self>, open: Arc<OpenFile>, time: Timestamp) -> Unnoted {
        self.begin(open.file.inode().number, time);
        Unnoted { accesses: self.clone(), open, time }
    }

    fn begin(&self, number: u64, time: Timestamp) {
        let mut unnoted = self.unnoted.lock();
        let (last, count) = unnoted.entry(number).or_default();
        *last = time.max(*last);
        *count += 1;
    }

    fn end(&self, number: u64) {
        let mut unnoted = self.unnoted.lock();
        if let Some((_, count)) = unnoted.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                unnoted.remove(&number);
                self.noted.notify_all();
            }
        }
    }

    /// When an inode was read last, for all that this mount knows.
    pub fn last(&self, metadata: &Metadata) -> Timestamp {
        let here = self.unnoted.lock().get(&metadata.inode.number).map(|(last, _)| *last);
        here.map_or(metadata.accessed, |here| here.max(metadata.accessed))
    }

    /// Waits until those of an inode are in the store: what sets its times now must come after them.
    pub fn settle(&self, number: u64) {
        let mut unnoted = self.unnoted.lock();
        while unnoted.contains_key(&number) {
            self.noted.wait(&mut unnoted);
        }
    }
}

impl Unnoted {
    /// Notes it.
    pub async fn note(self) {
        self.open.file.note(self.time).await;
    }
}

impl Drop for Unnoted {
    fn drop(&mut self) {
        self.accesses.end(self.open.file.inode().number);
    }
}

#[cfg(test)]
mod tests {
    use tyr_fs::{Inode, Kind, site::Site};

    use super::*;

    #[test]
    fn the_last_access_is_told_until_all_are_noted() {
        let early = Timestamp { seconds: 5, nanoseconds: 0 };
        let late = Timestamp { seconds: 9, nanoseconds: 0 };
        let inode = Inode { number: 20, kind: Kind::File, site: Site::fresh(20) };
        let metadata = Metadata {
            inode,
            mode: 0o644,
            uid: 0,
            gid: 0,
            device: 0,
            links: 1,
            size: 0,
            accessed: early,
            modified: early,
            changed: early,
            target: None,
        };
        let accesses = Accesses::default();
        accesses.begin(20, late);
        accesses.begin(20, early);
        assert_eq!(accesses.last(&metadata), late);
        accesses.end(20);
        assert_eq!(accesses.last(&metadata), late);
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| {
                accesses.settle(20);
                accesses.last(&metadata)
            });
            accesses.end(20);
            assert_eq!(settled.join().unwrap(), early);
        });
    }
}
