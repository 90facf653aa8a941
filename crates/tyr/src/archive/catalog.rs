//! What an archive has: its blobs, and where in its volumes their bytes are.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher},
};

use tyr_types::{Attributes, BlobId, Key, Number};

use super::record::Record;

/// A blob as an archive has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Which of the blobs that ever had its key it is.
    pub created: BlobId,
    /// The number of the transaction that changed it last.
    pub version: Number,
    /// Bytes of content.
    pub size: u64,
    /// Its attributes.
    pub attributes: Attributes,
    /// Bytes of a grain.
    pub grain: u64,
    /// What was ever written of it, by place. What is not listed reads as zeros.
    pub grains: BTreeMap<u64, Grain>,
    /// Whether everything that it has in these volumes has been written.
    pub is_whole: bool,
}

/// A part of a blob that an archive has wholly or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// Where it is the same, the bytes are the same.
    pub print: u64,
    /// Where its bytes are; `None` if in an archive before this one.
    pub place: Option<Place>,
}

/// A place in the volumes of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The number of the volume.
    pub volume: u32,
    /// Where in it a record begins.
    pub position: u64,
}

/// The blobs of an archive by key.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The blobs.
    pub blobs: BTreeMap<Key, Blob>,
}

/// Takes the records of one volume in their order.
pub struct Folding<'a> {
    catalog: &'a mut Catalog,
    volume: u32,
    blob: Option<Key>,
    /// Where the grain begins that is being read.
    begun: u64,
}

impl Blob {
    /// The print and place of a grain, if this is the same blob with the same print for it.
    pub fn same(&self, other: &Blob, index: u64, print: u64) -> Option<Option<Place>> {
        let is_same = self.created == other.created && self.grain == other.grain;
        self.grains.get(&index).filter(|grain| is_same && grain.print == print).map(|grain| grain.place)
    }

    /// Makes grains twice as large until there are few enough for one record.
    pub fn coarsen(&mut self) {
        while self.grains.len() > GRAINS_MAX {
            let mut prints: BTreeMap<u64, DefaultHasher> = BTreeMap::new();
            for (index, grain) in &self.grains {
                let hasher = prints.entry(index / 2).or_default();
                hasher.write_u64(*index);
                hasher.write_u64(grain.print);
            }
            let grain = |(index, hasher): (u64, DefaultHasher)| {
                (index, Grain { print: hasher.finish(), place: None })
            };
            self.grains = prints.into_iter().map(grain).collect();
            self.grain *= 2;
        }
    }
}

impl Catalog {
    /// Begins a volume.
    pub fn fold(&mut self, volume: u32, first: u64) -> Folding<'_> {
        Folding { catalog: self, volume, blob: None, begun: first }
    }

    /// How many bytes the blobs have together, holes included.
    pub fn size(&self) -> u64 {
        self.blobs.values().fold(0, |sum, blob| sum.saturating_add(blob.size))
    }
}

impl Folding<'_> {
    /// Takes the record that ends here. Fails for one that cannot come here.
    pub fn take(&mut self, record: Record, end: u64) -> Result<(), &'static str> {
        match record {
            Record::Blob(key, mut blob) => {
                // What was written of it before is still there.
                if let Some(former) = self.catalog.blobs.get(&key) {
                    let kept = blob.grains.iter().filter_map(|(index, grain)| {
                        former.same(&blob, *index, grain.print).map(|place| (*index, place))
                    });
                    for (index, place) in kept.collect::<Vec<_>>() {
                        if let Some(grain) = blob.grains.get_mut(&index) {
                            grain.place = place;
                        }
                    }
                }
                self.catalog.blobs.insert(key.clone(), blob);
                (self.blob, self.begun) = (Some(key), end);
            }
            Record::Data(offset, bytes) => {
                let blob = self.current()?;
                let is_within = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= blob.size);
                if !is_within {
                    return Err("has data past the end of its blob");
                }
            }
            Record::Grain(index, print) => {
                let place = Place { volume: self.volume, position: self.begun };
                let grain = self.current()?.grains.get_mut(&index).filter(|grain| grain.print == print);
                grain.ok_or("has a grain that its blob has not")?.place = Some(place);
                self.begun = end;
            }
            Record::Whole => {
                self.current()?.is_whole = true;
                self.blob = None;
            }
            Record::Gone(key) => {
                self.catalog.blobs.remove(&key);
                self.blob = None;
            }
            Record::End => self.blob = None,
        }
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Blob, &'static str> {
        let blob = self.blob.as_ref().and_then(|key| self.catalog.blobs.get_mut(key));
        blob.ok_or("has data that belongs to no blob")
    }
}

/// A blob has at most so many grains: then its record is far shorter than a record may be.
const GRAINS_MAX: usize = 1 << 20;
