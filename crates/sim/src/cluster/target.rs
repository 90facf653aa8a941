//! A node's storage target: the shipped journal and store on a disk that loses, tears, and fails.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tyr_node::{Journal, Node, Restored, Start, Stored};
use tyr_proto::{Output, PartitionId, ShardId, cluster::Identity};
use tyr_sim_env::{CrashMode, Fault, SimClock, SimDisk};
use tyr_store::{Create, Store};
use tyr_types::{Durability, Error, ErrorKind};

use super::storage::StoreProfile;
use crate::random::Random;

/// The disk of a node with what runs on it.
pub struct Target {
    profile: StoreProfile,
    random: Random,
    disk: Arc<SimDisk>,
    journal: Option<Journal>,
    is_healed: bool,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Target({:?})", self.journal)
    }
}

impl Target {
    /// An empty disk.
    pub fn new(profile: StoreProfile, mut random: Random) -> Self {
        let disk = SimDisk::new(random.number());
        Target { profile, random, disk, journal: None, is_healed: false }
    }

    /// Opens what is on the disk: which start this is, and the partitions that are found.
    pub fn boot(&mut self, identity: Identity) -> Result<(u32, Vec<Restored>), Error> {
        self.plan_faults();
        let opened = self.open(identity);
        if opened.is_err() {
            self.crash();
        }
        opened
    }

    fn open(&mut self, identity: Identity) -> Result<(u32, Vec<Restored>), Error> {
        let options = self.profile.options();
        let store = Store::open(self.disk.clone(), SimClock::new(), Create::IfMissing, options)?;
        let store = Arc::new(store);
        let start = Start::count(&[&store], None, identity)?;
        let (journal, found) = Journal::open(store, ShardId::ONLY, self.profile.journal())?;
        self.journal = Some(journal);
        Ok((start.number, found))
    }

    /// Decides what goes wrong until the process ends.
    fn plan_faults(&mut self) {
        if self.is_healed {
            return;
        }
        if self.random.happens(self.profile.errors) {
            let after = self.random.below(self.profile.operations);
            self.disk.fail_at(self.disk.operations() + after, Fault::Error);
        }
        if self.random.happens(self.profile.full) {
            let capacity = self.random.within(1 << 20..4 << 20);
            self.disk.set_capacity(capacity);
        }
    }

    /// Nothing goes wrong any more, and there is space.
    pub fn heal(&mut self) {
        self.is_healed = true;
        self.disk.set_capacity(CAPACITY);
    }

    /// Takes what a node wants written. Returns what is not for a disk.
    pub fn take(&mut self, output: Output, durability: Durability) -> Option<Output> {
        match &mut self.journal {
            Some(journal) => journal.take(output, durability),
            None => Some(output),
        }
    }

    /// Commits what was taken, with checkpoints of what has changed much. Returns how many those are.
    pub fn submit(&mut self, node: &Node) -> Result<usize, Error> {
        let Some(journal) = &mut self.journal else { return Ok(0) };
        let at_rest = node.partitions().filter(|partition| partition.is_idle());
        at_rest.for_each(|partition| journal.rest(partition));
        let due: Vec<PartitionId> = journal.due();
        due.iter().filter_map(|id| node.partition(*id)).for_each(|partition| journal.checkpoint(partition));
        journal.submit().map(|()| due.len())
    }

    /// Whether something is not durable yet.
    pub fn has_pending(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::has_pending)
    }

    /// Whether what waits finds no space.
    pub fn is_full(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_full)
    }

    /// Makes durable what has been committed.
    pub fn complete(&mut self) -> Result<Vec<Stored>, Error> {
        let Some(journal) = &mut self.journal else { return Ok(Vec::new()) };
        journal.sync();
        let stored = match journal.poll_stored(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(stored) => stored?,
            Poll::Pending => Vec::new(),
        };
        if self.random.below(4) == 0 {
            match journal.store().maintain() {
                Err(error) if error.kind() != ErrorKind::Full => return Err(error),
                _ => {}
            }
        }
        Ok(stored)
    }

    /// The process ends: it is killed, or the power fails, possibly in the midst of a write.
    pub fn crash(&mut self) {
        let journal = self.journal.take();
        // After a failed sync of names, no process makes names durable before the file system has been mounted anew.
        let is_mounted = self.disk.strikes().iter().all(|strike| strike.what != "sync names");
        if self.random.below(4) == 0 && is_mounted {
            drop(journal);
            self.disk = self.disk.snapshot();
            return;
        }
        if let Some(journal) = journal.filter(|_| self.random.below(2) == 0) {
            self.disk.fail_at(self.disk.operations() + self.random.below(4), Fault::Crash);
            journal.sync();
        }
        let mode = *self.random.choose(&CrashMode::ALL).expect("there are some");
        self.disk = self.disk.crash(mode);
    }
}

/// Space of a disk that is not full.
const CAPACITY: u64 = 1 << 40;
