//! The cluster manager as one actor that never fails, but whose leader changes: the state and leases are the shipped ones.

use tyr_proto::{
    Grant, LeaseRequest, LeaseTerms, Leases, Replica, Time, Upkeep, UpkeepTerms,
    cluster::{Address, Answer, Cluster, ClusterId, Command, Identity, Position, Request, Response, Zone},
    permit_release,
};

/// Leases of simulated nodes.
pub const TERMS: LeaseTerms = LeaseTerms { length: 300_000, drift_max: 10_000 };
/// How long after its lease a node is evicted, in microseconds.
const GRACE: u64 = 50_000;
/// The most things that one grant tells its holder about: so few that what changes comes in pieces.
const FACTS_MAX: usize = 3;
/// Nodes that stay away, and what follows from it: soon, so that it happens while a run lasts.
pub const UPKEEP: UpkeepTerms = UpkeepTerms { absence_max: 2_000_000, moving_max: 4, plan_every: 1_000_000 };

/// The cluster manager.
#[derive(Debug)]
pub struct Manager {
    cluster: Cluster,
    leases: Leases,
    upkeep: Upkeep,
    leaderless_until: Option<Time>,
}

impl Manager {
    /// The manager of a cluster that was founded without nodes.
    pub fn founded() -> Self {
        let mut leases = Leases::new(TERMS, GRACE);
        leases.lead(Time(0));
        let mut cluster = Cluster::new(ClusterId(7));
        cluster.apply(Command::Found(Vec::new())).expect("it is not founded yet");
        let upkeep = Upkeep::new(UPKEEP);
        Manager { cluster, leases, upkeep, leaderless_until: None }
    }

    /// What the cluster is.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Logs a command.
    pub fn apply(&mut self, command: Command) -> Option<Answer> {
        let answer = self.cluster.apply(command).ok();
        self.cluster.check();
        answer
    }

    /// The leader is gone; another one leads later.
    pub fn lose_leader(&mut self, until: Time) {
        self.leases.step_down();
        self.upkeep.step_down();
        self.leaderless_until = Some(until);
    }

    /// Answers a node or client. Nobody here waits for what a command answers, so that is not told.
    pub fn handle(&mut self, now: Time, request: Request) -> Option<Response> {
        if !self.leases.is_leading() {
            return None;
        }
        match request {
            Request::Command(command) => {
                if let Command::Release { partition, .. } = &command {
                    permit_release(&self.cluster, &self.leases, *partition)?;
                }
                self.apply(command);
                None
            }
            Request::Register(holder, command) => match self.apply(command) {
                Some(Answer::Registered(node, _)) => {
                    // It has as long as a lease lasts to ask for its first one.
                    self.leases.grant(LeaseRequest { holder, sent: Time(0) }, now);
                    Some(Response::Registered(node))
                }
                _ => Some(Response::Evicted(holder)),
            },
            Request::Lease(request, position) => {
                if !self.cluster.is_present(request.holder) {
                    return Some(Response::Evicted(request.holder));
                }
                match self.leases.grant(request, now) {
                    Grant::Granted(request) => {
                        self.leases.note_reached(request.holder, position.reached());
                        Some(Response::Granted(request, self.cluster.changes_since(position, FACTS_MAX)))
                    }
                    Grant::Evicted => Some(Response::Evicted(request.holder)),
                    Grant::NotLeading => None,
                }
            }
            Request::Report
            | Request::Hatch
            | Request::Token(_)
            | Request::Seal
            | Request::Uses(_)
            | Request::View(_) => None,
            Request::Ring(version) | Request::Newest(version) => {
                Some(Response::Ring(self.cluster.changes_since(Position::whole(version), usize::MAX)))
            }
        }
    }

    /// Evicts whose lease is over, and does what else is due.
    pub fn tick(&mut self, now: Time) {
        if let Some(until) = self.leaderless_until {
            if now < until {
                return;
            }
            self.leaderless_until = None;
            self.leases.lead(now);
        }
        let present: Vec<Replica> = self.cluster.present().collect();
        for replica in self.leases.overdue(present.into_iter(), now) {
            self.apply(Command::Evict(replica));
        }
        for command in self.upkeep.due(&self.cluster, now) {
            self.apply(command);
        }
    }
}

/// The command by which a simulated node registers.
pub fn register(node: u32, incarnation: u64, memory_since: u64) -> Command {
    Command::Register {
        identity: Identity(u128::from(node)),
        incarnation: tyr_proto::Incarnation(incarnation),
        memory_since: tyr_proto::Incarnation(memory_since),
        zone: Zone::new(&format!("z{node}")).expect("a short name"),
        weight: 1,
        address: Address::new(&format!("host{node}:1")).expect("a short address"),
    }
}
