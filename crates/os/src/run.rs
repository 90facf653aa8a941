//! Durable writes: adjacent writes of one file are joined to runs, each run is one vectored write.
//!
//! A run is durable when it returns: the write itself asks for it (`RWF_DSYNC`), or, where that is not supported, a sync of
//! the file follows. A run that was cut short goes on where it stopped. A failed write or sync is never repeated; what looks
//! like a repetition below is after refusals by which the kernel says that it has not begun.

use std::{
    io::{self, IoSlice},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use tyr_env::{File as _, Write};

use crate::{file::OsFile, invalid};

/// Adjacent bytes of one file, yet to be written.
pub(crate) struct Run<'a> {
    pub(crate) file: &'a OsFile,
    /// Where the first of `slices` goes.
    pub(crate) position: u64,
    /// What is left to write; at most [`SLICES_MAX`].
    pub(crate) slices: Vec<IoSlice<'a>>,
    /// Bytes in `slices`.
    pub(crate) length: usize,
}

/// Whether durable writes of a file are supported, which the first one shows.
#[derive(Debug, Default)]
pub(crate) struct DurableWrites {
    /// Write, then sync the file.
    refused: AtomicBool,
}

/// Checks the writes and joins them to runs, without changing their order.
pub(crate) fn plan_runs<'a>(writes: &[Write<'a>]) -> io::Result<Vec<Run<'a>>> {
    let mut runs: Vec<Run<'a>> = Vec::with_capacity(writes.len());
    for write in writes {
        let file = write.file.as_any().downcast_ref::<OsFile>();
        let file =
            file.ok_or_else(|| invalid("a durable write names a file of another kind of disk".into()))?;
        file.check_write(write.position, write.bytes)?;
        if write.bytes.is_empty() {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.is_continued_by(file, write.position) => run.push(write.bytes),
            _ => {
                let mut run = Run { file, position: write.position, slices: Vec::new(), length: 0 };
                run.push(write.bytes);
                runs.push(run);
            }
        }
    }
    Ok(runs)
}

impl<'a> Run<'a> {
    fn is_continued_by(&self, file: &OsFile, position: u64) -> bool {
        std::ptr::eq(self.file, file)
            && self.position + self.length as u64 == position
            && self.slices.len() < SLICES_MAX
    }

    fn push(&mut self, bytes: &'a [u8]) {
        self.slices.push(IoSlice::new(bytes));
        self.length += bytes.len();
    }

    /// Notes that the first `n` bytes were written.
    pub(crate) fn advance(&mut self, n: usize) {
        let n = n.min(self.length);
        let mut left = &mut self.slices[..];
        IoSlice::advance_slices(&mut left, n);
        let left = left.len();
        self.slices.drain(..self.slices.len() - left);
        self.position += n as u64;
        self.length -= n;
    }

    /// Writes what is left of the run, durably, on this thread.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        while self.length > 0 && !self.file.durable_writes.are_refused() {
            match self.write_some(ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.advance(n),
                Err(errno) if self.file.durable_writes.refuses(errno) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        if self.length == 0 {
            return Ok(());
        }
        self.write_unsynced()?;
        self.file.sync()
    }

    /// Writes what is left of the run, without any durability.
    pub(crate) fn write_unsynced(&mut self) -> io::Result<()> {
        while self.length > 0 {
            match self.write_some(ReadWriteFlags::empty())? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => self.advance(n),
            }
        }
        Ok(())
    }

    fn write_some(&self, flags: ReadWriteFlags) -> Result<usize, Errno> {
        retry_on_intr(|| {
            if flags.is_empty() {
                rustix::io::pwritev(&self.file.fd, &self.slices, self.position)
            } else {
                rustix::io::pwritev2(&self.file.fd, &self.slices, self.position, flags)
            }
        })
    }
}

impl DurableWrites {
    pub(crate) fn are_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the error says that durable writes are not supported, which is remembered. `EINVAL` may have another cause;
    /// the plain write that follows then fails by it as well.
    pub(crate) fn refuses(&self, errno: Errno) -> bool {
        let refused = matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL);
        if refused {
            self.refused.store(true, Ordering::Relaxed);
        }
        refused
    }
}

/// The most slices that one system call takes (`IOV_MAX` of Linux).
const SLICES_MAX: usize = 1024;

#[cfg(test)]
mod tests;
