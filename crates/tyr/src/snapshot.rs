//! `tyr snapshot`: keyspaces as they were at one point: exported to archives, imported, verified, and restored.
//!
//! [`crate::archive`] knows the files; here they meet stores, by nothing but the public API.

mod address;
mod apply;
mod bytes;
mod export;
mod import;
mod marker;
mod named;
mod restore;
mod source;
mod verify;

use clap::Subcommand;

pub use self::marker::UNFINISHED;
use crate::{failure::Result, output::Output, settings::Settings};

/// What to do with snapshots and archives.
#[derive(Subcommand)]
pub enum Verb {
    /// Take a snapshot of a keyspace that lasts until it is removed. What is replaced or deleted meanwhile takes up space until then.
    Create(named::Named),
    /// List the snapshots of a keyspace, or of all.
    #[command(name = "ls")]
    List(named::List),
    /// Show one snapshot: when it was taken, and what is in it.
    Show(named::Named),
    /// Remove a snapshot.
    #[command(name = "rm")]
    Remove(named::Named),
    /// Write a keyspace, as it is at one point, to an archive: a directory of files with checksums.
    ///
    /// Others go on writing meanwhile. An export that was interrupted goes on when the same command is run again.
    Export(export::Export),
    /// Make a keyspace of an archive, or of one that has everything and those that say what changed since.
    ///
    /// The archives are verified first. An import that was interrupted goes on when the same command is run again; until it is whole, the
    /// keyspace has a blob '.tyr-import' that says so.
    Import(import::Import),
    /// Read archives and check that they are what was written, and that a keyspace has the same.
    Verify(verify::Verify),
    /// Make a keyspace what it was when a snapshot was taken, or an archive was made of it.
    ///
    /// Blob by blob, each in a transaction: while it goes on, readers see some blobs as they were and some as they are, and what others
    /// write may be kept or undone. A restore that was interrupted goes on when the same command is run again.
    Restore(restore::Restore),
}

impl Verb {
    /// Does what the verb says.
    pub fn run(self, settings: &Settings, out: &mut Output) -> Result<()> {
        match self {
            Verb::Create(arguments) => named::create(&arguments, settings, out),
            Verb::List(arguments) => named::list(&arguments, settings, out),
            Verb::Show(arguments) => named::show(&arguments, settings, out),
            Verb::Remove(arguments) => named::remove(&arguments, settings, out),
            Verb::Export(arguments) => export::run(&arguments, settings, out),
            Verb::Import(arguments) => import::run(&arguments, settings, out),
            Verb::Verify(arguments) => verify::run(&arguments, settings, out),
            Verb::Restore(arguments) => restore::run(&arguments, settings, out),
        }
    }
}
