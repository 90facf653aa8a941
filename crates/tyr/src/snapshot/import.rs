//! From archives into a keyspace, which is created for it.

use std::{path::PathBuf, sync::atomic::Ordering};

use clap::{Args, ValueHint};
use serde::Serialize;
use tyr_client::{
    Create, Error, ErrorKind, Key,
    blocking::{Keyspace, Store},
};

use super::{
    apply::{Job, Tally, There},
    export::{is_same, take},
    marker::{KEY, Marker, State},
    source::{Kinship, View},
    verify::{compare, verify},
};
use crate::{
    archive::{Catalog, Chain},
    failure::{Failure, Result},
    interrupt::Interrupt,
    opening::with_store,
    output::{Bytes, Output, Report},
    settings::Settings,
    transfer::Progress,
};

/// Arguments of `snapshot import`.
#[derive(Args)]
pub struct Import {
    /// An archive that has everything, and those that say what changed since, the oldest first.
    #[arg(value_name = "ARCHIVE", required = true, value_hint = ValueHint::DirPath)]
    archives: Vec<PathBuf>,
    /// The keyspace to make of them; it does not exist, or is empty, or stands by for what these archives have.
    #[arg(value_name = "KEYSPACE")]
    target: String,
    /// Have the keyspace stand by, so that later archives can be imported into it.
    #[arg(long)]
    standby: bool,
    /// Compare every byte when it is whole.
    #[arg(long)]
    verify: bool,
}

/// Imports archives and prints a summary.
pub fn run(arguments: &Import, settings: &Settings, out: &mut Output) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let chain = Chain::open(&arguments.archives)?;
    verify(&chain, settings, &interrupt, out)?;
    let summary = with_store(settings, Create::IfMissing, |store| {
        import(store, &chain, arguments, settings, &interrupt, out)
    })?;
    out.done(&summary)
}

fn import(
    store: &Store,
    chain: &Chain,
    arguments: &Import,
    settings: &Settings,
    interrupt: &Interrupt,
    out: &Output,
) -> Result<Summary> {
    let origin = &chain.last().manifest.origin.keyspace;
    let name = arguments.target.as_str();
    let id = chain.id().to_string();
    let begun = begin(store, chain, name, &id)?;
    let keyspace = &begun.keyspace;
    let progress = Progress::new(out, "import");
    let snapshot = (begun.there == There::Compare).then(|| take(store, keyspace, None)).transpose()?;
    let now = snapshot.map(|snapshot| View { snapshot, keyspace: keyspace.clone() });
    let job = Job {
        store,
        keyspace,
        source: chain,
        now: now.as_ref(),
        kinship: Kinship::None,
        there: begun.there,
        interrupt,
        progress: &progress,
        tally: Tally::default(),
    };
    // Of what the keyspace has from an archive before, and from no other, what has not changed since is right.
    let is_wanted = |key: &Key| {
        let former = begun.follows.and_then(|catalog| catalog.blobs.get(key));
        let blob = chain.last().catalog.blobs.get(key);
        Ok(!former.zip(blob).is_some_and(|(former, blob)| is_same(former, blob)))
    };
    let worked = job.run(settings, &is_wanted);
    progress.finish();
    worked?;
    let tally = &job.tally;
    let summary = Summary {
        action: "imported",
        keyspace: name.to_owned(),
        archive: id.clone(),
        written: tally.written.load(Ordering::Relaxed),
        unchanged: tally.unchanged.load(Ordering::Relaxed),
        removed: tally.removed.load(Ordering::Relaxed),
        bytes: tally.bytes.load(Ordering::Relaxed),
        standby: arguments.standby,
    };
    if arguments.verify {
        let snapshot = take(store, keyspace, None)?;
        compare(chain, &View { snapshot, keyspace: keyspace.clone() }, settings, interrupt, out)?;
    }
    if let Some(quota) = origin.quota {
        let limited = tyr_client::KeyspaceSettings { quota: Some(quota), ..keyspace.settings() };
        if let Err(error) = store.alter_keyspace(name, limited) {
            out.warnings()
                .say(format!("keyspace '{name}' has no quota, though it had one of {quota} bytes: {error}"));
        }
    }
    // From here on it is whole.
    if arguments.standby {
        Marker { state: State::Standby, of: id }.set(store, keyspace)?;
    } else {
        Marker::remove(keyspace)?;
    }
    Ok(summary)
}

