//! From members and classes to the planner of the ring, and back.
//!
//! A plan is made by whoever proposes it and logged as its result: it takes too long for the log's thread, and two versions of the
//! program might not plan the same.

use alloc::{collections::BTreeSet, vec, vec::Vec};
use core::num::NonZeroU8;

use super::{Cluster, Command, MemberState, Partition, Zone, loss::Spares};
use crate::{
    Assignment, ClassId, NodeId, PartitionCount, Replica, RingError, Target, TargetKind, ZoneId, plan_ring,
};

/// As much of a plan as may be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// What to propose; none if nothing would change.
    pub command: Option<Command>,
    /// Whether that is all that the plan wants. If not, there is more to be asked for when less is being copied.
    pub is_whole: bool,
}

impl Cluster {
    /// The command that moves a class to where its partitions should be, given their load (see [`plan_ring`]; empty if none is
    /// known). With fewer members than replicas it plans as many replicas as there are members.
    ///
    /// None if there is no such class, or no member to hold it. Takes long for large clusters.
    pub fn plan(&self, id: ClassId, load: &[u32]) -> Result<Option<Command>, RingError> {
        let planned = self.planned(id, load)?;
        Ok(planned.map(|targets| Command::Retarget { class: id, targets }))
    }

    /// As [`Cluster::plan`], but no more partitions than `moving_max` copy to other nodes at once; those with the fewest complete replicas
    /// come first. Who leads may change everywhere at once, and a partition that nobody ever held has nothing to be copied.
    pub fn plan_step(&self, id: ClassId, load: &[u32], moving_max: u32) -> Result<PlanStep, RingError> {
        let nothing = |is_whole| Ok(PlanStep { command: None, is_whole });
        let Some(class) = self.classes.get(&id) else { return nothing(true) };
        let copying = class.partitions.iter().filter(|partition| partition.is_copying()).count();
        let mut room = usize::try_from(moving_max).unwrap_or(usize::MAX).saturating_sub(copying);
        if room == 0 && class.partitions.iter().all(|partition| !partition.last_complete().is_empty()) {
            return nothing(false);
        }
        let Some(planned) = self.planned(id, load)? else { return nothing(true) };
        let mut order: Vec<usize> = (0..class.partitions.len()).collect();
        order.sort_by_key(|index| class.partitions[*index].configuration.replicas.len());
        let mut targets: Vec<Vec<NodeId>> =
            class.partitions.iter().map(|partition| partition.target().to_vec()).collect();
        let before = targets.clone();
        for index in order {
            let moves = class.partitions[index].would_copy(&planned[index]);
            // One without a target, whose learners were all given up, cannot keep that: a command names somebody for each.
            if !moves || room > 0 || targets[index].is_empty() {
                targets[index].clone_from(&planned[index]);
                room = room.saturating_sub(usize::from(moves));
            }
        }
        let is_whole = targets == planned;
        let command = (targets != before).then_some(Command::Retarget { class: id, targets });
        Ok(PlanStep { command, is_whole })
    }

    /// The target sets of a class as they should be.
    fn planned(&self, id: ClassId, load: &[u32]) -> Result<Option<Vec<Vec<NodeId>>>, RingError> {
        let Some(class) = self.classes.get(&id) else { return Ok(None) };
        let members = self.eligible(id, class.settings.partitions);
        let count = u8::try_from(members.len()).unwrap_or(u8::MAX);
        let Some(replicas) = NonZeroU8::new(class.settings.replicas.min(count)) else { return Ok(None) };
        let Ok(partitions) = PartitionCount::new(class.settings.partitions) else { return Ok(None) };
        let zone_rule = class.settings.zones;
        let asked = crate::ClassSettings { partitions, replicas, target: TARGET, zone_rule };
        let before = class.partitions.iter().map(|partition| self.succeeded(partition.target(), &members));
        let mut before = Assignment(before.collect());
        let losses = self.losses(id);
        if losses.is_empty() {
            return Ok(Some(plan_ring(&members, &asked, &before, load)?.0));
        }
        let of_those = |lost: &[Replica]| -> Vec<NodeId> {
            let present = lost.iter().filter(|replica| self.is_present(**replica));
            present.map(|replica| replica.node).filter(|node| losses.contains_key(node)).collect()
        };
        let lost: Vec<Vec<NodeId>> =
            class.partitions.iter().map(|partition| of_those(&partition.lost)).collect();
        let holders = class.partitions.iter().map(|partition| partition.configuration.replicas.iter());
        let holders: Vec<Vec<NodeId>> =
            holders.map(|replicas| replicas.map(|replica| replica.node).collect()).collect();
        let spares = Spares { members: &members, zone_rule, lost: &lost };
        // What has been lost moves first, so that the plan finds everybody with as much as it should have, and moves nothing else.
        spares.stand_in(&mut before.0, &holders);
        let mut planned = plan_ring(&members, &asked, &before, load)?;
        spares.stand_in(&mut planned.0, &before.0);
        Ok(Some(planned.0))
    }

