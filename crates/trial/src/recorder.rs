//! The history of a trial, written by many threads. Times are of one clock.

use parking_lot::Mutex;
use tyr_sim::{Action, ClientId, History, Outcome, TransactionId};

use crate::report::began;

/// Takes down what clients do and are told.
#[derive(Debug, Default)]
pub struct Recorder {
    history: Mutex<History>,
}

/// An operation in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(usize);

impl Recorder {
    /// A client begins an operation that may change this. To be called before anything is sent.
    pub fn begin(&self, client: ClientId, label: &'static str, changes: Vec<Action>) -> Place {
        let mut history = self.history.lock();
        let transaction = TransactionId(history.operations().len() as u64);
        let place = history.begin(client, transaction, label, now());
        *history.actions_mut(place) = changes;
        Place(place)
    }

    /// What the operation is known to consist of by now. To be called before it is sent.
    pub fn set(&self, place: Place, actions: Vec<Action>) {
        *self.history.lock().actions_mut(place.0) = actions;
    }

    /// What was set.
    pub fn actions(&self, place: Place) -> Vec<Action> {
        self.history.lock().operations()[place.0].actions.clone()
    }

    /// The client was told how the operation ended, and these answers.
    pub fn end(&self, place: Place, outcome: Outcome, actions: Vec<Action>) {
        let now = now();
        let mut history = self.history.lock();
        *history.actions_mut(place.0) = actions;
        history.end(place.0, now, outcome);
    }

    /// What was ended before is known to have ended so, and to have seen this.
    pub fn amend(&self, place: Place, outcome: Outcome, actions: Vec<Action>) {
        let mut history = self.history.lock();
        let operation = &mut history.operations_mut()[place.0];
        (operation.outcome, operation.actions) = (outcome, actions);
    }

    /// Everything so far.
    pub fn history(&self) -> History {
        self.history.lock().clone()
    }
}

fn now() -> u64 {
    u64::try_from(began().elapsed().as_micros()).expect("a trial ends some time")
}
