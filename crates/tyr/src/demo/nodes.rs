//! Nodes of a cluster, each a process of this machine, that are started, killed, and started again.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use tyr_server::{Address, ClusterCommand, Credential, Difference, NodeId, Operator};

use crate::{
    failure::{Failure, Result},
    interrupt::Interrupt,
};

/// The nodes. They end with this.
pub struct Nodes<'a> {
    directory: PathBuf,
    interrupt: &'a Interrupt,
    nodes: Vec<Node>,
}

struct Node {
    number: u32,
    directory: PathBuf,
    address: String,
    process: Option<Process>,
}

/// A process that does not outlive the wish to have it. What it says is held so that it may go on saying it.
struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl<'a> Nodes<'a> {
    /// No nodes yet; their directories will be in this one.
    pub fn new(directory: PathBuf, interrupt: &'a Interrupt) -> Self {
        Nodes { directory, interrupt, nodes: Vec::new() }
    }

    /// Starts another node, which joins the others, and waits until it serves. Returns its number.
    pub fn add(&mut self) -> Result<u32> {
        let directory = self.directory.join(format!("node-{}", self.nodes.len() + 1));
        let process = self.spawn(&directory, "127.0.0.1:0")?;
        self.nodes.push(Node { number: 0, directory, address: String::new(), process: Some(process) });
        self.hear(self.nodes.len() - 1)
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&mut self, number: u32) -> Result<()> {
        self.node(number)?.process = None;
        Ok(())
    }

    /// Starts a node that was killed, and waits until it serves.
    pub fn restart(&mut self, number: u32) -> Result<()> {
        let node = self.node(number)?;
        let (directory, address) = (node.directory.clone(), node.address.clone());
        let process = self.spawn(&directory, &address)?;
        self.node(number)?.process = Some(process);
        let place = self.nodes.iter().position(|node| node.number == number);
        self.hear(place.ok_or_else(|| unknown(number))?).map(drop)
    }

    /// Has the cluster take everything from a node.
    pub fn drain(&self, number: u32) -> Result<()> {
        let drained = self.operator()?.command(ClusterCommand::Drain(NodeId(number)))?;
        drained
            .map(drop)
            .map_err(|refusal| Failure::Local(format!("node {number} is not drained: {refusal}")))
    }

    /// Waits until the cluster is in some state.
    pub fn wait(&self, is_so: impl Fn(&Difference) -> bool) -> Result<()> {
        let mut operator = self.operator()?;
        while !is_so(&operator.facts()?) {
            self.check_interrupt()?;
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// The numbers of those that run.
    pub fn running(&self) -> Vec<u32> {
        self.nodes.iter().filter(|node| node.process.is_some()).map(|node| node.number).collect()
    }

    /// The URL of the cluster.
    pub fn url(&self) -> PathBuf {
        let addresses: Vec<&str> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        format!("tyr://{}", addresses.join(",")).into()
    }

    fn operator(&self) -> Result<Operator> {
        let addresses: Vec<Address> =
            self.nodes.iter().map(|node| node.address.parse().expect("any text is an address")).collect();
        Ok(Operator::new(&addresses, None, &Credential::None, PATIENCE)?)
    }

    fn node(&mut self, number: u32) -> Result<&mut Node> {
        self.nodes.iter_mut().find(|node| node.number == number).ok_or_else(|| unknown(number))
    }

    fn spawn(&self, directory: &Path, listen: &str) -> Result<Process> {
        let failed = |error| Failure::local("cannot start a node", &error);
        let mut command = Command::new(env::current_exe().map_err(failed)?);
        command
            .args(["server", "--json", "--log", "error", "--listen", listen, "--directory"])
            .arg(directory);
        command.args(["--partitions", PARTITIONS, "--segment-size", SEGMENT_SIZE]);
        let known = self.nodes.iter().filter(|node| !node.address.is_empty());
        let known: Vec<&str> = known.map(|node| node.address.as_str()).collect();
        if !known.is_empty() {
            command.args(["--join", &known.join(",")]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let said = BufReader::new(child.stdout.take().expect("standard output is piped"));
        Ok(Process { child, said })
    }

    /// Listens to a node until it serves. Returns its number.
    fn hear(&mut self, place: usize) -> Result<u32> {
        loop {
            self.check_interrupt()?;
            let node = &mut self.nodes[place];
            let Some(process) = &mut node.process else { return Ok(node.number) };
            let mut line = String::new();
            let read = process.said.read_line(&mut line);
            let ended = || Failure::Local("a node ended before it served; what it said is above".to_owned());
            if read.map_err(|error| Failure::local("cannot read from a node", &error))? == 0 {
                return Err(ended());
            }
            let said: serde_json::Value = serde_json::from_str(&line).map_err(|_| ended())?;
            if let Some(address) = said["address"].as_str() {
                address.clone_into(&mut node.address);
                node.number =
                    said["node"].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
            }
            if said["event"] == "ready" {
                return Ok(node.number);
            }
        }
    }

    fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.is_asked() {
            return Err(Failure::Interrupted("the demonstration was interrupted".to_owned()));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If it has ended already both fail or do nothing.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn unknown(number: u32) -> Failure {
    Failure::Local(format!("there is no node {number}"))
}

/// Few, so that nodes of one machine have little to do when nothing happens.
const PARTITIONS: &str = "32";
/// Small, so that nodes that hold little take little space.
const SEGMENT_SIZE: &str = "16MiB";
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(100);
