//! What holds for every plan, of clusters that change step by step.

use alloc::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::*;

/// Up to twelve nodes, each with a zone, a weight, and whether it drains.
fn cluster() -> impl Strategy<Value = Vec<Member>> {
    vec((0_u32..5, 0_u32..4, prop::bool::weighted(0.2)), 1..12).prop_map(|given| {
        let state = |drains| if drains { MemberState::Draining } else { MemberState::Active };
        let member =
            |(node, (zone, weight, drains))| Member { state: state(drains), ..member(node, zone, weight) };
        (0..).zip(given).map(member).collect()
    })
}

fn takes_part(member: &Member) -> bool {
    member.state == MemberState::Active && member.targets[0].weight > 0
}

/// Checks the zone rule, that no member is twice in a set, and who may hold something.
fn check(plan: &Assignment, members: &[Member], class: &ClassSettings) {
    let distinct =
        |of: &dyn Fn(&NodeId) -> u32, set: &[NodeId]| set.iter().map(of).collect::<BTreeSet<_>>().len();
    for set in &plan.0 {
        assert_eq!(set.len(), usize::from(class.replicas.get()));
        assert_eq!(distinct(&|node| node.0, set), set.len(), "{set:?}");
        assert!(set.iter().all(|node| takes_part(&members[node.0 as usize])));
        if class.zone_rule == ZoneRule::Require {
            assert_eq!(distinct(&|node| members[node.0 as usize].zone.0, set), set.len(), "{set:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_plan_keeps_the_rules_and_is_refused_only_if_it_must(
        steps in vec(cluster(), 1..4), replicas in 1_u8..5, requires: bool, load in vec(0_u32..100, 0..64)
    ) {
        let class = if requires { class(32, replicas) } else { preferring(class(32, replicas)) };
        let mut plan = Assignment::default();
        for members in &steps {
            let able: Vec<_> = members.iter().filter(|member| takes_part(member)).collect();
            let zones: BTreeSet<_> = able.iter().map(|member| member.zone).collect();
            let possible = able.len() >= replicas.into() && (!requires || zones.len() >= replicas.into());
            match plan_ring(members, &class, &plan, &load) {
                Ok(next) => {
                    prop_assert!(possible);
                    check(&next, members, &class);
                    plan = next;
                }
                Err(_) => prop_assert!(!possible),
            }
        }
    }

    #[test]
    fn planning_again_changes_nothing(
        members in cluster(), replicas in 1_u8..4, load in vec(0_u32..100, 0..64), old in 0_u32..12
    ) {
        let class = preferring(class(32, replicas));
        let old = Assignment(vec![vec![NodeId(old)]; 32]);
        if let Ok(plan) = plan_ring(&members, &class, &old, &load) {
            prop_assert_eq!(plan_ring(&members, &class, &plan, &load).unwrap(), plan);
        }
    }

    #[test]
    fn the_order_of_the_members_does_not_matter(
        (members, shuffled) in cluster().prop_flat_map(|members| (Just(members.clone()), Just(members).prop_shuffle()))
    ) {
        let class = preferring(class(32, 2));
        let plan = |members: &[Member]| plan_ring(members, &class, &Assignment::default(), &[]);
        prop_assert_eq!(plan(&members), plan(&shuffled));
    }

    /// Members of one weight, so that the fair share is all slots divided by the members; a hot band is fair on its own.
    #[test]
    fn every_count_is_the_share_rounded(count in 3_u32..12, before in 3_u32..12, hot in 0_u32..64) {
        let (class, members) = (class(64, 3), members(count));
        let old = fresh(&self::members(before), &class);
        let load: Vec<_> = (0..64).map(|index| if index < hot { 1000 } else { 1 }).collect();
        let plan = plan_ring(&members, &class, &old, &load).unwrap();
        let hot = |index: usize| index < hot as usize && hot < 32;
        let rounded = |counts: Vec<usize>| counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1;
        prop_assert!(rounded(held(&plan, &members, all)));
        prop_assert!(rounded(held(&plan, &members, hot)));
    }
}
