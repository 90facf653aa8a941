//! `tyr node`: how single nodes are doing, as they say themselves.

use std::{panic::resume_unwind, thread::scope, time::Duration};

use clap::{Args, Subcommand};
use serde::Serialize;
use tyr_server::{Address, Fact, MemberState, NodeId, Operator, PartitionReport, PartitionRole};
use tyr_types::{Error, ErrorKind};

use crate::{
    cluster::{addresses, operator, tls},
    failure::Result,
    output::{Align, Bytes, Output, Report, Table},
    settings::Settings,
};

/// So long a node is waited for that is asked among others.
const PATIENCE: Duration = Duration::from_secs(2);

/// The verbs of `tyr node`.
#[derive(Subcommand)]
pub enum Verb {
    /// Print how a node is doing, or each of them: its lease, its shards with their space, and its partitions.
    Status(Status),
}

/// The arguments of `tyr node status`.
#[derive(Args)]
pub struct Status {
    /// The node's number, as 'tyr cluster status' prints it. Without it: all nodes, without their partitions.
    node: Option<u32>,
}

impl Verb {
    /// Does what the verb says.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            Verb::Status(status) => status.run(settings, out),
        }
    }
}

impl Status {
    fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let facts = match operator(settings)?.facts() {
            Ok(told) => told.facts,
            // Who are members is not known then; those that are named can be asked.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                return self.ask_named(settings, error, out);
            }
            Err(error) => return Err(error.into()),
        };
        let members = facts.iter().filter_map(|fact| match fact {
            Fact::Member(node, member) if member.state != MemberState::Left => Some((*node, member)),
            _ => None,
        });
        let (tls, credential) = (tls(settings)?, settings.access.credential()?);
        let wanted = |node: NodeId| self.node.is_none_or(|wanted| wanted == node.0);
        // Among others one that is away is a line of the answer, and not what it waits for.
        let patience = if self.node.is_none() { settings.timeout.min(PATIENCE) } else { settings.timeout };
        let mut nodes = Vec::new();
        for (node, member) in members.filter(|(node, _)| wanted(*node)) {
            let address: Address = member.address.as_str().parse().expect("any text is an address");
            nodes.push((
                (node, member.address.to_string()),
                Operator::new(&[address], tls.as_ref(), &credential, patience),
            ));
        }
        nodes.sort_by_key(|((node, _), _)| *node);
        if let (Some(number), []) = (self.node, &nodes[..]) {
            let error = format!("there is no node {number} in the cluster; see 'tyr cluster status'");
            return Err(Error::not_found(error).into());
        }
        let tell =
            |((node, address), told): ((NodeId, String), tyr_types::Result<tyr_server::Report>)| match told {
                Ok(report) if report.replica.node == node => Ok(Node::of(address, &report)),
                Ok(report) if self.node.is_none() => {
                    Ok(Node::silent(node, address, Some(report.replica.node)))
                }
                Ok(report) => Err(Error::unavailable(format!(
                    "node {} does not answer: node {} is at its address, {address}; {DISTINCT}",
                    node.0, report.replica.node.0
                ))),
                Err(_) if self.node.is_none() => Ok(Node::silent(node, address, None)),
                Err(error) => Err(error),
            };
        let nodes = ask_all(nodes).into_iter().map(tell).collect::<tyr_types::Result<Vec<Node>>>()?;
        out.report(&Nodes { with_partitions: self.node.is_some(), nodes })
    }

    /// Asks the nodes at the addresses that are named, as the cluster manager does not answer.
    fn ask_named(&self, settings: &Settings, error: Error, out: &mut Output) -> Result<()> {
        let (tls, credential) = (tls(settings)?, settings.access.credential()?);
        let dial = |address: Address| {
            let text = address.to_string();
            (text, Operator::new(&[address], tls.as_ref(), &credential, settings.timeout))
        };
        let mut nodes = Vec::new();
        for (text, told) in ask_all(addresses(settings)?.into_iter().map(dial).collect()) {
            match told {
                Ok(report) => nodes.push(Node::of(text, &report)),
                Err(error) => out.warnings().say(format_args!("the node at {text}: {error}")),
            }
        }
        nodes.retain(|node| self.node.is_none_or(|wanted| wanted == node.node));
        if nodes.is_empty() {
            return Err(error.into());
        }
        out.warnings()
            .say("the cluster manager does not answer; these are nodes at the addresses that are named");
        nodes.sort_by_key(|node| node.node);
        // It may have several addresses.
        nodes.dedup_by_key(|node| node.node);
        out.report(&Nodes { with_partitions: self.node.is_some(), nodes })
    }
}

