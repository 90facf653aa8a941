//! Edges from a register whose versions have no numbers: their order is inferred.
//!
//! A transaction that read one value and wrote another put the second right behind the first, so both belong to one *block*
//! of versions that nothing else can come between. One block precedes another if somebody who touched the one was answered before
//! somebody who touched the other began (the zones of Gibbons and Korach, taken over blocks).

use std::collections::HashMap;

use super::{
    super::{
        Verdict, Violation,
        graph::{Graph, Kind, Reason},
    },
    Scope,
    numbered::{future_read, read_from_nowhere},
    trace::RegisterTrace,
};

/// Adds the edges of one register.
pub(super) fn add(graph: &mut Graph, scope: &Scope<'_>, trace: &RegisterTrace, object: u32) -> Verdict {
    let mut versions = Versions::of(scope, trace)?;
    versions.attach_reads(scope, trace)?;
    let mut edges = Edges { graph, object };
    edges.add_reads(&versions);
    let blocks = blocks(scope, &versions, &mut edges);
    edges.add_blocks(&versions, &blocks).map_err(|turns| in_turns(scope, trace, &turns))
}

/// The first is what was there before all.
struct Versions {
    versions: Vec<Version>,
    of_value: HashMap<u64, usize>,
    /// By writer.
    of_writer: HashMap<u32, usize>,
}

struct Version {
    value: Option<u64>,
    writer: Option<u32>,
    readers: Vec<u32>,
}

impl Versions {
    fn of(scope: &Scope<'_>, trace: &RegisterTrace) -> Result<Self, Box<Violation>> {
        let before = Version { value: None, writer: None, readers: Vec::new() };
        let mut versions =
            Versions { versions: vec![before], of_value: HashMap::new(), of_writer: HashMap::new() };
        let mut writers: HashMap<u64, u32> = HashMap::new();
        for write in &trace.writes {
            let Some(value) = write.value else { continue };
            if let Some(other) = writers.insert(value, write.operation) {
                return Err(twice(scope, trace, value, [other, write.operation]));
            }
            if scope.counts(write.operation) {
                versions.of_value.insert(value, versions.versions.len());
                versions.of_writer.insert(write.operation, versions.versions.len());
                let version =
                    Version { value: Some(value), writer: Some(write.operation), readers: Vec::new() };
                versions.versions.push(version);
            }
        }
        Ok(versions)
    }

    fn attach_reads(&mut self, scope: &Scope<'_>, trace: &RegisterTrace) -> Verdict {
        for read in trace.reads.iter().filter(|read| scope.counts(read.operation)) {
            let hole = read.value == Some(0) && !self.of_value.contains_key(&0);
            let at = match read.value.filter(|_| !hole) {
                Some(value) => {
                    *self.of_value.get(&value).ok_or_else(|| read_from_nowhere(scope, trace, read))?
                }
                // After a deletion, too, there is nothing; which nothing it was cannot be told.
                None if trace.clears > 0 => continue,
                None => BEFORE,
            };
            if self.versions[at].writer == Some(read.operation) {
                return Err(future_read(scope, trace, read));
            }
            self.versions[at].readers.push(read.operation);
        }
        Ok(())
    }
}

fn twice(scope: &Scope<'_>, trace: &RegisterTrace, value: u64, writers: [u32; 2]) -> Box<Violation> {
    let why = format!("the workload writes {value} to {} twice, so it cannot be checked", trace.register);
    Violation::new(scope.history, "workload", why, &writers.map(|writer| writer as usize))
}

/// Versions that follow each other without anything between them.
struct Block {
    first: usize,
    last: usize,
    /// The earliest answer among all that touched it, and whose it is.
    answered: (u64, u32),
    /// The latest beginning among all that touched it, and whose it is.
    began: (u64, u32),
}

/// Two blocks that each precede the other in real time.
struct Turns<'b> {
    one: &'b Block,
    other: &'b Block,
}

fn in_turns(scope: &Scope<'_>, trace: &RegisterTrace, turns: &Turns<'_>) -> Box<Violation> {
    let places = [turns.one.answered.1, turns.other.answered.1, turns.one.began.1, turns.other.began.1];
    let [first, second, third, fourth] = places.map(|place| scope.name(place));
    let why = format!(
        "{third} finds {} as {first} left or found it, but {second} had been answered before, and {fourth} began after {first} \
         was answered, and both knew it otherwise",
        trace.register
    );
    Violation::new(scope.history, "stale read", why, &places.map(|place| place as usize))
}

/// The blocks; the one with what was there before all is the first.
fn blocks(scope: &Scope<'_>, versions: &Versions, edges: &mut Edges<'_>) -> Vec<Block> {
    let next = followers(versions, edges);
    let mut follows = vec![false; versions.versions.len()];
    next.iter().flatten().for_each(|at| follows[*at] = true);
    // Versions that follow each other in a circle are in no block; their reads are a cycle already.
    let heads = (0..next.len()).filter(|at| !follows[*at]);
    heads.map(|head| block(scope, versions, &next, head)).collect()
}

