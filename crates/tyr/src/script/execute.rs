//! Executes the operations of a script as one transaction.

use std::collections::{HashMap, hash_map::Entry};

use serde::Serialize;
use serde_json::{Map, Value};
use tyr_client::{
    Check, Operand, Receipt, Slot,
    blocking::{Keyspace, Store, Transaction},
};

use super::{Action, Operation};
use crate::{
    arithmetic::{operand_json, show_operand},
    blob::{commit, version_of},
    failure::{Failure, Result},
    output::{Output, Report, Shown, key_fields},
    payload::Payload,
};

/// Executes all operations, or none.
pub fn execute<'a>(store: &Store, operations: &'a [Operation]) -> Result<Executed<'a>> {
    let mut keyspaces: HashMap<&str, Keyspace> = HashMap::new();
    let mut transaction = store.begin();
    let mut slots = Vec::new();
    for operation in operations {
        let at_line = |failure: Failure| failure.context(format!("line {}", operation.line));
        let keyspace = match keyspaces.entry(&operation.keyspace) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let keyspace = store.keyspace(&operation.keyspace);
                place.insert(keyspace.map_err(|error| at_line(error.into()))?)
            }
        };
        let slot = apply(&mut transaction, keyspace, operation).map_err(at_line)?;
        slots.extend(slot.map(|slot| (operation, slot)));
    }
    let receipt = commit(transaction)?;
    let results = slots.into_iter().map(|(operation, slot)| Answer::new(operation, &receipt, slot)).collect();
    Ok(Executed { operations: operations.len(), version: version_of(&receipt), results })
}

/// Adds one operation to the transaction.
fn apply(transaction: &mut Transaction, keyspace: &Keyspace, operation: &Operation) -> Result<Option<Slot>> {
    let key = &operation.key;
    match &operation.action {
        Action::Create => transaction.create(keyspace, key)?,
        Action::Delete => transaction.delete(keyspace, key)?,
        Action::Truncate(size) => transaction.truncate(keyspace, key, *size)?,
        Action::Punch(offset, length) => {
            transaction.punch(keyspace, key, *offset..offset.saturating_add(*length))?;
        }
        Action::Put(payload) => put(transaction, keyspace, operation, payload)?,
        Action::Write(offset, payload) => {
            for_each_piece(*offset, payload, |at, piece| Ok(transaction.write(keyspace, key, at, piece)?))?;
        }
        Action::Append(payload) => {
            let mut first = None;
            for_each_piece(0, payload, |_, piece| {
                let slot = transaction.append(keyspace, key, piece)?;
                first.get_or_insert(slot);
                Ok(())
            })?;
            return Ok(first);
        }
        Action::Transform(offset, transform) => {
            return Ok(Some(transaction.transform(keyspace, key, *offset, *transform)?));
        }
        Action::SetAttribute(name, payload) => {
            transaction.set_attribute(keyspace, key, name, Some(&payload.whole_value()?))?;
        }
        Action::UnsetAttribute(name) => transaction.set_attribute(keyspace, key, name, None)?,
        Action::Check(check) => transaction.check(keyspace, key, check.clone())?,
        Action::CheckBytes(offset, payload) => for_each_piece(*offset, payload, |offset, piece| {
            Ok(transaction.check(keyspace, key, Check::Bytes { offset, bytes: piece.to_vec() })?)
        })?,
        Action::CheckAttribute(name, payload) => {
            let check = Check::Attribute { name: name.clone(), value: Some(payload.whole_value()?) };
            transaction.check(keyspace, key, check)?;
        }
    }
    Ok(None)
}

fn put(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    operation: &Operation,
    payload: &Payload,
) -> Result<()> {
    for_each_piece(0, payload, |at, piece| match at {
        0 => Ok(transaction.put(keyspace, &operation.key, piece)?),
        _ => Ok(transaction.write(keyspace, &operation.key, at, piece)?),
    })
}

/// Hands the payload over piece by piece, each with where it goes if the first goes to `offset`.
fn for_each_piece(
    offset: u64,
    payload: &Payload,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut position = offset;
    payload.for_each_piece(|piece| {
        take(position, piece)?;
        position = position.saturating_add(piece.len() as u64);
        Ok(())
    })
}

/// What a committed script has to say.
pub struct Executed<'a> {
    operations: usize,
    version: Value,
    results: Vec<Answer<'a>>,
}

/// What one operation of it found out: the offset of an append, or the old value of a transform.
struct Answer<'a> {
    operation: &'a Operation,
    offset: Option<u64>,
    old: Option<Operand>,
}

impl<'a> Answer<'a> {
    fn new(operation: &'a Operation, receipt: &Receipt, slot: Slot) -> Self {
        Answer { operation, offset: receipt.offset(slot), old: receipt.old(slot) }
    }

    fn op(&self) -> &'static str {
        if self.old.is_some() { "transform" } else { "append" }
    }

    fn object(&self) -> Map<String, Value> {
        let mut object = key_fields(&self.operation.keyspace, self.operation.key.as_bytes());
        object.insert("line".to_owned(), self.operation.line.into());
        object.insert("op".to_owned(), self.op().into());
        if let Some(offset) = self.offset {
            object.insert("offset".to_owned(), offset.into());
        }
        if let Some(old) = self.old {
            object.insert("old".to_owned(), operand_json(old));
        }
        object
    }
}

impl Serialize for Executed<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let results: Vec<Value> = self.results.iter().map(|answer| answer.object().into()).collect();
        let object = serde_json::json!({
            "action": "tx-run",
            "operations": self.operations,
            "version": self.version,
            "results": results,
        });
        object.serialize(serializer)
    }
}

impl Report for Executed<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        let version = self.version.as_str().map_or(String::new(), |version| format!(" as version {version}"));
        out.line(format!("committed {} operations{version}", self.operations))?;
        for answer in &self.results {
            let operation = answer.operation;
            let (line, keyspace, key) =
                (operation.line, &operation.keyspace, Shown(operation.key.as_bytes()));
            let found = match (answer.offset, answer.old) {
                (Some(offset), _) => format!("offset {offset}"),
                (None, old) => format!("old value {}", old.map_or_else(String::new, show_operand)),
            };
            out.line(format!("line {line}: {} {keyspace}/{key}: {found}", answer.op()))?;
        }
        Ok(())
    }
}
