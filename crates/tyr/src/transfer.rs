//! `tyr import` and `tyr export`: whole directory trees into a keyspace and back.
//!
//! A file becomes a blob of its content, a symbolic link a blob of its target, a directory an empty blob whose key ends in
//! `/`; the tree's own directory is the key `./`. What the file system knows besides is kept in attributes ([`node`]).
//! Several threads work on batches; a batch is one transaction, and so is a large file. Both ways skip what is there
//! already, so an interrupted run goes on where it stopped. Hard links become files of their own; owners, access
//! lists, and extended attributes are not kept; sockets, pipes, and devices are left out.

mod checksum;
mod directories;
mod export;
mod hole;
mod import;
mod node;
mod partial;
mod path;
mod progress;
mod tally;
mod view;
mod walk;

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tyr_client::Create;

pub use self::{
    export::{FILE_MODE_BITS, run as run_export},
    import::{WHOLE_MAX, run as run_import},
    node::{Kind, Node},
    partial::Partial,
    progress::Progress,
    tally::Summary,
};
use crate::{
    address::PrefixAddress, failure::Result, interrupt::Interrupt, opening::with_store, output::Output,
    settings::Settings,
};

/// Arguments of `import`.
#[derive(Args)]
pub struct Import {
    /// The directory.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Where its tree goes to: KEYSPACE, or KEYSPACE/PREFIX for keys that begin with PREFIX/.
    #[arg(value_name = "KEYSPACE[/PREFIX]", value_parser = PrefixAddress::parser())]
    pub target: PrefixAddress,
    /// Create the keyspace, and the store, if missing.
    #[arg(long)]
    pub create: bool,
    /// Read everything back from the store and compare checksums, also of what was there already.
    #[arg(long)]
    pub verify: bool,
}

/// Arguments of `export`.
#[derive(Args)]
pub struct Export {
    /// What to export: KEYSPACE, or KEYSPACE/PREFIX for the keys that begin with PREFIX/.
    #[arg(value_name = "KEYSPACE[/PREFIX]", value_parser = PrefixAddress::parser())]
    pub source: PrefixAddress,
    /// The directory, which is created if missing.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Read every file back that was written and compare checksums.
    #[arg(long)]
    pub verify: bool,
}

/// Bytes of a file from which on it is written as a transaction of its own.
const LARGE_FILE: u64 = 1 << 20;

/// Imports a tree and prints a summary.
pub fn import(arguments: &Import, settings: &Settings, out: &mut Output) -> Result<()> {
    let create = if arguments.create { Create::IfMissing } else { Create::Never };
    let interrupt = Interrupt::install()?;
    let summary =
        with_store(settings, create, |store| run_import(store, arguments, settings, &interrupt, out))?;
    summary.conclude(out)
}

/// Exports a tree and prints a summary.
pub fn export(arguments: &Export, settings: &Settings, out: &mut Output) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let summary =
        with_store(settings, Create::Never, |store| run_export(store, arguments, settings, &interrupt, out))?;
    summary.conclude(out)
}
