//! From a keyspace into an archive.
//!
//! Several threads each write a blob into a volume that nobody else writes to meanwhile. What an interrupted export has written is
//! taken as if it were of an archive before: of a blob that has changed since, only what has changed is written again.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::{Args, ValueHint};
use serde::Serialize;
use tyr_client::{
    Create, Entry, Error, Key, Stat, Written,
    blocking::{Keyspace, Snapshot, Store},
};

use super::{
    address::SnapshotAddress,
    bytes::{PIECE, runs},
    marker::Marker,
    named,
};
use crate::{
    archive::{Blob, Catalog, Chain, Draft, Grain, KeyspaceFacts, Origin, Record, VolumeWriter},
    failure::{Failure, Result},
    interrupt::Interrupt,
    opening::with_store,
    output::{Bytes, Output, Report, Shown},
    settings::Settings,
    transfer::Progress,
    workers::work_on,
};

/// Arguments of `snapshot export`.
#[derive(Args)]
pub struct Export {
    /// The keyspace as it is now, or one of its snapshots.
    #[arg(value_name = "KEYSPACE[@NAME]", value_parser = SnapshotAddress::parser())]
    source: SnapshotAddress,
    /// The directory that becomes the archive; it is created if missing.
    #[arg(value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    archive: PathBuf,
    /// Write only what has changed since this archive was made of the same keyspace.
    #[arg(long, value_name = "ARCHIVE", value_hint = ValueHint::DirPath)]
    since: Option<PathBuf>,
}

/// A volume is ended when it is longer than this, in bytes.
const VOLUME_SIZE: u64 = 256 << 20;
/// Blobs that are listed together.
const PAGE: usize = 64;
/// As many blobs are in flight at least: one that waits for a cluster holds up no other.
pub const THREADS_MIN: usize = 8;

/// Exports a keyspace and prints a summary.
pub fn run(arguments: &Export, settings: &Settings, out: &mut Output) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let summary =
        with_store(settings, Create::Never, |store| export(store, arguments, settings, &interrupt, out))?;
    out.done(&summary)
}

fn export(
    store: &Store,
    arguments: &Export,
    settings: &Settings,
    interrupt: &Interrupt,
    out: &Output,
) -> Result<Summary> {
    let keyspace = store.keyspace(&arguments.source.keyspace)?;
    let snapshot = take(store, &keyspace, arguments.source.name.as_deref())?;
    Marker::refuse_unfinished(&snapshot, &keyspace)?;
    let snapshot_name = arguments.source.name.clone();
    let taken = match &snapshot_name {
        Some(name) => named::taken(store, &keyspace, name)?,
        None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    let origin = Origin { keyspace: KeyspaceFacts::of(&keyspace), snapshot: snapshot_name, taken };
    let since = match &arguments.since {
        None => None,
        Some(directory) => {
            let chain = Chain::open_some(std::slice::from_ref(directory))?;
            let theirs = &chain.last().manifest.origin.keyspace;
            if theirs.identity != origin.keyspace.identity {
                return Err(Failure::Store(Error::invalid(format!(
                    "'{}' is an archive of another keyspace; what changed since it was made is not known: export without --since",
                    directory.display()
                ))));
            }
            Some(chain)
        }
    };
    let draft = Draft::open(&arguments.archive, origin, since.as_ref().map(Chain::id))?;
    let job = Job {
        snapshot,
        keyspace,
        since: since.as_ref().map(|chain| &chain.last().catalog),
        draft,
        volumes: Mutex::default(),
        interrupt,
        progress: Progress::new(out, "export"),
    };
    let threads = settings.threads.max(THREADS_MIN);
    let worked = work_on(threads, job.entries(), |entry| job.export(&entry)).and_then(|()| job.remove_gone());
    job.progress.finish();
    let Job { draft, volumes, .. } = job;
    // What is whole of an interrupted export is kept.
    let volumes = volumes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ended = volumes.into_iter().try_for_each(|volume| draft.finish_volume(volume));
    worked.and(ended)?;
    let (id, is_continued) = (draft.id(), draft.is_continued());
    let manifest = draft.publish()?;
    let content = manifest.content.as_ref();
    Ok(Summary {
        action: "exported",
        archive: id.to_string(),
        since: manifest.since.clone(),
        continued: is_continued,
        blobs: content.map_or(0, |content| content.blobs),
        bytes: content.map_or(0, |content| content.bytes),
        data: content.map_or(0, |content| content.data),
    })
}

/// The snapshot that is named, or one of now.
pub fn take(store: &Store, keyspace: &Keyspace, name: Option<&str>) -> Result<Snapshot> {
    match name {
        None => Ok(store.snapshot(&[keyspace])?),
        Some(name) => Ok(store.open_snapshot(keyspace, name)?),
    }
}

struct Job<'a> {
    snapshot: Snapshot,
    keyspace: Keyspace,
    since: Option<&'a Catalog>,
    draft: Draft,
    /// Volumes that nobody writes to just now.
    volumes: Mutex<Vec<VolumeWriter>>,
    interrupt: &'a Interrupt,
    progress: Progress,
}

