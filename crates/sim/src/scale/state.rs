//! What nodes keep: of the ring, and of blobs.

use std::fmt::Write as _;

use tyr_proto::{Configuration, Epoch, Incarnation, NodeId, Replica, RingVersion, encoding::to_bytes};

use super::{BLOBS_PER_NODE, Kind, REPLICAS, operations::Measured, ratio};

/// State against nodes.
pub fn table(measured: &[Measured]) -> String {
    let mut text = String::from(
        "### State\n\n\
         | nodes | partitions | ring, bytes at every node | partitions at a node | state of appended blobs, bytes a node | \
         for a blob and replica |\n|---|---|---|---|---|---|\n",
    );
    for size in measured {
        let Measured { nodes, partitions, loads } = size;
        let appended = loads.iter().find(|(kind, _)| *kind == Kind::Append);
        let (_, load) = appended.expect("appends are measured");
        let payload = load.ended * 256 * u64::from(REPLICAS);
        let bytes = load.state.saturating_sub(payload);
        let replicas = BLOBS_PER_NODE * u64::from(*nodes) * u64::from(REPLICAS);
        let _ = writeln!(
            text,
            "| {nodes} | {partitions} | {} | {:.1} | {:.0} | {:.0} |",
            partitions * configuration_size(*nodes),
            ratio(*partitions as u64 * u64::from(REPLICAS), u64::from(*nodes)),
            ratio(bytes, u64::from(*nodes)),
            ratio(bytes, replicas),
        );
    }
    text
}

/// The encoded bytes of what is known of one partition.
fn configuration_size(nodes: u32) -> usize {
    let replica = Replica { node: NodeId(nodes), incarnation: Incarnation::of(1, 0) };
    to_bytes(&Configuration {
        epoch: Epoch(100),
        since: RingVersion(1000),
        floor: RingVersion(1000),
        replicas: vec![replica; REPLICAS.into()],
        learners: Vec::new(),
    })
    .len()
}
