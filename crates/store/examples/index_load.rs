//! Measures the index: `index_load [entries in millions] [tables] [directory]`.
//!
//! Writes tables whose keys interleave, 20 bytes each, with values of 70 bytes; then measures opening, lookups,
//! scans, and a merge of everything. Lookups are from one thread and uniformly random; hot ones are among 1000 keys,
//! warm ones among 20 000, whose pages fit the index's memory but not the processor's caches.

use std::{
    env, fs,
    hint::black_box,
    ops::Bound,
    process,
    time::{Duration, Instant},
};

use tyr_os::{OsDisk, OsOptions};
use tyr_store::index::{Index, IndexOptions};
use tyr_types::{Error, Result};

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let mut number = |default: u64| arguments.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let load = Load { entries: number(10) * 1_000_000, tables: number(4).max(1) };
    let directory = arguments.next().unwrap_or_else(|| format!("index-load-{}", process::id()));
    fs::create_dir(&directory).expect("the directory does not exist yet");
    let result = load.run(&directory);
    fs::remove_dir_all(&directory).expect("the directory is ours");
    result
}

struct Load {
    entries: u64,
    tables: u64,
}

impl Load {
    fn run(&self, directory: &str) -> Result<()> {
        let disk = OsDisk::open(directory, OsOptions::default()).expect("the directory can be opened");
        let open = |tables| Index::open(disk.clone(), tables, IndexOptions::default());
        let index = open(Vec::new())?;
        report("entries", self.entries, "");
        report("tables", self.tables, "");
        let built = timed(|| self.build(&index))?;
        report("build", rate(self.entries, built), "entries/s");
        let tables = index.tables();
        report("file bytes per entry", index.stats().bytes / self.entries, "");
        drop(index);

        let start = Instant::now();
        let index = open(tables)?;
        report("open", start.elapsed().as_micros(), "us");
        self.measure_lookups(&index)?;
        let scanned = timed(|| index.scan(Bound::Unbounded).try_for_each(|entry| entry.map(drop)))?;
        report("scan", rate(self.entries, scanned), "entries/s");
        let merge = index.plan_full_merge().expect("there are tables");
        let merged = timed(|| {
            let merged = index.merge(&merge, &|_| true)?;
            index.install(merged, merge.tables());
            index.remove_files(merge.tables())
        })?;
        report("merge", rate(self.entries, merged), "entries/s");
        report("tables", index.tables().len(), "after the merge");
        self.measure_lookups(&index)
    }

    fn build(&self, index: &Index) -> Result<()> {
        for table in 0..self.tables {
            let entries = (table..self.entries).step_by(usize::try_from(self.tables).expect("few tables"));
            let table = index.build(entries.map(|n| (key(n), Some(value(n)))))?;
            index.install(table, &[]);
        }
        Ok(())
    }

    fn measure_lookups(&self, index: &Index) -> Result<()> {
        let among = |keys: u64, n: u64| key(mix(mix(n) % keys) % self.entries);
        let look = |key: [u8; 20], there: bool| {
            let found = black_box(index.get(&key)?);
            assert!(found.is_some() == there, "a lookup of {key:?}");
            Ok(())
        };
        let measure = |what: &str, count: u64, lookup: &dyn Fn(u64) -> Result<()>| {
            let misses_before = index.stats().cache_misses;
            let took = timed(|| (0..count).try_for_each(lookup))?;
            let misses = (index.stats().cache_misses - misses_before) * 1000 / count;
            report(what, took.as_nanos() / u128::from(count), &format!("ns, {misses} reads per 1000"));
            Ok::<_, Error>(())
        };
        measure("lookup, any key", 200_000, &|n| look(key(mix(n) % self.entries), true))?;
        measure("lookup, warm key at first", 40_000, &|n| look(among(20_000, n), true))?;
        measure("lookup, warm key", 2_000_000, &|n| look(among(20_000, n), true))?;
        measure("lookup, hot key", 2_000_000, &|n| look(among(1000, n), true))?;
        measure("lookup, absent key", 2_000_000, &|n| look(absent_key(mix(n) % self.entries), false))?;
        let stats = index.stats();
        report("memory used", stats.memory_used >> 20, "MiB");
        report("memory of the process", resident_memory(), "MiB");
        Ok(())
    }
}

/// Ascends with `n`, and looks random behind that.
fn key(n: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&7_u32.to_be_bytes());
    key[4..12].copy_from_slice(&n.wrapping_mul(1 << 36).wrapping_add(mix(n) >> 32).to_be_bytes());
    key[12..].copy_from_slice(&mix(n).to_be_bytes());
    key
}

/// Between key `n` and the next.
fn absent_key(n: u64) -> [u8; 20] {
    let mut key = key(n);
    key[19] ^= 1;
    key
}

fn value(n: u64) -> [u8; 70] {
    let mut value = [0; 70];
    for (part, bytes) in (0..).zip(value.chunks_mut(8)) {
        bytes.copy_from_slice(&mix(n ^ part << 56).to_le_bytes()[..bytes.len()]);
    }
    value
}

/// Scatters numbers; the finalizer of a multiplicative hash.
fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ n >> 32
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn rate(count: u64, took: Duration) -> u128 {
    u128::from(count) * 1_000_000 / took.as_micros().max(1)
}

/// Of the whole process, in MiB.
fn resident_memory() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    (pages * 4096) >> 20
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn report(what: &str, value: impl std::fmt::Display, unit: &str) {
    println!("{what:28} {value:>12} {unit}");
}
