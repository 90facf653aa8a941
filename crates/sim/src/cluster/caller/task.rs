//! An operation of a simulated client that is under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tyr_proto::{
    BlobName, Client, Opening, PartitionId, ReadId, ResultValue, Run, Snapshot, SnapshotId, Time, Told,
    Transaction, message::RequestId,
};

use super::{editing::Edited, named::Named};
use crate::{
    Action, Blob, Register,
    check::documents::Stat,
    cluster::{
        layout::{ATTRIBUTE, ATTRIBUTE_NAME, LIST_START, name, range_of},
        wants::Wants,
    },
};

/// An operation that is under way.
#[derive(Debug)]
pub struct Task {
    /// Its place in the history.
    pub place: usize,
    /// What it is about.
    pub wants: Wants,
    /// How far it is.
    pub stage: Stage,
    /// The tries, if there may be several.
    pub run: Run,
    /// What the run's next try has reserved, and when it asked for it.
    pub reserved: Option<(BTreeSet<BlobName>, u64)>,
    /// Where it reads.
    pub source: Source,
    /// What is being read,
    pub targets: BTreeMap<ReadId, Target>,
    /// and what has been.
    pub found: BTreeMap<Target, Found>,
    /// When a snapshot was taken.
    pub taken_at: u64,
    /// The snapshot that it has taken and not dropped, if that has a name.
    pub named: Option<Named>,
    /// What it did and saw.
    pub actions: Vec<Action>,
    /// How many elements lists have to have that it appends to.
    pub sizes: BTreeMap<Blob, u64>,
    /// Which action is answered by which change of which blob.
    pub answers: Vec<(usize, BlobName, u16)>,
    /// What it did to documents, and saw of them.
    pub edited: Edited,
}

/// Where an operation reads.
#[derive(Debug)]
pub enum Source {
    /// In nothing that has to be given up.
    Nothing,
    /// In this transaction.
    Transaction(Box<Transaction>),
    /// In this snapshot.
    Snapshot(Snapshot),
}

/// How far an operation is.
#[derive(Debug)]
pub enum Stage {
    /// The next try of a transaction begins in its time.
    Beginning,
    /// A snapshot is asked for.
    Freezing(RequestId),
    /// The cluster manager is asked for something.
    Ordering,
    /// A snapshot with a name is being taken.
    Taking(SnapshotId, RequestId),
    /// Until it opens the snapshot that it has taken.
    Unopened(u64),
    /// Its snapshot is being opened.
    Opening(Opening),
    /// The answers of reads are awaited.
    Reading,
    /// Until it reads again.
    Resting(u64),
    /// Until it writes.
    Thinking(u64),
    /// The answers of reads of its own writes are awaited.
    ReadingBack,
    /// The end of its transaction is awaited.
    Committing,
    /// The answer of a chunk is awaited.
    Direct(RequestId),
    /// A blob and its bytes are awaited.
    Getting(RequestId),
    /// What these are is asked for.
    Asking(RequestId, Vec<Target>),
    /// Names are asked for.
    Scanning {
        /// The question,
        request: RequestId,
        /// and whom it is for.
        partition: PartitionId,
        /// What was told before.
        found: Vec<BlobName>,
        /// Partitions that are to be asked after that.
        left: Vec<PartitionId>,
    },
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A register.
    Register(Register),
    /// All elements of a list.
    List(Blob),
    /// Whether a blob exists.
    Exists(Blob),
    /// What a document is.
    Stat(Blob),
    /// The bytes of a document from one offset to another.
    Window(Blob, u64, u64),
}

/// What was read of it.
#[derive(Debug)]
pub enum Found {
    /// Its bytes, if its blob exists.
    Bytes(Option<Vec<u8>>),
    /// Whether it exists.
    Exists(bool),
    /// What it is, if it exists.
    Stat(Option<Stat>),
}

