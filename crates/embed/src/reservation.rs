//! Reservations: how a transaction that keeps losing conflicts gets its turn.
//!
//! At most one transaction of a store at a time has the turn, in the order in which they asked. As long as it has it, writers
//! of the blobs that it reads wait before they commit. Writers that had passed already may still win, but there are only so many of
//! them, so it commits after a bounded number of tries. A turn ends by itself after [`TURN_MAX`]: a closure that
//! hangs delays others, it does not stop them.
//!
//! While nobody has the turn, which is nearly always, this costs a writer one load.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use event_listener::Event;
use parking_lot::Mutex;
use tyr_types::{Key, KeyspaceId, Result};

use crate::wait::{Mode, Waiting};

/// A blob, wherever it is.
pub(crate) type Place = (KeyspaceId, Key);

/// The reservations of one store.
#[derive(Default)]
pub(crate) struct Reservations {
    /// Whether somebody has the turn. Set and cleared under the lock.
    taken: AtomicBool,
    state: Mutex<State>,
    /// Notified to all when the turn ends and when the head of the line changes.
    changed: Event,
}

#[derive(Default)]
struct State {
    holder: Option<Holder>,
    line: VecDeque<u64>,
    next: u64,
}

struct Holder {
    id: u64,
    until: Instant,
    blobs: BTreeSet<Place>,
}

/// The turn. Ends when dropped.
pub(crate) struct Turn {
    reservations: Arc<Reservations>,
    id: u64,
}

impl Reservations {
    /// Waits in line for the turn, and reserves the blobs. Who waits is told if the store is closed.
    pub(crate) async fn take_turn(
        self: &Arc<Self>,
        waiting: &Waiting,
        mode: Mode,
        blobs: BTreeSet<Place>,
    ) -> Result<Turn> {
        let line = self.stand_in_line();
        loop {
            let listener = self.changed.listen();
            let until = {
                let mut state = self.state.lock();
                let now = Instant::now();
                match &state.holder {
                    Some(holder) if holder.until > now => holder.until,
                    _ if state.line.front() == Some(&line.id) => {
                        state.holder = Some(Holder { id: line.id, until: now + TURN_MAX, blobs });
                        self.taken.store(true, Ordering::SeqCst);
                        return Ok(Turn { reservations: self.clone(), id: line.id });
                    }
                    // Who is in front was notified, or will give up and notify.
                    _ => now + TURN_MAX,
                }
            };
            waiting.listen_until(mode, listener, until).await?;
        }
    }

    fn stand_in_line(self: &Arc<Self>) -> InLine {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.line.push_back(id);
        InLine { reservations: self.clone(), id }
    }

    /// Waits until none of the blobs is reserved by somebody else. Who waits is told if the store is closed.
    pub(crate) async fn admit<'a>(
        &self,
        waiting: &Waiting,
        mode: Mode,
        blobs: impl Iterator<Item = (KeyspaceId, &'a Key)> + Clone,
    ) -> Result<()> {
        while self.taken.load(Ordering::SeqCst) {
            let listener = self.changed.listen();
            let Some(until) = self.reserved_until(blobs.clone()) else { break };
            waiting.listen_until(mode, listener, until).await?;
        }
        Ok(())
    }

    fn reserved_until<'a>(&self, mut blobs: impl Iterator<Item = (KeyspaceId, &'a Key)>) -> Option<Instant> {
        let state = self.state.lock();
        let holder = state.holder.as_ref().filter(|holder| holder.until > Instant::now())?;
        blobs.any(|(id, key)| holder.blobs.contains(&(id, key.clone()))).then_some(holder.until)
    }
}

impl Turn {
    /// Reserves one more blob, unless the turn is over.
    pub(crate) fn reserve(&self, id: KeyspaceId, key: &Key) {
        let mut state = self.reservations.state.lock();
        if let Some(holder) = state.holder.as_mut().filter(|holder| holder.id == self.id) {
            holder.blobs.insert((id, key.clone()));
        }
    }

    /// Whether others have to wait no longer.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.reservations.state.lock();
        !state.holder.as_ref().is_some_and(|holder| holder.id == self.id && holder.until > Instant::now())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.reservations.state.lock();
        if state.holder.as_ref().is_some_and(|holder| holder.id == self.id) {
            state.holder = None;
            self.reservations.taken.store(false, Ordering::SeqCst);
            drop(state);
            self.reservations.changed.notify(usize::MAX);
        }
    }
}

/// A place in the line; left when dropped, with the turn or without.
struct InLine {
    reservations: Arc<Reservations>,
    id: u64,
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.reservations.state.lock().line.retain(|id| *id != self.id);
        self.reservations.changed.notify(usize::MAX);
    }
}

/// How long others wait at most for one turn.
const TURN_MAX: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
