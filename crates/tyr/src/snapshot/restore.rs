//! Makes a keyspace what it was, in place.

use std::{path::PathBuf, sync::atomic::Ordering};

use clap::{Args, ValueHint};
use serde::Serialize;
use tyr_client::{
    Create, Error,
    blocking::{Keyspace, Store},
};

use super::{
    address::SnapshotAddress,
    apply::{Job, Tally, There},
    export::take,
    marker::{Marker, State},
    source::{Kinship, Source, View},
    verify::verify,
};
use crate::{
    archive::Chain,
    failure::{Failure, Result},
    interrupt::Interrupt,
    moment::moment,
    opening::with_store,
    output::{Bytes, Form, Output, Report, ask},
    settings::Settings,
    transfer::Progress,
};

/// Arguments of `snapshot restore`.
#[derive(Args)]
pub struct Restore {
    /// The keyspace, and the snapshot that it is to be; without one, archives say that.
    #[arg(value_name = "KEYSPACE[@NAME]", value_parser = SnapshotAddress::parser())]
    target: SnapshotAddress,
    /// An archive that has everything, and those that say what changed since, the oldest first.
    #[arg(long = "from", value_name = "ARCHIVE", num_args = 1.., value_hint = ValueHint::DirPath)]
    archives: Vec<PathBuf>,
    /// The keyspace that the archives are of, if that is another one.
    #[arg(long, value_name = "NAME", requires = "archives")]
    of: Option<String>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

/// Restores a keyspace and prints a summary.
pub fn run(arguments: &Restore, settings: &Settings, out: &mut Output) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let name = &arguments.target.keyspace;
    let chain = match (&arguments.target.name, arguments.archives.is_empty()) {
        (None, true) => {
            return Err(Failure::Usage(format!(
                "nothing says what '{name}' is to be made: name a snapshot as {name}@NAME, or archives with --from"
            )));
        }
        (Some(_), false) => {
            return Err(Failure::Usage("name a snapshot or archives, not both".to_owned()));
        }
        (Some(_), true) => None,
        (None, false) => Some(Chain::open(&arguments.archives)?),
    };
    if let Some(chain) = &chain {
        verify(chain, settings, &interrupt, out)?;
    }
    let summary = with_store(settings, Create::Never, |store| {
        let keyspace = store.keyspace(name)?;
        if let Some(chain) = &chain {
            check_origin(chain, &keyspace, arguments.of.as_deref())?;
        }
        let snapshot = arguments.target.name.as_deref();
        let view = snapshot.map(|snapshot| take(store, &keyspace, Some(snapshot))).transpose()?;
        if let Some(snapshot) = &view {
            Marker::refuse_partial(snapshot, &keyspace)?;
        }
        let view = view.map(|snapshot| View { snapshot, keyspace: keyspace.clone() });
        let was = match &chain {
            None => "it was".to_owned(),
            Some(chain) => {
                let origin = &chain.last().manifest.origin;
                format!("'{}' was on {}", origin.keyspace.name, moment(origin.taken))
            }
        };
        if !arguments.yes && !confirmed(name, &was, out)? {
            return Err(Failure::Usage(format!(
                "keyspace '{name}' was not restored: answer 'yes', or pass --yes to do it without being asked"
            )));
        }
        let (source, of, identity): (&dyn Source, _, _) = match (&view, &chain) {
            (Some(view), _) => {
                (view, format!("snapshot {}", snapshot.unwrap_or_default()), keyspace.identity())
            }
            (None, Some(chain)) => {
                (chain, chain.id().to_string(), chain.last().manifest.origin.keyspace.identity.clone())
            }
            (None, None) => unreachable!("one of them is named"),
        };
        restore(store, &keyspace, source, &of, &identity, settings, &interrupt, out)
    })?;
    out.done(&summary)
}

/// Refuses archives of another keyspace, unless it is named: all that the keyspace has would be gone.
fn check_origin(chain: &Chain, keyspace: &Keyspace, of: Option<&str>) -> Result<()> {
    let origin = &chain.last().manifest.origin.keyspace;
    let is_named = of.map_or(origin.name == keyspace.name(), |of| origin.name == of);
    if is_named || of.is_none() && origin.identity == keyspace.identity() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the archives are of keyspace '{0}', not of '{1}'; if '{2}' is to become what '{0}' was, say --of '{0}'; to make a \
         keyspace of them, use 'tyr snapshot import'",
        origin.name,
        of.unwrap_or(keyspace.name()),
        keyspace.name()
    )))
}

#[expect(clippy::too_many_arguments, reason = "what is restored, from what, and how it is shown")]
fn restore(
    store: &Store,
    keyspace: &Keyspace,
    source: &dyn Source,
    of: &str,
    identity: &str,
    settings: &Settings,
    interrupt: &Interrupt,
    out: &Output,
) -> Result<Summary> {
    let name = keyspace.name();
    match Marker::of(keyspace)? {
        None => {}
        Some(marker) if marker.state == State::Restoring => {}
        Some(_) => {
            return Err(Failure::Store(Error::invalid(format!(
                "keyspace '{name}' is being imported, or follows another one; end that first"
            ))));
        }
    }
    let now = View { snapshot: take(store, keyspace, None)?, keyspace: keyspace.clone() };
    Marker { state: State::Restoring, of: of.to_owned() }.set(store, keyspace)?;
    let progress = Progress::new(out, "restore");
    let is_own = keyspace.identity() == identity;
    let job = Job {
        store,
        keyspace,
        source,
        now: Some(&now),
        kinship: if is_own { Kinship::SameKeyspace } else { Kinship::None },
        there: There::Compare,
        interrupt,
        progress: &progress,
        tally: Tally::default(),
    };
    let worked = job.run(settings, &|_| Ok(true));
    progress.finish();
    worked?;
    Marker::remove(keyspace)?;
    Ok(Summary {
        action: "restored",
        keyspace: name.to_owned(),
        of: of.to_owned(),
        written: job.tally.written.load(Ordering::Relaxed),
        unchanged: job.tally.unchanged.load(Ordering::Relaxed),
        removed: job.tally.removed.load(Ordering::Relaxed),
        bytes: job.tally.bytes.load(Ordering::Relaxed),
    })
}

/// Asks whoever runs the command. Programs, which read JSON, are not asked.
fn confirmed(name: &str, was: &str, out: &Output) -> Result<bool> {
    if out.form() == Form::Json {
        return Ok(false);
    }
    let answer =
        ask(&format!("Make keyspace '{name}' what {was}? What was written since is lost. [yes/no] "))?;
    Ok(matches!(answer.as_deref(), Some("yes" | "y")))
}

/// What a restore did.
#[derive(Serialize)]
struct Summary {
    action: &'static str,
    keyspace: String,
    of: String,
    written: u64,
    unchanged: u64,
    removed: u64,
    bytes: u64,
}

impl Report for Summary {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!(
            "restored keyspace '{}' to {}: {} blobs changed, {} were as they should be, {} removed, {} of data",
            self.keyspace,
            self.of,
            self.written,
            self.unchanged,
            self.removed,
            Bytes(self.bytes)
        ))
    }
}
