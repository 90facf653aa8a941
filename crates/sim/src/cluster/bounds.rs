//! What nodes and clients of a run are bounded by: small limits, so that what is rare becomes common.

use tyr_proto::Limits;

use crate::random::Random;

/// The bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What partitions take on.
    pub limits: Limits,
    /// Payload above this many bytes is staged.
    pub staged_above: usize,
    /// Below how many replicas no writes are taken.
    pub min_replicas: u8,
    /// Whether disks are short of room now and then.
    pub disks_fill: bool,
    /// How often a client dies and another one takes its place, in parts per million for each of its ticks.
    pub mortality: u32,
    /// How often a copy of what a client says arrives seconds later, in parts per million.
    pub late_copies: u32,
}

impl Bounds {
    /// None that a run meets, but that what is gone is forgotten.
    pub fn wide() -> Self {
        Bounds {
            limits: Limits {
                stage_timeout: 1_000_000,
                session_timeout: 3_000_000,
                idle_after: 300_000,
                uncached_after: 2_000_000,
                ..Limits::default()
            },
            staged_above: usize::MAX,
            min_replicas: 1,
            disks_fill: false,
            mortality: 0,
            late_copies: 0,
        }
    }

    /// Draws how many copies of heads there are, and how long they last.
    pub fn draw_copies(&mut self, random: &mut Random) {
        self.limits.cached_max = [1, 2, 1024][random.index(3)];
        self.limits.cached_for = 1_000 << random.below(12);
    }

    /// Draws bounds for runs with so many replicas; half of all have none.
    pub fn drawn(random: &mut Random, replicas: u8) -> Self {
        let mut bounds = Bounds::wide();
        if random.below(2) == 0 {
            return bounds;
        }
        let small = |random: &mut Random, most: u64| match random.below(3) {
            0 => 1 + usize::try_from(random.below(most)).expect("small"),
            _ => 4096,
        };
        let limits = &mut bounds.limits;
        (limits.waiting_max, limits.places_max) = (small(random, 3), small(random, 4));
        limits.stage_timeout = 100_000 + random.below(900_000);
        limits.session_timeout = 1_500_000 + random.below(1_500_000);
        // Of what was drawn before, so that what is drawn after stays what it was.
        limits.idle_after = 1_000 << (limits.session_timeout % 10);
        limits.log_size = 1 << (limits.session_timeout % 16);
        limits.passed_on_max = 8 * usize::try_from(limits.session_timeout % 3).expect("small");
        limits.copy_max = 1 + usize::try_from(limits.session_timeout % 1000).expect("small");
        if random.below(2) == 0 {
            // Registers and elements have eight bytes.
            bounds.staged_above = random.index(8);
            limits.staged_max = if random.below(3) == 0 { 40 + random.below(64) } else { limits.staged_max };
        }
        bounds.min_replicas = if random.below(3) == 0 { replicas.min(2) } else { 1 };
        bounds.disks_fill = random.below(4) == 0;
        bounds.mortality = if random.below(2) == 0 { 10_000 } else { 0 };
        bounds.late_copies = if random.below(2) == 0 { 100_000 } else { 0 };
        bounds
    }
}
