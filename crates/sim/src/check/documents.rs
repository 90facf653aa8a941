//! Documents: blobs to which anything may be done. What was done to each is done again to plain bytes, in the order of the numbers that nodes gave it,
//! and must show and answer what was told; and that order must agree with real time and with itself over all documents.
//!
//! The numbers are no part of a history: whoever judges by them must know them from the nodes. That the protocol orders by them is what it claims, so that
//! nothing has to be searched for.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use tyr_proto::{Check, Operation, ResultValue};
use tyr_types::{Number, Operand};

use super::{
    Verdict, Violation,
    graph::{Graph, Kind, Reason, index},
    serializability::add_real_time,
};
use crate::history::{Blob, History};

/// What an operation of a history did to documents, or saw of them.
#[derive(Clone, Debug)]
pub struct Deed {
    /// Its place in the history.
    pub place: usize,
    /// Whether it happened, also if its client was never told.
    pub happened: bool,
    /// At which number of each document.
    pub numbers: BTreeMap<Blob, Number>,
    /// The steps, in order.
    pub steps: Vec<(Blob, Step)>,
}

/// One thing that was done to a document or seen of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// What it was, if it existed.
    Stat(Option<Stat>),
    /// The bytes of a range, as far as it reached; none if it did not exist.
    Read(Range<u64>, Option<Vec<u8>>),
    /// What had to be true of it before all that was done to it.
    Check(Check),
    /// A change, and what was told of it.
    Change(Operation, Option<ResultValue>),
}

/// What a document is, but for its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its size in bytes.
    pub size: u64,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Attributes by their names.
pub type Attributes = BTreeMap<String, Arc<[u8]>>;

/// A document as plain bytes, if it exists.
#[derive(Clone, Debug, Default)]
struct Document {
    found: Option<Found>,
    /// The number of the last change.
    changed: Number,
}

#[derive(Clone, Debug, Default)]
struct Found {
    bytes: Vec<u8>,
    attributes: Attributes,
}

/// Checks what was done to all documents.
pub fn check(history: &History, deeds: &[Deed]) -> Verdict {
    let happened = || deeds.iter().filter(|deed| deed.happened);
    let mut graph = Graph::new(history.operations().len());
    let mut counted: Vec<bool> = history.operations().iter().map(|operation| operation.committed()).collect();
    happened().for_each(|deed| counted[deed.place] = true);
    add_real_time(&mut graph, history, &counted);
    let blobs: BTreeSet<Blob> = happened().flat_map(|deed| deed.numbers.keys().copied()).collect();
    for blob in blobs {
        let mut visits: Vec<Visit<'_>> = happened().filter_map(|deed| Visit::of(deed, blob)).collect();
        visits.sort_by_key(|visit| (visit.number, !visit.changes));
        replay(history, blob, &visits)?;
        add_order(&mut graph, blob, &visits);
    }
    let Some(cycle) = graph.shortest_cycle() else { return Ok(()) };
    let places: Vec<usize> = cycle.iter().map(|step| step.from).collect();
    let steps = cycle.iter().map(|step| match step.reason.kind {
        Kind::RealTime => {
            format!("{} was answered before {} began", name(history, step.from), name(history, step.to))
        }
        _ => format!(
            "{} precedes {} in {}",
            name(history, step.from),
            name(history, step.to),
            Blob(step.reason.object)
        ),
    });
    let why = steps.collect::<Vec<_>>().join(", ");
    Err(Violation::new(history, "documents in no order", why, &places))
}

/// What a deed did to one document.
struct Visit<'d> {
    deed: &'d Deed,
    blob: Blob,
    number: Number,
    /// Whether it changes it: what only looks comes behind what has its number.
    changes: bool,
}

impl<'d> Visit<'d> {
    fn of(deed: &'d Deed, blob: Blob) -> Option<Self> {
        let number = *deed.numbers.get(&blob)?;
        let mut visit = Visit { deed, blob, number, changes: false };
        visit.changes = visit.steps().any(|step| matches!(step, Step::Change(..)));
        Some(visit)
    }

