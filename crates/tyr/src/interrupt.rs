//! Ctrl-C and SIGTERM during long work: the work in hand is finished or rolled back, the store is stopped cleanly, and
//! what was done until then stays. A second signal ends the process at once, which loses nothing that was committed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGHUP, TERM_SIGNALS},
    flag,
};

use crate::failure::{Failure, Result};

/// Whether a signal asked to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes the signals over.
    pub fn install() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in TERM_SIGNALS {
            // In this order: the first signal finds the flag down, so only the second one ends the process.
            flag::register_conditional_default(*signal, Arc::clone(&asked))
                .and_then(|_| flag::register(*signal, Arc::clone(&asked)))
                .map_err(|error| Failure::local("cannot handle signals", &error))?;
        }
        Ok(Interrupt(asked))
    }

    /// Whether a signal has come.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether SIGHUP asked to read again what may have been renewed.
pub struct Renewal(Arc<AtomicBool>);

impl Renewal {
    /// Takes the signal over.
    pub fn install() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, Arc::clone(&asked))
            .map_err(|error| Failure::local("cannot handle signals", &error))?;
        Ok(Renewal(asked))
    }

    /// Whether the signal has come since this was asked last.
    pub fn is_asked(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
