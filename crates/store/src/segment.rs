//! Segment files: fixed-size containers of the log's frames and of bulk payload.
//!
//! A segment is prepared ahead (space reserved; for a log of small batches also written over once, since a small durable write into
//! blocks that were written before is up to twice as fast), filled from front to back, later emptied by compaction, and recycled: renamed
//! to a new id within its kind, so that a keyspace's bytes never end up in another's file. Ids are never used twice.
//! One that was shown to readers outside of the store is removed instead: they may still have the file open.
//! A segment is emptied for good only when a manifest without it is durable.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use tyr_env::{Access, Blocks, Disk, File};
use tyr_types::{Error, KeyspaceId, Result};
use tyr_wire::{
    extent::{Place, SegmentId},
    frame::SegmentKind,
};

use crate::failure::disk_error;

/// A segment file in use.
pub struct Segment {
    /// Its identity.
    pub id: SegmentId,
    /// What it holds.
    pub kind: SegmentKind,
    /// The open file.
    pub file: Arc<dyn File>,
    /// Bytes that live extents refer to: a guide for compaction, not a proof of emptiness. Signed, for a replay may
    /// release what was counted before the checkpoint.
    live: AtomicI64,
    /// The most that `live` has been, or may have been before the store was opened.
    live_most: AtomicI64,
    /// One past the last byte in use; less than the capacity while it is being filled.
    filled: AtomicU64,
    /// What lies before is on the disk, or at least with the file system; what lies behind may only be in memory.
    written: AtomicU64,
    /// Of a log segment: the sequence of its first frame.
    first_sequence: AtomicU64,
    mark: AtomicU64,
    /// How many [`SegmentHold`]s there are.
    holds: AtomicUsize,
    /// Whether somebody else may have opened the file.
    is_shown: AtomicBool,
}

/// Keeps a segment from being collected although nothing in it may be live yet.
#[derive(Debug)]
pub struct SegmentHold(Arc<Segment>);

impl SegmentHold {
    /// Holds a segment that is being filled.
    pub fn new(segment: Arc<Segment>) -> Self {
        segment.holds.fetch_add(1, Ordering::AcqRel);
        SegmentHold(segment)
    }

    /// The segment.
    pub fn segment(&self) -> &Segment {
        &self.0
    }
}

impl Drop for SegmentHold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All segments of a store.
pub struct Segments {
    disk: Arc<dyn Disk>,
    capacity: u32,
    table: RwLock<BTreeMap<SegmentId, Arc<Segment>>>,
    pool: Mutex<Pool>,
    /// How many bytes a batch brings to the log, as a moving average.
    batch_size: AtomicU64,
}

/// A file that is ready to be filled.
type Spare = (SegmentId, Arc<dyn File>);

/// Files that hold nothing.
struct Pool {
    next: SegmentId,
    /// Given out already, for files that are being prepared or are ready.
    prepared: BTreeSet<SegmentId>,
    /// Ready to be filled.
    spares: BTreeMap<SegmentKind, VecDeque<Spare>>,
    /// Emptied, possibly still being read.
    emptied: Vec<Arc<Segment>>,
    /// How many segments have been taken to be filled.
    taken: u64,
    /// Space that only work which frees space may use.
    has_reserve: bool,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({})", self.name())
    }
}

impl Segment {
    /// A file that is being looked at and may turn out to hold nothing.
    pub(crate) fn candidate(id: SegmentId, kind: SegmentKind, file: Arc<dyn File>) -> Self {
        Self::new(id, kind, file, 0, 0)
    }

    fn new(id: SegmentId, kind: SegmentKind, file: Arc<dyn File>, live: i64, filled: u64) -> Self {
        Segment {
            id,
            kind,
            file,
            live: AtomicI64::new(live),
            live_most: AtomicI64::new(live),
            filled: AtomicU64::new(filled),
            written: AtomicU64::new(filled),
            first_sequence: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            holds: AtomicUsize::new(0),
            is_shown: AtomicBool::new(false),
        }
    }

    /// The file's name.
    pub fn name(&self) -> String {
        segment_name(self.id, self.kind)
    }

