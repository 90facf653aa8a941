//! Opening: from the manifest and the log's tail to the state that was acknowledged.
//!
//! The tail is walked twice: once to find its end and how much of it is known to be settled, once to apply it. A frame that nobody
//! was told of may be torn, in itself or in its bulk payload; the log ends before the first such frame. Damage to a frame that somebody was told of
//! is reported and nothing is changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
};

use parking_lot::Mutex;
use tyr_env::{Access, BLOCK_SIZE, Blocks, Clock, Disk, File, Write};
use tyr_types::{BlobId, Error, ErrorKind, KeyspaceId, Number, Result};
use tyr_wire::{
    Reader,
    entry::Blob,
    extent::{Checksums, Extent, LEAF_SPAN, Place, SegmentId},
    frame::{SEGMENT_HEADER_SIZE, SegmentHeader, SegmentKind},
    record::{BlobCommit, Commit, Existence, Record, Written},
};

use crate::{
    apply::Held,
    backlog::Owner,
    cache::BlockCache,
    checkpoint::CheckpointState,
    failure::{disk_error, never_logged},
    frames::{Frame, FrameScan, Scanned},
    garbage::Garbage,
    guard::{Guard, Poison},
    index::{Index, IndexOptions},
    index_key::{self, EntryKey},
    keyspaces::{Keyspace, Keyspaces},
    leaf,
    log::{Log, LogPosition, Origin},
    manifest::{MANIFEST_NAME, MANIFEST_NEW_NAME, Manifest},
    miss::Wait,
    objects::Objects,
    options::{Create, Options},
    pace::Pace,
    pins::Pins,
    read::{crc32c, with_scratch},
    recent::Recent,
    segment::{RESERVE_NAME, Segment, Segments, parse_segment_name},
    store::{CommitState, Store},
};

/// Where the frames of a segment begin.
const FIRST_FRAME: u32 = 4096;
const _: () = assert!(FIRST_FRAME as usize == SEGMENT_HEADER_SIZE);

/// The log's tail as found on disk.
struct Tail {
    frames: Vec<Frame>,
    /// After the last frame.
    end: LogPosition,
    epoch: u64,
}

/// Segment files by what their headers say.
struct Found {
    /// Log segments that the replay may reach, by the sequence of their first frame.
    logs: BTreeMap<u64, Arc<Segment>>,
    /// Bulk segments that were not finished.
    bulk: Vec<(KeyspaceId, Arc<Segment>)>,
    /// Files of bulk segments that no header says to be in use: nobody ever wrote to them, or their header is damaged.
    headless: Vec<Headless>,
}

struct Headless {
    segment: Arc<Segment>,
    /// Whether it was a segment of this store before, and so can be recycled.
    was_used: bool,
}

/// Which tables of the index to begin with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// Those that the manifest names.
    Named,
    /// None.
    Anew,
}

