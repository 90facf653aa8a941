//! What a client has heard of blobs, and relies on later without looking again: conditions of transactions that read nothing.
//!
//! A condition of one that commits was true at its point, so that it counts as seen there.

use std::collections::BTreeMap;

use tyr_proto::{Check, Time};

use super::{
    Caller,
    task::{Source, Task},
};
use crate::{
    Action, Blob, Register,
    cluster::{
        layout::{ATTRIBUTE, ATTRIBUTE_NAME, LIST_START, name},
        wants::Then,
    },
};

/// What was heard last. It may be out of date.
#[derive(Debug, Default)]
pub struct Known {
    /// Attributes, which may not be set.
    attributes: BTreeMap<Register, Option<u64>>,
    /// How many elements lists have.
    sizes: BTreeMap<Blob, u64>,
    /// Whether blobs exist.
    exists: BTreeMap<Blob, bool>,
}

impl Known {
    /// Takes note of what a committed transaction did or saw.
    pub fn hear(&mut self, action: &Action) {
        match action {
            Action::Read { register, value, .. } if register.part == ATTRIBUTE => {
                self.attributes.insert(*register, *value);
            }
            Action::Write { register, value, .. } if register.part == ATTRIBUTE => {
                self.attributes.insert(*register, Some(*value));
            }
            Action::Append { blob, offset: Some(offset), .. } => {
                self.sizes.insert(*blob, offset + 1);
            }
            Action::Create { blob, .. } => {
                self.exists.insert(*blob, true);
            }
            Action::Delete { blob, .. } => {
                self.exists.insert(*blob, false);
            }
            Action::Exists { blob, exists } => {
                self.exists.insert(*blob, *exists);
            }
            _ => {}
        }
    }

    /// What is wrong with where an append went to a list that had to be so long.
    pub fn contradiction(action: &Action, sizes: &BTreeMap<Blob, u64>) -> Option<String> {
        let Action::Append { blob, offset: Some(offset), .. } = action else { return None };
        let size = sizes.get(blob).filter(|size| *size != offset)?;
        Some(format!("{action} is of a transaction that was to happen if {blob} had {size} elements"))
    }
}

impl Caller {
    /// Has a transaction that reads nothing rely on what is known of what it changes, and of other blobs.
    pub(super) fn rely(&mut self, now: u64) {
        let Some(Task { source: Source::Transaction(transaction), wants, actions, sizes, .. }) =
            &mut self.task
        else {
            return;
        };
        let (client, now) = (&mut self.client, Time(now));
        sizes.clear();
        if !actions.is_empty() {
            return;
        }
        for blob in &wants.relies {
            let Some(exists) = self.known.exists.get(blob).copied() else { continue };
            let check = if exists { Check::Exists } else { Check::Missing };
            transaction.check(client, now, &name(*blob), check);
            actions.push(Action::Exists { blob: *blob, exists });
        }
        match &wants.then {
            Then::Write(registers) => {
                for register in registers.iter().filter(|register| register.part == ATTRIBUTE) {
                    let Some(value) = self.known.attributes.get(register).copied() else { continue };
                    let bytes = value.map(|value| value.to_le_bytes()[..].into());
                    let check = Check::Attribute { name: ATTRIBUTE_NAME.to_owned(), value: bytes };
                    transaction.check(client, now, &name(register.blob), check);
                    actions.push(Action::Read { register: *register, value, number: None });
                }
            }
            // Of one list: to find all of several as they were is rare.
            Then::Append(lists) => {
                let Some(list) = lists.first() else { return };
                let known = self.known.sizes.remove(list);
                let Some(size) = known.filter(|size| size.is_multiple_of(2)) else { return };
                transaction.check(client, now, &name(*list), Check::Size(LIST_START + 8 * size));
                sizes.insert(*list, size);
            }
            _ => {}
        }
    }
}
