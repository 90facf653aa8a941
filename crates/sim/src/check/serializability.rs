//! Strict serializability: is there one order of all transactions that explains every answer and agrees with real time?
//!
//! As Elle does it (P. Alvaro, K. Kingsbury, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020): the
//! order of each object's versions is inferred from what was seen; each version gives edges from its writer to its readers, and
//! from those to the next writer; an answer before a beginning gives an edge, too; a cycle is a violation. All objects of a
//! history share one graph:
//! - *Lists*: a read of the list is the order of its versions; offsets place what was never read.
//! - *Registers with numbers*: the numbers are the order.
//! - *Counters* that only grow and return old values: the values are the order.
//! - *Registers without numbers*, each value unique: a transaction that read one value and wrote the next puts them in order, and so does
//!   real time (P. Gibbons, E. Korach, "Testing Shared Memories", SIAM J. Comput. 1997). This is all that one register tells,
//!   but what several tell together is left to [`super::exact`]: give the numbers where the store returns them.
//!
//! Not judged: counters that shrink, or that are also overwritten (see [`super::bank`]), and scans.
//!
//! The cost is linear in the history, but for sorting.

mod lists;
mod numbered;
mod observed;
mod report;
mod trace;
mod unnumbered;

use super::{
    Verdict,
    graph::{Graph, Kind, Reason, index},
};
use crate::history::History;
use observed::counted;
use trace::{Order, Traces};

/// Whether the committed transactions, and those of unknown outcome that were seen, are strictly serializable.
pub fn check(history: &History) -> Verdict {
    let traces = Traces::of(history);
    let counted = counted(history, &traces);
    traces.check_own(history, &counted)?;
    let mut graph = Graph::new(history.operations().len());
    add_real_time(&mut graph, history, &counted);
    let scope = Scope { history, counted: &counted };
    for (object, list) in traces.lists.iter().enumerate() {
        lists::add(&mut graph, &scope, list, index(object))?;
    }
    for (object, register) in traces.registers.iter().enumerate() {
        let object = index(traces.lists.len() + object);
        match register.order(history) {
            Order::Numbers => numbered::add(&mut graph, &scope, register, object)?,
            Order::Values => unnumbered::add(&mut graph, &scope, register, object)?,
            Order::Unknown => {}
        }
    }
    match graph.shortest_cycle() {
        Some(cycle) => Err(report::cycle(history, &traces, &cycle)),
        None => Ok(()),
    }
}

/// What all objects are judged by.
struct Scope<'h> {
    history: &'h History,
    /// By place: whether the operation happened for certain.
    counted: &'h [bool],
}

impl Scope<'_> {
    fn counts(&self, operation: u32) -> bool {
        self.counted[operation as usize]
    }

    fn aborted(&self, operation: u32) -> bool {
        !self.history.operations()[operation as usize].possible()
    }

    fn name(&self, operation: u32) -> String {
        self.history.operations()[operation as usize].transaction.to_string()
    }
}

/// Answers form a line of relays: each operation leads into it at its answer, and out of it comes, at its beginning, whoever
/// began later.
pub(super) fn add_real_time(graph: &mut Graph, history: &History, counted: &[bool]) {
    let operations = history.operations();
    let happened = || operations.iter().enumerate().filter(|(place, _)| counted[*place]);
    let mut answers: Vec<(u64, u32)> =
        happened().map(|(place, operation)| (operation.latest(), index(place))).collect();
    answers.retain(|(latest, _)| *latest < u64::MAX);
    answers.sort_unstable();
    let reason = Reason { kind: Kind::RealTime, object: 0, value: None };
    let mut line: Vec<u32> = Vec::with_capacity(answers.len());
    for (_, place) in &answers {
        let relay = graph.relay();
        if let Some(previous) = line.last() {
            graph.add(*previous, relay, reason);
        }
        graph.add(*place, relay, reason);
        line.push(relay);
    }
    for (place, operation) in happened() {
        let before = answers.partition_point(|(latest, _)| *latest < operation.invoked);
        if before > 0 {
            graph.add(line[before - 1], index(place), reason);
        }
    }
}
