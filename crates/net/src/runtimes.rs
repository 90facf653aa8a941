//! Where connections run.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::runtime::Handle;

/// The runtimes among which connections are spread in turn. Without any, a connection runs in the runtime in which it was begun.
#[derive(Clone, Default)]
pub struct Runtimes {
    handles: Arc<[Handle]>,
    turn: Arc<AtomicUsize>,
}

impl Runtimes {
    /// Among these, each of which can wait for sockets and for time.
    pub fn new(handles: impl IntoIterator<Item = Handle>) -> Self {
        Runtimes { handles: handles.into_iter().collect(), turn: Arc::default() }
    }

    /// Where the next connection runs.
    pub(crate) fn next(&self) -> Handle {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let place = turn.checked_rem(self.handles.len());
        place.map_or_else(Handle::current, |place| self.handles[place].clone())
    }
}

impl fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtimes").field("count", &self.handles.len()).finish()
    }
}
