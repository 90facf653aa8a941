//! The cluster manager as one actor that never fails, but whose leader changes: the state and leases are the shipped ones.

use std::collections::BTreeMap;

use tyr_proto::{
    ClassId, Grant, LeaseRequest, LeaseTerms, Leases, NodeId, PartitionId, Replica, RingVersion, Time,
    cluster::{
        Answer, Cluster, ClusterId, Command, Difference, Identity, MemberState, Position, Presence, Zone,
    },
};

/// Leases of simulated nodes.
pub const TERMS: LeaseTerms = LeaseTerms { length: 300_000, drift_max: 10_000 };
/// How long after its lease a node is evicted, in microseconds.
const GRACE: u64 = 50_000;
/// How long an evicted node stays away before its partitions are placed elsewhere, in microseconds.
const GIVE_UP_AFTER: u64 = 2_000_000;

/// The cluster manager.
#[derive(Debug)]
pub struct Manager {
    cluster: Cluster,
    leases: Leases,
    away_since: BTreeMap<NodeId, Time>,
    leaderless_until: Option<Time>,
    /// Changes that wait for those who lose a role, with when this leader first saw them.
    proposed: BTreeMap<PartitionId, (RingVersion, Time)>,
}

/// What nodes ask of the cluster manager.
#[derive(Clone, Debug)]
pub enum Request {
    /// A command.
    Command(Command),
    /// A node starts or goes on as a new incarnation.
    Register(Replica, Command),
    /// A lease, and what changed since a position.
    Lease(LeaseRequest, Position),
    /// What changed since a version, for a client.
    Ring(RingVersion),
}

/// What it answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A node's number.
    Registered(NodeId),
    /// A lease with what changed.
    Granted(LeaseRequest, Difference),
    /// This incarnation was evicted.
    Evicted(Replica),
    /// What changed.
    Ring(Difference),
}

impl Manager {
    /// The manager of a cluster that was founded without nodes.
    pub fn founded() -> Self {
        let mut leases = Leases::new(TERMS, GRACE);
        leases.lead(Time(0));
        let mut cluster = Cluster::new(ClusterId(7));
        cluster.apply(Command::Found(Vec::new())).expect("it is not founded yet");
        Manager {
            cluster,
            leases,
            away_since: BTreeMap::new(),
            leaderless_until: None,
            proposed: BTreeMap::new(),
        }
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
        self.proposed.clear();
        self.leaderless_until = Some(until);
    }

    /// Answers a node or client.
    pub fn handle(&mut self, now: Time, request: Request) -> Option<Reply> {
        if !self.leases.is_leading() {
            return None;
        }
        match request {
            Request::Command(command) => {
                if let Command::Release { partition, .. } = &command
                    && !self.heirs_are_heard(*partition)
                {
                    return None;
                }
                self.apply(command);
                None
            }
            Request::Register(holder, command) => match self.apply(command) {
                Some(Answer::Registered(node, _)) => {
                    // It has as long as a lease lasts to ask for its first one.
                    self.leases.grant(LeaseRequest { holder, sent: Time(0) }, now);
                    Some(Reply::Registered(node))
                }
                _ => Some(Reply::Evicted(holder)),
            },
            Request::Lease(request, position) => {
                if !self.cluster.is_present(request.holder) {
                    return Some(Reply::Evicted(request.holder));
                }
                match self.leases.grant(request, now) {
                    Grant::Granted(request) => {
                        Some(Reply::Granted(request, self.cluster.changes_since(position, 64)))
                    }
                    Grant::Evicted => Some(Reply::Evicted(request.holder)),
                    Grant::NotLeading => None,
                }
            }
            Request::Ring(version) => {
                Some(Reply::Ring(self.cluster.changes_since(Position::whole(version), usize::MAX)))
            }
        }
    }

    /// Whether everybody to whom a replica gives up its role has been heard of since that was proposed.
    fn heirs_are_heard(&self, id: PartitionId) -> bool {
        let proposal = self.cluster.partition(id).and_then(|partition| partition.proposal.as_ref());
        match (proposal, self.proposed.get(&id)) {
            (Some(proposal), Some((since, at))) if proposal.since == *since => {
                proposal.replicas.iter().all(|replica| self.leases.is_heard_since(*replica, *at))
            }
            (Some(_), _) => false,
            (None, _) => true,
        }
    }

    /// Notes when this leader first saw each change that waits for those who lose a role.
    fn note_proposals(&mut self, now: Time) {
        for (id, partition) in self.cluster.partitions() {
            match &partition.proposal {
                Some(proposal) => {
                    let seen = self.proposed.entry(id).or_insert((proposal.since, now));
                    if seen.0 != proposal.since {
                        *seen = (proposal.since, now);
                    }
                }
                None => {
                    self.proposed.remove(&id);
                }
            }
        }
    }

    /// Evicts whose lease is over, and places elsewhere what stays away.
    pub fn tick(&mut self, now: Time) {
        if let Some(until) = self.leaderless_until {
            if now < until {
                return;
            }
            self.leaderless_until = None;
            self.leases.lead(now);
        }
        self.note_proposals(now);
        let present: Vec<Replica> = self.cluster.present().collect();
        for replica in self.leases.overdue(present.into_iter(), now) {
            self.apply(Command::Evict(replica));
        }
        let evicted = |presence| presence == Presence::Evicted;
        let away: Vec<NodeId> = self
            .cluster
            .members()
            .filter(|(_, member)| evicted(member.presence))
            .map(|(node, _)| node)
            .collect();
        self.away_since.retain(|node, _| away.contains(node));
        for node in away {
            let since = *self.away_since.entry(node).or_insert(now);
            if now.since(since) >= GIVE_UP_AFTER {
                self.apply(Command::GiveUp(node));
                self.plan();
            }
        }
    }

    /// Plans anew where the partitions should be.
    pub fn plan(&mut self) {
        if let Ok(Some(plan)) = self.cluster.plan(ClassId(0), &[]) {
            self.apply(plan);
        }
    }

    /// Empties a node, or plans with it again.
    pub fn drain(&mut self, node: NodeId) {
        let active = self.cluster.members().filter(|(_, member)| member.state == MemberState::Active).count();
        if active > 1 {
            self.apply(Command::Drain(node));
            self.plan();
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
    }
}