impl Store {
    /// Opens the store on a disk, or creates one. The clock tells the ages of pins.
    ///
    /// Fails with `not found` or `exists` as [`Create`] has it, `invalid` if the directory holds something else, `unavailable` if a newer program
    /// wrote it, and `corrupt` if acknowledged bytes are damaged.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        create: Create,
        options: Options,
    ) -> Result<Self> {
        Self::open_with(disk, clock, create, options, Tables::Named)
    }

    /// As [`Store::open`], of a store that exists, without what its index says: that is made again from the log. Fails with `corrupt` if a
    /// part of the log is damaged, too; then the store is as it was.
    pub fn open_rebuilding(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: Options) -> Result<Self> {
        let store = Self::open_with(disk, clock, Create::Never, options, Tables::Anew)?;
        store.checkpoint()?;
        store.index.remove_others()?;
        Ok(store)
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        create: Create,
        options: Options,
        tables: Tables,
    ) -> Result<Self> {
        options.check()?;
        let poison = Arc::new(Poison::default());
        let disk = Guard::new(disk, poison.clone());
        let manifest = match (Manifest::read(&*disk)?, create) {
            (Some(_), Create::New) => {
                return Err(Error::exists(
                    "the directory holds a store already; choose another one, or open it",
                ));
            }
            (Some(manifest), _) => {
                // It may have been renamed by a process that was killed before it could make that durable.
                disk.sync_names().map_err(|error| disk_error("syncing the directory", &error))?;
                manifest
            }
            (None, Create::Never) => {
                check_not_lost(&*disk)?;
                return Err(Error::not_found(
                    "the directory holds no store; create one first, or correct the path",
                ));
            }
            (None, _) => create_store(&*disk, &options)?,
        };
        let inline_max = options.inline_max.min(manifest.segment_size as usize / 8);
        let options = Options { inline_max, ..options };
        Self::recover(disk, clock, poison, manifest, options, tables)
    }

    fn recover(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        poison: Arc<Poison>,
        manifest: Manifest,
        options: Options,
        tables: Tables,
    ) -> Result<Self> {
        let segments = Arc::new(Segments::new(disk.clone(), manifest.segment_size, manifest.unused_segment));
        let found = find_segments(&*disk, &manifest, &segments)?;
        let tail = read_tail(&manifest, &segments, &found)?;
        tail.check_headers(&found)?;
        give_back(&*disk, &segments, &found.headless)?;
        let epoch = u32::try_from(tail.epoch.max(u64::from(manifest.epoch)).saturating_add(1))
            .ok()
            .filter(|epoch| *epoch <= Number::EPOCH_MAX)
            .ok_or_else(|| {
                Error::internal("the store was opened too often; copy its blobs into a new one")
            })?;
        tail.make_durable(&*disk, &segments)?;
        retire_beyond(&segments, &found, &tail);
        let segment = match segments.find(tail.end.place.segment) {
            Some(segment) => segment,
            None => segments.take(SegmentKind::Log)?,
        };
        let origin = Origin {
            store: manifest.identity,
            epoch: u64::from(epoch),
            segment,
            position: tail.end.place.position,
            sequence: tail.end.sequence,
        };
        let first = Number::first_of_epoch(epoch);
        let log = Arc::new(Log::new(disk.clone(), poison, segments.clone(), origin, first.previous()));
        match log.begin() {
            // Reads go on without space.
            Err(error) if error.kind() == ErrorKind::Full => {}
            result => result?,
        }
        let index_options = IndexOptions { memory_max: options.index_cache / 2, ..IndexOptions::default() };
        let index = match tables {
            Tables::Named => {
                Index::open(disk.clone(), manifest.tables.clone(), index_options).map_err(rebuildable)?
            }
            Tables::Anew => Index::anew(disk.clone(), index_options)?,
        };
        let store = Store {
            entries: Objects::new(options.index_cache / 4),
            leaves: Objects::new(options.index_cache / 4),
            cache: BlockCache::new(options.data_cache / 4 * 3),
            recent: Recent::new(options.data_cache / 4),
            identity: manifest.identity,
            epoch,
            segments,
            log,
            index,
            keyspaces: Keyspaces::default(),
            pins: Arc::new(Pins::new(clock)),
            commit: Mutex::new(CommitState { next: first }),
            applied: AtomicU64::new(first.previous().to_u64()),
            checkpoint: Mutex::new(CheckpointState {
                position: manifest.position,
                manifest: manifest.clone(),
                evacuated: Default::default(),
                kept: Default::default(),
                taken: 0,
                log_bytes: 0,
                lacked: None,
            }),
            compacting: Mutex::default(),
            said_again: AtomicU64::default(),
            has_just_forgotten: AtomicBool::default(),
            merging: Mutex::default(),
            backlog: Arc::default(),
            pace: Pace::default(),
            failure: Mutex::default(),
            next_wake: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            kept_free: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            disk,
            options,
        };
        store.restore(&manifest);
        if tables == Tables::Anew {
            store.rebuild(&manifest)?;
        }
        for frame in &tail.frames {
            if let Some(segment) = store.segments.find(frame.place.segment) {
                let end = u64::from(frame.place.position) + u64::from(frame.header.frame_end);
                segment.fill_to(end);
                segment.written_to(end);
            }
            for record in frame.records() {
                store.replay(record?.1)?;
            }
        }
        for (keyspace, segment) in found.bulk.into_iter().filter(|(id, _)| store.keyspaces.contains(*id)) {
            store.log.reopen_bulk(keyspace, segment);
        }
        if !tail.frames.is_empty() {
            store.backlog.request_checkpoint();
        }
        store.backlog.wake();
        store.segments.restore_reserve();
        Ok(store)
    }

    /// Takes over what the manifest knows besides index and log.
    fn restore(&self, manifest: &Manifest) {
        self.keyspaces.skip_to(manifest.next_keyspace);
        for (state, blobs, bytes) in &manifest.keyspaces {
            self.pin_named(&[], state);
            self.keyspaces.restore(Keyspace::new(state.clone(), *blobs, *bytes));
        }
        let mut work = self.backlog.lock();
        work.garbage = manifest.garbage.iter().cloned().collect();
        work.historic_entries = manifest.historic_entries.iter().cloned().collect();
        work.historic_leaves = manifest.historic_leaves.iter().cloned().collect();
        work.history_due = true;
    }

    fn replay(&self, record: Record) -> Result<()> {
        let newest = match &record {
            Record::Commit(commit) => commit.number,
            Record::Entry(state) => state.entry.applied,
            Record::Leaf(state) => state.leaf.applied,
            Record::Keyspace(_) | Record::KeyspaceDropped(_) => Number::ZERO,
        };
        if newest >= Number::first_of_epoch(self.epoch) {
            return Err(never_logged(newest));
        }
        match record {
            Record::Commit(commit) => self.replay_commit(&commit)?,
            Record::Entry(state) => {
                if self.keyspaces.contains(state.keyspace) {
                    let key = (state.keyspace, state.key);
                    let old = self.loaded(self.entry(&key, Wait::Allowed))?;
                    old.blobs.iter().for_each(|blob| self.count_extents(&blob.leaf, Self::release_extent));
                    state
                        .entry
                        .blobs
                        .iter()
                        .for_each(|blob| self.count_extents(&blob.leaf, Self::retain_extent));
                    for blob in &state.entry.blobs {
                        self.note_owners(&key, blob.id, 0, &blob.leaf)?;
                    }
                    // Nothing in the log says that a deleted blob was forgotten, so the index may have its leaves still.
                    let is_gone = |blob: &&Blob| state.entry.blobs.iter().all(|kept| kept.id != blob.id);
                    for blob in old.blobs.iter().filter(is_gone) {
                        self.backlog.add_garbage(Garbage::blob(&key, blob));
                    }
                    let mut shard = self.entries.lock(&key);
                    self.entries.change(&mut shard, &key, Arc::new(state.entry));
                }
            }
            Record::Leaf(state) => {
                if self.keyspaces.contains(state.keyspace) {
                    let key = (state.keyspace, state.key.clone());
                    let entry = self.loaded(self.entry(&key, Wait::Allowed))?;
                    if !entry.blobs.iter().any(|blob| blob.id == state.blob) {
                        // Deleted by something later in the log, and perhaps collected.
                        return Ok(());
                    }
                    let id = (state.keyspace, state.blob, state.index);
                    let old = self.loaded(self.leaf(&id, Wait::Allowed))?;
                    self.count_extents(&old.extents, Self::release_extent);
                    self.count_extents(&state.leaf.extents, Self::retain_extent);
                    self.note_owners(&key, state.blob, state.index, &state.leaf.extents)?;
                    let mut shard = self.leaves.lock(&id);
                    self.leaves.change(&mut shard, &id, Arc::new(state.leaf));
                }
            }
            Record::Keyspace(state) => {
                let former = self.keyspaces.find(state.id);
                self.pin_named(former.as_ref().map_or(&[], |former| &former.state.snapshots), &state);
                self.keyspaces.put(state);
            }
            Record::KeyspaceDropped(id) => {
                if self.keyspaces.contains(id) {
                    self.forget_keyspace(id);
                    self.backlog.add_garbage(Some(Garbage::Keyspace(id)));
                }
            }
        }
        Ok(())
    }

    fn replay_commit(&self, commit: &Commit) -> Result<()> {
        for blob in &commit.blobs {
            let Ok(keyspace) = self.keyspaces.find(blob.keyspace) else { continue };
            let held = self.hold(blob)?;
            for write in &blob.writes {
                self.note_filled(write.place, write.len);
            }
            self.apply(blob, commit.number, &held);
            keyspace.count(blob.size_before, (blob.existence != Existence::Delete).then_some(blob.size));
        }
        Ok(())
    }

    /// Keeps what a replay found stored from being written over.
    fn note_filled(&self, place: Place, len: u32) {
        if let Some(segment) = self.segments.find(place.segment) {
            let end = u64::from(place.position) + u64::from(len);
            segment.fill_to(end.next_multiple_of(BLOCK_SIZE as u64));
            segment.written_to(segment.filled());
        }
    }

    /// Loads what a commit changed.
    pub(crate) fn hold(&self, blob: &BlobCommit) -> Result<Held> {
        let mut held = Held::default();
        let key = (blob.keyspace, blob.key.clone());
        let entry = self.loaded(self.entry(&key, Wait::Allowed))?;
        let written = blob.writes.iter().map(|write| write.offset..write.offset + u64::from(write.len));
        for range in written.chain(blob.holes.iter().cloned()) {
            for (index, _) in leaf::split(range) {
                let id = (blob.keyspace, blob.blob, index);
                if index > 0 && !held.leaves.contains_key(&id) {
                    held.leaves.insert(id, self.loaded(self.leaf(&id, Wait::Allowed))?);
                }
            }
        }
        held.entries.insert(key, entry);
        Ok(held)
    }

    fn count_extents(&self, extents: &[Extent], count: impl Fn(&Self, &Extent)) {
        extents.iter().for_each(|extent| count(self, extent));
    }

    /// Notes what a rewritten object says of its payload, which may be less than is known of it.
    pub(crate) fn note_owners(
        &self,
        key: &EntryKey,
        blob: BlobId,
        index: u64,
        extents: &[Extent],
    ) -> Result<()> {
        for extent in extents.iter().filter(|extent| !extent.is_hole()) {
            self.note_filled(extent.place, extent.stored);
            let known = self.index.get(&index_key::bulk_key(extent.place.segment, extent.place.position))?;
            if let Some(known) = known {
                self.backlog.lock().owners.push((extent.place, Owner::decode(&mut Reader::new(&known))?));
            }
            let write = Written {
                offset: index * LEAF_SPAN + u64::from(extent.start),
                len: extent.len,
                place: extent.place,
                checksums: extent.checksums.clone(),
            };
            self.note_owner(key, blob, &write);
        }
        Ok(())
    }
}

