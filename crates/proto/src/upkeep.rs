//! What the leader of the cluster manager does on its own: it gives up nodes that stay away, and has the partitions follow the members.
//!
//! Volatile: a new leader counts absences from its own beginning, and plans anew. It proposes; whether a command is still right is
//! decided where it is applied. Evictions are not decided here but by the holder of the leases ([`crate::Leases`]).

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    ClassId, NodeId, Time,
    cluster::{Cluster, Command, Presence, Zone},
};

/// How patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpkeepTerms {
    /// How long an evicted node may stay away before its partitions are placed elsewhere, in microseconds.
    pub absence_max: u64,
    /// The most partitions that copy to other nodes at once, so that service goes on beside it.
    pub moving_max: u32,
    /// How often a plan is made though no member came or went, in microseconds: replicas that were removed for being slow come back by it.
    pub plan_every: u64,
}

impl Default for UpkeepTerms {
    /// Ten minutes: longer than a restart of a machine, since to copy a node's data takes longer still.
    fn default() -> Self {
        UpkeepTerms { absence_max: 600_000_000, moving_max: 32, plan_every: 60_000_000 }
    }
}

/// What a leader remembers for that.
#[derive(Clone, Debug)]
pub struct Upkeep {
    terms: UpkeepTerms,
    away_since: BTreeMap<NodeId, Time>,
    planned: BTreeMap<ClassId, Planned>,
}

/// The last plan of a class.
#[derive(Clone, Debug)]
struct Planned {
    /// For these nodes, with their weights and zones.
    members: Vec<(NodeId, u32, Zone)>,
    /// When they had lost so many partitions of the class.
    losses: BTreeMap<NodeId, u32>,
    at: Time,
    /// Whether everything that the plan wants was asked for.
    is_whole: bool,
}

impl Upkeep {
    /// What a new leader begins with.
    pub fn new(terms: UpkeepTerms) -> Self {
        Upkeep { terms, away_since: BTreeMap::new(), planned: BTreeMap::new() }
    }

    /// This node leads no more, or is not sure.
    pub fn step_down(&mut self) {
        self.away_since.clear();
        self.planned.clear();
    }

    /// What is due now. To be asked as often as the leader looks after its leases.
    pub fn due(&mut self, cluster: &Cluster, now: Time) -> Vec<Command> {
        let given_up = self.absent(cluster, now);
        if !given_up.is_empty() {
            // The plan comes when these are applied.
            return given_up.into_iter().map(Command::GiveUp).collect();
        }
        let classes: Vec<ClassId> = cluster.classes().map(|(id, _)| id).collect();
        classes.into_iter().filter_map(|class| self.plan(cluster, class, now)).collect()
    }

    fn absent(&mut self, cluster: &Cluster, now: Time) -> Vec<NodeId> {
        let members = cluster.members();
        let away = members.filter(|(_, member)| member.presence == Presence::Evicted).map(|(node, _)| node);
        let away: Vec<NodeId> = away.collect();
        self.away_since.retain(|node, _| away.contains(node));
        let absence_max = self.terms.absence_max;
        let is_absent =
            |node: &NodeId| now.since(*self.away_since.entry(*node).or_insert(now)) >= absence_max;
        away.into_iter().filter(is_absent).collect()
    }

    fn plan(&mut self, cluster: &Cluster, class: ClassId, now: Time) -> Option<Command> {
        let members = cluster.members().filter(|(_, member)| member.is_eligible());
        let members = members.map(|(node, member)| (node, member.weight, member.zone.clone())).collect();
        let losses = cluster.losses(class);
        let is_settled = self.planned.get(&class).is_some_and(|last| {
            let is_recent = now.since(last.at) < self.terms.plan_every;
            last.members == members && last.losses == losses && last.is_whole && is_recent
        });
        if is_settled {
            return None;
        }
        let step = cluster.plan_step(class, &[], self.terms.moving_max).ok()?;
        self.planned.insert(class, Planned { members, losses, at: now, is_whole: step.is_whole });
        step.command
    }
}

#[cfg(test)]
mod tests;
