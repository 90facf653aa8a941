//! What there is to see of the cluster: what the cluster manager knows, and what the nodes that answer tell of themselves, put together.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use tyr_proto::{
    ClassId, NodeId,
    cluster::{
        ClassSettings, ClusterId, Difference, Fact, Keyspace, KeyspaceState, Member, MemberState, Presence,
    },
};
use tyr_types::{Durability, KeyspaceId};

use super::{
    samples::EVERY_MS,
    view::{
        ClassView, ClusterView, HeatView, HeldView, KeyspaceView, MemberView, NodeView, PartitionsView,
        Rates, RebuildView, VERSION, ViewerView, Work,
    },
};
use crate::surroundings::wall_clock;

/// What the cluster manager knows, sorted.
struct Told<'a> {
    classes: BTreeMap<ClassId, &'a ClassSettings>,
    members: BTreeMap<NodeId, &'a Member>,
    keyspaces: BTreeMap<KeyspaceId, &'a Keyspace>,
    ring: Vec<HeldView>,
    /// Partitions about to be handed over, as places in the ring.
    proposed: BTreeSet<(u8, u32)>,
}

impl<'a> Told<'a> {
    fn of(difference: &'a Difference) -> Self {
        let mut told = Told {
            classes: BTreeMap::new(),
            members: BTreeMap::new(),
            keyspaces: BTreeMap::new(),
            ring: Vec::new(),
            proposed: BTreeSet::new(),
        };
        for fact in &difference.facts {
            match fact {
                Fact::Class(id, settings) => drop(told.classes.insert(*id, settings)),
                Fact::Member(node, member) if member.state != MemberState::Left => {
                    told.members.insert(*node, member);
                }
                Fact::Keyspace(id, keyspace) if keyspace.state == KeyspaceState::Exists => {
                    told.keyspaces.insert(*id, keyspace);
                }
                Fact::Partition(id, configuration, proposal) => {
                    let nodes = |replicas: &[tyr_proto::Replica]| -> Vec<u32> {
                        replicas.iter().map(|replica| replica.node.0).collect()
                    };
                    let (replicas, learners) =
                        (nodes(&configuration.replicas), nodes(&configuration.learners));
                    let held = HeldView(id.class.0, id.index, configuration.epoch.0, replicas, learners);
                    told.ring.push(held);
                    if proposal.is_some() {
                        told.proposed.insert((id.class.0, id.index));
                    }
                }
                Fact::Member(..) | Fact::Keyspace(..) | Fact::Account(..) | Fact::Seal(..) => {}
            }
        }
        told.ring.sort_by_key(|held| (held.0, held.1));
        told
    }

    /// How many replicas a partition of a class should have, with as many nodes as there are that stay.
    fn wanted(&self, class: u8) -> usize {
        let replicas = self.classes.get(&ClassId(class)).map_or(1, |settings| usize::from(settings.replicas));
        replicas.min(self.members.values().filter(|member| member.is_eligible()).count())
    }

    fn partitions(&self) -> PartitionsView {
        let mut view = PartitionsView { total: self.ring.len(), ..PartitionsView::default() };
        for HeldView(class, index, epoch, replicas, learners) in &self.ring {
            view.complete += usize::from(replicas.len() >= self.wanted(*class));
            view.moving += usize::from(!learners.is_empty() || self.proposed.contains(&(*class, *index)));
            view.unserved += usize::from(replicas.is_empty());
            view.epoch_max = view.epoch_max.max(*epoch);
        }
        view
    }

    fn rebuilds(&self) -> Vec<RebuildView> {
        let copied = self.ring.iter().filter(|held| !held.4.is_empty());
        let view = |HeldView(class, index, epoch, replicas, learners): &HeldView| RebuildView {
            class: *class,
            partition: *index,
            epoch: *epoch,
            from: replicas.first().copied(),
            to: learners.clone(),
            replicas: replicas.len(),
            wanted: self.wanted(*class),
        };
        copied.take(REBUILDS_MAX).map(view).collect()
    }
}

