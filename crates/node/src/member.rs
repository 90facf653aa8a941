//! A node as a member of its cluster: how it registers, renews its lease, and learns what the cluster manager knows.
//!
//! It says nothing twice by itself: what was not answered is asked again when the time comes. What its shards must know comes as
//! notices, which go to all of them in the order in which they were made. A shard that acts on its lease has heard of every change
//! that came with it.

use tyr_proto::{
    Bounds, Incarnation, Lease, LeaseTerms, NodeId, Replica, RingVersion, Time,
    cluster::{Address, Command, Fact, Identity, Position, Request, Response, Zone},
};

/// What a node tells of itself when it registers, and how often it renews its lease.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What it calls itself.
    pub identity: Identity,
    /// The nodes that may fail together with it.
    pub zone: Zone,
    /// Its share of the load, relative to other members.
    pub weight: u32,
    /// Where it listens.
    pub address: Address,
    /// How long leases last. The same on all nodes.
    pub terms: LeaseTerms,
    /// It asks for its lease again after this many microseconds: several times within a lease, for an answer may be lost.
    pub renew_after: u64,
}

/// What every shard must know.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Until when the node may serve; not at all if `None`.
    Lease(Option<Time>),
    /// Something changed.
    Fact(Fact),
    /// Everything up to this version of the ring has been told.
    Version(RingVersion),
    /// Which keyspaces have quotas, and what lies elsewhere of them than on the shard that is told.
    Bounds(Bounds),
    /// The node goes on as this incarnation, or has learned its number.
    Incarnation(Replica),
}

/// The membership of one process of a node.
///
/// Invariant: a lease counts only for the incarnation that asked for it; a new incarnation registers after every shard was told to
/// give up what the old one held.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    start: u32,
    evictions: u32,
    me: Replica,
    lease: Lease,
    position: Position,
    is_registered: bool,
    is_stopped: bool,
    asked_at: Option<Time>,
    notices: Vec<Notice>,
}

impl Member {
    /// The membership of a process that is about to register: the `start`-th one of the node. A node that was never told its number
    /// gives [`NodeId`] 0, which no node has.
    pub fn new(settings: Settings, number: NodeId, start: u32) -> Self {
        let me = Replica { node: number, incarnation: Incarnation::of(start, 0) };
        let lease = Lease::new(me, settings.terms);
        Member {
            settings,
            start,
            evictions: 0,
            me,
            lease,
            position: Position::default(),
            is_registered: false,
            is_stopped: false,
            asked_at: None,
            notices: Vec::new(),
        }
    }

    /// Which start of which node it is.
    pub fn replica(&self) -> Replica {
        self.me
    }

    /// Where others reach it.
    pub fn address(&self) -> &Address {
        &self.settings.address
    }

    /// The first incarnation of this process.
    pub fn first(&self) -> Incarnation {
        Incarnation::of(self.start, 0)
    }

    /// Whether it may serve.
    pub fn has_lease(&self, now: Time) -> bool {
        self.lease.may_serve(now)
    }

    /// Until when it may serve; none without a lease.
    pub fn lease_ends(&self) -> Option<Time> {
        self.lease.ends()
    }

    /// Gives up the lease for good: the process cannot keep what it would promise. The cluster manager will hear no more of it and go on
    /// without it.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.lease.give_up();
        self.notices.push(Notice::Lease(None));
    }

    /// Time passes. Returns what is to be asked of the cluster manager.
    pub fn handle_tick(&mut self, now: Time) -> Option<Request> {
        let is_early = self.asked_at.is_some_and(|at| now.since(at) < self.settings.renew_after);
        if is_early || self.is_stopped {
            return None;
        }
        self.asked_at = Some(now);
        Some(match self.is_registered {
            true => Request::Lease(self.lease.request(now), self.position),
            false => Request::Register(self.me, self.registration()),
        })
    }

    /// There is something to be learned: the next tick asks, however early that is.
    pub fn hurry(&mut self) {
        self.asked_at = None;
    }

    fn registration(&self) -> Command {
        Command::Register {
            identity: self.settings.identity,
            incarnation: self.me.incarnation,
            memory_since: self.first(),
            zone: self.settings.zone.clone(),
            weight: self.settings.weight,
            address: self.settings.address.clone(),
        }
    }

    /// The cluster manager answers.
    pub fn handle_response(&mut self, now: Time, response: Response) {
        if self.is_stopped {
            return;
        }
        match response {
            Response::Registered(number) => self.registered(number),
            // What an earlier process of this node asked for tells what changed since the ring that it knew, which this one may not know.
            Response::Granted(request, _) if request.holder != self.me => {}
            Response::Granted(request, difference) => {
                self.lease.granted(request, now);
                self.notices.push(Notice::Lease(self.lease.ends()));
                // One that comes late may tell of things as they were before what is known: it then ends before that. What ends no earlier
                // has each thing at least as new.
                if difference.next >= self.position {
                    self.notices.extend(difference.facts.into_iter().map(Notice::Fact));
                    self.notices.extend(difference.reached.map(Notice::Version));
                    self.position = difference.next;
                }
            }
            Response::Evicted(replica) if replica == self.me => self.begin_incarnation(),
            Response::Evicted(_)
            | Response::Ring(_)
            | Response::Elsewhere(_)
            | Response::Replied(_)
            | Response::Report(_)
            | Response::Hatch(_)
            | Response::Ticket(..)
            | Response::Token(_)
            | Response::Seal(_)
            | Response::Denied(..)
            | Response::Uses(_)
            | Response::View(_) => {}
        }
    }

    fn registered(&mut self, number: NodeId) {
        self.is_registered = true;
        self.asked_at = None;
        if self.me.node != number {
            self.me.node = number;
            self.lease = Lease::new(self.me, self.settings.terms);
            self.notices.push(Notice::Incarnation(self.me));
        }
    }

    /// It was evicted though it runs: it goes on as a new incarnation, with its memory and without any role.
    fn begin_incarnation(&mut self) {
        self.evictions += 1;
        self.me.incarnation = Incarnation::of(self.start, self.evictions);
        self.lease = Lease::new(self.me, self.settings.terms);
        if std::mem::take(&mut self.is_registered) {
            // Who is not taken in asks no sooner than others.
            self.asked_at = None;
        }
        self.notices.push(Notice::Lease(None));
        self.notices.push(Notice::Incarnation(self.me));
    }

    /// What all shards have to be told, in order, before anything else happens to them.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

#[cfg(test)]
mod tests;
