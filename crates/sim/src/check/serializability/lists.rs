//! Edges from a list: the longest read is the order of its versions, and every other read is a prefix of it.

use std::collections::HashMap;

use super::{
    super::{
        Verdict, Violation,
        graph::{Graph, Kind, Reason},
    },
    Scope,
    trace::{Appended, ListRead, ListTrace},
};

/// Adds the edges of one list.
pub(super) fn add(graph: &mut Graph, scope: &Scope<'_>, list: &ListTrace<'_>, object: u32) -> Verdict {
    if list.deleted {
        return Ok(());
    }
    let mut reads: Vec<&ListRead<'_>> =
        list.reads.iter().filter(|read| scope.counts(read.operation)).collect();
    reads.sort_by_key(|read| read.elements.len());
    let longest = reads.last().copied();
    let finding = Finding { scope, list, longest };
    for read in &reads {
        finding.check_prefix(read)?;
    }
    let appends = finding.appends()?;
    let order = finding.order(&appends)?;
    for read in &reads {
        finding.check_whole(read, &appends)?;
    }
    let rest = finding.rest(&order)?;
    let mut edges = Edges { graph, object };
    edges.add_writes(&order, &rest);
    edges.add_reads(&reads, &order, &rest);
    edges.add_unplaced(&reads, &order, &rest);
    Ok(())
}

/// A version that a writer made by adding an element.
#[derive(Clone, Copy)]
struct Version {
    writer: u32,
    element: u64,
}

/// Appends that happened and that no read shows.
struct Rest {
    /// By their offsets.
    placed: Vec<Version>,
    unplaced: Vec<Version>,
}

struct Finding<'s, 'h> {
    scope: &'s Scope<'h>,
    list: &'s ListTrace<'h>,
    longest: Option<&'s ListRead<'h>>,
}

impl<'s, 'h> Finding<'s, 'h> {
    fn violation(&self, rule: &'static str, why: String, operations: &[u32]) -> Box<Violation> {
        let places: Vec<usize> = operations.iter().map(|operation| *operation as usize).collect();
        Violation::new(self.scope.history, rule, why, &places)
    }

    fn elements(&self) -> &'h [u64] {
        self.longest.map(|read| read.elements).unwrap_or_default()
    }

    fn longest_reader(&self) -> u32 {
        self.longest.expect("something was read").operation
    }

    fn check_prefix(&self, read: &ListRead<'_>) -> Verdict {
        if self.elements().starts_with(read.elements) {
            return Ok(());
        }
        let differs = read.elements.iter().zip(self.elements()).position(|(one, other)| one != other);
        let at = differs.expect("a shorter list that is no prefix differs somewhere");
        let why = format!(
            "{} and {} see list {} in two orders: at {at} there is {} and {}",
            self.scope.name(read.operation),
            self.scope.name(self.longest_reader()),
            self.list.blob,
            read.elements[at],
            self.elements()[at],
        );
        Err(self.violation("incompatible order", why, &[read.operation, self.longest_reader()]))
    }

    fn appends(&self) -> Result<HashMap<u64, &'s Appended>, Box<Violation>> {
        let mut appends = HashMap::with_capacity(self.list.appends.len());
        for append in &self.list.appends {
            if let Some(other) = appends.insert(append.element, append) {
                let why = format!(
                    "the workload appends {} to list {} twice, so it cannot be checked",
                    append.element, self.list.blob
                );
                return Err(self.violation("workload", why, &[other.operation, append.operation]));
            }
        }
        Ok(appends)
    }

    /// Who wrote each version that was read.
    fn order(&self, appends: &HashMap<u64, &Appended>) -> Result<Vec<Version>, Box<Violation>> {
        let mut order: Vec<Version> = Vec::with_capacity(self.elements().len());
        let mut places: HashMap<u64, usize> = HashMap::with_capacity(self.elements().len());
        for (at, element) in self.elements().iter().enumerate() {
            let told = format!(
                "{} sees {element} in list {}",
                self.scope.name(self.longest_reader()),
                self.list.blob
            );
            if let Some(before) = places.insert(*element, at) {
                let why = format!("{told} twice, at {before} and at {at}");
                return Err(self.violation("duplicate", why, &[self.longest_reader()]));
            }
            let Some(append) = appends.get(element) else {
                let why = format!("{told}, which nobody appended");
                return Err(self.violation("read from nowhere", why, &[self.longest_reader()]));
            };
            if self.scope.aborted(append.operation) {
                let why =
                    format!("{told}, appended by {}, which was refused", self.scope.name(append.operation));
                return Err(self.violation("aborted read", why, &[self.longest_reader(), append.operation]));
            }
            if append.before.is_some() && append.before != order.last().map(|version| version.element) {
                let why = format!(
                    "{told}, but not right behind what {} appended before it",
                    self.scope.name(append.operation)
                );
                return Err(self.violation("torn append", why, &[self.longest_reader(), append.operation]));
            }
            order.push(Version { writer: append.operation, element: *element });
        }
        Ok(order)
    }

    /// The last element that a read shows is the last of its writer's.
    fn check_whole(&self, read: &ListRead<'_>, appends: &HashMap<u64, &Appended>) -> Verdict {
        let Some(append) = read.elements.last().map(|last| appends[last]) else { return Ok(()) };
        if append.operation == read.operation {
            let why =
                format!("{} sees {} before it appends it", self.scope.name(read.operation), append.element);
            return Err(self.violation("future read", why, &[read.operation]));
        }
        if append.last {
            return Ok(());
        }
        let why = format!(
            "{} sees list {} in the middle of what {} appended, after {}",
            self.scope.name(read.operation),
            self.list.blob,
            self.scope.name(append.operation),
            append.element
        );
        Err(self.violation("intermediate read", why, &[read.operation, append.operation]))
    }

    fn rest(&self, order: &[Version]) -> Result<Rest, Box<Violation>> {
        let mut read: Vec<u64> = order.iter().map(|version| version.element).collect();
        read.sort_unstable();
        let mut placed: Vec<(u64, Version)> = Vec::new();
        let mut unplaced = Vec::new();
        for append in self.list.appends.iter().filter(|append| self.scope.counts(append.operation)) {
            if read.binary_search(&append.element).is_ok() {
                continue;
            }
            let version = Version { writer: append.operation, element: append.element };
            match append.offset {
                None => unplaced.push(version),
                Some(offset) if offset >= order.len() as u64 => placed.push((offset, version)),
                Some(offset) => return Err(self.lost(append, offset)),
            }
        }
        placed.sort_by_key(|(offset, _)| *offset);
        if let Some(pair) = placed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let why =
                format!("two appends to list {} were told the same offset {}", self.list.blob, pair[0].0);
            return Err(self.violation("overlap", why, &[pair[0].1.writer, pair[1].1.writer]));
        }
        Ok(Rest { placed: placed.into_iter().map(|(_, version)| version).collect(), unplaced })
    }

    fn lost(&self, append: &Appended, offset: u64) -> Box<Violation> {
        let why = format!(
            "{} was told that {} is at {offset} of list {}, and {} sees something else there",
            self.scope.name(append.operation),
            append.element,
            self.list.blob,
            self.scope.name(self.longest_reader())
        );
        self.violation("lost append", why, &[append.operation, self.longest_reader()])
    }
}

