//! The way in from programs.
//!
//! A call is either *ours*, because it names a path below the prefix or a descriptor that this library gave, or it passes through. What
//! this library does on the way to answer a call, and what its threads do, always passes through.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::null_mut,
};

use crate::{
    real::{errno, set_errno},
    report::Count,
    session,
};

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

pub type Result<T> = std::result::Result<T, Errno>;

/// What becomes of a call: `None` if it passes through.
pub type Outcome<T> = Option<Result<T>>;

impl From<tyr_fs::Error> for Errno {
    fn from(error: tyr_fs::Error) -> Self {
        Errno(error.errno().number())
    }
}

/// What a call returns when it fails.
pub trait Failing {
    const FAILED: Self;

    /// Whether it is that.
    fn has_failed(&self) -> bool;
}

macro_rules! failing {
    ($($type:ty),* $(,)?) => { $(impl Failing for $type {
        const FAILED: Self = -1;

        fn has_failed(&self) -> bool {
            *self == -1
        }
    })* };
}
failing! { c_int, isize, i64 }

/// Wide characters, of which the highest is none.
impl Failing for u32 {
    const FAILED: Self = u32::MAX;

    fn has_failed(&self) -> bool {
        *self == Self::FAILED
    }
}

impl<T> Failing for *mut T {
    const FAILED: Self = null_mut();

    fn has_failed(&self) -> bool {
        self.is_null()
    }
}

/// An address of `mmap`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Mapped(pub *mut c_void);

impl Failing for Mapped {
    const FAILED: Self = Mapped(libc::MAP_FAILED);

    fn has_failed(&self) -> bool {
        self.0 == libc::MAP_FAILED
    }
}

thread_local! {
    /// Whether this thread is on this side of the border.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Whether it could be cancelled when it crossed.
    static CANCELLING: Cell<c_int> = const { Cell::new(CANCEL_ENABLE) };
}

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// Says whether this thread can be cancelled, and whether it could.
fn set_cancelling(state: c_int) -> c_int {
    let mut before = CANCEL_ENABLE;
    // SAFETY: the number is this function's own.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

/// As long as this lives, calls of this thread pass through, and nobody cancels it: what it has begun would be left half done.
pub struct Inside(bool);

impl Inside {
    pub fn enter() -> Self {
        let before = INSIDE.replace(true);
        if !before {
            CANCELLING.set(set_cancelling(CANCEL_DISABLE));
        }
        Inside(before)
    }

    /// For threads of the library, which never come out.
    pub fn stay() {
        INSIDE.set(true);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if !self.0 {
            leave();
        }
    }
}

/// The thread goes back, or jumps out of a signal handler to where it will not come back from.
pub fn leave() {
    if INSIDE.replace(false) {
        set_cancelling(CANCELLING.get());
    }
}

pub fn is_inside() -> bool {
    INSIDE.get()
}

/// As long as this lives, calls of this thread are the program's again: for what the C library does for it with streams of this library.
/// Nobody cancels it there either, as those frames cannot be unwound.
pub struct Outside {
    was_inside: bool,
    /// What was kept when it crossed.
    kept: c_int,
    /// Whether it could be cancelled just before.
    before: c_int,
}

impl Outside {
    pub fn enter() -> Self {
        let before = set_cancelling(CANCEL_DISABLE);
        Outside { was_inside: INSIDE.replace(false), kept: CANCELLING.get(), before }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        INSIDE.set(self.was_inside);
        CANCELLING.set(self.kept);
        set_cancelling(self.before);
    }
}

/// Answers a call of a program, or lets it pass.
pub fn cross<T: Failing>(
    count: &'static Count,
    ours: impl FnOnce() -> Outcome<T>,
    real: impl FnOnce() -> T,
) -> T {
    if !session::is_on() || is_inside() {
        return real();
    }
    let before = errno();
    let inside = Inside::enter();
    // What a panic may have left half done is behind locks that are passed over.
    let outcome = catch_unwind(AssertUnwindSafe(ours)).unwrap_or_else(|panic| {
        // A payload that panics when dropped is not worth another panic.
        std::mem::forget(panic);
        Some(Err(Errno(libc::EIO)))
    });
    let Some(result) = outcome else {
        count.passed();
        drop(inside);
        set_errno(before);
        return real();
    };
    count.taken(result.is_err());
    drop(inside);
    match result {
        Ok(value) => {
            set_errno(before);
            value
        }
        Err(Errno(number)) => {
            set_errno(number);
            T::FAILED
        }
    }
}

/// Where a program calls what may wait, its thread ends if it was cancelled.
pub fn test_cancelling() {
    if session::is_on() && !is_inside() {
        // SAFETY: what is unwound then are frames of the border that have nothing to be dropped.
        unsafe { pthread_testcancel() };
    }
}

const CANCEL_ENABLE: c_int = 0;
const CANCEL_DISABLE: c_int = 1;

/// Calls a function with what its type depends on.
pub fn with<F, T>(real: F, body: impl FnOnce(F) -> T) -> T {
    body(real)
}

/// Defines functions that stand before those of the C library of the same names. Each has a body that gets the real one and tells the
/// outcome.
macro_rules! interpose {
    ($(fn [$($name:ident)+] $arguments:tt -> $result:ty => $body:expr;)*) => {$($(
        $crate::border::interpose!(@one $name $arguments -> $result => $body);
    )+)*};
    (@one $name:ident ($($argument:ident: $type:ty),* $(,)?) -> $result:ty => $body:expr) => {
        // In a scope of its own, so that other things may have the name.
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn exported($($argument: $type),*) -> $result {
                static REAL: $crate::real::Real = $crate::real::Real::of(concat!(stringify!($name), "\0"));
                static COUNT: $crate::report::Count = $crate::report::Count::of(stringify!($name));
                type Called = extern "C" fn($($type),*) -> $result;
                // A thread that is cancelled while it waits is unwound from there.
                type Passed = extern "C-unwind" fn($($type),*) -> $result;
                // SAFETY: the C library's function of this name has this type.
                let (called, passed) = unsafe {
                    let real = REAL.address();
                    (
                        ::std::mem::transmute::<*mut ::std::ffi::c_void, Called>(real),
                        ::std::mem::transmute::<*mut ::std::ffi::c_void, Passed>(real),
                    )
                };
                if COUNT.waits {
                    $crate::border::test_cancelling();
                }
                let ours = || $crate::border::with((called, &COUNT), $body);
                $crate::border::cross(&COUNT, ours, || $crate::own::kept(&COUNT, passed($($argument),*)))
            }
        };
    };
}
pub(crate) use interpose;
