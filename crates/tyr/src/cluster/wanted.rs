//! How many replicas partitions should have, as far as there are nodes for them.

use std::collections::BTreeMap;

use tyr_server::{Fact, Member, NodeId, Presence};

/// By what the cluster manager tells.
pub struct Wanted {
    /// By the numbers of classes.
    replicas: BTreeMap<u8, usize>,
    /// How many nodes may hold some.
    holders: usize,
}

impl Wanted {
    /// With all nodes that stay, whether they are there or away. Who is about to go is not counted on.
    pub fn of(facts: &[Fact]) -> Self {
        Self::with(facts, |_, member| member.is_eligible())
    }

    /// With those that are there, but for one that goes.
    pub fn there(facts: &[Fact], gone: Option<NodeId>) -> Self {
        let is_there = |member: &Member| member.presence == Presence::Present && member.is_eligible();
        Self::with(facts, |node, member| Some(node) != gone && is_there(member))
    }

    fn with(facts: &[Fact], counts: impl Fn(NodeId, &Member) -> bool) -> Self {
        let is_holder = |fact: &&Fact| matches!(fact, Fact::Member(node, member) if counts(*node, member));
        let of_class = |fact: &Fact| match fact {
            Fact::Class(class, settings) => Some((class.0, usize::from(settings.replicas))),
            _ => None,
        };
        Wanted {
            replicas: facts.iter().filter_map(of_class).collect(),
            holders: facts.iter().filter(is_holder).count(),
        }
    }

    /// Whether this is a partition that has fewer.
    pub fn is_lacking(&self, fact: &Fact) -> bool {
        let Fact::Partition(id, configuration, _) = fact else { return false };
        let wanted = self.replicas.get(&id.class.0).copied().unwrap_or(1);
        configuration.replicas.len() < wanted.min(self.holders)
    }
}
