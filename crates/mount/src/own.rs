//! The files that the mount itself shows in its root. In a directory of the file system that is mounted as one, what users have put there under these names is shown instead.

use std::{ffi::OsStr, time::SystemTime};

use fuser::{FileAttr, FileType, INodeNo};
use tyr_fs::ROOT_NUMBER;

use crate::attributes::BLOCK;

/// A file of the mount itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Tells what the mount has done.
    Stats,
    /// Tells what the mount does.
    AccessLog,
}

const ALL: [Own; 2] = [Own::Stats, Own::AccessLog];

impl Own {
    /// The one that a name means.
    pub fn named(parent: INodeNo, name: &OsStr) -> Option<Own> {
        ALL.into_iter().find(|own| parent.0 == ROOT_NUMBER && name == own.name())
    }

    /// The one of this number.
    pub fn numbered(inode: INodeNo) -> Option<Own> {
        ALL.into_iter().find(|own| inode.0 == own.number())
    }

    fn name(self) -> &'static str {
        match self {
            Own::Stats => ".stats",
            Own::AccessLog => ".accesslog",
        }
    }

    fn number(self) -> u64 {
        match self {
            Own::Stats => 2,
            Own::AccessLog => 3,
        }
    }

    /// What is known of it.
    pub fn attributes(self) -> FileAttr {
        let now = SystemTime::now();
        FileAttr {
            ino: INodeNo(self.number()),
            // It is read to its end, wherever that is then.
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: FileType::RegularFile,
            perm: match self {
                Own::Stats => 0o444,
                // It tells of what is in directories that not everybody may read.
                Own::AccessLog => 0o400,
            },
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }
}
