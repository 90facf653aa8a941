//! A model of a node's disk as its partitions' logs see it, for speed: what was written lasts once it is durable; a crash keeps any part
//! of the rest, from its beginning.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tyr_node::Stored;
use tyr_proto::{Epoch, Log, Output, Partition, PartitionId, Replica, State, entry::Entry};

use crate::random::Random;

/// A disk. Operations become durable in the order in which they were given.
#[derive(Debug, Default)]
pub struct Disk {
    durable: BTreeMap<PartitionId, Image>,
    pending: VecDeque<Operation>,
}

/// What is durable of one partition.
#[derive(Clone, Debug, Default)]
struct Image {
    base: Option<Base>,
    entries: Vec<(Epoch, Arc<Entry>)>,
}

/// What stands for the entries up to an index.
#[derive(Clone, Debug)]
struct Base {
    index: u64,
    epochs: Vec<(Epoch, u64)>,
    state: Arc<State>,
}

#[derive(Clone, Debug)]
enum Operation {
    Store(PartitionId, u64, Epoch, Arc<Entry>),
    Cut(PartitionId, u64),
    Install(PartitionId, u64, Vec<(Epoch, u64)>, Arc<State>),
}

impl Disk {
    /// Takes what a router wants written. Returns what is not for a disk.
    pub fn take(&mut self, output: Output) -> Option<Output> {
        let operation = match output {
            Output::Store { partition, index, epoch, entry } => {
                Operation::Store(partition, index, epoch, entry)
            }
            Output::Cut(partition, last) => Operation::Cut(partition, last),
            Output::Install { partition, index, epochs, state } => {
                Operation::Install(partition, index, epochs, state)
            }
            other => return Some(other),
        };
        self.pending.push_back(operation);
        None
    }

    /// How much is not durable yet.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Makes the next operations durable.
    pub fn complete(&mut self, count: usize) -> Vec<Stored> {
        let done: Vec<Operation> = self.pending.drain(..count.min(self.pending.len())).collect();
        done.into_iter().filter_map(|operation| self.apply(operation)).collect()
    }

    fn apply(&mut self, operation: Operation) -> Option<Stored> {
        match operation {
            Operation::Store(partition, index, epoch, entry) => {
                let image = self.durable.entry(partition).or_default();
                assert_eq!(index, image.last() + 1, "{partition}: entries are stored in order");
                image.entries.push((epoch, entry));
                Some(Stored { partition, index, epoch })
            }
            Operation::Cut(partition, last) => {
                let image = self.durable.entry(partition).or_default();
                let keep = usize::try_from(last.saturating_sub(image.start())).expect("in memory");
                image.entries.truncate(keep);
                None
            }
            Operation::Install(partition, index, epochs, state) => {
                let epoch = epochs.last().map_or(Epoch(0), |(epoch, _)| *epoch);
                let image = Image { base: Some(Base { index, epochs, state }), entries: Vec::new() };
                self.durable.insert(partition, image);
                Some(Stored { partition, index, epoch })
            }
        }
    }

    /// The node crashes: what was not durable is lost from some place on.
    pub fn crash(&mut self, random: &mut Random) {
        let survives = random.below(self.pending.len() as u64 + 1);
        self.complete(usize::try_from(survives).expect("in memory"));
        self.pending.clear();
    }

    /// The node's memory was all it had.
    pub fn lose_everything(&mut self) {
        *self = Disk::default();
    }

    /// The partitions as a node that starts finds them.
    pub fn restore(&self, me: Replica) -> Vec<Partition> {
        self.durable.iter().map(|(id, image)| image.restore(*id, me)).collect()
    }
}

impl Image {
    fn start(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.index)
    }

    fn last(&self) -> u64 {
        self.start() + self.entries.len() as u64
    }

    fn restore(&self, id: PartitionId, me: Replica) -> Partition {
        let (mut log, mut state) = match &self.base {
            Some(base) => (Log::after(base.index, base.epochs.clone()), State::clone(&base.state)),
            None => (Log::default(), State::new(id)),
        };
        for (epoch, entry) in &self.entries {
            let index = log.push(*epoch, entry.clone());
            state.apply(index, *epoch, entry);
        }
        Partition::restored(id, me, log, state)
    }
}
