//! Reads at random offsets of blobs of 64 MiB.
//!
//! Warm: everything fits into the system's cache or the page cache, and was read once. Cold: direct reads, payload caches as small
//! as the system allows. RocksDB has the blobs cut into values of 64 KiB.

use super::size_name;
use crate::{
    bench::{Bench, Contender, Opened, Run},
    load::{self, Limit},
    system::{Durability, Outcome, Temperature},
    systems::Kind,
};

const SIZES: [usize; 4] = [800, 4 << 10, 100 << 10, 1 << 20];
const READERS: [usize; 2] = [1, 16];
const BLOB_SIZE: u64 = 64 << 20;
/// Bytes of one write while filling.
const PIECE: usize = 1 << 20;

/// Measures.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    let blobs = (bench.set_size / BLOB_SIZE).max(1);
    for (temperature, name) in [(Temperature::Warm, "warm"), (Temperature::Cold, "cold")] {
        let kinds = bench.chosen(&[Kind::BareFiles, Kind::Rocks, Kind::Tyr]);
        let open = |kind| open_filled(bench, kind, temperature, blobs);
        let opened = kinds.into_iter().map(open).collect::<Outcome<Vec<_>>>()?;
        for size in SIZES {
            for count in READERS {
                let contenders = opened.iter().map(|opened| {
                    let bench = &*bench;
                    Contender::new(opened.kind, move || reads(bench, opened, blobs, size, count))
                });
                let case = format!(
                    "{} {name}, {count} reader{}",
                    size_name(size as u64),
                    if count == 1 { "" } else { "s" }
                );
                let rows = bench.compare("read", &case, contenders.collect())?;
                bench.report.rows(rows);
            }
        }
    }
    Ok(())
}

fn open_filled(bench: &Bench, kind: Kind, temperature: Temperature, blobs: u64) -> Outcome<Opened> {
    let opened = bench.open(kind, Durability::Memory, temperature)?;
    let mut rng = fastrand::Rng::with_seed(1);
    for blob in 0..blobs {
        for offset in (0..BLOB_SIZE).step_by(PIECE) {
            opened.system.write(blob, offset, bench.pool.take(PIECE, &mut rng))?;
        }
    }
    opened.settle()?;
    let opened = opened.reopen()?;
    if temperature == Temperature::Warm {
        let mut buffer = vec![0; PIECE];
        for blob in 0..blobs {
            for offset in (0..BLOB_SIZE).step_by(PIECE) {
                opened.system.read(blob, offset, &mut buffer)?;
            }
        }
    }
    Ok(opened)
}

fn reads(bench: &Bench, opened: &Opened, blobs: u64, size: usize, count: usize) -> Outcome<Run> {
    opened.run(|system| {
        load::run_with(
            count,
            Limit::Time(bench.time),
            || vec![0; size],
            |caller, buffer| {
                let (blob, offset) = (caller.rng.u64(..blobs), caller.rng.u64(..=BLOB_SIZE - size as u64));
                system.read(blob, offset, buffer)?;
                Ok(size as u64)
            },
        )
    })
}
