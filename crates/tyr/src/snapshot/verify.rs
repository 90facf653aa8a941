//! Reads archives and compares them with what they should be.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Mutex, PoisonError, atomic::Ordering},
};

use clap::{Args, ValueHint};
use serde::Serialize;
use tyr_client::Create;

use super::{
    address::SnapshotAddress,
    apply::Differences,
    export::{check_interrupt, take},
    source::View,
};
use crate::{
    archive::{Chain, Place},
    failure::Result,
    interrupt::Interrupt,
    opening::with_store,
    output::{Bytes, Output, Report},
    settings::Settings,
    transfer::Progress,
    workers::work_on,
};

/// Arguments of `snapshot verify`.
#[derive(Args)]
pub struct Verify {
    /// An archive that has everything, and those that say what changed since, the oldest first.
    #[arg(value_name = "ARCHIVE", required = true, value_hint = ValueHint::DirPath)]
    archives: Vec<PathBuf>,
    /// Compare every byte with this keyspace as it is now, or one of its snapshots.
    #[arg(long, value_name = "KEYSPACE[@NAME]", value_parser = SnapshotAddress::parser())]
    against: Option<SnapshotAddress>,
}

/// Verifies archives and prints a summary.
pub fn run(arguments: &Verify, settings: &Settings, out: &mut Output) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let chain = Chain::open(&arguments.archives)?;
    let volumes = verify(&chain, settings, &interrupt, out)?;
    if let Some(against) = &arguments.against {
        with_store(settings, Create::Never, |store| {
            let keyspace = store.keyspace(&against.keyspace)?;
            let snapshot = take(store, &keyspace, against.name.as_deref())?;
            compare(&chain, &View { snapshot, keyspace }, settings, &interrupt, out)
        })?;
    }
    let origin = &chain.last().manifest.origin;
    let catalog = &chain.last().catalog;
    out.report(&Summary {
        action: "verified",
        archives: arguments.archives.len(),
        volumes,
        keyspace: &origin.keyspace.name,
        snapshot: origin.snapshot.as_deref(),
        taken: origin.taken,
        blobs: catalog.blobs.len() as u64,
        bytes: catalog.size(),
        against: arguments.against.as_ref().map(|against| against.keyspace.as_str()),
        against_snapshot: arguments.against.as_ref().and_then(|against| against.name.as_deref()),
    })
}

/// Reads every volume of the archives, and checks that it has what the indexes say. Returns how many there are.
pub fn verify(chain: &Chain, settings: &Settings, interrupt: &Interrupt, out: &Output) -> Result<usize> {
    let progress = Progress::new(out, "verify");
    let known: Mutex<BTreeMap<usize, BTreeSet<Place>>> = Mutex::default();
    let volumes: Vec<_> = chain.volumes().collect();
    let verified = work_on(settings.threads, volumes.iter().copied().map(Ok), |(archive, number, length)| {
        check_interrupt(interrupt, "verification")?;
        progress.expect(length);
        let places = chain.verify(archive, number)?;
        known.lock().unwrap_or_else(PoisonError::into_inner).entry(archive).or_default().extend(places);
        progress.advance(length);
        Ok(())
    });
    progress.finish();
    verified?;
    chain.check_places(&known.into_inner().unwrap_or_else(PoisonError::into_inner))?;
    Ok(volumes.len())
}

/// Compares every byte with a keyspace.
pub fn compare(
    chain: &Chain,
    with: &View,
    settings: &Settings,
    interrupt: &Interrupt,
    out: &Output,
) -> Result<()> {
    let progress = Progress::new(out, "compare");
    let differences = Differences::find(chain, with, settings, interrupt, &progress);
    progress.finish();
    let differences = differences?;
    debug_assert!(differences.blobs.load(Ordering::Relaxed) <= chain.last().catalog.blobs.len() as u64);
    differences.conclude(with.keyspace.name())
}

/// What was found.
#[derive(Serialize)]
struct Summary<'a> {
    action: &'static str,
    archives: usize,
    volumes: usize,
    keyspace: &'a str,
    snapshot: Option<&'a str>,
    taken: u64,
    blobs: u64,
    bytes: u64,
    against: Option<&'a str>,
    against_snapshot: Option<&'a str>,
}

impl Report for Summary<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!(
            "{} volumes of {} archives are as they were written: keyspace '{}', {} blobs, {}",
            self.volumes,
            self.archives,
            self.keyspace,
            self.blobs,
            Bytes(self.bytes)
        ))?;
        match (self.against, self.against_snapshot) {
            (Some(against), Some(name)) => {
                out.line(format!("snapshot '{name}' of keyspace '{against}' has the same"))
            }
            (Some(against), None) => out.line(format!("keyspace '{against}' has the same")),
            (None, _) => Ok(()),
        }
    }
}
