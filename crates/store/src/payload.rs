//! Bytes on their way into the store: checksummed, and aligned if they are large, before any lock is taken.

use std::{ops::Range, sync::Arc};

use tyr_env::BLOCK_SIZE;
use tyr_wire::{
    extent::{Checksums, Place},
    shared::SharedBytes,
};

use crate::{
    aligned::Aligned,
    segment::{Segment, SegmentHold},
};

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
    Aligned(Aligned),
    /// Whole blocks of what others have, too, from this byte on.
    Shared(SharedBytes, usize),
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
            let copy = Aligned::copy(bytes);
            let checksums = Checksums::of(copy.bytes());
            (Bytes::Aligned(copy), checksums)
        };
        Payload(Arc::new(Inner { len: bytes.len(), checksums, bytes: stored, staged: None }))
    }

    /// Checksums a part of bytes that nobody changes, and copies it only if it does not lie in whole blocks.
    ///
    /// # Panics
    /// As [`Payload::new`].
    pub fn sharing(bytes: &SharedBytes, part: Range<usize>) -> Self {
        let ends = part.end == bytes.len() || part.end.is_multiple_of(BLOCK_SIZE);
        let are_whole = part.start.is_multiple_of(BLOCK_SIZE) && ends && part.len() >= ALIGNED_MIN;
        if bytes.blocks().is_none() || !are_whole {
            return Payload::new(&bytes[part]);
        }
        assert!(part.len() <= PAYLOAD_SIZE_MAX, "payload of {} bytes", part.len());
        let checksums = Checksums::of(&bytes[part.clone()]);
        let shared = Bytes::Shared(bytes.clone(), part.start);
        Payload(Arc::new(Inner { len: part.len(), checksums, bytes: shared, staged: None }))
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
            Bytes::Aligned(aligned) => Some(aligned.bytes()),
            Bytes::Shared(bytes, start) => Some(&bytes[*start..start + self.0.len]),
            Bytes::OnDisk => None,
        }
    }

    /// The bytes followed by zeros to whole blocks, for direct I/O; only of payload that is large enough to be aligned.
    pub(crate) fn blocks(&self) -> Option<&[u8]> {
        match &self.0.bytes {
            Bytes::Aligned(aligned) => Some(aligned.blocks()),
            Bytes::Shared(bytes, start) => {
                bytes.blocks().map(|blocks| &blocks[*start..start + self.0.len.next_multiple_of(BLOCK_SIZE)])
            }
            Bytes::Small(_) | Bytes::OnDisk => None,
        }
    }

    /// Where it is, and in which segment, if it was staged.
    pub(crate) fn staged(&self) -> Option<(Place, &Segment)> {
        self.0.staged.as_ref().map(|staged| (staged.place, staged.hold.segment()))
    }
}

/// Payload of at least this size begins at a block boundary on disk.
pub(crate) const ALIGNED_MIN: usize = 4096;
