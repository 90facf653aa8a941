#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::{format, string::ToString};

use super::*;

mod optimality;
mod properties;

const KIND: TargetKind = TargetKind(1);

fn member(node: u32, zone: u32, weight: u32) -> Member {
    let targets = vec![Target { kind: KIND, weight }];
    Member { node: NodeId(node), zone: ZoneId(zone), state: MemberState::Active, targets }
}

/// Members of weight 1, each in a zone of its own.
fn members(count: u32) -> Vec<Member> {
    (0..count).map(|node| member(node, node, 1)).collect()
}

fn class(partitions: u32, replicas: u8) -> ClassSettings {
    ClassSettings {
        partitions: PartitionCount::new(partitions).unwrap(),
        replicas: NonZeroU8::new(replicas).unwrap(),
        target: KIND,
        zone_rule: ZoneRule::Require,
    }
}

fn preferring(class: ClassSettings) -> ClassSettings {
    ClassSettings { zone_rule: ZoneRule::Prefer, ..class }
}

fn fresh(members: &[Member], class: &ClassSettings) -> Assignment {
    plan_ring(members, class, &Assignment::default(), &[]).unwrap()
}

/// How many of some partitions each member holds.
fn held(plan: &Assignment, members: &[Member], partitions: impl Fn(usize) -> bool) -> Vec<usize> {
    let sets = || plan.0.iter().enumerate().filter(|(index, _)| partitions(*index));
    members.iter().map(|member| sets().filter(|(_, set)| set.contains(&member.node)).count()).collect()
}

/// Of how many of some partitions each member is the primary.
fn led(plan: &Assignment, members: &[Member], partitions: impl Fn(usize) -> bool) -> Vec<usize> {
    let sets = || plan.0.iter().enumerate().filter(|(index, _)| partitions(*index));
    members.iter().map(|member| sets().filter(|(_, set)| set[0] == member.node).count()).collect()
}

fn all(_: usize) -> bool {
    true
}

#[test]
fn a_single_member_holds_everything() {
    assert_eq!(fresh(&members(1), &class(4, 1)), Assignment(vec![vec![NodeId(0)]; 4]));
}

/// Who changes this changes where every new cluster puts its data; existing ones keep their assignment.
#[test]
fn the_plan_of_a_small_cluster_is_what_it_always_was() {
    let plan = fresh(&members(4), &class(8, 2));
    let text: Vec<_> = plan.0.iter().map(|set| format!("{}>{}", set[0], set[1])).collect();
    assert_eq!(text.join(" "), "n3>n1 n2>n1 n1>n3 n0>n2 n3>n0 n0>n2 n2>n3 n1>n0");
}

#[test]
fn replicas_and_primaries_are_as_many_on_each_member() {
    let members = members(10);
    let plan = fresh(&members, &class(1024, 3));
    assert!(held(&plan, &members, all).iter().all(|count| [307, 308].contains(count)));
    assert!(led(&plan, &members, all).iter().all(|count| [102, 103].contains(count)));
}

#[test]
fn replicas_and_primaries_follow_the_weights() {
    let members = [member(0, 0, 1), member(1, 1, 1), member(2, 2, 2), member(3, 3, 4)];
    let plan = fresh(&members, &class(512, 2));
    assert_eq!(held(&plan, &members, all), [128, 128, 256, 512]);
    assert_eq!(led(&plan, &members, all), [64, 64, 128, 256]);
}

#[test]
fn a_member_that_is_too_heavy_holds_each_partition_once() {
    let members = [member(0, 0, 100), member(1, 1, 1), member(2, 2, 1)];
    assert_eq!(held(&fresh(&members, &class(64, 2)), &members, all), [64, 32, 32]);
}

#[test]
fn a_zone_that_is_too_heavy_holds_each_partition_once_and_divides_it_evenly() {
    let members = [0, 1, 2, 3].map(|node| member(node, 0, 1));
    let members = [&members[..], &[member(4, 1, 1), member(5, 2, 1)]].concat();
    assert_eq!(held(&fresh(&members, &class(64, 3)), &members, all), [16, 16, 16, 16, 64, 64]);
}

#[test]
fn with_too_few_zones_each_holds_as_few_replicas_as_possible() {
    let members = [member(0, 0, 1), member(1, 0, 1), member(2, 0, 1), member(3, 1, 1), member(4, 1, 1)];
    let plan = fresh(&members, &preferring(class(64, 3)));
    let in_first = |set: &Vec<NodeId>| set.iter().filter(|node| node.0 < 3).count();
    assert!(plan.0.iter().all(|set| [1, 2].contains(&in_first(set))));
    let counts = held(&plan, &members, all);
    assert!(counts.iter().all(|count| [38, 39].contains(count)), "{counts:?}");
}

#[test]
fn too_few_zones_are_refused_if_the_class_requires_them() {
    let members = [member(0, 0, 1), member(1, 0, 1), member(2, 1, 1)];
    let refused = plan_ring(&members, &class(4, 3), &Assignment::default(), &[]).unwrap_err();
    assert_eq!(refused, RingError::TooFewZones { needed: 3, found: 2 });
    assert!(refused.to_string().contains("add members in other zones"));
}

#[test]
fn more_replicas_than_members_are_refused() {
    for class in [class(4, 3), preferring(class(4, 3))] {
        let refused = plan_ring(&members(2), &class, &Assignment::default(), &[]).unwrap_err();
        assert_eq!(refused, RingError::TooFewMembers { needed: 3, found: 2 });
        assert!(refused.to_string().contains("add members or targets"));
    }
}

