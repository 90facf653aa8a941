//! The inodes that the kernel knows by their numbers.

use std::collections::HashMap;

use parking_lot::Mutex;
use tyr_fs::{Errno, Inode, ROOT_NUMBER, Result, site::Site};

/// Each inode that the kernel was told of and has not forgotten, with how often it was told. The root, whatever directory that is, is always
/// known, as number 1.
#[derive(Debug)]
pub struct Known {
    root: Inode,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// By their numbers, with how often the kernel was told.
    told: HashMap<u64, (Inode, u64)>,
    /// Their numbers, by where they lie.
    numbers: HashMap<Site, u64>,
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
        let known = others.told.get(&number).map(|(inode, _)| inode.clone());
        known.ok_or_else(|| Errno::ESTALE.because("the kernel asks for what it was not told of"))
    }

    /// The number by which the kernel knows an inode.
    pub fn number(&self, inode: &Inode) -> u64 {
        if *inode == self.root { ROOT_NUMBER } else { inode.number }
    }

    /// The kernel is told of an inode.
    pub fn tell(&self, inode: &Inode) {
        if *inode != self.root {
            let others = &mut *self.others.lock();
            others.told.entry(inode.number).or_insert_with(|| (inode.clone(), 0)).1 += 1;
            others.numbers.insert(inode.site.clone(), inode.number);
        }
    }

    /// Whether the kernel knows an inode.
    pub fn has(&self, inode: &Inode) -> bool {
        *inode == self.root || self.others.lock().told.contains_key(&inode.number)
    }

    /// The number by which the kernel knows the inode that lies somewhere.
    pub fn number_at(&self, site: &Site) -> Option<u64> {
        match *site == self.root.site {
            true => Some(ROOT_NUMBER),
            false => self.others.lock().numbers.get(site).copied(),
        }
    }

    /// The kernel forgets that it was told so often.
    pub fn forget(&self, number: u64, times: u64) {
        let others = &mut *self.others.lock();
        let Some((inode, told)) = others.told.get_mut(&number) else { return };
        *told = told.saturating_sub(times);
        if *told == 0 {
            // Another one may lie there by now.
            if others.numbers.get(&inode.site) == Some(&number) {
                others.numbers.remove(&inode.site);
            }
            others.told.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use tyr_fs::{Kind, site::Site};

    use super::*;

    #[test]
    fn an_inode_is_known_as_often_as_it_was_told_of() {
        let inode = |number| Inode { number, kind: Kind::Directory, site: Site::fresh(number) };
        let known = Known::new(inode(20));
        assert_eq!(known.get(1).unwrap(), inode(20));
        assert_eq!(known.number(&inode(20)), 1);
        known.tell(&inode(30));
        known.tell(&inode(30));
        known.forget(30, 1);
        assert_eq!(known.get(30).unwrap(), inode(30));
        assert_eq!([20, 30, 40].map(|site| known.number_at(&Site::fresh(site))), [Some(1), Some(30), None]);
        known.forget(30, 1);
        assert!(known.number_at(&Site::fresh(30)).is_none() && !known.has(&inode(30)));
        assert_eq!(known.get(30).unwrap_err().errno(), Errno::ESTALE);
    }
}
