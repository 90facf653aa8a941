//! Whether blobs were there when they had to be, and never showed bytes from before a deletion.
//!
//! Judged are blobs that the history creates; such a blob is missing at first, and only `Create` makes it. A write that created
//! its blob is recorded as a `Create` before the `Write`.

use std::collections::HashMap;

use super::{Verdict, Violation};
use crate::history::{Action, Blob, History, Operation};

/// Checks every blob that the history creates.
pub fn check(history: &History) -> Verdict {
    let lifetimes = Lifetimes::of(history);
    let writers = writers(history, &lifetimes);
    for (place, operation) in happened(history) {
        for (at, action) in operation.actions.iter().enumerate() {
            let Some((blob, seen)) = seen(action) else { continue };
            // What it did itself to the blob before is its own affair.
            if !operation.actions[..at].iter().any(|before| before.changes_existence(blob)) {
                lifetimes.expect(place, operation, blob, seen)?;
            }
        }
        for (blob, part, value) in values(operation, &lifetimes) {
            if let Some(writer) = writers.get(&(blob, part, value)) {
                lifetimes.check_former(place, operation, blob, *writer)?;
            }
        }
    }
    Ok(())
}

/// Whether a blob was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    There,
    NotThere,
}

/// When each blob was created and deleted.
pub(super) struct Lifetimes<'h> {
    history: &'h History,
    of: HashMap<Blob, Lifetime>,
}

#[derive(Default)]
struct Lifetime {
    /// Whether the history creates it, or tries to: else it may have been there from the beginning.
    judged: bool,
    created: Spans,
    deleted: Spans,
}

/// Times within which something happened, or may have.
#[derive(Default)]
struct Spans {
    /// By their answers: those that happened for certain. With the latest beginning of all up to here.
    certain: Vec<Span>,
    /// By their beginnings: all. With the latest answer of all up to here.
    possible: Vec<Span>,
}

#[derive(Clone, Copy)]
struct Span {
    key: u64,
    other: u64,
    place: usize,
}

impl<'h> Lifetimes<'h> {
    pub(super) fn of(history: &'h History) -> Self {
        let mut of: HashMap<Blob, Lifetime> = HashMap::new();
        for (place, operation) in history.operations().iter().enumerate() {
            for action in &operation.actions {
                match action {
                    Action::Create { blob, .. } => {
                        let lifetime = of.entry(*blob).or_default();
                        lifetime.judged = true;
                        lifetime.created.add(place, operation);
                    }
                    Action::Delete { blob, .. } => of.entry(*blob).or_default().deleted.add(place, operation),
                    _ => {}
                }
            }
        }
        of.values_mut().for_each(Lifetime::sort);
        Lifetimes { history, of }
    }

    /// The blobs that the history creates, or tries to, in order.
    pub(super) fn blobs(&self) -> Vec<Blob> {
        let judged = self.of.iter().filter(|(_, lifetime)| lifetime.judged);
        let mut blobs: Vec<Blob> = judged.map(|(blob, _)| *blob).collect();
        blobs.sort_unstable();
        blobs
    }

    fn deleted(&self, blob: Blob) -> bool {
        self.of.get(&blob).is_some_and(|lifetime| !lifetime.deleted.certain.is_empty())
    }

    /// The operation saw the blob, or not, at some point between its beginning and its answer.
    pub(super) fn expect(&self, place: usize, operation: &Operation, blob: Blob, seen: Seen) -> Verdict {
        let Some(lifetime) = self.of.get(&blob).filter(|of| of.judged) else { return Ok(()) };
        match seen {
            Seen::There => self.expect_there(lifetime, place, operation, blob),
            Seen::NotThere => self.expect_not_there(lifetime, place, operation, blob),
        }
    }

    fn expect_there(&self, lifetime: &Lifetime, place: usize, operation: &Operation, blob: Blob) -> Verdict {
        let creation = lifetime.created.last_possible(operation.latest());
        let Some(deletion) = lifetime.deleted.last_certain(operation.invoked) else {
            return match creation {
                Some(_) => Ok(()),
                None => {
                    let why = format!("{} finds {blob}, which nobody had created", operation.transaction);
                    Err(Violation::new(self.history, "ghost blob", why, &[place]))
                }
            };
        };
        if creation.is_some_and(|creation| creation.other >= deletion.other) {
            return Ok(());
        }
        let deleter = self.history.operations()[deletion.place].transaction;
        let why = format!(
            "{} finds {blob}, which {deleter} had deleted, and nobody created again",
            operation.transaction
        );
        Err(Violation::new(self.history, "deleted blob seen", why, &[place, deletion.place]))
    }

    fn expect_not_there(
        &self,
        lifetime: &Lifetime,
        place: usize,
        operation: &Operation,
        blob: Blob,
    ) -> Verdict {
        let Some(creation) = lifetime.created.last_certain(operation.invoked) else { return Ok(()) };
        let deletion = lifetime.deleted.last_possible(operation.latest());
        if deletion.is_some_and(|deletion| deletion.other >= creation.other) {
            return Ok(());
        }
        let creator = self.history.operations()[creation.place].transaction;
        let why = format!(
            "{} misses {blob}, which {creator} had created, and nobody deleted",
            operation.transaction
        );
        Err(Violation::new(self.history, "created blob missing", why, &[place, creation.place]))
    }

