//! What the model makes of the cases that were measured on one machine.

use std::fmt::Write as _;

use tyr_proto::Assignment;

use super::{Kind, Load, Options, cluster, load, micros, plan, ratio};
use crate::quiet::model::Model;

/// A case of `docs/benchmarks.md`: Týr alone on the machine.
struct Case {
    kind: Kind,
    replicas: u8,
    clients: u32,
    /// Of each client.
    in_flight: u64,
    blobs: u64,
    /// Operations a second, microseconds of the median, and of the servers for an operation.
    measured: (u64, u64, u64),
}

/// By one client with sixteen operations at a time, to many blobs.
const fn spread(kind: Kind, replicas: u8, measured: (u64, u64, u64)) -> Case {
    Case { kind, replicas, clients: 1, in_flight: 16, blobs: 1024, measured }
}

/// By eight clients with one operation at a time, to one blob.
const fn hot(kind: Kind, replicas: u8, measured: (u64, u64, u64)) -> Case {
    Case { kind, replicas, clients: 8, in_flight: 1, blobs: 1, measured }
}

const CASES: [Case; 8] = [
    spread(Kind::Write(4096), 1, (7133, 1673, 179)),
    spread(Kind::Write(4096), 3, (2086, 6985, 670)),
    spread(Kind::Get(4096), 1, (19313, 686, 54)),
    spread(Kind::Get(4096), 3, (24229, 590, 46)),
    hot(Kind::Append, 1, (9719, 650, 97)),
    hot(Kind::Append, 3, (4586, 1531, 284)),
    hot(Kind::Add, 1, (9030, 696, 130)),
    hot(Kind::Add, 3, (4197, 1664, 350)),
];

/// Nodes of the cluster that was measured.
const NODES: u32 = 3;
/// Its partitions.
const PARTITIONS: u32 = 32;
/// Operations of all clients: they last long enough that what is done in the background is among them.
const OPERATIONS: u64 = 2048;

/// The model beside the measure.
pub fn table() -> String {
    let mut text = String::from(
        "### The model beside the measure (3 nodes of 2 shards and the clients on two processors, 32 partitions)\n\n\
         | case | op/s, measured | model | p50 us, measured | model | server us, measured | model | messages | records | writes |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for case in &CASES {
        let load = case.run();
        let (rate, p50, server) = case.measured;
        let each = |count| ratio(count, load.ended);
        let _ = writeln!(
            text,
            "| {}, {} in flight, r{} | {rate} | {:.0} | {p50} | {:.0} | {server} | {:.0} | {:.1} | {:.1} | {:.1} |",
            case.kind.name(),
            u64::from(case.clients) * case.in_flight,
            case.replicas,
            load.rate(),
            micros(load.percentile(500)),
            micros(load.busy) / ratio(load.ended, 1),
            each(load.counts.messages),
            each(load.counts.records),
            each(load.counts.writes),
        );
    }
    text
}

impl Case {
    fn run(&self) -> Load {
        let ring = plan(1..=NODES, &Assignment::default(), PARTITIONS, self.replicas);
        let mut quiet = cluster(&ring, NODES, self.clients, Model::MEASURED);
        let each = OPERATIONS / u64::from(self.clients);
        let options = Options { each, model: Model::MEASURED, ..Options::default() };
        load::run(&mut quiet, self.kind, self.blobs, self.in_flight, &options)
    }
}
