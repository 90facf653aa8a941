//! Durable writes of whole blobs.
//!
//! *New*: every write creates a blob, in a store that was created for this turn. *Overwrite*: every write replaces a random one of
//! the blobs of a data set that has been overwritten twice before the first turn, so that space is being reclaimed and reused.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{size_name, writers};
use crate::{
    bench::{Bench, Contender, Opened, Run},
    load::{self, Limit, Measured},
    payload::Pool,
    system::{Outcome, System},
    systems::{Ground, Kind},
};

const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
const WRITERS: [usize; 2] = [1, 16];
/// Writers that fill a data set.
const FILLERS: usize = 16;
/// How often the data set is overwritten before the first turn.
const WARM_UP_PASSES: u64 = 2;

/// Measures.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    for size in SIZES {
        for count in WRITERS {
            new_blobs(bench, size, count)?;
        }
        overwrites(bench, size)?;
    }
    Ok(())
}

fn new_blobs(bench: &mut Bench, size: usize, count: usize) -> Outcome<()> {
    let case = format!("{} new, {}", size_name(size as u64), writers(count));
    if !case.contains(&bench.only) {
        return Ok(());
    }
    let kinds = [Kind::BareLog(Ground::Written), Kind::BareLog(Ground::Reserved), Kind::Rocks, Kind::Tyr];
    let contenders = bench.chosen(&kinds).into_iter().map(|kind| {
        let bench = &*bench;
        Contender::new(kind, move || new_blobs_once(bench, kind, size, count))
    });
    let rows = bench.compare("write", &case, contenders.collect())?;
    bench.report.rows(rows);
    Ok(())
}

fn new_blobs_once(bench: &Bench, kind: Kind, size: usize, count: usize) -> Outcome<Run> {
    let next = AtomicU64::new(0);
    bench.open_durable(kind)?.run(|system| {
        load::run(count, Limit::Time(bench.time), |caller| {
            system.put(next.fetch_add(1, Ordering::Relaxed), bench.pool.take(size, &mut caller.rng))?;
            Ok(size as u64)
        })
    })
}

fn overwrites(bench: &mut Bench, size: usize) -> Outcome<()> {
    let case = |count| format!("{} overwrite, {}", size_name(size as u64), writers(count));
    let counts: Vec<usize> = WRITERS.into_iter().filter(|count| case(*count).contains(&bench.only)).collect();
    if counts.is_empty() {
        return Ok(());
    }
    let (blobs, pool) = (bench.set_size / size as u64, bench.pool);
    let open = |kind| -> Outcome<Opened> {
        let opened = bench.open_durable(kind)?;
        fill(&*opened.system, pool, blobs, size)?;
        let limit = Limit::Operations(WARM_UP_PASSES * blobs);
        overwrite(&*opened.system, pool, blobs, size, FILLERS, limit)?;
        opened.settle()?;
        Ok(opened)
    };
    let kinds = bench.chosen(&[Kind::BareLog(Ground::Written), Kind::Rocks, Kind::Tyr]);
    let opened = kinds.into_iter().map(open).collect::<Outcome<Vec<_>>>()?;
    for count in counts {
        let limit = Limit::Time(bench.time);
        let contenders = opened.iter().map(|opened| {
            Contender::new(opened.kind, move || {
                opened.run(|system| overwrite(system, pool, blobs, size, count, limit))
            })
        });
        let rows = bench.compare("write", &case(count), contenders.collect())?;
        bench.report.rows(rows);
    }
    Ok(())
}

/// Puts blobs 0 to `blobs`.
pub fn fill(system: &dyn System, pool: Pool, blobs: u64, size: usize) -> Outcome<Measured> {
    load::run(FILLERS, Limit::Operations(blobs), |caller| {
        system.put(caller.turn, pool.take(size, &mut caller.rng))?;
        Ok(size as u64)
    })
}

/// Puts random ones of the blobs again.
pub fn overwrite(
    system: &dyn System,
    pool: Pool,
    blobs: u64,
    size: usize,
    writers: usize,
    limit: Limit,
) -> Outcome<Measured> {
    load::run(writers, limit, |caller| {
        system.put(caller.rng.u64(..blobs), pool.take(size, &mut caller.rng))?;
        Ok(size as u64)
    })
}