    /// A value was read that had been written before a deletion which was answered before the read began.
    fn check_former(&self, place: usize, operation: &Operation, blob: Blob, writer: usize) -> Verdict {
        let deletion = self.of.get(&blob).and_then(|of| of.deleted.last_certain(operation.invoked));
        let Some(deletion) = deletion else { return Ok(()) };
        let written = &self.history.operations()[writer];
        if written.latest() >= deletion.other {
            return Ok(());
        }
        let why = format!(
            "{} reads from {blob} what {} wrote before {} deleted it",
            operation.transaction,
            written.transaction,
            self.history.operations()[deletion.place].transaction
        );
        Err(Violation::new(self.history, "bytes of a former blob", why, &[place, writer, deletion.place]))
    }
}

impl Lifetime {
    fn sort(&mut self) {
        self.created.sort();
        self.deleted.sort();
    }
}

impl Spans {
    fn add(&mut self, place: usize, operation: &Operation) {
        let (invoked, latest) = (operation.invoked, operation.latest());
        if operation.possible() {
            self.possible.push(Span { key: invoked, other: latest, place });
        }
        if operation.committed() {
            self.certain.push(Span { key: latest, other: invoked, place });
        }
    }

    fn sort(&mut self) {
        for spans in [&mut self.certain, &mut self.possible] {
            spans.sort_by_key(|span| span.key);
            for at in 1..spans.len() {
                let before = spans[at - 1];
                if before.other > spans[at].other {
                    (spans[at].other, spans[at].place) = (before.other, before.place);
                }
            }
        }
    }

    /// Of those answered before a time, the one that began last; `other` is when it began.
    fn last_certain(&self, before: u64) -> Option<Span> {
        last(&self.certain, |span| span.key < before)
    }

    /// Of those begun up to a time, the one that was answered last; `other` is when it was answered.
    fn last_possible(&self, until: u64) -> Option<Span> {
        last(&self.possible, |span| span.key <= until)
    }
}

impl Action {
    fn changes_existence(&self, of: Blob) -> bool {
        matches!(self, Action::Create { blob, .. } | Action::Delete { blob, .. } if *blob == of)
    }
}

fn last(spans: &[Span], holds: impl Fn(&Span) -> bool) -> Option<Span> {
    spans.partition_point(holds).checked_sub(1).map(|at| spans[at])
}

fn happened(history: &History) -> impl Iterator<Item = (usize, &Operation)> {
    history.operations().iter().enumerate().filter(|(_, operation)| operation.committed())
}

/// Whether an action shows that a blob was there. No bytes may also be a hole, so they show nothing.
fn seen(action: &Action) -> Option<(Blob, Seen)> {
    match action {
        Action::Read { register, value: Some(_), .. } => Some((register.blob, Seen::There)),
        Action::ReadList { blob, elements: Some(_) } | Action::Delete { blob, .. } => {
            Some((*blob, Seen::There))
        }
        Action::ReadList { blob, elements: None } | Action::Create { blob, .. } => {
            Some((*blob, Seen::NotThere))
        }
        Action::Exists { blob, exists } => Some((*blob, if *exists { Seen::There } else { Seen::NotThere })),
        _ => None,
    }
}

/// Who wrote each value that only one operation wrote to its register or list, in blobs that were deleted.
fn writers(history: &History, lifetimes: &Lifetimes<'_>) -> HashMap<(Blob, Option<u32>, u64), usize> {
    let mut writers: HashMap<(Blob, Option<u32>, u64), Option<usize>> = HashMap::new();
    for (place, operation) in history.operations().iter().enumerate() {
        for action in &operation.actions {
            let key = match action {
                Action::Write { register, value, .. } => (register.blob, Some(register.part), *value),
                Action::Append { blob, element, .. } => (*blob, None, *element),
                _ => continue,
            };
            if !lifetimes.deleted(key.0) {
                continue;
            }
            writers.entry(key).and_modify(|writer| *writer = None).or_insert(Some(place));
        }
    }
    writers.into_iter().filter_map(|(key, writer)| Some((key, writer?))).collect()
}

fn values<'o>(
    operation: &'o Operation,
    lifetimes: &Lifetimes<'_>,
) -> impl Iterator<Item = (Blob, Option<u32>, u64)> + use<'o> {
    let read = operation.actions.iter().filter_map(|action| match action {
        Action::Read { register, value, .. } => Some((register.blob, Some(register.part), value.as_slice())),
        Action::ReadList { blob, elements: Some(elements) } => Some((*blob, None, elements.as_slice())),
        _ => None,
    });
    let read: Vec<_> = read.filter(|(blob, ..)| lifetimes.deleted(*blob)).collect();
    read.into_iter().flat_map(|(blob, part, values)| values.iter().map(move |value| (blob, part, *value)))
}
