//! What the kernel may believe of names in a file system that others change.
//!
//! To take back one name waits for the lock of its directory, which a call may hold that waits for whoever wants it back, and passes by a lookup that is
//! under way. All names can be taken back at once, without any lock and with those that are being looked up, by the kernel's epoch of names (Linux 6.16):
//! what it looked up before it forgets, and asks for again. With that goes what it has below them, and what is mounted there: so this is only done
//! if it is asked for. And it believes names only while nothing was recalled for some time, and is told of an end only if it may believe any.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::kernel::Kernel;

/// Whether the kernel believes names.
#[derive(Debug, Default)]
pub struct Names {
    /// The kernel, if it can be told.
    kernel: OnceLock<Arc<Kernel>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// It may believe some until then.
    believed_until: Option<Instant>,
    /// It is to believe none until then.
    doubted_until: Option<Instant>,
}

impl Names {
    /// The kernel may believe names. False if it is too old for that: then it believes none.
    pub fn connect(&self, kernel: Arc<Kernel>) -> bool {
        // It is mounted once.
        kernel.begin_epoch().is_ok() && self.kernel.set(kernel).is_ok()
    }

    /// Whether it may believe a name that is looked up from now on, for as long as that is certain. To be asked before it is made sure how long that is:
    /// what is recalled after that is told of before it is given back.
    pub fn begin(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let is_calm = self.kernel.get().is_some() && state.doubted_until.is_none_or(|until| until <= now);
        if is_calm {
            state.believed_until = Some(now + BELIEVED_MAX);
        }
        is_calm
    }

    /// Something that it was told is over: it asks for all names anew.
    pub fn end(&self, now: Instant) {
        let mut state = self.state.lock();
        state.doubted_until = Some(now + CALM);
        let believes = state.believed_until.take().is_some_and(|until| until > now);
        if let Some(kernel) = self.kernel.get().filter(|_| believes) {
            // It could do so once, and can unless it has been unmounted.
            let _ = kernel.begin_epoch();
        }
    }
}

/// After something was recalled it believes no name for so long.
const CALM: Duration = Duration::from_secs(1);
/// A name that is looked up is believed for less than this, however late the kernel hears of it.
const BELIEVED_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs::File;

    use super::*;

    /// Names with a file in place of the kernel, which takes everything.
    fn names() -> (Names, File) {
        let file = tempfile::tempfile().unwrap();
        let names = Names::default();
        assert!(names.connect(kernel(file.try_clone().unwrap())));
        (names, file)
    }

    fn kernel(file: File) -> Arc<Kernel> {
        Arc::new(Kernel::new(file.into()))
    }

    /// How often a new epoch has begun, after the first one.
    fn epochs(file: &File) -> u64 {
        file.metadata().unwrap().len() / 16 - 1
    }

    #[test]
    fn names_are_believed_until_something_is_recalled_and_again_when_it_is_calm() {
        let ((names, file), start) = (names(), Instant::now());
        assert!(names.begin(start));
        names.end(start);
        assert_eq!(epochs(&file), 1);
        assert!(!names.begin(start) && !names.begin(start + CALM / 2));
        assert!(names.begin(start + CALM));
    }

    #[test]
    fn the_kernel_is_only_told_if_it_may_believe_a_name() {
        let ((names, file), start) = (names(), Instant::now());
        names.end(start);
        assert_eq!(epochs(&file), 0);
        assert!(names.begin(start + CALM));
        names.end(start + CALM + BELIEVED_MAX);
        assert_eq!(epochs(&file), 0);
        assert!(names.begin(start + 2 * CALM + BELIEVED_MAX));
        names.end(start + 2 * CALM + BELIEVED_MAX);
        names.end(start + 2 * CALM + BELIEVED_MAX);
        assert_eq!(epochs(&file), 1);
    }

    #[test]
    fn a_kernel_that_cannot_be_told_believes_no_name() {
        let names = Names::default();
        assert!(!names.begin(Instant::now()));
        // Nothing can be written to it.
        assert!(!names.connect(kernel(File::open("/dev/null").unwrap())));
        assert!(!names.begin(Instant::now()));
    }
}
