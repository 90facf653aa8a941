//! `tyr audit`: what was done to a cluster through a node of this machine.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::PathBuf,
};

use clap::Args;
use serde_json::Value;
use tyr_server::{audit_files, is_node};

use crate::{
    failure::{Failure, Result},
    output::{Form, Output},
    settings::Settings,
};

/// The arguments of `tyr audit`.
#[derive(Args)]
pub struct Audit {
    /// The node's directory; that of `server` in the configuration file if it is not given.
    directory: Option<PathBuf>,
    /// Only what this user did.
    #[arg(long)]
    user: Option<String>,
    /// Only this action, such as grant.
    #[arg(long)]
    action: Option<String>,
}

impl Audit {
    /// Prints the lines, the oldest first.
    pub fn run(&self, settings: &Settings, out: &mut Output) -> Result<()> {
        let directory = self.directory.as_ref().or(settings.server.directory.as_ref());
        let directory = directory.ok_or_else(|| {
            Failure::Usage(
                "no directory is named: tyr audit DIRECTORY, the one of a node of this machine".into(),
            )
        })?;
        if !directory.is_dir() {
            return Err(Failure::Local(format!("there is no directory '{}'", directory.display())));
        }
        let files = audit_files(directory);
        if files.is_empty() && !is_node(directory) {
            let place = directory.display();
            return Err(Failure::Local(format!(
                "'{place}' is no directory of a node: nothing was ever done there"
            )));
        }
        let mut torn: Vec<String> = Vec::new();
        for path in files {
            let failed = |error| Failure::local(format_args!("cannot read '{}'", path.display()), &error);
            let lines = BufReader::new(File::open(&path).map_err(failed)?).lines();
            for (line, number) in lines.zip(1..) {
                let line = line.map_err(failed)?;
                let Ok(act) = serde_json::from_str::<Value>(&line) else {
                    // The last one may be about to be written.
                    torn.push(format!("line {number} of '{}' cannot be read", path.display()));
                    continue;
                };
                torn.drain(..).for_each(|line| out.warnings().say(format_args!("{line}")));
                if self.wants(&act) {
                    print(&act, &line, out)?;
                }
            }
        }
        Ok(())
    }

    fn wants(&self, act: &Value) -> bool {
        let user = self.user.as_ref().is_none_or(|user| act["who"] == format!("user {user}"));
        user && self.action.as_ref().is_none_or(|action| act["action"] == action.as_str())
    }
}

fn print(act: &Value, line: &str, out: &mut Output) -> Result<()> {
    if out.form() == Form::Json {
        return out.line(line);
    }
    let text = |name: &str| act[name].as_str().unwrap_or_default().escape_debug().to_string();
    if let Some(lost) = act["lost"].as_u64() {
        return out.line(format!("{}  {lost} lines were lost", text("time")));
    }
    let mut said = format!("{}  {} ({}): {}", text("time"), text("who"), text("from"), text("action"));
    for (lead, name) in [(" ", "subject"), (", group ", "group"), (" on ", "scope")] {
        if act[name].is_string() {
            said.push_str(&format!("{lead}{}", text(name)));
        }
    }
    for (lead, name) in [(" + ", "granted"), (" - ", "revoked")] {
        if act[name].as_str().is_some_and(|rights| rights != "none") {
            said.push_str(&format!("{lead}{}", text(name)));
        }
    }
    said.push_str(&format!(": {}", text("result")));
    if act["reason"].is_string() {
        said.push_str(&format!(" ({})", text("reason")));
    }
    if let Some(omitted) = act["omitted"].as_u64() {
        said.push_str(&format!(", after {omitted} attempts that were not noted"));
    }
    out.line(said)
}
