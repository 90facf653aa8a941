//! All nodes of a trial, and the operator's view of them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use serde::Deserialize;
use tempfile::TempDir;

use crate::{
    enclosure::Enclosure,
    failure::{Failure, Result, wait_until},
    network::{End, Network},
    node::Node,
    report::say,
};

/// The nodes, by place; places begin at 1. A place whose disk was lost gets another number in the cluster.
#[derive(Debug)]
pub struct Fleet {
    enclosure: Enclosure,
    program: PathBuf,
    nodes: Vec<Node>,
    /// The links, if they can be cut.
    pub network: Option<Network>,
    /// Where the nodes' logs are.
    records: PathBuf,
    /// Where their disks are.
    disks: PathBuf,
    /// Nobody else can see where disks are in namespaces; elsewhere they have to be removed. The last: nodes end before.
    _disks: Option<TempDir>,
}

/// What `tyr cluster status` tells.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// How the partitions are.
    pub partitions: Partitions,
    /// The members.
    pub nodes: Vec<Member>,
}

/// How many partitions are how.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Partitions {
    /// All of them.
    pub total: u32,
    /// With all replicas.
    pub complete: u32,
    /// About to change hands.
    pub moving: u32,
    /// Held by nobody who runs.
    pub unserved: u32,
}

/// A member.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// Its number.
    pub node: u32,
    /// `active` or `draining`.
    pub state: String,
    /// `present`, `evicted`, or `given-up`.
    pub presence: String,
    /// Partitions of which it is a replica.
    pub holds: u32,
}

impl Fleet {
    /// A cluster of so many nodes that is whole.
    pub fn start(enclosure: Enclosure, program: &Path, size: usize, records: &Path) -> Result<Fleet> {
        let network = enclosure.has_links().then(Network::new).transpose()?;
        let temporary = if enclosure.has_links() { None } else { Some(tempfile::tempdir()?) };
        let private = PathBuf::from("/run");
        let mut fleet = Fleet {
            enclosure,
            program: program.to_owned(),
            nodes: Vec::new(),
            network,
            records: records.to_owned(),
            disks: temporary.as_ref().map_or(private, |inner| inner.path().to_owned()),
            _disks: temporary,
        };
        for _ in 0..size {
            fleet.join()?;
        }
        fleet.settle()?;
        Ok(fleet)
    }

    /// Adds a node, which joins the others, and returns its place.
    pub fn join(&mut self) -> Result<usize> {
        let place = self.nodes.len() + 1;
        if let Some(network) = &mut self.network {
            network.link(End::Node(place))?;
        }
        let mut node = Node::new(self.enclosure, &self.program, place, &self.disks, &self.records)?;
        node.start(&self.addresses()?)?;
        self.nodes.push(node);
        // One after the other, so that the first nodes have the numbers of their places.
        wait_until("the number of a node that joins", || {
            let node = self.node(place);
            node.check_runs()?;
            Ok(node.number().is_none().then(|| format!("node {place} has none")))
        })?;
        Ok(place)
    }

    /// Where faults are possible.
    pub fn enclosure(&self) -> Enclosure {
        self.enclosure
    }

    /// The node at a place.
    pub fn node(&mut self, place: usize) -> &mut Node {
        &mut self.nodes[place - 1]
    }

    /// The places of all nodes that run.
    pub fn places(&self) -> Vec<usize> {
        self.nodes.iter().filter(|node| node.runs()).map(Node::place).collect()
    }

    /// Where those that run listen.
    pub fn addresses(&mut self) -> Result<Vec<String>> {
        self.nodes.iter_mut().filter(|node| node.runs()).map(Node::address).collect()
    }

    /// Where all nodes that ever were listen, as a client names a cluster.
    pub fn url(&mut self) -> Result<String> {
        let addresses: Result<Vec<String>> = self.nodes.iter_mut().map(Node::address).collect();
        Ok(format!("tyr://{}", addresses?.join(",")))
    }

    /// Starts a node that belongs to the cluster.
    pub fn restart(&mut self, place: usize) -> Result<()> {
        self.node(place).start(&[])
    }

    /// Starts a node without its disk's content, as a new one. It joins any other one that runs.
    pub fn start_anew(&mut self, place: usize) -> Result<()> {
        let join = self.addresses()?;
        self.node(place).start(&join)
    }

    /// What the operator's command says, as JSON.
    pub fn ask(&mut self, arguments: &[&str]) -> Result<String> {
        let places = self.places();
        self.ask_of(&places, arguments)
    }

    /// The same, of these nodes only.
    fn ask_of(&mut self, places: &[usize], arguments: &[&str]) -> Result<String> {
        let addresses: Result<Vec<String>> = places.iter().map(|place| self.node(*place).address()).collect();
        let url = format!("tyr://{}", addresses?.join(","));
        let mut command = Command::new(&self.program);
        command.args(["--json", "--store", &url]).args(arguments).env_clear().stdin(Stdio::null());
        let output = command.output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Failure::new(format!(
                "tyr {}: {}: {}",
                arguments.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
        }
    }

    /// How the cluster says that it is.
    pub fn status(&mut self) -> Result<Status> {
        let places = self.places();
        self.status_of(&places)
    }

    /// How these nodes say that it is.
    pub fn status_of(&mut self, places: &[usize]) -> Result<Status> {
        Ok(serde_json::from_str(&self.ask_of(places, &["cluster", "status"])?)?)
    }

    /// Waits until every node serves, and every partition has all its replicas.
    pub fn settle(&mut self) -> Result<()> {
        let began = Instant::now();
        wait_until("that the cluster is whole", || self.amiss())?;
        say(format!("  whole after {:.1} s", began.elapsed().as_secs_f64()));
        Ok(())
    }

    fn amiss(&mut self) -> Result<Option<String>> {
        for node in self.nodes.iter_mut().filter(|node| node.runs()) {
            node.check_runs()?;
            match node.ready() {
                Some(true) => {}
                Some(false) => return Ok(Some(format!("node {} is not ready", node.place()))),
                None => return Ok(Some(format!("node {} does not answer", node.place()))),
            }
        }
        // Who leads may be unknown for a moment.
        let status = match self.status() {
            Ok(status) => status,
            Err(failure) => return Ok(Some(failure.to_string())),
        };
        Ok(status.amiss(self.places().len()))
    }
}

impl Status {
    /// What is missing, if not that many nodes hold everything.
    fn amiss(&self, size: usize) -> Option<String> {
        let active = self.nodes.iter().filter(|member| member.state == "active");
        let present = active.clone().filter(|member| member.presence == "present").count();
        let Partitions { total, complete, moving, unserved } = self.partitions;
        let held = self.nodes.iter().find(|member| member.state != "active" && member.holds > 0);
        if present < size || active.count() != size {
            return Some(format!("{present} of {size} nodes are present"));
        }
        if let Some(member) = held {
            return Some(format!("node number {} still holds {} partitions", member.node, member.holds));
        }
        if let Some(member) = self.nodes.iter().find(|member| member.state == "active" && member.holds == 0) {
            return Some(format!("node number {} has no share yet", member.node));
        }
        if total == 0 || complete < total || moving > 0 || unserved > 0 {
            return Some(format!(
                "of {total} partitions {complete} are complete, {moving} moving, {unserved} unserved"
            ));
        }
        None
    }
}
