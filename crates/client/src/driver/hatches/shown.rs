//! A file that a node has shown, read through the kernel's page cache or past it.
//!
//! A large piece that is read for the first time goes past the cache, into memory that is in use already: to fill the cache takes more of the processor
//! than all of the rest, and most of what is read so is read once, or kept by who reads it. What is read again goes through
//! the cache, and stays there.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
    sync::OnceLock,
};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, open};
use tyr_net::{Patience, read_file};
use tyr_proto::{SPOT_BLOCK, Spot};
use tyr_wire::checksum::crc32c;

use super::Found;

/// The file.
#[derive(Debug)]
pub struct ShownFile {
    file: File,
    /// The same, past the cache; nothing if that cannot be.
    direct: OnceLock<Option<File>>,
    /// Which parts of [`PART`] bytes were read past the cache, which are no more than the file has.
    seen: Mutex<BTreeSet<u64>>,
}

impl ShownFile {
    /// As a node has handed it out.
    pub fn new(file: File) -> Self {
        ShownFile { file, direct: OnceLock::new(), seen: Mutex::default() }
    }

    /// Adds what lies at places that follow one another in the file to bytes, once it has its checksums. It is all in memory for a moment.
    pub fn read(&self, run: &[&Spot], bytes: &mut Vec<u8>, patience: Patience) -> Result<(), Found> {
        let Some(start) = run.first().map(|spot| spot.position) else { return Ok(()) };
        let length: usize = run.iter().map(|spot| spot.stored as usize).sum();
        let is_new = length >= DIRECT_MIN && self.is_new(start);
        if is_new && patience == Patience::None {
            return Err(Found::Slow);
        }
        let direct = is_new.then(|| self.past_cache()).flatten();
        let before = usize::try_from(start % BLOCK as u64).expect("less than a block");
        with_scratch(before + length, |scratch| {
            let stored = before..before + length;
            let is_read = direct
                .is_some_and(|file| read_blocks(file, start - before as u64, scratch, stored.end).is_ok());
            if is_read {
                self.seen.lock().extend(start / PART..(start + length as u64).div_ceil(PART));
            } else {
                match read_file(&self.file, start, &mut scratch[stored.clone()], patience) {
                    Ok(true) => {}
                    Ok(false) => return Err(Found::Slow),
                    Err(_) => return Err(Found::Unreadable),
                }
            }
            take(run, &scratch[stored], bytes)
        })
    }

    /// Whether what is there was not read yet, as far as that makes a difference.
    fn is_new(&self, position: u64) -> bool {
        !matches!(self.direct.get(), Some(None)) && !self.seen.lock().contains(&(position / PART))
    }

    fn past_cache(&self) -> Option<&File> {
        self.direct.get_or_init(|| open_direct(&self.file).ok()).as_ref()
    }
}

/// Adds what is wanted of what is stored, if that has its checksums.
fn take(run: &[&Spot], mut stored: &[u8], bytes: &mut Vec<u8>) -> Result<(), Found> {
    for spot in run {
        let (these, rest) = stored.split_at(spot.stored as usize);
        if !these.chunks(SPOT_BLOCK as usize).map(crc32c).eq(spot.checksums.iter().copied()) {
            return Err(Found::Damaged);
        }
        bytes.extend_from_slice(&these[spot.from as usize..(spot.from + spot.length) as usize]);
        stored = rest;
    }
    Ok(())
}

/// Opens a file once more: a descriptor that was handed on shares its flags with others.
fn open_direct(file: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(open(path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Fills so many bytes of a buffer at least, in whole blocks.
fn read_blocks(file: &File, position: u64, buffer: &mut [u8], wanted: usize) -> io::Result<()> {
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(&mut buffer[filled..], position + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Runs on so many bytes, in whole blocks, of memory that the thread keeps.
fn with_scratch<T>(length: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local!(static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    let length = length.next_multiple_of(BLOCK);
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.len() < length + BLOCK {
            scratch.resize(length + BLOCK, 0);
        }
        let start = scratch.as_ptr().align_offset(BLOCK);
        with(&mut scratch[start..start + length])
    })
}

/// Runs of so many bytes and more are read past the cache for the first time. With smaller ones the device is too far away for each.
const DIRECT_MIN: usize = 128 << 10;
/// What was read is noted for parts of a file of so many bytes.
const PART: u64 = 1 << 20;
/// Past the cache reads begin and end at multiples of so many bytes, in the file and in memory.
const BLOCK: usize = 4096;

#[cfg(test)]
mod tests;
