//! Decides small histories exactly: tries every order of the transactions that agrees with real time, until one explains all answers.
//!
//! The time is exponential in the number of transactions that overlap; a dozen in all are well. It knows lists, registers, counters,
//! and whether blobs exist that the history creates; not lists in deleted blobs, nor scans.
//!
//! A number is taken as in [`Action::Read`]: it is that of the last write of the register or of a later one of its blob, so the
//! next write of the register has a higher one.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Verdict, Violation};
use crate::history::{Action, Blob, History, Operation, Register};
use tyr_types::Number;

/// Whether there is any order at all. The violation names no operations: all of them are to blame.
///
/// # Panics
///
/// If more than 64 transactions may have happened.
pub fn check(history: &History) -> Verdict {
    let operations: Vec<&Operation> =
        history.operations().iter().filter(|operation| operation.possible()).collect();
    assert!(operations.len() <= 64, "a set of operations is a word");
    let mut search = Search { operations, refuted: HashSet::new() };
    if search.explains(0, &State::before(history)) {
        return Ok(());
    }
    let why = "no order of the transactions explains all answers".to_owned();
    Err(Violation::new(history, "not strictly serializable", why, &[]))
}

struct Search<'h> {
    operations: Vec<&'h Operation>,
    /// What was done, and the state it led to, from which the rest cannot be explained.
    refuted: HashSet<(u64, State)>,
}

/// What the store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    lists: BTreeMap<Blob, Vec<u64>>,
    registers: BTreeMap<Register, Cell>,
    /// Whether they exist: blobs that the history creates.
    blobs: BTreeMap<Blob, bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Cell {
    value: Option<u64>,
    /// The number of the last write.
    written: Number,
    /// The highest number at which the register was written or read: the next write has a higher one.
    known: Number,
}

impl Search<'_> {
    /// Whether what is not done yet can follow.
    fn explains(&mut self, done: u64, state: &State) -> bool {
        let left: Vec<usize> = (0..self.operations.len()).filter(|at| done & (1 << at) == 0).collect();
        if left.iter().all(|at| !self.operations[*at].committed()) {
            return true;
        }
        if !self.refuted.insert((done, state.clone())) {
            return false;
        }
        let first_answer = left.iter().map(|at| self.operations[*at].latest()).min().unwrap_or(u64::MAX);
        left.iter().any(|at| {
            let operation = self.operations[*at];
            // Somebody who was answered before it began has to come first.
            operation.invoked <= first_answer
                && state.after(operation).is_some_and(|next| self.explains(done | (1 << at), &next))
        })
    }
}

impl State {
    /// Nothing is in any register, but each is there, so that a creation or deletion finds it.
    fn before(history: &History) -> Self {
        let actions = || history.operations().iter().flat_map(|operation| &operation.actions);
        let registers = actions().filter_map(|action| match action {
            Action::Read { register, .. } | Action::Write { register, .. } | Action::Add { register, .. } => {
                Some((*register, Cell::default()))
            }
            _ => None,
        });
        let blobs = actions().filter_map(|action| match action {
            Action::Create { blob, .. } => Some((*blob, false)),
            _ => None,
        });
        State { lists: BTreeMap::new(), registers: registers.collect(), blobs: blobs.collect() }
    }

    /// The state after the operation, if it could have seen what it saw here.
    fn after(&self, operation: &Operation) -> Option<State> {
        let mut next = self.clone();
        let mut written: BTreeSet<Register> = BTreeSet::new();
        for action in &operation.actions {
            if !next.apply(action, &mut written) {
                return None;
            }
        }
        Some(next)
    }

    fn apply(&mut self, action: &Action, written: &mut BTreeSet<Register>) -> bool {
        match action {
            Action::Read { register, value, number } => {
                // Its own writes have no number yet when it reads them.
                let number = number.filter(|_| !written.contains(register));
                let there = self.expect(register.blob, true);
                let cell = self.registers.entry(*register).or_default();
                let hole = cell.value.is_none() && *value == Some(0);
                (cell.value == *value || hole)
                    && (value.is_none() || there)
                    && number.is_none_or(|number| cell.reach(number))
            }
            Action::Write { register, value, number } => {
                let cell = self.registers.entry(*register).or_default();
                cell.value = Some(*value);
                // A later write of the same transaction has the same number.
                !written.insert(*register) || cell.pass(*number)
            }
            Action::ReadList { blob, elements } => {
                let list = self.lists.get(blob).map(Vec::as_slice).unwrap_or_default();
                list == elements.as_deref().unwrap_or_default()
            }
            Action::Append { blob, element, offset } => {
                let list = self.lists.entry(*blob).or_default();
                list.push(*element);
                offset.is_none_or(|offset| offset == list.len() as u64 - 1)
            }
            Action::Add { register, operand, old } => {
                let cell = self.registers.entry(*register).or_default();
                let before = cell.value.unwrap_or_default();
                cell.value = Some(before.wrapping_add(*operand));
                old.is_none_or(|old| old == before)
            }
            Action::Create { blob, number } => {
                self.expect(*blob, false) && self.clear(*blob, *number, written, true)
            }
            Action::Delete { blob, number } => {
                self.expect(*blob, true) && self.clear(*blob, *number, written, false)
            }
            Action::Exists { blob, exists } => self.expect(*blob, *exists),
            Action::Scan { .. } => true,
        }
    }

    fn expect(&self, blob: Blob, exists: bool) -> bool {
        self.blobs.get(&blob).is_none_or(|known| *known == exists)
    }

    fn clear(
        &mut self,
        blob: Blob,
        number: Option<Number>,
        written: &mut BTreeSet<Register>,
        exists: bool,
    ) -> bool {
        self.blobs.entry(blob).and_modify(|known| *known = exists);
        let cells = self.registers.iter_mut().filter(|(register, _)| register.blob == blob);
        cells.fold(true, |agrees, (register, cell)| {
            cell.value = None;
            let first = written.insert(*register);
            agrees & (!first || cell.pass(number))
        })
    }
}

impl Cell {
    fn reach(&mut self, number: Number) -> bool {
        self.known = self.known.max(number);
        self.written <= number
    }

    /// A number that nobody was told is the next at the lowest.
    fn pass(&mut self, number: Option<Number>) -> bool {
        let number = number.unwrap_or(self.known.next());
        let agrees = self.known < number;
        (self.written, self.known) = (number, number);
        agrees
    }
}
