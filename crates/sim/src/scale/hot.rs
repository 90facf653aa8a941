//! All clients want the same few blobs.
//!
//! Writes of a blob are ordered by one primary, so one thread bounds them; it is the processor time that this thread spends on one of
//! them. Reads are answered by every replica.

use std::fmt::Write as _;

use tyr_proto::Assignment;

use super::{IN_FLIGHT, Kind, Load, Options, REPLICAS, SHARDS, cluster, load, micros};
use crate::quiet::model::Model;

/// Larger clusters say nothing new: the blobs' threads are busy long before.
const NODES_MAX: u32 = 128;
const BLOBS: [u64; 3] = [1, 8, 64];

/// Throughput of each kind at clusters of several sizes.
pub fn table(options: &Options, rings: &[Assignment]) -> String {
    let mut text = format!(
        "### Hot blobs (3 replicas, {SHARDS} shards, a client with {IN_FLIGHT} in flight a node; up to {NODES_MAX} nodes)\n\n\
         | operation | blobs | nodes | op/s | bound by threads, op/s | p50 us | p99 us |\n|---|---|---|---|---|---|---|\n"
    );
    for kind in [Kind::Append, Kind::Get(4096)] {
        for blobs in BLOBS {
            for (&nodes, ring) in options.nodes.iter().zip(rings).filter(|(nodes, _)| **nodes <= NODES_MAX) {
                let (load, bound) = measure(nodes, ring, kind, blobs, options);
                let _ = writeln!(
                    text,
                    "| {} | {blobs} | {nodes} | {:.0} | {bound:.0} | {:.0} | {:.0} |",
                    kind.name(),
                    load.rate(),
                    micros(load.percentile(500)),
                    micros(load.percentile(990)),
                );
            }
        }
    }
    text
}

/// A load on so many blobs, and the rate at which the threads that it needs at once are always busy.
pub fn measure(nodes: u32, ring: &Assignment, kind: Kind, blobs: u64, options: &Options) -> (Load, f64) {
    let mut quiet = cluster(ring, nodes, nodes, options.model);
    let load = load::run(&mut quiet, kind, blobs, IN_FLIGHT, options);
    (load, bound(kind, blobs, nodes, &options.model))
}

/// Of one thread for each blob, or each replica of it, as far as there are threads.
#[expect(clippy::cast_precision_loss, reason = "a table shows a few digits")]
fn bound(kind: Kind, blobs: u64, nodes: u32, model: &Model) -> f64 {
    let (threads, work) = match kind {
        Kind::Get(size) => (blobs * u64::from(REPLICAS), read_work(size, model)),
        _ => (blobs, write_work(model)),
    };
    threads.min(u64::from(nodes * SHARDS)) as f64 * 1e9 / work as f64
}

/// What the primary cannot do without: the request, the entry, the backups' copies and acknowledgements, the answer.
fn write_work(model: &Model) -> u64 {
    let processor = &model.processor;
    let backups = u64::from(REPLICAS) - 1;
    2 * processor.client_message + processor.log_entry + 2 * backups * processor.node_message
}

/// The request and the answer, and for large ones the device.
fn read_work(size: usize, model: &Model) -> u64 {
    let waits = if size as u64 >= model.device.read_min { model.device.read } else { 0 };
    2 * model.processor.client_message + model.processor.payload * size as u64 / 1024 + waits
}
