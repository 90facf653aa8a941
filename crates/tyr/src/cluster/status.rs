//! What a cluster consists of.

use serde::Serialize;
use tyr_server::{Difference, Fact, KeyspaceState, Member, MemberState, NodeId, Presence};

use super::{Wanted, print_memory};
use crate::{
    failure::Result,
    output::{Align, Output, Report, Table},
};

/// The nodes, and how many partitions are complete.
#[derive(Serialize)]
pub struct Status {
    /// The address of the node that heard this once, if the cluster manager does not answer.
    remembered_by: Option<String>,
    ring_version: u64,
    keyspaces: usize,
    partitions: Partitions,
    nodes: Vec<Node>,
}

#[derive(Default, Serialize)]
struct Partitions {
    total: u32,
    /// Held by as many as their class wants, or as there are nodes that stay.
    complete: u32,
    /// About to change hands.
    moving: u32,
    /// Held by nobody who runs.
    unserved: u32,
}

#[derive(Serialize)]
struct Node {
    node: u32,
    address: String,
    zone: String,
    weight: u32,
    state: &'static str,
    presence: &'static str,
    /// Partitions of which it is a complete replica.
    holds: u32,
    /// Of those, the ones that it leads.
    leads: u32,
}

impl Status {
    /// As the cluster manager tells it, or the node at this address remembers it.
    pub fn of(told: &Difference, remembered_by: Option<String>) -> Self {
        let members = told.facts.iter().filter_map(|fact| match fact {
            Fact::Member(node, member) if member.state != MemberState::Left => Some(Node::of(*node, member)),
            _ => None,
        });
        let mut nodes: Vec<Node> = members.collect();
        nodes.sort_by_key(|node| node.node);
        let wanted = Wanted::of(&told.facts);
        let (mut partitions, mut held) = (Partitions::default(), Vec::new());
        let mut keyspaces = 0;
        for fact in &told.facts {
            match fact {
                Fact::Partition(_, configuration, proposal) => {
                    partitions.total += 1;
                    partitions.complete += u32::from(!wanted.is_lacking(fact));
                    partitions.moving += u32::from(proposal.is_some() || !configuration.learners.is_empty());
                    partitions.unserved += u32::from(configuration.replicas.is_empty());
                    held.extend(
                        configuration
                            .replicas
                            .iter()
                            .zip(0..)
                            .map(|(replica, place)| (replica.node.0, place)),
                    );
                }
                Fact::Keyspace(_, keyspace) if keyspace.state == KeyspaceState::Exists => keyspaces += 1,
                _ => {}
            }
        }
        for node in &mut nodes {
            let of_node = held.iter().filter(|(holder, _)| *holder == node.node);
            (node.holds, node.leads) = of_node
                .fold((0, 0), |(holds, leads), (_, place)| (holds + 1, leads + u32::from(*place == 0)));
        }
        let ring_version = told.reached.map_or(0, |version| version.0);
        Status { remembered_by, ring_version, keyspaces, partitions, nodes }
    }
}

impl Node {
    fn of(node: NodeId, member: &Member) -> Self {
        Node {
            node: node.0,
            address: member.address.to_string(),
            zone: member.zone.to_string(),
            weight: member.weight,
            state: match member.state {
                MemberState::Active => "active",
                MemberState::Draining => "draining",
                MemberState::Left => "left",
            },
            presence: match member.presence {
                Presence::Present => "present",
                Presence::Evicted => "evicted",
                Presence::GivenUp => "given-up",
            },
            holds: 0,
            leads: 0,
        }
    }
}

