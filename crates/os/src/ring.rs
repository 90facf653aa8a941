//! io_uring: several runs written at once by one system call.
//!
//! A ring is used by one caller at a time, who submits, waits for all completions, and gives it back: between two uses
//! nothing is in flight, and the kernel never holds memory of a caller that went on. Rings are made when first needed; where
//! they cannot be, that is remembered, and callers do without.

#![allow(unsafe_code, reason = "the kernel reads submitted memory behind the borrow checker's back")]

use std::{io, os::fd::AsRawFd, time::Duration};

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;
use rustix::io::{Errno, ReadWriteFlags};

use crate::run::Run;

/// The rings of a disk.
#[derive(Default)]
pub(crate) struct Rings(Mutex<Idle>);

/// The rings that nobody uses, and what is known about rings here.
#[derive(Default)]
struct Idle {
    rings: Vec<Ring>,
    /// A ring was made once; that another cannot be may pass.
    worked: bool,
    /// The kernel does not let us have or use rings.
    unavailable: bool,
}

/// A ring with nothing in flight.
struct Ring(IoUring);

/// Why a batch stopped. The ring must then be dropped: writes may be queued in it that were not begun.
enum Failure {
    /// The kernel does not let us use the ring.
    Unusable,
    /// A write failed.
    Write(Errno),
}

impl Rings {
    /// Whether rings can be had here.
    pub(crate) fn are_available(&self) -> bool {
        self.take().map(|ring| self.give_back(ring)).is_some()
    }

    /// Writes the runs durably, at once as far as a ring has room. What is left in the runs was not written, for want
    /// of a ring or because a write was cut short, interrupted, or refused; the caller finishes it. After a failure
    /// nothing goes on in the background.
    pub(crate) fn write(&self, runs: &mut [Run<'_>]) -> io::Result<()> {
        let Some(mut ring) = self.take() else { return Ok(()) };
        for batch in runs.chunks_mut(ENTRIES as usize) {
            match ring.write(batch) {
                Ok(()) => {}
                Err(Failure::Write(errno)) => return Err(errno.into()),
                Err(Failure::Unusable) => {
                    self.0.lock().unavailable = true;
                    return Ok(());
                }
            }
        }
        self.give_back(ring);
        Ok(())
    }

    fn take(&self) -> Option<Ring> {
        let mut idle = self.0.lock();
        if idle.unavailable {
            return None;
        }
        if let Some(ring) = idle.rings.pop() {
            return Some(ring);
        }
        match IoUring::new(ENTRIES) {
            Ok(ring) => {
                idle.worked = true;
                Some(Ring(ring))
            }
            Err(_) => {
                idle.unavailable = !idle.worked;
                None
            }
        }
    }

    fn give_back(&self, ring: Ring) {
        let mut idle = self.0.lock();
        if idle.rings.len() < IDLE_MAX {
            idle.rings.push(ring);
        }
    }

    /// Puts a ring that the kernel refuses to run in the place of all others.
    #[cfg(test)]
    pub(crate) fn forbid(&self) {
        let disabled = IoUring::builder().setup_r_disabled().build(ENTRIES);
        let mut idle = self.0.lock();
        idle.rings = disabled.ok().map(Ring).into_iter().collect();
        idle.unavailable = idle.rings.is_empty();
    }
}

impl Ring {
    /// Writes at most [`ENTRIES`] runs. Returns when everything that was begun is over, failed or not.
    fn write(&mut self, runs: &mut [Run<'_>]) -> Result<(), Failure> {
        for (index, run) in runs.iter().enumerate() {
            let slices = u32::try_from(run.slices.len()).expect("a run has at most 1024 slices");
            // An IoSlice is laid out as the kernel's iovec; the standard library promises it.
            let iovecs = run.slices.as_ptr().cast();
            let entry = opcode::Writev::new(types::Fd(run.file.fd.as_raw_fd()), iovecs, slices)
                .offset(run.position)
                .rw_flags(ReadWriteFlags::DSYNC.bits().cast_signed())
                .build()
                .user_data(index as u64);
            // SAFETY: the iovecs, the memory that they name, and the file are borrowed by `runs` and stay as they are until
            // the entry is over: pushing does not begin it, and `complete` returns only when all that was begun is over.
            // Entries that were not begun then go with the ring, which `Rings::write` drops.
            let pushed = unsafe { self.0.submission().push(&entry) };
            pushed.expect("an idle ring has room for as many entries as it was made for");
        }
        self.complete(runs)
    }

    /// Begins what was pushed and waits for it.
    fn complete(&mut self, runs: &mut [Run<'_>]) -> Result<(), Failure> {
        let mut completed = 0;
        let mut failure = None;
        while completed < runs.len() {
            let entered = self.0.submit_and_wait(runs.len() - completed);
            for completion in self.0.completion() {
                completed += 1;
                let run = usize::try_from(completion.user_data()).ok().and_then(|index| runs.get_mut(index));
                if let Some(Err(errno)) = run.map(|run| settle(run, completion.result())) {
                    failure.get_or_insert(errno);
                }
            }
            match entered {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if runs.len() - self.0.submission().len() == completed => {
                    return Err(failure.map_or(Failure::Unusable, Failure::Write));
                }
                // Should not happen; but what is in flight reads the caller's memory, so it must end first.
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
        failure.map_or(Ok(()), |errno| Err(Failure::Write(errno)))
    }
}

/// Notes the result of a run's write. What did not begin is no failure: it is left in the run.
fn settle(run: &mut Run<'_>, result: i32) -> Result<(), Errno> {
    if let Ok(n) = usize::try_from(result) {
        run.advance(n);
        return Ok(());
    }
    match Errno::from_raw_os_error(result.wrapping_neg()) {
        Errno::INTR | Errno::AGAIN => Ok(()),
        errno if run.file.durable_writes.refuses(errno) => Ok(()),
        errno => Err(errno),
    }
}

/// Writes in flight in one ring. A batch of more is written in several rounds.
const ENTRIES: u32 = 64;

/// Rings kept for the next callers; more callers at once make their own.
const IDLE_MAX: usize = 4;

/// How often to look for completions if waiting for them fails.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests;
