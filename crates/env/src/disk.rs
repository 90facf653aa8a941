//! A storage target: one flat directory of files.
//!
//! The rules of durability are those of POSIX at its worst: what was written may be lost, torn at any sector of 512 bytes, or
//! reordered by a crash until a durable write of those bytes or [`File::sync`] of that file has returned; creating, renaming, and
//! removing a name may be undone by a crash, each as a whole, until [`Disk::sync_names`] has returned. A durable write makes
//! only its own bytes durable, and the file's length as far as they reach. A failed write or sync says nothing about what is on
//! the disk and must not be repeated in the hope that it helps: a sync that succeeds after one that failed says nothing about the
//! writes before the failure.

use std::{io, sync::Arc};

/// How a file is going to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read an existing file; writing fails.
    Read,
    /// Read and write an existing file.
    Write,
    /// Create the file, which must not exist, then read and write it.
    Create,
}

/// Space of the target, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// In all.
    pub total: u64,
    /// Still free to us.
    pub free: u64,
}

/// One write of a batch: whole blocks to a block-aligned position.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// Where to.
    pub file: &'a dyn File,
    /// Position in the file, a multiple of [`crate::BLOCK_SIZE`].
    pub position: u64,
    /// Block-aligned memory (a part of a [`crate::Blocks`]), its length a multiple of [`crate::BLOCK_SIZE`].
    pub bytes: &'a [u8],
}

/// A flat directory of files on one device.
pub trait Disk: Send + Sync + 'static {
    /// The names of all files, in no particular order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens a file. `NotFound` or `AlreadyExists` as [`Access`] has it. Names are plain file names, see
    /// [`crate::check_name`].
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, replacing what had it. Open files stay valid.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Open files stay valid.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes every create, rename, and remove so far durable.
    fn sync_names(&self) -> io::Result<()>;

    /// Total and free space. A removed file takes space until it is closed.
    fn space(&self) -> io::Result<Space>;

    /// Performs all writes, in any order or at once, and returns when all are durable, or when one has failed.
    /// After a failure any part of any of them may be on the disk.
    fn write_durably(&self, writes: &[Write<'_>]) -> io::Result<()>;

    /// One line on how I/O is done (`direct I/O, io_uring`), for reports.
    fn describe(&self) -> String;
}

/// An open file. Safe to use from many threads; overlapping concurrent writes have no defined order.
pub trait File: Send + Sync + 'static {
    /// Fills `buffer` from `position`. `UnexpectedEof` if the file ends before. Position, length, and memory need no
    /// alignment, but reads of aligned memory at aligned positions avoid a copy.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes whole blocks as [`Write`] has it, without any durability.
    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes every completed write of this file durable.
    fn sync(&self) -> io::Result<()>;

    /// Makes the file at least `length` bytes long and reserves the space, so that writes within it do not fail with
    /// `StorageFull`. New bytes read as zeros. The new length is durable after [`File::sync`].
    fn reserve(&self, length: u64) -> io::Result<()>;

    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// For [`Disk::write_durably`], which must know its own files again.
    fn as_any(&self) -> &dyn std::any::Any;
}