/// The keyspace, and what is known of what it has.
struct Begun<'a> {
    keyspace: Keyspace,
    there: There,
    /// What it had when it stood by. None if it did not, or if a part of another archive was written since.
    follows: Option<&'a Catalog>,
}

fn begin<'a>(store: &Store, chain: &'a Chain, name: &str, id: &str) -> Result<Begun<'a>> {
    let origin = &chain.last().manifest.origin.keyspace;
    let invalid = |what: String| Err(Failure::Store(Error::invalid(what)));
    let keyspace = match store.keyspace(name) {
        Ok(keyspace) => keyspace,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let keyspace = store.create_keyspace(name, origin.settings())?;
            Marker { state: State::Importing, of: id.to_owned() }.set(store, &keyspace)?;
            return Ok(Begun { keyspace, there: There::IsRight, follows: None });
        }
        Err(error) => return Err(error.into()),
    };
    match Marker::of(&keyspace)? {
        Some(Marker { state: State::Importing, of }) if of == id => {
            Ok(Begun { keyspace, there: There::IsRight, follows: None })
        }
        Some(Marker { state: State::Importing, of }) => invalid(format!(
            "keyspace '{name}' is being made of archive {of}, and not of {id}; import that one again, or drop the keyspace"
        )),
        Some(Marker { state: state @ (State::Standby | State::Following), of }) => {
            // What was interrupted is of the archive that it is to follow, or of one on the way there.
            let (base, target) = of.split_once(' ').unwrap_or((&of, ""));
            let Some(follows) = chain.catalog_of(base) else {
                return invalid(format!(
                    "keyspace '{name}' has what archive {base} has, which is none of those that are named; name it, and those that follow"
                ));
            };
            // A part of another target may be anywhere, until all is compared: no target is named as long as that is so.
            let is_of_base = state == State::Standby || target == id;
            let of = if is_of_base { format!("{base} {id}") } else { base.to_owned() };
            Marker { state: State::Following, of }.set(store, &keyspace)?;
            Ok(Begun { keyspace, there: There::Compare, follows: is_of_base.then_some(follows) })
        }
        Some(Marker { state: State::Restoring, .. }) => {
            invalid(format!("keyspace '{name}' is being restored; end that first"))
        }
        None if keyspace.scan("", None, 1)?.is_empty() => {
            // The import may have been interrupted when it had created it.
            Marker { state: State::Importing, of: id.to_owned() }.set(store, &keyspace)?;
            Ok(Begun { keyspace, there: There::IsRight, follows: None })
        }
        None => Err(Failure::Store(Error::exists(format!(
            "keyspace '{name}' has blobs, and no blob '{KEY}' that says that it is to be imported into; name another keyspace, or use 'tyr snapshot restore'"
        )))),
    }
}

/// What an import did.
#[derive(Serialize)]
struct Summary {
    action: &'static str,
    keyspace: String,
    archive: String,
    written: u64,
    unchanged: u64,
    removed: u64,
    bytes: u64,
    standby: bool,
}

impl Report for Summary {
    fn print(&self, out: &mut Output) -> Result<()> {
        let standby = if self.standby { "; it stands by for what changes" } else { "" };
        out.line(format!(
            "imported keyspace '{}': {} blobs written, {} were there, {} removed, {} of data{standby}",
            self.keyspace,
            self.written,
            self.unchanged,
            self.removed,
            Bytes(self.bytes)
        ))
    }
}