/// Writes the first manifest into an empty directory.
fn create_store(disk: &dyn Disk, options: &Options) -> Result<Manifest> {
    check_not_lost(disk)?;
    let names = disk.names().map_err(|error| disk_error("listing the directory", &error))?;
    if let Some(name) = names.iter().find(|name| ![MANIFEST_NEW_NAME, RESERVE_NAME].contains(&name.as_str()))
    {
        return Err(Error::invalid(format!(
            "the directory holds '{name}', which is not Týr's; choose an empty directory for a new store"
        )));
    }
    let manifest = Manifest {
        identity: new_identity(),
        epoch: 0,
        clean: true,
        segment_size: u32::try_from(options.segment_size)
            .map_err(|_| Error::invalid("segments are too large"))?,
        position: LogPosition { place: Place::default(), sequence: 1 },
        last: Number::ZERO,
        next_segment: SegmentId(1),
        unused_segment: SegmentId(1),
        tables: Vec::new(),
        segments: Vec::new(),
        next_keyspace: 1,
        keyspaces: Vec::new(),
        garbage: Vec::new(),
        historic_entries: Vec::new(),
        historic_leaves: Vec::new(),
    };
    manifest.write(disk)?;
    Ok(manifest)
}

/// Parts of a store without a manifest are not to be written over.
fn check_not_lost(disk: &dyn Disk) -> Result<()> {
    let names = disk.names().map_err(|error| disk_error("listing the directory", &error))?;
    let is_part = |name: &&String| parse_segment_name(name).is_some() || name.starts_with("table-");
    match names.iter().find(is_part) {
        Some(name) => Err(Error::corrupt(format!(
            "the directory holds '{name}' but no {MANIFEST_NAME}; restore the {MANIFEST_NAME} from a backup, or choose an empty directory"
        ))),
        None => Ok(()),
    }
}

