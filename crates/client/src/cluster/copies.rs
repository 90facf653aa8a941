//! What the handles of a client read of what is lent to it, without asking anybody.

use std::{
    sync::atomic::{AtomicI32, Ordering},
    time::Duration,
};

use tyr_proto::{BlobCopy, BlobName, Copies, SeenCopy};

use super::Core;
use crate::{clock::Clock, driver::call::Call};

/// The copies of a client that keeps some.
#[derive(Debug)]
pub struct Borrowed {
    copies: Copies,
    clock: Clock,
    /// Whether it was of use lately to have content sent with heads: more than zero if so.
    worth: AtomicI32,
}

impl Borrowed {
    /// The copies that a driver with this clock keeps.
    pub fn new(copies: Copies, clock: Clock) -> Self {
        Borrowed { copies, clock, worth: AtomicI32::new(WORTH_MAX) }
    }

    /// The most bytes of content that are to be sent with a head that is asked for.
    pub fn size_max(&self) -> u64 {
        if self.worth.load(Ordering::Relaxed) > 0 { CONTENT_MAX } else { 0 }
    }

    /// Content of so many bytes was sent with a head, and not asked for.
    pub fn note_sent(&self) {
        self.add(-1);
    }

    /// Content of so many bytes is read, whether it was sent with the head or not.
    pub fn note_read(&self, size: u64) {
        if size <= CONTENT_MAX {
            self.add(READ_WORTH);
        }
    }

    /// Threads that do this at once may get in each other's way; it is an estimate.
    fn add(&self, worth: i32) {
        let now = self.worth.load(Ordering::Relaxed);
        self.worth.store((now + worth).clamp(-WORTH_MAX, WORTH_MAX), Ordering::Relaxed);
    }
}

impl Core {
    /// Whether this client keeps any.
    pub fn keeps_copies(&self) -> bool {
        self.borrowed.is_some()
    }

    /// For how long a copy of a blob stays here, unless it is recalled.
    pub(super) fn assured(&self, blob: &BlobName) -> Duration {
        let of = |borrowed: &Borrowed| borrowed.copies.assured(borrowed.clock.now(), blob);
        Duration::from_micros(self.borrowed.as_deref().map_or(0, of))
    }

    /// What is lent to this client of a blob. That a copy ages is dealt with.
    pub(super) fn copy_of(&self, blob: &BlobName) -> Option<BlobCopy> {
        let borrowed = self.borrowed.as_ref()?;
        match borrowed.copies.see(borrowed.clock.now(), blob) {
            SeenCopy::Copy(copy) => Some(copy),
            SeenCopy::Aging(copy) => {
                let size_max = copy.bytes.as_ref().map_or(0, |_| CONTENT_MAX);
                // The answer goes to the copies; nobody waits for it.
                drop(self.ask(|reply| Call::Borrow {
                    blob: blob.clone(),
                    size_max,
                    until: self.until(),
                    reply,
                }));
                Some(copy)
            }
            SeenCopy::Nothing => None,
        }
    }
}

/// Content of more bytes is asked for by itself.
const CONTENT_MAX: u64 = 64 << 10;
/// Having content that is read is worth as much as sending that of so many blobs that nobody reads.
const READ_WORTH: i32 = 4;
const WORTH_MAX: i32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_sent_with_heads_as_long_as_some_of_it_is_read() {
        let borrowed = Borrowed::new(Copies::default(), Clock::real());
        for _ in 0..100 {
            assert_eq!(borrowed.size_max(), CONTENT_MAX);
            (0..3).for_each(|_| borrowed.note_sent());
            borrowed.note_read(10);
        }
        (0..40).for_each(|_| borrowed.note_sent());
        assert_eq!(borrowed.size_max(), 0, "nobody reads it");
        borrowed.note_read(CONTENT_MAX + 1);
        (0..4).for_each(|_| borrowed.note_read(10));
        assert_eq!(borrowed.size_max(), 0);
        borrowed.note_read(10);
        assert_eq!(borrowed.size_max(), CONTENT_MAX, "it is read again");
    }
}
