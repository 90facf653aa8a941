//! The files that the mount itself shows in its root.

use std::{ffi::OsStr, time::SystemTime};

use fuser::{FileAttr, FileType, INodeNo};
use tyr_fs::{Errno, ROOT_NUMBER, Result};

use crate::attributes::BLOCK;

/// Tells what the mount has done.
pub const STATS: u64 = 2;

const NAMES: [(u64, &str); 1] = [(STATS, ".stats")];

/// The number of the mount's own file that a name means.
pub fn number(parent: INodeNo, name: &OsStr) -> Option<u64> {
    let is_own = |(number, own): &(u64, &str)| (name == *own).then_some(*number);
    NAMES.iter().find_map(is_own).filter(|_| parent.0 == ROOT_NUMBER)
}

/// The root's own names are not to be taken.
pub fn refuse(parent: INodeNo, name: &OsStr) -> Result<()> {
    match number(parent, name) {
        Some(_) => Err(Errno::EACCES.because("the mount itself has something of that name")),
        None => Ok(()),
    }
}

/// What is known of such a file, if this is the number of one.
pub fn attributes(number: u64) -> Option<FileAttr> {
    NAMES.iter().find(|(own, _)| *own == number)?;
    let now = SystemTime::now();
    Some(FileAttr {
        ino: INodeNo(number),
        // It is read to its end, wherever that is then.
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        crtime: now,
        kind: FileType::RegularFile,
        perm: 0o444,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    })
}
