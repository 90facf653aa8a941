//! A store that is right by construction: it runs one transaction after the other, and the history stretches each around the
//! moment at which it ran.

use std::collections::BTreeMap;

use tyr_sim::{Action, Blob, ClientId, History, Operation, Outcome, Register, TransactionId};
use tyr_types::Number;

use super::{Random, in_hundred};

/// What a workload does.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub operations: u64,
    pub blobs: u64,
    pub actions_max: u64,
    /// How many operations overlap, about.
    pub overlap: u64,
    /// Of a hundred, how many are refused, and how many are unknown.
    pub refused: u64,
    pub unknown: u64,
    pub uses: Uses,
    /// Whether offsets, old values, and numbers are told.
    pub told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    Lists,
    Registers,
    /// Registers, whose blobs come and go.
    Blobs,
    Counters,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Nothing,
    /// The number of a read is that of the write that it sees.
    OfWrite,
    /// The number of a read is the newest of its blob.
    OfBlob,
}

#[derive(Clone, Default)]
struct Store {
    lists: BTreeMap<Blob, Vec<u64>>,
    registers: BTreeMap<Register, (u64, Number)>,
    counters: BTreeMap<Register, u64>,
    /// With the creation's number.
    existing: BTreeMap<Blob, Number>,
    newest: BTreeMap<Blob, Number>,
    cleared: BTreeMap<Blob, Number>,
}

/// A history that a strictly serializable store may have had.
pub fn generate(random: &mut Random, shape: Shape) -> History {
    run(random, shape).0
}

/// The same, and at its end a read of everything that the store holds when nothing more happens; with that read's place.
pub fn generate_with_end(random: &mut Random, shape: Shape) -> (History, usize) {
    let (mut history, store) = run(random, shape);
    let mut last =
        stretched(random, Shape { overlap: 0, ..shape }, shape.operations * 10 + 100, store.everything());
    last.label = "end";
    let place = history.push(last);
    (history, place)
}

fn run(random: &mut Random, shape: Shape) -> (History, Store) {
    let mut store = Store::default();
    let mut history = History::new();
    let mut value = 0;
    for n in 1..=shape.operations {
        let lot = random.below(100);
        let refused = lot < shape.refused;
        let unknown = !refused && lot < shape.refused + shape.unknown;
        let mut after = store.clone_if(refused || unknown);
        let number = Number::from_u64(n);
        let actions = match &mut after {
            Some(after) => after.run(random, shape, number, &mut value),
            None => store.run(random, shape, number, &mut value),
        };
        if unknown && in_hundred(random, 50) {
            store = after.unwrap();
        }
        let mut operation = stretched(random, shape, n, actions);
        if refused {
            operation.outcome = Outcome::Conflict;
        }
        if unknown {
            forget(random, &mut operation);
        }
        history.push(operation);
    }
    (history, store)
}

/// Around the moment `n * STEP`, at which it ran.
fn stretched(random: &mut Random, shape: Shape, n: u64, actions: Vec<Action>) -> Operation {
    let now = n * STEP + shape.overlap * STEP;
    Operation {
        client: ClientId(u32::try_from(random.below(shape.overlap + 2)).unwrap()),
        transaction: TransactionId(n),
        label: "reference",
        invoked: now - random.below(shape.overlap * STEP / 2 + 1),
        completed: Some(now + random.below(shape.overlap * STEP / 2 + 1)),
        outcome: Outcome::Committed,
        actions,
    }
}

/// The client was not told; perhaps it gave up before it happened.
fn forget(random: &mut Random, operation: &mut Operation) {
    operation.outcome = Outcome::Unknown;
    operation.completed = match random.below(3) {
        0 => None,
        1 => operation.completed,
        _ => Some(operation.invoked + 1),
    };
    take_answers(operation);
}

/// Who was not told the outcome was told nothing of what it did, either.
pub fn take_answers(operation: &mut Operation) {
    for action in &mut operation.actions {
        match action {
            Action::Append { offset: answer, .. } | Action::Add { old: answer, .. } => *answer = None,
            Action::Write { number, .. } | Action::Create { number, .. } | Action::Delete { number, .. } => {
                *number = None;
            }
            Action::Read { .. } | Action::ReadList { .. } | Action::Exists { .. } | Action::Scan { .. } => {}
        }
    }
}

impl Store {
    fn clone_if(&self, wanted: bool) -> Option<Store> {
        wanted.then(|| self.clone())
    }

    fn everything(self) -> Vec<Action> {
        let lists = self
            .lists
            .into_iter()
            .map(|(blob, elements)| Action::ReadList { blob, elements: Some(elements) });
        let values = self.registers.into_iter().map(|(register, (value, _))| (register, value));
        let registers = values.chain(self.counters).map(|(register, value)| Action::Read {
            register,
            value: Some(value),
            number: None,
        });
        lists.chain(registers).collect()
    }

