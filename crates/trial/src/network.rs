//! The network of a trial: a namespace for each node and one that routes between them, so that each direction between any two can be cut.
//!
//! A cut is a rule of the router that swallows what one address sends to another: nobody is told, as with a cable that is broken in
//! one direction. Needs nothing but iproute2.

use std::{
    collections::BTreeSet,
    io::Write,
    process::{Command, Stdio},
};

use crate::{
    enclosure::call,
    failure::{Failure, Result},
};

/// Who is at an end of a link: a node by its place, or the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The clients and the operator.
    Clients,
    /// A node.
    Node(usize),
}

/// The namespaces and links. Made inside an enclosure only.
#[derive(Debug, Default)]
pub struct Network {
    ends: BTreeSet<End>,
    cut: BTreeSet<(End, End)>,
}

impl Network {
    /// The router, and the link of the clients, which are in the namespace of the trial itself.
    pub fn new() -> Result<Network> {
        call("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
        std::fs::create_dir_all("/run/netns")?;
        call("ip", &["link", "set", "lo", "up"])?;
        call("ip", &["netns", "add", ROUTER])?;
        call("ip", &["netns", "exec", ROUTER, "sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        let mut network = Network::default();
        network.link(End::Clients)?;
        Ok(network)
    }

    /// Gives an end its namespace and its link to the router.
    pub fn link(&mut self, end: End) -> Result<()> {
        if !self.ends.insert(end) {
            return Ok(());
        }
        let (name, port, address) = (end.namespace(), end.port(), end.address());
        let gateway = end.gateway();
        let inside: Vec<&str> = match end {
            End::Clients => vec!["ip"],
            End::Node(_) => {
                call("ip", &["netns", "add", &name])?;
                vec!["ip", "-n", &name]
            }
        };
        let inside = |arguments: &[&str]| call(inside[0], &[&inside[1..], arguments].concat());
        inside(&["link", "add", "uplink", "type", "veth", "peer", "name", &port, "netns", ROUTER])?;
        inside(&["address", "add", &format!("{address}/24"), "dev", "uplink"])?;
        inside(&["link", "set", "uplink", "up"])?;
        inside(&["link", "set", "lo", "up"])?;
        call("ip", &["-n", ROUTER, "address", "add", &format!("{gateway}/24"), "dev", &port])?;
        call("ip", &["-n", ROUTER, "link", "set", &port, "up"])?;
        inside(&["route", "add", "default", "via", &gateway])?;
        Ok(())
    }

    /// Cuts what the one sends to the other.
    pub fn cut(&mut self, links: &[(End, End)]) -> Result<()> {
        let new: Vec<_> = links.iter().copied().filter(|link| self.cut.insert(*link)).collect();
        rules("add", &new)
    }

    /// Takes the cable out of an end, which its own side can see.
    pub fn unplug(&self, end: End) -> Result<()> {
        call("ip", &["-n", ROUTER, "link", "set", &end.port(), "down"]).map(drop)
    }

    /// Puts it in again.
    pub fn plug(&self, end: End) -> Result<()> {
        call("ip", &["-n", ROUTER, "link", "set", &end.port(), "up"]).map(drop)
    }

    /// Mends every cut.
    pub fn mend(&mut self) -> Result<()> {
        rules("delete", &std::mem::take(&mut self.cut).into_iter().collect::<Vec<_>>())
    }
}

fn rules(verb: &str, links: &[(End, End)]) -> Result<()> {
    let lines = links.iter().map(|(from, to)| {
        format!("rule {verb} from {} to {} blackhole pref 100\n", from.address(), to.address())
    });
    let mut child = Command::new("ip").args(["-n", ROUTER, "-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().expect("it was asked for");
    input.write_all(lines.collect::<String>().as_bytes())?;
    drop(input);
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("the router does not {verb} its rules"))),
    }
}

impl End {
    /// Its address.
    pub fn address(self) -> String {
        format!("10.77.{}.1", self.subnet())
    }

    /// Its namespace.
    pub fn namespace(self) -> String {
        format!("n{}", self.subnet())
    }

    fn gateway(self) -> String {
        format!("10.77.{}.254", self.subnet())
    }

    /// The router's end of its link.
    fn port(self) -> String {
        format!("to{}", self.subnet())
    }

    fn subnet(self) -> usize {
        match self {
            End::Clients => 100,
            End::Node(place) => place,
        }
    }
}

const ROUTER: &str = "router";
