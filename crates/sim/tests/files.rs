//! File systems in the simulated cluster.

use std::env;

use tyr_fs::canary as files;
use tyr_proto::canary::{Canary, plant};
use tyr_sim::files::run::{self, Report};

/// How many times as many seeds as usual.
fn scale() -> u64 {
    env::var("TYR_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn names_are_changed_as_a_whole_whatever_fails() {
    let (mut told, mut untold, mut crashes, mut copied, mut moved) = (0, 0, 0, 0, 0);
    for seed in 1..=300 * scale() {
        let Report { failure, deeds, counts, .. } = run::run(seed, false);
        assert_eq!(failure, None, "tyr-sim files-replay {seed}");
        (told, untold) = (told + deeds[0], untold + deeds[1]);
        crashes += counts.get("crashes").copied().unwrap_or(0);
        copied += counts["copied a blob"];
        moved += counts["moved a file"];
    }
    let all = format!("{told} told, {untold} not, {crashes} crashes, {copied} copies, {moved} moved");
    assert!(told > 20_000 && untold > 100 && crashes > 100 && copied > 500 && moved > 100, "{all}");
}

#[test]
fn equal_seeds_tell_the_same() {
    for seed in 1..=20 {
        assert_eq!(run::run(seed, false).tale, run::run(seed, false).tale, "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_seen_in_what_clients_are_told() {
    // They are looked for from where seeds show them now.
    for (canary, first, rule) in [
        (Canary::VotedBeforeDurable, 14, "names: no order"),
        (Canary::ServedWithoutLease, 5, "names: no order"),
        (Canary::PendingSizeIgnored, 251, "files: inode"),
        (Canary::CopiesKept, 2, "names: no order"),
    ] {
        let _planted = plant(Some(canary));
        let mut failures = (first..first + 100).filter_map(|seed| run::run(seed, false).failure);
        let found = failures.next().unwrap_or_else(|| panic!("{canary:?}: a seed fails"));
        assert!(found.starts_with(rule), "{canary:?}: {found}");
    }
}

#[test]
fn files_that_move_while_they_are_open_are_seen() {
    for (canary, first) in [(files::Canary::GuestsNotAsked, 162), (files::Canary::MarkIgnored, 158)] {
        let _planted = files::plant(Some(canary));
        let mut failures = (first..first + 100)
            .filter_map(|seed| run::run(seed, false).failure.map(|failure| (seed, failure)));
        let (seed, found) = failures.next().unwrap_or_else(|| panic!("{canary:?}: a seed fails"));
        assert!(found.starts_with("files: "), "{canary:?}: {seed}: {found}");
    }
}
