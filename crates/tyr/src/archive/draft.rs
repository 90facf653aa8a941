//! An archive that is being written, or was when the export was interrupted.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use tyr_client::Error;
use tyr_types::Key;

use super::{
    ArchiveId, Blob, Catalog, Manifest, Origin, Record, VolumeWriter, create_directory, damaged, failed,
    hold::{self, Hold},
    index,
    manifest::{Content, FORMAT, FileFacts},
    volume::{self, VolumeReader},
};
use crate::failure::{Failure, Result};

/// An archive that is being written.
pub struct Draft {
    directory: PathBuf,
    id: ArchiveId,
    manifest: Manifest,
    /// What the volumes had when this export began; of what it adds, [`Draft::note`] is told.
    pub known: Catalog,
    volumes: Mutex<BTreeMap<u32, FileFacts>>,
    next: AtomicU32,
    noted: Mutex<Catalog>,
    data: AtomicU64,
    is_continued: bool,
    hold: Hold,
}

impl Draft {
    /// Begins an archive in a directory that is empty or not there, or goes on with one of the same keyspace since the same archive. Fails if another export is writing to
    /// it.
    pub fn open(directory: &Path, origin: Origin, since: Option<ArchiveId>) -> Result<Self> {
        create_directory(directory).map_err(|error| failed("create", directory, &error))?;
        let shown = directory.display();
        refuse_whole(directory)?;
        let hold = Hold::take(directory)?;
        // Whoever held it may have made it whole.
        refuse_whole(directory)?;
        let since = since.map(|since| since.to_string());
        let Some(mut manifest) = Manifest::read_draft(directory)? else {
            let mut there = fs::read_dir(directory).map_err(|error| failed("read", directory, &error))?;
            if there.any(|entry| entry.is_ok_and(|entry| !is_leftover(&entry.file_name()))) {
                return Err(Failure::Store(Error::invalid(format!(
                    "'{shown}' holds something that is no archive; name an empty directory, or one that is not there"
                ))));
            }
            let id = ArchiveId::random();
            let manifest = Manifest { format: FORMAT, archive: id.to_string(), since, origin, content: None };
            manifest.write_draft(directory)?;
            return Ok(Self::with(directory, id, manifest, false, hold));
        };
        let id = manifest.id(directory)?;
        let is_same = manifest.origin.keyspace.identity == origin.keyspace.identity
            && manifest.origin.snapshot == origin.snapshot
            && manifest.since == since;
        if !is_same {
            return Err(Failure::Store(Error::invalid(format!(
                "'{shown}' holds a part of another archive: of {}; name another directory",
                manifest.origin.describe()
            ))));
        }
        manifest.origin = origin;
        // What the last blobs of this export are follows from this point; those of the former one are looked at again.
        manifest.write_draft(directory)?;
        let mut draft = Self::with(directory, id, manifest, true, hold);
        draft.take_up()?;
        Ok(draft)
    }

    fn with(directory: &Path, id: ArchiveId, manifest: Manifest, is_continued: bool, hold: Hold) -> Self {
        Draft {
            directory: directory.to_owned(),
            id,
            manifest,
            known: Catalog::default(),
            volumes: Mutex::default(),
            next: AtomicU32::new(0),
            noted: Mutex::default(),
            data: AtomicU64::new(0),
            is_continued,
            hold,
        }
    }

    /// Reads the volumes that are there; those that were not finished are cut after their last whole record.
    fn take_up(&mut self) -> Result<()> {
        let mut numbers = Vec::new();
        let entries = fs::read_dir(&self.directory);
        for entry in entries.map_err(|error| failed("read", &self.directory, &error))? {
            let name = entry.map_err(|error| failed("read", &self.directory, &error))?.file_name();
            numbers.extend(name.to_str().and_then(volume::number_of));
        }
        numbers.sort_unstable();
        for number in numbers {
            let length = fs::metadata(volume::path_of(&self.directory, number));
            let length = length
                .map_err(|error| failed("look at", &volume::path_of(&self.directory, number), &error))?;
            *self.next.get_mut() = number.saturating_add(1);
            if length.len() < volume::FIRST {
                volume::remove(&self.directory, number)?;
                continue;
            }
            self.take_up_volume(number)?;
        }
        Ok(())
    }

    fn take_up_volume(&mut self, number: u32) -> Result<()> {
        loop {
            let mut reader = VolumeReader::open(&self.directory, self.id, number)?;
            let mut folding = self.known.fold(number, volume::FIRST);
            let mut data = 0;
            loop {
                let position = reader.position();
                let Ok(record) = reader.next()? else {
                    // Nobody was told that it is there. Read again from the beginning, for its checksum.
                    volume::mend(&self.directory, number, position)?;
                    break;
                };
                let is_last = record == Record::End;
                if let Record::Data(_, bytes) = &record {
                    data += bytes.len() as u64;
                }
                let taken = folding.take(record, reader.position());
                taken.map_err(|why| damaged(reader.path(), why))?;
                if is_last {
                    let (length, checksum) = reader.finish()?;
                    let facts = FileFacts::of(volume::Written { number, length, checksum });
                    lock(&self.volumes).insert(number, facts);
                    self.data.fetch_add(data, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
    }

    /// Its id.
    pub fn id(&self) -> ArchiveId {
        self.id
    }

    /// Whether an export goes on that was interrupted.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Begins a volume.
    pub fn volume(&self) -> Result<VolumeWriter> {
        VolumeWriter::create(&self.directory, self.id, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends a volume that has so many bytes of data.
    pub fn finish_volume(&self, volume: VolumeWriter) -> Result<()> {
        let written = volume.finish()?;
        lock(&self.volumes).insert(written.number, FileFacts::of(written));
        Ok(())
    }

    /// Counts data that was written.
    pub fn count(&self, bytes: u64) {
        self.data.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A blob as the archive has it now.
    pub fn note(&self, key: Key, blob: Blob) {
        lock(&self.noted).blobs.insert(key, blob);
    }

    /// Makes the archive whole: all its blobs have been noted.
    pub fn publish(self) -> Result<Manifest> {
        let Draft { directory, id, mut manifest, volumes, noted, data, hold, .. } = self;
        let catalog = noted.into_inner().unwrap_or_else(PoisonError::into_inner);
        let index = index::write(&directory, id, &catalog)?;
        manifest.content = Some(Content {
            blobs: catalog.blobs.len() as u64,
            bytes: catalog.size(),
            data: data.into_inner(),
            index,
            volumes: volumes.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect(),
        });
        manifest.publish(&directory)?;
        drop(hold);
        Ok(manifest)
    }
}

impl Origin {
    /// In words.
    pub fn describe(&self) -> String {
        match &self.snapshot {
            Some(name) => format!("keyspace '{}' at its snapshot '{name}'", self.keyspace.name),
            None => format!("keyspace '{}'", self.keyspace.name),
        }
    }
}

fn refuse_whole(directory: &Path) -> Result<()> {
    if directory.join(super::manifest::NAME).exists() {
        return Err(Failure::Store(Error::exists(format!(
            "there is a whole archive at '{}' already; name another directory",
            directory.display()
        ))));
    }
    Ok(())
}

/// Whether a file may lie there before anything was begun.
fn is_leftover(name: &std::ffi::OsStr) -> bool {
    name == "manifest.draft.new" || name == hold::NAME
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
