//! Documents of a simulated client: everything is done to them that can be, in any order, close to where chunks meet; and all that is told of it is noted, to
//! be judged by [`crate::check::documents`].

use std::collections::BTreeMap;

use tyr_proto::{
    BlobName, Check, Operation as Change, Refusal, ResultValue, Time, TransactionId, message::Looked,
};
use tyr_types::{NumberType, Op, Operand, Transform};

use super::{
    Caller, READ_ALL,
    task::{Found, Source, Target, Task},
};
use crate::{
    Blob,
    check::documents::{Stat, Step},
    cluster::layout::{ATTRIBUTE_NAME, CHUNK, Sort, name},
};
use tyr_types::Number;

/// What an operation did to documents or saw of them, as its client knows it.
#[derive(Clone, Debug, Default)]
pub struct Edited {
    /// Its place in the history.
    pub place: usize,
    /// The id under which it was sent last, if it was sent.
    pub id: Option<TransactionId>,
    /// The numbers at which it has seen documents.
    pub seen: BTreeMap<Blob, Number>,
    /// The steps, in order.
    pub steps: Vec<(Blob, Step)>,
    /// Which steps are answered by which change of which blob.
    answers: Vec<(usize, BlobName, u16)>,
}

/// What a client has heard of a document last. It may be out of date.
#[derive(Clone, Debug)]
pub struct Sketch {
    number: Number,
    stat: Option<Stat>,
    bytes: Option<(u64, Vec<u8>)>,
}

/// A document is read from this many bytes before a border of chunks to as many behind it, and changed there.
const AROUND: u64 = 32;
/// Documents have as many chunks, a little more at most.
const CHUNKS: u64 = 2;
/// The most operations on one document by one transaction, but for those that go together.
const EDITS_MAX: u64 = 4;

impl Edited {
    /// Nothing yet, by the operation at a place.
    pub fn of(place: usize) -> Self {
        Edited { place, ..Edited::default() }
    }

    /// It has happened: takes what it answers.
    pub fn fill(&mut self, results: &mut BTreeMap<(BlobName, u16), ResultValue>) {
        for (at, blob, change) in std::mem::take(&mut self.answers) {
            if let Step::Change(_, answer) = &mut self.steps[at].1 {
                *answer = results.remove(&(blob, change));
            }
        }
    }

    /// Whether it is to happen only if documents are as they were heard to be.
    pub fn relies(&self) -> bool {
        self.steps.iter().any(|(_, step)| matches!(step, Step::Check(_)))
    }

    /// Whether its client may well be refused so for what it did to documents.
    pub fn explains(&self, refusal: Refusal) -> bool {
        let asks = |change: &dyn Fn(&Change) -> bool| {
            self.steps.iter().any(|(_, step)| matches!(step, Step::Change(done, _) if change(done)))
        };
        match refusal {
            Refusal::NotFound => asks(&Change::needs_blob),
            Refusal::Exists => asks(&|change| *change == Change::Create),
            _ => false,
        }
    }
}

impl Task {
    /// Notes what was read of a document.
    pub(super) fn saw(&mut self, target: Target, found: Found) {
        let step = match (target, found) {
            (Target::Window(_, start, end), Found::Bytes(bytes)) => Step::Read(start..end, bytes),
            (_, Found::Stat(stat)) => Step::Stat(stat),
            (target, found) => panic!("{target:?} is {found:?}"),
        };
        let (blob, name) = (target.blob(), name(target.blob()));
        let number = match &self.source {
            Source::Nothing => None,
            Source::Transaction(transaction) => transaction.number(&name),
            Source::Snapshot(snapshot) => snapshot.looked(&name).map(|(number, _)| number),
        };
        // That a document is no part of a snapshot has no number.
        if let Some(number) = number {
            self.edited.seen.insert(blob, number);
            self.edited.steps.push((blob, step));
        }
    }