impl Report for Status {
    fn print(&self, out: &mut Output) -> Result<()> {
        let Partitions { total, complete, moving, unserved } = self.partitions;
        print_memory(out, self.remembered_by.as_deref())?;
        out.line(format!(
            "ring version {}, {} keyspaces; {total} partitions: {complete} complete, {moving} moving, {unserved} unserved",
            self.ring_version, self.keyspaces
        ))?;
        let mut table = Table::new([
            ("node", Align::Right),
            ("address", Align::Left),
            ("zone", Align::Left),
            ("weight", Align::Right),
            ("state", Align::Left),
            ("presence", Align::Left),
            ("holds", Align::Right),
            ("leads", Align::Right),
        ]);
        for node in &self.nodes {
            table.row([
                node.node.to_string(),
                node.address.clone(),
                node.zone.clone(),
                node.weight.to_string(),
                node.state.to_owned(),
                node.presence.to_owned(),
                node.holds.to_string(),
                node.leads.to_string(),
            ]);
        }
        table.print(out)?;
        if self.remembered_by.is_some() {
            // Nothing of that can be done before somebody leads.
            return Ok(());
        }
        self.advice().into_iter().try_for_each(|line| out.line(line))
    }
}

impl Status {
    /// What is not as it should be, and what to do.
    fn advice(&self) -> Vec<String> {
        let Partitions { total, complete, unserved, .. } = self.partitions;
        let lacking = total.saturating_sub(complete).saturating_sub(unserved);
        let mut lines = Vec::new();
        if unserved > 0 {
            lines.push(format!(
                "{unserved} partitions are served by nobody until a node that held them is back"
            ));
        }
        if lacking > 0 {
            lines.push(format!("{lacking} partitions have fewer replicas than they should have"));
        }
        // One that is being drained is to go anyway, but not with the only copy of something.
        let is_needed = |node: &&Node| node.state == "active" || unserved > 0;
        let away = self.nodes.iter().filter(|node| node.presence != "present").filter(is_needed);
        lines.extend(away.map(|node| {
            format!(
                "node {0} at {1} is away: start it again; if it is lost, 'tyr cluster replace {0} NODE' gives what it held to another node, and \
                 'tyr cluster remove {0}' to the others",
                node.node, node.address
            )
        }));
        lines
    }
}

/// Who holds which partition.
#[derive(Serialize)]
pub struct Ring {
    /// The address of the node that heard this once, if the cluster manager does not answer.
    remembered_by: Option<String>,
    ring_version: u64,
    partitions: Vec<Held>,
}

#[derive(Serialize)]
struct Held {
    class: u8,
    partition: u32,
    epoch: u32,
    /// The first leads.
    replicas: Vec<u32>,
    learners: Vec<u32>,
}

impl Ring {
    /// As the cluster manager tells it, or the node at this address remembers it.
    pub fn of(told: &Difference, remembered_by: Option<String>) -> Self {
        let held = told.facts.iter().filter_map(|fact| match fact {
            Fact::Partition(id, configuration, _) => Some(Held {
                class: id.class.0,
                partition: id.index,
                epoch: configuration.epoch.0,
                replicas: configuration.replicas.iter().map(|replica| replica.node.0).collect(),
                learners: configuration.learners.iter().map(|replica| replica.node.0).collect(),
            }),
            _ => None,
        });
        let mut partitions: Vec<Held> = held.collect();
        partitions.sort_by_key(|held| (held.class, held.partition));
        let ring_version = told.reached.map_or(0, |version| version.0);
        Ring { remembered_by, ring_version, partitions }
    }
}

impl Report for Ring {
    fn print(&self, out: &mut Output) -> Result<()> {
        print_memory(out, self.remembered_by.as_deref())?;
        out.line(format!("ring version {}", self.ring_version))?;
        let mut table = Table::new([
            ("class", Align::Right),
            ("partition", Align::Right),
            ("epoch", Align::Right),
            ("replicas", Align::Left),
            ("learners", Align::Left),
        ]);
        let nodes = |nodes: &[u32]| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        for held in &self.partitions {
            table.row([
                held.class.to_string(),
                held.partition.to_string(),
                held.epoch.to_string(),
                nodes(&held.replicas),
                nodes(&held.learners),
            ]);
        }
        table.print(out)
    }
}
