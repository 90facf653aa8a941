//! Durable appends of 64 to 512 bytes to one blob.
//!
//! RocksDB has no appends; a put under the next number of a counter in the program stands for one.

use super::writers;
use crate::{
    bench::{Bench, Contender, Opened, Run},
    load::{self, Limit},
    system::Outcome,
    systems::{Ground, Kind},
};

const WRITERS: [usize; 2] = [1, 16];

/// Measures.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    let kinds = bench.chosen(&[Kind::BareLog(Ground::Written), Kind::Rocks, Kind::Tyr]);
    let opened = kinds.into_iter().map(|kind| bench.open_durable(kind)).collect::<Outcome<Vec<_>>>()?;
    for count in WRITERS {
        let contenders = opened.iter().map(|opened| {
            let bench = &*bench;
            Contender::new(opened.kind, move || appends(bench, opened, count))
        });
        let case = format!("64-512 B to one blob, {}", writers(count));
        let rows = bench.compare("append", &case, contenders.collect())?;
        bench.report.rows(rows);
    }
    Ok(())
}

fn appends(bench: &Bench, opened: &Opened, count: usize) -> Outcome<Run> {
    opened.run(|system| {
        load::run(count, Limit::Time(bench.time), |caller| {
            let size = caller.rng.usize(64..=512);
            system.append(bench.pool.take(size, &mut caller.rng))?;
            Ok(size as u64)
        })
    })
}