#[test]
fn only_active_members_with_weight_and_the_right_targets_get_something() {
    let mut members = members(6);
    members[0].state = MemberState::Draining;
    members[1].targets[0].weight = 0;
    members[2].targets[0].kind = TargetKind(9);
    let plan = plan_ring(&members, &class(64, 3), &fresh(&self::members(6), &class(64, 3)), &[]).unwrap();
    assert_eq!(held(&plan, &members, all), [0, 0, 0, 64, 64, 64]);
    members[3].targets.clear();
    let refused = plan_ring(&members, &class(64, 3), &plan, &[]).unwrap_err();
    assert_eq!(refused, RingError::TooFewMembers { needed: 3, found: 2 });
}

#[test]
fn the_targets_of_one_kind_count_together() {
    let mut members = [member(0, 0, 1), member(1, 1, 2), member(2, 2, 3)];
    members[0]
        .targets
        .extend([Target { kind: KIND, weight: 2 }, Target { kind: TargetKind(7), weight: 100 }]);
    assert_eq!(held(&fresh(&members, &class(64, 1)), &members, all), [24, 16, 24]);
}

#[test]
fn a_member_that_is_listed_twice_is_refused() {
    let members = [member(7, 0, 1), member(7, 1, 1)];
    let refused = plan_ring(&members, &class(4, 1), &Assignment::default(), &[]).unwrap_err();
    assert_eq!(refused, RingError::MemberTwice(NodeId(7)));
}

#[test]
fn a_plan_that_would_take_too_much_memory_is_refused() {
    let refused = plan_ring(&members(2049), &class(65_536, 3), &Assignment::default(), &[]).unwrap_err();
    assert_eq!(refused, RingError::TooLarge { partitions: 65_536, members: 2049 });
}

#[test]
fn who_joins_gets_its_share_and_nothing_else_moves() {
    for count in 3..24 {
        let (class, members) = (class(256, 3), members(count + 1));
        let old = fresh(&members[..count as usize], &class);
        let plan = plan_ring(&members, &class, &old, &[]).unwrap();
        let gained = *held(&plan, &members, all).last().unwrap();
        assert_eq!(plan.copies_from(&old), gained);
        assert!(gained <= (256 * 3_usize).div_ceil(count as usize + 1));
    }
}

#[test]
fn who_leaves_is_replaced_and_nothing_else_moves() {
    for count in 4..24 {
        let (class, members) = (class(256, 3), members(count));
        let old = fresh(&members, &class);
        let plan = plan_ring(&members[1..], &class, &old, &[]).unwrap();
        assert_eq!(plan.copies_from(&old), held(&old, &members, all)[0]);
    }
}

#[test]
fn a_drain_moves_what_a_leave_moves() {
    let (class, mut members) = (class(256, 3), members(9));
    let old = fresh(&members, &class);
    let left = plan_ring(&members[1..], &class, &old, &[]).unwrap();
    members[0].state = MemberState::Draining;
    assert_eq!(plan_ring(&members, &class, &old, &[]).unwrap(), left);
}

#[test]
fn another_number_of_replicas_keeps_those_that_are_there() {
    let members = members(8);
    let two = fresh(&members, &class(256, 2));
    let three = plan_ring(&members, &class(256, 3), &two, &[]).unwrap();
    assert_eq!(three.copies_from(&two), 256);
    let back = plan_ring(&members, &class(256, 2), &three, &[]).unwrap();
    assert_eq!(back.copies_from(&three), 0);
}

/// A member holds 192 of 1024 partitions; 15 others hold the 384 other replicas of these, 25.6 on average.
#[test]
fn all_members_share_the_work_of_one_that_fails() {
    let members = members(16);
    let plan = fresh(&members, &class(1024, 3));
    for member in &members {
        let shared = |index: usize| plan.0[index].contains(&member.node);
        let with = held(&plan, &members, shared);
        assert!(with.iter().all(|&count| count >= 5), "{} shares {with:?}", member.node);
        assert!(with.iter().filter(|&&count| count > 60).count() <= 1, "{} shares {with:?}", member.node);
    }
}

#[test]
fn hot_partitions_are_spread_over_all_members() {
    let (class, members) = (class(1024, 3), members(16));
    let old = fresh(&members, &class);
    // Of the partitions of which node 0 is the primary, 32 are hot.
    let hot: Vec<_> = (0..1024).filter(|&index| old.0[index][0] == NodeId(0)).take(32).collect();
    let load: Vec<_> = (0..1024).map(|index| if hot.contains(&index) { 1000 } else { 7 }).collect();
    let plan = plan_ring(&members, &class, &old, &load).unwrap();
    assert_eq!(held(&plan, &members, |index| hot.contains(&index)), [6; 16]);
    assert_eq!(led(&plan, &members, |index| hot.contains(&index)), [2; 16]);
    assert_eq!(held(&plan, &members, all), [192; 16]);
    // Node 0 gives up 26 hot partitions for as many cold ones; others exchange a few.
    let copies = plan.copies_from(&old);
    assert!((52..100).contains(&copies), "{copies}");
}

#[test]
fn loads_that_differ_little_move_nothing() {
    let (class, members) = (class(256, 3), members(7));
    let old = fresh(&members, &class);
    let load: Vec<_> = (0..256).map(|index| 100 + index % 60).collect();
    assert_eq!(plan_ring(&members, &class, &old, &load).unwrap(), old);
    assert_eq!(plan_ring(&members, &class, &old, &[u32::MAX; 256]).unwrap(), old);
    assert_eq!(plan_ring(&members, &class, &old, &[0; 256]).unwrap(), old);
}
