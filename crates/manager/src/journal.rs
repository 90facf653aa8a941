//! What a voter keeps: its vote, its log, and the last snapshot.
//!
//! A voter answers nothing before the change that backs the answer is durable; so every change is awaited where it is made. Who installs a
//! snapshot and who purges the log that it covers are two tasks: the log is not purged before the snapshot is durable ([`Coverage`]), so
//! that what is kept goes without a gap from the snapshot to the end of the log at all times.

mod coverage;
mod file;

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    ops::{Range, RangeBounds},
    sync::Arc,
};

use openraft::{
    LogState, OptionalSend, RaftLogId, RaftLogReader, StorageIOError, Vote,
    storage::{LogFlushed, RaftLogStorage},
};
use parking_lot::Mutex;
use tyr_proto::cluster::Cluster;

pub(crate) use coverage::Coverage;
pub use file::DiskJournal;

use crate::Surroundings;
use crate::types::{Entry, LogId, SnapshotMeta, StorageError, Types, VoterId};

/// Where a voter keeps what must outlive it.
pub trait Journal<S: Surroundings>: Clone + Send + Sync + 'static {
    /// What was durable when the process began.
    fn load(&self) -> io::Result<Kept<S>>;
    /// Makes a change durable, whole or not at all; changes become durable in the order of the calls.
    fn keep(&self, change: Change<S>) -> impl Future<Output = io::Result<()>> + Send;
}

/// A change of what is kept.
#[derive(Clone, Debug)]
pub enum Change<S: Surroundings> {
    /// Another vote.
    Vote(Vote<VoterId>),
    /// Entries at the end of the log.
    Append(Vec<Entry<S>>),
    /// The log ends before this index.
    Truncate(u64),
    /// The log begins after this entry.
    Purge(LogId),
    /// A snapshot in place of an older one.
    Snapshot(SnapshotMeta, Box<Cluster>),
}

/// What is kept.
#[derive(Clone)]
pub struct Kept<S: Surroundings> {
    vote: Option<Vote<VoterId>>,
    log: BTreeMap<u64, Entry<S>>,
    purged: Option<LogId>,
    snapshot: Option<(SnapshotMeta, Box<Cluster>)>,
}

impl<S: Surroundings> Default for Kept<S> {
    fn default() -> Self {
        Kept { vote: None, log: BTreeMap::new(), purged: None, snapshot: None }
    }
}

impl<S: Surroundings> fmt::Debug for Kept<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {:?}: {:?}", self.vote, self.purged, self.log)
    }
}

impl<S: Surroundings> Kept<S> {
    /// Makes the change.
    pub fn apply(&mut self, change: Change<S>) {
        match change {
            Change::Vote(vote) => self.vote = Some(vote),
            Change::Append(entries) => {
                self.log.extend(entries.into_iter().map(|entry| (entry.log_id.index, entry)));
            }
            Change::Truncate(index) => drop(self.log.split_off(&index)),
            Change::Purge(last) => {
                self.log = self.log.split_off(&last.index.saturating_add(1));
                self.purged = Some(last);
            }
            Change::Snapshot(meta, cluster) => {
                // One that was built while a newer one came is of no use.
                if self.covered() <= meta.last_log_id {
                    self.snapshot = Some((meta, cluster));
                }
            }
        }
    }

    /// Changes that make it from nothing.
    pub(crate) fn changes(&self) -> Vec<Change<S>> {
        let vote = self.vote.map(Change::Vote);
        let snapshot = self.snapshot.clone().map(|(meta, cluster)| Change::Snapshot(meta, cluster));
        let purged = self.purged.map(Change::Purge);
        let entries: Vec<Entry<S>> = self.log.values().cloned().collect();
        let entries = (!entries.is_empty()).then_some(Change::Append(entries));
        [vote, snapshot, purged, entries].into_iter().flatten().collect()
    }

    /// Entries from the first of a range on, without a gap: none if the first one is there no more.
    pub(crate) fn run(&self, range: Range<u64>) -> Vec<Entry<S>> {
        let wanted = range.clone().zip(self.log.range(range));
        let is_next = |(wanted, (index, _)): &(u64, (&u64, &Entry<S>))| wanted == *index;
        wanted.take_while(is_next).map(|(_, (_, entry))| entry.clone()).collect()
    }

    /// The last entry that the snapshot covers.
    pub(crate) fn covered(&self) -> Option<LogId> {
        self.snapshot.as_ref().and_then(|(meta, _)| meta.last_log_id)
    }

    /// The last snapshot.
    pub(crate) fn snapshot(&self) -> Option<&(SnapshotMeta, Box<Cluster>)> {
        self.snapshot.as_ref()
    }
}

/// Openraft's view of a journal: a copy in memory of what is kept. Handles are equal.
pub(crate) struct Log<S: Surroundings, J> {
    journal: J,
    kept: Arc<Mutex<Kept<S>>>,
    coverage: Coverage,
}

impl<S: Surroundings, J: Clone> Clone for Log<S, J> {
    fn clone(&self) -> Self {
        Log { journal: self.journal.clone(), kept: self.kept.clone(), coverage: self.coverage.clone() }
    }
}

impl<S: Surroundings, J: Journal<S>> Log<S, J> {
    pub(crate) fn new(journal: J, kept: Kept<S>, coverage: Coverage) -> Self {
        Log { journal, kept: Arc::new(Mutex::new(kept)), coverage }
    }

    /// The last entry, if there ever was one.
    pub(crate) fn last(&self) -> Option<LogId> {
        let kept = self.kept.lock();
        kept.log.last_key_value().map(|(_, entry)| *entry.get_log_id()).or(kept.purged)
    }

    async fn keep(&self, change: Change<S>) -> Result<(), StorageError> {
        self.journal.keep(change.clone()).await.map_err(|error| StorageIOError::write(&error))?;
        self.kept.lock().apply(change);
        Ok(())
    }
}

impl<S: Surroundings, J: Journal<S>> RaftLogReader<Types<S>> for Log<S, J> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + fmt::Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<S>>, StorageError> {
        Ok(self.kept.lock().log.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    /// What another voter is sent follows what it has. One that was deposed and has taken a snapshot meanwhile lacks the first of it.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry<S>>, StorageError> {
        Ok(self.kept.lock().run(start..end))
    }
}

impl<S: Surroundings, J: Journal<S>> RaftLogStorage<Types<S>> for Log<S, J> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types<S>>, StorageError> {
        let purged = self.kept.lock().purged;
        Ok(LogState { last_purged_log_id: purged, last_log_id: self.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<VoterId>) -> Result<(), StorageError> {
        self.keep(Change::Vote(*vote)).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<VoterId>>, StorageError> {
        Ok(self.kept.lock().vote)
    }

    async fn append<I>(&mut self, entries: I, flushed: LogFlushed<Types<S>>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry<S>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry<S>> = entries.into_iter().collect();
        self.keep(Change::Append(entries)).await?;
        flushed.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), StorageError> {
        self.keep(Change::Truncate(from.index)).await
    }

    /// Waits until a snapshot covers what goes.
    async fn purge(&mut self, last: LogId) -> Result<(), StorageError> {
        self.coverage.reaches(last).await.map_err(|error| StorageIOError::write_logs(&error))?;
        self.keep(Change::Purge(last)).await
    }
}