/// Asks all of them at once, for each that is silent is waited for. What they say comes in the order in which they are named.
fn ask_all<T>(
    asked: Vec<(T, tyr_types::Result<Operator>)>,
) -> Vec<(T, tyr_types::Result<tyr_server::Report>)> {
    let (names, operators): (Vec<T>, Vec<_>) = asked.into_iter().unzip();
    let told: Vec<_> = scope(|scope| {
        let ask = |operator: tyr_types::Result<Operator>| {
            scope.spawn(move || operator.and_then(|mut operator| operator.report()))
        };
        let asking: Vec<_> = operators.into_iter().map(ask).collect();
        asking.into_iter().map(|told| told.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    names.into_iter().zip(told).collect()
}

/// What to do about two nodes with one address.
pub const DISTINCT: &str = "give each node an address of its own with --listen or --advertise, and start again whichever has the wrong one";

#[derive(Serialize)]
#[serde(transparent)]
struct Nodes {
    #[serde(skip)]
    with_partitions: bool,
    nodes: Vec<Node>,
}

#[derive(Serialize)]
struct Node {
    node: u32,
    address: String,
    /// Without it, the rest is not known.
    answers: bool,
    /// Another node, which answers at its address.
    other_node: Option<u32>,
    incarnation: u64,
    version: String,
    uptime_seconds: u64,
    ready: bool,
    /// For how long it may serve without renewing its lease.
    lease_seconds: Option<f64>,
    leads_manager: bool,
    ring_version: u64,
    shards: Vec<Shard>,
}

#[derive(Serialize)]
struct Shard {
    shard: usize,
    directory: String,
    weight: u32,
    space_bytes: u64,
    free_bytes: u64,
    used_bytes: u64,
    live_bytes: u64,
    queue: u64,
    full: bool,
    /// It serves nothing until the node starts again.
    failed: bool,
    partitions: Vec<Partition>,
}

#[derive(Serialize)]
struct Partition {
    class: u8,
    partition: u32,
    epoch: u32,
    role: &'static str,
    last_entry: u64,
    stored_entry: u64,
    /// How far the last of the others is behind, if it leads.
    lag_entries: u64,
    copying: u64,
    waiting: u64,
    held: u64,
    driven: u64,
    readers: u64,
    pins: u64,
    oldest_pin_seconds: f64,
    collection_backlog: u64,
}

impl Node {
    fn of(address: String, report: &tyr_server::Report) -> Self {
        let shards = report.shards.iter().enumerate().map(|(place, shard)| Shard {
            shard: place,
            directory: shard.directory.clone(),
            weight: shard.weight,
            space_bytes: shard.space_total,
            free_bytes: shard.space_free,
            used_bytes: shard.used,
            live_bytes: shard.live,
            queue: shard.queue,
            full: shard.is_full,
            failed: shard.has_failed,
            partitions: shard.partitions.iter().map(Partition::of).collect(),
        });
        Node {
            node: report.replica.node.0,
            address,
            answers: true,
            other_node: None,
            incarnation: report.replica.incarnation.0,
            version: report.version.clone(),
            uptime_seconds: report.uptime / 1_000_000,
            ready: report.is_ready,
            lease_seconds: report.lease_left.map(seconds),
            leads_manager: report.leads,
            ring_version: report.ring_version.0,
            shards: shards.collect(),
        }
    }

    fn silent(node: NodeId, address: String, other: Option<NodeId>) -> Self {
        Node {
            node: node.0,
            address,
            answers: false,
            other_node: other.map(|other| other.0),
            incarnation: 0,
            version: String::new(),
            uptime_seconds: 0,
            ready: false,
            lease_seconds: None,
            leads_manager: false,
            ring_version: 0,
            shards: Vec::new(),
        }
    }
}

impl Partition {
    fn of(report: &PartitionReport) -> Self {
        Partition {
            class: report.partition.class.0,
            partition: report.partition.index,
            epoch: report.epoch.0,
            role: match report.role {
                PartitionRole::None => "none",
                PartitionRole::Primary => "primary",
                PartitionRole::NewPrimary => "new-primary",
                PartitionRole::Backup => "backup",
                PartitionRole::NewBackup => "new-backup",
            },
            last_entry: report.last,
            stored_entry: report.stored,
            lag_entries: report.lag,
            copying: report.copying,
            waiting: report.waiting,
            held: report.held,
            driven: report.driven,
            readers: report.readers,
            pins: report.pins,
            oldest_pin_seconds: seconds(report.pin_age),
            collection_backlog: report.backlog,
        }
    }
}

/// For people and scripts, to the millisecond.
fn seconds(micros: u64) -> f64 {
    let millis = u32::try_from(micros / 1_000).unwrap_or(u32::MAX);
    f64::from(millis) / 1_000.0
}

impl Report for Nodes {
    fn print(&self, out: &mut Output) -> Result<()> {
        for (place, node) in self.nodes.iter().enumerate() {
            if place > 0 {
                out.line("")?;
            }
            node.print(out)?;
            if self.with_partitions && node.answers {
                out.line("")?;
                print_partitions(node, out)?;
            }
        }
        Ok(())
    }
}

impl Node {
    fn print(&self, out: &mut Output) -> Result<()> {
        match self.other_node {
            Some(other) => {
                return out.line(format!(
                    "node {} does not answer: node {other} is at its address, {}; {DISTINCT}",
                    self.node, self.address
                ));
            }
            None if !self.answers => {
                return out.line(format!("node {} at {} does not answer", self.node, self.address));
            }
            None => {}
        }
        let serves = match (self.ready, self.lease_seconds) {
            (true, Some(left)) => format!("ready, lease for {left:.1} s"),
            (false, Some(left)) => format!("not ready, lease for {left:.1} s"),
            (_, None) => "not ready, no lease".to_owned(),
        };
        let leads = if self.leads_manager { ", leads the cluster manager" } else { "" };
        out.line(format!(
            "node {} at {}: {serves}{leads}; version {}, up {} s, incarnation {}, ring version {}",
            self.node, self.address, self.version, self.uptime_seconds, self.incarnation, self.ring_version
        ))?;
        let mut table = Table::new([
            ("shard", Align::Right),
            ("directory", Align::Left),
            ("weight", Align::Right),
            ("free", Align::Right),
            ("of", Align::Right),
            ("used", Align::Right),
            ("live", Align::Right),
            ("queue", Align::Right),
            ("leads", Align::Right),
            ("follows", Align::Right),
        ]);
        for shard in &self.shards {
            let count = |roles: &[&str]| {
                let has_role = |partition: &&Partition| roles.contains(&partition.role);
                shard.partitions.iter().filter(has_role).count().to_string()
            };
            table.row([
                shard.shard.to_string(),
                match (shard.failed, shard.full) {
                    (true, _) => format!("{} (failed)", shard.directory),
                    (false, true) => format!("{} (full)", shard.directory),
                    (false, false) => shard.directory.clone(),
                },
                shard.weight.to_string(),
                Bytes(shard.free_bytes).to_string(),
                Bytes(shard.space_bytes).to_string(),
                Bytes(shard.used_bytes).to_string(),
                Bytes(shard.live_bytes).to_string(),
                shard.queue.to_string(),
                count(&["primary", "new-primary"]),
                count(&["backup", "new-backup"]),
            ]);
        }
        table.print(out)
    }
}

fn print_partitions(node: &Node, out: &mut Output) -> Result<()> {
    let mut table = Table::new([
        ("class", Align::Right),
        ("partition", Align::Right),
        ("shard", Align::Right),
        ("epoch", Align::Right),
        ("role", Align::Left),
        ("log", Align::Right),
        ("stored", Align::Right),
        ("lag", Align::Right),
        ("waiting", Align::Right),
        ("held", Align::Right),
        ("pins", Align::Right),
        ("backlog", Align::Right),
    ]);
    let mut partitions: Vec<(usize, &Partition)> = Vec::new();
    for shard in &node.shards {
        partitions.extend(shard.partitions.iter().map(|partition| (shard.shard, partition)));
    }
    partitions.sort_by_key(|(_, partition)| (partition.class, partition.partition));
    for (shard, partition) in partitions {
        table.row([
            partition.class.to_string(),
            partition.partition.to_string(),
            shard.to_string(),
            partition.epoch.to_string(),
            partition.role.to_owned(),
            partition.last_entry.to_string(),
            partition.stored_entry.to_string(),
            partition.lag_entries.to_string(),
            partition.waiting.to_string(),
            partition.held.to_string(),
            partition.pins.to_string(),
            partition.collection_backlog.to_string(),
        ]);
    }
    table.print(out)
}
