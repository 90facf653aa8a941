//! A node's lease: until when it may serve, on its own clock.
//!
//! The holder counts from before it sent the request, so whenever the grant was given, the holder's lease ends no later than the one
//! that [`crate::Leases`] counts from the grant. Nothing here compares clocks of two nodes; only their rates must be near each other.

use crate::{Replica, Time};

/// How long leases last, and how far clocks may differ in rate. The same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long a holder may serve after it sent the request that was granted, in microseconds of its clock.
    pub length: u64,
    /// The most by which one node's clock may gain on another's, in parts per million.
    pub drift_max: u32,
}

impl LeaseTerms {
    /// How long after a grant the holder surely serves no more, in microseconds of the clock of who granted: the length, times one
    /// plus the drift bound, rounded up.
    pub fn length_granted(&self) -> u64 {
        let gain = u128::from(self.length) * u128::from(self.drift_max);
        let gain = u64::try_from(gain.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.length.saturating_add(gain)
    }
}

impl Default for LeaseTerms {
    /// Two seconds; clocks may differ by one per cent, far more than a quartz does.
    fn default() -> Self {
        LeaseTerms { length: 2_000_000, drift_max: 10_000 }
    }
}

/// Asks for a lease, or for a longer one. A grant returns it unaltered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRequest {
    /// Who asks.
    pub holder: Replica,
    /// When it asks, on its own clock.
    pub sent: Time,
}

/// The lease of one incarnation of a node. A new incarnation begins with another, and without any grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    terms: LeaseTerms,
    holder: Replica,
    /// When the newest request that was granted was sent.
    granted: Option<Time>,
    is_given_up: bool,
}

impl Lease {
    /// An incarnation that holds no lease yet.
    pub fn new(holder: Replica, terms: LeaseTerms) -> Self {
        Lease { terms, holder, granted: None, is_given_up: false }
    }

    /// A request to be sent now or later: its lease counts from here.
    pub fn request(&self, now: Time) -> LeaseRequest {
        LeaseRequest { holder: self.holder, sent: now }
    }

    /// A request of this incarnation was granted. One of another incarnation is ignored, whose clock may have been another.
    pub fn granted(&mut self, request: LeaseRequest, now: Time) {
        if request.holder == self.holder && request.sent <= now {
            self.granted = self.granted.max(Some(request.sent));
        }
    }

    /// Stops serving for good, before a new incarnation registers.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// When it ends unless it is granted anew; none if it was never granted.
    pub fn ends(&self) -> Option<Time> {
        if self.is_given_up { None } else { self.granted.map(|sent| sent.after(self.terms.length)) }
    }

    /// Whether it may serve. A read asks this **after** it has read.
    pub fn may_serve(&self, now: Time) -> bool {
        self.ends().is_some_and(|end| now < end)
    }
}
