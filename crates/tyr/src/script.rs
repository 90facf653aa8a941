//! `tyr tx`: scripts of operations that are executed as one transaction.
//!
//! The grammar is described in `docs/tx-script.md`. A script is parsed as a whole before anything is done, and done as a
//! whole or not at all.

mod execute;
mod lexer;
mod parse;

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::{Subcommand, ValueHint};
use tyr_client::{Check, Create, Key, Transform};

use crate::{
    failure::{Failure, Result},
    opening::with_store,
    output::Output,
    payload::Payload,
    settings::Settings,
};

/// What to do with scripts.
#[derive(Subcommand)]
pub enum Verb {
    /// Execute a script of operations, one a line, as one transaction.
    ///
    /// Prints offsets of appends and old values of transforms. If a check does not hold, nothing is done and the exit code
    /// is that of a conflict. The grammar is in docs/tx-script.md. For example:
    ///
    ///   check exists accounts/alice
    ///
    ///   transform accounts/alice add i64 0 -5
    ///
    ///   append accounts/log "alice paid 5\n"
    #[command(verbatim_doc_comment)]
    Run {
        /// The script; standard input if '-' or not given.
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },
}

/// An operation and where it stands.
#[derive(Debug, PartialEq)]
struct Operation {
    line: usize,
    keyspace: String,
    key: Key,
    action: Action,
}

/// What an operation does to its blob.
#[derive(Debug, PartialEq)]
enum Action {
    Create,
    Delete,
    Put(Payload),
    Write(u64, Payload),
    Append(Payload),
    Truncate(u64),
    /// From an offset on, so many bytes.
    Punch(u64, u64),
    Transform(u64, Transform),
    SetAttribute(String, Payload),
    UnsetAttribute(String),
    Check(Check),
    CheckBytes(u64, Payload),
    CheckAttribute(String, Payload),
}

/// The largest script, in bytes. Large payload belongs into files.
const SCRIPT_SIZE_MAX: u64 = 16 << 20;

impl Verb {
    /// Does what the verb says.
    pub fn run(self, settings: &Settings, out: &mut Output) -> Result<()> {
        let Verb::Run { file } = self;
        let path = file.as_deref().filter(|path| *path != Path::new("-"));
        let name = path.map_or("standard input".to_owned(), |path| format!("'{}'", path.display()));
        let text = read(path, &name)?;
        let operations = parse::parse(&text).map_err(|error| {
            Failure::Usage(format!("{name}, line {}, column {}: {}", error.line, error.column, error.message))
        })?;
        with_store(settings, Create::Never, |store| {
            let outcome = execute::execute(store, &operations)?;
            out.report(&outcome)
        })
    }
}

fn read(path: Option<&Path>, name: &str) -> Result<Vec<u8>> {
    let failed = |error: io::Error| Failure::local(format!("cannot read the script {name}"), &error);
    let mut from: Box<dyn Read> = match path {
        Some(path) => Box::new(File::open(path).map_err(failed)?),
        None => Box::new(io::stdin().lock()),
    };
    let mut text = Vec::new();
    let length = from.by_ref().take(SCRIPT_SIZE_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if length as u64 > SCRIPT_SIZE_MAX {
        return Err(Failure::Usage(format!(
            "the script {name} is larger than 16 MiB; put large payload into files and write file:PATH"
        )));
    }
    Ok(text)
}
