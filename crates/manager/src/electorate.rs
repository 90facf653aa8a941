//! Who should vote: one, three, or five of the members, so that a majority survives none, one, or two failures.
//!
//! A founder votes before it has registered, so one that votes and is no member yet goes on as if it were one.

use std::collections::BTreeSet;

use tyr_proto::{
    NodeId,
    cluster::{Cluster, Member, MemberState, Presence, Zone},
};

/// A node that may vote.
struct Candidate<'a> {
    node: NodeId,
    zone: Option<&'a Zone>,
    votes: bool,
    is_here: bool,
}

/// The nodes that should vote, given those that do. Those who vote stay as long as they are active and not given up; who joins them is
/// present, and if possible of another zone. Empty if nobody may vote: then everything stays as it is.
pub(crate) fn electorate(cluster: &Cluster, voting: &BTreeSet<NodeId>, most: usize) -> BTreeSet<NodeId> {
    let mut candidates = candidates(cluster, voting);
    let size = odd(candidates.len().min(most));
    candidates.retain(|candidate| candidate.votes || candidate.is_here);
    let mut chosen = Vec::new();
    let mut zones: BTreeSet<Option<&Zone>> = BTreeSet::new();
    while chosen.len() < size && !candidates.is_empty() {
        let rank = |of: &Candidate<'_>| (!of.votes, !of.is_here, zones.contains(&of.zone), of.node);
        let best = (0..candidates.len()).min_by_key(|place| rank(&candidates[*place]));
        let best = candidates.swap_remove(best.expect("there are candidates"));
        chosen.push(best.node);
        zones.insert(best.zone);
    }
    // An even number of voters survives no more failures than one less.
    let count = odd(chosen.len());
    chosen.into_iter().take(count).collect()
}

/// All who may vote, those who are away included.
fn candidates<'a>(cluster: &'a Cluster, voting: &BTreeSet<NodeId>) -> Vec<Candidate<'a>> {
    let may_vote =
        |member: &Member| member.state == MemberState::Active && member.presence != Presence::GivenUp;
    let members = cluster.members().filter(|(_, member)| may_vote(member)).map(|(node, member)| Candidate {
        node,
        zone: Some(&member.zone),
        votes: voting.contains(&node),
        is_here: member.presence == Presence::Present,
    });
    let founders = voting.iter().filter(|node| cluster.member(**node).is_none());
    let founders = founders.map(|node| Candidate { node: *node, zone: None, votes: true, is_here: true });
    members.chain(founders).collect()
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
        cluster::{Address, ClusterId, Command, Identity},
    };

    fn join(cluster: &mut Cluster, node: u32, zone: &str) {
        let command = Command::Register {
            identity: Identity(u128::from(node)),
            incarnation: Incarnation(1),
            memory_since: Incarnation(1),
            zone: Zone::new(zone).unwrap(),
            weight: 1,
            address: Address::new("host:1").unwrap(),
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
    fn a_founder_votes_before_it_has_registered() {
        let mut known = cluster(&[]);
        join(&mut known, 1, "a");
        assert_eq!(electorate(&known, &set(&[7]), 5), set(&[7]));
        join(&mut known, 2, "a");
        assert_eq!(electorate(&known, &set(&[7]), 5), set(&[1, 2, 7]));
    }

    #[test]
    fn nobody_who_is_away_begins_to_vote() {
        let mut known = cluster(&["a", "b", "c"]);
        evict(&mut known, 3);
        assert_eq!(electorate(&known, &set(&[1]), 3), set(&[1]));
    }
}