    fn steps(&self) -> impl Iterator<Item = &'d Step> + use<'d> {
        let of = self.blob;
        self.deed.steps.iter().filter(move |(blob, _)| *blob == of).map(|(_, step)| step)
    }
}

fn name(history: &History, place: usize) -> String {
    history.operations()[place].transaction.to_string()
}

fn replay(history: &History, blob: Blob, visits: &[Visit<'_>]) -> Verdict {
    let mut document = Document::default();
    let mut last: Option<&Visit<'_>> = None;
    for visit in visits {
        let place = visit.deed.place;
        let places: Vec<usize> = [place].into_iter().chain(last.map(|last| last.deed.place)).collect();
        let wrong = |rule, what: String| {
            let before = last.map_or(String::new(), |last| {
                let steps: Vec<_> = last.steps().collect();
                format!("; {} before it at {}: {steps:?}", name(history, last.deed.place), last.number)
            });
            let why = format!("{} at {blob} as of {}: {what}{before}", name(history, place), visit.number);
            Err(Violation::new(history, rule, why, &places))
        };
        if let Some(last) = last.filter(|last| visit.changes && last.number == visit.number) {
            return wrong("number used twice", format!("{} has the same", name(history, last.deed.place)));
        }
        let unmet = |step: &&Step| matches!(step, Step::Check(check) if !document.meets(check));
        if let Some(step) = visit.steps().find(unmet) {
            let is = format!("it is {:?}, changed at {}", document.stat(), document.changed);
            return wrong("unmet condition", format!("{is}: {step:?}"));
        }
        let is_told = history.operations()[place].committed();
        for (at, step) in visit.steps().enumerate() {
            if let Err(what) = document.take(step, is_told) {
                let steps: Vec<_> = visit.steps().take(at + 1).collect();
                return wrong("wrong document", format!("{what}: {steps:?}"));
            }
        }
        if visit.changes {
            (document.changed, last) = (visit.number, Some(visit));
        }
    }
    Ok(())
}

/// Those that change it follow one another, and who looks comes between two of them.
fn add_order(graph: &mut Graph, blob: Blob, visits: &[Visit<'_>]) {
    let reason = |kind| Reason { kind, object: blob.0, value: None };
    let mut last: Option<&Visit<'_>> = None;
    let mut readers: Vec<u32> = Vec::new();
    for visit in visits {
        let place = index(visit.deed.place);
        let before = last.map(|last| index(last.deed.place));
        if visit.changes {
            before.into_iter().for_each(|before| graph.add(before, place, reason(Kind::WriteWrite)));
            readers.drain(..).for_each(|reader| graph.add(reader, place, reason(Kind::ReadWrite)));
            last = Some(visit);
        } else {
            before.into_iter().for_each(|before| graph.add(before, place, reason(Kind::WriteRead)));
            readers.push(place);
        }
    }
}

impl Document {
    /// Takes a step of a transaction. Says what is wrong with what was told.
    fn take(&mut self, step: &Step, is_told: bool) -> Result<(), String> {
        match step {
            Step::Stat(told) => {
                let stat = self.stat();
                if stat != *told {
                    return Err(format!("it is {stat:?}"));
                }
            }
            Step::Read(range, told) => {
                let bytes = self.found.as_ref().map(|found| found.read(range));
                if bytes.as_deref() != told.as_deref() {
                    return Err(format!("it reads {}", differs(bytes.as_deref(), told.as_deref())));
                }
            }
            // It is about what was before all steps.
            Step::Check(_) => {}
            Step::Change(operation, told) => {
                let answer = self.change(operation)?;
                if is_told && answer != *told {
                    return Err(format!("it answers {answer:?}"));
                }
            }
        }
        Ok(())
    }

    fn stat(&self) -> Option<Stat> {
        let stat = |found: &Found| Stat { size: found.size(), attributes: found.attributes.clone() };
        self.found.as_ref().map(stat)
    }

    fn meets(&self, check: &Check) -> bool {
        let Some(found) = &self.found else { return *check == Check::Missing };
        match check {
            Check::Exists => true,
            Check::Missing => false,
            Check::Version(number) => self.changed <= *number,
            Check::Size(size) => found.size() == *size,
            Check::Bytes { offset, bytes } => found.read(&(*offset..*offset + bytes.len() as u64)) == *bytes,
            Check::Attribute { name, value } => found.attributes.get(name) == value.as_ref(),
        }
    }

    /// Does what an operation says, and returns what it answers. Fails if it had to be refused.
    fn change(&mut self, operation: &Operation) -> Result<Option<ResultValue>, String> {
        match operation {
            Operation::Create if self.found.is_some() => return Err("it is there".to_owned()),
            Operation::Delete | Operation::Truncate { .. } | Operation::Punch { .. }
                if self.found.is_none() =>
            {
                return Err("it is not there".to_owned());
            }
            Operation::Delete => {
                self.found = None;
                return Ok(None);
            }
            _ => {}
        }
        let found = self.found.get_or_insert_default();
        match operation {
            Operation::Write { offset, bytes } => found.write(*offset, &payload(bytes)),
            Operation::Append { bytes } => {
                let size = found.size();
                found.write(size, &payload(bytes));
                return Ok(Some(ResultValue::Offset(size)));
            }
            Operation::Truncate { size } => found.bytes.resize(place(*size), 0),
            Operation::Punch { offset, length } => {
                let end = place(offset.saturating_add(*length)).min(found.bytes.len());
                let start = place(*offset).min(end);
                found.bytes[start..end].fill(0);
            }
            Operation::Transform { offset, transform } => {
                let size = transform.number_type().size();
                let mut old = found.read(&(*offset..*offset + size as u64));
                old.resize(size, 0);
                let number =
                    Operand::from_le_bytes(transform.number_type(), &old).expect("as many bytes as the type");
                found.write(*offset, &transform.apply(number).to_le_bytes()[..size]);
                return Ok(Some(ResultValue::Old(old.into())));
            }
            Operation::SetAttribute { name, value: Some(value) } => {
                found.attributes.insert(name.clone(), value.clone());
            }
            Operation::SetAttribute { name, value: None } => drop(found.attributes.remove(name)),
            Operation::Create => {}
            other => return Err(format!("nobody asks for {other:?}")),
        }
        Ok(None)
    }
}

impl Found {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, range: &Range<u64>) -> Vec<u8> {
        let end = place(range.end).min(self.bytes.len());
        self.bytes[place(range.start).min(end)..end].to_vec()
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let (start, end) = (place(offset), place(offset) + bytes.len());
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn payload(bytes: &tyr_proto::Payload) -> Vec<u8> {
    bytes.in_memory().expect("a workload has its payload in memory").to_vec()
}

/// Where bytes begin to differ from what was told, since there may be many.
fn differs(bytes: Option<&[u8]>, told: Option<&[u8]>) -> String {
    let (Some(bytes), Some(told)) = (bytes, told) else {
        return format!("{:?} bytes", bytes.map(<[u8]>::len));
    };
    let at = bytes.iter().zip(told).position(|(one, other)| one != other);
    let at = at.unwrap_or(bytes.len().min(told.len()));
    let some = |bytes: &[u8]| format!("{:?}", &bytes[at..bytes.len().min(at + 32)]);
    format!("{} of {} bytes at {at}, and was told {} of {}", some(bytes), bytes.len(), some(told), told.len())
}

#[cfg(test)]
mod tests {
    use tyr_types::Transform;

    use super::*;
    use crate::history::{ClientId, Operation as Done, Outcome, TransactionId};

    const X: Blob = Blob(1);
    const Y: Blob = Blob(2);

    fn append(bytes: &[u8], at: u64) -> Step {
        Step::Change(Operation::Append { bytes: bytes.into() }, Some(ResultValue::Offset(at)))
    }

    fn change(operation: Operation) -> Step {
        Step::Change(operation, None)
    }

    fn read(bytes: Option<&[u8]>) -> Step {
        Step::Read(0..100, bytes.map(<[u8]>::to_vec))
    }

    /// When an operation began and ended, at which numbers it was done, and what it did.
    type Judged<'a> = (u64, u64, &'a [(Blob, u64)], &'a [(Blob, Step)]);
    /// The latter two.
    type Halves = (Vec<(Blob, u64)>, Vec<(Blob, Step)>);

    /// Operations from one time to another, each with what it did at which numbers.
    fn judge(done: &[Judged<'_>]) -> Verdict {
        let mut history = History::new();
        let deeds = done.iter().map(|(invoked, completed, numbers, steps)| {
            let transaction = TransactionId(history.operations().len() as u64);
            let place = history.push(Done {
                client: ClientId(1),
                transaction,
                label: "",
                invoked: *invoked,
                completed: Some(*completed),
                outcome: Outcome::Committed,
                actions: Vec::new(),
            });
            let numbers = numbers.iter().map(|(blob, index)| (*blob, Number::new(1, *index))).collect();
            Deed { place, happened: true, numbers, steps: steps.to_vec() }
        });
        let deeds: Vec<Deed> = deeds.collect();
        check(&history, &deeds)
    }

    fn rule(verdict: Verdict) -> &'static str {
        verdict.expect_err("something is wrong").rule
    }

    #[test]
    fn what_is_done_again_shows_what_was_told() {
        let add = Transform::add(Operand::U8(1));
        let verdict = judge(&[
            (0, 1, &[(X, 5)], &[(X, append(b"ab", 0)), (X, append(b"c", 2)), (X, read(Some(b"abc")))]),
            (2, 3, &[(X, 5)], &[(X, read(Some(b"abc")))]),
            (
                2,
                9,
                &[(X, 7)],
                &[
                    (X, Step::Check(Check::Version(Number::new(1, 5)))),
                    (X, change(Operation::Truncate { size: 1 })),
                    (X, change(Operation::Truncate { size: 3 })),
                    (
                        X,
                        Step::Change(
                            Operation::Transform { offset: 0, transform: add },
                            Some(ResultValue::Old(b"a"[..].into())),
                        ),
                    ),
                ],
            ),
            (2, 9, &[(X, 8)], &[(X, read(Some(b"b\0\0"))), (X, change(Operation::Delete)), (X, read(None))]),
        ]);
        verdict.expect("nothing is wrong");
    }

    #[test]
    fn a_wrong_answer_and_an_unmet_condition_are_found() {
        let two = |second: &[(Blob, Step)]| {
            rule(judge(&[(0, 1, &[(X, 5)], &[(X, append(b"ab", 0))]), (2, 3, &[(X, 7)], second)]))
        };
        assert_eq!(two(&[(X, append(b"c", 0))]), "wrong document");
        assert_eq!(two(&[(X, read(Some(b"a")))]), "wrong document");
        assert_eq!(two(&[(X, Step::Stat(None))]), "wrong document");
        assert_eq!(two(&[(X, change(Operation::Create))]), "wrong document");
        assert_eq!(two(&[(X, Step::Check(Check::Version(Number::new(1, 4))))]), "unmet condition");
        assert_eq!(two(&[(X, Step::Check(Check::Missing))]), "unmet condition");
    }

    #[test]
    fn numbers_that_disagree_are_found() {
        let one: &[(Blob, Step)] = &[(X, append(b"a", 0))];
        let late = judge(&[(0, 1, &[(X, 7)], &[(X, append(b"b", 1))]), (2, 3, &[(X, 5)], one)]);
        assert_eq!(rule(late), "documents in no order");
        let both = |x, y, at| -> Halves {
            (vec![(X, x), (Y, y)], vec![(X, append(b"a", at)), (Y, append(b"a", 1 - at))])
        };
        let (first, second) = (both(5, 7, 0), both(6, 6, 1));
        let crossed = judge(&[(0, 9, &first.0, &first.1), (0, 9, &second.0, &second.1)]);
        assert_eq!(rule(crossed), "documents in no order");
        let twice = judge(&[(0, 9, &[(X, 5)], one), (0, 9, &[(X, 5)], &[(X, append(b"b", 1))])]);
        assert_eq!(rule(twice), "number used twice");
    }
}