impl Task {
    /// Begins to read something.
    pub fn read(&mut self, client: &mut Client, now: u64, target: Target) {
        let (blob, range) = match target {
            Target::Register(register) if register.part == ATTRIBUTE => (name(register.blob), 0..0),
            Target::Register(register) => (name(register.blob), range_of(register)),
            Target::List(blob) => (name(blob), LIST_START..u64::MAX),
            Target::Exists(blob) | Target::Stat(blob) => (name(blob), 0..0),
            Target::Window(blob, start, end) => (name(blob), start..end),
        };
        let exists = matches!(target, Target::Exists(_));
        let is_attribute = match target {
            Target::Register(register) => register.part == ATTRIBUTE,
            target => matches!(target, Target::Stat(_)),
        };
        let now = Time(now);
        let id = match &mut self.source {
            Source::Nothing => None,
            Source::Transaction(transaction) if exists => Some(transaction.exists(client, now, &blob)),
            Source::Transaction(transaction) if is_attribute => Some(transaction.stat(client, now, &blob)),
            Source::Transaction(transaction) => Some(transaction.read(client, now, &blob, range)),
            Source::Snapshot(snapshot) if exists || is_attribute => snapshot.stat(client, now, &blob),
            Source::Snapshot(snapshot) => snapshot.read(client, now, &blob, range),
        };
        match id {
            Some(id) => {
                self.targets.insert(id, target);
            }
            // A snapshot by prefix does not name what is not there.
            None if exists => {
                self.found.insert(target, Found::Exists(false));
            }
            None if matches!(target, Target::Stat(_)) => {
                self.found.insert(target, Found::Stat(None));
            }
            None => {
                self.found.insert(target, Found::Bytes(None));
            }
        }
    }
}

impl Target {
    /// The blob that it is in.
    pub fn blob(self) -> Blob {
        match self {
            Target::Register(register) => register.blob,
            Target::List(blob) | Target::Exists(blob) | Target::Stat(blob) => blob,
            Target::Window(blob, ..) => blob,
        }
    }
}

impl Source {
    /// The next thing that it tells.
    pub fn poll(&mut self) -> Option<Told> {
        match self {
            Source::Nothing => None,
            Source::Transaction(transaction) => transaction.poll_told(),
            Source::Snapshot(snapshot) => snapshot.poll_answer().map(|(id, answer)| Told::Read(id, answer)),
        }
    }

    /// The blob that a request reads, and under what name what is seen of it is held at the head's replica.
    pub fn held_for(&self, client: &Client, request: RequestId) -> Option<(RequestId, BlobName)> {
        let (blob, asked) = match self {
            Source::Nothing => return None,
            Source::Transaction(transaction) => transaction.held_for(request)?,
            Source::Snapshot(snapshot) => (snapshot.read_by(request)?, snapshot.asked()?),
        };
        Some((client.name_of_freeze(asked)?, blob))
    }

    /// The blobs that a transaction has touched.
    pub fn touched(&self) -> BTreeSet<BlobName> {
        match self {
            Source::Transaction(transaction) => transaction.touched().cloned().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Gives it up.
    pub fn let_go(&mut self, client: &mut Client) {
        match std::mem::replace(self, Source::Nothing) {
            Source::Nothing => {}
            Source::Transaction(mut transaction) => transaction.roll_back(client),
            Source::Snapshot(mut snapshot) => snapshot.let_go(client),
        }
    }
}

/// What was seen, as the history has it.
pub fn action_of(target: Target, found: Found) -> Action {
    match (target, found) {
        (Target::Exists(blob), found) => {
            Action::Exists { blob, exists: matches!(found, Found::Exists(true)) }
        }
        (Target::Register(register), Found::Bytes(bytes)) => {
            // A hole reads as zeros, which nobody writes.
            let value = bytes.filter(|bytes| bytes.len() == 8).map(|bytes| value_of(&bytes));
            Action::Read { register, value: value.filter(|value| *value != 0), number: None }
        }
        (Target::List(blob), Found::Bytes(bytes)) => {
            let elements = bytes.map(|bytes| bytes.chunks(8).map(value_of).collect());
            Action::ReadList { blob, elements }
        }
        (target, found) => panic!("{target:?} is {found:?}"),
    }
}

/// The attribute that stands for a register.
pub fn attribute_of(attributes: &BTreeMap<String, Arc<[u8]>>) -> Option<Vec<u8>> {
    attributes.get(ATTRIBUTE_NAME).map(|value| value.to_vec())
}

/// The number that bytes begin with.
pub fn value_of(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    let length = bytes.len().min(8);
    value[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(value)
}

/// Fills in an offset or an old value. Says what is wrong if that is not what was answered.
pub fn fill(action: &mut Action, value: Option<ResultValue>) -> Result<(), String> {
    match (action, value) {
        (Action::Append { offset, .. }, Some(ResultValue::Offset(at))) => {
            *offset = Some((at - LIST_START) / 8)
        }
        (Action::Add { old, .. }, Some(ResultValue::Old(bytes))) => *old = Some(value_of(&bytes)),
        (action, value) => return Err(format!("{action} answers {value:?}")),
    }
    Ok(())
}