    /// A target set with successors in place of those that they replace, unless a successor is in it already: a plan moves as little as it
    /// can, so it leaves them there.
    fn succeeded(&self, target: &[NodeId], members: &[crate::Member]) -> Vec<NodeId> {
        let is_eligible = |node: &NodeId| members.iter().any(|member| member.node == *node);
        let mut set: Vec<NodeId> = Vec::with_capacity(target.len());
        for node in target {
            let successor = self.successor(*node).filter(is_eligible);
            let successor = successor.filter(|new| !target.contains(new) && !set.contains(new));
            set.push(successor.unwrap_or(*node));
        }
        set
    }

    /// The members that a plan of a class may give something, as the planner sees them: those that have lost a part of their shards with as
    /// much less weight.
    fn eligible(&self, id: ClassId, partitions: u32) -> Vec<crate::Member> {
        let zones: BTreeSet<&Zone> = self.members.values().map(|member| &member.zone).collect();
        let number = |zone: &Zone| (0..).zip(&zones).find(|(_, known)| **known == zone).map_or(0, |(n, _)| n);
        let losses = self.losses(id);
        // Finer than the weights of members, so that a part of one is told from all of it.
        let heaviest = self.members.values().map(|member| member.weight).max().unwrap_or(0).max(1);
        let scale = if losses.is_empty() { 1 } else { u64::from((u32::MAX / heaviest).clamp(1, partitions)) };
        let weight = |node: &NodeId, weight: u32| {
            let kept = partitions.saturating_sub(losses.get(node).copied().unwrap_or(0));
            let part = u64::from(weight) * scale * u64::from(kept) / u64::from(partitions.max(1));
            u32::try_from(part).expect("the scale leaves room for the heaviest").max(kept.min(1))
        };
        let eligible = self.members.iter().filter(|(_, member)| member.is_eligible());
        let seen = eligible.map(|(node, member)| crate::Member {
            node: *node,
            zone: ZoneId(number(&member.zone)),
            state: crate::MemberState::Active,
            targets: vec![Target { kind: TARGET, weight: weight(node, member.weight) }],
        });
        seen.filter(|member| member.targets.iter().any(|target| target.weight > 0)).collect()
    }

    /// Whether these may be the target sets of a class: one for each partition, of distinct members that have not left.
    pub(super) fn are_targets(&self, id: ClassId, targets: &[Vec<NodeId>]) -> bool {
        let Some(class) = self.classes.get(&id) else { return false };
        let may_hold =
            |node: &NodeId| self.members.get(node).is_some_and(|member| member.state != MemberState::Left);
        let is_set = |set: &Vec<NodeId>| {
            let is_bounded = !set.is_empty() && set.len() <= usize::from(class.settings.replicas);
            is_bounded && set.iter().all(may_hold) && set.iter().collect::<BTreeSet<_>>().len() == set.len()
        };
        targets.len() == class.partitions.len() && targets.iter().all(is_set)
    }
}

impl Partition {
    /// Whether it is being copied right now.
    fn is_copying(&self) -> bool {
        !self.configuration.learners.is_empty()
    }

    /// Whether another target has it copied to somebody who neither holds it nor is asked for yet.
    fn would_copy(&self, target: &[NodeId]) -> bool {
        let is_empty = self.last_complete().is_empty();
        let holds = |node: &NodeId| self.configuration.replicas.iter().any(|replica| replica.node == *node);
        !is_empty && !target.iter().all(|node| self.target().contains(node) || holds(node))
    }
}

/// Members have one kind of target so far.
const TARGET: TargetKind = TargetKind(0);
