//! The parts of the benchmark: what is measured.

mod append;
mod overwrite;
mod read;
mod small;
pub mod ten_million;
mod transform;
mod write;

use serde::Serialize;

use crate::{bench::Bench, system::Outcome};

/// A part, as chosen on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Durable writes of whole blobs: new ones, and overwrites in the steady state.
    Write,
    /// 8-byte overwrites in large and in small blobs.
    Small,
    /// Appends of 64 to 512 bytes to one blob.
    Append,
    /// Reads at random offsets of blobs of 64 MiB, warm and cold.
    Read,
    /// One counter that many threads increment.
    Transform,
    /// A data set that is overwritten twenty times at random.
    Overwrite,
    /// Ten million blobs of 100 bytes: load, memory, open times. Takes minutes.
    TenMillion,
}

impl Part {
    /// What runs if nothing is chosen.
    pub const DEFAULT: [Part; 6] =
        [Part::Write, Part::Small, Part::Append, Part::Transform, Part::Read, Part::Overwrite];

    /// Measures.
    pub fn run(self, bench: &mut Bench) -> Outcome<()> {
        match self {
            Part::Write => write::run(bench),
            Part::Small => small::run(bench),
            Part::Append => append::run(bench),
            Part::Read => read::run(bench),
            Part::Transform => transform::run(bench),
            Part::Overwrite => overwrite::run(bench),
            Part::TenMillion => ten_million::run(bench),
        }
    }
}

/// As people write sizes.
fn size_name(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

fn writers(count: usize) -> String {
    format!("{count} writer{}", if count == 1 { "" } else { "s" })
}
