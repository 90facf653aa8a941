//! The scrubber: every table, every frame, every stored byte that is live, read from the disk and verified.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use tyr_types::{BlobId, Error, ErrorKind, Key, KeyspaceId, Result};
use tyr_wire::{
    Reader,
    entry::Entry,
    extent::{CHECKSUM_BLOCK, Extent, Leaf, Place, SegmentId},
    frame::SegmentKind,
};

use crate::{
    apply::live_bytes,
    frames::{FrameScan, Scanned},
    garbage::Garbage,
    index_key::{self, EntryKey, IndexKey, LeafKey},
    miss::Wait,
    read::{crc32c, with_scratch},
    segment::Segment,
    store::Store,
};

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Tables read.
    pub tables: u64,
    /// Frames of the log read.
    pub frames: u64,
    /// Entries of keys read.
    pub entries: u64,
    /// Extents read.
    pub extents: u64,
    /// Payload bytes verified.
    pub bytes: u64,
    /// By how many bytes the counts of what is live in segments are wrong. Not damage, but compaction goes by them. Only exact if
    /// nothing is written during the check.
    pub miscounted: u64,
    /// What is wrong, a sentence each; at most [`DAMAGE_MAX`].
    pub damage: Vec<String>,
}

/// So many pieces of damage are reported one by one.
pub const DAMAGE_MAX: usize = 1000;

/// A check on its way.
struct Check<'a> {
    store: &'a Store,
    report: CheckReport,
    live: BTreeMap<SegmentId, i64>,
    damage: Vec<Damage>,
}

/// What is wrong, and with what if it is part of a blob.
struct Damage {
    whose: Option<Whose>,
    what: String,
}

/// Whose extents are looked at.
#[derive(Clone)]
enum Whose {
    Entry(EntryKey),
    Leaf(LeafKey),
}

