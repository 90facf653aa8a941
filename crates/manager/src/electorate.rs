//! Who should vote: one, three, or five of the members, so that a majority survives none, one, or two failures.

use std::collections::BTreeSet;

use tyr_proto::{
    NodeId,
    cluster::{Cluster, Member, MemberState, Presence, Zone},
};

/// The nodes that should vote, given those that do. Those who vote stay as long as they are active and not given up; who joins them is
/// present, and if possible of another zone. Empty if nobody may vote: then everything stays as it is.
pub(crate) fn electorate(cluster: &Cluster, voting: &BTreeSet<NodeId>, most: usize) -> BTreeSet<NodeId> {
    let may_vote =
        |member: &Member| member.state == MemberState::Active && member.presence != Presence::GivenUp;
    let eligible: Vec<(NodeId, &Member)> = cluster.members().filter(|(_, member)| may_vote(member)).collect();
    let size = odd(eligible.len().min(most));
    let mut candidates: Vec<(NodeId, &Member)> = eligible
        .into_iter()
        .filter(|(node, member)| voting.contains(node) || member.presence == Presence::Present)
        .collect();
    let mut chosen = BTreeSet::new();
    let mut zones: BTreeSet<&Zone> = BTreeSet::new();
    while chosen.len() < size && !candidates.is_empty() {
        let rank = |(node, member): &(NodeId, &Member)| {
            let is_away = member.presence != Presence::Present;
            (!voting.contains(node), is_away, zones.contains(&member.zone), *node)
        };
        let best = (0..candidates.len()).min_by_key(|place| rank(&candidates[*place]));
        let (node, member) = candidates.swap_remove(best.expect("there are candidates"));
        chosen.insert(node);
        zones.insert(&member.zone);
    }
    let count = odd(chosen.len());
    // With fewer than there should be, an even number of voters survives no more than one less.
    chosen.into_iter().take(count).collect()
}

/// The largest odd number up to this; zero of zero.
fn odd(count: usize) -> usize {
    if count.is_multiple_of(2) { count.saturating_sub(1) } else { count }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use tyr_proto::{
        Incarnation, Replica,
        cluster::{ClusterId, Command, Identity},
    };

    fn join(cluster: &mut Cluster, node: u32, zone: &str) {
        let command = Command::Register {
            identity: Identity(u128::from(node)),
            incarnation: Incarnation(1),
            memory_since: Incarnation(1),
            zone: Zone::new(zone).unwrap(),
            weight: 1,
        };
        cluster.apply(command).unwrap();
    }

    fn cluster(zones: &[&str]) -> Cluster {
        let mut cluster = Cluster::new(ClusterId(7));
        cluster.apply(Command::Found(Vec::new())).unwrap();
        (1..).zip(zones).for_each(|(node, zone)| join(&mut cluster, node, zone));
        cluster
    }

    fn evict(cluster: &mut Cluster, node: u32) {
        let replica = Replica { node: NodeId(node), incarnation: Incarnation(1) };
        cluster.apply(Command::Evict(replica)).unwrap();
    }

    fn set(nodes: &[u32]) -> BTreeSet<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn it_grows_from_one_to_three_to_five_as_members_join() {
        let mut known = cluster(&[]);
        let mut voting = BTreeSet::new();
        let mut sizes = Vec::new();
        for node in 1..=8 {
            join(&mut known, node, &format!("z{node}"));
            voting = electorate(&known, &voting, 5);
            sizes.push(voting.len());
        }
        assert_eq!(sizes, [1, 1, 3, 3, 5, 5, 5, 5]);
        assert_eq!(voting, set(&[1, 2, 3, 4, 5]), "who votes stays");
    }

    #[test]
    fn it_shrinks_as_members_are_drained() {
        let mut known = cluster(&["a", "b", "c", "d", "e"]);
        let mut voting = set(&[1, 2, 3, 4, 5]);
        let mut sizes = Vec::new();
        for node in 1..=5 {
            known.apply(Command::Drain(NodeId(node))).unwrap();
            voting = electorate(&known, &voting, 5);
            sizes.push(voting.len());
        }
        assert_eq!(sizes, [3, 3, 1, 1, 0], "and at last everything stays as it is");
    }

    #[test]
    fn voters_are_of_different_zones_where_they_can() {
        let known = cluster(&["a", "a", "a", "b", "c"]);
        assert_eq!(electorate(&known, &set(&[1]), 3), set(&[1, 4, 5]));
    }

    #[test]
    fn a_voter_that_is_away_is_replaced_when_it_is_given_up_and_not_before() {
        let mut known = cluster(&["a", "b", "c", "d"]);
        evict(&mut known, 2);
        let voting = set(&[1, 2, 3]);
        assert_eq!(electorate(&known, &voting, 3), voting);
        known.apply(Command::GiveUp(NodeId(2))).unwrap();
        assert_eq!(electorate(&known, &voting, 3), set(&[1, 3, 4]));
    }

    #[test]
    fn nobody_who_is_away_begins_to_vote() {
        let mut known = cluster(&["a", "b", "c"]);
        evict(&mut known, 3);
        assert_eq!(electorate(&known, &set(&[1]), 3), set(&[1]));
    }
}
