//! Appends: each acknowledged one is in the list once, at the offset that it was told, in an order that agrees with all reads and
//! with real time, and no offset is left out.
//!
//! Judged are lists that nobody deletes.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Verdict, Violation};
use crate::history::{Action, Blob, History};

/// Checks every list.
pub fn check(history: &History) -> Verdict {
    let logs = Logs::of(history);
    logs.logs.iter().try_for_each(|log| {
        log.check_offsets(history)?;
        log.check_reads(history)?;
        log.check_holes(history)?;
        log.check_real_time(history)
    })
}

#[derive(Default)]
struct Logs<'h> {
    logs: Vec<Log<'h>>,
    of: HashMap<Blob, usize>,
}

struct Log<'h> {
    blob: Blob,
    /// Committed appends.
    told: Vec<Told>,
    /// By element: committed and unknown ones.
    possible: HashMap<u64, usize>,
    /// How many of those may be at an offset that nobody was told.
    unplaced: usize,
    /// Of committed transactions; by length.
    reads: Vec<(usize, &'h [u64])>,
}

#[derive(Clone, Copy)]
struct Told {
    place: usize,
    element: u64,
    offset: Option<u64>,
}

impl<'h> Logs<'h> {
    fn of(history: &'h History) -> Self {
        let mut logs = Logs::default();
        let mut deleted: HashSet<Blob> = HashSet::new();
        for (place, operation) in history.operations().iter().enumerate() {
            for action in operation.actions.iter().filter(|_| operation.possible()) {
                match action {
                    Action::Append { blob, element, offset } => {
                        let log = logs.log(*blob);
                        log.possible.insert(*element, place);
                        if operation.committed() {
                            log.told.push(Told { place, element: *element, offset: *offset });
                        }
                        log.unplaced += usize::from(offset.is_none() || !operation.committed());
                    }
                    Action::ReadList { blob, elements: Some(elements) } if operation.committed() => {
                        logs.log(*blob).reads.push((place, elements));
                    }
                    Action::Delete { blob, .. } => drop(deleted.insert(*blob)),
                    _ => {}
                }
            }
        }
        logs.logs.retain(|log| !deleted.contains(&log.blob));
        logs.logs.iter_mut().for_each(|log| log.reads.sort_by_key(|(_, elements)| elements.len()));
        logs
    }

    fn log(&mut self, blob: Blob) -> &mut Log<'h> {
        let logs = &mut self.logs;
        let at = *self.of.entry(blob).or_insert_with(|| {
            let (told, possible, reads) = (Vec::new(), HashMap::new(), Vec::new());
            logs.push(Log { blob, told, possible, unplaced: 0, reads });
            logs.len() - 1
        });
        &mut self.logs[at]
    }
}

