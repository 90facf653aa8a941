//! Edges from a register whose versions are numbered: a read sees the write with the highest number at or below its own.
//!
//! A counter that grows is one, too: its versions are numbered by their values, but those of adds that returned nothing are missing.

use std::collections::{BTreeMap, HashMap};

use super::{
    super::{
        Verdict, Violation,
        graph::{Graph, Kind, Reason},
    },
    Scope,
    trace::{Access, RegisterTrace},
};
use crate::history::Shown;
use tyr_types::Number;

/// Adds the edges of one register.
pub(super) fn add(graph: &mut Graph, scope: &Scope<'_>, trace: &RegisterTrace, object: u32) -> Verdict {
    let mut numbered = Numbered { scope, trace, versions: BTreeMap::new(), possible: HashMap::new() };
    numbered.place_writes()?;
    numbered.attach_reads()?;
    numbered.add_edges(graph, object);
    Ok(())
}

struct Numbered<'s> {
    scope: &'s Scope<'s>,
    trace: &'s RegisterTrace,
    /// By number; 0 is what was there before all.
    versions: BTreeMap<u64, Version>,
    /// Who may have written a value without being told a number.
    possible: HashMap<Option<u64>, Writers>,
}

#[derive(Default)]
struct Writers {
    /// The writer, if there is only one.
    only: Option<u32>,
    /// How many of them have not been placed yet.
    left: u32,
}

#[derive(Default)]
struct Version {
    value: Option<u64>,
    /// Nobody for what was there before all, and for one that several may have written.
    writer: Option<u32>,
    readers: Vec<u32>,
}

