//! From members and classes to the planner of the ring, and back.
//!
//! A plan is made by whoever proposes it and logged as its result: it takes too long for the log's thread, and two versions of the
//! program might not plan the same.

use alloc::{collections::BTreeSet, vec, vec::Vec};
use core::num::NonZeroU8;

use super::{Cluster, Command, MemberState, Zone};
use crate::{Assignment, ClassId, NodeId, PartitionCount, RingError, Target, TargetKind, ZoneId, plan_ring};

impl Cluster {
    /// The command that moves a class to where its partitions should be, given their load (see [`plan_ring`]; empty if none is
    /// known). With fewer members than replicas it plans as many replicas as there are members.
    ///
    /// None if there is no such class, or no member to hold it. Takes long for large clusters.
    pub fn plan(&self, id: ClassId, load: &[u32]) -> Result<Option<Command>, RingError> {
        let members = self.eligible();
        let Some(class) = self.classes.get(&id) else { return Ok(None) };
        let count = u8::try_from(members.len()).unwrap_or(u8::MAX);
        let Some(replicas) = NonZeroU8::new(class.settings.replicas.min(count)) else { return Ok(None) };
        let Ok(partitions) = PartitionCount::new(class.settings.partitions) else { return Ok(None) };
        let zone_rule = class.settings.zones;
        let asked = crate::ClassSettings { partitions, replicas, target: TARGET, zone_rule };
        let before = class.partitions.iter().map(|partition| partition.target().to_vec());
        let planned = plan_ring(&members, &asked, &Assignment(before.collect()), load)?;
        Ok(Some(Command::Retarget { class: id, targets: planned.0 }))
    }

    /// The members that a plan may give something, as the planner sees them.
    fn eligible(&self) -> Vec<crate::Member> {
        let zones: BTreeSet<&Zone> = self.members.values().map(|member| &member.zone).collect();
        let number = |zone: &Zone| (0..).zip(&zones).find(|(_, known)| **known == zone).map_or(0, |(n, _)| n);
        let eligible = self.members.iter().filter(|(_, member)| member.is_eligible());
        let seen = eligible.map(|(node, member)| crate::Member {
            node: *node,
            zone: ZoneId(number(&member.zone)),
            state: crate::MemberState::Active,
            targets: vec![Target { kind: TARGET, weight: member.weight }],
        });
        seen.collect()
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

/// Members have one kind of target so far.
const TARGET: TargetKind = TargetKind(0);