impl Job<'_> {
    /// All blobs of the snapshot.
    fn entries(&self) -> impl Iterator<Item = Result<Entry>> {
        pages(&self.snapshot, &self.keyspace).flat_map(|page| match page {
            Ok(page) => page.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(failure) => vec![Err(failure)],
        })
    }

    fn export(&self, entry: &Entry) -> Result<()> {
        self.check_interrupt()?;
        let free = self.volumes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut volume = match free {
            Some(volume) => volume,
            None => self.draft.volume()?,
        };
        let worked = self.export_blob(&entry.key, &mut volume);
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner).push(volume);
        worked
    }

    fn export_blob(&self, key: &Key, volume: &mut VolumeWriter) -> Result<()> {
        let stat = self.snapshot.stat(&self.keyspace, key)?;
        self.progress.expect(stat.size);
        let mut blob = blob_of(stat, self.snapshot.written(&self.keyspace, key)?);
        let former = self.draft.known.blobs.get(key);
        let since = self.since.and_then(|since| since.blobs.get(key));
        if let Some(former) = former.filter(|former| former.is_whole && is_same(former, &blob)) {
            self.draft.note(key.clone(), former.clone());
            self.progress.advance(blob.size);
            return Ok(());
        }
        volume.put(&Record::Blob(key.clone(), blob.clone()))?;
        let mut begun = volume.length();
        for (index, Grain { print, .. }) in blob.grains.clone() {
            let place =
                if let Some(place) = former.and_then(|former| former.same(&blob, index, print)).flatten() {
                    Some(place)
                } else if since.is_some_and(|since| since.same(&blob, index, print).is_some()) {
                    None
                } else {
                    if volume.length() > VOLUME_SIZE {
                        // The blob goes on in the next volume. What it says of former volumes is known to whoever reads them in order.
                        let next = self.draft.volume()?;
                        self.draft.finish_volume(std::mem::replace(volume, next))?;
                        volume.put(&Record::Blob(key.clone(), blob.clone()))?;
                        begun = volume.length();
                    }
                    self.export_grain(key, &blob, index, volume)?;
                    volume.put(&Record::Grain(index, print))?;
                    let place = crate::archive::Place { volume: volume.number(), position: begun };
                    begun = volume.length();
                    Some(place)
                };
            if let Some(grain) = blob.grains.get_mut(&index) {
                grain.place = place;
            }
        }
        volume.put(&Record::Whole)?;
        self.draft.note(key.clone(), blob);
        Ok(())
    }

    fn export_grain(&self, key: &Key, blob: &Blob, index: u64, volume: &mut VolumeWriter) -> Result<()> {
        let start = index * blob.grain;
        let end = start.saturating_add(blob.grain).min(blob.size);
        let mut offset = start;
        let mut buffer = vec![0; PIECE.min(usize::try_from(end - start).unwrap_or(PIECE))];
        while offset < end {
            self.check_interrupt()?;
            let want = buffer.len().min(usize::try_from(end - offset).unwrap_or(PIECE));
            let read = self.snapshot.read_into(&self.keyspace, key, offset, &mut buffer[..want]);
            let read = read.map_err(|error| {
                error.context(format!("{}/{}", self.keyspace.name(), Shown(key.as_bytes())))
            })?;
            if read < want {
                return Err(Error::internal("a blob of a snapshot is shorter than its size says").into());
            }
            for run in runs(&buffer[..want]) {
                self.draft.count(run.len() as u64);
                volume.put(&Record::Data(offset + run.start as u64, buffer[run].to_vec()))?;
            }
            offset += want as u64;
            self.progress.advance(want as u64);
        }
        Ok(())
    }

    /// Says of blobs that an interrupted export had written that they are no more.
    fn remove_gone(&self) -> Result<()> {
        let mut volume = None;
        for key in self.draft.known.blobs.keys() {
            if !self.snapshot.exists(&self.keyspace, key)? {
                let volume = match &mut volume {
                    Some(volume) => volume,
                    none => none.insert(self.draft.volume()?),
                };
                volume.put(&Record::Gone(key.clone()))?;
            }
        }
        volume.map_or(Ok(()), |volume| self.draft.finish_volume(volume))
    }

    fn check_interrupt(&self) -> Result<()> {
        check_interrupt(self.interrupt, "export")
    }
}

