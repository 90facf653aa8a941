//! How long it takes until everything has all its replicas again after a node has died for good.
//!
//! The ring before and after is that of [`plan_ring`](tyr_proto::plan_ring). A partition is copied by its primary, a part after the other,
//! the next when the one before has been acknowledged; so many partitions at once in the whole cluster, as the upkeep allows.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    fmt::Write as _,
};

use tyr_proto::{Assignment, Limits, NodeId, UpkeepTerms};

use super::{Options, REPLICAS, SHARDS, plan, ratio};
use crate::quiet::model::{Model, transfer};

/// What each node held.
const NODE_BYTES: u64 = 64 << 30;
/// A processor's rate, as a lane has it: the payload of a log entry.
const KIB: u64 = 1024;

/// Sources, targets, bytes, and time against nodes.
pub fn table(options: &Options, rings: &[Assignment]) -> String {
    let moving = UpkeepTerms::default().moving_max;
    let mut text = format!(
        "### Rebuild after the death of a node with {} GiB (3 replicas; {moving} partitions are copied at once)\n\n\
         | nodes | partitions | replicas to make | sources | targets | moved for balance | GiB | minutes | MB/s |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        NODE_BYTES >> 30
    );
    for (&nodes, ring) in options.nodes.iter().zip(rings).filter(|(nodes, _)| **nodes > u32::from(REPLICAS)) {
        let partitions = u32::try_from(ring.0.len()).expect("32 bits count partitions");
        let dead = NodeId(nodes);
        let after = plan(1..nodes, ring, partitions, REPLICAS);
        let copies = copies(ring, &after, dead);
        let lost = ring.0.iter().filter(|set| set.contains(&dead)).count();
        let size = NODE_BYTES / lost.max(1) as u64;
        let bytes = size * copies.len() as u64;
        let nanos = time(&copies, size, &options.model);
        let distinct = |of: fn(&Copy) -> NodeId| copies.iter().map(of).collect::<BTreeSet<_>>().len();
        let _ = writeln!(
            text,
            "| {nodes} | {partitions} | {lost} | {} | {} | {} | {} | {:.1} | {:.0} |",
            distinct(|copy| copy.from),
            distinct(|copy| copy.to),
            copies.len() - lost,
            bytes >> 30,
            ratio(nanos, 60_000_000_000),
            ratio(bytes * 1000, nanos),
        );
    }
    text
}

/// A partition that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copy {
    partition: usize,
    from: NodeId,
    to: NodeId,
}

/// What has to be copied, those first that lack a replica.
fn copies(before: &Assignment, after: &Assignment, dead: NodeId) -> Vec<Copy> {
    let mut copies: Vec<(bool, Copy)> = Vec::new();
    for (partition, (old, new)) in before.0.iter().zip(&after.0).enumerate() {
        let from = *old.iter().find(|node| **node != dead).expect("others have it");
        let new = new.iter().filter(|node| !old.contains(node));
        copies.extend(new.map(|&to| (!old.contains(&dead), Copy { partition, from, to })));
    }
    copies.sort_by_key(|(is_whole, copy)| (*is_whole, copy.partition));
    copies.into_iter().map(|(_, copy)| copy).collect()
}

/// When the last of these is done, in nanoseconds.
fn time(copies: &[Copy], size: u64, model: &Model) -> u64 {
    let part = Limits::default().copy_max as u64;
    let moving = usize::try_from(UpkeepTerms::default().moving_max).expect("32 bits fit memory");
    let mut stations = Stations::default();
    let mut waiting = copies.iter();
    let mut under_way: BinaryHeap<_> = waiting
        .by_ref()
        .take(moving)
        .map(|copy| Reverse((0, 0, copy.partition, copy.to.0, copy.from.0)))
        .collect();
    let mut end = 0;
    while let Some(Reverse((now, done, partition, to, from))) = under_way.pop() {
        if done >= size {
            end = end.max(now);
            under_way
                .extend(waiting.next().map(|copy| Reverse((now, 0, copy.partition, copy.to.0, copy.from.0))));
            continue;
        }
        let bytes = part.min(size - done);
        let shard = u32::try_from(partition).expect("32 bits count partitions") % SHARDS;
        let arrived =
            stations.pass((from, Station::Shard(shard)), now, bytes * model.processor.payload / KIB);
        let arrived =
            stations.pass((from, Station::Link), arrived, transfer(bytes, model.network.bytes_per_second));
        let arrived = stations.pass(
            (to, Station::Shard(shard)),
            arrived + model.network.hop,
            bytes * model.processor.payload / KIB,
        );
        let arrived =
            stations.pass((to, Station::Device), arrived, transfer(bytes, model.device.bytes_per_second));
        under_way.push(Reverse((arrived + model.network.hop, done + bytes, partition, to, from)));
    }
    end
}

/// What a part passes at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Station {
    Shard(u32),
    Link,
    Device,
}

/// When each station is free again.
#[derive(Debug, Default)]
struct Stations(std::collections::BTreeMap<(u32, Station), u64>);

impl Stations {
    fn pass(&mut self, station: (u32, Station), now: u64, takes: u64) -> u64 {
        let free_at = self.0.entry(station).or_default();
        *free_at = now.max(*free_at) + takes;
        *free_at
    }
}
