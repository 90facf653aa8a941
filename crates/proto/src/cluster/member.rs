//! Members: the nodes that belong to the cluster.

use alloc::{format, string::String};
use core::fmt;

use tyr_types::{Error, Result};

use crate::{Incarnation, NodeId, Replica};

/// What a node calls itself before it has a number: 128 random bits that it drew when its directory was made and keeps there. A node
/// that lost its directory is another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub u128);

/// A set of nodes that may fail together, by its name: 1 to 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone(String);

impl Zone {
    /// Checks and takes the name.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > ZONE_SIZE_MAX {
            return Err(Error::invalid(format!(
                "a zone's name has 1 to {ZONE_SIZE_MAX} bytes, not {}",
                name.len()
            )));
        }
        check_line("a zone's name", name)?;
        Ok(Zone(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Nodes write zones and addresses into files by lines.
fn check_line(what: &str, text: &str) -> Result<()> {
    match text.chars().any(char::is_control) {
        true => Err(Error::invalid(format!("{what} has no control characters: '{}'", text.escape_debug()))),
        false => Ok(()),
    }
}

/// Where a node listens, as text: `host:port` or `unix:/path`, 1 to 255 bytes without control characters. What it means is for whoever dials.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(String);

impl Address {
    /// Checks and takes the text.
    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > ADDRESS_SIZE_MAX {
            return Err(Error::invalid(format!(
                "an address has 1 to {ADDRESS_SIZE_MAX} bytes, not {}",
                text.len()
            )));
        }
        check_line("an address", text)?;
        Ok(Address(text.into()))
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the operators want of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It holds what the ring plan gives it.
    Active,
    /// It holds what it has until others do; no plan gives it anything.
    Draining,
    /// It holds nothing and never comes back.
    Left,
}

/// Whether the newest incarnation of a member may hold roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It may.
    Present,
    /// It was evicted. The node must register a higher one to hold roles again; plans still count on that.
    Evicted,
    /// It was evicted and stayed away: plans place its partitions elsewhere.
    GivenUp,
}

/// A node that belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What the node calls itself.
    pub identity: Identity,
    /// The highest incarnation that registered.
    pub incarnation: Incarnation,
    /// The lowest incarnation whose memory the newest one still has.
    pub memory_since: Incarnation,
    /// The nodes that may fail together with it.
    pub zone: Zone,
    /// Its share of the load, relative to other members. Zero: none.
    pub weight: u32,
    /// Where its newest incarnation listens.
    pub address: Address,
    /// What the operators want of it.
    pub state: MemberState,
    /// Whether its newest incarnation may hold roles.
    pub presence: Presence,
}

impl Member {
    /// The incarnation that may hold roles, as a holder of partitions; none if it was evicted or has left.
    pub fn current(&self, node: NodeId) -> Option<Replica> {
        let present = self.presence == Presence::Present && self.state != MemberState::Left;
        present.then_some(Replica { node, incarnation: self.incarnation })
    }

    /// Whether a plan may place partitions on it.
    pub fn is_eligible(&self) -> bool {
        self.state == MemberState::Active && self.presence != Presence::GivenUp && self.weight > 0
    }
}

/// The longest address, in bytes.
pub const ADDRESS_SIZE_MAX: usize = 255;
/// The longest name of a zone, in bytes.
pub const ZONE_SIZE_MAX: usize = 64;