/// How many partitions and members there are, members by their presence.
pub(crate) fn counts_of(told: &Difference) -> (PartitionsView, [(&'static str, usize); 3]) {
    let known = Told::of(told);
    let with = |presence| known.members.values().filter(|member| member.presence == presence).count();
    let members = [Presence::Present, Presence::Evicted, Presence::GivenUp]
        .map(|presence| (presence_text(presence), with(presence)));
    (known.partitions(), members)
}

fn presence_text(presence: Presence) -> &'static str {
    match presence {
        Presence::Present => "present",
        Presence::Evicted => "evicted",
        Presence::GivenUp => "given-up",
    }
}

/// Puts together what there is to see.
pub(super) fn cluster_view(
    me: NodeId,
    cluster: ClusterId,
    told: &Difference,
    nodes: &[NodeView],
) -> ClusterView {
    let known = Told::of(told);
    let partitions = known.partitions();
    let members = members(&known, nodes);
    let mut troubles = troubles(&partitions, &members);
    // What the ring says is old then: who has no lease does not hear what has become of it.
    let is_served = nodes.iter().any(|node| node.ready);
    if !is_served && !known.ring.is_empty() {
        troubles
            .insert(0, "no node that answers serves anything: too few nodes are there to agree".to_owned());
    }
    let health = match () {
        () if known.ring.is_empty() || partitions.unserved > 0 || !is_served => "unserved",
        () if troubles.is_empty() => "well",
        () => "degraded",
    };
    let sum = |count: fn(&super::view::ShardView) -> u64| {
        nodes.iter().flat_map(|node| &node.shards).map(count).fold(0, u64::saturating_add)
    };
    let mut slow: Vec<_> = nodes.iter().flat_map(|node| node.slow.iter().cloned()).collect();
    slow.sort_by_key(|slow| Reverse(slow.at_ms));
    slow.truncate(SLOW_MAX);
    let pins = nodes.iter().filter_map(|node| node.oldest_pin.clone());
    ClusterView {
        version: VERSION,
        cluster: format!("{:032x}", cluster.0),
        at_ms: wall_clock(),
        seen_by: me.0,
        viewer: ViewerView::default(),
        ring_version: told.reached.map_or(0, |version| version.0),
        health,
        troubles,
        classes: known.classes.iter().map(|(id, settings)| class_view(*id, settings)).collect(),
        rebuilds: known.rebuilds(),
        keyspaces: keyspaces(&known, nodes),
        hot: merged(nodes.iter().flat_map(|node| &node.hot)),
        contended: merged(nodes.iter().flat_map(|node| &node.contended)),
        oldest_pin: pins.max_by(|a, b| a.seconds.total_cmp(&b.seconds)),
        pins: sum(|shard| shard.pins),
        collection_backlog: sum(|shard| shard.collection_backlog),
        slow,
        samples: samples(nodes),
        partitions,
        nodes: members,
        ring: known.ring,
    }
}

fn members(known: &Told<'_>, nodes: &[NodeView]) -> Vec<MemberView> {
    let view = |(id, member): (&NodeId, &&Member)| {
        let told = nodes.iter().find(|node| node.node == id.0);
        let holds = known.ring.iter().filter(|held| held.3.contains(&id.0)).count();
        let leads = known.ring.iter().filter(|held| held.3.first() == Some(&id.0)).count();
        let nothing = NodeView::default();
        let node = told.unwrap_or(&nothing);
        MemberView {
            node: id.0,
            address: member.address.to_string(),
            zone: member.zone.to_string(),
            weight: member.weight,
            state: match member.state {
                MemberState::Active => "active",
                MemberState::Draining => "draining",
                MemberState::Left => "left",
            },
            presence: presence_text(member.presence),
            incarnation: member.incarnation.0,
            holds,
            leads,
            answers: told.is_some(),
            program: node.program.clone(),
            uptime_seconds: node.uptime_seconds,
            ready: node.ready,
            lease: node.lease,
            leads_manager: node.leads_manager,
            ring_version: node.ring_version,
            clients: node.clients,
            rates: latest(node),
            shards: node.shards.clone(),
        }
    };
    known.members.iter().map(view).collect()
}

/// What a node did in its last samples.
fn latest(node: &NodeView) -> Rates {
    let (mut work, mut seconds) = (Work::default(), 0.0);
    let last = node.samples.iter().rev().take(LATEST);
    for sample in last {
        work.add(&sample.work);
        seconds += sample.seconds;
    }
    work.rates(node.samples.last().map_or(0, |sample| sample.at_ms), seconds)
}

/// What is wrong, the worst first.
fn troubles(partitions: &PartitionsView, members: &[MemberView]) -> Vec<String> {
    let mut troubles = Vec::new();
    let mut tell = |count: usize, one: &str, many: &str| match count {
        0 => {}
        1 => troubles.push(format!("1 {one}")),
        count => troubles.push(format!("{count} {many}")),
    };
    let PartitionsView { total, complete, moving, unserved, .. } = *partitions;
    tell(unserved, "partition is served by nobody", "partitions are served by nobody");
    let lacking = total - complete - unserved;
    tell(lacking, "partition lacks replicas", "partitions lack replicas");
    tell(moving, "partition is being copied or handed over", "partitions are being copied or handed over");
    for member in members {
        let node = member.node;
        match (member.presence, member.answers) {
            ("present", true) if !member.ready => troubles.push(format!("node {node} is not ready")),
            ("present", true) => {}
            ("present", false) => troubles.push(format!("node {node} does not answer")),
            ("given-up", _) => troubles.push(format!("node {node} is away, and was given up")),
            _ => troubles.push(format!("node {node} is away")),
        }
        if member.state == "draining" {
            troubles.push(format!("node {node} is being drained"));
        }
        for shard in &member.shards {
            if shard.failed {
                troubles.push(format!("shard {} of node {node} has lost its store", shard.shard));
            } else if shard.full {
                troubles.push(format!("shard {} of node {node} has no space left", shard.shard));
            }
        }
    }
    if members.is_empty() {
        troubles.push("the cluster manager has told nothing yet".to_owned());
    }
    let programs: BTreeSet<&str> =
        members.iter().filter(|member| member.answers).map(|member| member.program.as_str()).collect();
    if programs.len() > 1 {
        let versions = programs.into_iter().collect::<Vec<_>>().join(", ");
        troubles.push(format!("nodes run different versions: {versions}"));
    }
    troubles
}

fn class_view(id: ClassId, settings: &ClassSettings) -> ClassView {
    ClassView {
        class: id.0,
        replicas: settings.replicas,
        min_replicas: settings.min_replicas,
        partitions: settings.partitions,
        durability: durability(settings.durability),
    }
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Memory => "memory",
        Durability::Disk => "disk",
    }
}