    /// Notes under which id its transaction is sent.
    pub(super) fn note_id(&mut self) {
        if let Source::Transaction(transaction) = &self.source {
            self.edited.id = transaction.id().or(self.edited.id);
        }
    }
}

/// What there is to read of a document: what it is, and its bytes where something is done to it.
fn targets_of(blob: Blob) -> Vec<Target> {
    let windows = (0..=CHUNKS).map(|border| {
        let border = border * CHUNK;
        Target::Window(blob, border.saturating_sub(AROUND), border + AROUND)
    });
    std::iter::once(Target::Stat(blob)).chain(windows).collect()
}

/// What a document is told to be.
pub(super) fn stat_of(looked: Option<Looked>) -> Option<Stat> {
    looked.map(|Looked { size, attributes, .. }| Stat { size, attributes })
}

impl Caller {
    /// What its operation is to read of documents: everything at the end, and else now and then not all, so that nothing but that is seen.
    pub(super) fn documents_to_read(&mut self) -> Vec<Target> {
        let Some(Task { wants, .. }) = &self.task else { return Vec::new() };
        let documents = wants.documents.clone();
        if wants.label == READ_ALL {
            let all = |blob| [Target::Stat(blob), Target::Window(blob, 0, u64::MAX)];
            return documents.into_iter().flat_map(all).collect();
        }
        match documents.is_empty() || self.random.below(2) == 0 {
            true => documents.into_iter().flat_map(targets_of).collect(),
            false => self.some_of(&documents),
        }
    }

    /// Some of what there is to read of documents.
    pub(super) fn some_of(&mut self, documents: &[Blob]) -> Vec<Target> {
        let mut targets: Vec<Target> = documents.iter().copied().flat_map(targets_of).collect();
        targets.retain(|_| self.random.below(2) == 0);
        targets
    }

    /// Remembers what its transaction saw of documents before it changed any.
    pub(super) fn sketch(&mut self) {
        let Some(task) = &self.task else { return };
        for (blob, number) in &task.edited.seen {
            let mut sketch = Sketch { number: *number, stat: None, bytes: None };
            let mut is_known = false;
            for (_, step) in task.edited.steps.iter().filter(|(of, _)| of == blob) {
                match step {
                    Step::Stat(stat) => (sketch.stat, is_known) = (stat.clone(), true),
                    Step::Read(range, Some(bytes)) if sketch.bytes.is_none() && self.random.below(2) == 0 => {
                        sketch.bytes = Some((range.start, bytes.clone()));
                    }
                    _ => {}
                }
            }
            if is_known {
                self.sketches.insert(*blob, sketch);
            }
        }
    }

    /// Has its transaction rely on what was heard of a document.
    fn rely_on(&mut self, now: u64, blob: Blob) {
        let Some(sketch) = self.sketches.get(&blob).cloned() else { return };
        for _ in 0..=self.random.below(2) {
            let check = match (&sketch.stat, self.random.below(5)) {
                (None, _) => Check::Missing,
                (Some(_), 0) => Check::Exists,
                (Some(_), 1) => Check::Version(sketch.number),
                (Some(stat), 2) => Check::Size(stat.size),
                (Some(stat), 3) => {
                    let value = stat.attributes.get(ATTRIBUTE_NAME).cloned();
                    Check::Attribute { name: ATTRIBUTE_NAME.to_owned(), value }
                }
                (Some(_), _) => match sketch.bytes.clone() {
                    Some((offset, bytes)) => Check::Bytes { offset, bytes },
                    None => Check::Exists,
                },
            };
            let Some(task) = &mut self.task else { return };
            let Source::Transaction(transaction) = &mut task.source else { return };
            transaction.check(&mut self.client, Time(now), &name(blob), check.clone());
            task.edited.steps.push((blob, Step::Check(check)));
        }
    }

