//! What each transaction shows of itself to the others, object by object: the first read before its own writes, and its last
//! write. What it must see of its own writes is checked here, too.

use std::collections::{HashMap, HashSet};

use super::super::{Verdict, Violation, graph::index};
use crate::history::{Action, Blob, History, Operation, Register, Shown};
use tyr_types::Number;

/// All objects of a history, in the order in which they first appear.
#[derive(Default)]
pub(super) struct Traces<'h> {
    pub(super) lists: Vec<ListTrace<'h>>,
    pub(super) registers: Vec<RegisterTrace>,
    /// What transactions saw that contradicts what they did before.
    own: Vec<Own>,
    list_of: HashMap<Blob, usize>,
    register_of: HashMap<Register, usize>,
}

/// The appends and reads of one list.
pub(super) struct ListTrace<'h> {
    pub(super) blob: Blob,
    pub(super) appends: Vec<Appended>,
    pub(super) reads: Vec<ListRead<'h>>,
    /// Whether the blob may have been deleted: then its elements are not one list.
    pub(super) deleted: bool,
}

pub(super) struct Appended {
    pub(super) operation: u32,
    pub(super) element: u64,
    pub(super) offset: Option<u64>,
    /// What the operation had appended to this list right before.
    pub(super) before: Option<u64>,
    /// Whether the operation appended nothing more to this list.
    pub(super) last: bool,
}

pub(super) struct ListRead<'h> {
    pub(super) operation: u32,
    pub(super) elements: &'h [u64],
}

/// The reads and writes of one register or counter.
pub(super) struct RegisterTrace {
    pub(super) register: Register,
    /// Last writes of each operation, conflicts included; a create or delete of the blob is a write of nothing.
    pub(super) writes: Vec<Access>,
    pub(super) reads: Vec<Access>,
    /// Values that their own transaction overwrote: nobody else may see them.
    pub(super) passing: Vec<Access>,
    used: Used,
    /// How many of the writes are creations and deletions.
    pub(super) clears: usize,
}

/// A value written or read, and its place in the order of versions if the store told it.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) operation: u32,
    pub(super) value: Option<u64>,
    pub(super) at: Option<u64>,
}

/// How the versions of a register can be put in order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Numbers,
    Values,
    Unknown,
}

#[derive(Clone, Copy, Default)]
struct Used {
    overwritten: bool,
    added_to: bool,
    shrinks: bool,
}

/// Who created or deleted which blob, in the order of the history; conflicts left out.
#[derive(Default)]
struct Clears {
    of: HashMap<Blob, Vec<Access>>,
    deleted: HashSet<Blob>,
}

struct Own {
    operation: usize,
    why: String,
}

impl<'h> Traces<'h> {
    pub(super) fn of(history: &'h History) -> Self {
        let mut traces = Traces::default();
        let mut clears = Clears::default();
        for (place, operation) in history.operations().iter().enumerate() {
            View::new(&mut traces, place, &mut clears).read(operation);
        }
        traces.spread(&clears);
        traces
    }

    /// Whether the counted transactions saw their own writes, and the same value again where they read again.
    pub(super) fn check_own(&self, history: &History, counted: &[bool]) -> Verdict {
        match self.own.iter().find(|own| counted[own.operation]) {
            Some(own) => Err(Violation::new(history, "own reads", own.why.clone(), &[own.operation])),
            None => Ok(()),
        }
    }

    /// The name of an object: lists come first, then registers.
    pub(super) fn name(&self, object: u32) -> String {
        let at = object as usize;
        match self.lists.get(at) {
            Some(list) => format!("list {}", list.blob),
            None => self.registers[at - self.lists.len()].register.to_string(),
        }
    }

    /// A creation or deletion of a blob overwrites all its registers.
    fn spread(&mut self, clears: &Clears) {
        for trace in &mut self.registers {
            let Some(accesses) = clears.of.get(&trace.register.blob) else { continue };
            let written = trace.writes.len();
            for access in accesses {
                let by_itself = |write: &Access| write.operation == access.operation;
                // If the same operation wrote the register after it, nobody else sees the clearing.
                let hidden = trace.writes[..written]
                    .binary_search_by_key(&access.operation, |write| write.operation)
                    .is_ok();
                if !hidden && !trace.writes.last().is_some_and(by_itself) {
                    trace.writes.push(*access);
                    trace.clears += 1;
                }
            }
        }
        self.lists.iter_mut().for_each(|list| list.deleted = clears.deleted.contains(&list.blob));
    }

