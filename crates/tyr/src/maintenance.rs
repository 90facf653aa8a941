//! `tyr check`, `tyr stats`, and `tyr compact`: the store as a whole.

use clap::Args;
use serde::Serialize;
use tyr_client::{CheckReport, CompactReport, Create, Error, Stats, blocking::Store};

use crate::{
    failure::Result,
    keyspace::Shown,
    opening::{Tables, with_tables},
    output::{Align, Bytes, Output, Report, Style, Table},
    settings::Settings,
};

/// The arguments of `tyr check`.
#[derive(Args)]
pub struct Check {
    /// First make the index anew from the log, for a store whose tables are damaged.
    ///
    /// The log says all that the index does. If a part of it is damaged too, nothing is changed.
    #[arg(long)]
    rebuild_index: bool,
}

/// Verifies everything. Damage is printed, and is a failure of kind corrupt.
pub fn check(arguments: &Check, settings: &Settings, out: &mut Output) -> Result<()> {
    let tables = if arguments.rebuild_index { Tables::Rebuilt } else { Tables::AsTheyAre };
    let report = with_tables(settings, Create::Never, tables, |store| Ok(store.check()?))?;
    let printed = out.report(&Checked::from(&report));
    // Whoever stops reading is told of the damage still.
    match report.damage.len() {
        0 => printed,
        count => Err(Error::corrupt(format!(
            "the store is damaged in {count} places; if only tables of the index are, run 'tyr check --rebuild-index'; copy \
             what is still readable with 'tyr export' or 'tyr blob get', and restore the rest from where it came from"
        ))
        .into()),
    }
}

/// Prints what the store holds.
pub fn stats(settings: &Settings, out: &mut Output) -> Result<()> {
    let report = with_tables(settings, Create::Never, Tables::AsTheyAre, Statistics::of)?;
    out.report(&report)
}

/// Reclaims space.
pub fn compact(settings: &Settings, out: &mut Output) -> Result<()> {
    let report = with_tables(settings, Create::Never, Tables::AsTheyAre, |store| Ok(store.compact()?))?;
    out.done(&Compacted::from(&report))
}

#[derive(Serialize)]
struct Checked<'a> {
    action: &'static str,
    damaged: bool,
    tables: u64,
    blobs: u64,
    extents: u64,
    bytes: u64,
    damage: &'a [String],
}

impl<'a> From<&'a CheckReport> for Checked<'a> {
    fn from(report: &'a CheckReport) -> Self {
        Checked {
            action: "check",
            damaged: !report.damage.is_empty(),
            tables: report.tables,
            blobs: report.entries,
            extents: report.extents,
            bytes: report.bytes,
            damage: &report.damage,
        }
    }
}

impl Report for Checked<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        let (blobs, extents, tables) = (self.blobs, self.extents, self.tables);
        out.line(format!(
            "verified {blobs} keys, {extents} extents with {} of payload, and {tables} tables of the index",
            Bytes(self.bytes)
        ))?;
        for damage in self.damage {
            let label = out.styled(Style::Bad, "damage:");
            out.line(format!("{label} {damage}"))?;
        }
        let verdict = if self.damaged {
            out.styled(Style::Bad, "the store is damaged")
        } else {
            out.styled(Style::Good, "no damage found")
        };
        out.line(verdict)
    }
}

/// What the store holds. Bytes unless the name says otherwise; what was written and looked up, since the store was opened.
#[derive(Serialize)]
struct Statistics {
    action: &'static str,
    epoch: u32,
    io: String,
    keyspaces: Vec<Shown>,
    segments: Segments,
    written: Written,
    index: Index,
    memory: Memory,
    pins: Pins,
    maintenance_failure: Option<String>,
}

#[derive(Serialize)]
struct Segments {
    size: u64,
    log_count: usize,
    bulk_count: usize,
    live: u64,
    filled: u64,
    idle: u64,
    reserve: u64,
    garbage_count: usize,
    fragmented_count: usize,
}

#[derive(Serialize)]
struct Written {
    log: u64,
    bulk: u64,
    batches_count: u64,
}

