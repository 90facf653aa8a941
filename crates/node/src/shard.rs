//! A shard of a node: the protocol of some of its partitions, with the lease under which it acts.

use std::sync::Arc;

use tyr_proto::{
    Keyspaces, Limits, Output, Partition, Replica, Router, ShardId, Time, cluster::Fact, message::Envelope,
};

use crate::{journal::Stored, member::Notice};

/// A state machine that runs the partitions of one [`ShardId`]. It knows its lease itself, so that it can run on a thread of its own.
#[derive(Debug)]
pub struct Shard {
    router: Router,
    lease_ends: Option<Time>,
}

impl Shard {
    /// A shard without a lease that holds what was found on disk; partitions of other shards are left out.
    pub fn new(
        id: ShardId,
        me: Replica,
        keyspaces: Arc<Keyspaces>,
        found: impl IntoIterator<Item = Partition>,
    ) -> Self {
        let mut router = Router::of_shard(id, me, keyspaces);
        let own = found.into_iter().filter(|partition| id.holds(partition.id()));
        own.for_each(|partition| router.restore(partition));
        Shard { router, lease_ends: None }
    }

    /// The protocol's state.
    pub fn router(&self) -> &Router {
        &self.router
    }

    fn has_lease(&self, now: Time) -> bool {
        self.lease_ends.is_some_and(|end| now < end)
    }

    /// A message for one of its partitions arrives.
    pub fn handle_message(&mut self, now: Time, envelope: Envelope) {
        self.router.handle_message(now, self.has_lease(now), envelope);
    }

    /// Entries of its partitions are durable, in this order.
    pub fn handle_stored(&mut self, now: Time, stored: &[Stored]) {
        // So is what is before an entry in its log: it is enough that a partition hears of the last one, if that is still in it.
        for Stored { partition, index, epoch } in stored.iter().rev().copied() {
            self.router.handle_stored(now, self.has_lease(now), partition, index, epoch);
        }
    }

    /// Time passes: to be called every few milliseconds.
    pub fn handle_tick(&mut self, now: Time) {
        self.router.handle_tick(now, self.has_lease(now));
    }

    /// How much it takes on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.router.set_limits(limits);
    }

    /// Whether the disk has no room for more than what has been promised.
    pub fn handle_room(&mut self, is_short: bool) {
        self.router.handle_room(is_short);
    }

    /// The keyspaces have changed.
    pub fn handle_keyspaces(&mut self, keyspaces: Arc<Keyspaces>) {
        self.router.handle_keyspaces(keyspaces);
    }

    /// The member of this node has something to tell.
    pub fn handle_notice(&mut self, now: Time, notice: &Notice) {
        match notice {
            Notice::Lease(ends) => self.lease_ends = *ends,
            Notice::Incarnation(me) => {
                self.lease_ends = None;
                self.router.begin_incarnation(now, *me);
            }
            Notice::Fact(Fact::Partition(id, configuration, proposal)) => {
                let (has_lease, epoch) = (self.has_lease(now), configuration.epoch);
                self.router.handle_configuration(now, has_lease, *id, configuration.clone());
                if let Some(proposal) = proposal {
                    self.router.handle_proposal(now, has_lease, *id, epoch, proposal);
                }
            }
            Notice::Fact(Fact::Class(id, settings)) => self.router.handle_class(*id, *settings),
            Notice::Fact(Fact::Member(..) | Fact::Keyspace(..) | Fact::Account(..) | Fact::Seal(..)) => {}
            Notice::Bounds(bounds) => self.router.handle_bounds(now, bounds),
            Notice::Version(version) => self.router.handle_ring_version(*version),
        }
    }

    /// The next thing that the surroundings have to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.router.poll_output()
    }
}
