//! Batches on their way to the disk, in the order in which they were started.
//!
//! They may be written in another order, but none counts as written before all that were started earlier. After one has failed,
//! none that was started later ever does, for its frames cannot be reached without those before them.

use std::{collections::VecDeque, sync::Arc};

use tyr_types::Number;

use super::assembly::Chunk;

/// What one leader writes at once.
pub(super) struct Batch {
    pub(super) chunks: Vec<Chunk>,
    /// Whether it is to be on disk, rather than only written.
    pub(super) sync: bool,
    /// The last transaction in it or before it.
    pub(super) last: Number,
    /// Sequence of the last frame.
    pub(super) sequence: u64,
    /// How many batches were started up to this one.
    pub(super) serial: u64,
}

/// The batches in flight.
#[derive(Default)]
pub(super) struct Flight {
    /// Oldest first.
    batches: VecDeque<Started>,
    /// What could not be written, and what was started after it: still read from here, for objects that were moved are nowhere
    /// else by now.
    failed: Vec<Arc<Batch>>,
}

struct Started {
    batch: Arc<Batch>,
    /// Whether it was written, once that is known.
    result: Option<bool>,
}

impl Batch {
    /// Bytes to be written.
    fn size(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.as_write().bytes.len()).sum()
    }

    /// Lets readers find it on the disk.
    pub(super) fn mark_written(&self) {
        for chunk in &self.chunks {
            let write = chunk.as_write();
            chunk.segment().written_to(write.position + write.bytes.len() as u64);
        }
    }
}

impl Flight {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether a batch of so many bytes, which is to be on disk, should not wait for those in flight. If they and it are small, it
    /// should: the next one then serves more commits.
    pub(super) fn admits(&self, pending: usize) -> bool {
        let mut writing = self.batches.iter().filter(|started| started.result.is_none());
        match (writing.next(), writing.next()) {
            (Some(one), None) => one.batch.sync && pending > 0 && pending.max(one.batch.size()) >= FOLLOW_MIN,
            (None, _) => pending > 0,
            (Some(_), Some(_)) => false,
        }
    }

    pub(super) fn start(&mut self, batch: Arc<Batch>) {
        self.batches.push_back(Started { batch, result: None });
    }

    /// Notes how the writing of a batch has ended.
    pub(super) fn end(&mut self, serial: u64, is_written: bool) {
        let started = self.batches.iter_mut().find(|started| started.batch.serial == serial);
        started.expect("a batch ends once, and was started before").result = Some(is_written);
    }

    /// The next batch that is written with all before it.
    pub(super) fn take_written(&mut self) -> Option<Arc<Batch>> {
        while self.batches.front()?.result.is_some() {
            let Started { batch, result } = self.batches.pop_front()?;
            if result == Some(true) && self.failed.is_empty() {
                return Some(batch);
            }
            self.failed.push(batch);
        }
        None
    }

    /// Whether a batch is written that waits for one before it, by its place in the order.
    #[cfg(test)]
    pub(super) fn is_written(&self, index: usize) -> bool {
        self.batches.get(index).is_some_and(|started| started.result == Some(true))
    }

    /// Everything that may not be on the disk.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        let started = self.batches.iter().map(|started| &started.batch);
        started.chain(&self.failed).flat_map(|batch| &batch.chunks)
    }
}

/// A batch follows another at once if one of them has so many bytes: the disk then takes longer for it than it takes to start another.
const FOLLOW_MIN: usize = 256 << 10;
