//! Which transactions happened for certain: those that were acknowledged, and those of unknown outcome that one of these saw.

use std::collections::HashMap;

use super::trace::{ListTrace, RegisterTrace, Traces};
use crate::history::History;

/// By place in the history. What is left out was never seen, so it is as if it had not happened.
pub(super) fn counted(history: &History, traces: &Traces<'_>) -> Vec<bool> {
    let operations = history.operations();
    let mut counted: Vec<bool> = operations.iter().map(|operation| operation.committed()).collect();
    let unknown = |place: u32| {
        let operation = &operations[place as usize];
        operation.possible() && !operation.committed()
    };
    let lists: Vec<Tried<'_, ListTrace<'_>>> =
        traces.lists.iter().filter(|list| !list.deleted).map(|list| Tried::list(list, unknown)).collect();
    let registers: Vec<Tried<'_, RegisterTrace>> =
        traces.registers.iter().map(|register| Tried::register(register, unknown)).collect();
    // What a newly counted transaction read may count others.
    loop {
        let mut seen: Vec<u32> = Vec::new();
        for list in &lists {
            list.seen(&counted, &mut seen);
        }
        for register in &registers {
            register.seen(&counted, &mut seen);
        }
        seen.retain(|place| !counted[*place as usize]);
        if seen.is_empty() {
            return counted;
        }
        seen.iter().for_each(|place| counted[*place as usize] = true);
    }
}

/// What transactions of unknown outcome tried to write to an object.
struct Tried<'t, T> {
    trace: &'t T,
    writers: HashMap<u64, u32>,
}

impl<'t> Tried<'t, ListTrace<'t>> {
    fn list(trace: &'t ListTrace<'t>, unknown: impl Fn(u32) -> bool) -> Self {
        let appends = trace.appends.iter().filter(|append| unknown(append.operation));
        Tried { trace, writers: appends.map(|append| (append.element, append.operation)).collect() }
    }

    /// The longest list has all elements that were seen, unless the lists disagree, which is found later.
    fn seen(&self, counted: &[bool], seen: &mut Vec<u32>) {
        if self.writers.is_empty() {
            return;
        }
        let reads = self.trace.reads.iter().filter(|read| counted[read.operation as usize]);
        let longest = reads.map(|read| read.elements).max_by_key(|elements| elements.len());
        seen.extend(longest.unwrap_or_default().iter().filter_map(|element| self.writers.get(element)));
    }
}

impl<'t> Tried<'t, RegisterTrace> {
    /// Only values that nobody else wrote tell who wrote them.
    fn register(trace: &'t RegisterTrace, unknown: impl Fn(u32) -> bool) -> Self {
        let mut writers: HashMap<u64, u32> = HashMap::new();
        if !trace.is_counter() && trace.writes.iter().any(|write| unknown(write.operation)) {
            let mut times: HashMap<u64, u32> = HashMap::new();
            for write in trace.writes.iter().chain(&trace.passing) {
                let Some(value) = write.value else { continue };
                *times.entry(value).or_default() += 1;
                if unknown(write.operation) {
                    writers.insert(value, write.operation);
                }
            }
            writers.retain(|value, _| times[value] == 1);
        }
        Tried { trace, writers }
    }

    fn seen(&self, counted: &[bool], seen: &mut Vec<u32>) {
        if self.writers.is_empty() {
            return;
        }
        let reads = self.trace.reads.iter().filter(|read| counted[read.operation as usize]);
        seen.extend(reads.filter_map(|read| self.writers.get(&read.value?)));
    }
}
