//! Archives that belong together: one that has everything, and those that say what changed since, each since the one before.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use tyr_client::Error;
use tyr_types::Key;

use super::{
    ArchiveId, Blob, Catalog, Manifest, Place, Record, damaged, index, missed,
    volume::{self, VolumeReader},
};
use crate::failure::{Failure, Result};

/// Archives of a keyspace, the oldest first.
pub struct Chain {
    archives: Vec<Archive>,
}

/// One of them.
pub struct Archive {
    directory: PathBuf,
    id: ArchiveId,
    /// What it is.
    pub manifest: Manifest,
    /// What it has.
    pub catalog: Catalog,
}

impl Archive {
    fn open(directory: &Path) -> Result<Self> {
        let manifest = Manifest::read(directory)?;
        let id = manifest.id(directory)?;
        let content = manifest.content.as_ref();
        let content = content.ok_or_else(|| damaged(directory, "has no content"))?;
        for facts in &content.volumes {
            let path = directory.join(&facts.name);
            let is_name = volume::number_of(&facts.name)
                .is_some_and(|number| volume::path_of(directory, number) == path);
            if !is_name {
                return Err(damaged(directory, "names a volume that is none"));
            }
            let length = fs::metadata(&path).map_err(|error| missed("look at", &path, &error))?.len();
            if length != facts.length {
                return Err(damaged(&path, format_args!("has {length} bytes and not {}", facts.length)));
            }
        }
        let catalog = index::read(directory, id, &content.index)?;
        if catalog.blobs.len() as u64 != content.blobs {
            return Err(damaged(directory, "has another number of blobs than its manifest says"));
        }
        Ok(Archive { directory: directory.to_owned(), id, manifest, catalog })
    }

    /// Reads a volume and checks that it is what was written. Notes where grains begin in it.
    fn verify_volume(&self, number: u32, length: u64, checksum: u32, places: &mut Places) -> Result<()> {
        let mut reader = VolumeReader::open(&self.directory, self.id, number)?;
        let mut found = Catalog::default();
        let mut folding = found.fold(number, volume::FIRST);
        loop {
            let record = reader.record()?;
            let is_last = record == Record::End;
            if let Record::Grain(..) = record {
                // Where it began is where the record before it ended that was no data.
                places.end();
            }
            let is_data = matches!(record, Record::Data(..));
            folding.take(record, reader.position()).map_err(|why| damaged(reader.path(), why))?;
            if !is_data {
                places.begin(Place { volume: number, position: reader.position() });
            }
            if is_last {
                break;
            }
        }
        let path = reader.path().to_owned();
        if reader.finish()? != (length, checksum) {
            return Err(damaged(&path, "has a wrong checksum"));
        }
        Ok(())
    }
}

/// Where grains begin in the volumes.
#[derive(Default)]
struct Places {
    begun: Option<Place>,
    known: std::collections::BTreeSet<Place>,
}

impl Places {
    fn begin(&mut self, place: Place) {
        self.begun = Some(place);
    }

    fn end(&mut self) {
        self.known.extend(self.begun.take());
    }
}

impl Chain {
    /// Opens archives that are named oldest first. Fails unless the first has everything and each of the others follows the one before.
    pub fn open(directories: &[PathBuf]) -> Result<Self> {
        let chain = Self::open_some(directories)?;
        match &chain.first().manifest.since {
            None => Ok(chain),
            Some(since) => Err(Failure::Store(Error::invalid(format!(
                "'{}' says only what changed since the archive {since}; name that one, and all before it, first",
                chain.first().directory.display()
            )))),
        }
    }

    /// The same, of archives that need not begin with one that has everything.
    pub fn open_some(directories: &[PathBuf]) -> Result<Self> {
        let archives =
            directories.iter().map(|directory| Archive::open(directory)).collect::<Result<Vec<_>>>()?;
        for pair in archives.windows(2) {
            let [before, after] = pair else { continue };
            if after.manifest.since != Some(before.manifest.archive.clone()) {
                return Err(Failure::Store(Error::invalid(format!(
                    "'{}' does not follow '{}': it says what changed since {}; name the archives in their order, and none left out",
                    after.directory.display(),
                    before.directory.display(),
                    after.manifest.since.as_deref().unwrap_or("nothing, since it has everything")
                ))));
            }
        }
        if archives.is_empty() {
            return Err(Failure::Usage("no archive is named".to_owned()));
        }
        Ok(Chain { archives })
    }

    fn first(&self) -> &Archive {
        self.archives.first().expect("a chain is not empty")
    }

