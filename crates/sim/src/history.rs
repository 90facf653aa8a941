//! The history of a run: every transaction that a client began, with what the client was told of it.
//!
//! Invariants:
//! - An operation whose outcome is not committed for certain is here too: what it tried to change may be seen by others.
//! - Times are microseconds of the simulation's one true clock. Of two operations, one precedes the other only if it was answered
//!   strictly before the other began; equal times count as concurrent.
//! - A snapshot is one operation: it lasts from the request to the answer of *taking* it, and holds what was later read from it.
//!
//! Recording does nothing but push to vectors.

mod action;
mod edn;
mod events;
mod json;

use std::fmt;

pub(crate) use action::Shown;
pub use action::{Action, Blob, Register};

/// A simulated client: it sends one request after the other, or several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// Names a transaction in reports; unique within a history. All attempts that reuse a request's id are one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransactionId(pub u64);

/// What the client knows of a transaction's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It happened, between its begin and its answer.
    Committed,
    /// It did not happen and never will.
    Conflict,
    /// It may have happened, or may happen at any later time, or not at all.
    Unknown,
}

/// One transaction, or a lone request, which is a transaction of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who asked for it.
    pub client: ClientId,
    /// Its name.
    pub transaction: TransactionId,
    /// What it is for, as the workload calls it; only for reports.
    pub label: &'static str,
    /// When the client began it, in microseconds.
    pub invoked: u64,
    /// When the client was answered, in microseconds; `None` if it never was.
    pub completed: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// What it did and saw, in this order.
    pub actions: Vec<Action>,
}

/// What all clients did in one run. Operations are named by their place.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    /// Nothing has happened.
    pub fn new() -> Self {
        History::default()
    }

    /// Begins an operation, unknown until it is ended, and returns its place.
    pub fn begin(
        &mut self,
        client: ClientId,
        transaction: TransactionId,
        label: &'static str,
        now: u64,
    ) -> usize {
        self.push(Operation {
            client,
            transaction,
            label,
            invoked: now,
            completed: None,
            outcome: Outcome::Unknown,
            actions: Vec::new(),
        })
    }

    /// Adds a step to the operation at `place`. Changes are added before they are sent.
    pub fn act(&mut self, place: usize, action: Action) {
        self.operations[place].actions.push(action);
    }

    /// The steps of the operation at `place`, to fill in offsets, old values, and numbers when they are known.
    pub fn actions_mut(&mut self, place: usize) -> &mut Vec<Action> {
        &mut self.operations[place].actions
    }

    /// The client was told how the operation at `place` ended.
    pub fn end(&mut self, place: usize, now: u64, outcome: Outcome) {
        let operation = &mut self.operations[place];
        operation.completed = Some(now);
        operation.outcome = outcome;
    }

    /// Adds a whole operation and returns its place.
    pub fn push(&mut self, operation: Operation) -> usize {
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// All operations, by place.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// All operations, by place, to be changed: a test of a checker plants what the checker must find.
    pub fn operations_mut(&mut self) -> &mut Vec<Operation> {
        &mut self.operations
    }
}

impl Operation {
    /// Whether it happened for certain, as far as its own client knows.
    pub fn committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    /// Whether it may have happened.
    pub fn possible(&self) -> bool {
        self.outcome != Outcome::Conflict
    }

    /// The latest time at which it can have happened: its answer, or never if there was no definite one.
    pub fn latest(&self) -> u64 {
        if self.committed() { self.completed.unwrap_or(u64::MAX) } else { u64::MAX }
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Committed => "committed",
            Outcome::Conflict => "conflict",
            Outcome::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}, {}..", self.transaction, self.label, self.client, self.invoked)?;
        if let Some(completed) = self.completed {
            write!(f, "{completed}")?;
        }
        write!(f, " us, {}:", self.outcome)?;
        for (i, action) in self.actions.iter().take(ACTIONS_SHOWN_MAX).enumerate() {
            write!(f, "{} {action}", if i == 0 { "" } else { ";" })?;
        }
        match self.actions.len().saturating_sub(ACTIONS_SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

const ACTIONS_SHOWN_MAX: usize = 16;
