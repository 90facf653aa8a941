//! Whether the simulator finds bugs that are planted in the protocol. A checker that finds none of them proves nothing.

use std::{
    any::Any,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tyr_proto::canary::{Canary, plant};

use super::run::{Draw, STANDSTILLS};

/// A planted bug that a seed shows.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// How its profile was drawn.
    pub draw: Draw,
    /// What the run says is wrong.
    pub failure: String,
}

impl Found {
    /// The violated rule: what the failure begins with.
    pub fn rule(&self) -> &str {
        self.failure.split([':', ',']).next().unwrap_or_default()
    }
}

/// Runs seeds with a planted bug, each with either draw, until one fails that does not fail without it.
pub fn find(canary: Canary, seeds: Range<u64>) -> Option<Found> {
    for (seed, draw) in seeds.flat_map(|seed| Draw::ALL.map(|draw| (seed, draw))) {
        let failure = failure(draw, seed, Some(canary));
        let Some(failure) = failure.filter(|failure| shows(canary, failure)) else { continue };
        if self::failure(draw, seed, None).is_none() {
            return Some(Found { seed, draw, failure });
        }
    }
    None
}

/// Whether a failure can be the bug's own. That nothing moves any more shows only a bug that makes transactions wait for one another:
/// else it may be any other, which the planted one happens to bring up.
fn shows(canary: Canary, failure: &str) -> bool {
    !STANDSTILLS.iter().any(|standstill| failure.starts_with(standstill)) || canary == Canary::SlotNotHeld
}

/// How a seed fails with a planted bug, if it does. An assertion that fails is a failure, too.
pub fn failure(draw: Draw, seed: u64, canary: Option<Canary>) -> Option<String> {
    let _planted = plant(canary);
    let report = catch_unwind(AssertUnwindSafe(|| draw.run(seed, false)));
    match report {
        Ok(report) => report.failure,
        Err(panic) => Some(format!("assertion: {}", message(&*panic))),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
