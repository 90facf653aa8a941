//! `tyr cluster`: what a cluster consists of, and changes of that.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tyr_server::{
    Address, Answer, ClusterCommand, Difference, Fact, KeyspaceState, Member, MemberState, NodeId, Operator,
    Presence, Refusal,
};
use tyr_types::Error;

use crate::{
    failure::{Failure, Result},
    output::{Align, Output, Report, Table},
    settings::Settings,
};

/// The verbs of `tyr cluster`.
#[derive(Subcommand)]
pub enum Verb {
    /// Print the nodes, and how many partitions are complete.
    Status(Patience),
    /// Print who holds which partition.
    Ring(Patience),
    /// Have a node give up everything that it holds, so that it can be switched off.
    ///
    /// It is done when 'tyr cluster status' shows that the node holds no partition.
    Drain(Drain),
}

/// How long the cluster may take to answer.
#[derive(Args)]
pub struct Patience {
    /// Give up after so many seconds without an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// The arguments of `tyr cluster drain`.
#[derive(Args)]
pub struct Drain {
    /// The node's number, as 'tyr cluster status' prints it.
    node: u32,
    #[command(flatten)]
    patience: Patience,
}

impl Verb {
    /// Does what the verb says.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            Verb::Status(patience) => out.report(&Status::of(&patience.operator(settings)?.facts()?)),
            Verb::Ring(patience) => out.report(&Ring::of(&patience.operator(settings)?.facts()?)),
            Verb::Drain(drain) => {
                let node = drain.node;
                let command = ClusterCommand::Drain(NodeId(node));
                match drain.patience.operator(settings)?.command(command)? {
                    Ok(Answer::Done(_)) => out.done(&Drained { action: "drain", node }),
                    Ok(_) => {
                        Err(Error::internal("the cluster answers something else than it was asked").into())
                    }
                    Err(refusal) => Err(refused(refusal).context(format_args!("drain node {node}")).into()),
                }
            }
        }
    }
}

impl Patience {
    fn operator(&self, settings: &Settings) -> Result<Operator> {
        Ok(Operator::new(&addresses(settings)?, Duration::from_secs(self.timeout))?)
    }
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotFound => {
            Error::not_found("there is no such node in the cluster; see 'tyr cluster status'")
        }
        Refusal::TooFew => Error::invalid("too few nodes would remain; add others first"),
        other => Error::unavailable(other.to_string()),
    }
}

/// The nodes that the settings name.
fn addresses(settings: &Settings) -> Result<Vec<Address>> {
    let usage = || {
        Failure::Usage(
            "no cluster is named: pass --store tyr://HOST:PORT,HOST:PORT, or set TYR_STORE to that"
                .to_owned(),
        )
    };
    let store = settings.store.as_deref().and_then(|path| path.to_str()).ok_or_else(usage)?;
    let hosts = store.strip_prefix("tyr://").ok_or_else(usage)?;
    let hosts = hosts.split('/').next().unwrap_or_default().split(',').filter(|host| !host.is_empty());
    let addresses: Vec<Address> = hosts.map(|host| host.parse().expect("any text is an address")).collect();
    if addresses.is_empty() { Err(usage()) } else { Ok(addresses) }
}

#[derive(Serialize)]
struct Status {
    ring_version: u64,
    keyspaces: usize,
    partitions: Partitions,
    nodes: Vec<Node>,
}

#[derive(Default, Serialize)]
struct Partitions {
    total: u32,
    /// Held by as many as their class wants, or as there are nodes.
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
    fn of(told: &Difference) -> Self {
        let members = told.facts.iter().filter_map(|fact| match fact {
            Fact::Member(node, member) if member.state != MemberState::Left => Some(Node::of(*node, member)),
            _ => None,
        });
        let mut nodes: Vec<Node> = members.collect();
        nodes.sort_by_key(|node| node.node);
        let wanted = |class| {
            let of_class = |fact: &Fact| match fact {
                Fact::Class(id, settings) if *id == class => Some(usize::from(settings.replicas)),
                _ => None,
            };
            told.facts.iter().find_map(of_class).unwrap_or(1).min(nodes.len())
        };
        let (mut partitions, mut held) = (Partitions::default(), Vec::new());
        let mut keyspaces = 0;
        for fact in &told.facts {
            match fact {
                Fact::Partition(id, configuration, proposal) => {
                    partitions.total += 1;
                    partitions.complete += u32::from(configuration.replicas.len() >= wanted(id.class));
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
        Status { ring_version, keyspaces, partitions, nodes }
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
        table.print(out)
    }
}

#[derive(Serialize)]
struct Ring {
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
    fn of(told: &Difference) -> Self {
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
        Ring { ring_version: told.reached.map_or(0, |version| version.0), partitions }
    }
}

impl Report for Ring {
    fn print(&self, out: &mut Output) -> Result<()> {
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

#[derive(Serialize)]
struct Drained {
    action: &'static str,
    node: u32,
}

impl Report for Drained {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!(
            "node {} is being drained; 'tyr cluster status' shows when it holds nothing",
            self.node
        ))
    }
}
