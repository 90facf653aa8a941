//! What a plan makes of shards that have failed: others get what a node has lost, and its share of the class is as much smaller.
//!
//! As soon as the node starts again nothing of it is lost any more, and the next plan gives it its share back. A node that has lost all of
//! its shards at once is about to stop, and plans count on its return as on that of any other.

use alloc::{collections::BTreeMap, vec::Vec};

use super::Cluster;
use crate::{ClassId, Member, NodeId, ZoneId, ZoneRule};

impl Cluster {
    /// How many partitions of a class each node has lost that goes on without them, whether it held them or not.
    pub(crate) fn losses(&self, id: ClassId) -> BTreeMap<NodeId, u32> {
        let mut losses = BTreeMap::new();
        let Some(class) = self.classes.get(&id) else { return losses };
        let lost = class.partitions.iter().flat_map(|partition| &partition.lost);
        for replica in lost.filter(|replica| self.is_present(**replica)) {
            *losses.entry(replica.node).or_insert(0) += 1;
        }
        losses.retain(|_, count| *count < class.settings.partitions);
        losses
    }
}

/// Who may stand in for nodes that have lost a partition.
pub(super) struct Spares<'a> {
    /// Those that a plan may give something, with their weights in this class.
    pub(super) members: &'a [Member],
    pub(super) zone_rule: ZoneRule,
    /// Of each partition, who cannot hold it.
    pub(super) lost: &'a [Vec<NodeId>],
}

impl Spares<'_> {
    /// Puts others into the place of those that have lost a partition, preferably some that had it. Who has no substitute stays: it is to
    /// have it as soon as it can. A substitute comes last, so that it does not lead what others have led until now.
    pub(super) fn stand_in(&self, sets: &mut [Vec<NodeId>], had: &[Vec<NodeId>]) {
        let mut shares: BTreeMap<NodeId, u64> = BTreeMap::new();
        for node in sets.iter().flatten() {
            *shares.entry(*node).or_insert(0) += 1;
        }
        for (index, lost) in self.lost.iter().enumerate().filter(|(_, lost)| !lost.is_empty()) {
            let (Some(set), Some(had)) = (sets.get_mut(index), had.get(index)) else { continue };
            for gone in lost {
                let Some(place) = set.iter().position(|node| node == gone) else { continue };
                let others: Vec<NodeId> = set.iter().copied().filter(|node| node != gone).collect();
                let Some(spare) = self.spare(&others, lost, had, &shares) else { continue };
                set.remove(place);
                set.push(spare);
                *shares.entry(spare).or_insert(0) += 1;
                shares.entry(*gone).and_modify(|share| *share -= 1);
            }
        }
    }

    /// Who joins these best: apart from them, one that had the partition, and one that has little for its weight.
    fn spare(
        &self,
        others: &[NodeId],
        lost: &[NodeId],
        had: &[NodeId],
        shares: &BTreeMap<NodeId, u64>,
    ) -> Option<NodeId> {
        let crowd =
            |member: &Member| others.iter().filter(|node| self.zone(**node) == Some(member.zone)).count();
        let may = self.members.iter().filter(|member| {
            let is_other = !others.contains(&member.node) && !lost.contains(&member.node);
            is_other && (self.zone_rule == ZoneRule::Prefer || crowd(member) == 0)
        });
        let fill = |member: &Member| {
            let share = shares.get(&member.node).copied().unwrap_or(0);
            let weight: u64 = member.targets.iter().map(|target| u64::from(target.weight)).sum();
            (u128::from(share) << 64) / u128::from(weight.max(1))
        };
        let best =
            may.min_by_key(|member| (crowd(member), !had.contains(&member.node), fill(member), member.node));
        best.map(|member| member.node)
    }

    fn zone(&self, node: NodeId) -> Option<ZoneId> {
        self.members.iter().find(|member| member.node == node).map(|member| member.zone)
    }
}
