//! Forks: what was opened before one cannot be used after it, because the threads behind it stay with the parent.

use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};

/// How many forks lie between the first process that used the library and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCHED: Once = Once::new();

/// How many forks there were.
pub fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub fn watch() {
    WATCHED.call_once(|| {
        // SAFETY: the handler does nothing but add to an atomic number and swap atomic pointers, in a process with one thread.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    crate::registry::forget();
    crate::executor::forget();
    crate::callbacks::forget();
}