    /// Does several things to documents, now and then only if they are as they were heard to be.
    pub(super) fn edit(&mut self, now: u64, documents: &[Blob]) {
        for blob in documents {
            if self.random.below(3) == 0 {
                self.rely_on(now, *blob);
            }
        }
        for blob in documents {
            for _ in 0..=self.random.below(EDITS_MAX) {
                self.edit_once(*blob);
            }
        }
        // One of which nothing but a condition is wanted.
        if self.random.below(8) == 0 {
            let all = self.layout.blobs(Sort::Document);
            let other = *self.random.choose(&all).expect("there are documents");
            self.rely_on(now, other);
        }
    }

    fn edit_once(&mut self, blob: Blob) {
        let exists = self.sketches.get(&blob).is_none_or(|sketch| sketch.stat.is_some());
        match self.random.below(24) {
            0..5 => {
                let (offset, bytes) = (self.spot(), self.bytes());
                self.change_document(blob, Change::Write { offset, bytes: bytes.as_slice().into() });
            }
            5..10 => {
                let bytes = self.bytes();
                self.change_document(blob, Change::Append { bytes: bytes.as_slice().into() });
            }
            10..14 if exists => {
                let size = self.spot();
                self.change_document(blob, Change::Truncate { size });
            }
            14..16 if exists => {
                let (offset, length) = (self.spot(), 1 + self.random.below(2 * AROUND));
                let length = if self.random.below(4) == 0 { CHUNK + length } else { length };
                self.change_document(blob, Change::Punch { offset, length });
            }
            16..19 => {
                let (offset, transform) = (self.spot(), self.transform());
                self.change_document(blob, Change::Transform { offset, transform });
            }
            19 if exists => self.change_document(blob, Change::Delete),
            19 => self.change_document(blob, Change::Create),
            20 if exists => {
                self.change_document(blob, Change::Delete);
                self.change_document(blob, Change::Create);
            }
            _ => {
                let value = self.unique().to_le_bytes();
                let value = (self.random.below(4) > 0).then(|| value[..].into());
                let name = [ATTRIBUTE_NAME, "other"][self.random.index(2)].to_owned();
                self.change_document(blob, Change::SetAttribute { name, value });
            }
        }
    }

    fn change_document(&mut self, blob: Blob, change: Change) {
        let Some(task) = &mut self.task else { return };
        let Source::Transaction(transaction) = &mut task.source else { return };
        let place = transaction.change(&name(blob), change.clone());
        if matches!(change, Change::Append { .. } | Change::Transform { .. }) {
            task.edited.answers.push((task.edited.steps.len(), name(blob), place));
        }
        task.edited.steps.push((blob, Step::Change(change, None)));
    }

    /// A place close to a border of chunks.
    fn spot(&mut self) -> u64 {
        let border = CHUNK * self.random.below(CHUNKS + 1);
        (border + self.random.below(3 * AROUND / 2)).saturating_sub(AROUND * 3 / 4)
    }

    /// A few bytes, none of which is zero.
    fn bytes(&mut self) -> Vec<u8> {
        let length = 1 + self.random.below(24);
        (0..length).map(|_| u8::try_from(1 + self.random.below(255)).expect("a byte")).collect()
    }

    fn transform(&mut self) -> Transform {
        let number_type = *self.random.choose(&NumberType::ALL).expect("there are some");
        let size = number_type.size();
        let operand = |number: u64| {
            Operand::from_le_bytes(number_type, &number.to_le_bytes()[..size])
                .expect("as many bytes as the type")
        };
        let ops = [Op::Add, Op::Multiply, Op::Min, Op::Max, Op::And, Op::Or, Op::Xor, Op::Swap];
        let op = *self.random.choose(&ops).expect("there are some");
        let (number, expected) = (self.random.number(), self.random.below(2));
        if self.random.below(4) == 0 {
            return Transform::compare_and_swap(operand(expected), operand(number)).expect("of one type");
        }
        // Floats have no bits.
        Transform::new(op, operand(number)).unwrap_or_else(|_| Transform::add(operand(number)))
    }
}
