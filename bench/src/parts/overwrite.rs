//! A data set that is overwritten twenty times at random: does throughput hold, and does the disk fill up?
//!
//! The passes follow one another without a pause, and disk use is looked at right after each, with background work still going on,
//! because that is the space that a user needs. At the end that work is waited for, then the store is compacted, and everything that was
//! written is compared with the payload.

use super::{
    size_name,
    write::{fill, overwrite},
};
use crate::{
    bench::{Bench, Opened},
    load::{Limit, Measured},
    meter::{Meter, disk_use},
    report::{Fact, Pass, amplification, quotient},
    system::Outcome,
    systems::Kind,
};

const SIZE: usize = 64 << 10;
const WRITERS: usize = 16;
const PASSES: u32 = 20;

/// Measures.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    for kind in bench.chosen(&[Kind::Rocks, Kind::Tyr]) {
        run_system(bench, kind)?;
    }
    Ok(())
}

fn run_system(bench: &mut Bench, kind: Kind) -> Outcome<()> {
    let opened = bench.open_durable(kind)?;
    let blobs = bench.set_size / SIZE as u64;
    let meter = Meter::start()?;
    let measured = fill(&*opened.system, bench.pool, blobs, SIZE)?;
    report_pass(bench, &opened, 0, &measured)?;
    for pass in 1..=PASSES {
        let limit = Limit::Operations(blobs);
        let measured = overwrite(&*opened.system, bench.pool, blobs, SIZE, WRITERS, limit)?;
        report_pass(bench, &opened, pass, &measured)?;
    }
    let settling = opened.settle()?;
    let name = kind.name();
    bench.report.fact(Fact::new(name, "background work that followed", settling.seconds, "s"));
    report_end(bench, &opened, "in the end", &meter)?;
    opened.system.compact()?;
    report_end(bench, &opened, "after compaction", &meter)
}

fn report_end(bench: &mut Bench, opened: &Opened, when: &str, meter: &Meter) -> Outcome<()> {
    let name = opened.kind.name();
    let payload = (bench.set_size * u64::from(PASSES + 1)) as f64;
    let written = quotient(meter.cost()?.written as f64, payload);
    let used = disk_use(opened.scratch.path())? as f64 / bench.set_size as f64;
    bench.report.fact(Fact::new(name, &format!("written per payload byte, {when}"), written, ""));
    bench.report.fact(Fact::new(name, &format!("disk use per byte of the set, {when}"), used, ""));
    Ok(())
}

fn report_pass(bench: &mut Bench, opened: &Opened, pass: u32, measured: &Measured) -> Outcome<()> {
    let disk_use = disk_use(opened.scratch.path())?;
    bench.report.pass(Pass {
        case: format!("{} blobs overwritten", size_name(SIZE as u64)),
        system: opened.kind.name().into(),
        pass,
        rate: measured.rate(),
        byte_rate: measured.byte_rate(),
        disk_use,
        disk_use_ratio: disk_use as f64 / bench.set_size as f64,
        amplification: amplification(measured, 0),
    });
    Ok(())
}