impl Log<'_> {
    fn longest(&self) -> (usize, &[u64]) {
        self.reads.last().copied().unwrap_or_default()
    }

    /// No two were told the same offset, and the longest read has each where it was told to be.
    fn check_offsets(&self, history: &History) -> Verdict {
        let mut by_offset: HashMap<u64, Told> = HashMap::new();
        let (_, elements) = self.longest();
        let places: HashMap<u64, usize> = elements.iter().enumerate().map(|(at, of)| (*of, at)).collect();
        for told in &self.told {
            let Some(offset) = told.offset else { continue };
            if let Some(other) = by_offset.insert(offset, *told) {
                let names = [other.place, told.place].map(|place| history.operations()[place].transaction);
                let why = format!(
                    "{} and {} were both told that they appended to list {} at {offset}",
                    names[0], names[1], self.blob
                );
                return Err(Violation::new(history, "overlap", why, &[other.place, told.place]));
            }
            match places.get(&told.element) {
                Some(at) if *at as u64 != offset => {
                    return Err(self.misplaced(
                        history,
                        told,
                        offset,
                        "wrong offset",
                        &format!("it at {at}"),
                    ));
                }
                None if offset < elements.len() as u64 => {
                    return Err(self.misplaced(history, told, offset, "lost append", "something else there"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn misplaced(
        &self,
        history: &History,
        told: &Told,
        offset: u64,
        rule: &'static str,
        seen: &str,
    ) -> Box<Violation> {
        let (reader, _) = self.longest();
        let names = [told.place, reader].map(|place| history.operations()[place].transaction);
        let why = format!(
            "{} was told that {} is at {offset} of list {}, and {} sees {seen}",
            names[0], told.element, self.blob, names[1]
        );
        Violation::new(history, rule, why, &[told.place, reader])
    }

    /// Every read is a prefix of the longest, shows each element once, and has all that was acknowledged before it began.
    fn check_reads(&self, history: &History) -> Verdict {
        let (longest, elements) = self.longest();
        let mut places: HashMap<u64, usize> = HashMap::new();
        for (at, element) in elements.iter().enumerate() {
            let name = history.operations()[longest].transaction;
            if let Some(before) = places.insert(*element, at) {
                let why = format!("{name} sees {element} twice in list {}, at {before} and {at}", self.blob);
                return Err(Violation::new(history, "duplicate", why, &[longest]));
            }
            if !self.possible.contains_key(element) {
                return Err(self.nobody(history, longest, *element));
            }
        }
        for (reader, read) in &self.reads {
            if !elements.starts_with(read) {
                let names = [*reader, longest].map(|place| history.operations()[place].transaction);
                let why = format!("{} and {} see list {} in two orders", names[0], names[1], self.blob);
                return Err(Violation::new(history, "incompatible order", why, &[*reader, longest]));
            }
        }
        self.check_missing(history, &places)
    }

    fn nobody(&self, history: &History, reader: usize, element: u64) -> Box<Violation> {
        let refused = history.operations().iter().position(|operation| {
            let appends = |action: &Action| {
                matches!(action, Action::Append { blob, element: e, .. } if *blob == self.blob && *e == element)
            };
            operation.actions.iter().any(appends)
        });
        let name = history.operations()[reader].transaction;
        let told = format!("{name} sees {element} in list {}", self.blob);
        match refused {
            Some(place) => {
                let why = format!(
                    "{told}, appended by {}, which was refused",
                    history.operations()[place].transaction
                );
                Violation::new(history, "aborted read", why, &[reader, place])
            }
            None => Violation::new(
                history,
                "read from nowhere",
                format!("{told}, which nobody appended"),
                &[reader],
            ),
        }
    }

    /// Reads by their beginning meet appends by their answer; what was answered earlier must be read.
    fn check_missing(&self, history: &History, places: &HashMap<u64, usize>) -> Verdict {
        let operations = history.operations();
        let mut told: Vec<Told> = self.told.clone();
        told.sort_by_key(|told| operations[told.place].latest());
        let mut reads = self.reads.clone();
        reads.sort_by_key(|(place, _)| operations[*place].invoked);
        let mut told = told.into_iter().peekable();
        // The acknowledged append that stands last, or is nowhere.
        let mut needed: Option<(usize, Told)> = None;
        for (reader, elements) in reads {
            let began = operations[reader].invoked;
            while let Some(append) = told.next_if(|told| operations[told.place].latest() < began) {
                let at = places.get(&append.element).copied().unwrap_or(usize::MAX);
                needed = needed.filter(|(last, _)| *last >= at).or(Some((at, append)));
            }
            if let Some((_, append)) = needed.filter(|(at, _)| *at >= elements.len()) {
                let (name, writer) = (operations[reader].transaction, operations[append.place].transaction);
                let why = format!(
                    "{name} misses {} in list {}, which {writer} had appended before {name} began",
                    append.element, self.blob
                );
                return Err(Violation::new(history, "lost append", why, &[reader, append.place]));
            }
        }
        Ok(())
    }

    /// Every offset below the last one that was told or read is taken by somebody.
    fn check_holes(&self, history: &History) -> Verdict {
        let (_, elements) = self.longest();
        let taken: BTreeMap<u64, Told> =
            self.told.iter().filter_map(|told| Some((told.offset?, *told))).collect();
        let Some((last, told)) = taken.last_key_value() else { return Ok(()) };
        let read = elements.len() as u64;
        let beyond = taken.range(read..).count() as u64;
        let holes = (last + 1).saturating_sub(read).saturating_sub(beyond);
        let unread = self.possible.len().saturating_sub(elements.len()) as u64;
        let fillers = unread.saturating_sub(beyond).min(self.unplaced as u64);
        if holes <= fillers {
            return Ok(());
        }
        let why = format!(
            "{} was told that it appended to list {} at {last}; {holes} offsets below are empty, and at most {fillers} \
             appends without a known offset can be there",
            history.operations()[told.place].transaction,
            self.blob
        );
        Err(Violation::new(history, "hole", why, &[told.place]))
    }

    /// An append that was answered before another began has the lower offset.
    fn check_real_time(&self, history: &History) -> Verdict {
        let operations = history.operations();
        let by_offset: BTreeMap<u64, Told> =
            self.told.iter().filter_map(|told| Some((told.offset?, *told))).collect();
        let mut latest: Option<Told> = None;
        for (offset, told) in by_offset {
            if let Some(before) = latest
                && operations[told.place].latest() < operations[before.place].invoked
            {
                let (name, other) =
                    (operations[told.place].transaction, operations[before.place].transaction);
                let why = format!(
                    "{name} appended to list {} at {offset}, behind {other}, and was answered before {other} began",
                    self.blob
                );
                return Err(Violation::new(history, "append order", why, &[told.place, before.place]));
            }
            latest = latest
                .filter(|before| operations[before.place].invoked >= operations[told.place].invoked)
                .or(Some(told));
        }
        Ok(())
    }
}
