//! Operations of the model, done with the store.

use pollster::block_on;
use tyr_types::ErrorKind;

use super::model::{Action, Answer, Place};
use crate::{Keyspace, Receipt, Result, Slot, Snapshot, Transaction};

fn answer<T>(result: Result<T>, answer: impl FnOnce(T) -> Answer) -> Result<Answer, ErrorKind> {
    result.map(answer).map_err(|error| error.kind())
}

fn done(result: Result<()>) -> Result<Answer, ErrorKind> {
    answer(result, |()| Answer::Done)
}

fn range(start: usize, len: usize) -> std::ops::Range<u64> {
    start as u64..(start + len) as u64
}

fn stat(stat: crate::Stat) -> Answer {
    Answer::Stat { size: stat.size, attributes: stat.attributes }
}

/// As a lone operation.
pub(super) fn alone(keyspaces: &[Keyspace], place: Place, action: &Action) -> Result<Answer, ErrorKind> {
    let (keyspace, key) = (&keyspaces[place.0], [place.1]);
    match action {
        Action::Create => done(block_on(keyspace.create(key))),
        Action::Delete => done(block_on(keyspace.delete(key))),
        Action::Write { offset, bytes } => done(block_on(keyspace.write(key, *offset as u64, bytes))),
        Action::Put { bytes } => done(block_on(keyspace.put(key, bytes))),
        Action::Append { bytes } => answer(block_on(keyspace.append(key, bytes)), Answer::Offset),
        Action::Truncate { size } => done(block_on(keyspace.truncate(key, *size as u64))),
        Action::Punch { start, len } => {
            let range = *start as u64..(start + len) as u64;
            done(block_on(keyspace.punch(key, range)))
        }
        Action::SetAttribute { name, value } => {
            done(block_on(keyspace.set_attribute(key, name, value.as_deref())))
        }
        Action::Transform { offset, transform } => {
            answer(block_on(keyspace.transform(key, *offset as u64, *transform)), |old| {
                Answer::Old(old.to_le_bytes())
            })
        }
        Action::Read { start, len } => {
            answer(block_on(keyspace.read(key, range(*start, *len))), Answer::Bytes)
        }
        Action::ReadAll => answer(block_on(keyspace.get(key)), |blob| {
            assert_eq!(blob.stat.size, blob.bytes.len() as u64);
            Answer::Bytes(blob.bytes)
        }),
        Action::Stat => answer(block_on(keyspace.stat(key)), stat),
        Action::Exists => answer(block_on(keyspace.exists(key)), Answer::Exists),
        Action::Attribute { name } => answer(block_on(keyspace.attribute(key, name)), Answer::Attribute),
    }
}

/// What an operation in a transaction answers: at once, or in the receipt.
#[derive(Clone, Debug)]
pub(super) enum Promised {
    Answer(Answer),
    Offset(Slot),
    Old(Slot),
}

impl Promised {
    pub(super) fn keep(self, receipt: &Receipt) -> Answer {
        match self {
            Promised::Answer(answer) => answer,
            Promised::Offset(slot) => Answer::Offset(receipt.offset(slot).unwrap()),
            Promised::Old(slot) => Answer::Old(receipt.old(slot).unwrap().to_le_bytes()),
        }
    }
}

/// In a transaction.
pub(super) fn within(
    transaction: &mut Transaction,
    keyspaces: &[Keyspace],
    place: Place,
    action: &Action,
) -> Result<Promised, ErrorKind> {
    let (keyspace, key) = (&keyspaces[place.0], [place.1]);
    let answered = match action {
        Action::Append { bytes } => {
            let slot = block_on(transaction.append(keyspace, key, bytes));
            return slot.map(Promised::Offset).map_err(|error| error.kind());
        }
        Action::Transform { offset, transform } => {
            let slot = block_on(transaction.transform(keyspace, key, *offset as u64, *transform));
            return slot.map(Promised::Old).map_err(|error| error.kind());
        }
        Action::Create => done(block_on(transaction.create(keyspace, key))),
        Action::Delete => done(block_on(transaction.delete(keyspace, key))),
        Action::Write { offset, bytes } => {
            done(block_on(transaction.write(keyspace, key, *offset as u64, bytes)))
        }
        Action::Put { bytes } => done(block_on(transaction.put(keyspace, key, bytes))),
        Action::Truncate { size } => done(block_on(transaction.truncate(keyspace, key, *size as u64))),
        Action::Punch { start, len } => {
            let range = *start as u64..(start + len) as u64;
            done(block_on(transaction.punch(keyspace, key, range)))
        }
        Action::SetAttribute { name, value } => {
            done(block_on(transaction.set_attribute(keyspace, key, name, value.as_deref())))
        }
        Action::Read { start, len } => {
            answer(block_on(transaction.read(keyspace, key, range(*start, *len))), Answer::Bytes)
        }
        Action::ReadAll => answer(block_on(transaction.read(keyspace, key, ..)), Answer::Bytes),
        Action::Stat => answer(block_on(transaction.stat(keyspace, key)), stat),
        Action::Exists => answer(block_on(transaction.exists(keyspace, key)), Answer::Exists),
        Action::Attribute { name } => {
            answer(block_on(transaction.attribute(keyspace, key, name)), Answer::Attribute)
        }
    };
    answered.map(Promised::Answer)
}

/// Reads of a snapshot; `None` for what writes.
pub(super) fn of_snapshot(
    snapshot: &Snapshot,
    keyspaces: &[Keyspace],
    place: Place,
    action: &Action,
) -> Option<Result<Answer, ErrorKind>> {
    let (keyspace, key) = (&keyspaces[place.0], [place.1]);
    Some(match action {
        Action::Read { start, len } => {
            answer(block_on(snapshot.read(keyspace, key, range(*start, *len))), Answer::Bytes)
        }
        Action::ReadAll => answer(block_on(snapshot.get(keyspace, key)), |blob| Answer::Bytes(blob.bytes)),
        Action::Stat => answer(block_on(snapshot.stat(keyspace, key)), stat),
        Action::Exists => answer(block_on(snapshot.exists(keyspace, key)), Answer::Exists),
        Action::Attribute { name } => {
            answer(block_on(snapshot.attribute(keyspace, key, name)), Answer::Attribute)
        }
        _ => return None,
    })
}
