//! What the cluster manager knows of nodes and of who holds what, as far as nodes come and go.

use tyr_server::{Difference, Fact, Member, MemberState, NodeId, Presence};

use super::Wanted;

/// What the cluster manager knows.
pub struct Picture(pub Difference);

impl Picture {
    /// A member that has not left.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.0.facts.iter().find_map(|fact| match fact {
            Fact::Member(id, member) if *id == node && member.state != MemberState::Left => Some(member),
            _ => None,
        })
    }

    /// The member at an address: of those that lost their directories and joined again, the last one.
    pub fn at(&self, address: &str) -> Option<NodeId> {
        let members = self.0.facts.iter().filter_map(|fact| match fact {
            Fact::Member(id, member)
                if member.address.as_str() == address && member.state != MemberState::Left =>
            {
                Some((member.presence == Presence::Present, *id))
            }
            _ => None,
        });
        members.max().map(|(_, id)| id)
    }

    /// That member, if it is present.
    pub fn present_at(&self, address: &str) -> Option<NodeId> {
        let node = self.at(address)?;
        self.member(node).is_some_and(|member| member.presence == Presence::Present).then_some(node)
    }

    /// Of how many partitions it is a complete replica.
    pub fn held_by(&self, node: NodeId) -> usize {
        let is_held = |fact: &&Fact| match fact {
            Fact::Partition(_, configuration, _) => {
                configuration.replicas.iter().any(|replica| replica.node == node)
            }
            _ => false,
        };
        self.0.facts.iter().filter(is_held).count()
    }

    /// Of how many it is that, or is to become it.
    pub fn named(&self, node: NodeId) -> usize {
        let is_named = |fact: &&Fact| match fact {
            Fact::Partition(_, configuration, proposal) => {
                let next = proposal.iter().flat_map(|next| next.replicas.iter().chain(&next.learners));
                let now = configuration.replicas.iter().chain(&configuration.learners);
                now.chain(next).any(|replica| replica.node == node)
            }
            _ => false,
        };
        self.0.facts.iter().filter(is_named).count()
    }

    /// How many partitions have fewer replicas than the nodes that are there could hold, but for one that goes.
    pub fn lacking(&self, gone: Option<NodeId>) -> usize {
        let wanted = Wanted::there(&self.0.facts, gone);
        self.0.facts.iter().filter(|fact| wanted.is_lacking(fact)).count()
    }

    /// A node that is away and expected back, other than one that goes: until that is over no others get what it is to hold.
    pub fn awaited(&self, gone: Option<NodeId>) -> Option<NodeId> {
        self.0.facts.iter().find_map(|fact| match fact {
            Fact::Member(id, member) if Some(*id) != gone => {
                (member.is_eligible() && member.presence == Presence::Evicted).then_some(*id)
            }
            _ => None,
        })
    }

    /// The same in words, behind what is waited for.
    pub fn for_whom(&self, gone: Option<NodeId>) -> String {
        self.awaited(gone).map_or_else(String::new, |node| {
            format!(
                ", as node {0}, which is away, is expected back for some ten minutes (start it again, or remove it: tyr cluster remove {0})",
                node.0
            )
        })
    }

    /// How many active nodes remain when one is drained, and how many replicas a class wants, if that is more.
    pub fn scarcity_without(&self, node: NodeId) -> Option<(usize, usize)> {
        let wanted = self.0.facts.iter().filter_map(|fact| match fact {
            Fact::Class(_, settings) => Some(usize::from(settings.replicas)),
            _ => None,
        });
        let remains =
            |fact: &&Fact| matches!(fact, Fact::Member(id, member) if *id != node && member.is_eligible());
        let remain = self.0.facts.iter().filter(remains).count();
        wanted.max().filter(|replicas| remain < *replicas).map(|replicas| (remain, replicas))
    }

    /// How many partitions are held by nobody who is there.
    pub fn unserved(&self) -> usize {
        let is_unserved = |fact: &&Fact| match fact {
            Fact::Partition(_, configuration, _) => configuration.replicas.is_empty(),
            _ => false,
        };
        self.0.facts.iter().filter(is_unserved).count()
    }

    /// Whether any is.
    pub fn is_unserved(&self) -> bool {
        self.unserved() > 0
    }

    /// Whether there are some that may be served only when a node is back: one that is there would serve them.
    pub fn may_wait_for(&self, node: NodeId) -> bool {
        let is_away = self.member(node).is_some_and(|member| member.presence != Presence::Present);
        is_away && self.is_unserved()
    }

    /// How many partitions are about to change hands.
    pub fn moving(&self) -> usize {
        let is_moving = |fact: &&Fact| match fact {
            Fact::Partition(_, configuration, proposal) => {
                proposal.is_some() || !configuration.learners.is_empty()
            }
            _ => false,
        };
        self.0.facts.iter().filter(is_moving).count()
    }

    /// Whether any is.
    pub fn is_moving(&self) -> bool {
        self.moving() > 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_proto::{
        Incarnation,
        cluster::{Address, Identity, Position, Zone},
    };

    use super::*;

    fn member(node: u32, state: MemberState, presence: Presence) -> Fact {
        let member = Member {
            identity: Identity(node.into()),
            incarnation: Incarnation(1),
            memory_since: Incarnation(1),
            zone: Zone::new("z").unwrap(),
            weight: 100,
            address: Address::new(&format!("host{node}:7700")).unwrap(),
            state,
            presence,
        };
        Fact::Member(NodeId(node), member)
    }

    #[test]
    fn who_is_away_is_awaited_until_it_is_given_up_or_is_what_goes() {
        use MemberState::{Active, Draining, Left};
        use Presence::{Evicted, GivenUp, Present};
        let picture = |state, presence| {
            let facts =
                vec![member(1, Active, Present), member(2, Draining, Evicted), member(3, state, presence)];
            Picture(Difference { facts, next: Position::default(), reached: None })
        };
        let away = picture(Active, Evicted);
        assert_eq!(away.awaited(Some(NodeId(2))), Some(NodeId(3)));
        assert!(
            away.for_whom(None).contains("node 3, which is away") && away.for_whom(None).contains("remove 3")
        );
        assert_eq!(away.awaited(Some(NodeId(3))), None, "it goes");
        for (state, presence) in [(Active, Present), (Active, GivenUp), (Draining, Evicted), (Left, Evicted)]
        {
            assert_eq!(picture(state, presence).awaited(None), None, "{state:?}, {presence:?}");
            assert_eq!(picture(state, presence).for_whom(None), "");
        }
    }
}