fn keyspaces(known: &Told<'_>, nodes: &[NodeView]) -> Vec<KeyspaceView> {
    let window = nodes.iter().map(|node| node.window_seconds).fold(0.0, f64::max);
    let view = |(id, keyspace): (&KeyspaceId, &&Keyspace)| {
        let (mut recent, mut total) = (Work::default(), Work::default());
        let works = nodes.iter().flat_map(|node| &node.keyspaces).filter(|work| work.keyspace == id.0);
        for work in works {
            recent.add(&work.recent);
            total.add(&work.total);
        }
        let held = nodes.iter().flat_map(|node| &node.held).filter(|held| held.keyspace == id.0);
        let held: Vec<_> = held.collect();
        KeyspaceView {
            keyspace: id.0,
            name: keyspace.name.to_string(),
            class: keyspace.class.0,
            durability: durability(keyspace.settings.durability),
            multi_version: keyspace.settings.multi_version,
            chunk_bytes: keyspace.settings.chunk_size,
            quota_bytes: keyspace.settings.quota,
            held_bytes: keyspace.settings.quota.and(Some(held.iter().map(|held| held.bytes).sum())),
            held_blobs: keyspace.settings.quota.and(Some(held.iter().map(|held| held.blobs).sum())),
            recent: recent.rates(0, window),
            total: total.totals(),
        }
    };
    known.keyspaces.iter().map(view).collect()
}

/// The hottest of all nodes: what several tell of the same blob is added up.
fn merged<'a>(heats: impl Iterator<Item = &'a HeatView>) -> Vec<HeatView> {
    let mut by_blob: BTreeMap<(u32, &str), HeatView> = BTreeMap::new();
    for heat in heats {
        match by_blob.get_mut(&(heat.keyspace, heat.blob.as_str())) {
            Some(known) => known.per_second += heat.per_second,
            None => drop(by_blob.insert((heat.keyspace, &heat.blob), heat.clone())),
        }
    }
    let mut merged: Vec<HeatView> = by_blob.into_values().collect();
    merged.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    merged.truncate(HEATS_MAX);
    merged
}

/// What all nodes did at the same times. What some have not told of yet is left out.
fn samples(nodes: &[NodeView]) -> Vec<Rates> {
    let newest = nodes.iter().filter_map(|node| node.samples.last()).map(|sample| sample.at_ms).max();
    let Some(newest) = newest else { return Vec::new() };
    let lasts = nodes.iter().filter_map(|node| node.samples.last()).map(|sample| sample.at_ms);
    // One whose clock is wrong holds up nobody.
    let told = lasts.filter(|last| newest - last <= 3 * EVERY_MS).min().unwrap_or(newest);
    let mut by_time: BTreeMap<u64, Work> = BTreeMap::new();
    for sample in nodes.iter().flat_map(|node| &node.samples).filter(|sample| sample.at_ms <= told) {
        by_time.entry(sample.at_ms).or_default().add(&sample.work);
    }
    by_time.into_iter().map(|(at_ms, work)| work.rates(at_ms, EVERY_MS as f64 / 1e3)).collect()
}

/// As many partitions that are being copied are listed,
const REBUILDS_MAX: usize = 64;
/// as many slow operations,
const SLOW_MAX: usize = 50;
/// and as many hot blobs.
const HEATS_MAX: usize = 16;
/// What a node does now is what it did in as many samples.
const LATEST: usize = 3;

#[cfg(test)]
mod tests;
