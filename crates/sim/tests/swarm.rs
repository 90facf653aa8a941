//! Whole clusters from seeds: those that failed once, fresh ones, and the same again with bugs planted.
//! `TYR_TEST_SCALE` multiplies the number of fresh seeds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

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
const LATE: [(Canary, u64); 8] = [
    (Canary::StoredBeforeDurable, 49),
    (Canary::CutIgnored, 19),
    (Canary::ServedWithoutLease, 42),
    (Canary::OpenSizeIgnored, 42),
    (Canary::NumbersReused, 29),
    (Canary::PreparedWithoutLease, 7),
    (Canary::FreezeIgnored, 60),
    (Canary::SessionForgotten, 17),
];

fn scale() -> u64 {
    std::env::var("TYR_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap())
}

fn assert_passes(draw: Draw, seed: u64) {
    let failure = draw.run(seed, false).failure;
    assert_eq!(failure, None, "{} {seed}", draw.name());
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

#[test]
fn seeds_that_have_failed_once_pass() {
    assert!(!kept_seeds().is_empty());
    kept_seeds().into_iter().for_each(|(draw, seed)| assert_passes(draw, seed));
}

#[test]
fn fresh_seeds_pass() {
    for seed in 1..=FRESH * scale() {
        Draw::ALL.into_iter().for_each(|draw| assert_passes(draw, seed));
    }
}

#[test]
fn the_same_seed_does_the_same_twice() {
    for (draw, seed) in kept_seeds() {
        let [one, other] = [false, true].map(|with_trace| draw.run(seed, with_trace));
        assert_eq!(one.digest, other.digest, "{} {seed}", draw.name());
        assert_eq!(one.counts, other.counts, "{} {seed}", draw.name());
    }
}

#[test]
fn messages_that_travel_as_bytes_change_nothing() {
    for (draw, seed) in kept_seeds() {
        let [one, other] = [false, true].map(|as_bytes| {
            let profile = Profile { as_bytes, ..draw.profile(seed) };
            run(seed, profile, false)
        });
        assert_eq!(one.digest, other.digest, "{} {seed}", draw.name());
        assert_eq!(one.counts, other.counts, "{} {seed}", draw.name());
    }
}

#[test]
fn a_few_seeds_reach_all_that_happens_seldom() {
    let mut missing: BTreeSet<&str> = sightings::ALL.into_iter().collect();
    for seed in 1..=FRESH {
        for draw in Draw::ALL {
            draw.run(seed, false).counts.keys().for_each(|what| {
                missing.remove(what);
            });
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("never seen: {missing:?}");
}

#[test]
fn planted_bugs_are_found() {
    for canary in Canary::ALL {
        let first = LATE.iter().find(|(late, _)| *late == canary).map_or(1, |(_, first)| *first);
        let found = canaries::find(canary, first..first + 300);
        assert!(found.is_some(), "{canary:?} is not found");
    }
}
