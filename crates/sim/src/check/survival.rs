//! What was acknowledged is still there at the end, and nothing of what was refused.
//!
//! The last read is one that began when everything was healed, nothing was under way, and nobody would begin anything more. It
//! is an operation of the history, so [`super::general`] judges it, too; this checker says in plainer words what was lost, and
//! also that a transaction of unknown outcome happened as a whole or not at all in what is left of it.

use std::collections::{HashMap, HashSet};

use super::{Verdict, Violation};
use crate::history::{Action, Blob, History, Operation, Outcome, Register, Shown};

/// Checks what the operation at `last` read: lists, registers, and counters.
pub fn check(history: &History, last: usize) -> Verdict {
    let end = End::of(history, last);
    for (place, operation) in history.operations().iter().enumerate() {
        match operation.outcome {
            _ if place == last => {}
            Outcome::Committed => end.check_whole(place, operation)?,
            Outcome::Conflict => end.check_absent(place, operation)?,
            Outcome::Unknown => end.check_one_of_both(place, operation)?,
        }
    }
    end.check_registers()
}

struct End<'h> {
    history: &'h History,
    last: usize,
    lists: HashMap<Blob, HashSet<u64>>,
    registers: Vec<(Register, Option<u64>)>,
    deleted: HashSet<Blob>,
}

impl<'h> End<'h> {
    fn of(history: &'h History, last: usize) -> Self {
        let mut end =
            End { history, last, lists: HashMap::new(), registers: Vec::new(), deleted: HashSet::new() };
        for action in &history.operations()[last].actions {
            match action {
                Action::ReadList { blob, elements } => {
                    let elements = elements.iter().flatten().copied().collect();
                    end.lists.insert(*blob, elements);
                }
                Action::Read { register, value, .. } => end.registers.push((*register, *value)),
                _ => {}
            }
        }
        for action in history.operations().iter().flat_map(|operation| &operation.actions) {
            if let Action::Delete { blob, .. } = action {
                end.deleted.insert(*blob);
            }
        }
        end
    }

    fn violation(&self, rule: &'static str, why: String, place: usize) -> Verdict {
        Err(Violation::new(self.history, rule, why, &[place, self.last]))
    }

    /// Its appends, and whether the end has them.
    fn appends(&self, operation: &'h Operation) -> impl Iterator<Item = (Blob, u64, bool)> {
        operation.actions.iter().filter_map(|action| match action {
            Action::Append { blob, element, .. } if !self.deleted.contains(blob) => {
                Some((*blob, *element, self.lists.get(blob)?.contains(element)))
            }
            _ => None,
        })
    }

    fn check_whole(&self, place: usize, operation: &'h Operation) -> Verdict {
        match self.appends(operation).find(|(_, _, there)| !there) {
            Some((blob, element, _)) => {
                let why = format!(
                    "{} appended {element} to list {blob}, and at the end it is not there",
                    operation.transaction
                );
                self.violation("acknowledged and lost", why, place)
            }
            None => Ok(()),
        }
    }

    fn check_absent(&self, place: usize, operation: &'h Operation) -> Verdict {
        match self.appends(operation).find(|(_, _, there)| *there) {
            Some((blob, element, _)) => {
                let why = format!(
                    "{} was refused, and at the end list {blob} has its {element}",
                    operation.transaction
                );
                self.violation("refused and done", why, place)
            }
            None => Ok(()),
        }
    }

    fn check_one_of_both(&self, place: usize, operation: &'h Operation) -> Verdict {
        let there = self.appends(operation).find(|(_, _, there)| *there);
        let missing = self.appends(operation).find(|(_, _, there)| !there);
        let (Some((has, one, _)), Some((lacks, other, _))) = (there, missing) else { return Ok(()) };
        let why = format!(
            "{} is half done: at the end list {has} has its {one}, and list {lacks} lacks its {other}",
            operation.transaction
        );
        self.violation("half done", why, place)
    }

    /// Each value was written by somebody who was not refused, and not replaced by an acknowledged later write; a counter ends
    /// between what was acknowledged and what was asked for.
    fn check_registers(&self) -> Verdict {
        let written = Written::of(self.history);
        for (register, value) in &self.registers {
            if self.deleted.contains(&register.blob) {
                continue;
            }
            let writes = written.writes.get(register);
            match (writes, written.sums.get(register)) {
                (writes, None) => {
                    self.check_register(*register, *value, writes.map_or(&[], Vec::as_slice))?
                }
                (None, Some(sums)) => self.check_counter(*register, *value, sums)?,
                (Some(_), Some(_)) => {}
            }
        }
        Ok(())
    }

    fn check_register(&self, register: Register, value: Option<u64>, writes: &[(usize, u64)]) -> Verdict {
        let operations = self.history.operations();
        // A hole may read as nothing and as zero.
        let value = value.filter(|value| *value != 0 || writes.iter().any(|(_, written)| written == value));
        let wrote = |written: u64| Some(written) == value;
        // Of those that may have written what is there, the one that can have done so last.
        let writers =
            writes.iter().filter(|(place, written)| wrote(*written) && operations[*place].possible());
        let latest = writers.map(|(place, _)| operations[*place].latest()).max();
        if value.is_some() && latest.is_none() {
            let refused = writes.iter().find(|(_, written)| wrote(*written));
            let (rule, how) = match refused {
                Some(_) => ("refused and done", "whose writer was refused"),
                None => ("read from nowhere", "which nobody wrote"),
            };
            let why = format!("at the end {register} is {}, {how}", Shown(value));
            return self.violation(rule, why, refused.map_or(self.last, |(place, _)| *place));
        }
        let lost = writes.iter().find(|(place, written)| {
            let writer = &operations[*place];
            !wrote(*written) && writer.committed() && latest.is_none_or(|latest| writer.invoked > latest)
        });
        let Some((place, written)) = lost else { return Ok(()) };
        let name = operations[*place].transaction;
        let why = format!(
            "{name} wrote {written} to {register}, and at the end there is the older {}",
            Shown(value)
        );
        self.violation("acknowledged and lost", why, *place)
    }

    fn check_counter(&self, register: Register, value: Option<u64>, sums: &Sums) -> Verdict {
        let value = u128::from(value.unwrap_or_default());
        // Amounts that wrap are no bounds.
        if sums.most > u128::from(u64::MAX) || (sums.least..=sums.most).contains(&value) {
            return Ok(());
        }
        let Sums { least, most } = sums;
        let why = format!(
            "at the end {register} is {value}, where {least} was acknowledged, and {most} asked for in all"
        );
        self.violation("counter bounds", why, self.last)
    }
}

/// What was ever asked to be written, register by register.
#[derive(Default)]
struct Written {
    /// The last write of each operation, conflicts included.
    writes: HashMap<Register, Vec<(usize, u64)>>,
    sums: HashMap<Register, Sums>,
}

#[derive(Default)]
struct Sums {
    least: u128,
    most: u128,
}

impl Written {
    fn of(history: &History) -> Self {
        let mut all = Written::default();
        for (place, operation) in history.operations().iter().enumerate() {
            for action in &operation.actions {
                match action {
                    Action::Write { register, value, .. } => {
                        let writes = all.writes.entry(*register).or_default();
                        writes.pop_if(|(earlier, _)| *earlier == place);
                        writes.push((place, *value));
                    }
                    Action::Add { register, operand, .. } => {
                        let sums = all.sums.entry(*register).or_default();
                        let amount = u128::from(*operand);
                        sums.least += if operation.committed() { amount } else { 0 };
                        sums.most += if operation.possible() { amount } else { 0 };
                    }
                    _ => {}
                }
            }
        }
        all
    }
}