struct Edges<'g> {
    graph: &'g mut Graph,
    object: u32,
}

impl Edges<'_> {
    fn reason(&self, kind: Kind, value: u64) -> Reason {
        Reason { kind, object: self.object, value: Some(value) }
    }

    fn add_writes(&mut self, order: &[Version], rest: &Rest) {
        let versions: Vec<&Version> = order.iter().chain(&rest.placed).collect();
        for pair in versions.windows(2) {
            let reason = self.reason(Kind::WriteWrite, pair[1].element);
            self.graph.add(pair[0].writer, pair[1].writer, reason);
        }
    }

    fn add_reads(&mut self, reads: &[&ListRead<'_>], order: &[Version], rest: &Rest) {
        for read in reads {
            let length = read.elements.len();
            if let Some(version) = length.checked_sub(1).map(|last| order[last]) {
                let reason = self.reason(Kind::WriteRead, version.element);
                self.graph.add(version.writer, read.operation, reason);
            }
            if let Some(next) = order.get(length).or(rest.placed.first()) {
                let reason = self.reason(Kind::ReadWrite, next.element);
                self.graph.add(read.operation, next.writer, reason);
            }
        }
    }

    /// Appends without a known place come after all that was read; how they follow each other is not known.
    fn add_unplaced(&mut self, reads: &[&ListRead<'_>], order: &[Version], rest: &Rest) {
        let mut whole: Vec<u32> = reads
            .iter()
            .rev()
            .take_while(|read| read.elements.len() == order.len())
            .map(|read| read.operation)
            .collect();
        whole.sort_unstable();
        let relay = self.graph.relay();
        let unknown = Reason { kind: Kind::ReadWrite, object: self.object, value: None };
        whole.iter().for_each(|reader| self.graph.add(*reader, relay, unknown));
        if let Some(last) = order.last() {
            self.graph.add(last.writer, relay, Reason { kind: Kind::WriteWrite, ..unknown });
        }
        // One that read the whole list before it appended must not precede itself through the relay. Two such are a cycle already.
        let (mut own, others): (Vec<&Version>, Vec<&Version>) =
            rest.unplaced.iter().partition(|version| whole.binary_search(&version.writer).is_ok());
        for version in others {
            let reason = self.reason(Kind::ReadWrite, version.element);
            self.graph.add(relay, version.writer, reason);
        }
        own.dedup_by_key(|version| version.writer);
        for version in own.into_iter().take(2) {
            let reason = self.reason(Kind::ReadWrite, version.element);
            whole.iter().for_each(|reader| self.graph.add(*reader, version.writer, reason));
        }
    }
}
