//! Who manages the cluster: the voters that are shipped, or, since those take longer, an actor in their place.

use tyr_proto::{
    NodeId, Time,
    cluster::{Cluster, Command, Member, MemberState},
};

use super::{manager::Manager, voters::Voters};

/// The cluster manager of a run.
#[derive(Debug)]
pub enum Management {
    /// One actor that never fails.
    Actor(Box<Manager>),
    /// Voters on the nodes.
    Voters(Box<Voters>),
}

impl Management {
    /// The cluster as it is managed.
    pub fn cluster(&self) -> &Cluster {
        match self {
            Management::Actor(manager) => manager.cluster(),
            Management::Voters(voters) => voters.cluster(),
        }
    }

    /// The voters, if there are any.
    pub fn voters(&mut self) -> Option<&mut Voters> {
        match self {
            Management::Actor(_) => None,
            Management::Voters(voters) => Some(voters),
        }
    }

    /// Has another one lead.
    pub fn lose_leader(&mut self, until: u64) {
        match self {
            Management::Actor(manager) => manager.lose_leader(Time(until)),
            Management::Voters(voters) => voters.mute_leader(until),
        }
    }

    /// Empties a node, unless the others are too few to take writes.
    pub fn drain(&mut self, now: u64, node: NodeId) {
        let least = self.cluster().classes().map(|(_, class)| usize::from(class.min_replicas)).max();
        let active = |member: &&Member| member.state == MemberState::Active;
        let others = self.cluster().members().filter(|(other, _)| *other != node);
        if others.map(|(_, member)| member).filter(active).count() < least.unwrap_or(1) {
            return;
        }
        match self {
            Management::Actor(manager) => drop(manager.apply(Command::Drain(node))),
            Management::Voters(voters) => voters.command(now, Command::Drain(node)),
        }
    }
}