/// Says what can be done about damaged tables.
fn rebuildable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => Error::corrupt(format!(
            "{}; the log still says what the index did: rebuild the index with 'tyr check --rebuild-index'",
            error.message()
        )),
        _ => error,
    }
}

/// A number that no other store has, as far as the process's random hash keys allow.
fn new_identity() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let word = || RandomState::new().hash_one(0u8).to_le_bytes();
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&word());
    identity[8..].copy_from_slice(&word());
    identity
}

/// Opens every segment file and sorts them: in use, possibly part of the tail, or holding nothing.
fn find_segments(disk: &dyn Disk, manifest: &Manifest, segments: &Segments) -> Result<Found> {
    let names = disk.names().map_err(|error| disk_error("listing the directory", &error))?;
    let mut on_disk: BTreeMap<SegmentId, SegmentKind> =
        names.iter().filter_map(|name| parse_segment_name(name)).collect();
    let mut found = Found { logs: BTreeMap::new(), bulk: Vec::new(), headless: Vec::new() };
    for state in &manifest.segments {
        let name = crate::segment::segment_name(state.id, state.kind);
        if on_disk.remove(&state.id) != Some(state.kind) {
            return Err(Error::corrupt(format!("{name} is missing; restore it from a backup")));
        }
        let file = disk
            .open(&name, Access::Write)
            .map_err(|error| disk_error(&format!("opening {name}"), &error))?;
        let length = file.length().map_err(|error| disk_error(&format!("opening {name}"), &error))?;
        if length != u64::from(manifest.segment_size) {
            return Err(cut_short(&name, length));
        }
        let live = i64::try_from(state.live).unwrap_or(i64::MAX);
        let segment = segments.adopt(state.id, state.kind, file, live, state.filled);
        match state.kind {
            SegmentKind::Log => {
                let header = read_header(&segment)?.ok_or_else(|| damaged_header(&segment))?;
                if header.store != manifest.identity {
                    return Err(Error::corrupt(format!(
                        "{name} belongs to another store; restore the right file"
                    )));
                }
                segment.begin_at(header.first_sequence, header.mark);
                found.logs.insert(header.first_sequence, segment);
            }
            SegmentKind::Bulk(keyspace) => found.bulk.push((keyspace, segment)),
        }
    }
    for (id, kind) in on_disk {
        adopt_unnamed(disk, manifest, segments, id, kind, &mut found)?;
    }
    Ok(found)
}