    /// The newest archive, whose blobs are those of the chain.
    pub fn last(&self) -> &Archive {
        self.archives.last().expect("a chain is not empty")
    }

    /// The id of the newest archive.
    pub fn id(&self) -> ArchiveId {
        self.last().id
    }

    /// The blobs as they were when an archive of this id was made.
    pub fn catalog_of(&self, id: &str) -> Option<&Catalog> {
        let archive = self.archives.iter().find(|archive| archive.manifest.archive == id);
        archive.map(|archive| &archive.catalog)
    }

    /// How many files and bytes there are to verify.
    pub fn volumes(&self) -> impl Iterator<Item = (usize, u32, u64)> {
        self.archives.iter().enumerate().flat_map(|(archive, of)| {
            let volumes = of.manifest.content.iter().flat_map(|content| &content.volumes);
            volumes.filter_map(move |facts| Some((archive, volume::number_of(&facts.name)?, facts.length)))
        })
    }

    /// Reads a volume and checks that it is what was written. Returns where the grains begin that it has.
    pub fn verify(&self, archive: usize, number: u32) -> Result<std::collections::BTreeSet<Place>> {
        let of = &self.archives[archive];
        let volumes = of.manifest.content.iter().flat_map(|content| &content.volumes);
        let mut facts = volumes.filter(|facts| volume::number_of(&facts.name) == Some(number));
        let mut places = Places::default();
        if let Some(facts) = facts.next() {
            of.verify_volume(number, facts.length, facts.crc32c, &mut places)?;
        }
        Ok(places.known)
    }

    /// Checks that every grain of every blob is somewhere, given where grains begin in each archive's volumes.
    pub fn check_places(&self, known: &BTreeMap<usize, std::collections::BTreeSet<Place>>) -> Result<()> {
        for (key, blob) in &self.last().catalog.blobs {
            for index in blob.grains.keys() {
                let (archive, place) = self.find(key, blob, *index)?;
                if !known.get(&archive).is_some_and(|places| places.contains(&place)) {
                    return Err(damaged(
                        &self.archives[archive].directory,
                        "has an index that does not fit its volumes",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Where the bytes of a grain of a blob of the newest archive are.
    fn find(&self, key: &Key, blob: &Blob, index: u64) -> Result<(usize, Place)> {
        let gap = || {
            damaged(
                &self.last().directory,
                format_args!(
                    "has a blob of which something is in no archive that is named: {}",
                    crate::output::Shown(key.as_bytes())
                ),
            )
        };
        let print = blob.grains.get(&index).ok_or_else(gap)?.print;
        for (number, archive) in self.archives.iter().enumerate().rev() {
            let theirs = archive.catalog.blobs.get(key).ok_or_else(gap)?;
            match theirs.same(blob, index, print) {
                Some(Some(place)) => return Ok((number, place)),
                Some(None) => {}
                None => return Err(gap()),
            }
        }
        Err(gap())
    }

    /// Hands over the bytes of a grain that are not zeros, piece by piece, with their offsets.
    pub fn read_grain(
        &self,
        key: &Key,
        index: u64,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let blob = self.last().catalog.blobs.get(key);
        let blob = blob.ok_or_else(|| Error::internal("a blob is read that the archive has not"))?;
        let (archive, place) = self.find(key, blob, index)?;
        let archive = &self.archives[archive];
        let mut reader = VolumeReader::open(&archive.directory, archive.id, place.volume)?;
        reader.seek(place.position)?;
        let bytes = index * blob.grain..(index * blob.grain).saturating_add(blob.grain).min(blob.size);
        let print = blob.grains.get(&index).map_or(0, |grain| grain.print);
        loop {
            match reader.record()? {
                Record::Data(offset, data) => {
                    let end = offset.saturating_add(data.len() as u64);
                    // What was written of a blob that was longer then is of no use now.
                    if offset < bytes.start || end > bytes.start.saturating_add(blob.grain) {
                        return Err(damaged(reader.path(), "has data where the index says there is other"));
                    }
                    let end = end.min(bytes.end);
                    if offset < end {
                        let length = usize::try_from(end - offset).unwrap_or(data.len());
                        take(offset, &data[..length])?;
                    }
                }
                Record::Grain(found, its) if (found, its) == (index, print) => return Ok(()),
                _ => {
                    return Err(damaged(
                        reader.path(),
                        "has something else where the index says that bytes of a blob are",
                    ));
                }
            }
        }
    }
}
