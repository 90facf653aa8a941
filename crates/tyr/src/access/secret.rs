//! `tyr secret`: what the nodes of a cluster share.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;
use tyr_server::Secret as ClusterSecret;

use crate::{
    failure::{Failure, Result},
    output::{Output, Report},
};

/// The arguments of `tyr secret`.
#[derive(Args)]
pub struct Secret {
    /// The file to make.
    file: PathBuf,
}

impl Secret {
    /// Makes the file.
    pub fn run(&self, out: &mut Output) -> Result<()> {
        let text = ClusterSecret::random_text();
        let text = text.map_err(|error| Failure::local("cannot draw a secret", &error))?;
        write_secret(&self.file, &text)?;
        out.done(&Made { secret_file: &self.file })
    }
}

/// Writes what is secret to a new file that only its owner may read.
pub fn write_secret(path: &Path, text: &str) -> Result<()> {
    let failed = |error: io::Error| Failure::local(format_args!("cannot write '{}'", path.display()), &error);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).map_err(failed)?;
    writeln!(file, "{text}").and_then(|()| file.sync_all()).map_err(failed)
}

#[derive(Serialize)]
struct Made<'a> {
    secret_file: &'a Path,
}

impl Report for Made<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!(
            "made '{}'; give it to every node with --secret-file, and show it to nobody else",
            self.secret_file.display()
        ))
    }
}
