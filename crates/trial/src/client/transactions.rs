//! What a client does in transactions and snapshots.

use tyr_client::{Operand, Outcome as Ended, Result, Slot, Transform, blocking::Transaction};
use tyr_sim::{Action, Blob, Outcome, Register};

use super::{
    Client, Committing, Unsettled,
    operations::{absent, torn, values, wide},
};
use crate::{
    layout::{self, Content, Group, content, key, offset},
    log::{self, Fate, HEAD_SIZE, LOGS, Record},
    recorder::Place,
};

/// What a transaction does, step by step.
struct Steps<'c> {
    client: &'c Client,
    transaction: Transaction,
    actions: Vec<Action>,
    slots: Vec<(usize, Slot)>,
}

impl Client {
    /// Reads some blobs and writes others.
    pub(super) fn exchange(&mut self, group: Group) {
        let (which, value, element) = (self.random.number(), self.value(), self.value());
        self.transact("exchange", |steps| {
            steps.read(group.registers(which).register(0))?;
            steps.read_list(group.list(which))?;
            steps.write(group.registers(which + 1).register(1), value)?;
            steps.append(group.list(which + 1), element)?;
            steps.add(group.counters().register(0), 1)
        });
    }

    /// Writes many blobs and reads none: this never conflicts.
    pub(super) fn write_blindly(&mut self, group: Group) {
        let (value, element, operand) = (self.value(), self.value(), self.random.within(1..100));
        self.transact("write blindly", |steps| {
            for which in 0..2 {
                steps.append(group.list(which), element)?;
                steps.write(group.registers(which).register(0), value)?;
                steps.add(group.counters().register(u32::from(which == 1)), operand)?;
            }
            steps.write_wide(group.wide(), value)
        });
    }

    /// Creates a blob with content, or changes or deletes it.
    pub(super) fn come_or_go(&mut self, group: Group) {
        let (blob, value, goes) = (group.fleeting(), self.value(), self.random.below(2) == 0);
        self.transact("come or go", |steps| {
            match (steps.exists(blob)?, goes) {
                (false, _) => {
                    steps.create(blob)?;
                    steps.write(blob.register(0), value)?;
                }
                (true, true) => steps.delete(blob)?,
                (true, false) => {
                    steps.read(blob.register(0))?;
                    steps.write(blob.register(0), value)?;
                }
            }
            steps.add(group.counters().register(0), 1)
        });
    }

    /// Reads a register and writes it, and a list with it: two that do so at once conflict.
    pub(super) fn move_on(&mut self, group: Group) {
        let (which, value) = (self.random.number(), self.value());
        self.transact("move on", |steps| {
            let register = group.registers(which).register(0);
            steps.read(register)?;
            steps.write(register, value)?;
            steps.append(group.list(which), value)
        });
    }

    /// Runs a transaction until it commits. Of one whose end is not told nobody finds out more.
    pub(super) fn run(&mut self, group: Group) {
        let (which, value) = (self.random.number(), self.value());
        let place = self.scene.recorder.begin(self.id, "run", Vec::new());
        let from = group.registers(which).register(1);
        let to = group.registers(which + 1).register(1);
        let ran = self.store.run(|transaction| {
            let bytes =
                absent(transaction.read(&self.keyspace, key(from.blob), offset(from)..offset(from) + 8))?;
            let read = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            let actions = vec![
                Action::Read { register: from, value: read, number: None },
                Action::Write { register: to, value, number: None },
            ];
            self.scene.recorder.set(place, actions);
            transaction.write(&self.keyspace, key(to.blob), offset(to), value.to_le_bytes())
        });
        let outcome = match &ran {
            Ok(_) => Outcome::Committed,
            Err(error) => self.outcome_of("run", error),
        };
        self.scene.recorder.end(place, outcome, self.scene.recorder.actions(place));
        ran.is_ok().then(|| self.count());
    }