    fn list(&mut self, blob: Blob) -> &mut ListTrace<'h> {
        let lists = &mut self.lists;
        let at = *self.list_of.entry(blob).or_insert_with(|| {
            lists.push(ListTrace { blob, appends: Vec::new(), reads: Vec::new(), deleted: false });
            lists.len() - 1
        });
        &mut self.lists[at]
    }

    fn register(&mut self, register: Register) -> &mut RegisterTrace {
        let registers = &mut self.registers;
        let at = *self.register_of.entry(register).or_insert_with(|| {
            registers.push(RegisterTrace::new(register));
            registers.len() - 1
        });
        &mut self.registers[at]
    }
}

impl RegisterTrace {
    fn new(register: Register) -> Self {
        RegisterTrace {
            register,
            writes: Vec::new(),
            reads: Vec::new(),
            passing: Vec::new(),
            used: Used::default(),
            clears: 0,
        }
    }

    pub(super) fn is_counter(&self) -> bool {
        self.used.added_to
    }

    pub(super) fn order(&self, history: &History) -> Order {
        let used = self.used;
        if used.added_to {
            let grows = !used.overwritten && !used.shrinks && self.clears == 0;
            return if grows { Order::Numbers } else { Order::Unknown };
        }
        let numbered = |write: &Access| {
            write.at.is_some() || !history.operations()[write.operation as usize].committed()
        };
        let any = self.writes.iter().chain(&self.reads).any(|access| access.at.is_some());
        if any && self.writes.iter().all(numbered) { Order::Numbers } else { Order::Values }
    }
}

/// One transaction's way through its actions.
struct View<'t, 'h> {
    traces: &'t mut Traces<'h>,
    place: usize,
    registers: Vec<(Register, Known)>,
    lists: Vec<ListView<'h>>,
    cleared: Vec<Blob>,
    clears: &'t mut Clears,
}

/// What a transaction must read from a register, after what it did.
#[derive(Clone, Copy)]
enum Known {
    /// What it read from others.
    Read(Option<u64>),
    /// What it wrote last.
    Written(Option<u64>),
    /// It added to something that it does not know.
    Added,
}

struct ListView<'h> {
    blob: Blob,
    before: Option<&'h [u64]>,
    appended: Vec<u64>,
}

impl<'t, 'h> View<'t, 'h> {
    fn new(traces: &'t mut Traces<'h>, place: usize, clears: &'t mut Clears) -> Self {
        View { traces, place, registers: Vec::new(), lists: Vec::new(), cleared: Vec::new(), clears }
    }

    fn read(mut self, operation: &'h Operation) {
        for action in &operation.actions {
            match action {
                Action::Read { register, value, number } => {
                    self.see(*register, *value, number.map(Number::to_u64));
                }
                Action::Write { register, value, number } => {
                    self.traces.register(*register).used.overwritten = true;
                    self.write(*register, Some(*value), number.map(Number::to_u64));
                }
                Action::Add { register, operand, old } => self.add(*register, *operand, *old),
                Action::ReadList { blob, elements } => {
                    self.see_list(*blob, elements.as_deref().unwrap_or_default());
                }
                Action::Append { blob, element, offset } => self.append(*blob, *element, *offset),
                Action::Create { blob, number } | Action::Delete { blob, number } => {
                    self.clear(*blob);
                    if operation.possible() {
                        let (operation, at) = (self.operation(), number.map(Number::to_u64));
                        self.clears.of.entry(*blob).or_default().push(Access { operation, value: None, at });
                        if matches!(action, Action::Delete { .. }) {
                            self.clears.deleted.insert(*blob);
                        }
                    }
                }
                Action::Exists { .. } | Action::Scan { .. } => {}
            }
        }
    }

    fn operation(&self) -> u32 {
        index(self.place)
    }

    fn known(&self, register: Register) -> Option<Known> {
        let own = self.registers.iter().find(|(known, _)| *known == register).map(|(_, known)| *known);
        own.or_else(|| self.cleared.contains(&register.blob).then_some(Known::Written(None)))
    }