impl Store {
    /// Verifies everything that is live. Reads and writes go on meanwhile; what they change during the check may be left out.
    pub fn check(&self) -> Result<CheckReport> {
        self.check_readable()?;
        self.checkpoint()?;
        let mut check =
            Check { store: self, report: CheckReport::default(), live: BTreeMap::new(), damage: Vec::new() };
        for table in self.index.verify() {
            check.report.tables += 1;
            table.faults.iter().for_each(|fault| check.add_damage(None, fault.to_string()));
        }
        let segments = self.segments.all();
        for segment in segments.iter().filter(|segment| segment.kind == SegmentKind::Log) {
            check.frames(segment)?;
        }
        for item in self.index.scan(Bound::Unbounded) {
            match item {
                Ok((key, value)) => check.item(&key, &value)?,
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    check.add_damage(None, error.to_string());
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(check.finish(&segments))
    }
}

impl Check<'_> {
    fn frames(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let end = segment.filled().min(segment.written());
        let mut scan = FrameScan::new(segment.clone());
        loop {
            match scan.next() {
                Ok(Scanned::Frame(frame)) => {
                    self.report.frames += 1;
                    if let Some(Err(error)) = frame.records().find(Result::is_err) {
                        self.add_damage(None, format!("a record in {}: {error}", segment.name()));
                    }
                }
                Ok(Scanned::End) => break,
                Err(error) if is_damage(&error) => return self.note(None, error.to_string()),
                Err(error) => return Err(error),
            }
        }
        scan.check_end(end).or_else(|error| self.note(None, error.to_string()))
    }

    fn item(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut reader = Reader::new(value);
        let found = match index_key::parse(key) {
            Some(IndexKey::Entry(key)) if self.is_counted(key.0) => {
                self.report.entries += 1;
                let extents = |entry: Entry| entry.blobs.into_iter().flat_map(|blob| blob.leaf).collect();
                (Whose::Entry(key), Entry::decode(&mut reader).map(extents))
            }
            Some(IndexKey::Leaf(key)) if self.is_counted(key.0) => {
                (Whose::Leaf(key), Leaf::decode(&mut reader).map(|leaf| leaf.extents))
            }
            Some(_) => return Ok(()),
            None => return self.note(None, "the index has a key of an unknown kind".into()),
        };
        match found {
            (whose, Ok(extents)) => {
                let extents: Vec<Extent> = extents;
                let mut stored = extents.iter().filter(|extent| !extent.is_hole());
                stored.try_for_each(|extent| self.extent(extent, &whose))
            }
            (whose, Err(malformed)) => {
                self.note(Some(&whose), format!("its entry in the index: {malformed}"))
            }
        }
    }

    /// What a dropped keyspace had counts until it is collected.
    fn is_counted(&self, keyspace: KeyspaceId) -> bool {
        self.store.keyspaces.contains(keyspace)
            || self.store.backlog.lock().all_garbage().any(|known| *known == Garbage::Keyspace(keyspace))
    }

    fn extent(&mut self, extent: &Extent, whose: &Whose) -> Result<()> {
        let place = extent.place;
        let Some(segment) = self.store.segments.find(place.segment) else {
            // It may have been moved or overwritten meanwhile, or its keyspace dropped.
            if self.store.refers_to(whose, place)? {
                self.add_damage(Some(whose), format!("its segment {} is not there", place.segment.0));
            }
            return Ok(());
        };
        self.report.extents += 1;
        self.report.bytes += u64::from(extent.stored);
        *self.live.entry(place.segment).or_default() += live_bytes(extent);
        let len = extent.stored as usize;
        let verified = with_scratch(len, |scratch| {
            let start = self.store.read_stored(&segment, place, len, scratch)?;
            let blocks = scratch.as_bytes()[start..start + len].chunks(CHECKSUM_BLOCK);
            let mut blocks = blocks.zip(extent.checksums.as_slice());
            Ok::<bool, Error>(blocks.all(|(block, checksum)| crc32c(block) == *checksum))
        });
        let what = format!("{len} stored bytes at position {} of {}", place.position, segment.name());
        match verified {
            Ok(true) => Ok(()),
            Ok(false) => self.note(Some(whose), format!("{what}: checksum mismatch")),
            Err(error) if is_damage(&error) => self.note(Some(whose), format!("{what}: {error}")),
            Err(error) => Err(error),
        }
    }

    fn finish(mut self, segments: &[Arc<Segment>]) -> CheckReport {
        for segment in segments {
            let counted = i64::try_from(segment.live()).unwrap_or(i64::MAX);
            self.report.miscounted += self.live.get(&segment.id).unwrap_or(&0).abs_diff(counted);
        }
        let keys = self.keys_of_leaves();
        let sentences = self.damage.iter().map(|Damage { whose, what }| match whose {
            Some(whose) => format!("{}: {what}", self.name(whose, &keys)),
            None => what.clone(),
        });
        self.report.damage = sentences.collect();
        self.report
    }

    /// The keys of the blobs that have damaged leaves, as far as entries can be read: a leaf does not know its own.
    fn keys_of_leaves(&self) -> BTreeMap<(KeyspaceId, BlobId), Key> {
        let blobs = self.damage.iter().filter_map(|damage| match damage.whose {
            Some(Whose::Leaf((keyspace, blob, _))) => Some((keyspace, blob)),
            _ => None,
        });
        let blobs: BTreeSet<_> = blobs.collect();
        let mut keys = BTreeMap::new();
        if blobs.is_empty() {
            return keys;
        }
        for item in self.store.index.scan(Bound::Unbounded) {
            let Ok((key, value)) = item else { break };
            // Entries come first.
            let Some(IndexKey::Entry((keyspace, key))) = index_key::parse(&key) else { break };
            let Ok(entry) = Entry::decode(&mut Reader::new(&value)) else { continue };
            let damaged =
                entry.blobs.iter().map(|blob| (keyspace, blob.id)).filter(|blob| blobs.contains(blob));
            keys.extend(damaged.map(|blob| (blob, key.clone())));
        }
        keys
    }

    /// Keyspace and key, as far as they are known.
    fn name(&self, whose: &Whose, keys: &BTreeMap<(KeyspaceId, BlobId), Key>) -> String {
        let keyspace = |id: &KeyspaceId| match self.store.keyspaces.find(*id) {
            Ok(keyspace) => keyspace.state.name.to_string(),
            Err(_) => format!("a dropped keyspace {}", id.0),
        };
        match whose {
            Whose::Entry((id, key)) => format!("blob '{}/{key}'", keyspace(id)),
            Whose::Leaf((id, blob, index)) => match keys.get(&(*id, *blob)) {
                Some(key) => format!("blob '{}/{key}', leaf {index}", keyspace(id)),
                None => format!("blob number {} of {}, leaf {index}", blob.to_u64(), keyspace(id)),
            },
        }
    }

    /// Takes note of damage and lets the check go on.
    fn note(&mut self, whose: Option<&Whose>, what: String) -> Result<()> {
        self.add_damage(whose, what);
        Ok(())
    }

    fn add_damage(&mut self, whose: Option<&Whose>, what: String) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(Damage { whose: whose.cloned(), what });
        }
    }
}

impl Store {
    /// Whether an object still has bytes at a place.
    fn refers_to(&self, whose: &Whose, place: Place) -> Result<bool> {
        let is_there = |extents: &[Extent]| extents.iter().any(|extent| extent.place == place);
        let (Whose::Entry((keyspace, _)) | Whose::Leaf((keyspace, _, _))) = whose;
        if !self.keyspaces.contains(*keyspace) {
            return Ok(false);
        }
        Ok(match whose {
            Whose::Entry(key) => {
                let entry = self.loaded(self.entry(key, Wait::Allowed))?;
                entry.blobs.iter().any(|blob| is_there(&blob.leaf))
            }
            Whose::Leaf(key) => is_there(&self.loaded(self.leaf(key, Wait::Allowed))?.extents),
        })
    }
}

/// What cannot be read is damage to somebody who looks for it.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt)
}
