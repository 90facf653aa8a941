//! An open file: reads of any alignment, block writes, reservation.
//!
//! A file that was opened for direct I/O is only ever read and written in whole blocks of aligned memory; reads that ask for
//! something else go through the thread's bounce buffer. A direct read that ends inside a block has met the end of the file.
//! Nothing is cached, and no failed write or sync is tried again, unless a signal interrupted it before it did anything.

use std::{any::Any, io, sync::Arc};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::FallocateFlags,
    io::{Errno, retry_on_intr},
};
use tyr_env::{BLOCK_SIZE, Blocks, File, LENGTH_MAX, check_blocks};

use crate::{
    bounce::{BOUNCE_SIZE_MAX, with_bounce},
    directory::DirectIo,
    invalid,
    lock::DirectoryLock,
    run::DurableWrites,
};

/// A file of an [`crate::OsDisk`].
#[derive(Debug)]
pub(crate) struct OsFile {
    pub(crate) fd: OwnedFd,
    pub(crate) name: String,
    /// `None` if it goes through the page cache.
    pub(crate) direct: Option<DirectIo>,
    /// What may write keeps others out of the directory; `None` if opened for reading.
    pub(crate) lock: Option<Arc<DirectoryLock>>,
    /// How its durable writes are made so.
    pub(crate) durable_writes: DurableWrites,
}

impl File for OsFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        if position.checked_add(buffer.len() as u64).is_none_or(|end| end > LENGTH_MAX) {
            return Err(self.ended());
        }
        match self.direct {
            Some(direct) if !direct.accepts(position, buffer) => self.read_bounced(position, buffer),
            _ => self.read_straight(position, buffer),
        }
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_write(position, bytes)?;
        let mut done = 0;
        while done < bytes.len() {
            match retry_on_intr(|| rustix::io::pwrite(&self.fd, &bytes[done..], position + done as u64))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => done += n,
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::fdatasync(&self.fd))?)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        let length = length
            .checked_next_multiple_of(BLOCK_SIZE as u64)
            .ok_or_else(|| invalid(format!("'{}' cannot be {length} bytes long", self.name)))?;
        if length == 0 {
            return Ok(());
        }
        match retry_on_intr(|| rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, length)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.reserve_by_writing(length),
            result => Ok(result?),
        }
    }

    fn length(&self) -> io::Result<u64> {
        let length = rustix::fs::fstat(&self.fd)?.st_size;
        Ok(u64::try_from(length).unwrap_or(0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl OsFile {
    /// Fails unless the file may be written and this is whole blocks in the right place. The memory of a direct write must be
    /// aligned for blocks, whatever less the device would take, so that a caller's mistake shows on every machine.
    pub(crate) fn check_write(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_writable()?;
        check_blocks(position, bytes).map_err(|error| invalid(format!("write to '{}': {error}", self.name)))
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.lock {
            Some(_) => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("'{}' was opened for reading; open it for writing", self.name),
            )),
        }
    }

    /// Reads into the caller's memory.
    fn read_straight(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let n = self.read_up_to(position, buffer)?;
        if n < buffer.len() { Err(self.ended()) } else { Ok(()) }
    }

    /// Reads the blocks that cover the range into the bounce buffer and copies from there.
    fn read_bounced(&self, mut position: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let before = offset_in_block(position);
            let wanted = buffer.len().min(BOUNCE_SIZE_MAX - before);
            let (now, later) = buffer.split_at_mut(wanted);
            with_bounce((before + wanted).next_multiple_of(BLOCK_SIZE), |blocks| {
                let start = position - before as u64;
                let n = self.read_up_to(start, blocks)?;
                if n < before + wanted {
                    return Err(self.ended());
                }
                now.copy_from_slice(&blocks[before..before + wanted]);
                Ok(())
            })?;
            position += wanted as u64;
            buffer = later;
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends; returns how many bytes it got.
    fn read_up_to(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let n =
                retry_on_intr(|| rustix::io::pread(&self.fd, &mut buffer[done..], position + done as u64))?;
            done += n;
            if n == 0 || (self.direct.is_some() && !n.is_multiple_of(BLOCK_SIZE)) {
                break;
            }
        }
        Ok(done)
    }

    #[cold]
    fn ended(&self) -> io::Error {
        match self.length() {
            Ok(end) => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("a read reaches past the end of '{}' at byte {end}", self.name),
            ),
            Err(error) => error,
        }
    }

    /// Makes the file longer by writing zeros, for file systems that cannot reserve.
    fn reserve_by_writing(&self, length: u64) -> io::Result<()> {
        let mut position = self.length()?.next_multiple_of(BLOCK_SIZE as u64);
        let zeros = Blocks::zeroed(ZEROS_SIZE.min(usize::try_from(length).unwrap_or(ZEROS_SIZE)));
        while position < length {
            let n = zeros.len().min(usize::try_from(length - position).unwrap_or(usize::MAX));
            self.write_at(position, &zeros.as_bytes()[..n])?;
            position += n as u64;
        }
        Ok(())
    }
}

impl AsFd for OsFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl DirectIo {
    fn accepts(self, position: u64, buffer: &[u8]) -> bool {
        position.is_multiple_of(BLOCK_SIZE as u64)
            && buffer.len().is_multiple_of(BLOCK_SIZE)
            && buffer.as_ptr().addr().is_multiple_of(self.memory_alignment)
    }
}

/// How far the position is into its block.
fn offset_in_block(position: u64) -> usize {
    usize::try_from(position % BLOCK_SIZE as u64).expect("a remainder is smaller than its divisor")
}

/// Zeros written at once where space cannot be reserved, in bytes.
const ZEROS_SIZE: usize = 1 << 20;

#[cfg(test)]
mod tests;