    /// Everything of a group as it is at one point. That point is before the snapshot is there.
    pub(super) fn snapshot(&mut self, group: Group) {
        let place = self.scene.recorder.begin(self.id, "snapshot", Vec::new());
        let taken = self.store.snapshot(&[&self.keyspace]);
        // What is read from it is added later.
        self.scene.recorder.end(place, Outcome::Conflict, Vec::new());
        let seen = taken.and_then(|snapshot| {
            let mut seen = Vec::new();
            for blob in group.blobs() {
                let bytes = absent(snapshot.read(&self.keyspace, key(blob), ..))?;
                seen.extend(self.seen(blob, bytes));
            }
            Ok(seen)
        });
        match seen {
            Ok(seen) => {
                self.scene.recorder.amend(place, Outcome::Committed, seen);
                self.count();
            }
            Err(error) => drop(self.outcome_of("snapshot", &error)),
        }
    }

    /// The whole of a blob, however long that takes. It has to be told.
    pub(super) fn read_whole(&mut self, blob: Blob) {
        self.look("last read", |client| {
            let read = absent(client.keyspace.read(key(blob), ..));
            if let Err(error) = &read {
                client.scene.trouble(format!("{blob} cannot be read at the end: {}: {error}", error.kind()));
            }
            Ok(client.seen(blob, read?))
        });
    }

    /// What a whole blob was seen to hold.
    pub(super) fn seen(&self, blob: Blob, bytes: Option<Vec<u8>>) -> Vec<Action> {
        let exists = Action::Exists { blob, exists: bytes.is_some() };
        match content(blob) {
            Content::List => vec![self.list(blob, bytes)],
            Content::Fleeting => [vec![exists], values(blob, &bytes.unwrap_or_default())].concat(),
            Content::Wide => {
                let bytes = bytes.unwrap_or_default();
                if let Some(torn) = torn(&bytes) {
                    self.scene
                        .trouble(format!("{blob} was written by one value at a time, and holds {torn}"));
                }
                values(blob, &bytes)
            }
            Content::Registers | Content::Counters => values(blob, &bytes.unwrap_or_default()),
        }
    }

    /// Appends a record to one log, or one to each of two in a transaction.
    pub(super) fn append_to_logs(&mut self) {
        let log = self.random.below(LOGS);
        let logs = if self.random.below(3) == 0 { vec![log, (log + 1) % LOGS] } else { vec![log] };
        let appends: Vec<(u64, Record)> = logs
            .into_iter()
            .map(|log| {
                let size = match self.random.below(40) {
                    0 => self.random.within(100_000..400_000),
                    1..8 => self.random.within(4_000..20_000),
                    _ => self.random.within(HEAD_SIZE..600),
                };
                (log, Record { id: self.value(), size })
            })
            .collect();
        appends.iter().for_each(|(log, record)| self.scene.ledger.begin(*log, *record));
        if let [(log, record)] = appends[..] {
            return self.append_to_log(log, record);
        }
        let mut transaction = self.store.begin();
        let mut slots = Vec::new();
        for (log, record) in appends {
            match transaction.append(&self.keyspace, log::key(log), record.bytes()) {
                Ok(slot) => slots.push((log, record, slot)),
                Err(error) => self.scene.trouble(format!("an append is refused before its commit: {error}")),
            }
        }
        self.commit("append to logs", transaction, Committing::Logs(slots));
    }

    fn append_to_log(&mut self, log: u64, record: Record) {
        match self.keyspace.append(log::key(log), record.bytes()) {
            Ok(offset) => {
                self.scene.ledger.end(log, record, Fate::At(offset));
                self.count();
            }
            Err(error) => {
                if self.outcome_of("append to a log", &error) == Outcome::Conflict {
                    self.scene.ledger.end(log, record, Fate::Never);
                }
            }
        }
    }

