//! 8-byte overwrites at random offsets: in one blob of 64 MiB, which is one chunk, and in 64 blobs of 1 MiB. The cost must not depend
//! on the size of the chunk, so the ratio of the first two should be close to 1.

use super::writers;
use crate::{
    bench::{Bench, Contender, Opened, Run},
    load::{self, Limit},
    system::Outcome,
    systems::{Family, Ground, Kind},
};

const WRITERS: [usize; 2] = [1, 16];
const SIZE: usize = 8;
const TOTAL: u64 = 64 << 20;
const PIECE: usize = 1 << 20;

/// How the bytes are cut into blobs.
struct Target {
    name: &'static str,
    opened: Opened,
    blobs: u64,
}

/// Measures.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.families.contains(&Family::Tyr) {
        return Ok(());
    }
    let mut targets = vec![
        Target::new(bench, Kind::Tyr, "Týr, 64 blobs of 1 MiB", 64)?,
        Target::new(bench, Kind::Tyr, "Týr, 1 blob of 64 MiB", 1)?,
    ];
    if bench.families.contains(&Family::Bare) {
        targets.push(Target::new(bench, Kind::BareLog(Ground::Written), "bare log", 1)?);
    }
    for count in WRITERS {
        let contenders = targets.iter().map(|target| {
            let bench = &*bench;
            Contender { name: target.name.into(), turn: Box::new(move || target.overwrite(bench, count)) }
        });
        let case = format!("8 B overwrite, {}", writers(count));
        let rows = bench.compare("small", &case, contenders.collect())?;
        bench.report.rows(rows);
    }
    Ok(())
}

impl Target {
    /// Fills the blobs.
    fn new(bench: &Bench, kind: Kind, name: &'static str, blobs: u64) -> Outcome<Self> {
        let opened = bench.open_durable(kind)?;
        let mut rng = fastrand::Rng::with_seed(1);
        for blob in 0..blobs {
            for offset in (0..TOTAL / blobs).step_by(PIECE) {
                opened.system.write(blob, offset, bench.pool.take(PIECE, &mut rng))?;
            }
        }
        opened.settle()?;
        Ok(Target { name, opened, blobs })
    }

    fn overwrite(&self, bench: &Bench, count: usize) -> Outcome<Run> {
        self.opened.run(|system| {
            load::run(count, Limit::Time(bench.time), |caller| {
                let blob = caller.rng.u64(..self.blobs);
                let offset = caller.rng.u64(..=TOTAL / self.blobs - SIZE as u64);
                system.write(blob, offset, bench.pool.take(SIZE, &mut caller.rng))?;
                Ok(SIZE as u64)
            })
        })
    }
}
