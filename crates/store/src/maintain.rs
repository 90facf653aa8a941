//! Background work, one bounded step at a time, on whatever thread calls, what is most urgent first.

use std::sync::atomic::{AtomicBool, Ordering};

use tyr_types::{Error, ErrorKind, Result};
use tyr_wire::frame::SegmentKind;

use crate::{compacting::Thrift, pace::Use, relocate::Object, store::Store};

/// Whether a step of maintenance found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintained {
    /// Nothing is left.
    Idle,
    /// There may be more.
    Worked,
}

/// What a full compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Segments that were emptied.
    pub segments: u64,
    /// Bytes of segment files before.
    pub bytes_before: u64,
    /// Bytes of segment files afterwards.
    pub bytes_after: u64,
}

impl Store {
    /// Does one bounded step of what is most urgent. After a failure nothing is lost; call again.
    pub fn maintain(&self) -> Result<Maintained> {
        self.check_open()?;
        let _working = self.pace.begin();
        let result = self.maintain_step();
        self.pace.note(self.using());
        self.note_failure(&result);
        result
    }

    /// Keeps what a step failed with for [`Store::stats`], until all that there was to do is done.
    fn note_failure(&self, result: &Result<Maintained>) {
        match result {
            Ok(Maintained::Worked) => {}
            Ok(Maintained::Idle) if self.leaves_something_undone() => {}
            Ok(Maintained::Idle) => *self.failure.lock() = None,
            Err(error) => *self.failure.lock() = Some(error.to_string()),
        }
    }

    /// Whether something is not tried any more because it has failed.
    fn leaves_something_undone(&self) -> bool {
        !self.backlog.lock().put_aside.is_empty()
            || !self.checkpoint.lock().kept.is_empty()
            || self.merging.try_lock().is_none_or(|merging| merging.is_put_aside())
    }

    /// What files use now.
    pub(crate) fn using(&self) -> Use {
        let all = self.segments.all();
        let capacity = u64::from(self.segments.capacity());
        Use {
            files: all.len() as u64 * capacity + self.segments.idle_bytes(),
            live: all.iter().map(|segment| segment.live()).sum(),
            slack: u64::from(self.options.slack_segments) * capacity,
            // A device that does not say is not taken for full.
            free: self.disk.space().map_or(u64::MAX, |space| space.free),
        }
    }

    fn maintain_step(&self) -> Result<Maintained> {
        if self.is_checkpoint_due() {
            self.checkpoint_forgetting(Store::checkpoint_if_room)?;
            return Ok(Maintained::Worked);
        }
        let mut failure: Option<Error> = None;
        let mut kinds = KINDS_OF_WORK;
        if self.has_just_forgotten.swap(false, Ordering::Relaxed) {
            // It looks at all that snapshots keep, and is due whenever a pin is released: the others have their turn first.
            kinds[FORGETTING..].rotate_left(1);
        }
        for work in kinds {
            match work(self) {
                Ok(false) => {}
                // What has found no room may find some now.
                Ok(true) if failure.as_ref().is_none_or(|error| error.kind() == ErrorKind::Full) => {
                    return Ok(Maintained::Worked);
                }
                Ok(true) => break,
                // Told when others have had their turn: what can be done does not wait for what cannot.
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        failure.map_or(Ok(Maintained::Idle), Err)
    }

    fn forget_in_passing(&self) -> Result<bool> {
        let worked = self.forget_histories();
        self.has_just_forgotten.store(worked != Ok(false), Ordering::Relaxed);
        worked
    }

    /// Who owns the store takes nothing more when less than so many bytes of the device are free: room is made before it comes to that. To be said again
    /// from time to time, for others may fill the device: it wakes maintenance if room is short.
    pub fn keep_free(&self, bytes: u64) {
        self.kept_free.store(bytes, Ordering::Relaxed);
        if self.is_space_short() {
            self.backlog.wake();
        }
    }

    /// Blocks until [`Store::maintain`] may have something to do, or [`Store::wake_drivers`] was called.
    pub fn wait_for_maintenance(&self, stop: &AtomicBool) {
        if !stop.load(Ordering::Acquire) {
            self.backlog.wait();
        }
    }

    /// Does everything that is worth doing, now: afterwards files hold little but what is live.
    pub fn compact(&self) -> Result<CompactReport> {
        self.check_open()?;
        let bytes = || {
            self.segments.all().len() as u64 * u64::from(self.segments.capacity())
                + self.segments.idle_bytes()
        };
        let mut report = CompactReport { bytes_before: bytes(), ..CompactReport::default() };
        self.log.close_all_bulk();
        self.checkpoint_forgetting(Store::checkpoint)?;
        loop {
            let worked = self.collect_garbage()? || self.forget_histories()? || self.defragment_one()?;
            if worked {
                continue;
            }
            if !self.compact_one(&mut self.compacting.lock(), Thrift::Full)? {
                break;
            }
            report.segments += 1;
        }
        self.checkpoint()?;
        self.merge_all_tables()?;
        self.segments.trim(0, |keyspace| self.keyspaces.contains(keyspace))?;
        report.bytes_after = bytes();
        Ok(report)
    }

    /// Gets the next log segment ready before it is needed, if there is space; if not, what needs it will be told.
    pub(crate) fn prepare_spare(&self) -> Result<bool> {
        if self.segments.spares(SegmentKind::Log) > 0 || !self.log.is_segment_half_full() {
            return Ok(false);
        }
        match self.segments.prepare(SegmentKind::Log) {
            Err(error) if error.kind() == ErrorKind::Full => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Writes a checkpoint; if that fails, once more without what was kept for pins that are over: it may be what there is too much of.
    pub(crate) fn checkpoint_forgetting(&self, write: fn(&Store) -> Result<()>) -> Result<()> {
        write(self).or_else(|error| match self.forget_histories() {
            Ok(false) => Err(error),
            // What cannot be forgotten is tried again with the next release of a pin.
            Ok(true) | Err(_) => write(self),
        })
    }

    fn defragment_one(&self) -> Result<bool> {
        let Some((key, blob, index)) = self.backlog.lock().fragmented.pop_first() else { return Ok(false) };
        let object =
            if index == 0 { Object::Entry(key) } else { Object::Leaf(key.clone(), (key.0, blob, index)) };
        self.defragment(&object)?;
        Ok(true)
    }
}

/// What there is to do, the most urgent first: one step, and whether there was anything.
const KINDS_OF_WORK: [fn(&Store) -> Result<bool>; 7] = [
    Store::prepare_spare,
    Store::collect_garbage,
    Store::forget_in_passing,
    Store::defragment_one,
    Store::merge_tables,
    Store::compact_in_passing,
    |store| Ok(store.give_back()),
];
/// Where what is forgotten has its place in that.
const FORGETTING: usize = 2;

#[cfg(test)]
mod tests;
