//! Bytes on their way into the store: checksummed, and aligned if they are large, before any lock is taken.

use std::sync::Arc;

use parking_lot::Mutex;
use tyr_env::Blocks;
use tyr_wire::extent::{Checksums, Place};

use crate::segment::{Segment, SegmentHold};

/// The longest payload, in bytes; a longer write is made of several.
pub const PAYLOAD_SIZE_MAX: usize = 4 << 20;

/// Bytes ready to be logged. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Payload(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    len: usize,
    checksums: Checksums,
    bytes: Bytes,
    staged: Option<Staged>,
}

#[derive(Debug)]
enum Bytes {
    Small(Box<[u8]>),
    Aligned(Blocks),
    /// Written to disk by staging already.
    OnDisk,
}

/// Where a payload was written ahead of its transaction. As long as it exists, its segment is not collected.
#[derive(Debug)]
struct Staged {
    place: Place,
    hold: SegmentHold,
}

impl Payload {
    /// Copies and checksums the bytes: 1 to [`PAYLOAD_SIZE_MAX`] of them.
    ///
    /// # Panics
    /// If there are none or too many; callers split their writes.
    pub fn new(bytes: &[u8]) -> Self {
        assert!((1..=PAYLOAD_SIZE_MAX).contains(&bytes.len()), "payload of {} bytes", bytes.len());
        // The copy is what is checksummed: programs in other languages may write to their buffers meanwhile, and what is stored has to fit
        // its checksums then, too.
        let (stored, checksums) = if bytes.len() < ALIGNED_MIN {
            let copy: Box<[u8]> = bytes.into();
            let checksums = Checksums::of(&copy);
            (Bytes::Small(copy), checksums)
        } else {
            let mut blocks = take_buffer(bytes.len());
            blocks.extend_from_slice(bytes);
            let checksums = Checksums::of(&blocks.as_bytes()[..bytes.len()]);
            (Bytes::Aligned(blocks), checksums)
        };
        Payload(Arc::new(Inner { len: bytes.len(), checksums, bytes: stored, staged: None }))
    }

    /// The same payload after it was written to `place`; the bytes are let go.
    pub(crate) fn staged_at(&self, place: Place, hold: SegmentHold) -> Self {
        let inner = Inner {
            len: self.0.len,
            checksums: self.0.checksums.clone(),
            bytes: Bytes::OnDisk,
            staged: Some(Staged { place, hold }),
        };
        Payload(Arc::new(inner))
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Never: a payload has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    pub(crate) fn checksums(&self) -> &Checksums {
        &self.0.checksums
    }

    /// The bytes, unless they are only on disk.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.0.bytes {
            Bytes::Small(bytes) => Some(bytes),
            Bytes::Aligned(blocks) => Some(&blocks.as_bytes()[..self.0.len]),
            Bytes::OnDisk => None,
        }
    }

    /// The bytes followed by zeros to whole blocks, for direct I/O; only of payload that is large enough to be aligned.
    pub(crate) fn blocks(&self) -> Option<&[u8]> {
        match &self.0.bytes {
            Bytes::Aligned(blocks) => Some(blocks.as_bytes()),
            _ => None,
        }
    }

    /// Where it is, and in which segment, if it was staged.
    pub(crate) fn staged(&self) -> Option<(Place, &Segment)> {
        self.0.staged.as_ref().map(|staged| (staged.place, staged.hold.segment()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Bytes::Aligned(blocks) = &mut self.bytes {
            give_buffer(std::mem::take(blocks));
        }
    }
}

/// Buffers of former payloads. Fresh memory of this size comes from the kernel page by page, which costs more than filling it.
static BUFFERS: Mutex<Buffers> = Mutex::new(Buffers { free: [const { Vec::new() }; CLASSES], bytes: 0 });

/// Free buffers by the power of two that they can hold.
struct Buffers {
    free: [Vec<Blocks>; CLASSES],
    bytes: usize,
}

fn take_buffer(len: usize) -> Blocks {
    let (class, size) = class_of(len);
    let mut buffers = BUFFERS.lock();
    match buffers.free[class].pop() {
        Some(blocks) => {
            buffers.bytes -= blocks.capacity();
            blocks
        }
        None => {
            drop(buffers);
            Blocks::with_capacity(size)
        }
    }
}

fn give_buffer(mut blocks: Blocks) {
    let (class, size) = class_of(blocks.capacity());
    if size != blocks.capacity() {
        return;
    }
    blocks.clear();
    let mut buffers = BUFFERS.lock();
    if buffers.bytes + size <= BUFFERS_SIZE_MAX {
        buffers.bytes += size;
        buffers.free[class].push(blocks);
    }
}

/// The class of buffers that hold `len` bytes, and their size.
fn class_of(len: usize) -> (usize, usize) {
    let size = len.next_power_of_two().max(ALIGNED_MIN);
    let class = (size / ALIGNED_MIN).trailing_zeros() as usize;
    (class.min(CLASSES - 1), size)
}

/// From [`ALIGNED_MIN`] to [`PAYLOAD_SIZE_MAX`].
const CLASSES: usize = 11;
const _: () = assert!(ALIGNED_MIN << (CLASSES - 1) == PAYLOAD_SIZE_MAX);

/// Free buffers are kept up to so many bytes: sixteen writers' worth of the largest payload.
const BUFFERS_SIZE_MAX: usize = 16 * PAYLOAD_SIZE_MAX;

/// Payload of at least this size begins at a block boundary on disk.
pub(crate) const ALIGNED_MIN: usize = 4096;