    fn know(&mut self, register: Register, now: Known) {
        match self.registers.iter_mut().find(|(known, _)| *known == register) {
            Some((_, known)) => *known = now,
            None => self.registers.push((register, now)),
        }
    }

    fn see(&mut self, register: Register, value: Option<u64>, at: Option<u64>) {
        let operation = self.operation();
        let expected = match self.known(register) {
            None => {
                let trace = self.traces.register(register);
                trace.reads.push(Access { operation, value, at });
                self.know(register, Known::Read(value));
                return;
            }
            Some(Known::Added) => return self.know(register, Known::Written(value)),
            Some(Known::Read(expected)) => {
                // Told at another number, it says more: that the value was still there.
                let reads = &mut self.traces.register(register).reads;
                if at.is_some() && reads.last().is_none_or(|read| read.at != at) {
                    reads.push(Access { operation, value, at });
                }
                expected
            }
            Some(Known::Written(expected)) => expected,
        };
        // A hole may read as nothing and as zero.
        if value.unwrap_or_default() != expected.unwrap_or_default() {
            let why = format!("{register} is read as {} after {}", Shown(value), Shown(expected));
            self.traces.own.push(Own { operation: self.place, why });
        }
    }

    fn write(&mut self, register: Register, value: Option<u64>, at: Option<u64>) {
        let access = Access { operation: self.operation(), value, at };
        let trace = self.traces.register(register);
        // Operations come one after the other, so an earlier write of this one is the last that there is.
        match trace.writes.last_mut().filter(|write| write.operation == access.operation) {
            Some(earlier) => {
                let passing = std::mem::replace(earlier, access);
                trace.passing.push(passing);
            }
            None => trace.writes.push(access),
        }
        self.know(register, Known::Written(value));
    }

    /// Reads the old value, and writes the new one if it is known. A grown counter's value is its place in the order.
    fn add(&mut self, register: Register, operand: u64, old: Option<u64>) {
        let used = &mut self.traces.register(register).used;
        used.added_to = true;
        used.shrinks |= operand == 0 || operand > u64::MAX / 2;
        let Some(old) = old else {
            return self.know(register, Known::Added);
        };
        self.see(register, Some(old), None);
        let new = old.wrapping_add(operand);
        self.write(register, Some(new), Some(new));
        self.traces.register(register).passing.clear();
    }

    /// What it wrote to the blob before, nobody else sees.
    fn clear(&mut self, blob: Blob) {
        let operation = self.operation();
        for (register, _) in self.registers.extract_if(.., |(register, _)| register.blob == blob) {
            let trace = self.traces.register(register);
            let own = trace.writes.pop_if(|write| write.operation == operation);
            trace.passing.extend(own);
        }
        self.cleared.push(blob);
    }

    fn list(&mut self, blob: Blob) -> &mut ListView<'h> {
        let at = self.lists.iter().position(|list| list.blob == blob).unwrap_or_else(|| {
            self.lists.push(ListView { blob, before: None, appended: Vec::new() });
            self.lists.len() - 1
        });
        &mut self.lists[at]
    }

    /// What it appended itself is taken off; what is before it was written by others.
    fn see_list(&mut self, blob: Blob, elements: &'h [u64]) {
        let (operation, place) = (self.operation(), self.place);
        let list = self.list(blob);
        let others = elements.strip_suffix(list.appended.as_slice());
        match (others, list.before) {
            (Some(others), None) => {
                list.before = Some(others);
                self.traces.list(blob).reads.push(ListRead { operation, elements: others });
            }
            (Some(others), Some(before)) if others == before => {}
            _ => {
                let why =
                    format!("list {blob} is read otherwise than before, or without what was just appended");
                self.traces.own.push(Own { operation: place, why });
            }
        }
    }

    fn append(&mut self, blob: Blob, element: u64, offset: Option<u64>) {
        let operation = self.operation();
        let appended = &mut self.list(blob).appended;
        let before = appended.last().copied();
        appended.push(element);
        let appends = &mut self.traces.list(blob).appends;
        if let Some(earlier) = appends.last_mut().filter(|append| append.operation == operation) {
            earlier.last = false;
        }
        appends.push(Appended { operation, element, offset, before, last: true });
    }
}