/// The version right behind each, where a transaction read one and wrote the other. If two read the same, each precedes the other.
fn followers(versions: &Versions, edges: &mut Edges<'_>) -> Vec<Option<usize>> {
    let mut next: Vec<Option<usize>> = vec![None; versions.versions.len()];
    for (at, version) in versions.versions.iter().enumerate() {
        for (reader, follower) in
            version.readers.iter().filter_map(|reader| Some((*reader, *versions.of_writer.get(reader)?)))
        {
            let Some(other) = next[at] else {
                next[at] = Some(follower);
                continue;
            };
            let rival = versions.versions[other].writer.expect("a follower was written");
            edges.add(reader, rival, Kind::ReadWrite, versions.versions[other].value);
            edges.add(rival, reader, Kind::ReadWrite, versions.versions[follower].value);
        }
    }
    next
}

fn block(scope: &Scope<'_>, versions: &Versions, next: &[Option<usize>], head: usize) -> Block {
    let mut block = Block { first: head, last: head, answered: (u64::MAX, 0), began: (0, 0) };
    let mut at = Some(head);
    while let Some(version) = at {
        let touched = &versions.versions[version];
        for place in touched.writer.iter().chain(&touched.readers) {
            let operation = &scope.history.operations()[*place as usize];
            block.answered = block.answered.min((operation.latest(), *place));
            block.began = block.began.max((operation.invoked, *place));
        }
        block.last = version;
        at = next[version];
    }
    block
}

struct Edges<'g> {
    graph: &'g mut Graph,
    object: u32,
}

impl Edges<'_> {
    fn add(&mut self, from: u32, to: u32, kind: Kind, value: Option<u64>) {
        self.graph.add(from, to, Reason { kind, object: self.object, value });
    }

    /// From each writer to its readers, and from those to the one among them that wrote the next version.
    fn add_reads(&mut self, versions: &Versions) {
        for version in &versions.versions {
            for reader in &version.readers {
                if let Some(writer) = version.writer {
                    self.add(writer, *reader, Kind::WriteRead, version.value);
                }
            }
            let follower = version.readers.iter().find_map(|reader| versions.of_writer.get(reader));
            if let Some(next) = follower.map(|at| &versions.versions[*at]) {
                self.leave(versions, version, next.writer.expect("a follower was written"), next.value);
            }
        }
    }

    /// Block by block, each to all that must come later. A line of relays by the latest beginning stands for all that began after
    /// some time.
    fn add_blocks<'b>(&mut self, versions: &Versions, blocks: &'b [Block]) -> Result<(), Turns<'b>> {
        let mut later: Vec<&'b Block> = blocks[1..].iter().collect();
        later.sort_by_key(|block| block.began);
        let line = self.line(versions, &later);
        if let Some(first) = line.first() {
            self.leave(versions, &versions.versions[blocks[0].last], *first, None);
        }
        for (place, block) in later.iter().enumerate() {
            let last = &versions.versions[block.last];
            let from = later.partition_point(|other| other.began.0 <= block.answered.0);
            for other in later[..place].iter().skip(from) {
                if other.answered.0 < block.began.0 {
                    return Err(Turns { one: block, other });
                }
                let head = &versions.versions[other.first];
                self.leave(versions, last, head.writer.expect("only the first is not written"), head.value);
            }
            if let Some(relay) = line.get(from.max(place + 1)) {
                self.leave(versions, last, *relay, None);
            }
        }
        Ok(())
    }

    fn line(&mut self, versions: &Versions, later: &[&Block]) -> Vec<u32> {
        let line: Vec<u32> = later.iter().map(|_| self.graph.relay()).collect();
        for (place, block) in later.iter().enumerate() {
            let head = &versions.versions[block.first];
            self.add(
                line[place],
                head.writer.expect("only the first is not written"),
                Kind::WriteWrite,
                head.value,
            );
            if let Some(next) = line.get(place + 1) {
                self.add(line[place], *next, Kind::WriteWrite, None);
            }
        }
        line
    }

    /// All that touched a version precede `to`, but for those that wrote one of the register's later ones themselves: they are in
    /// the order by their own.
    fn leave(&mut self, versions: &Versions, version: &Version, to: u32, value: Option<u64>) {
        version.writer.into_iter().for_each(|writer| self.add(writer, to, Kind::WriteWrite, value));
        for reader in version.readers.iter().filter(|reader| !versions.of_writer.contains_key(reader)) {
            self.add(*reader, to, Kind::ReadWrite, value);
        }
    }
}

const BEFORE: usize = 0;
