//! Planted bugs that the simulator must find: each leaves out one rule by which files move, and shows that the rule is checked.
//!
//! Only the simulator enables the feature `canary`. Without it nothing is planted, ever, and the questions compile to nothing.

/// A planted bug, named by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// A file moves before the guests have said whether they have it open.
    GuestsNotAsked,
    /// A file moves though its mark was taken away.
    MarkIgnored,
}

/// Whether a bug is planted: never, in what is shipped.
#[cfg(not(feature = "canary"))]
#[inline(always)]
pub(crate) const fn planted(_: Canary) -> bool {
    false
}

#[cfg(feature = "canary")]
pub(crate) use nest::planted;
#[cfg(feature = "canary")]
pub use nest::{Planted, plant};

#[cfg(feature = "canary")]
mod nest {
    use std::cell::Cell;

    use super::Canary;

    thread_local! {
        static PLANTED: Cell<Option<Canary>> = const { Cell::new(None) };
    }

    /// A bug that is planted as long as this value lives.
    #[derive(Debug)]
    #[must_use = "the bug is gone when this value is dropped"]
    pub struct Planted(Option<Canary>);

    /// Plants a bug into everything that this thread runs from here on, or none.
    pub fn plant(canary: Option<Canary>) -> Planted {
        Planted(PLANTED.replace(canary))
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.set(self.0);
        }
    }

    pub(crate) fn planted(canary: Canary) -> bool {
        PLANTED.get() == Some(canary)
    }
}
