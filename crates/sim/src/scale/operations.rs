//! Throughput, latency, and cost of operations as the cluster and its load grow.

use std::fmt::Write as _;

use tyr_proto::Assignment;

use super::{BLOBS_PER_NODE, IN_FLIGHT, Kind, Load, Options, SHARDS, cluster, load, micros, ratio};

/// What was measured at one size.
pub struct Measured {
    /// Nodes.
    pub nodes: u32,
    /// Partitions.
    pub partitions: usize,
    /// Each kind of load.
    pub loads: Vec<(Kind, Load)>,
}

/// The loads of all tables.
const KINDS: [Kind; 4] = [Kind::Write(4096), Kind::Get(4096), Kind::Append, Kind::WriteTwo];

/// Puts each load on clusters of all sizes.
pub fn measure(options: &Options, rings: &[Assignment]) -> Vec<Measured> {
    let sizes = options.nodes.iter().zip(rings);
    let measured = sizes.map(|(&nodes, ring)| {
        let load = |kind| {
            let mut quiet = cluster(ring, nodes, nodes, options.model);
            let blobs = BLOBS_PER_NODE * u64::from(nodes);
            (kind, load::run(&mut quiet, kind, blobs, IN_FLIGHT, options))
        };
        Measured { nodes, partitions: ring.0.len(), loads: KINDS.into_iter().map(load).collect() }
    });
    measured.collect()
}

/// Throughput and latency.
pub fn rates(measured: &[Measured]) -> String {
    let mut text = format!(
        "### Throughput and latency (3 replicas, {SHARDS} shards, a client with {IN_FLIGHT} in flight, and {BLOBS_PER_NODE} blobs a node)\n\n\
         | operation | nodes | partitions | op/s | op/s a node | p50 us | p99 us | threads' limit, op/s a node |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for_each(measured, |kind, Measured { nodes, partitions, .. }, load| {
        let each = ratio(load.busy, load.ended);
        let _ = writeln!(
            text,
            "| {} | {nodes} | {partitions} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            kind.name(),
            load.rate(),
            load.rate() / f64::from(*nodes),
            micros(load.percentile(500)),
            micros(load.percentile(990)),
            f64::from(SHARDS) * 1e9 / each,
        );
    });
    text
}

/// What an operation costs, with everything that is done later for it.
pub fn costs(measured: &[Measured]) -> String {
    let mut text = String::from(
        "### Cost of an operation, until all is forgotten and collected\n\n\
         | operation | nodes | messages | bytes | records | device writes | threads, us | busiest thread, times the mean |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for_each(measured, |kind, Measured { nodes, .. }, load| {
        let each = |count| ratio(count, load.ended);
        let _ = writeln!(
            text,
            "| {} | {nodes} | {:.1} | {:.0} | {:.1} | {:.1} | {:.0} | {:.2} |",
            kind.name(),
            each(load.counts.messages),
            each(load.counts.bytes),
            each(load.counts.records),
            each(load.counts.writes),
            each(load.busy) / 1000.0,
            ratio(load.busiest * u64::from(nodes * SHARDS), load.busy),
        );
    });
    text
}

/// Whether the cost stays the same from each size to the largest.
pub fn flatness(measured: &[Measured]) -> String {
    let mut text = String::from(
        "### Cost at the largest size, divided by that at the others\n\n\
         | operation | from nodes | to nodes | messages | bytes | records | threads' time |\n|---|---|---|---|---|---|---|\n",
    );
    let Some((largest, others)) = measured.split_last() else { return text };
    for_each(others, |kind, small, load| {
        let last = largest.loads.iter().find(|(other, _)| *other == kind);
        let (_, last) = last.expect("every size has every kind");
        let growth = |of: fn(&Load) -> u64| ratio(of(last), last.ended) / ratio(of(load), load.ended);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.2} | {:.2} | {} | {:.2} |",
            kind.name(),
            small.nodes,
            largest.nodes,
            growth(|load| load.counts.messages),
            growth(|load| load.counts.bytes),
            if load.counts.records == 0 {
                "-".to_owned()
            } else {
                format!("{:.2}", growth(|load| load.counts.records))
            },
            growth(|load| load.busy),
        );
    });
    text
}

/// All sizes of one kind, then those of the next.
fn for_each(measured: &[Measured], mut row: impl FnMut(Kind, &Measured, &Load)) {
    for kind in KINDS {
        for size in measured {
            let loads = size.loads.iter().filter(|(other, _)| *other == kind);
            loads.for_each(|(_, load)| row(kind, size, load));
        }
    }
}
