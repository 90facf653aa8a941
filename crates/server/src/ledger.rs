//! What all nodes hold of keyspaces with quotas, as they tell the one who leads the cluster manager (ADR 0019).
//!
//! It is kept in memory only: a new leader hears of all of it within the time in which nodes tell it. Until then it says nothing, and nodes go
//! by what they were told last.

use std::collections::BTreeMap;

use tyr_proto::{Bound, Bounds, NodeId, Time, Uses};
use tyr_types::KeyspaceId;

use crate::reception::Quotas;

/// What nodes have told lately.
#[derive(Debug, Default)]
pub(crate) struct Ledger(BTreeMap<NodeId, (Time, Uses)>);

impl Ledger {
    /// A node holds this.
    pub fn tell(&mut self, now: Time, node: NodeId, uses: Uses) {
        self.0.insert(node, (now, uses));
    }

    /// What all hold together, if these have told lately, who are all who may hold anything. What others have told who were there a moment ago
    /// counts until it is too old: who takes over from them tells of it by then.
    pub fn total(&mut self, now: Time, present: impl IntoIterator<Item = NodeId>) -> Option<Uses> {
        self.0.retain(|_, (at, _)| now.since(*at) < TOLD_FOR);
        let mut total = Uses::new();
        for (keyspace, held) in self.0.values().flat_map(|(_, uses)| uses) {
            total.entry(*keyspace).or_default().add(*held);
        }
        present.into_iter().all(|node| self.0.contains_key(&node)).then_some(total)
    }
}

/// What a shard is told that holds `own` itself: what lies elsewhere, by what all nodes hold and what this node had told of that.
pub(crate) fn bounds_for(quotas: &Quotas, total: &Uses, told: &Uses, others_here: &Uses) -> Bounds {
    let bytes = |uses: &Uses, keyspace: &KeyspaceId| uses.get(keyspace).map_or(0, |held| held.bytes);
    let bound = |(keyspace, quota): (&KeyspaceId, &u64)| {
        let other_nodes = bytes(total, keyspace).saturating_sub(bytes(told, keyspace));
        let elsewhere = other_nodes.saturating_add(bytes(others_here, keyspace));
        (*keyspace, Bound { quota: *quota, elsewhere })
    };
    quotas.iter().map(bound).collect()
}

/// What was told counts for this long, in microseconds: longer than a lease, after which somebody else leads what the node led.
const TOLD_FOR: u64 = 4_000_000;

#[cfg(test)]
mod tests {
    use tyr_proto::Use;

    use super::*;

    const ONE: KeyspaceId = KeyspaceId(1);

    fn held(bytes: u64) -> Uses {
        [(ONE, Use { blobs: 1, bytes })].into()
    }

    #[test]
    fn what_all_hold_is_known_when_all_have_told() {
        let mut ledger = Ledger::default();
        let nodes = || [NodeId(1), NodeId(2)];
        ledger.tell(Time(0), NodeId(1), held(10));
        assert_eq!(ledger.total(Time(1), nodes()), None);
        ledger.tell(Time(2), NodeId(2), held(5));
        ledger.tell(Time(3), NodeId(1), held(11));
        let all = ledger.total(Time(4), nodes()).unwrap();
        assert_eq!(all[&ONE], Use { blobs: 2, bytes: 16 });
        ledger.tell(Time(TOLD_FOR), NodeId(2), held(7));
        let left = ledger.total(Time(TOLD_FOR + 3), [NodeId(2)]).unwrap();
        assert_eq!(left[&ONE].bytes, 7, "the other one was not heard of for too long");
        assert_eq!(ledger.total(Time(TOLD_FOR + 3), nodes()), None);
    }

    #[test]
    fn a_shard_is_told_what_lies_on_other_nodes_and_on_others_of_its_own() {
        let quotas = [(ONE, 100)].into();
        let bounds = bounds_for(&quotas, &held(60), &held(25), &held(7));
        assert_eq!(bounds[&ONE], Bound { quota: 100, elsewhere: 42 });
        let bounds = bounds_for(&quotas, &Uses::new(), &held(25), &Uses::new());
        assert_eq!(bounds[&ONE].elsewhere, 0, "nothing is known of others");
    }
}
