//! Metadata in the kernel's words.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use tyr_fs::{Kind, Metadata, Timestamp};

/// What is told as the unit of space, in bytes.
pub const BLOCK: u32 = 4096;
/// What is told as the unit in which it is good to read and write, in bytes: programs buffer as much, and each write is a durable transaction. As NFS and GlusterFS
/// have it.
const UNIT: u32 = 128 << 10;

/// What is known of an inode that the kernel knows by this number.
pub fn attributes(number: u64, metadata: &Metadata) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: metadata.size,
        blocks: metadata.data_size.div_ceil(512),
        atime: metadata.accessed.into(),
        mtime: metadata.modified.into(),
        ctime: metadata.changed.into(),
        crtime: SystemTime::UNIX_EPOCH,
        kind: file_type(metadata.inode.kind),
        perm: u16::try_from(metadata.mode).unwrap_or(0),
        nlink: metadata.links,
        uid: metadata.uid,
        gid: metadata.gid,
        rdev: metadata.device,
        blksize: UNIT,
        flags: 0,
    }
}

pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

pub fn timestamp(time: TimeOrNow) -> Timestamp {
    match time {
        // `fuser` 0.18 counts the nanoseconds of a time before 1970 backwards, which the kernel counts forward.
        TimeOrNow::SpecificTime(time) => match UNIX_EPOCH.duration_since(time) {
            Ok(before) if !before.is_zero() => Timestamp {
                seconds: -i64::try_from(before.as_secs()).unwrap_or(i64::MAX),
                nanoseconds: before.subsec_nanos(),
            },
            _ => time.into(),
        },
        TimeOrNow::Now => Timestamp::now(),
    }
}
