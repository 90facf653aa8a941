//! A simulated node: the shipped router on a simulated disk, with a clock of its own.

use std::sync::Arc;

use tyr_proto::{
    Incarnation, Keyspaces, Lease, NodeId, Output, Replica, Router, Time,
    cluster::{Fact, Position, Request, Response},
    message::Envelope,
};
use tyr_sim_env::Drift;

use super::{
    disk::Disk,
    manager::{TERMS, register},
};
use crate::random::Random;

/// A node.
#[derive(Debug)]
pub struct Server {
    node: NodeId,
    incarnation: u64,
    memory_since: u64,
    keyspaces: Arc<Keyspaces>,
    clock: Clock,
    running: Option<Running>,
    disk: Disk,
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

#[derive(Debug)]
struct Running {
    router: Router,
    lease: Lease,
    position: Position,
    is_registered: bool,
    asked_at: Time,
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
    pub fn new(node: NodeId, keyspaces: Arc<Keyspaces>, random: &mut Random) -> Self {
        let drift = i64::try_from(random.below(8_000)).expect("small") - 4_000;
        Server {
            node,
            incarnation: 0,
            memory_since: 0,
            keyspaces,
            clock: Clock { offset: random.below(1_000_000_000), drift },
            running: None,
            disk: Disk::default(),
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
        self.running.as_ref().is_some_and(|running| running.lease.may_serve(self.clock.at(now)))
    }

    /// Its router, if its process runs.
    pub fn router(&self) -> Option<&Router> {
        self.running.as_ref().map(|running| &running.router)
    }

    /// Its disk.
    pub fn disk(&mut self) -> &mut Disk {
        &mut self.disk
    }

    /// Starts the process, on what is on the disk.
    pub fn boot(&mut self) {
        self.start += 1;
        self.incarnation += 1;
        self.memory_since = self.incarnation;
        let me = self.me();
        let mut router = Router::new(me, self.keyspaces.clone());
        self.disk.restore(me).into_iter().for_each(|partition| router.restore(partition));
        self.running = Some(Running::new(router, me));
    }

    fn me(&self) -> Replica {
        Replica { node: self.node, incarnation: Incarnation(self.incarnation) }
    }

    /// The process dies.
    pub fn crash(&mut self, random: &mut Random, memory_is_all: bool) {
        self.running = None;
        self.is_writing = false;
        self.disk.crash(random);
        if memory_is_all {
            self.disk.lose_everything();
        }
    }

    /// A message arrives.
    pub fn receive(&mut self, now: u64, envelope: Envelope) {
        let now = self.clock.at(now);
        if let Some(running) = &mut self.running {
            let has_lease = running.lease.may_serve(now);
            running.router.handle_message(now, has_lease, envelope);
        }
    }

    /// Something has become durable.
    pub fn stored(&mut self, now: u64, count: usize) {
        let now = self.clock.at(now);
        let done = self.disk.complete(count);
        let Some(running) = &mut self.running else { return };
        for (partition, index, epoch) in done {
            let has_lease = running.lease.may_serve(now);
            running.router.handle_stored(now, has_lease, partition, index, epoch);
        }
    }

    /// Time passes. Returns what it asks of the cluster manager.
    pub fn tick(&mut self, now: u64) -> Option<Request> {
        let now = self.clock.at(now);
        let (incarnation, memory_since, node) = (self.incarnation, self.memory_since, self.node.0);
        let me = self.me();
        let running = self.running.as_mut()?;
        running.router.handle_tick(now, running.lease.may_serve(now));
        if now.since(running.asked_at) < RENEW_AFTER {
            return None;
        }
        running.asked_at = now;
        Some(match running.is_registered {
            true => Request::Lease(running.lease.request(now), running.position),
            false => Request::Register(me, register(node, incarnation, memory_since)),
        })
    }

    /// The cluster manager answers.
    pub fn managed(&mut self, now: u64, reply: Response) {
        let now = self.clock.at(now);
        let me = self.me();
        let Some(running) = &mut self.running else { return };
        match reply {
            Response::Registered(_) => {
                running.is_registered = true;
                running.asked_at = Time(0);
            }
            Response::Granted(request, difference) => {
                running.lease.granted(request, now);
                let has_lease = running.lease.may_serve(now);
                for fact in difference.facts {
                    if let Fact::Partition(id, configuration, proposal) = fact {
                        let epoch = configuration.epoch;
                        running.router.handle_configuration(now, has_lease, id, configuration);
                        if let Some(proposal) = proposal {
                            running.router.handle_proposal(now, has_lease, id, epoch, &proposal);
                        }
                    }
                }
                running.position = running.position.max(difference.next);
            }
            Response::Evicted(replica) if replica == me => self.begin_incarnation(now),
            Response::Evicted(_) | Response::Ring(_) | Response::Elsewhere(_) => {}
        }
    }

    fn begin_incarnation(&mut self, now: Time) {
        self.incarnation += 1;
        let me = self.me();
        let Some(running) = &mut self.running else { return };
        running.router.begin_incarnation(now, me);
        running.lease = Lease::new(me, TERMS);
        running.is_registered = false;
        running.asked_at = Time(0);
    }

    /// What it wants done, but for the disk.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            let output = self.running.as_mut()?.router.poll_output()?;
            self.sighted.extend(super::sightings::of(&output));
            if let Some(output) = self.disk.take(output) {
                return Some(output);
            }
        }
    }

    /// Who sends what it reports to the cluster manager.
    pub fn replica(&self) -> Replica {
        self.me()
    }
}

impl Running {
    fn new(router: Router, me: Replica) -> Self {
        Running {
            router,
            lease: Lease::new(me, TERMS),
            position: Position::default(),
            is_registered: false,
            asked_at: Time(0),
        }
    }
}
