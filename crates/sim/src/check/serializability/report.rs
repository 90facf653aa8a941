//! A cycle in words.

use super::{
    super::{
        Violation,
        graph::{Kind, Step},
    },
    trace::Traces,
};
use crate::history::History;

/// Tells a cycle edge by edge.
pub(super) fn cycle(history: &History, traces: &Traces<'_>, cycle: &[Step]) -> Box<Violation> {
    let steps: Vec<String> = cycle.iter().map(|step| told(history, traces, step)).collect();
    let why = format!("no order of these explains what they saw: {}", steps.join("; "));
    let operations: Vec<usize> = cycle.iter().map(|step| step.from).collect();
    Violation::new(history, name(cycle), why, &operations)
}

/// The names that Adya's thesis and Elle use.
fn name(cycle: &[Step]) -> &'static str {
    let mut objects: Vec<u32> = cycle.iter().map(|step| step.reason.object).collect();
    objects.dedup();
    let has = |kind| cycle.iter().filter(|step| step.reason.kind == kind).count();
    match (has(Kind::ReadWrite), has(Kind::WriteRead), has(Kind::RealTime)) {
        (0, 0, 0) => "cycle of writes (G0)",
        (0, _, 0) => "cycle of information (G1c)",
        (_, 0, 0) if objects.len() == 1 => "lost update (G-single)",
        (1, _, 0) => "read skew (G-single)",
        (_, _, 0) => "write skew (G2)",
        (0, 0, _) => "writes against real time (G0)",
        (0, _, _) => "information against real time (G1c)",
        (1, _, _) => "stale read (G-single against real time)",
        (_, _, _) => "reads against real time (G2)",
    }
}

fn told(history: &History, traces: &Traces<'_>, step: &Step) -> String {
    let operations = history.operations();
    let (from, to) = (&operations[step.from], &operations[step.to]);
    let (one, other) = (from.transaction, to.transaction);
    let object = traces.name(step.reason.object);
    let value = step.reason.value.map(|value| format!(" ({value})")).unwrap_or_default();
    match step.reason.kind {
        Kind::WriteWrite => format!("{other} wrote {object}{value} after {one} had"),
        Kind::WriteRead => format!("{other} saw what {one} wrote to {object}{value}"),
        Kind::ReadWrite => format!("{one} saw {object} as it was before {other}{value}"),
        Kind::RealTime => {
            format!("{one} was answered at {} before {other} began at {}", from.latest(), to.invoked)
        }
    }
}