#[derive(Serialize)]
struct Index {
    tables_count: usize,
    entries_count: u64,
    tombstones_count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Memory {
    objects: u64,
    dirty: u64,
    payload: u64,
    payload_hits_count: u64,
    payload_misses_count: u64,
    index: u64,
    index_hits_count: u64,
    index_misses_count: u64,
}

#[derive(Serialize)]
struct Pins {
    count: usize,
    oldest_seconds: Option<f64>,
}

impl Statistics {
    fn of(store: &Store) -> Result<Self> {
        let stats: Stats = store.stats()?;
        Ok(Statistics {
            action: "stats",
            epoch: stats.epoch,
            io: stats.io,
            keyspaces: store.keyspaces().iter().map(Shown::from).collect(),
            segments: Segments {
                size: stats.segment_size,
                log_count: stats.log_segments,
                bulk_count: stats.bulk_segments,
                live: stats.live,
                filled: stats.filled,
                idle: stats.idle,
                reserve: stats.reserve,
                garbage_count: stats.garbage,
                fragmented_count: stats.fragmented,
            },
            written: Written {
                log: stats.log_written,
                bulk: stats.bulk_written,
                batches_count: stats.batches,
            },
            index: Index {
                tables_count: stats.index.tables,
                entries_count: stats.index.entries,
                tombstones_count: stats.index.tombstones,
                bytes: stats.index.bytes,
            },
            memory: Memory {
                objects: stats.objects,
                dirty: stats.dirty,
                payload: stats.cached,
                payload_hits_count: stats.cache_hits,
                payload_misses_count: stats.cache_misses,
                index: stats.index.memory_used,
                index_hits_count: stats.index.cache_hits,
                index_misses_count: stats.index.cache_misses,
            },
            pins: Pins { count: stats.pins, oldest_seconds: stats.oldest_pin },
            maintenance_failure: stats.maintenance_failure,
        })
    }
}

impl Report for Statistics {
    fn print(&self, out: &mut Output) -> Result<()> {
        let Statistics { segments, written, index, memory, pins, .. } = self;
        let bytes = |bytes: u64| Bytes(bytes).to_string();
        section(out, "store", [("opened", format!("{} times", self.epoch)), ("I/O", self.io.clone())])?;
        section(
            out,
            "segments",
            [
                ("size of each", bytes(segments.size)),
                ("of the log", segments.log_count.to_string()),
                ("of bulk payload", segments.bulk_count.to_string()),
                ("live", bytes(segments.live)),
                ("filled", bytes(segments.filled)),
                ("kept for recycling", bytes(segments.idle)),
                ("held back for deleting", bytes(segments.reserve)),
                ("garbage to collect", segments.garbage_count.to_string()),
                ("leaves to defragment", segments.fragmented_count.to_string()),
            ],
        )?;
        section(
            out,
            "written since opening",
            [
                ("log", bytes(written.log)),
                ("bulk payload", bytes(written.bulk)),
                ("batches", written.batches_count.to_string()),
            ],
        )?;
        section(
            out,
            "index",
            [
                ("tables", index.tables_count.to_string()),
                ("entries", index.entries_count.to_string()),
                ("tombstones", index.tombstones_count.to_string()),
                ("size", bytes(index.bytes)),
            ],
        )?;
        let hits = |hits: u64, misses: u64| format!("{hits} hits, {misses} misses");
        section(
            out,
            "memory",
            [
                ("entries and leaves", bytes(memory.objects)),
                ("changed since the last checkpoint", bytes(memory.dirty)),
                ("payload", bytes(memory.payload)),
                ("payload lookups", hits(memory.payload_hits_count, memory.payload_misses_count)),
                ("index", bytes(memory.index)),
                ("index lookups", hits(memory.index_hits_count, memory.index_misses_count)),
            ],
        )?;
        let oldest = pins.oldest_seconds.map_or("none".to_owned(), |seconds| format!("{seconds:.0} s ago"));
        section(out, "pins", [("held", pins.count.to_string()), ("oldest", oldest)])?;
        if let Some(why) = &self.maintenance_failure {
            section(out, "maintenance", [("failed", why.clone())])?;
        }
        let mut table =
            Table::new([("KEYSPACE", Align::Left), ("BLOBS", Align::Right), ("SIZE", Align::Right)]);
        for keyspace in &self.keyspaces {
            table.row([keyspace.name.clone(), keyspace.blobs(), keyspace.size()]);
        }
        table.print(out)
    }
}

fn section<const N: usize>(out: &mut Output, title: &str, facts: [(&str, String); N]) -> Result<()> {
    let heading = out.styled(Style::Heading, title);
    out.line(heading)?;
    let mut table = Table::new([]);
    for (name, fact) in facts {
        table.row([format!("  {name}"), fact]);
    }
    table.print(out)
}

#[derive(Serialize)]
struct Compacted {
    action: &'static str,
    segments: u64,
    bytes_before: u64,
    bytes_after: u64,
}

impl From<&CompactReport> for Compacted {
    fn from(report: &CompactReport) -> Self {
        Compacted {
            action: "compact",
            segments: report.segments,
            bytes_before: report.bytes_before,
            bytes_after: report.bytes_after,
        }
    }
}

impl Report for Compacted {
    fn print(&self, out: &mut Output) -> Result<()> {
        let (before, after) = (Bytes(self.bytes_before), Bytes(self.bytes_after));
        out.line(format!("emptied {} segments: {before} of files before, {after} now", self.segments))
    }
}
