//! The leases that the leader of the cluster manager has granted, and the suspicions that it has heard. Volatile: a new leader knows
//! nothing of what its predecessor granted, and waits a full lease before it evicts anybody.
//!
//! What the caller must do for this to be safe:
//!
//! - It calls [`Leases::lead`] only after it has applied everything that was logged before, so that an incarnation is not granted a lease
//!   whose eviction an earlier leader logged, or the same one before it ceased to hold the leases for a while.
//! - It sends a grant only after a majority has confirmed, **since the request arrived**, that it still leads. Otherwise a leader that
//!   was deposed without knowing could grant leases that its successor, which waits one lease from its election, outlives.
//! - It gives [`Leases::grant`] its own time, read after the request arrived.
//! - The evictions that [`Leases::overdue`] names are logged in the term in which they were found and in their order, or not at all.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{LeaseRequest, LeaseTerms, NodeId, Replica, RingVersion, Time};

/// Whether a lease was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grant {
    /// The request, to be returned to its holder.
    Granted(LeaseRequest),
    /// Ask another node: this one does not lead.
    NotLeading,
    /// The incarnation was evicted, or is about to be: it must register a new one.
    Evicted,
}

/// Leases and suspicions, in the memory of the leader.
#[derive(Clone, Debug)]
pub struct Leases {
    terms: LeaseTerms,
    /// How long after a lease ran out its holder is evicted though nobody suspects it.
    grace: u64,
    leading_since: Option<Time>,
    granted: BTreeMap<Replica, Time>,
    /// The ring versions that holders had wholly when they asked for their leases.
    reached: BTreeMap<Replica, RingVersion>,
    condemned: BTreeSet<Replica>,
    suspected: BTreeSet<NodeId>,
}

impl Leases {
    /// The leases of a node that does not lead. The grace is in microseconds.
    pub fn new(terms: LeaseTerms, grace: u64) -> Self {
        Leases {
            terms,
            grace,
            leading_since: None,
            granted: BTreeMap::new(),
            reached: BTreeMap::new(),
            condemned: BTreeSet::new(),
            suspected: BTreeSet::new(),
        }
    }

    /// This node has begun to lead, or leads on, and has applied everything logged before.
    pub fn lead(&mut self, now: Time) {
        self.step_down();
        self.leading_since = Some(now);
    }

    /// This node leads no more, or is not sure.
    pub fn step_down(&mut self) {
        self.leading_since = None;
        self.granted.clear();
        self.reached.clear();
        self.condemned.clear();
    }

    /// Whether it leads.
    pub fn is_leading(&self) -> bool {
        self.leading_since.is_some()
    }

    /// A lease for an incarnation that the caller found [present](crate::cluster::Cluster::is_present), granted now.
    pub fn grant(&mut self, request: LeaseRequest, now: Time) -> Grant {
        if self.leading_since.is_none() {
            return Grant::NotLeading;
        }
        if self.condemned.contains(&request.holder) {
            return Grant::Evicted;
        }
        let granted = self.granted.entry(request.holder).or_insert(now);
        *granted = now.max(*granted);
        Grant::Granted(request)
    }

    /// An incarnation that was granted a lease had everything up to this ring version when it asked.
    pub fn note_reached(&mut self, holder: Replica, version: RingVersion) {
        if self.granted.contains_key(&holder) {
            let reached = self.reached.entry(holder).or_default();
            *reached = version.max(*reached);
        }
    }

    /// Whether the incarnation ran after a ring version was made: it asked this leader for a lease and knew that version. When a request
    /// arrives says nothing of that, for it may be late or come twice. A replica that runs gives up its role only to such as ran since
    /// that was proposed: one that did not may be dead, and what both held would be lost with it.
    pub fn has_reached(&self, holder: Replica, version: RingVersion) -> bool {
        self.reached.get(&holder).is_some_and(|reached| *reached >= version)
    }

    /// Gossip suspects the node, or holds it for dead.
    pub fn suspect(&mut self, node: NodeId) {
        self.suspected.insert(node);
    }

    /// Gossip has heard of the node again.
    pub fn trust(&mut self, node: NodeId) {
        self.suspected.remove(&node);
    }

    /// Whether the incarnation surely serves no more, whatever any leader granted it.
    pub fn is_over(&self, holder: Replica, now: Time) -> bool {
        self.ended(holder).is_some_and(|end| end <= now)
    }

    /// Those of the present incarnations that are to be evicted: whose lease is over, and who are suspected or have been without one
    /// for the grace. From here on they are granted nothing; the caller logs their eviction.
    ///
    /// They are in the order in which they fell silent, and nobody is evicted as long as another one has been silent for longer and is
    /// spared. Who is left of a partition when all are evicted is the one that may bring it back: the last one heard of, not one that
    /// died before and is not suspected yet.
    pub fn overdue(&mut self, present: impl Iterator<Item = Replica>, now: Time) -> Vec<Replica> {
        let present: BTreeSet<Replica> = present.collect();
        self.granted.retain(|holder, _| present.contains(holder));
        self.reached.retain(|holder, _| present.contains(holder));
        self.condemned.retain(|holder| present.contains(holder));
        let is_due = |holder: &Replica| {
            let patience = if self.suspected.contains(&holder.node) { 0 } else { self.grace };
            let is_over = self.ended(*holder).is_some_and(|end| end.after(patience) <= now);
            is_over || self.condemned.contains(holder)
        };
        let silent = |holder: &Replica| self.ended(*holder).map(|end| (end, *holder));
        let (due, spared): (Vec<Replica>, Vec<Replica>) = present.into_iter().partition(is_due);
        let spared = spared.iter().filter_map(silent).map(|(end, _)| end).min();
        let is_next = |(end, _): &(Time, Replica)| spared.is_none_or(|spared| *end <= spared);
        let mut due: Vec<(Time, Replica)> = due.iter().filter_map(silent).filter(is_next).collect();
        due.sort_unstable();
        let due: Vec<Replica> = due.into_iter().map(|(_, holder)| holder).collect();
        self.condemned.extend(&due);
        due
    }

    /// When the holder's last lease is surely over: one of this leader's, or any that a predecessor may have granted.
    fn ended(&self, holder: Replica) -> Option<Time> {
        let from = self.granted.get(&holder).copied().max(self.leading_since);
        self.leading_since.and(from).map(|from| from.after(self.terms.length_granted()))
    }
}

#[cfg(test)]
mod tests;
