//! File systems in the simulated cluster.

use std::env;

use tyr_proto::canary::{Canary, plant};
use tyr_sim::files::run::{self, Report};

/// How many times as many seeds as usual.
fn scale() -> u64 {
    env::var("TYR_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn names_are_changed_as_a_whole_whatever_fails() {
    let (mut told, mut untold, mut crashes) = (0, 0, 0);
    for seed in 1..=300 * scale() {
        let Report { failure, deeds, counts, .. } = run::run(seed, false);
        assert_eq!(failure, None, "tyr-sim files-replay {seed}");
        (told, untold) = (told + deeds[0], untold + deeds[1]);
        crashes += counts.get("crashes").copied().unwrap_or(0);
    }
    assert!(told > 20_000 && untold > 100 && crashes > 100, "{told} told, {untold} not, {crashes} crashes");
}

#[test]
fn equal_seeds_tell_the_same() {
    for seed in 1..=20 {
        assert_eq!(run::run(seed, false).tale, run::run(seed, false).tale, "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_seen_in_what_clients_are_told() {
    for (canary, rule) in [
        (Canary::VotedBeforeDurable, "names: no order"),
        (Canary::ServedWithoutLease, "names: no order"),
        (Canary::PendingSizeIgnored, "files: inode"),
    ] {
        let _planted = plant(Some(canary));
        let found = (1..=100).find_map(|seed| run::run(seed, false).failure).expect("a seed fails");
        assert!(found.starts_with(rule), "{canary:?}: {found}");
    }
}
