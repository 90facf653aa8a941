//! Counters: additions are neither lost nor repeated, and each returned old value belongs to one of them.
//!
//! Judged are registers that are only added to, by positive amounts (below 2^63), and that begin at zero.

use std::collections::{HashMap, HashSet};

use super::{Verdict, Violation};
use crate::history::{Action, History, Operation, Register};

/// Checks every such counter.
pub fn check(history: &History) -> Verdict {
    let counters = Counters::of(history);
    counters.counters.iter().try_for_each(|counter| {
        counter.check_old_values(history)?;
        counter.check_bounds(history)
    })
}

#[derive(Default)]
struct Counters {
    counters: Vec<Counter>,
    of: HashMap<Register, usize>,
}

struct Counter {
    register: Register,
    /// All that may have happened.
    adds: Vec<Add>,
    /// What was seen by committed transactions that had added nothing before.
    reads: Vec<Read>,
    /// By place: how much an operation adds in all.
    own: HashMap<usize, u128>,
}

#[derive(Clone, Copy)]
struct Add {
    place: usize,
    operand: u64,
    old: Option<u64>,
}

#[derive(Clone, Copy)]
struct Read {
    place: usize,
    value: u64,
}

impl Counters {
    fn of(history: &History) -> Self {
        let mut counters = Counters::default();
        let mut others: HashSet<Register> = HashSet::new();
        let mut cleared = HashSet::new();
        for (place, operation) in history.operations().iter().enumerate() {
            for (at, action) in operation.actions.iter().enumerate() {
                match action {
                    Action::Add { register, operand, old } if operation.possible() => {
                        if *operand == 0 || *operand > u64::MAX / 2 {
                            others.insert(*register);
                        }
                        let old = old.filter(|_| operation.committed());
                        let counter = counters.counter(*register);
                        if let Some(value) = old.filter(|_| first(operation, at, *register)) {
                            counter.reads.push(Read { place, value });
                        }
                        counter.adds.push(Add { place, operand: *operand, old });
                        *counter.own.entry(place).or_default() += u128::from(*operand);
                    }
                    Action::Read { register, value, .. } if first(operation, at, *register) => {
                        let value = value.unwrap_or_default();
                        counters.counter(*register).reads.push(Read { place, value });
                    }
                    Action::Write { register, .. } => drop(others.insert(*register)),
                    Action::Create { blob, .. } | Action::Delete { blob, .. } => drop(cleared.insert(*blob)),
                    _ => {}
                }
            }
        }
        counters.counters.retain(|counter| {
            let register = counter.register;
            !counter.adds.is_empty() && !others.contains(&register) && !cleared.contains(&register.blob)
        });
        counters
    }

    fn counter(&mut self, register: Register) -> &mut Counter {
        let counters = &mut self.counters;
        let at = *self.of.entry(register).or_insert_with(|| {
            counters.push(Counter { register, adds: Vec::new(), reads: Vec::new(), own: HashMap::new() });
            counters.len() - 1
        });
        &mut self.counters[at]
    }
}

/// Whether a committed operation had not added to the register before.
fn first(operation: &Operation, at: usize, of: Register) -> bool {
    let adds = |action: &Action| matches!(action, Action::Add { register, .. } if *register == of);
    operation.committed() && !operation.actions[..at].iter().any(adds)
}

impl Counter {
    fn name(&self, history: &History, place: usize) -> String {
        history.operations()[place].transaction.to_string()
    }

    /// Each addition takes the counter from its old value to the next without meeting another, in the order of real time.
    fn check_old_values(&self, history: &History) -> Verdict {
        let operations = history.operations();
        let mut steps: Vec<(u64, Add)> = self.adds.iter().filter_map(|add| Some((add.old?, *add))).collect();
        steps.sort_by_key(|(old, add)| (*old, add.place));
        let mut reached: Option<(u64, Add)> = None;
        let mut latest: Option<Add> = None;
        for (old, add) in steps {
            let fault = |rule, other: Add, how: &str| {
                let names = [other.place, add.place].map(|place| self.name(history, place));
                let why =
                    format!("{} and {} {how} {}: the latter found {old}", names[0], names[1], self.register);
                Err(Violation::new(history, rule, why, &[other.place, add.place]))
            };
            if let Some((_, other)) = reached.filter(|(value, _)| *value > old) {
                return fault("lost update", other, "both add to the same value of");
            }
            if let Some(other) =
                latest.filter(|other| operations[add.place].latest() < operations[other.place].invoked)
            {
                return fault(
                    "counter order",
                    other,
                    "add, the latter being answered before the former began, to",
                );
            }
            reached = Some((old.wrapping_add(add.operand), add));
            latest = latest
                .filter(|other| operations[other.place].invoked >= operations[add.place].invoked)
                .or(Some(add));
        }
        Ok(())
    }

    /// What is seen is at least what was acknowledged before, and at most what was tried until then. Sums do not wrap in 128 bits.
    fn check_bounds(&self, history: &History) -> Verdict {
        let operations = history.operations();
        let answered = Sums::of(self.adds.iter().map(|add| (operations[add.place].latest(), add.operand)));
        let begun = Sums::of(self.adds.iter().map(|add| (operations[add.place].invoked, add.operand)));
        for read in &self.reads {
            let reader = &operations[read.place];
            let least = answered.before(reader.invoked);
            // It saw the counter before it added to it itself.
            let most = begun.until(reader.latest()) - self.own.get(&read.place).copied().unwrap_or_default();
            if u128::from(read.value) < least || u128::from(read.value) > most {
                let why = format!(
                    "{} finds {} in {}, where at least {least} was acknowledged before, and {most} asked for until then",
                    self.name(history, read.place),
                    read.value,
                    self.register
                );
                return Err(Violation::new(history, "counter bounds", why, &[read.place]));
            }
        }
        Ok(())
    }
}

/// How much was added up to each time.
struct Sums(Vec<(u64, u128)>);

impl Sums {
    fn of(amounts: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut sums: Vec<(u64, u128)> = amounts.map(|(time, amount)| (time, amount.into())).collect();
        sums.sort_unstable();
        let mut sum = 0;
        for (_, amount) in &mut sums {
            sum += *amount;
            *amount = sum;
        }
        Sums(sums)
    }

    fn before(&self, end: u64) -> u128 {
        self.first(self.0.partition_point(|(time, _)| *time < end))
    }

    fn until(&self, end: u64) -> u128 {
        self.first(self.0.partition_point(|(time, _)| *time <= end))
    }

    fn first(&self, count: usize) -> u128 {
        count.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}
