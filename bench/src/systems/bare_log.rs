//! The yardstick for writes: a group-commit loop over a file, and nothing else.
//!
//! Writers add their payload to the open batch. The first writer of a batch leads it: it waits until the batch before has been
//! written, closes its batch, and writes it with one direct, durable write; the others sleep until that is done. Payload of whole
//! blocks is gathered from where it lies, without a copy; smaller payload is packed into blocks. There are no checksums, no
//! index, and nothing could be read back: no store that makes the same promise with the same calls can be faster.
//!
//! The blocks of the file have been written before and are overwritten in a circle, so that the file system has no metadata to log.

use std::{
    fs::File,
    io::IoSlice,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::{
    fs::{FallocateFlags, Mode, OFlags},
    io::{Errno, ReadWriteFlags},
    thread::futex,
};
use tyr_env::{BLOCK_SIZE, Blocks};

use crate::system::{Outcome, System};

/// What the file's blocks are when the run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Written before, as in a recycled segment.
    Written,
    /// Reserved but never written: the file system notes for each that it is in use now.
    Reserved,
}

/// The log.
pub struct BareLog {
    file: File,
    state: Mutex<State>,
}

struct State {
    /// The batch that still takes payload, if somebody leads one.
    open: Option<Arc<Batch>>,
    pieces: Vec<&'static [u8]>,
    /// The batch that was closed last.
    last: Arc<Batch>,
    /// Where the next batch goes.
    position: u64,
    /// Buffers for packing, reused.
    spare: Vec<Blocks>,
}

/// A group of payloads that become durable together.
#[derive(Default)]
struct Batch {
    /// What the members sleep on.
    ended: AtomicU32,
    /// What the leader of the next batch sleeps on: it is woken first.
    turn: AtomicU32,
}

const PENDING: u32 = 0;
const WRITTEN: u32 = 1;
const FAILED: u32 = 2;

/// Bytes of the file. Large enough that no batch comes near it.
const LENGTH: u64 = 1 << 30;

impl BareLog {
    /// Makes the file anew.
    pub fn create(directory: &Path, ground: Ground) -> Outcome<Self> {
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(directory.join("log"), flags, Mode::from(0o644))?);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, LENGTH)?;
        if ground == Ground::Written {
            fill(&file)?;
        }
        file.sync_all()?;
        let last = Arc::new(Batch::default());
        last.end(WRITTEN);
        let state = State { open: None, pieces: Vec::new(), last, position: 0, spare: Vec::new() };
        Ok(BareLog { file, state: Mutex::new(state) })
    }

    /// Returns when the payload is durable.
    pub fn submit(&self, payload: &'static [u8]) -> Outcome<()> {
        let mut state = self.state.lock();
        state.pieces.push(payload);
        if let Some(batch) = state.open.clone() {
            drop(state);
            return batch.outcome();
        }
        let batch = Arc::new(Batch::default());
        state.open = Some(batch.clone());
        let before = state.last.clone();
        drop(state);
        before.wait_turn();
        let result = self.write_batch(&batch);
        batch.end(if result.is_ok() { WRITTEN } else { FAILED });
        result
    }

    fn write_batch(&self, batch: &Arc<Batch>) -> Outcome<()> {
        let mut state = self.state.lock();
        state.open = None;
        state.last = batch.clone();
        let pieces = std::mem::take(&mut state.pieces);
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        let length = size.next_multiple_of(BLOCK_SIZE) as u64;
        if state.position + length > LENGTH {
            state.position = 0;
        }
        let position = state.position;
        state.position += length;
        let gather = pieces.iter().all(|piece| piece.len().is_multiple_of(BLOCK_SIZE));
        let packed = if gather { None } else { Some(state.spare.pop().unwrap_or_default()) };
        drop(state);
        match packed {
            None => self.write_durably(
                position,
                &mut pieces.iter().map(|piece| IoSlice::new(piece)).collect::<Vec<_>>(),
            ),
            Some(mut blocks) => {
                pack(&pieces, size, &mut blocks);
                let result = self.write_durably(position, &mut [IoSlice::new(blocks.as_bytes())]);
                self.state.lock().spare.push(blocks);
                result
            }
        }
    }

    fn write_durably(&self, mut position: u64, mut slices: &mut [IoSlice<'_>]) -> Outcome<()> {
        while !slices.is_empty() {
            match rustix::io::pwritev2(&self.file, slices, position, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err("the log file takes no more bytes".into()),
                Ok(count) => {
                    position += count as u64;
                    IoSlice::advance_slices(&mut slices, count);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

impl Batch {
    fn outcome(&self) -> Outcome<()> {
        sleep_while_pending(&self.ended);
        if self.ended.load(Ordering::Acquire) == WRITTEN {
            Ok(())
        } else {
            Err("the leader's write failed".into())
        }
    }

    fn wait_turn(&self) {
        sleep_while_pending(&self.turn);
    }

    fn end(&self, how: u32) {
        self.turn.store(how, Ordering::Release);
        self.ended.store(how, Ordering::Release);
        // Waking cannot fail for a word of our own; a wake without a sleeper is harmless.
        let _ = futex::wake(&self.turn, futex::Flags::PRIVATE, 1);
        let _ = futex::wake(&self.ended, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}

impl System for BareLog {
    fn put(&self, _blob: u64, payload: &'static [u8]) -> Outcome<()> {
        self.submit(payload)
    }

    fn write(&self, _blob: u64, _offset: u64, payload: &'static [u8]) -> Outcome<()> {
        self.submit(payload)
    }

    fn append(&self, payload: &'static [u8]) -> Outcome<()> {
        self.submit(payload)
    }

    fn increment(&self) -> Outcome<()> {
        self.submit(&[1; 8])
    }
}

fn sleep_while_pending(word: &AtomicU32) {
    while word.load(Ordering::Acquire) == PENDING {
        // Returns at once if the word has changed meanwhile; any error just means: look again.
        let _ = futex::wait(word, futex::Flags::PRIVATE, PENDING, None);
    }
}

fn pack(pieces: &[&'static [u8]], size: usize, blocks: &mut Blocks) {
    blocks.resize(size);
    let mut rest = blocks.as_bytes_mut();
    for piece in pieces {
        let (place, behind) = rest.split_at_mut(piece.len());
        place.copy_from_slice(piece);
        rest = behind;
    }
}

fn fill(file: &File) -> Outcome<()> {
    use std::os::unix::fs::FileExt;
    let blocks = Blocks::zeroed(4 << 20);
    for position in (0..LENGTH).step_by(blocks.len()) {
        file.write_all_at(blocks.as_bytes(), position)?;
    }
    Ok(())
}