/// A segment that the manifest does not name: newer than it, a spare, or one that was emptied.
fn adopt_unnamed(
    disk: &dyn Disk,
    manifest: &Manifest,
    segments: &Segments,
    id: SegmentId,
    kind: SegmentKind,
    found: &mut Found,
) -> Result<()> {
    let name = crate::segment::segment_name(id, kind);
    let failed = |error: std::io::Error| disk_error(&format!("opening {name}"), &error);
    let file = disk.open(&name, Access::Write).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    let is_whole = length == u64::from(manifest.segment_size);
    let header = if length < SEGMENT_HEADER_SIZE as u64 {
        None
    } else {
        read_header(&Segment::candidate(id, kind, file.clone()))?
    };
    let was_used = header.as_ref().is_some_and(|header| header.store == manifest.identity);
    let header = header.filter(|header| {
        header.segment == id
            && header.store == manifest.identity
            && header.kind == kind
            && id >= manifest.next_segment
            && (kind != SegmentKind::Log || header.first_sequence >= manifest.position.sequence)
    });
    if !is_whole && header.is_some() {
        return Err(cut_short(&name, length));
    }
    // The name of a file that is removed is not used again: nobody knows whether its creation was durable.
    segments.pass_over(id);
    if !is_whole {
        // Its preparation was cut short.
        return disk.remove(&name).map_err(failed);
    }
    match (header, kind) {
        (Some(header), SegmentKind::Log) => {
            let segment = segments.adopt(id, kind, file, 0, SEGMENT_HEADER_SIZE as u64);
            segment.begin_at(header.first_sequence, header.mark);
            found.logs.insert(header.first_sequence, segment);
        }
        (Some(_), SegmentKind::Bulk(keyspace)) => {
            make_header_durable(disk, &*file).map_err(failed)?;
            found.bulk.push((keyspace, segments.adopt(id, kind, file, 0, SEGMENT_HEADER_SIZE as u64)));
        }
        (None, _) => {
            let headless = Headless { segment: Arc::new(Segment::candidate(id, kind, file)), was_used };
            if kind != SegmentKind::Log && id >= manifest.next_segment {
                // The log's tail says whether anything is in it.
                found.headless.push(headless);
                return Ok(());
            }
            if kind == SegmentKind::Log
                && id >= manifest.next_segment
                && was_settled(manifest, found, &headless)?
            {
                return Err(damaged_header(&headless.segment));
            }
            give_back(disk, segments, &[headless])?;
        }
    }
    Ok(())
}

/// Keeps files in which there is nothing for recycling, or removes them.
fn give_back(disk: &dyn Disk, segments: &Segments, unused: &[Headless]) -> Result<()> {
    for Headless { segment, was_used } in unused {
        if *was_used {
            segments.adopt_emptied(segment.id, segment.kind, segment.file.clone());
        } else {
            // The sync that ended its preparation may have failed: then no later one makes its length durable.
            let name = segment.name();
            disk.remove(&name).map_err(|error| disk_error(&format!("removing {name}"), &error))?;
        }
    }
    Ok(())
}

