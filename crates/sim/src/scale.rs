//! What to expect of a cluster of more machines than there are here: the shipped protocol on a [`Model`] of everything else.
//!
//! The model is calibrated by what was measured on one machine, which the first table shows. Equal options give equal tables.

mod calibration;
mod hot;
mod load;
mod operations;
mod rebuild;
mod state;

use std::num::{NonZeroU8, NonZeroU32};

use tyr_proto::{
    Assignment, ClassSettings, Member, MemberState, NodeId, PartitionCount, Target, TargetKind, ZoneId,
    ZoneRule, plan_ring,
};

use tyr_types::KeyspaceSettings;

use crate::quiet::{Quiet, Setting, Telling};

pub use crate::quiet::model::{Device, Hosts, Model, Network, Processor, Ticks};
pub use load::{Kind, Load};

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many nodes: a row for each; at least as many as [`REPLICAS`].
    pub nodes: Vec<u32>,
    /// Chooses blobs.
    pub seed: u64,
    /// Operations of each client in each row.
    pub each: u64,
    /// What things take.
    pub model: Model,
}

impl Default for Options {
    fn default() -> Self {
        Options { nodes: vec![3, 8, 32, 128, 512, 1024], seed: 1, each: 32, model: Model::APART }
    }
}

/// Replicas of everything, but where a table says otherwise.
pub const REPLICAS: u8 = 3;
/// The most nodes: the rings of more take too much memory to plan.
pub const NODES_MAX: u32 = 1024;
/// Shards of each node: the default of a server.
pub const SHARDS: u32 = 2;
/// What each client has in flight. There are as many clients as nodes.
pub const IN_FLIGHT: u64 = 8;
/// Blobs for each node.
pub const BLOBS_PER_NODE: u64 = 64;
/// Partitions for each node, rounded up to a power of two,
const PARTITIONS_PER_NODE: u32 = 4;
/// and at least so many.
const PARTITIONS_MIN: u32 = 64;

/// All tables, in Markdown. Calls `show` with each as soon as it is there.
pub fn all(options: &Options, mut show: impl FnMut(&str)) {
    show(&calibration::table());
    let rings: Vec<_> = options.nodes.iter().map(|&nodes| ring(nodes)).collect();
    let measured = operations::measure(options, &rings);
    show(&operations::rates(&measured));
    show(&operations::costs(&measured));
    show(&operations::flatness(&measured));
    show(&hot::table(options, &rings));
    show(&rebuild::table(options, &rings));
    show(&state::table(&measured));
}

/// What clients measure at a cluster of so many nodes with a load of one kind.
pub fn measure(nodes: u32, kind: Kind, options: &Options) -> Load {
    let mut quiet = cluster(&ring(nodes), nodes, nodes, options.model);
    load::run(&mut quiet, kind, BLOBS_PER_NODE * u64::from(nodes), IN_FLIGHT, options)
}

/// The same of one client that has one operation at a time.
pub fn measure_lone(nodes: u32, kind: Kind, options: &Options) -> Load {
    let mut quiet = cluster(&ring(nodes), nodes, 1, options.model);
    load::run(&mut quiet, kind, BLOBS_PER_NODE * u64::from(nodes), 1, options)
}

/// What all clients of a cluster measure at so many blobs, and the most operations a second that the model allows for.
pub fn measure_hot(nodes: u32, kind: Kind, blobs: u64, options: &Options) -> (Load, f64) {
    hot::measure(nodes, &ring(nodes), kind, blobs, options)
}

/// A cluster of nodes with the shards of a server.
fn cluster(assignment: &Assignment, nodes: u32, clients: u32, model: Model) -> Quiet {
    Quiet::new(Setting {
        nodes,
        shards: NonZeroU32::new(SHARDS).expect("there are shards"),
        clients,
        assignment: assignment.clone(),
        chunk_size: KeyspaceSettings::default().chunk_size,
        model,
        telling: Telling::WhenNeeded,
    })
}

/// The ring that a cluster of so many nodes has.
fn ring(nodes: u32) -> Assignment {
    plan(1..=nodes, &Assignment::default(), partitions(nodes), REPLICAS)
}

fn partitions(nodes: u32) -> u32 {
    (PARTITIONS_PER_NODE * nodes).next_power_of_two().max(PARTITIONS_MIN)
}

/// Where replicas should be, coming from where they are.
fn plan(nodes: impl Iterator<Item = u32>, old: &Assignment, partitions: u32, replicas: u8) -> Assignment {
    let kind = TargetKind(0);
    let member = |node| Member {
        node: NodeId(node),
        zone: ZoneId(node),
        state: MemberState::Active,
        targets: vec![Target { kind, weight: 100 }],
    };
    let class = ClassSettings {
        partitions: PartitionCount::new(partitions).expect("a power of two"),
        replicas: NonZeroU8::new(replicas).expect("there are replicas"),
        target: kind,
        zone_rule: ZoneRule::Prefer,
    };
    plan_ring(&nodes.map(member).collect::<Vec<_>>(), &class, old, &[])
        .expect("there are as many nodes as replicas")
}

#[expect(clippy::cast_precision_loss, reason = "a table shows a few digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Nanoseconds as microseconds.
fn micros(nanos: u64) -> f64 {
    ratio(nanos, 1000)
}
