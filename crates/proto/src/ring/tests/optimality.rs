//! Small plans are compared with all others that there are.

use alloc::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::*;

/// The fair share of each member by bisection, in floating point: every member fills like a vessel up to one level, and so does
/// every zone that is full.
fn shares(members: &[Member], class: &ClassSettings, zone_max: f64) -> Vec<f64> {
    let partitions = f64::from(class.partitions.get());
    let inside = |zone: ZoneId, level: f64| -> f64 {
        let weights =
            members.iter().filter(|member| member.zone == zone).map(|m| f64::from(m.targets[0].weight));
        weights.map(|weight| (weight * level).min(partitions)).sum()
    };
    let zones: BTreeSet<_> = members.iter().map(|member| member.zone).collect();
    let zone_slots = partitions * zone_max;
    let held = |level| zones.iter().map(|&zone| inside(zone, level).min(zone_slots)).sum::<f64>();
    let level = level_at(held, partitions * f64::from(class.replicas.get()));
    let share = |member: &Member| {
        let own = if inside(member.zone, level) > zone_slots {
            level_at(|level| inside(member.zone, level), zone_slots)
        } else {
            level
        };
        (f64::from(member.targets[0].weight) * own).min(partitions)
    };
    members.iter().map(share).collect()
}

/// The least level at which so much is held.
fn level_at(held: impl Fn(f64) -> f64, wanted: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if held(middle) < wanted - 1e-9 { low = middle } else { high = middle }
    }
    high
}

fn is_rounded(count: usize, share: f64) -> bool {
    count as f64 > share - 1.0 + 1e-6 && (count as f64) < share + 1.0 - 1e-6
}

/// All ways to take `take` members of which at most `zone_max` are in one zone.
fn sets(members: &[Member], take: usize, zone_max: usize) -> Vec<Vec<NodeId>> {
    let mut found = Vec::new();
    for choice in 0_u32..1 << members.len() {
        let set: Vec<_> = (0..members.len()).filter(|&place| choice & 1 << place != 0).collect();
        let in_zone = |zone| set.iter().filter(|&&place| members[place].zone == zone).count();
        if set.len() == take && set.iter().all(|&place| in_zone(members[place].zone) <= zone_max) {
            found.push(set.iter().map(|&place| members[place].node).collect());
        }
    }
    found
}

/// Every way to give each partition one of its options.
fn every_choice<T: Clone>(options: &[Vec<T>]) -> Vec<Vec<T>> {
    options.iter().fold(vec![Vec::new()], |choices, next| {
        let longer = |choice: &Vec<T>| {
            next.iter().map(|option| [&choice[..], core::slice::from_ref(option)].concat()).collect()
        };
        choices.iter().flat_map(|choice| -> Vec<Vec<T>> { longer(choice) }).collect()
    })
}

/// What a plan must be rounded in: the number of partitions, and which. All, and those of each band of load.
type Band = (f64, fn(usize) -> bool);

const EVEN: &[Band] = &[(4.0, all)];
const FIRST_IS_HOT: &[Band] = &[(4.0, all), (1.0, |index| index == 0), (3.0, |index| index > 0)];

fn is_fair(plan: &Assignment, members: &[Member], shares: &[f64], bands: &[Band]) -> bool {
    bands.iter().all(|&(size, band)| {
        let held = held(plan, members, band);
        held.into_iter().zip(shares).all(|(count, share)| is_rounded(count, share * size / 4.0))
    })
}

/// Whether each member leads its part of what it holds. The sets are those of `plan`, the primaries are given.
fn is_led_fairly(primaries: &[NodeId], plan: &Assignment, members: &[Member], bands: &[Band]) -> bool {
    let replicas = plan.0[0].len() as f64;
    let alone = Assignment(primaries.iter().map(|&node| vec![node]).collect());
    bands.iter().all(|&(_, band)| {
        let (led, held) = (led(&alone, members, band), held(plan, members, band));
        led.into_iter().zip(held).all(|(led, held)| is_rounded(led, held as f64 / replicas))
    })
}

fn changed_primaries(primaries: &[NodeId], old: &Assignment) -> usize {
    primaries.iter().enumerate().filter(|&(index, node)| old.set(index).first() != Some(node)).count()
}

proptest! {
    /// Four partitions, up to five members in up to three zones, and any assignment before.
    #[test]
    fn no_plan_that_is_as_fair_moves_less(
        given in vec((0_u32..3, 1_u32..4), 1..6),
        replicas in 1_u8..4,
        old in vec(vec((0_u32..6).prop_map(NodeId), 0..4), 4),
        first_is_hot: bool,
    ) {
        let members: Vec<_> = (0..).zip(&given).map(|(node, &(zone, weight))| member(node, zone, weight)).collect();
        let class = preferring(class(4, replicas));
        let old = Assignment(old);
        prop_assume!(members.len() >= usize::from(replicas));
        let (load, bands): (&[u32], _) = if first_is_hot { (&[90, 1, 1, 1], FIRST_IS_HOT) } else { (&[], EVEN) };
        let plan = plan_ring(&members, &class, &old, load).unwrap();

        let zone_max = (1..4).find(|&most| !sets(&members, replicas.into(), most).is_empty()).unwrap();
        let allowed = sets(&members, replicas.into(), zone_max);
        for set in &plan.0 {
            let mut set = set.clone();
            set.sort_unstable();
            prop_assert!(allowed.contains(&set), "{set:?}");
        }
        let shares = shares(&members, &class, zone_max as f64);
        prop_assert!(is_fair(&plan, &members, &shares, bands));
        let others = every_choice(&vec![allowed; 4]).into_iter().map(Assignment);
        let fair = others.filter(|other| is_fair(other, &members, &shares, bands));
        prop_assert_eq!(Some(plan.copies_from(&old)), fair.map(|other| other.copies_from(&old)).min());

        let primaries: Vec<_> = plan.0.iter().map(|set| set[0]).collect();
        prop_assert!(is_led_fairly(&primaries, &plan, &members, bands));
        let others = every_choice(&plan.0).into_iter();
        let fair = others.filter(|other| is_led_fairly(other, &plan, &members, bands));
        let fewest = fair.map(|other| changed_primaries(&other, &old)).min();
        prop_assert_eq!(Some(changed_primaries(&primaries, &old)), fewest);
    }
}