    /// Bytes that live extents refer to, as far as known.
    pub fn live(&self) -> u64 {
        u64::try_from(self.live.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Counts bytes as live, or as dead if negative.
    pub fn add_live(&self, bytes: i64) {
        let before = self.live.fetch_add(bytes, Ordering::Relaxed);
        if bytes > 0 {
            self.live_most.fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
        }
    }

    /// Replaces the count of live bytes.
    pub fn set_live(&self, bytes: i64) {
        self.live.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that have died. Less than what is not live: nothing ever lived in what pads payload to blocks, nor in what says whose it is. What had died
    /// when the store was opened is not known.
    pub fn died(&self) -> u64 {
        let most = self.live_most.load(Ordering::Relaxed);
        u64::try_from(most.saturating_sub(self.live.load(Ordering::Relaxed))).unwrap_or(0)
    }

    /// One past the last byte in use.
    pub fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }

    /// Whether somebody keeps it from being collected.
    pub fn is_held(&self) -> bool {
        self.holds.load(Ordering::Acquire) > 0
    }

    /// Somebody outside of the store opens the file: it is not recycled from here on.
    pub fn show(&self) {
        self.is_shown.store(true, Ordering::Release);
    }

    fn is_shown(&self) -> bool {
        self.is_shown.load(Ordering::Acquire)
    }

    /// Of a log segment: the sequence of its first frame.
    pub fn first_sequence(&self) -> u64 {
        self.first_sequence.load(Ordering::Relaxed)
    }

    /// Of a log segment: what its frames have to be taken for such.
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Sets [`Segment::first_sequence`] and [`Segment::mark`], before any of its frames is written or read.
    pub fn begin_at(&self, sequence: u64, mark: u64) {
        self.first_sequence.store(sequence, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// One past the last byte that can be read from the file.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Raises [`Segment::written`].
    pub fn written_to(&self, position: u64) {
        self.written.fetch_max(position, Ordering::Release);
    }

    /// Raises [`Segment::filled`].
    pub fn fill_to(&self, position: u64) {
        self.filled.fetch_max(position, Ordering::Relaxed);
    }
}

impl Segments {
    /// No segments yet; `next` is the first id to give out.
    pub fn new(disk: Arc<dyn Disk>, capacity: u32, next: SegmentId) -> Self {
        let pool = Pool {
            next,
            prepared: BTreeSet::new(),
            spares: BTreeMap::new(),
            emptied: Vec::new(),
            taken: 0,
            has_reserve: false,
        };
        Segments {
            disk,
            capacity,
            table: RwLock::default(),
            pool: Mutex::new(pool),
            batch_size: AtomicU64::default(),
        }
    }

    /// Bytes of a segment file.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// All segments in use, by id; the smallest id of one that may come into use later; and the smallest that was never given out.
    pub fn in_use(&self) -> (Vec<Arc<Segment>>, SegmentId, SegmentId) {
        let table = self.table.read();
        let pool = self.pool.lock();
        let next = pool.prepared.first().copied().unwrap_or(pool.next);
        (table.values().cloned().collect(), next, pool.next)
    }

    /// The segment, unless it has been emptied.
    pub fn find(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.table.read().get(&id).cloned()
    }

    /// All segments in use, by id.
    pub fn all(&self) -> Vec<Arc<Segment>> {
        self.table.read().values().cloned().collect()
    }

    /// Counts bytes at a place as live, or as dead if negative. Places in emptied segments count for nothing.
    pub fn add_live(&self, place: Place, bytes: i64) {
        if let Some(segment) = self.table.read().get(&place.segment) {
            segment.add_live(bytes);
        }
    }

    /// Takes over a segment found on disk.
    pub fn adopt(
        &self,
        id: SegmentId,
        kind: SegmentKind,
        file: Arc<dyn File>,
        live: i64,
        filled: u64,
    ) -> Arc<Segment> {
        let segment = Arc::new(Segment::new(id, kind, file, live, filled));
        self.table.write().insert(id, segment.clone());
        self.pool.lock().skip(id);
        segment
    }

    /// Takes over a file found on disk that holds nothing any more. It will be renamed when it is used.
    pub fn adopt_emptied(&self, id: SegmentId, kind: SegmentKind, file: Arc<dyn File>) {
        let mut pool = self.pool.lock();
        pool.skip(id);
        pool.emptied.push(Arc::new(Segment::candidate(id, kind, file)));
    }

    /// Gives out no id up to this one: a file that had it was removed.
    pub fn pass_over(&self, id: SegmentId) {
        self.pool.lock().skip(id);
    }

    /// A segment to fill: a spare, or one prepared now. Fails with `full` if there is no space.
    pub fn take(&self, kind: SegmentKind) -> Result<Arc<Segment>> {
        if self.spares(kind) == 0 {
            self.prepare(kind)?;
        }
        // Both locked, so that nobody finds it neither in use nor prepared.
        let mut table = self.table.write();
        let mut pool = self.pool.lock();
        pool.taken += 1;
        let spare = pool.spares.get_mut(&kind).and_then(VecDeque::pop_front);
        let (id, file) =
            spare.ok_or_else(|| Error::unavailable("a spare segment was taken by another; try again"))?;
        pool.prepared.remove(&id);
        let segment = Arc::new(Segment::new(id, kind, file, 0, 0));
        table.insert(id, segment.clone());
        Ok(segment)
    }

    /// How many segments have been taken to be filled since opening.
    pub fn taken(&self) -> u64 {
        self.pool.lock().taken
    }

    /// How many segments of the kind are ready.
    pub fn spares(&self, kind: SegmentKind) -> usize {
        self.pool.lock().spares.get(&kind).map_or(0, VecDeque::len)
    }

    /// Takes note of how much a batch brings to the log.
    pub fn note_batch(&self, bytes: u64) {
        let mean = self.batch_size.load(Ordering::Relaxed);
        self.batch_size.store(mean - mean / 8 + bytes / 8, Ordering::Relaxed);
    }

    /// Makes a segment of the kind ready, by recycling one if possible. Its name is durable on return.
    pub fn prepare(&self, kind: SegmentKind) -> Result<()> {
        let id = self.pool.lock().new_id();
        let result = self.prepare_as(id, kind);
        if result.is_err() {
            self.pool.lock().prepared.remove(&id);
        }
        result
    }

    fn prepare_as(&self, id: SegmentId, kind: SegmentKind) -> Result<()> {
        let name = segment_name(id, kind);
        let failed = |error| disk_error(&format!("preparing {name}"), &error);
        let recycled = self.pool.lock().take_recyclable(kind);
        let file = match recycled {
            Some(old) => {
                self.disk.rename(&old.name(), &name).map_err(failed)?;
                old.file.clone()
            }
            None if self.has_no_space() => {
                return Err(failed(std::io::ErrorKind::StorageFull.into()));
            }
            None => self.create_file(&name, kind).map_err(|error| {
                // What was reserved in part is given back; should that fail too, the next opening removes it.
                let _ = self.disk.remove(&name);
                disk_error(&format!("preparing {name}"), &error)
            })?,
        };
        self.disk.sync_names().map_err(failed)?;
        self.pool.lock().spares.entry(kind).or_default().push_back((id, file));
        Ok(())
    }

    /// Whether it is known before that a file has no room. Whoever waits for space tries again and again: no file is made and removed
    /// each time.
    fn has_no_space(&self) -> bool {
        self.disk.space().is_ok_and(|space| space.free < u64::from(self.capacity))
    }

    /// How many files are ready, how many can be recycled, and whether there is a reserve.
    pub fn stock(&self) -> (usize, usize, bool) {
        let pool = self.pool.lock();
        let ready = pool.spares.values().map(VecDeque::len).sum();
        let recyclable = pool.emptied.iter().filter(|segment| is_unread(segment)).count();
        (ready, recyclable, pool.has_reserve)
    }

    fn create_file(&self, name: &str, kind: SegmentKind) -> std::io::Result<Arc<dyn File>> {
        let file = self.disk.open(name, Access::Create)?;
        file.reserve(u64::from(self.capacity))?;
        if kind == SegmentKind::Log && self.batch_size.load(Ordering::Relaxed) <= SMALL_BATCH_MAX {
            let zeros = Blocks::zeroed(ZERO_RUN.min(self.capacity as usize));
            for position in (0..u64::from(self.capacity)).step_by(zeros.len()) {
                file.write_at(position, zeros.as_bytes())?;
            }
        }
        file.sync()?;
        Ok(file)
    }

    /// Takes segments that hold nothing live out of use. Their files are kept for recycling while some reader may still have
    /// them open. Call it only after a manifest without them is durable.
    pub fn empty(&self, ids: &[SegmentId]) {
        let mut table = self.table.write();
        let mut pool = self.pool.lock();
        pool.emptied.extend(ids.iter().filter_map(|id| table.remove(id)));
    }

    /// Gives emptied files beyond `keep` of each kind back to the file system, and those of dropped keyspaces and those that were shown all.
    pub fn trim(&self, keep: usize, is_live: impl Fn(KeyspaceId) -> bool) -> Result<()> {
        let dropped = |kind| matches!(kind, SegmentKind::Bulk(keyspace) if !is_live(keyspace));
        let mut names = Vec::new();
        {
            let mut pool = self.pool.lock();
            let mut kept: BTreeMap<SegmentKind, usize> =
                pool.spares.iter().map(|(kind, spares)| (*kind, spares.len())).collect();
            pool.emptied.retain(|segment| {
                let count = kept.entry(segment.kind).or_default();
                *count += 1;
                let keep = *count <= keep && !dropped(segment.kind) && !segment.is_shown();
                if !keep {
                    names.push(segment.name());
                }
                keep
            });
            let Pool { spares, prepared, .. } = &mut *pool;
            for (kind, spares) in spares.iter_mut().filter(|(kind, _)| dropped(**kind)) {
                for (id, _) in spares.drain(..) {
                    prepared.remove(&id);
                    names.push(segment_name(id, *kind));
                }
            }
        }
        for name in &names {
            self.disk.remove(name).map_err(|error| disk_error(&format!("removing {name}"), &error))?;
        }
        Ok(())
    }

    /// Bytes of emptied and spare files.
    pub fn idle_bytes(&self) -> u64 {
        let pool = self.pool.lock();
        let files = pool.emptied.len() + pool.spares.values().map(VecDeque::len).sum::<usize>();
        files as u64 * u64::from(self.capacity)
    }

    /// Bytes of the [reserve](Segments::restore_reserve), if it is there.
    pub fn reserve_bytes(&self) -> u64 {
        if self.pool.lock().has_reserve { self.reserve_size() } else { 0 }
    }

    fn reserve_size(&self) -> u64 {
        2 * u64::from(self.capacity)
    }

    /// Sets space aside that [`Segments::release_reserve`] gives back when the device is full, so that deleting and
    /// collecting remain possible. Failing to get it is no error.
    pub fn restore_reserve(&self) {
        if self.pool.lock().has_reserve {
            return;
        }
        let made = self
            .disk
            .open(RESERVE_NAME, Access::Create)
            .or_else(|_| self.disk.open(RESERVE_NAME, Access::Write))
            .and_then(|file| file.reserve(self.reserve_size()));
        match made {
            Ok(()) => self.pool.lock().has_reserve = true,
            Err(_) => drop(self.disk.remove(RESERVE_NAME)),
        }
    }

    /// Gives the reserve back to the file system; whether there was one.
    pub fn release_reserve(&self) -> bool {
        let had = std::mem::take(&mut self.pool.lock().has_reserve);
        had && self.disk.remove(RESERVE_NAME).is_ok()
    }
}

impl Pool {
    fn new_id(&mut self) -> SegmentId {
        let id = self.next;
        self.next = SegmentId(id.0 + 1);
        self.prepared.insert(id);
        id
    }

    fn skip(&mut self, id: SegmentId) {
        self.next = self.next.max(SegmentId(id.0 + 1));
    }

    /// An emptied file of the kind that nobody reads any more, nor ever did outside of the store.
    fn take_recyclable(&mut self, kind: SegmentKind) -> Option<Arc<Segment>> {
        let unread = |segment: &Arc<Segment>| segment.kind == kind && is_unread(segment);
        let position = self.emptied.iter().position(unread)?;
        Some(self.emptied.swap_remove(position))
    }
}

/// Whether nobody reads an emptied segment, nor ever did outside of the store.
fn is_unread(segment: &Arc<Segment>) -> bool {
    Arc::strong_count(segment) == 1 && !segment.is_shown()
}

/// The file name of a segment.
pub fn segment_name(id: SegmentId, kind: SegmentKind) -> String {
    match kind {
        SegmentKind::Log => format!("log-{:010}", id.0),
        SegmentKind::Bulk(keyspace) => format!("bulk-{}-{:010}", keyspace.0, id.0),
    }
}

/// The inverse of [`segment_name`].
pub fn parse_segment_name(name: &str) -> Option<(SegmentId, SegmentKind)> {
    let parsed = if let Some(id) = name.strip_prefix("log-") {
        (SegmentId(id.parse().ok()?), SegmentKind::Log)
    } else {
        let (keyspace, id) = name.strip_prefix("bulk-")?.split_once('-')?;
        (SegmentId(id.parse().ok()?), SegmentKind::Bulk(KeyspaceId(keyspace.parse().ok()?)))
    };
    (segment_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// The file that holds space back; see [`Segments::restore_reserve`].
pub const RESERVE_NAME: &str = "reserve";

const ZERO_RUN: usize = 1 << 20;

/// Batches of more than this go into blocks that were never written: to write so much twice would cost more than that the file system takes
/// note of the blocks. A batch with one payload of the largest size that goes into the log is more than this.
const SMALL_BATCH_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_ids() {
        for kind in [SegmentKind::Log, SegmentKind::Bulk(KeyspaceId(7))] {
            let name = segment_name(SegmentId(12), kind);
            assert_eq!(parse_segment_name(&name), Some((SegmentId(12), kind)));
        }
        for name in ["log-", "log-12", "bulk-1", "bulk-a-0000000001", "table-1", ""] {
            assert_eq!(parse_segment_name(name), None, "{name}");
        }
    }
}
