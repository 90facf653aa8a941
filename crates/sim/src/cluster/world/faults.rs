//! What goes wrong in a world, and how it ends.

use std::collections::BTreeSet;

use tyr_proto::{NodeId, PartitionId, Replica, SessionId};
use tyr_types::{Durability, ErrorKind};

use super::{World, event::Event};
use crate::{
    Blob,
    cluster::{
        layout::{KEYSPACE, name},
        management::Management,
        manager::TERMS,
        profile::Fault,
        voters::Voters,
    },
};

/// Whose last words some do not hear lives for at most this many microseconds more.
const LAST_WORDS_MAX: u64 = 40_000;

impl World {
    /// Ends all faults: everything runs, every link works.
    pub fn heal(&mut self) {
        self.is_faulty = false;
        self.links_cut.clear();
        self.manager.voters().into_iter().for_each(Voters::heal);
        let now = self.now;
        let mut down = Vec::new();
        for (node, server) in &mut self.servers {
            server.paused_until = server.paused_until.min(now);
            server.slow_until = now;
            server.heal_disk();
            if !server.is_up() {
                down.push(*node);
            }
        }
        for node in down {
            self.after(1, Event::Boot(node));
        }
    }

    /// One node dies and stays away, if there is one without which everything can be served. Says whether it has died.
    pub fn lose_for_good(&mut self) -> bool {
        let voting = self.manager.voters().map(|voters| voters.voting());
        // Fewer voters than three may be about to become two, of which none can be missed.
        let is_led_without = |node: &NodeId| match &voting {
            Some(voting) if voting.len() < 3 => false,
            Some(voting) => !voting.contains(node) || self.lead_on_without(voting, *node),
            None => true,
        };
        let can_go =
            |node: &NodeId| self.servers[node].is_up() && is_led_without(node) && !self.is_needed(*node);
        let nodes: Vec<NodeId> = self.servers.keys().copied().filter(can_go).collect();
        let Some(node) = self.random.choose(&nodes).copied() else { return false };
        self.record.say(self.now, || format!("{node} dies and stays away"));
        self.record.count("went on without a node");
        self.stop(node);
        true
    }

    /// A client may die, and another one take its place. Returns the session of the one that lives.
    pub(super) fn may_die(&mut self, session: SessionId) -> SessionId {
        let mortality = self.profile.bounds.mortality;
        if mortality == 0 || !self.is_faulty || !self.random.happens(mortality) {
            return session;
        }
        let Some(mut caller) = self.callers.remove(&session) else { return session };
        self.record.say(self.now, || format!("client {} dies", session.0));
        self.record.count("clients that died");
        caller.die(self.now, &mut self.history);
        let session = caller.session();
        caller.client.connect();
        self.callers.insert(session, caller);
        session
    }

    pub(super) fn fault(&mut self) {
        if !self.is_faulty {
            return;
        }
        let next = 1 + self.random.below(2 * self.profile.faults_every);
        self.after(next, Event::Fault);
        let kinds: Vec<Fault> = Fault::ALL
            .into_iter()
            .zip(self.profile.faults)
            .filter(|(_, on)| *on)
            .map(|(fault, _)| fault)
            .collect();
        let Some(kind) = self.random.choose(&kinds).copied() else { return };
        let nodes: Vec<NodeId> = self.servers.keys().copied().collect();
        let [one, other] = [0, 1].map(|_| *self.random.choose(&nodes).expect("a node at least"));
        let lasts = 1 + self.random.below(1_500_000);
        let now = self.now;
        if self.profile.durability == Durability::Memory && self.takes_too_much(kind, one, other) {
            return;
        }
        self.record.say(self.now, || format!("{kind:?} of {one} ({other}) for {lasts}"));
        match kind {
            Fault::Crash => self.crash(one, lasts),
            Fault::Pause => {
                let server = self.server(one);
                server.paused_until = server.paused_until.max(now + lasts / 2);
                if let Some(voters) = self.manager.voters() {
                    voters.pause(one, now + lasts / 2);
                }
            }
            Fault::Cut => {
                self.links_cut.insert((one, other), now + lasts);
            }
            Fault::Isolate => {
                for node in nodes.into_iter().chain([NodeId(0)]) {
                    self.links_cut.insert((one, node), now + lasts);
                    self.links_cut.insert((node, one), now + lasts);
                }
            }
            Fault::SlowDisk => self.server(one).slow_until = now + lasts,
            Fault::ManagerChange => self.manager.lose_leader(now + lasts / 4),
            Fault::Drain => self.manager.drain(now, one),
            Fault::Outage => self.black_out(&nodes),
            Fault::LastWords => self.silence_and_crash(lasts),
            Fault::Estrangement => self.estrange(lasts),
        }
        self.record.count("faults");
    }

