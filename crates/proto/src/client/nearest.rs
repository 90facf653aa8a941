//! Which replica a reader asks: the nearest that it has not asked yet.
//!
//! How near a node is the client is told by its surroundings, which know hosts, zones, and how long answers take. Of nodes that are equally
//! near, one is as good as another, and readers take turns. A replica that has just said that it does not serve a partition is asked last.

use alloc::collections::BTreeMap;

use crate::{NodeId, PartitionId, Replica, Time};

/// What is known of the nodes that can be asked.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    ranks: BTreeMap<NodeId, u64>,
    /// Who does not serve which partition, as far as it said, and until when that is believed.
    elsewhere: BTreeMap<(PartitionId, NodeId), Time>,
}

/// A replica that does not serve a partition is asked last for this many microseconds.
const ELSEWHERE_FOR: u64 = 500_000;
/// Of as many it is known at once; those that do not fit are asked in vain.
const ELSEWHERE_MAX: usize = 4096;

impl Nearest {
    /// A node is so far away. One of which nothing is known is not far at all.
    pub(super) fn set_rank(&mut self, node: NodeId, rank: u64) {
        self.ranks.insert(node, rank);
    }

    /// A node does not serve a partition now.
    pub(super) fn shun(&mut self, now: Time, partition: PartitionId, node: NodeId) {
        if self.elsewhere.len() < ELSEWHERE_MAX {
            self.elsewhere.insert((partition, node), now.after(ELSEWHERE_FOR));
        }
    }

    /// Who has a partition has changed.
    pub(super) fn forget(&mut self, partition: PartitionId) {
        self.elsewhere.retain(|(of, _), _| *of != partition);
    }

    /// Time passes.
    pub(super) fn handle_tick(&mut self, now: Time) {
        self.elsewhere.retain(|_, until| *until > now);
    }

    /// The nearest of some replicas that was not asked; `None` if all were. The turn decides among equals.
    pub(super) fn choose(
        &self,
        partition: PartitionId,
        replicas: &[Replica],
        turn: usize,
        asked: &[NodeId],
    ) -> Option<NodeId> {
        let count = replicas.len();
        let place = |index: usize| (index + count - turn % count) % count;
        let nodes = replicas.iter().enumerate().map(|(index, replica)| (index, replica.node));
        let fresh = nodes.filter(|(_, node)| !asked.contains(node));
        let distance = |node: &NodeId| {
            let is_elsewhere = self.elsewhere.contains_key(&(partition, *node));
            (is_elsewhere, self.ranks.get(node).copied().unwrap_or(0))
        };
        fresh.min_by_key(|(index, node)| (distance(node), place(*index))).map(|(_, node)| node)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::{ClassId, Incarnation};

    const PARTITION: PartitionId = PartitionId { class: ClassId(0), index: 3 };

    fn replicas() -> Vec<Replica> {
        (1..=3).map(|node| Replica { node: NodeId(node), incarnation: Incarnation(1) }).collect()
    }

    fn chosen(nearest: &Nearest, turn: usize, asked: &[u32]) -> Option<u32> {
        let asked: Vec<NodeId> = asked.iter().copied().map(NodeId).collect();
        nearest.choose(PARTITION, &replicas(), turn, &asked).map(|node| node.0)
    }

    #[test]
    fn readers_of_equally_near_replicas_take_turns() {
        let nearest = Nearest::default();
        let first: Vec<_> = (0..4).map(|turn| chosen(&nearest, turn, &[])).collect();
        assert_eq!(first, [Some(1), Some(2), Some(3), Some(1)]);
        assert_eq!(chosen(&nearest, 1, &[2]), Some(3), "the next one is asked next");
        assert_eq!(chosen(&nearest, 1, &[2, 3]), Some(1));
        assert_eq!(chosen(&nearest, 1, &[2, 3, 1]), None);
    }

    #[test]
    fn the_nearest_replica_is_asked_first_whoever_has_the_turn() {
        let mut nearest = Nearest::default();
        [(1, 30), (2, 20), (3, 10)].into_iter().for_each(|(node, rank)| nearest.set_rank(NodeId(node), rank));
        for turn in 0..7 {
            assert_eq!(chosen(&nearest, turn, &[]), Some(3));
            assert_eq!(chosen(&nearest, turn, &[3]), Some(2));
            assert_eq!(chosen(&nearest, turn, &[3, 2]), Some(1));
        }
    }

    #[test]
    fn who_does_not_serve_a_partition_is_asked_last_for_a_while() {
        let mut nearest = Nearest::default();
        [(1, 10), (2, 20), (3, 30)].into_iter().for_each(|(node, rank)| nearest.set_rank(NodeId(node), rank));
        nearest.shun(Time(0), PARTITION, NodeId(1));
        assert_eq!(chosen(&nearest, 0, &[]), Some(2));
        assert_eq!(chosen(&nearest, 0, &[2, 3]), Some(1), "it is asked nevertheless");
        nearest.handle_tick(Time(ELSEWHERE_FOR));
        assert_eq!(chosen(&nearest, 0, &[]), Some(1));
        nearest.shun(Time(0), PARTITION, NodeId(1));
        nearest.forget(PARTITION);
        assert_eq!(chosen(&nearest, 0, &[]), Some(1), "its replicas are others");
    }
}
