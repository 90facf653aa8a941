//! What the tests of the checkers share: choices from a seed, histories written by hand, and histories of a reference store.

#![allow(dead_code, reason = "each test file uses a part of the kit")]

pub mod mutate;
pub mod reference;

pub use tyr_sim::random::Random;
use tyr_sim::{Action, Blob, ClientId, History, Operation, Outcome, Register, TransactionId};

pub const X: Blob = Blob(1);
pub const Y: Blob = Blob(2);

/// Something that happens so many times in a hundred.
pub fn in_hundred(random: &mut Random, n: u64) -> bool {
    random.below(100) < n
}

/// How many cases a property is tried on; `TYR_TEST_SCALE` multiplies it.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let scale = std::env::var("TYR_TEST_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    0..count * scale
}

/// A history by hand: committed unless it says otherwise, one client each, named by its place.
pub fn history<const N: usize>(operations: [Operation; N]) -> History {
    let mut history = History::new();
    for (place, mut operation) in operations.into_iter().enumerate() {
        operation.transaction = TransactionId(place as u64);
        operation.client = ClientId(u32::try_from(place).unwrap());
        history.push(operation);
    }
    history
}

/// A committed transaction between two times.
pub fn at<const N: usize>(invoked: u64, completed: u64, actions: [Action; N]) -> Operation {
    Operation {
        client: ClientId(0),
        transaction: TransactionId(0),
        label: "hand",
        invoked,
        completed: Some(completed),
        outcome: Outcome::Committed,
        actions: actions.into(),
    }
}

pub fn refused(operation: Operation) -> Operation {
    Operation { outcome: Outcome::Conflict, ..operation }
}

pub fn unknown(operation: Operation) -> Operation {
    Operation { outcome: Outcome::Unknown, ..operation }
}

pub fn part(blob: Blob) -> Register {
    blob.register(0)
}

pub fn append(blob: Blob, element: u64) -> Action {
    Action::Append { blob, element, offset: None }
}

pub fn append_at(blob: Blob, element: u64, offset: u64) -> Action {
    Action::Append { blob, element, offset: Some(offset) }
}

pub fn list<const N: usize>(blob: Blob, elements: [u64; N]) -> Action {
    Action::ReadList { blob, elements: Some(elements.into()) }
}

pub fn write(blob: Blob, value: u64) -> Action {
    Action::Write { register: part(blob), value, number: None }
}

pub fn read(blob: Blob, value: impl Into<Option<u64>>) -> Action {
    Action::Read { register: part(blob), value: value.into(), number: None }
}

/// The same with a number, which is only given to reads, writes, creations, and deletions.
pub fn numbered(mut action: Action, n: u64) -> Action {
    match &mut action {
        Action::Read { number, .. }
        | Action::Write { number, .. }
        | Action::Create { number, .. }
        | Action::Delete { number, .. } => *number = Some(tyr_types::Number::from_u64(n)),
        other => panic!("{other} has no number"),
    }
    action
}

pub fn add(blob: Blob, operand: u64, old: impl Into<Option<u64>>) -> Action {
    Action::Add { register: part(blob), operand, old: old.into() }
}

pub fn create(blob: Blob) -> Action {
    Action::Create { blob, number: None }
}

pub fn delete(blob: Blob) -> Action {
    Action::Delete { blob, number: None }
}

pub fn exists(blob: Blob, exists: bool) -> Action {
    Action::Exists { blob, exists }
}
