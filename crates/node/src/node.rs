//! A node on one thread: its member and its shards together.
//!
//! Who hears of what is decided here and nowhere else: a message goes to the shard of its partition, a notice of the member to all
//! shards. When the journal has failed, the node stops: it gives up its lease, and nothing that was not durable is ever said to be.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use tyr_proto::{
    Bounds, ClassId, Keyspaces, Limits, Output, Partition, PartitionId, Replica, ShardId, Time, Uses,
    cluster::{Fact, Request, Response},
    message::Envelope,
};
use tyr_types::{Durability, Error};

use crate::{
    journal::Stored,
    member::{Member, Notice},
    shard::Shard,
};

/// A server without sockets, threads, and a clock.
#[derive(Debug)]
pub struct Node {
    member: Member,
    count: NonZeroU32,
    shards: Vec<Shard>,
    classes: BTreeMap<ClassId, Durability>,
    failure: Option<Error>,
}

impl Node {
    /// A node that is about to register, with so many shards, and with the partitions that were found on its disk.
    pub fn new(
        member: Member,
        count: NonZeroU32,
        keyspaces: &Arc<Keyspaces>,
        mut found: Vec<Partition>,
    ) -> Self {
        let shard = |id: ShardId| {
            let own = found.extract_if(.., |partition| id.holds(partition.id()));
            Shard::new(id, member.replica(), keyspaces.clone(), own)
        };
        let shards = ShardId::all(count).map(shard).collect();
        Node { member, count, shards, classes: BTreeMap::new(), failure: None }
    }

    /// Which start of which node it is.
    pub fn replica(&self) -> Replica {
        self.member.replica()
    }

    /// Whether it may serve.
    pub fn has_lease(&self, now: Time) -> bool {
        self.member.has_lease(now)
    }

    /// Why it has stopped, if it has.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// The partitions that it holds.
    pub fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.shards.iter().flat_map(|shard| shard.router().partitions())
    }

    /// One of the partitions.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.shards[self.place_of(id)].router().partition(id)
    }

    /// What a record of a partition has to survive. As long as the class is not known it is taken to be all that there is.
    pub fn durability_of(&self, id: PartitionId) -> Durability {
        self.classes.get(&id.class).copied().unwrap_or(Durability::Disk)
    }

    fn place_of(&self, id: PartitionId) -> usize {
        usize::try_from(ShardId::of(id, self.count).number()).expect("as many shards as there are fit memory")
    }

    /// A message arrives.
    pub fn handle_message(&mut self, now: Time, envelope: Envelope) {
        let place = self.place_of(envelope.partition);
        self.shards[place].handle_message(now, envelope);
    }

    /// Entries of partitions' logs are durable here, in this order.
    pub fn handle_stored(&mut self, now: Time, stored: &[Stored]) {
        if self.failure.is_some() {
            return;
        }
        let count = self.count;
        let shard_of = |stored: &Stored| ShardId::of(stored.partition, count);
        for run in stored.chunk_by(|one, two| shard_of(one) == shard_of(two)) {
            let place = self.place_of(run[0].partition);
            self.shards[place].handle_stored(now, run);
        }
    }

    /// The journal has failed: nothing more becomes durable. What was acknowledged is safe; the process has to start anew.
    pub fn handle_failure(&mut self, now: Time, error: Error) {
        self.failure.get_or_insert(error);
        self.member.stop();
        self.spread(now);
    }

    /// Time passes. Returns what is to be asked of the cluster manager.
    pub fn handle_tick(&mut self, now: Time) -> Option<Request> {
        self.shards.iter_mut().for_each(|shard| shard.handle_tick(now));
        self.member.handle_tick(now)
    }

    /// The cluster manager answers.
    pub fn handle_response(&mut self, now: Time, response: Response) {
        self.member.handle_response(now, response);
        self.spread(now);
    }

    /// How much it takes on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.shards.iter_mut().for_each(|shard| shard.set_limits(limits));
    }

    /// Whether the disk has no room for more than what has been promised.
    pub fn handle_room(&mut self, is_short: bool) {
        self.shards.iter_mut().for_each(|shard| shard.handle_room(is_short));
    }

    /// What bounds each shard, by what it holds itself.
    pub fn handle_bounds(&mut self, now: Time, bounds_of: impl Fn(&Uses) -> Bounds) {
        for shard in &mut self.shards {
            let bounds = bounds_of(&shard.router().uses());
            shard.handle_notice(now, &Notice::Bounds(bounds));
        }
    }

    /// What it holds of keyspaces with quotas.
    pub fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (keyspace, held) in self.shards.iter().flat_map(|shard| shard.router().uses()) {
            uses.entry(keyspace).or_default().add(held);
        }
        uses
    }

    /// The keyspaces have changed.
    pub fn handle_keyspaces(&mut self, keyspaces: &Arc<Keyspaces>) {
        self.shards.iter_mut().for_each(|shard| shard.handle_keyspaces(keyspaces.clone()));
    }

    /// Tells all shards what the member has to say.
    fn spread(&mut self, now: Time) {
        for notice in self.member.take_notices() {
            if let Notice::Fact(Fact::Class(id, settings)) = &notice {
                self.classes.insert(*id, settings.durability);
            }
            self.shards.iter_mut().for_each(|shard| shard.handle_notice(now, &notice));
        }
    }

    /// The next thing that the surroundings have to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.shards.iter_mut().find_map(Shard::poll_output)
    }
}

#[cfg(test)]
mod tests;
