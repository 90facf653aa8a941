//! The systems that are compared.

mod bare_files;
mod bare_log;
mod rocks;
mod tyr;

use serde::Serialize;

use crate::system::{Outcome, Setting, System};
pub use bare_files::BareFiles;
pub use bare_log::{BareLog, Ground};
pub use rocks::Rocks;
pub use tyr::Tyr;

/// A family of systems, as chosen on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// What the disk and the kernel can do, without any store.
    Bare,
    /// RocksDB with blob files.
    Rocks,
    /// Týr, embedded.
    Tyr,
}

/// A system that can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Group commit over one file.
    BareLog(Ground),
    /// One file per blob.
    BareFiles,
    /// RocksDB with blob files.
    Rocks,
    /// Týr, embedded.
    Tyr,
}

impl Family {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Family::Bare => "bare",
            Family::Rocks => Kind::Rocks.name(),
            Family::Tyr => Kind::Tyr.name(),
        }
    }

    /// The member that keeps named blobs.
    pub fn store(self) -> Kind {
        match self {
            Family::Bare => Kind::BareFiles,
            Family::Rocks => Kind::Rocks,
            Family::Tyr => Kind::Tyr,
        }
    }
}

impl Kind {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Kind::BareLog(Ground::Written) => "bare log",
            Kind::BareLog(Ground::Reserved) => "bare log, unwritten blocks",
            Kind::BareFiles => "bare pread",
            Kind::Rocks => "RocksDB",
            Kind::Tyr => "Týr",
        }
    }

    /// What it belongs to.
    pub fn family(self) -> Family {
        match self {
            Kind::BareLog(_) | Kind::BareFiles => Family::Bare,
            Kind::Rocks => Family::Rocks,
            Kind::Tyr => Family::Tyr,
        }
    }

    /// Opens it in a directory that it had before.
    pub fn reopen(self, setting: &Setting) -> Outcome<Box<dyn System>> {
        match self {
            Kind::BareFiles => Ok(Box::new(BareFiles::open(setting)?)),
            _ => self.open(setting),
        }
    }

    /// Opens it in its empty directory.
    pub fn open(self, setting: &Setting) -> Outcome<Box<dyn System>> {
        Ok(match self {
            Kind::BareLog(ground) => Box::new(BareLog::create(&setting.directory, ground)?),
            Kind::BareFiles => Box::new(BareFiles::create(setting)),
            Kind::Rocks => Box::new(Rocks::open(setting)?),
            Kind::Tyr => Box::new(Tyr::open(setting)?),
        })
    }
}
