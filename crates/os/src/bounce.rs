//! Aligned memory for reads whose own is not.

use std::cell::RefCell;

use tyr_env::Blocks;

/// The most memory that one thread keeps for this, in bytes. Longer reads are done in steps. One step of this size runs
/// near the full speed of a fast device, so longer ones would gain little.
pub(crate) const BOUNCE_SIZE_MAX: usize = 1 << 20;

thread_local! {
    static BOUNCE: RefCell<Blocks> = RefCell::new(Blocks::default());
}

/// Runs `read` on this thread's aligned memory, of which there are at least `length` bytes. `length` is at most
/// [`BOUNCE_SIZE_MAX`].
pub(crate) fn with_bounce<T>(length: usize, read: impl FnOnce(&mut [u8]) -> T) -> T {
    debug_assert!(length <= BOUNCE_SIZE_MAX);
    BOUNCE.with_borrow_mut(|blocks| {
        if blocks.len() < length {
            *blocks = Blocks::zeroed(length);
        }
        read(&mut blocks.as_bytes_mut()[..length])
    })
}
