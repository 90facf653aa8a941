//! How members go: drained, replaced, given up with what only they had, and gone for ever. And how a part of one goes: a shard.

use alloc::vec::Vec;

use super::{Cluster, Member, MemberState, Partition, Presence, Refusal, Reply};
use crate::{NodeId, PartitionId, Replica, cluster::Answer};

impl Cluster {
    /// By whom a member is being replaced.
    pub fn successor(&self, node: NodeId) -> Option<NodeId> {
        self.successors.get(&node).copied()
    }

    pub(super) fn drain(&mut self, node: NodeId) -> Reply {
        let member = self.members.get(&node).ok_or(Refusal::NotFound)?;
        match member.state {
            MemberState::Left => Err(Refusal::NotFound),
            MemberState::Draining => Ok(Answer::Done(self.version)),
            MemberState::Active if member.is_eligible() && self.needs(node, member) => Err(Refusal::TooFew),
            MemberState::Active => self.set_state(node, MemberState::Draining),
        }
    }

    /// Whether some class takes no more writes without a member. What one that is present holds goes to others that are.
    fn needs(&self, node: NodeId, member: &Member) -> bool {
        let takes = |other: &Member| {
            other.is_eligible()
                && (other.presence == Presence::Present || member.presence != Presence::Present)
        };
        let others = self.members.iter().filter(|(id, other)| **id != node && takes(other)).count();
        self.classes.values().any(|class| others < usize::from(class.settings.min_replicas))
    }

    pub(super) fn restore(&mut self, node: NodeId) -> Reply {
        let member = self.members.get(&node).ok_or(Refusal::NotFound)?;
        match member.state {
            MemberState::Left => Err(Refusal::NotFound),
            MemberState::Active => Ok(Answer::Done(self.version)),
            MemberState::Draining => {
                self.successors.remove(&node);
                self.set_state(node, MemberState::Active)
            }
        }
    }

    pub(super) fn replace(&mut self, old: NodeId, new: NodeId) -> Reply {
        let has_left = |node| self.members.get(&node).is_none_or(|member| member.state == MemberState::Left);
        if has_left(old) || has_left(new) {
            return Err(Refusal::NotFound);
        }
        if old == new || !self.members.get(&new).is_some_and(Member::is_eligible) {
            return Err(Refusal::Invalid);
        }
        if self.successor(old) == Some(new) {
            return Ok(Answer::Done(self.version));
        }
        self.successors.insert(old, new);
        // Those that it replaces itself go to where it goes.
        self.successors
            .values_mut()
            .filter(|successor| **successor == old)
            .for_each(|successor| *successor = new);
        self.set_state(old, MemberState::Draining)
    }

    pub(super) fn leave(&mut self, node: NodeId) -> Reply {
        let member = self.members.get(&node).ok_or(Refusal::NotFound)?;
        if member.state == MemberState::Left {
            return Ok(Answer::Done(self.version));
        }
        if self.partitions().any(|(_, partition)| partition.waits_for(node)) {
            return Err(Refusal::LastCopy);
        }
        if self.partitions().any(|(_, partition)| partition.names(node)) {
            return Err(Refusal::Busy);
        }
        self.successors.retain(|old, new| *old != node && *new != node);
        self.set_state(node, MemberState::Left)
    }

    pub(super) fn lose(&mut self, replica: Replica, shard: u32, shards: u32) -> Reply {
        if !self.is_present(replica) {
            return Err(Refusal::Stale);
        }
        if shard >= shards {
            return Err(Refusal::Invalid);
        }
        let losing: Vec<PartitionId> = self.losing(replica, shard, shards).collect();
        Ok(self.change(|cluster, version| {
            for id in losing {
                if let Some(partition) = cluster.partition_mut(id) {
                    partition.lost.push(replica);
                }
                cluster.advance(id, version);
            }
        }))
    }

    /// The partitions of a node's shard that it is not known to have lost.
    pub(super) fn losing(
        &self,
        replica: Replica,
        shard: u32,
        shards: u32,
    ) -> impl Iterator<Item = PartitionId> {
        let is_of_shard = move |id: &PartitionId| id.index.checked_rem(shards) == Some(shard);
        let kept = self.partitions().filter(move |(_, partition)| !partition.lost.contains(&replica));
        kept.map(|(id, _)| id).filter(is_of_shard)
    }

    pub(super) fn abandon(&mut self, node: NodeId) -> Reply {
        let member = self.members.get(&node).ok_or(Refusal::NotFound)?;
        match (member.state, member.presence) {
            (MemberState::Left, _) => return Err(Refusal::NotFound),
            (_, Presence::Present) => return Err(Refusal::Busy),
            (_, Presence::Evicted | Presence::GivenUp) => {}
        }
        let waiting = self.partitions().filter(|(_, partition)| partition.waits_for(node));
        let waiting: Vec<PartitionId> = waiting.map(|(id, _)| id).collect();
        Ok(self.change(|cluster, version| {
            for id in waiting {
                if let Some(partition) = cluster.partition_mut(id) {
                    partition.abandon(node);
                }
                cluster.advance(id, version);
            }
        }))
    }
}

impl Partition {
    /// Whether nobody else can bring it back: the node alone had all that was acknowledged, and is away.
    pub fn waits_for(&self, node: NodeId) -> bool {
        let is_only = matches!(&self.last_complete[..], [last] if last.node == node);
        self.configuration.replicas.is_empty() && is_only
    }

    /// What nobody else has is lost: it begins anew with what its next holders have.
    fn abandon(&mut self, node: NodeId) {
        self.last_complete.clear();
        // As long as others should hold it, too, they need not wait for a plan.
        if self.target.iter().any(|other| *other != node) {
            self.target.retain(|other| *other != node);
        }
    }
}