impl Numbered<'_> {
    fn violation(&self, rule: &'static str, why: String, operations: &[u32]) -> Box<Violation> {
        let places: Vec<usize> = operations.iter().map(|operation| *operation as usize).collect();
        Violation::new(self.scope.history, rule, why, &places)
    }

    fn place_writes(&mut self) -> Verdict {
        self.versions.insert(0, Version::default());
        for write in self.trace.writes.iter().filter(|write| !self.scope.aborted(write.operation)) {
            match write.at {
                Some(at) if self.scope.counts(write.operation) => self.place(write, at)?,
                _ => {
                    let writers = self.possible.entry(write.value).or_default();
                    writers.left += 1;
                    writers.only = (writers.left == 1).then_some(write.operation);
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, write: &Access, at: u64) -> Verdict {
        let version = Version { value: write.value, writer: Some(write.operation), readers: Vec::new() };
        let Some(Version { writer: Some(other), .. }) = self.versions.insert(at, version) else {
            return Ok(());
        };
        let (register, one, two) =
            (self.trace.register, self.scope.name(other), self.scope.name(write.operation));
        Err(if self.trace.is_counter() {
            let why = format!("both {one} and {two} raised {register} to {at}");
            self.violation("lost update", why, &[other, write.operation])
        } else {
            let why = format!("both {one} and {two} got number {} for {register}", Number::from_u64(at));
            self.violation("number used twice", why, &[other, write.operation])
        })
    }

    /// By ascending numbers, so that a version which only a read tells of is placed before later reads look for theirs.
    fn attach_reads(&mut self) -> Verdict {
        let values = self.values();
        let mut reads: Vec<(Option<u64>, Access)> = self.reads().map(|read| (self.at(read), *read)).collect();
        reads.sort_by_key(|(at, _)| *at);
        for pair in reads.windows(2) {
            let [(at, one), (other_at, other)] = pair else { continue };
            // A number is that of one state of the register.
            if at.is_some()
                && at == other_at
                && one.value.unwrap_or_default() != other.value.unwrap_or_default()
            {
                return Err(self.two_values(one, other));
            }
        }
        for (at, read) in reads {
            let number = match at {
                Some(at) => Some(self.number_at(&read, at)?),
                None => self.number_of(&read, &values)?,
            };
            if let Some(version) = number.and_then(|number| self.versions.get_mut(&number)) {
                if version.writer == Some(read.operation) {
                    return Err(future_read(self.scope, self.trace, &read));
                }
                version.readers.push(read.operation);
            }
        }
        Ok(())
    }

    /// The number of the version that a read at a number shows; it is placed if its writer was not told a number. No write of
    /// this register lies between that one's number and the lowest at which it was read, so the latter stands for it.
    fn number_at(&mut self, read: &Access, at: u64) -> Result<u64, Box<Violation>> {
        let (newest, version) = self.newest(at);
        let hole = read.value == Some(0) && version.value.is_none();
        if version.value == read.value || hole || (self.trace.is_counter() && newest == at) {
            return Ok(newest);
        }
        let writer = if self.trace.is_counter() {
            None
        } else if newest < at
            && let Some(writers) = self.possible.get_mut(&read.value)
            && writers.left > 0
        {
            writers.left -= 1;
            writers.only.filter(|writer| read.value.is_some() && self.scope.counts(*writer))
        } else {
            return Err(self.mismatch(read, at));
        };
        self.versions.insert(at, Version { value: read.value, writer, readers: Vec::new() });
        Ok(at)
    }

    /// The number of the only version with the value that a read without number shows; `None` if it cannot be told.
    fn number_of(
        &self,
        read: &Access,
        values: &HashMap<Option<u64>, Vec<u64>>,
    ) -> Result<Option<u64>, Box<Violation>> {
        if read.value == Some(0) {
            return Ok(None);
        }
        match values.get(&read.value).map(Vec::as_slice) {
            Some([number]) if !self.possible.contains_key(&read.value) => Ok(Some(*number)),
            None if !self.possible.contains_key(&read.value) => Err(self.nobody(read)),
            _ => Ok(None),
        }
    }

    fn values(&self) -> HashMap<Option<u64>, Vec<u64>> {
        let mut values: HashMap<Option<u64>, Vec<u64>> = HashMap::new();
        for (number, version) in &self.versions {
            values.entry(version.value).or_default().push(*number);
        }
        values
    }

    fn mismatch(&self, read: &Access, at: u64) -> Box<Violation> {
        let (newest, version) = self.newest(at);
        let written = self.versions.values().any(|version| version.value == read.value);
        if !written && !self.possible.contains_key(&read.value) {
            return self.nobody(read);
        }
        let why = format!(
            "{} reads {} = {} as of {}, but what was written last up to there is {} at {}",
            self.scope.name(read.operation),
            self.trace.register,
            Shown(read.value),
            Number::from_u64(at),
            Shown(version.value),
            Number::from_u64(newest),
        );
        let operations: Vec<u32> = [read.operation].into_iter().chain(version.writer).collect();
        self.violation("wrong version", why, &operations)
    }

    fn two_values(&self, one: &Access, other: &Access) -> Box<Violation> {
        let why = format!(
            "{} reads {} = {}, and {} reads {} there, both as of {}",
            self.scope.name(one.operation),
            self.trace.register,
            Shown(one.value),
            self.scope.name(other.operation),
            Shown(other.value),
            Number::from_u64(one.at.unwrap_or_default()),
        );
        self.violation("wrong version", why, &[one.operation, other.operation])
    }

    fn nobody(&self, read: &Access) -> Box<Violation> {
        read_from_nowhere(self.scope, self.trace, read)
    }

    fn add_edges(&self, graph: &mut Graph, object: u32) {
        let mut before: Option<&Version> = None;
        for version in self.versions.values() {
            let reason = |kind, value| Reason { kind, object, value };
            if let Some(writer) = version.writer {
                for reader in &version.readers {
                    graph.add(writer, *reader, reason(Kind::WriteRead, version.value));
                }
            }
            let Some(last) = before.replace(version) else { continue };
            self.add_step(graph, last, version, reason(Kind::WriteWrite, version.value));
        }
    }

    /// All of one version precede the next one's writer, or, if nobody knows it, its readers.
    fn add_step(&self, graph: &mut Graph, last: &Version, next: &Version, reason: Reason) {
        let read = Reason { kind: Kind::ReadWrite, ..reason };
        if let Some(writer) = next.writer {
            last.readers.iter().for_each(|reader| graph.add(*reader, writer, read));
            last.writer.into_iter().for_each(|before| graph.add(before, writer, reason));
            return;
        }
        let relay = graph.relay();
        last.readers.iter().for_each(|reader| graph.add(*reader, relay, read));
        last.writer.into_iter().for_each(|before| graph.add(before, relay, reason));
        next.readers.iter().for_each(|reader| graph.add(relay, *reader, read));
    }

    fn reads(&self) -> impl Iterator<Item = &Access> {
        self.trace.reads.iter().filter(|read| self.scope.counts(read.operation))
    }

    fn at(&self, read: &Access) -> Option<u64> {
        if self.trace.is_counter() { Some(read.value.unwrap_or_default()) } else { read.at }
    }

    fn newest(&self, at: u64) -> (u64, &Version) {
        let (number, version) = self.versions.range(..=at).next_back().expect("0 is always there");
        (*number, version)
    }
}

/// A value that nobody can have written where it was read: from a refused or a passing write, or from nowhere.
pub(super) fn read_from_nowhere(scope: &Scope<'_>, trace: &RegisterTrace, read: &Access) -> Box<Violation> {
    let told = format!("{} reads {} = {}", scope.name(read.operation), trace.register, Shown(read.value));
    let wrote = |write: &&Access| read.value.is_some() && write.value == read.value;
    let refused = |write: &&Access| wrote(write) && scope.aborted(write.operation);
    let (rule, why, writer) = if let Some(write) = trace.passing.iter().find(wrote) {
        let why = format!("{told}, which {} overwrote itself", scope.name(write.operation));
        ("intermediate read", why, Some(write.operation))
    } else if let Some(write) = trace.writes.iter().find(refused) {
        let why = format!("{told}, written by {}, which was refused", scope.name(write.operation));
        ("aborted read", why, Some(write.operation))
    } else {
        ("read from nowhere", format!("{told}, which nobody wrote"), None)
    };
    let places: Vec<usize> = [read.operation].into_iter().chain(writer).map(|place| place as usize).collect();
    Violation::new(scope.history, rule, why, &places)
}

/// What the transaction itself wrote later.
pub(super) fn future_read(scope: &Scope<'_>, trace: &RegisterTrace, read: &Access) -> Box<Violation> {
    let why = format!("{} reads from {} what it writes later", scope.name(read.operation), trace.register);
    Violation::new(scope.history, "future read", why, &[read.operation as usize])
}
