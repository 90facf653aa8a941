//! The inodes that the kernel knows by their numbers.

use std::collections::HashMap;

use parking_lot::Mutex;
use tyr_fs::{Errno, Inode, ROOT_NUMBER, Result};

/// Each inode that the kernel was told of and has not forgotten, with how often it was told. The root, whatever directory that is, is always
/// known, as number 1.
#[derive(Debug)]
pub struct Known {
    root: Inode,
    others: Mutex<HashMap<u64, (Inode, u64)>>,
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
        let known = others.get(&number).map(|(inode, _)| inode.clone());
        known.ok_or_else(|| Errno::ESTALE.because("the kernel asks for what it was not told of"))
    }

    /// The number by which the kernel knows an inode.
    pub fn number(&self, inode: &Inode) -> u64 {
        if *inode == self.root { ROOT_NUMBER } else { inode.number }
    }

    /// The kernel is told of an inode.
    pub fn tell(&self, inode: &Inode) {
        if *inode != self.root {
            self.others.lock().entry(inode.number).or_insert_with(|| (inode.clone(), 0)).1 += 1;
        }
    }

    /// The kernel forgets that it was told so often.
    pub fn forget(&self, number: u64, times: u64) {
        let mut others = self.others.lock();
        if let Some((_, told)) = others.get_mut(&number) {
            *told = told.saturating_sub(times);
            if *told == 0 {
                others.remove(&number);
            }
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
        known.forget(30, 1);
        assert_eq!(known.get(30).unwrap_err().errno(), Errno::ESTALE);
    }
}
