//! The inodes that the kernel knows by their numbers.

use std::{collections::HashMap, time::Instant};

use parking_lot::Mutex;
use tyr_fs::{Errno, Inode, Metadata, ROOT_NUMBER, Result, site::Site};

/// Each inode that the kernel was told of and has not forgotten, with how often it was told. The root, whatever directory that is, is always
/// known, as number 1.
#[derive(Debug)]
pub struct Known {
    root: Inode,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// By their numbers.
    told: HashMap<u64, Told>,
    /// Their numbers, by where they lie.
    numbers: HashMap<Site, u64>,
}

#[derive(Debug)]
struct Told {
    inode: Inode,
    /// How often the kernel was told of it.
    times: u64,
    /// Until when it may believe what it was told.
    believed_until: Instant,
    /// A directory that was removed by this mount, as it was: whoever has it open may ask.
    removed: Option<Metadata>,
}

impl Known {
    pub fn new(root: Inode) -> Self {
        Known { root, others: Mutex::default() }
    }

    /// The inode of a number.
    pub fn get(&self, number: u64) -> Result<Inode> {
        if number == ROOT_NUMBER {
            return Ok(self.root.clone());
        }
        let others = self.others.lock();
        let known = others.told.get(&number).map(|told| told.inode.clone());
        known.ok_or_else(|| Errno::ESTALE.because("the kernel asks for what it was not told of"))
    }

    /// The number by which the kernel knows an inode.
    pub fn number(&self, inode: &Inode) -> u64 {
        if *inode == self.root { ROOT_NUMBER } else { inode.number }
    }

    /// The kernel is told of an inode, and may believe what it is told until then.
    pub fn tell(&self, inode: &Inode, believed_until: Instant) {
        if *inode != self.root {
            let others = &mut *self.others.lock();
            let new = || Told { inode: inode.clone(), times: 0, believed_until, removed: None };
            let told = others.told.entry(inode.number).or_insert_with(new);
            told.times += 1;
            told.believed_until = told.believed_until.max(believed_until);
            others.numbers.insert(inode.site.clone(), inode.number);
        }
    }

    /// Until when the kernel may believe what it was told of an inode other than the root.
    pub fn believed_until(&self, number: u64) -> Option<Instant> {
        self.others.lock().told.get(&number).map(|told| told.believed_until)
    }

    /// The number by which the kernel knows the inode that lies somewhere.
    pub fn number_at(&self, site: &Site) -> Option<u64> {
        match *site == self.root.site {
            true => Some(ROOT_NUMBER),
            false => self.others.lock().numbers.get(site).copied(),
        }
    }

    /// A directory was removed, as which it was known like this before.
    pub fn remove(&self, directory: Metadata) {
        if let Some(told) = self.others.lock().told.get_mut(&directory.inode.number) {
            told.removed = Some(Metadata { links: 0, ..directory });
        }
    }

    /// The directory of a number, if it was removed and the kernel has not forgotten it.
    pub fn removed(&self, number: u64) -> Option<Metadata> {
        self.others.lock().told.get(&number).and_then(|told| told.removed.clone())
    }

    /// The kernel forgets that it was told so often.
    pub fn forget(&self, number: u64, times: u64) {
        let others = &mut *self.others.lock();
        let Some(told) = others.told.get_mut(&number) else { return };
        told.times = told.times.saturating_sub(times);
        if told.times == 0 {
            // Another one may lie there by now.
            if others.numbers.get(&told.inode.site) == Some(&number) {
                others.numbers.remove(&told.inode.site);
            }
            others.told.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tyr_fs::{Kind, site::Site};

    use super::*;

    #[test]
    fn an_inode_is_known_as_often_as_it_was_told_of() {
        let inode = |number| Inode { number, kind: Kind::Directory, site: Site::fresh(number) };
        let known = Known::new(inode(20));
        assert_eq!(known.get(1).unwrap(), inode(20));
        assert_eq!(known.number(&inode(20)), 1);
        let now = Instant::now();
        known.tell(&inode(30), now + Duration::from_secs(1));
        known.tell(&inode(30), now);
        assert_eq!(known.believed_until(30), Some(now + Duration::from_secs(1)));
        known.forget(30, 1);
        assert_eq!(known.get(30).unwrap(), inode(30));
        assert_eq!([20, 30, 40].map(|site| known.number_at(&Site::fresh(site))), [Some(1), Some(30), None]);
        known.forget(30, 1);
        assert!(known.number_at(&Site::fresh(30)).is_none() && known.believed_until(30).is_none());
        assert_eq!(known.get(30).unwrap_err().errno(), Errno::ESTALE);
    }
}
