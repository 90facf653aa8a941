//! What a store is, in the simplest possible way, and the operations on it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tyr_types::{Attributes, ErrorKind, Op, Operand, Transform};

/// A blob: which keyspace, which key.
pub(super) type Place = (usize, u8);

/// Everything that exists.
#[derive(Clone, Debug, Default)]
pub(super) struct Model(pub(super) BTreeMap<Place, Content>);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) attributes: Attributes,
}

/// An operation on one blob.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Create,
    Delete,
    Write { offset: usize, bytes: Vec<u8> },
    Put { bytes: Vec<u8> },
    Append { bytes: Vec<u8> },
    Truncate { size: usize },
    Punch { start: usize, len: usize },
    SetAttribute { name: &'static str, value: Option<Vec<u8>> },
    Transform { offset: usize, transform: Transform },
    Read { start: usize, len: usize },
    ReadAll,
    Stat,
    Exists,
    Attribute { name: &'static str },
}

/// What an operation answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Done,
    Bytes(Vec<u8>),
    Stat {
        size: u64,
        attributes: Attributes,
    },
    Exists(bool),
    Attribute(Option<Vec<u8>>),
    Offset(u64),
    /// As bits: a NaN is not equal to itself.
    Old([u8; 8]),
}

impl Action {
    pub(super) fn writes(&self) -> bool {
        !matches!(
            self,
            Action::Read { .. } | Action::ReadAll | Action::Stat | Action::Exists | Action::Attribute { .. }
        )
    }

    /// Whether a transaction that does it can be refused because of the blob.
    pub(super) fn observes(&self) -> bool {
        !matches!(
            self,
            Action::Write { .. } | Action::Put { .. } | Action::Append { .. } | Action::Transform { .. }
        )
    }
}

impl Model {
    pub(super) fn apply(&mut self, place: Place, action: &Action) -> Result<Answer, ErrorKind> {
        let found = self.0.get_mut(&place).ok_or(ErrorKind::NotFound);
        match action {
            Action::Create if found.is_ok() => Err(ErrorKind::Exists),
            Action::Create => {
                self.0.insert(place, Content::default());
                Ok(Answer::Done)
            }
            Action::Delete => self.0.remove(&place).map(|_| Answer::Done).ok_or(ErrorKind::NotFound),
            Action::Write { offset, bytes } => {
                self.0.entry(place).or_default().write(*offset, bytes);
                Ok(Answer::Done)
            }
            Action::Put { bytes } => {
                self.0.entry(place).or_default().bytes.clone_from(bytes);
                Ok(Answer::Done)
            }
            Action::Append { bytes } => {
                let content = &mut self.0.entry(place).or_default().bytes;
                let offset = content.len() as u64;
                content.extend(bytes);
                Ok(Answer::Offset(offset))
            }
            Action::Truncate { size } => {
                found?.bytes.resize(*size, 0);
                Ok(Answer::Done)
            }
            Action::Punch { start, len } => {
                let bytes = &mut found?.bytes;
                let end = (start + len).min(bytes.len());
                bytes[(*start).min(end)..end].fill(0);
                Ok(Answer::Done)
            }
            Action::SetAttribute { name, value } => {
                found?.attributes.set(name, value.as_deref()).unwrap();
                Ok(Answer::Done)
            }
            Action::Transform { offset, transform } => {
                let old = self.0.entry(place).or_default().transform(*offset, transform);
                Ok(Answer::Old(old.to_le_bytes()))
            }
            Action::Read { start, len } => Ok(Answer::Bytes(found?.read(*start, *len))),
            Action::ReadAll => Ok(Answer::Bytes(found?.bytes.clone())),
            Action::Stat => found.map(|content| Answer::Stat {
                size: content.bytes.len() as u64,
                attributes: content.attributes.clone(),
            }),
            Action::Exists => Ok(Answer::Exists(found.is_ok())),
            Action::Attribute { name } => {
                Ok(Answer::Attribute(found?.attributes.value(name).map(Into::into)))
            }
        }
    }
}

impl Content {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
    }

    fn transform(&mut self, offset: usize, transform: &Transform) -> Operand {
        let mut number = self.read(offset, transform.number_type().size());
        number.resize(transform.number_type().size(), 0);
        let old = Operand::from_le_bytes(transform.number_type(), &number).unwrap();
        let new = transform.apply(old).to_le_bytes();
        self.write(offset, &new[..number.len()]);
        old
    }

    fn read(&self, start: usize, len: usize) -> Vec<u8> {
        let start = start.min(self.bytes.len());
        self.bytes[start..(start + len).min(self.bytes.len())].to_vec()
    }
}

pub(super) fn places() -> impl Strategy<Value = Place> {
    (0..super::KEYSPACES, 0u8..3)
}

pub(super) fn actions() -> impl Strategy<Value = Action> {
    let name = || prop_oneof![Just("a"), Just("b")];
    prop_oneof![
        1 => Just(Action::Create),
        1 => Just(Action::Delete),
        4 => (positions(), contents()).prop_map(|(offset, bytes)| Action::Write { offset, bytes }),
        1 => contents().prop_map(|bytes| Action::Put { bytes }),
        3 => contents().prop_map(|bytes| Action::Append { bytes }),
        2 => positions().prop_map(|size| Action::Truncate { size }),
        2 => (positions(), lengths()).prop_map(|(start, len)| Action::Punch { start, len }),
        1 => (name(), prop::option::of(prop::collection::vec(any::<u8>(), 0..4)))
            .prop_map(|(name, value)| Action::SetAttribute { name, value }),
        4 => (positions(), transforms()).prop_map(|(offset, transform)| Action::Transform { offset, transform }),
        5 => (positions(), lengths()).prop_map(|(start, len)| Action::Read { start, len }),
        2 => Just(Action::ReadAll),
        2 => Just(Action::Stat),
        1 => Just(Action::Exists),
        1 => name().prop_map(|name| Action::Attribute { name }),
    ]
}

/// Where things begin and end: mostly small, so that they meet, and around leaves and chunks of 64 KiB.
fn positions() -> impl Strategy<Value = usize> {
    let near = |middle: usize| middle - 12..middle + 12;
    prop_oneof![6 => 0usize..40, 1 => near(4096), 2 => near(64 << 10), 1 => near(128 << 10)]
}

/// Mostly small, sometimes across a leaf or large enough to be staged.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..30, 1 => 4000usize..9000, 1 => (64 << 10) - 8..(64 << 10) + 8usize, 1 => 100_000..140_000usize]
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    let fill = |(len, seed): (usize, u8)| {
        (0..len).map(|n| seed.wrapping_add(u8::try_from(n % 251).unwrap())).collect()
    };
    (lengths(), any::<u8>()).prop_map(fill)
}

fn transforms() -> impl Strategy<Value = Transform> {
    let add = any::<u64>().prop_map(|n| Transform::add(Operand::U64(n)));
    let swap = any::<i16>().prop_map(|n| Transform::new(Op::Swap, Operand::I16(n)).unwrap());
    let max = any::<u8>().prop_map(|n| Transform::max(Operand::U8(n)));
    let cas = any::<u32>().prop_map(|n| {
        Transform::compare_and_swap(Operand::U32(0), Operand::U32(n)).expect("the types are equal")
    });
    let float = any::<f32>().prop_map(|n| Transform::add(Operand::F32(n)));
    prop_oneof![3 => add, 1 => swap, 1 => max, 1 => cas, 1 => float]
}
