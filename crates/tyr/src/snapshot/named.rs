//! Snapshots that have names: taken, listed, shown, and removed.

use clap::Args;
use serde::Serialize;
use tyr_client::{
    Create, Error,
    blocking::{Keyspace, Store},
};

use super::{address::SnapshotAddress, export::pages};
use crate::{
    failure::{Failure, Result},
    moment::moment,
    opening::with_store,
    output::{Align, Bytes, Output, Report, Table},
    settings::Settings,
};

/// Arguments of verbs about one snapshot.
#[derive(Args)]
pub struct Named {
    /// The keyspace and the snapshot's name: letters, digits, '-', '_', '.', beginning with a letter or digit.
    #[arg(value_name = "KEYSPACE@NAME", value_parser = SnapshotAddress::parser())]
    snapshot: SnapshotAddress,
}

/// Arguments of `snapshot ls`.
#[derive(Args)]
pub struct List {
    /// The keyspace; all if not given.
    #[arg(value_name = "KEYSPACE")]
    keyspace: Option<String>,
}

impl Named {
    fn name(&self) -> Result<&str> {
        let keyspace = &self.snapshot.keyspace;
        self.snapshot.name.as_deref().ok_or_else(|| {
            Failure::Usage(format!(
                "'{keyspace}' names a keyspace but no snapshot of it; write {keyspace}@NAME"
            ))
        })
    }
}

/// Takes a snapshot.
pub fn create(arguments: &Named, settings: &Settings, out: &mut Output) -> Result<()> {
    let name = arguments.name()?;
    with_store(settings, Create::Never, |store| {
        let keyspace = store.keyspace(&arguments.snapshot.keyspace)?;
        Ok(store.create_snapshot(&keyspace, name)?)
    })?;
    out.done(&Done { action: "created", keyspace: &arguments.snapshot.keyspace, snapshot: name })
}

/// Removes a snapshot.
pub fn remove(arguments: &Named, settings: &Settings, out: &mut Output) -> Result<()> {
    let name = arguments.name()?;
    with_store(settings, Create::Never, |store| {
        let keyspace = store.keyspace(&arguments.snapshot.keyspace)?;
        Ok(store.drop_snapshot(&keyspace, name)?)
    })?;
    out.done(&Done { action: "removed", keyspace: &arguments.snapshot.keyspace, snapshot: name })
}

/// Lists snapshots.
pub fn list(arguments: &List, settings: &Settings, out: &mut Output) -> Result<()> {
    let snapshots = with_store(settings, Create::Never, |store| {
        let names = match &arguments.keyspace {
            Some(name) => vec![name.clone()],
            None => store.keyspaces().into_iter().map(|keyspace| keyspace.name).collect(),
        };
        let mut all = Vec::new();
        for keyspace in names {
            let of = store.snapshots(&store.keyspace(&keyspace)?)?;
            all.extend(of.into_iter().map(|snapshot| Listed {
                keyspace: keyspace.clone(),
                snapshot: snapshot.name,
                taken: snapshot.taken,
                complete: snapshot.is_complete,
            }));
        }
        Ok(all)
    })?;
    out.report(&Listing { snapshots })
}

/// Shows a snapshot.
pub fn show(arguments: &Named, settings: &Settings, out: &mut Output) -> Result<()> {
    let name = arguments.name()?;
    let shown = with_store(settings, Create::Never, |store| {
        let keyspace = store.keyspace(&arguments.snapshot.keyspace)?;
        let snapshot = store.open_snapshot(&keyspace, name)?;
        let (mut blobs, mut bytes) = (0, 0_u64);
        for page in pages(&snapshot, &keyspace) {
            for entry in page? {
                blobs += 1;
                bytes = bytes.saturating_add(entry.size);
            }
        }
        let taken = taken(store, &keyspace, name)?;
        Ok(Contents { keyspace: keyspace.name().to_owned(), snapshot: name.to_owned(), taken, blobs, bytes })
    })?;
    out.report(&shown)
}

/// When a snapshot was taken.
pub fn taken(store: &Store, keyspace: &Keyspace, name: &str) -> Result<u64> {
    let found = store.snapshots(keyspace)?.into_iter().find(|snapshot| snapshot.name == name);
    let missing = || {
        Error::not_found(format!("keyspace '{}' has no snapshot '{name}'; correct the name", keyspace.name()))
    };
    Ok(found.ok_or_else(missing)?.taken)
}

/// Says what was done.
#[derive(Serialize)]
struct Done<'a> {
    action: &'static str,
    keyspace: &'a str,
    snapshot: &'a str,
}

impl Report for Done<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("{} snapshot {}@{}", self.action, self.keyspace, self.snapshot))
    }
}

#[derive(Serialize)]
struct Listing {
    snapshots: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    keyspace: String,
    snapshot: String,
    taken: u64,
    complete: bool,
}

impl Report for Listing {
    fn print(&self, out: &mut Output) -> Result<()> {
        let mut table = Table::new([("SNAPSHOT", Align::Left), ("TAKEN", Align::Left)]);
        for Listed { keyspace, snapshot, taken, complete } in &self.snapshots {
            let note = if *complete { "" } else { ", not complete: wait, or remove it" };
            table.row([format!("{keyspace}@{snapshot}"), format!("{}{note}", moment(*taken))]);
        }
        table.print(out)
    }
}

#[derive(Serialize)]
struct Contents {
    keyspace: String,
    snapshot: String,
    taken: u64,
    blobs: u64,
    bytes: u64,
}

impl Report for Contents {
    fn print(&self, out: &mut Output) -> Result<()> {
        let mut table = Table::new([]);
        let facts = [
            ("snapshot", format!("{}@{}", self.keyspace, self.snapshot)),
            ("taken", moment(self.taken)),
            ("blobs", self.blobs.to_string()),
            ("bytes", format!("{} ({})", self.bytes, Bytes(self.bytes))),
        ];
        for (name, fact) in facts {
            table.row([name.to_owned(), fact]);
        }
        table.print(out)
    }
}