/// Whether a segment without a header has frames that prove that its first ones, and with them the header, were durable.
fn was_settled(manifest: &Manifest, found: &Found, headless: &Headless) -> Result<bool> {
    // Its header said what marks them: what is known of the store, or nothing if all of the log is of an earlier version.
    let is_unmarked = found.logs.last_key_value().is_none_or(|(_, newest)| newest.mark() == 0);
    for mark in std::iter::once(SegmentHeader::mark_of(&manifest.identity)).chain(is_unmarked.then_some(0)) {
        headless.segment.begin_at(0, mark);
        if has_settled_frames(&headless.segment)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_settled_frames(segment: &Arc<Segment>) -> Result<bool> {
    let mut scan = FrameScan::new(segment.clone());
    let mut first = None;
    while let Scanned::Frame(frame) = scan.next()? {
        let first = *first.get_or_insert(frame.header.sequence);
        if frame.header.settled >= first {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the header of a segment again. A process that was killed may have left it only with the file system, and what is going to
/// be written behind it is lost without it.
fn make_header_durable(disk: &dyn Disk, file: &dyn File) -> std::io::Result<()> {
    let mut block = Blocks::zeroed(SEGMENT_HEADER_SIZE);
    file.read_at(0, block.as_bytes_mut())?;
    disk.write_durably(&[Write { file, position: 0, bytes: block.as_bytes() }])
}

fn read_header(segment: &Segment) -> Result<Option<SegmentHeader>> {
    let mut block = Blocks::zeroed(SEGMENT_HEADER_SIZE);
    let read = segment.file.read_at(0, block.as_bytes_mut());
    read.map_err(|error| disk_error(&format!("reading {}", segment.name()), &error))?;
    Ok(SegmentHeader::decode(block.as_bytes()))
}

#[cold]
fn cut_short(name: &str, length: u64) -> Error {
    Error::corrupt(format!("{name} is damaged: it has {length} bytes; restore the file from a backup"))
}

fn damaged_header(segment: &Segment) -> Error {
    Error::corrupt(format!("the header of {} is damaged; restore the file from a backup", segment.name()))
}

/// Finds the end of the log and checks that nothing that was acknowledged lies beyond.
fn read_tail(manifest: &Manifest, segments: &Segments, found: &Found) -> Result<Tail> {
    // What the position follows was written by the opening that wrote the manifest, or before: no later frame is of an earlier one.
    let epoch = u64::from(manifest.epoch);
    let mut tail = Tail { frames: Vec::new(), end: manifest.position, epoch };
    let mut scan = match segments.find(manifest.position.place.segment) {
        Some(segment) => {
            let position = u64::from(manifest.position.place.position);
            Some(FrameScan::from(segment, position, manifest.position.sequence, epoch))
        }
        None => found.logs.get(&manifest.position.sequence).map(|segment| {
            FrameScan::from(segment.clone(), SEGMENT_HEADER_SIZE as u64, manifest.position.sequence, epoch)
        }),
    };
    while let Some(current) = &mut scan {
        match current.next()? {
            Scanned::Frame(frame) => tail.push(frame, current.position()),
            Scanned::End => {
                let sequence = current.sequence();
                let next = found.logs.get(&sequence).filter(|next| next.id != tail.end.place.segment);
                let Some(next) = next else { break };
                tail.end = LogPosition { place: Place { segment: next.id, position: FIRST_FRAME }, sequence };
                scan = Some(FrameScan::from(next.clone(), SEGMENT_HEADER_SIZE as u64, sequence, tail.epoch));
            }
        }
    }
    tail.cut_torn(segments)?;
    check_nothing_settled_beyond(segments, found, &tail)?;
    Ok(tail)
}

impl Tail {
    fn push(&mut self, frame: Frame, end: u64) {
        self.end = LogPosition {
            place: Place { segment: frame.place.segment, position: u32::try_from(end).unwrap_or(u32::MAX) },
            sequence: frame.header.sequence + 1,
        };
        self.epoch = self.epoch.max(frame.header.epoch);
        self.frames.push(frame);
    }

    /// Writes again what may have been written without a sync, by a process that was then killed or whose sync failed: what follows
    /// in the log rests on it.
    fn make_durable(&self, disk: &dyn Disk, segments: &Segments) -> Result<()> {
        let settled = self.settled();
        let mut rewrite = Rewrite { disk, segments, begun: BTreeSet::new() };
        for frame in self.frames.iter().filter(|frame| frame.header.sequence > settled) {
            rewrite.part(frame.place, frame.header.frame_end)?;
            for record in frame.records() {
                for (place, len) in bulk_parts(&record?.1, segments) {
                    rewrite.part(place, len)?;
                }
            }
        }
        if self.end.place.position == FIRST_FRAME
            && let Some(segment) = segments.find(self.end.place.segment)
        {
            // It goes on in a segment of which nothing is known to have been durable, not even its header.
            let failed = |error| disk_error(&format!("writing {}", segment.name()), &error);
            make_header_durable(disk, &*segment.file).map_err(failed)?;
        }
        Ok(())
    }

    /// The last frame that is known to have been durable.
    fn settled(&self) -> u64 {
        self.frames.iter().map(|frame| frame.header.settled).max().unwrap_or(0)
    }

    /// Fails if payload that somebody was told of is in a segment whose header cannot be read.
    fn check_headers(&self, found: &Found) -> Result<()> {
        if found.headless.is_empty() {
            return Ok(());
        }
        let settled = self.settled();
        for frame in self.frames.iter().filter(|frame| frame.header.sequence <= settled) {
            for record in frame.records() {
                for (place, _) in parts_of(&record?.1) {
                    let damaged = found.headless.iter().find(|one| one.segment.id == place.segment);
                    damaged.map_or(Ok(()), |one| Err(damaged_header(&one.segment)))?;
                }
            }
        }
        Ok(())
    }

    /// Drops the first frame with damaged payload that was not settled, and everything behind it.
    fn cut_torn(&mut self, segments: &Segments) -> Result<()> {
        let settled = self.settled();
        let mut torn = None;
        for (position, frame) in
            self.frames.iter().enumerate().filter(|(_, frame)| frame.header.sequence > settled)
        {
            if !is_payload_whole(frame, segments)? {
                torn = Some(position);
                break;
            }
        }
        if let Some(position) = torn {
            let frame = &self.frames[position];
            self.end = LogPosition { place: frame.place, sequence: frame.header.sequence };
            self.frames.truncate(position);
        }
        Ok(())
    }
}

/// The places in bulk segments that a record refers to, with the number of bytes there.
fn bulk_parts(record: &Record, segments: &Segments) -> Vec<(Place, u32)> {
    let mut parts = parts_of(record);
    parts.retain(|(place, _)| is_bulk(segments, *place));
    parts
}

/// The places that a record refers to, with the number of bytes there.
fn parts_of(record: &Record) -> Vec<(Place, u32)> {
    let extents: Vec<&Extent> = match record {
        Record::Commit(commit) => {
            let writes = commit.blobs.iter().flat_map(|blob| &blob.writes);
            return writes.map(|write| (write.place, write.len)).collect();
        }
        Record::Entry(state) => state.entry.blobs.iter().flat_map(|blob| &blob.leaf).collect(),
        Record::Leaf(state) => state.leaf.extents.iter().collect(),
        Record::Keyspace(_) | Record::KeyspaceDropped(_) => Vec::new(),
    };
    extents.iter().map(|extent| (extent.place, extent.stored)).collect()
}

fn is_bulk(segments: &Segments, place: Place) -> bool {
    segments.find(place.segment).is_some_and(|segment| segment.kind != SegmentKind::Log)
}

/// Writes parts of segments again as they are, durably.
struct Rewrite<'a> {
    disk: &'a dyn Disk,
    segments: &'a Segments,
    /// Segments whose header has been written.
    begun: BTreeSet<SegmentId>,
}

impl Rewrite<'_> {
    fn part(&mut self, place: Place, len: u32) -> Result<()> {
        let Some(segment) = self.segments.find(place.segment) else { return Ok(()) };
        if self.begun.insert(segment.id) {
            self.blocks(&segment, 0, SEGMENT_HEADER_SIZE as u64)?;
        }
        let start = u64::from(place.position) / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
        self.blocks(&segment, start, u64::from(place.position) + u64::from(len))
    }

    fn blocks(&self, segment: &Segment, start: u64, end: u64) -> Result<()> {
        let len = usize::try_from(end.next_multiple_of(BLOCK_SIZE as u64) - start).unwrap_or(usize::MAX);
        let mut blocks = Blocks::zeroed(len);
        let failed = |error| disk_error(&format!("writing {} again", segment.name()), &error);
        segment.file.read_at(start, blocks.as_bytes_mut()).map_err(failed)?;
        let write = Write { file: &*segment.file, position: start, bytes: blocks.as_bytes() };
        self.disk.write_durably(&[write]).map_err(failed)
    }
}

/// Whether all payload that a frame brought to the disk is there.
fn is_payload_whole(frame: &Frame, segments: &Segments) -> Result<bool> {
    let own = frame.place.position..frame.place.position.saturating_add(frame.header.frame_end);
    for record in frame.records() {
        let is_whole = match record?.1 {
            Record::Commit(commit) => {
                let mut writes = commit.blobs.iter().flat_map(|blob| &blob.writes);
                writes.try_fold(true, |whole, write| {
                    Ok::<_, Error>(whole && is_stored(segments, write.place, write.len, &write.checksums)?)
                })?
            }
            Record::Entry(state) => {
                let extents = state.entry.blobs.iter().flat_map(|blob: &_| &blob.leaf);
                are_stored(segments, frame, &own, extents)?
            }
            Record::Leaf(state) => are_stored(segments, frame, &own, state.leaf.extents.iter())?,
            _ => true,
        };
        if !is_whole {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether those of the extents that came with this frame, or are in bulk segments, are stored.
fn are_stored<'a>(
    segments: &Segments,
    frame: &Frame,
    own: &std::ops::Range<u32>,
    extents: impl Iterator<Item = &'a Extent>,
) -> Result<bool> {
    for extent in extents.filter(|extent| !extent.is_hole()) {
        let is_own = extent.place.segment == frame.place.segment && own.contains(&extent.place.position);
        // A segment that is not there is one whose header was torn off: nothing behind the checkpoint is in a segment that was emptied.
        let segment = segments.find(extent.place.segment);
        let is_bulk = segment.is_none_or(|segment| segment.kind != SegmentKind::Log);
        if (is_own || is_bulk) && !is_stored(segments, extent.place, extent.stored, &extent.checksums)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_stored(segments: &Segments, place: Place, len: u32, checksums: &Checksums) -> Result<bool> {
    let Some(segment) = segments.find(place.segment) else { return Ok(false) };
    let len = len as usize;
    with_scratch(len, |scratch| {
        let first = u64::from(place.position) / 4096 * 4096;
        let start = usize::try_from(u64::from(place.position) - first).expect("less than a block");
        scratch.resize((start + len).next_multiple_of(4096));
        let read = segment.file.read_at(first, scratch.as_bytes_mut());
        read.map_err(|error| disk_error(&format!("reading {}", segment.name()), &error))?;
        let bytes = &scratch.as_bytes()[start..start + len];
        let mut blocks = bytes.chunks(tyr_wire::extent::CHECKSUM_BLOCK).zip(checksums.as_slice());
        Ok(blocks.all(|(block, checksum)| crc32c(block) == *checksum))
    })
}

/// A valid frame behind the end that knew the end's frame as settled proves that acknowledged bytes are damaged.
fn check_nothing_settled_beyond(segments: &Segments, found: &Found, tail: &Tail) -> Result<()> {
    let end = tail.end;
    let lost = |header: &tyr_wire::frame::FrameHeader| {
        header.sequence > end.sequence && header.settled >= end.sequence
    };
    let rest = segments.find(end.place.segment).map(|segment| (segment, u64::from(end.place.position)));
    let later = found
        .logs
        .range(end.sequence + 1..)
        .map(|(_, segment)| (segment.clone(), SEGMENT_HEADER_SIZE as u64));
    for (segment, position) in rest.into_iter().chain(later) {
        if FrameScan::from(segment.clone(), position, 0, 0).any_later(lost)? {
            return Err(Error::corrupt(format!(
                "{} is damaged at position {}: frame {} was acknowledged but cannot be read; restore the store from a backup",
                segments.find(end.place.segment).map_or_else(String::new, |segment| segment.name()),
                end.place.position,
                end.sequence
            )));
        }
    }
    Ok(())
}

/// Log segments that a crash left beyond the end are free.
fn retire_beyond(segments: &Segments, found: &Found, tail: &Tail) {
    let beyond = found.logs.range(tail.end.sequence..).map(|(_, segment)| segment.id);
    let beyond: Vec<SegmentId> = beyond.filter(|id| *id != tail.end.place.segment).collect();
    segments.empty(&beyond);
}
