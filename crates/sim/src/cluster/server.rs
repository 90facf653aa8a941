//! A simulated node: the shipped node with its journal, on a clock of its own, that crashes, pauses, and loses its disk.

use std::{num::NonZeroU32, sync::Arc};

use tyr_node::{Member, Node, Settings, Stored};
use tyr_proto::{
    Bound, Incarnation, Keyspaces, NodeId, Output, Replica, Time, TransactionId,
    cluster::{Address, Identity, Request, Response, Zone},
    message::Envelope,
};
use tyr_sim_env::Drift;
use tyr_types::{Error, KeyspaceId};

use super::{
    bounds::Bounds, disk::Disk, manager::TERMS, promises::Promise, storage::StorageProfile, target::Target,
};
use crate::random::Random;

/// A node.
#[derive(Debug)]
pub struct Server {
    number: NodeId,
    shards: NonZeroU32,
    /// As they were in the beginning: who starts again hears anew.
    keyspaces: Arc<Keyspaces>,
    /// How often these had changed when it heard of them last.
    keyspaces_version: u64,
    clock: Clock,
    running: Option<Node>,
    storage: Storage,
    bounds: Bounds,
    /// Whether its disk has no room for more than what has been promised.
    pub is_short: bool,
    /// Whether it was told so, or that its journal found no room.
    knows_short: bool,
    /// What it must not have logged.
    pub broken: Option<String>,
    /// What it promised, since this was last emptied.
    pub promised: Vec<Promise>,
    /// What it logged or told to be committed, since this was last emptied.
    pub committed: Vec<TransactionId>,
    /// What happened seldom, since this was last emptied.
    pub sighted: Vec<&'static str>,
    /// Counts starts, so that what was meant for an earlier process does not reach a later one.
    pub start: u64,
    /// It stands still until then.
    pub paused_until: u64,
    /// Its disk is slow until then.
    pub slow_until: u64,
    /// Whether the completion of what is being written is on its way.
    pub is_writing: bool,
}

/// Where a node keeps its logs.
#[derive(Debug)]
enum Storage {
    /// A model of a disk, which is fast.
    Model { disk: Disk, starts: u32 },
    /// The shipped journal and store.
    Target(Box<Target>),
}

/// A clock that is not quite right.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: u64,
    drift: i64,
}

impl Clock {
    fn at(self, now: u64) -> Time {
        let gain = i128::from(now) * i128::from(self.drift) / 1_000_000;
        let time = i128::from(now) + i128::from(self.offset) + gain;
        Time(u64::try_from(time).unwrap_or(0))
    }
}

/// A node asks for its lease again after this many microseconds.
const RENEW_AFTER: u64 = 40_000;

impl Server {
    /// A node that was never started.
    pub fn new(
        number: NodeId,
        keyspaces: Arc<Keyspaces>,
        profile: &StorageProfile,
        bounds: Bounds,
        random: &mut Random,
    ) -> Self {
        let drift = i64::try_from(random.below(8_000)).expect("small") - 4_000;
        let clock = Clock { offset: random.below(1_000_000_000), drift };
        let storage = match profile.store {
            None => Storage::Model { disk: Disk::default(), starts: 0 },
            Some(store) => {
                // Not a choice of the world: what the disk does leaves the rest of the run as it is.
                let seed = clock.offset ^ u64::from(number.0) << 40;
                Storage::Target(Box::new(Target::new(store, Random::new(seed))))
            }
        };
        Server {
            number,
            shards: profile.shards,
            keyspaces,
            keyspaces_version: 0,
            clock,
            running: None,
            storage,
            bounds,
            is_short: false,
            knows_short: false,
            broken: None,
            promised: Vec::new(),
            committed: Vec::new(),
            sighted: Vec::new(),
            start: 0,
            paused_until: 0,
            slow_until: 0,
            is_writing: false,
        }
    }

    /// What its clock shows at a true time.
    pub fn time(&self, now: u64) -> Time {
        self.clock.at(now)
    }

    /// How its clock goes.
    pub fn drift(&self) -> Drift {
        let gain = i32::try_from(self.clock.drift).expect("a clock gains little");
        Drift { start: self.clock.offset, gain }
    }

    /// Whether its process runs.
    pub fn is_up(&self) -> bool {
        self.running.is_some()
    }

    /// Whether its process runs and holds a lease.
    pub fn has_lease(&self, now: u64) -> bool {
        self.running.as_ref().is_some_and(|node| node.has_lease(self.clock.at(now)))
    }

    /// What runs, if its process does.
    pub fn node(&self) -> Option<&Node> {
        self.running.as_ref()
    }

    /// Why its process cannot go on, if it cannot.
    pub fn failure(&self) -> Option<&Error> {
        self.running.as_ref().and_then(Node::failure)
    }

    /// How much is not durable yet.
    pub fn pending(&self) -> usize {
        match &self.storage {
            Storage::Model { disk, .. } => disk.pending(),
            Storage::Target(target) => usize::from(target.has_pending()),
        }
    }

    /// Whether what it wants written finds no space.
    pub fn is_full(&self) -> bool {
        matches!(&self.storage, Storage::Target(target) if target.is_full())
    }

    /// Its disk is as good as new, but for what is on it.
    pub fn heal_disk(&mut self) {
        if let Storage::Target(target) = &mut self.storage {
            target.heal();
        }
    }