    fn run(&mut self, random: &mut Random, shape: Shape, number: Number, value: &mut u64) -> Vec<Action> {
        let mut actions: Vec<Action> = Vec::new();
        for _ in 0..=random.below(shape.actions_max) {
            let blob = Blob(u32::try_from(random.below(shape.blobs)).unwrap());
            *value += 1;
            let kind = match shape.uses {
                Uses::All => [Uses::Lists, Uses::Registers, Uses::Blobs, Uses::Counters][random.index(4)],
                uses => uses,
            };
            let action = match kind {
                Uses::Lists => self.list(random, Blob(blob.0 + LISTS), *value),
                Uses::Registers => self.register(random, blob.register(0), *value, number),
                Uses::Counters => self.counter(random, Blob(blob.0 + COUNTERS).register(0)),
                Uses::Blobs | Uses::All => self.blob(random, Blob(blob.0 + BLOBS), *value, number),
            };
            // A number is told for what the transaction did not write itself.
            actions.push(action);
        }
        actions.iter_mut().for_each(|action| self.tell(action, shape.told, number));
        actions
    }

    fn list(&mut self, random: &mut Random, blob: Blob, element: u64) -> Action {
        let elements = self.lists.entry(blob).or_default();
        if in_hundred(random, 50) {
            return Action::ReadList { blob, elements: Some(elements.clone()) };
        }
        elements.push(element);
        Action::Append { blob, element, offset: Some(elements.len() as u64 - 1) }
    }

    fn register(&mut self, random: &mut Random, register: Register, value: u64, number: Number) -> Action {
        if in_hundred(random, 50) {
            let seen = self.registers.get(&register).copied();
            let cleared = self.cleared.get(&register.blob).copied().unwrap_or_default();
            let number = Some(seen.map_or(cleared, |(_, number)| number));
            return Action::Read { register, value: seen.map(|(value, _)| value), number };
        }
        self.registers.insert(register, (value, number));
        self.newest.insert(register.blob, number);
        Action::Write { register, value, number: Some(number) }
    }

    fn counter(&mut self, random: &mut Random, register: Register) -> Action {
        let value = self.counters.entry(register).or_default();
        if in_hundred(random, 30) {
            return Action::Read { register, value: Some(*value), number: None };
        }
        let (old, operand) = (*value, 1 + random.below(3));
        *value += operand;
        Action::Add { register, operand, old: Some(old) }
    }

    fn blob(&mut self, random: &mut Random, blob: Blob, value: u64, number: Number) -> Action {
        if in_hundred(random, 10) {
            let (from, to) = (Blob(BLOBS), Blob(BLOBS + 1000));
            return Action::Scan { from, to, found: self.existing.keys().copied().collect() };
        }
        let there = self.existing.contains_key(&blob);
        if !there || in_hundred(random, 30) {
            return self.create_or_delete(random, blob, number);
        }
        let part = u32::try_from(random.below(2)).unwrap();
        self.register(random, blob.register(part), value, number)
    }

    fn create_or_delete(&mut self, random: &mut Random, blob: Blob, number: Number) -> Action {
        let exists = self.existing.contains_key(&blob);
        if in_hundred(random, 30) {
            return Action::Exists { blob, exists };
        }
        self.cleared.insert(blob, number);
        self.newest.insert(blob, number);
        self.registers.retain(|register, _| register.blob != blob);
        if exists {
            self.existing.remove(&blob);
            return Action::Delete { blob, number: Some(number) };
        }
        self.existing.insert(blob, number);
        Action::Create { blob, number: Some(number) }
    }

    /// Takes back what this store would not tell.
    fn tell(&self, action: &mut Action, told: Told, now: Number) {
        match action {
            Action::Append { offset: answer, .. } | Action::Add { old: answer, .. }
                if told == Told::Nothing =>
            {
                *answer = None;
            }
            Action::Write { number, .. } | Action::Create { number, .. } | Action::Delete { number, .. }
                if told == Told::Nothing =>
            {
                *number = None;
            }
            Action::Read { register, number: Some(number), .. } if told == Told::OfBlob && *number < now => {
                // Unless the transaction changed it since, the blob's newest number is still that of the read.
                *number = self.newest.get(&register.blob).copied().filter(|at| *at < now).unwrap_or(*number);
            }
            Action::Read { number, .. } if told == Told::Nothing => *number = None,
            _ => {}
        }
    }
}

const STEP: u64 = 100;
const LISTS: u32 = 1000;
const COUNTERS: u32 = 2000;
const BLOBS: u32 = 3000;
