//! A bound on the memory of a fuzz target, so that a decoder that believes a count fails at once.

use std::sync::Once;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the process die when it reserves memory that no input of a fuzz target justifies.
pub fn memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let limit = Rlimit { current: Some(MEMORY_MAX), ..getrlimit(Resource::As) };
        setrlimit(Resource::As, limit).expect("a limit may be lowered");
    });
}

/// Inputs have a few KiB, what they decode to a few MiB; threads and allocator reserve the rest.
const MEMORY_MAX: u64 = 2 << 30;
