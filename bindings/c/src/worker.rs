//! A thread of the library with what it works on: both begin when they are first needed, and last as long as the process.

use std::{
    io,
    ptr::{from_ref, null_mut},
    sync::atomic::{AtomicPtr, Ordering},
};

/// One of them.
pub struct Worker<T>(AtomicPtr<T>);

impl<T: Default + Sync + 'static> Worker<T> {
    /// One that does not run yet.
    pub const fn new() -> Self {
        Worker(AtomicPtr::new(null_mut()))
    }

    /// Starts the thread, if it does not run.
    pub fn start(&self, name: &str, run: fn(&'static T)) -> io::Result<()> {
        if !self.0.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let new: &'static T = Box::leak(Box::default());
        let is_first = self
            .0
            .compare_exchange(null_mut(), from_ref(new).cast_mut(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if is_first && let Err(error) = std::thread::Builder::new().name(name.into()).spawn(move || run(new))
        {
            self.forget();
            return Err(error);
        }
        Ok(())
    }

    /// After a fork: the thread is the parent's.
    pub fn forget(&self) {
        self.0.store(null_mut(), Ordering::Release);
    }

    /// What it works on.
    pub fn get(&self) -> &'static T {
        // SAFETY: it was leaked, and is never freed.
        match unsafe { self.0.load(Ordering::Acquire).as_ref() } {
            Some(work) => work,
            // Only a child of a fork comes here, with an operation of its parent that nobody can go on with.
            None => Box::leak(Box::default()),
        }
    }
}