/// Fails once a signal has asked to stop.
pub fn check_interrupt(interrupt: &Interrupt, what: &str) -> Result<()> {
    if interrupt.is_asked() {
        return Err(Failure::Interrupted(format!(
            "the {what} was interrupted; run the same command again and it goes on where it stopped"
        )));
    }
    Ok(())
}

/// All blobs of a snapshot, page by page.
pub fn pages(snapshot: &Snapshot, keyspace: &Keyspace) -> impl Iterator<Item = Result<Vec<Entry>>> {
    let mut after: Option<Key> = None;
    std::iter::from_fn(move || match snapshot.scan(keyspace, "", after.as_ref().map(Key::as_bytes), PAGE) {
        Err(error) => Some(Err(error.into())),
        Ok(entries) => {
            after = Some(entries.last()?.key.clone());
            Some(Ok(entries))
        }
    })
}

/// A blob as it is to be written, with nothing of it written.
pub fn blob_of(stat: Stat, written: Written) -> Blob {
    let grain = |(index, print)| (index, Grain { print, place: None });
    let mut blob = Blob {
        created: stat.blob,
        version: stat.version,
        size: stat.size,
        attributes: stat.attributes,
        grain: written.grain,
        grains: written.prints.into_iter().map(grain).collect(),
        is_whole: false,
    };
    blob.coarsen();
    blob
}

/// Whether nothing of a blob has changed.
pub fn is_same(one: &Blob, other: &Blob) -> bool {
    let prints =
        |blob: &Blob| blob.grains.iter().map(|(index, grain)| (*index, grain.print)).collect::<Vec<_>>();
    (one.created, one.size, one.grain) == (other.created, other.size, other.grain)
        && one.attributes == other.attributes
        && prints(one) == prints(other)
}

/// What an export did.
#[derive(Serialize)]
struct Summary {
    action: &'static str,
    archive: String,
    since: Option<String>,
    continued: bool,
    blobs: u64,
    bytes: u64,
    data: u64,
}

impl Report for Summary {
    fn print(&self, out: &mut Output) -> Result<()> {
        let went_on = if self.continued { ", going on with an export that was interrupted" } else { "" };
        out.line(format!(
            "exported {} blobs, {}, with {} of data, as archive {}{went_on}",
            self.blobs,
            Bytes(self.bytes),
            Bytes(self.data),
            self.archive
        ))
    }
}