    /// Starts the process, on what is on the disk. Fails if the disk does.
    pub fn boot(&mut self) -> Result<(), Error> {
        self.start += 1;
        let me = |start| Replica { node: self.number, incarnation: Incarnation::of(start, 0) };
        let (start, found) = match &mut self.storage {
            Storage::Model { disk, starts } => {
                *starts += 1;
                (*starts, disk.restore(me(*starts)))
            }
            Storage::Target(target) => {
                let (start, found) = target.boot(identity(self.number))?;
                self.sighted.extend((!found.is_empty()).then_some("found partitions on its disk"));
                let found = found.into_iter().map(|restored| restored.into_partition(me(start)));
                (start, found.collect())
            }
        };
        let settings = Settings {
            identity: identity(self.number),
            zone: Zone::new(&format!("z{}", self.number.0)).expect("a short name"),
            weight: 1,
            address: Address::new(&format!("host{}:1", self.number.0)).expect("a short address"),
            terms: TERMS,
            renew_after: RENEW_AFTER,
        };
        let member = Member::new(settings, self.number, start);
        let mut node = Node::new(member, self.shards, &self.keyspaces, found);
        node.set_limits(self.bounds.limits);
        self.keyspaces_version = 0;
        self.running = Some(node);
        Ok(())
    }

    /// It hears how the keyspaces are by the so manieth change.
    pub fn learn_keyspaces(&mut self, version: u64, keyspaces: Arc<Keyspaces>) {
        if version > self.keyspaces_version
            && let Some(node) = &mut self.running
        {
            self.keyspaces_version = version;
            node.handle_keyspaces(&keyspaces);
        }
    }

    /// The process dies.
    pub fn crash(&mut self, random: &mut Random, memory_is_all: bool) {
        self.running = None;
        self.is_writing = false;
        match &mut self.storage {
            Storage::Model { disk, .. } => {
                disk.crash(random);
                if memory_is_all {
                    disk.lose_everything();
                }
            }
            Storage::Target(target) => target.crash(),
        }
    }

    /// A message arrives.
    pub fn receive(&mut self, now: u64, envelope: Envelope) {
        let now = self.clock.at(now);
        if let Some(node) = &mut self.running {
            node.handle_message(now, envelope);
        }
    }

    /// Something has become durable.
    pub fn stored(&mut self, now: u64, count: usize) {
        let now = self.clock.at(now);
        let Some(node) = &mut self.running else { return };
        let stored: Result<Vec<Stored>, Error> = match &mut self.storage {
            Storage::Model { disk, .. } => Ok(disk.complete(count)),
            Storage::Target(target) => target.complete(),
        };
        match stored {
            Ok(stored) => node.handle_stored(now, &stored),
            Err(error) => node.handle_failure(now, error),
        }
    }

    /// Time passes. Returns what it asks of the cluster manager.
    pub fn tick(&mut self, now: u64) -> Option<Request> {
        let now = self.clock.at(now);
        self.knows_short = self.is_short || self.is_full();
        let node = self.running.as_mut()?;
        node.handle_room(self.knows_short);
        node.handle_tick(now)
    }

    /// It is told how much there may be of a keyspace, and how much all hold of it.
    pub fn ration(&mut self, now: u64, keyspace: KeyspaceId, quota: u64, total: u64) {
        let now = self.clock.at(now);
        let Some(node) = &mut self.running else { return };
        node.handle_bounds(now, |own| {
            let elsewhere = total.saturating_sub(own.get(&keyspace).map_or(0, |held| held.bytes));
            [(keyspace, Bound { quota, elsewhere })].into()
        });
    }

    /// How many bytes it holds of a keyspace that is bounded.
    pub fn held_of(&self, keyspace: KeyspaceId) -> u64 {
        let uses = self.running.as_ref().map(Node::uses).unwrap_or_default();
        uses.get(&keyspace).map_or(0, |held| held.bytes)
    }

    /// The cluster manager answers.
    pub fn managed(&mut self, now: u64, response: Response) {
        let now = self.clock.at(now);
        if let Some(node) = &mut self.running {
            node.handle_response(now, response);
        }
    }

    /// What it wants done, but for the disk.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            let node = self.running.as_mut()?;
            let output = node.poll_output()?;
            self.promised.extend(super::promises::of(&output));
            self.committed.extend(super::promises::committed(&output));
            if self.broken.is_none() {
                self.broken = super::promises::check(node, &output, &self.bounds, self.knows_short);
            }
            self.sighted.extend(super::sightings::of(&output));
            let output = match &mut self.storage {
                Storage::Model { disk, .. } => disk.take(output),
                Storage::Target(target) => {
                    let durability = durability_of(node, &output);
                    target.take(output, durability)
                }
            };
            if output.is_some() {
                return output;
            }
        }
    }

    /// Begins to write what it wants written.
    pub fn submit(&mut self, now: u64) {
        let now = self.clock.at(now);
        let (Some(node), Storage::Target(target)) = (&mut self.running, &mut self.storage) else { return };
        match target.submit(node) {
            Ok(checkpoints) => self.sighted.extend((checkpoints > 0).then_some("took a checkpoint")),
            Err(error) => node.handle_failure(now, error),
        }
        self.sighted.extend(target.is_full().then_some("found a disk full"));
    }

    /// Who sends what it reports to the cluster manager.
    pub fn replica(&self) -> Replica {
        let nobody = Replica { node: self.number, incarnation: Incarnation(0) };
        self.running.as_ref().map_or(nobody, Node::replica)
    }
}

fn identity(number: NodeId) -> Identity {
    Identity(u128::from(number.0))
}

fn durability_of(node: &Node, output: &Output) -> tyr_types::Durability {
    match output {
        Output::Store { partition, .. } | Output::Cut(partition, _) | Output::Install { partition, .. } => {
            node.durability_of(*partition)
        }
        _ => tyr_types::Durability::Disk,
    }
}
