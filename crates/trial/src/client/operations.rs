//! What a client does without a transaction of its own.

use tyr_client::{Error, ErrorKind, Operand, Result, Transform};
use tyr_sim::{Action, Blob, Outcome};

use super::Client;
use crate::layout::{self, Group, key, offset};

impl Client {
    pub(super) fn write_register(&mut self, group: Group) {
        let (which, part, value) = (self.random.number(), self.random.below(2), self.value());
        let register = group.registers(which).register(u32::from(part == 1));
        let action = Action::Write { register, value, number: None };
        self.change("write", vec![action], |client| {
            client.keyspace.write(key(register.blob), offset(register), value.to_le_bytes())
        });
    }

    pub(super) fn read_register(&mut self, group: Group) {
        let (which, part) = (self.random.number(), self.random.below(2));
        let register = group.registers(which).register(u32::from(part == 1));
        self.look("read", |client| {
            let from = offset(register);
            let bytes = absent(client.keyspace.read(key(register.blob), from..from + 8))?;
            let value = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            Ok(vec![Action::Read { register, value, number: None }])
        });
    }

    /// Payload of several chunks.
    pub(super) fn write_wide(&mut self, group: Group) {
        let (blob, value) = (group.wide(), self.value());
        self.change("write wide", wide(blob, value), |client| {
            client.keyspace.write(key(blob), 0, layout::wide_bytes(value))
        });
    }

    pub(super) fn read_wide(&mut self, group: Group) {
        let blob = group.wide();
        self.look("read wide", |client| {
            let bytes = absent(client.keyspace.read(key(blob), ..))?.unwrap_or_default();
            if let Some(torn) = torn(&bytes) {
                client.scene.trouble(format!("{blob} was written by one value at a time, and holds {torn}"));
            }
            Ok(values(blob, &bytes))
        });
    }

    pub(super) fn append(&mut self, group: Group) {
        let (blob, element) = (group.list(self.random.number()), self.value());
        let action = |offset| vec![Action::Append { blob, element, offset }];
        self.change_and_note("append", action(None), |client| {
            let offset = client.keyspace.append(key(blob), element.to_le_bytes())?;
            Ok(action(Some(offset / 8)))
        });
    }

    pub(super) fn read_list(&mut self, group: Group) {
        let blob = group.list(self.random.number());
        self.look("read list", |client| {
            let bytes = absent(client.keyspace.read(key(blob), ..))?;
            Ok(vec![client.list(blob, bytes)])
        });
    }

    pub(super) fn add(&mut self, group: Group) {
        let part = u32::from(self.random.below(2) == 1);
        let (register, operand) = (group.counters().register(part), self.random.within(1..100));
        let action = |old| vec![Action::Add { register, operand, old }];
        self.change_and_note("add", action(None), |client| {
            let add = Transform::add(Operand::U64(operand));
            let old = client.keyspace.transform(key(register.blob), offset(register), add)?;
            Ok(action(number(old)))
        });
    }

    pub(super) fn create(&mut self, group: Group) {
        let blob = group.fleeting();
        let action = Action::Create { blob, number: None };
        self.change_and_note("create", vec![action.clone()], |client| {
            match client.keyspace.create(key(blob)) {
                Err(error) if error.kind() == ErrorKind::Exists => {
                    Ok(vec![Action::Exists { blob, exists: true }])
                }
                created => created.map(|()| vec![action]),
            }
        });
    }

    pub(super) fn delete(&mut self, group: Group) {
        let blob = group.fleeting();
        let action = Action::Delete { blob, number: None };
        self.change_and_note("delete", vec![action.clone()], |client| {
            match client.keyspace.delete(key(blob)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Ok(vec![Action::Exists { blob, exists: false }])
                }
                deleted => deleted.map(|()| vec![action]),
            }
        });
    }

    fn change(
        &mut self,
        label: &'static str,
        actions: Vec<Action>,
        call: impl FnOnce(&mut Client) -> Result<()>,
    ) {
        let told = actions.clone();
        self.change_and_note(label, actions, |client| call(client).map(|()| told));
    }

    /// Something that changes one blob. The call returns the actions with their answers.
    fn change_and_note(
        &mut self,
        label: &'static str,
        actions: Vec<Action>,
        call: impl FnOnce(&mut Client) -> Result<Vec<Action>>,
    ) {
        let place = self.scene.recorder.begin(self.id, label, actions.clone());
        match call(self) {
            Ok(told) => {
                self.scene.recorder.end(place, Outcome::Committed, told);
                self.count();
            }
            Err(error) => {
                let outcome = self.outcome_of(label, &error);
                self.scene.recorder.end(place, outcome, actions);
            }
        }
    }

    /// Something that only looks. What was not seen does not count.
    pub(super) fn look(
        &mut self,
        label: &'static str,
        call: impl FnOnce(&mut Client) -> Result<Vec<Action>>,
    ) {
        let place = self.scene.recorder.begin(self.id, label, Vec::new());
        match call(self) {
            Ok(seen) => {
                self.scene.recorder.end(place, Outcome::Committed, seen);
                self.count();
            }
            Err(error) => {
                self.outcome_of(label, &error);
                self.scene.recorder.end(place, Outcome::Conflict, Vec::new());
            }
        }
    }

    /// What an error says of an operation. One that must not come is a trouble.
    pub(super) fn outcome_of(&self, label: &'static str, error: &Error) -> Outcome {
        if self.is_patient && error.kind() == ErrorKind::Unavailable {
            self.scene.interruptions.lock().push(format!("'{label}' of client {}: {error}", self.id));
        }
        self.scene.outcome_of(error).unwrap_or_else(|| {
            self.scene.trouble(format!("a client was told on '{label}': {}: {error}", error.kind()));
            Outcome::Unknown
        })
    }

    /// What a list was seen to hold.
    pub(super) fn list(&self, blob: Blob, bytes: Option<Vec<u8>>) -> Action {
        let elements = bytes.map(|bytes| {
            layout::elements(&bytes).unwrap_or_else(|| {
                self.scene
                    .trouble(format!("list {blob} has {} bytes, which is not whole elements", bytes.len()));
                Vec::new()
            })
        });
        Action::ReadList { blob, elements }
    }
}

/// What a read of a blob tells that may not be there.
pub(super) fn absent<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// All parts of a wide blob are written with one value.
pub(super) fn wide(blob: Blob, value: u64) -> Vec<Action> {
    let registers = (0..layout::parts(blob)).map(|part| blob.register(part));
    registers.map(|register| Action::Write { register, value, number: None }).collect()
}

/// What the registers of a blob with this content hold.
pub(super) fn values(blob: Blob, bytes: &[u8]) -> Vec<Action> {
    let registers = (0..layout::parts(blob)).map(|part| blob.register(part));
    registers
        .map(|register| Action::Read { register, value: layout::value(register, bytes), number: None })
        .collect()
}

/// Two values that are in a wide blob at once, if there are.
pub(super) fn torn(bytes: &[u8]) -> Option<String> {
    let (words, rest) = bytes.as_chunks::<8>();
    let other = words.iter().position(|word| Some(word) != words.first());
    match other {
        Some(place) => Some(format!("{:x?} and from word {place} on {:x?}", words[0], words[place])),
        None => (!rest.is_empty()).then(|| format!("{} bytes", bytes.len())),
    }
}

/// What a counter held.
pub(super) fn number(operand: Operand) -> Option<u64> {
    match operand {
        Operand::U64(number) => Some(number),
        _ => None,
    }
}
