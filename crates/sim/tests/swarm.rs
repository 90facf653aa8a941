//! Whole clusters from seeds: those that failed once, fresh ones, and the same again with bugs planted.
//! `TYR_TEST_SCALE` multiplies the number of fresh seeds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use parking_lot::Mutex;
use tyr_proto::canary::Canary;
use tyr_sim::cluster::{
    canaries,
    profile::Profile,
    run::{Draw, run},
    sightings,
};

const SEEDS: &str = include_str!("../seeds.txt");
/// Fresh seeds of each draw.
const FRESH: u64 = 120;
/// Bugs that take many seeds are looked for from the one on that showed them last: a second each, until something changes what
/// seeds do.
const LATE: [(Canary, u64); 12] = [
    (Canary::StoredBeforeDurable, 132),
    (Canary::ServedWithoutLease, 5),
    (Canary::IncompleteServes, 7),
    (Canary::OpenSizeIgnored, 21),
    (Canary::NumbersReused, 8),
    (Canary::PreparedWithoutLease, 7),
    (Canary::FreezeIgnored, 27),
    (Canary::SessionForgotten, 17),
    (Canary::LossIgnored, 77),
    (Canary::KeepsIgnored, 23),
    (Canary::KeptLate, 23),
    (Canary::EarlierIgnored, 11),
];

fn scale() -> u64 {
    std::env::var("TYR_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap())
}

/// Does something for every item, on as many threads as there are cores.
fn for_each<T: Sync>(items: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(item);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(take);
        }
    });
}

fn kept_seeds() -> Vec<(Draw, u64)> {
    let lines = SEEDS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap();
            let draw = Draw::ALL.into_iter().find(|draw| draw.name() == name).unwrap();
            (draw, words.next().unwrap().parse().unwrap())
        })
        .collect()
}

/// Each runs thrice: as it is drawn, with a trace, and with messages that travel as bytes where they did not, or the other way round.
#[test]
fn seeds_that_have_failed_once_pass_and_do_the_same_however_they_are_run() {
    let kept = kept_seeds();
    assert!(!kept.is_empty());
    for_each(&kept, |&(draw, seed)| {
        let drawn = draw.run(seed, false);
        assert_eq!(drawn.failure, None, "{} {seed}", draw.name());
        let profile = draw.profile(seed);
        let otherwise = Profile { as_bytes: !profile.as_bytes, ..profile };
        for (how, other) in
            [("traced", draw.run(seed, true)), ("otherwise as bytes", run(seed, otherwise, false))]
        {
            assert_eq!(drawn.digest, other.digest, "{} {seed}, {how}", draw.name());
            assert_eq!(drawn.counts, other.counts, "{} {seed}, {how}", draw.name());
        }
    });
}

#[test]
fn fresh_seeds_pass_and_the_first_of_them_reach_all_that_happens_seldom() {
    let missing: Mutex<BTreeSet<&str>> = Mutex::new(sightings::ALL.into_iter().collect());
    let fresh: Vec<_> = (1..=FRESH * scale()).flat_map(|seed| Draw::ALL.map(|draw| (draw, seed))).collect();
    for_each(&fresh, |&(draw, seed)| {
        let report = draw.run(seed, false);
        assert_eq!(report.failure, None, "{} {seed}", draw.name());
        if seed <= FRESH {
            missing.lock().retain(|what| !report.counts.contains_key(what));
        }
    });
    let missing = missing.into_inner();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

#[test]
fn planted_bugs_are_found() {
    for_each(&Canary::ALL, |&canary| {
        let first = LATE.iter().find(|(late, _)| *late == canary).map_or(1, |(_, first)| *first);
        let found = canaries::find(canary, first..first + 300);
        assert!(found.is_some(), "{canary:?} is not found");
    });
}