    fn transact(&mut self, label: &'static str, body: impl FnOnce(&mut Steps<'_>) -> Result<()>) {
        let place = self.scene.recorder.begin(self.id, label, Vec::new());
        let transaction = self.store.begin();
        let mut steps = Steps { client: self, transaction, actions: Vec::new(), slots: Vec::new() };
        let result = body(&mut steps);
        let Steps { transaction, actions, slots, .. } = steps;
        match result {
            Ok(()) => {
                self.scene.recorder.set(place, actions);
                self.commit(label, transaction, Committing::History(place, slots));
            }
            Err(error) => self.give_up(label, place, &error),
        }
    }

    /// A transaction that could not be made is not committed.
    fn give_up(&self, label: &'static str, place: Place, error: &tyr_client::Error) {
        self.outcome_of(label, error);
        self.scene.recorder.end(place, Outcome::Conflict, Vec::new());
    }

    fn commit(&mut self, label: &'static str, transaction: Transaction, committing: Committing) {
        let pending = transaction.pending();
        match transaction.commit() {
            Ok(ended) => {
                committing.end(&self.scene, &ended);
                if matches!(ended, Ended::Committed(_)) {
                    self.count();
                }
            }
            Err(error) => match self.outcome_of(label, &error) {
                Outcome::Unknown => {
                    committing.leave(&self.scene);
                    self.unsettled.push(Unsettled { _store: self.store.clone(), pending, committing });
                }
                _ => committing.refuse(&self.scene),
            },
        }
    }
}

impl Steps<'_> {
    fn read(&mut self, register: Register) -> Result<()> {
        let (keyspace, from) = (&self.client.keyspace, offset(register));
        let bytes = absent(self.transaction.read(keyspace, key(register.blob), from..from + 8))?;
        let value = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        self.actions.push(Action::Read { register, value, number: None });
        Ok(())
    }

    fn read_list(&mut self, blob: Blob) -> Result<()> {
        let bytes = absent(self.transaction.read(&self.client.keyspace, key(blob), ..))?;
        self.actions.push(self.client.list(blob, bytes));
        Ok(())
    }

    fn exists(&mut self, blob: Blob) -> Result<bool> {
        let exists = self.transaction.exists(&self.client.keyspace, key(blob))?;
        self.actions.push(Action::Exists { blob, exists });
        Ok(exists)
    }

    fn write(&mut self, register: Register, value: u64) -> Result<()> {
        let (blob, at) = (key(register.blob), offset(register));
        self.transaction.write(&self.client.keyspace, blob, at, value.to_le_bytes())?;
        self.actions.push(Action::Write { register, value, number: None });
        Ok(())
    }

    fn write_wide(&mut self, blob: Blob, value: u64) -> Result<()> {
        self.transaction.write(&self.client.keyspace, key(blob), 0, layout::wide_bytes(value))?;
        self.actions.extend(wide(blob, value));
        Ok(())
    }

    fn append(&mut self, blob: Blob, element: u64) -> Result<()> {
        let slot = self.transaction.append(&self.client.keyspace, key(blob), element.to_le_bytes())?;
        self.slots.push((self.actions.len(), slot));
        self.actions.push(Action::Append { blob, element, offset: None });
        Ok(())
    }

    fn add(&mut self, register: Register, operand: u64) -> Result<()> {
        let add = Transform::add(Operand::U64(operand));
        let slot =
            self.transaction.transform(&self.client.keyspace, key(register.blob), offset(register), add)?;
        self.slots.push((self.actions.len(), slot));
        self.actions.push(Action::Add { register, operand, old: None });
        Ok(())
    }

    fn create(&mut self, blob: Blob) -> Result<()> {
        self.transaction.create(&self.client.keyspace, key(blob))?;
        self.actions.push(Action::Create { blob, number: None });
        Ok(())
    }

    fn delete(&mut self, blob: Blob) -> Result<()> {
        self.transaction.delete(&self.client.keyspace, key(blob))?;
        self.actions.push(Action::Delete { blob, number: None });
        Ok(())
    }
}