    /// The power fails everywhere, and comes back for one node after the other.
    fn black_out(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            let lasts = 1 + self.random.below(1_000_000);
            self.crash(*node, lasts);
        }
    }

    /// The primary of a blob's head is not heard by its backups, and crashes.
    fn silence_and_crash(&mut self, lasts: u64) {
        let holders = self.holders_of_some_head().1;
        let Some((primary, backups)) = holders.split_first() else { return };
        for backup in backups {
            self.links_cut.insert((*primary, *backup), self.now + lasts);
        }
        let soon = 1 + self.random.below(LAST_WORDS_MAX);
        self.after(soon, Event::Crash(*primary, lasts));
    }

    /// The primary of a blob's head is replaced and does not hear of it, nor does that of an earlier head for a while.
    fn estrange(&mut self, lasts: u64) {
        let mut heads = [(); 2].map(|()| self.holders_of_some_head());
        heads.sort();
        let [Some(earlier), Some(later)] = heads.map(|(_, holders)| holders.first().copied()) else { return };
        if earlier == later {
            return;
        }
        let manager = NodeId(0);
        let (lease, now) = (TERMS.length, self.now);
        for link in [(later, manager), (manager, later)] {
            self.links_cut.insert(link, now + 2 * lease + lasts);
        }
        let begins = lease * 2 / 3 + self.random.below(lease / 2);
        self.after(begins, Event::Cut(manager, earlier, now + begins + lease));
    }

    /// The partition of the head of some blob, and who holds it, the primary first.
    fn holders_of_some_head(&mut self) -> (PartitionId, Vec<NodeId>) {
        let blobs = u64::from(self.profile.blobs.iter().sum::<u32>());
        let blob = u32::try_from(self.random.below(blobs)).expect("a count of blobs");
        let id = self.keyspaces[&KEYSPACE].partition_of(&name(Blob(blob)), 0);
        let known = self.manager.cluster().partition(id);
        let replicas = known.map(|known| known.configuration.replicas.as_slice()).unwrap_or_default();
        (id, replicas.iter().map(|replica| replica.node).collect())
    }

    /// A node starts. If its disk fails meanwhile, it starts again later.
    pub(super) fn boot(&mut self, node: NodeId) {
        let booted = self.server(node).boot();
        if let Err(error) = booted {
            self.record.count("a disk failed");
            self.record.say(self.now, || format!("{node} cannot be started: {error}"));
            if error.kind() == ErrorKind::Corrupt {
                self.broken.get_or_insert(format!("lost data: {node} cannot be started: {error}"));
            }
            let lasts = 1 + self.random.below(500_000);
            self.after(lasts, Event::Boot(node));
            return;
        }
        let start = self.servers[&node].start;
        let now = self.now;
        if let Some(voters) = self.manager.voters() {
            voters.boot(now, node, start);
        }
        self.after(0, Event::Tick(node, start));
        self.show_reach(node, true);
        if self.keyspaces_version > 0 {
            self.tell_keyspaces(node);
        }
        self.flush(node);
    }

    /// A node crashes and starts again later.
    pub(super) fn crash(&mut self, node: NodeId, lasts: u64) {
        if self.servers[&node].is_up() {
            self.stop(node);
            self.after(lasts, Event::Boot(node));
        }
    }

    /// A node crashes.
    fn stop(&mut self, node: NodeId) {
        let memory_is_all = self.profile.durability == Durability::Memory;
        self.record.count("crashes");
        let holders: Vec<String> = self
            .manager
            .cluster()
            .partitions()
            .map(|(id, partition)| {
                let complete = partition.last_complete().iter();
                let complete = complete.map(|replica| format!("{}/{}", replica.node, replica.incarnation.0));
                format!("{id} {}", complete.collect::<Vec<_>>().join(" "))
            })
            .collect();
        self.record.say(self.now, || format!("{node} crashes; complete: {}", holders.join(", ")));
        self.show_reach(node, false);
        let mut random = self.random.fork();
        self.server(node).crash(&mut random, memory_is_all);
        if let Some(voters) = self.manager.voters() {
            voters.crash(node);
        }
    }

    /// Whether a fault would take out the last one who holds something in memory. A cut between a node and who leads the voters does, too.
    fn takes_too_much(&mut self, fault: Fault, one: NodeId, other: NodeId) -> bool {
        let now = self.now;
        // What was applied this very moment counts.
        let observed = self.manager.voters().map(|voters| voters.observe(now));
        let taken = match fault {
            Fault::Crash | Fault::Pause | Fault::Isolate => vec![one],
            // What follows later cannot be judged now: these are for disks.
            Fault::Outage | Fault::LastWords | Fault::Estrangement => return true,
            Fault::Cut if observed.is_some() => vec![one, other],
            _ => Vec::new(),
        };
        if let Some(Err(what)) = observed {
            self.broken.get_or_insert(what);
        }
        // One that dies may have been heard of last.
        let leaves_dead = fault == Fault::Crash || !self.is_all_alive();
        taken.into_iter().any(|node| self.is_needed(node))
            || (leaves_dead && self.silences_all(fault, one, other))
    }

    /// Whether a fault may leave who leads the voters without a majority: then nobody is heard of, and all are evicted when it is over.
    fn silences_all(&self, fault: Fault, one: NodeId, other: NodeId) -> bool {
        let Management::Voters(voters) = &self.manager else { return false };
        let (voting, leader) = (voters.voting(), voters.leader());
        let votes = |node| voting.contains(&node);
        let lead_on = |node: &NodeId| self.lead_on_without(&voting, *node);
        match fault {
            Fault::Drain | Fault::SlowDisk => false,
            Fault::Outage | Fault::LastWords | Fault::Estrangement => true,
            _ if voting.is_empty() => true,
            Fault::Cut => votes(one) && votes(other) && ![one, other].iter().all(lead_on),
            // One that votes alone begins anew when it comes back, and hears of everybody first.
            Fault::Crash => votes(one) && voting.len() > 1 && !lead_on(&one),
            Fault::Pause | Fault::Isolate => votes(one) && !lead_on(&one),
            Fault::ManagerChange => voting.len() > 1 && !leader.iter().all(lead_on),
        }
    }

    /// Whether the voters but one are a majority that runs and whose members hear one another.
    fn lead_on_without(&self, voting: &BTreeSet<NodeId>, one: NodeId) -> bool {
        let others: Vec<NodeId> = voting.iter().copied().filter(|node| *node != one).collect();
        let runs = |node: &NodeId| self.servers[node].is_up() && self.servers[node].paused_until <= self.now;
        let hears_all = |node: &NodeId| {
            others.iter().all(|other| !self.is_cut(*node, *other) && !self.is_cut(*other, *node))
        };
        2 * others.iter().filter(|node| runs(node) && hears_all(node)).count() > voting.len()
    }

    /// Whether everybody runs and is heard of who holds anything: in whatever order all are evicted, the last one brings it back.
    fn is_all_alive(&self) -> bool {
        self.manager.cluster().partitions().all(|(_, partition)| {
            partition.proposal.is_none()
                && partition.last_complete().iter().all(|replica| self.lives(*replica))
        })
    }

    /// Whether the cluster manager hears of a node, whoever leads.
    fn is_heard(&self, node: NodeId) -> bool {
        let hears = |other| !self.is_cut(node, other) && !self.is_cut(other, node);
        match &self.manager {
            Management::Actor(_) => hears(NodeId(0)),
            Management::Voters(voters) => {
                let voting = voters.voting();
                !voting.is_empty() && voting.into_iter().all(hears)
            }
        }
    }

    /// Whether a node holds something in memory that no other complete replica holds which runs and is heard of: a cluster in memory
    /// survives the loss of all replicas of a partition but one, not of all.
    fn is_needed(&self, node: NodeId) -> bool {
        self.manager.cluster().partitions().any(|(_, partition)| {
            let holders: BTreeSet<NodeId> =
                partition.last_complete().iter().map(|replica| replica.node).collect();
            // Who is about to lose its role does not count.
            let others = partition.last_complete().iter().filter(|replica| replica.node != node);
            let stays = partition.proposal.is_none() && others.copied().any(|replica| self.lives(replica));
            holders.contains(&node) && !stays
        })
    }

    /// Whether an incarnation runs and is heard of.
    fn lives(&self, replica: Replica) -> bool {
        let server = &self.servers[&replica.node];
        // One whose lease runs out soon was not heard of lately.
        let fresh = if matches!(self.manager, Management::Voters(_)) { TERMS.length / 2 } else { 0 };
        let runs = server.has_lease(self.now + fresh) && server.paused_until <= self.now;
        runs && self.is_heard(replica.node) && server.replica() == replica
    }
}
