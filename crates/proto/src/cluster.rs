//! The cluster as the cluster manager's log builds it: members, placement classes, keyspaces, and who holds each partition.
//!
//! [`Cluster::apply`] is a pure function of the state and the command, so every voter that applies the same log has the same cluster.
//! Invariants, besides those of a [`Partition`] ([`Cluster::check`] asserts what one state can show):
//!
//! - A command that is refused changes nothing. One that changes anything that nodes or clients see raises the ring version, once.
//! - Numbers of nodes, classes, keyspaces, accounts, and seals are never given twice.
//! - Nothing here knows the time. That a lease has run out is a fact that the holder of the leases proposes ([`crate::Leases`]).
//!
//! It does not decide how and when a ring is planned, when a node is given up, or when an incarnation is evicted.

mod access;
mod check;
mod class;
mod command;
mod departure;
mod difference;
mod layouts;
mod loss;
mod member;
mod partition;
mod plan;
mod report;
mod request;
mod snapshots;
#[cfg(test)]
mod tests;

use alloc::{collections::BTreeMap, vec::Vec};

use tyr_types::{Durability, KeyspaceId, KeyspaceName, KeyspaceSettings};

pub use access::{ACCOUNTS_MAX, Seal, SealId};
pub use class::{ClassSettings, Keyspace, KeyspaceState, PARTITIONS_MAX, REPLICAS_MAX};
pub use command::{Answer, Command, Refusal};
pub use difference::{Difference, Fact, Position, Subject};
pub use member::{ADDRESS_SIZE_MAX, Address, Identity, Member, MemberState, Presence, ZONE_SIZE_MAX, Zone};
pub use partition::{Partition, Proposal};
pub use plan::PlanStep;
pub use report::{PartitionReport, PartitionRole, Report, ShardReport};
pub use request::{Request, Response, TokenOrder, ViewOf};

use crate::{ClassId, Epoch, NamedSnapshot, NodeId, PartitionId, Replica, RingVersion, Snapshots};
use access::Access;
use difference::Stamps;
use partition::Standing;

/// Identifies a cluster: 128 random bits drawn when it was founded. Messages of another cluster are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u128);

/// What the cluster manager knows and decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    id: ClusterId,
    version: RingVersion,
    /// The number of every node that has one, whether it has registered or not.
    numbers: BTreeMap<Identity, NodeId>,
    members: BTreeMap<NodeId, Member>,
    keyspaces: BTreeMap<KeyspaceId, Keyspace>,
    classes: BTreeMap<ClassId, Class>,
    stamps: Stamps,
    /// Of members that are replaced: by whom. Plans give these what the others hold.
    successors: BTreeMap<NodeId, NodeId>,
    access: Access,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    settings: ClassSettings,
    partitions: Vec<Partition>,
}

/// What applying a command answers. A refusal is an expected value, not an error: the cluster is as before.
pub type Reply = Result<Answer, Refusal>;

impl Cluster {
    /// A cluster that is not founded: it refuses every command but [`Command::Found`].
    pub fn new(id: ClusterId) -> Self {
        Cluster {
            id,
            version: RingVersion(0),
            numbers: BTreeMap::new(),
            members: BTreeMap::new(),
            keyspaces: BTreeMap::new(),
            classes: BTreeMap::new(),
            stamps: Stamps::default(),
            successors: BTreeMap::new(),
            access: Access::default(),
        }
    }

    /// Which cluster it is.
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// The newest ring version.
    pub fn version(&self) -> RingVersion {
        self.version
    }

    /// All members, those that left included.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().map(|(node, member)| (*node, member))
    }

    /// The incarnations that may hold roles: whose leases are to be watched.
    pub fn present(&self) -> impl Iterator<Item = Replica> {
        self.members.iter().filter_map(|(node, member)| member.current(*node))
    }

    /// Whether this very incarnation may hold roles, and so a lease.
    pub fn is_present(&self, replica: Replica) -> bool {
        self.member(replica.node).is_some_and(|member| member.current(replica.node) == Some(replica))
    }

    /// A member.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// All keyspaces, dropped ones included.
    pub fn keyspaces(&self) -> impl Iterator<Item = (KeyspaceId, &Keyspace)> {
        self.keyspaces.iter().map(|(id, keyspace)| (*id, keyspace))
    }

    /// A keyspace, possibly dropped.
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&Keyspace> {
        self.keyspaces.get(&id)
    }

    /// All classes with their settings.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &ClassSettings)> {
        self.classes.iter().map(|(id, class)| (*id, &class.settings))
    }

    /// The settings of a class.
    pub fn class(&self, id: ClassId) -> Option<&ClassSettings> {
        self.classes.get(&id).map(|class| &class.settings)
    }

    /// All partitions, by class and index.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        self.classes.iter().flat_map(|(class, known)| {
            (0..)
                .zip(&known.partitions)
                .map(|(index, partition)| (PartitionId { class: *class, index }, partition))
        })
    }

    /// A partition.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.classes.get(&id.class)?.partitions.get(usize::try_from(id.index).ok()?)
    }

    /// Applies the next command of the log.
    pub fn apply(&mut self, command: Command) -> Reply {
        if self.version == RingVersion(0) && !matches!(command, Command::Found(_)) {
            return Err(Refusal::NotFounded);
        }
        match command {
            Command::Found(founders) => self.found(&founders),
            Command::Register { identity, incarnation, memory_since, zone, weight, address } => self
                .register(Member {
                    identity,
                    incarnation,
                    memory_since: memory_since.min(incarnation),
                    zone,
                    weight,
                    address,
                    state: MemberState::Active,
                    presence: Presence::Present,
                }),
            Command::Evict(replica) => self.evict(replica),
            Command::GiveUp(node) => self.give_up(node),
            Command::RemoveReplica { partition, epoch, by, replica } => {
                self.remove_replica(partition, epoch, by, replica)
            }
            Command::LearnerComplete { partition, epoch, by, learner } => {
                self.learner_complete(partition, epoch, by, learner)
            }
            Command::Release { partition, epoch, replica, handed_to } => {
                self.release(partition, epoch, replica, handed_to)
            }
            Command::Retarget { class, targets } => self.retarget(class, targets),
            Command::Drain(node) => self.drain(node),
            Command::Leave(node) => self.leave(node),
            Command::Restore(node) => self.restore(node),
            Command::Replace { old, new } => self.replace(old, new),
            Command::Abandon(node) => self.abandon(node),
            Command::Lose { replica, shard, shards } => self.lose(replica, shard, shards),
            Command::CreateClass(id, settings) => self.create_class(id, settings),
            Command::CreateKeyspace { name, class, seed, settings } => {
                let (state, snapshots) = (KeyspaceState::Exists, Snapshots::default());
                self.create_keyspace(Keyspace { name, class, seed, settings, state, snapshots })
            }
            Command::AlterKeyspace { id, settings } => self.alter_keyspace(id, settings),
            Command::SetQuota { id, quota } => self.set_quota(id, quota),
            Command::DropKeyspace(id) => self.drop_keyspace(id),
            Command::BeginSnapshot { keyspace, name, taken, seed } => {
                self.begin_snapshot(keyspace, NamedSnapshot { name, taken, seed, point: None })
            }
            Command::CompleteSnapshot { keyspace, snapshot, point } => {
                self.complete_snapshot(keyspace, snapshot, point)
            }
            Command::DropSnapshot { keyspace, snapshot } => self.drop_snapshot(keyspace, snapshot),
            Command::Advance(version) => self.advance_to(version),
            Command::CreateAccount { name, kind, seed } => self.create_account(name, kind, seed),
            Command::RemoveAccount(id) => self.remove_account(id),
            Command::Enroll { user, group } => self.enroll(user, group),
            Command::Dismiss { user, group } => self.dismiss(user, group),
            Command::Grant { account, scope, more, less } => self.grant(account, scope, more, less),
            Command::RevokeTokens { user, before } => self.revoke_tokens(user, before),
            Command::AddSeal(id, seal) => self.add_seal(id, seal),
            Command::RemoveSeal(id) => self.remove_seal(id),
        }
    }

    /// Runs a change under the next ring version, which holds if anything was stamped with it.
    fn change(&mut self, change: impl FnOnce(&mut Self, RingVersion)) -> Answer {
        let version = RingVersion(self.version.0 + 1);
        change(self, version);
        if self.stamps.newest() == Some(version) {
            self.version = version;
        }
        Answer::Done(self.version)
    }
}

// Members.
impl Cluster {
    fn found(&mut self, founders: &[Identity]) -> Reply {
        let are_numbered = |numbers: &BTreeMap<Identity, NodeId>| {
            (1..).zip(founders).all(|(n, f)| numbers.get(f) == Some(&NodeId(n)))
        };
        if self.version > RingVersion(0) {
            return if are_numbered(&self.numbers) {
                Ok(Answer::Done(self.version))
            } else {
                Err(Refusal::Taken)
            };
        }
        let numbers: BTreeMap<Identity, NodeId> = founders.iter().copied().zip((1..).map(NodeId)).collect();
        if founders.len() > MEMBERS_MAX || !are_numbered(&numbers) {
            return Err(Refusal::Invalid);
        }
        self.numbers = numbers;
        self.version = RingVersion(1);
        Ok(Answer::Done(self.version))
    }

    fn next_number(&self) -> NodeId {
        NodeId(self.numbers.values().max().map_or(1, |last| last.0 + 1))
    }

    /// Whether a node registers that can never be a member again: it has left.
    pub fn refuses_for_good(&self, command: &Command) -> bool {
        let Command::Register { identity, .. } = command else { return false };
        let member = self.numbers.get(identity).and_then(|node| self.members.get(node));
        member.is_some_and(|member| member.state == MemberState::Left)
    }

    /// Whether a process registers as a start of a node that another process, at another address, has registered as: one of them runs from
    /// a copy of the other one's directory. A process has one address.
    pub fn contradicts(&self, command: &Command) -> bool {
        let Command::Register { identity, incarnation, address, .. } = command else { return false };
        let member = self.numbers.get(identity).and_then(|node| self.members.get(node));
        member.is_some_and(|member| member.incarnation == *incarnation && member.address != *address)
    }

    fn register(&mut self, mut member: Member) -> Reply {
        let node = match self.numbers.get(&member.identity) {
            Some(node) => *node,
            None if self.numbers.len() >= MEMBERS_MAX => return Err(Refusal::Taken),
            None => self.next_number(),
        };
        match self.members.get(&node) {
            Some(known) if known.state == MemberState::Left => return Err(Refusal::NotFound),
            Some(known) if known.incarnation > member.incarnation => return Err(Refusal::Stale),
            Some(known) if known.incarnation == member.incarnation => {
                let is_present = known.presence == Presence::Present;
                return if is_present {
                    Ok(Answer::Registered(node, self.version))
                } else {
                    Err(Refusal::Stale)
                };
            }
            Some(known) => member.state = known.state,
            None => {}
        }
        self.change(|cluster, version| {
            cluster.numbers.insert(member.identity, node);
            cluster.members.insert(node, member);
            cluster.member_changed(node, version);
        });
        Ok(Answer::Registered(node, self.version))
    }

    fn evict(&mut self, replica: Replica) -> Reply {
        if !self.is_present(replica) {
            return Err(Refusal::Stale);
        }
        self.set_presence(replica.node, Presence::Evicted)
    }

    fn give_up(&mut self, node: NodeId) -> Reply {
        match self.members.get(&node).map(|member| member.presence) {
            None => Err(Refusal::NotFound),
            Some(Presence::Present) => Err(Refusal::Busy),
            Some(Presence::Evicted) => self.set_presence(node, Presence::GivenUp),
            Some(Presence::GivenUp) => Ok(Answer::Done(self.version)),
        }
    }

    fn set_presence(&mut self, node: NodeId, presence: Presence) -> Reply {
        Ok(self.change(|cluster, version| {
            if let Some(member) = cluster.members.get_mut(&node) {
                member.presence = presence;
            }
            cluster.member_changed(node, version);
        }))
    }

    fn set_state(&mut self, node: NodeId, state: MemberState) -> Reply {
        Ok(self.change(|cluster, version| {
            if let Some(member) = cluster.members.get_mut(&node) {
                member.state = state;
            }
            cluster.member_changed(node, version);
        }))
    }

    fn member_changed(&mut self, node: NodeId, version: RingVersion) {
        self.stamps.stamp(Subject::Member(node), version);
        let named = self.partitions().filter(|(_, partition)| partition.names(node));
        let named: Vec<PartitionId> = named.map(|(id, _)| id).collect();
        named.into_iter().for_each(|id| self.advance(id, version));
    }
}

// Partitions.
impl Cluster {
    fn remove_replica(&mut self, id: PartitionId, epoch: Epoch, by: Replica, replica: Replica) -> Reply {
        let is_complete = self.removable(id, epoch, by, replica)?;
        Ok(self.change_partition(id, |partition| {
            partition.target.retain(|node| *node != replica.node);
            if is_complete && !partition.slow.contains(&replica) {
                partition.slow.push(replica);
            }
        }))
    }

    /// Whether the one to be removed is a backup, and not a learner, if it may be removed.
    fn removable(
        &self,
        id: PartitionId,
        epoch: Epoch,
        by: Replica,
        replica: Replica,
    ) -> Result<bool, Refusal> {
        let partition = self.led_by(id, epoch, by)?;
        let configuration = &partition.configuration;
        let is_complete = configuration.replicas.contains(&replica);
        if !is_complete && !configuration.learners.contains(&replica) {
            return Err(Refusal::NotFound);
        }
        let fast = |other: &&Replica| **other != replica && !partition.slow.contains(other);
        let remaining = configuration.replicas.iter().filter(fast).count();
        let min_replicas = self.class(id.class).map_or(1, |class| class.min_replicas);
        if is_complete && remaining < usize::from(min_replicas).max(1) {
            return Err(Refusal::TooFew);
        }
        Ok(is_complete)
    }

    /// Whether what a node reports would change anything now. If not it need not be logged: nodes repeat such reports until
    /// they hear of another epoch or version, and a log that is full of them delays just that. Of all other commands this is not asked.
    pub fn is_news(&self, command: &Command) -> bool {
        match *command {
            Command::Advance(version) => Some(version.0) == self.version.0.checked_add(1),
            Command::RemoveReplica { partition, epoch, by, replica } => {
                let is_known = |known: &Partition| known.slow.contains(&replica);
                self.removable(partition, epoch, by, replica).is_ok()
                    && !self.partition(partition).is_some_and(is_known)
            }
            Command::LearnerComplete { partition, epoch, by, learner } => {
                let known = self.led_by(partition, epoch, by);
                known.is_ok_and(|known| known.configuration.learners.contains(&learner))
            }
            Command::Release { partition, epoch, replica, .. } => {
                let known = self.partition(partition).filter(|known| known.configuration.epoch == epoch);
                self.is_present(replica)
                    && known.is_some_and(|known| {
                        known.configuration.replicas.contains(&replica)
                            && !known.released.contains_key(&replica)
                    })
            }
            Command::Lose { replica, shard, shards } => {
                self.is_present(replica) && self.losing(replica, shard, shards).next().is_some()
            }
            _ => true,
        }
    }

    fn learner_complete(&mut self, id: PartitionId, epoch: Epoch, by: Replica, learner: Replica) -> Reply {
        let partition = self.led_by(id, epoch, by)?;
        if !partition.configuration.learners.contains(&learner) {
            return Err(Refusal::NotFound);
        }
        Ok(self.change_partition(id, |partition| partition.joined.push(learner)))
    }

    fn release(
        &mut self,
        id: PartitionId,
        epoch: Epoch,
        replica: Replica,
        handed_to: Option<Replica>,
    ) -> Reply {
        let partition = self.partition(id).ok_or(Refusal::NotFound)?;
        let configuration = &partition.configuration;
        if configuration.epoch != epoch || !self.is_present(replica) {
            return Err(Refusal::Stale);
        }
        let is_held = |replica: &Replica| configuration.replicas.contains(replica);
        let is_primary = configuration.primary() == Some(replica);
        let is_valid = handed_to.is_none_or(|to| is_primary && to != replica && is_held(&to));
        if !is_held(&replica) || !is_valid {
            return Err(Refusal::NotEntitled);
        }
        if partition.released.contains_key(&replica) {
            return Ok(Answer::Done(self.version));
        }
        Ok(self.change_partition(id, |partition| {
            partition.released.insert(replica, handed_to);
        }))
    }

    /// The partition, if the replica leads it in this epoch and has not given that up.
    fn led_by(&self, id: PartitionId, epoch: Epoch, replica: Replica) -> Result<&Partition, Refusal> {
        let partition = self.partition(id).ok_or(Refusal::NotFound)?;
        if partition.configuration.epoch != epoch || !self.is_present(replica) {
            return Err(Refusal::Stale);
        }
        let leads = partition.configuration.primary() == Some(replica);
        if leads && !partition.released.contains_key(&replica) {
            Ok(partition)
        } else {
            Err(Refusal::NotEntitled)
        }
    }

    fn change_partition(&mut self, id: PartitionId, change: impl FnOnce(&mut Partition)) -> Answer {
        self.change(|cluster, version| {
            cluster.partition_mut(id).map(change);
            cluster.advance(id, version);
        })
    }

    fn partition_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        self.classes.get_mut(&id.class)?.partitions.get_mut(usize::try_from(id.index).ok()?)
    }

    fn advance(&mut self, id: PartitionId, version: RingVersion) {
        let Some(class) = self.classes.get_mut(&id.class) else { return };
        let standing = ClassStanding { members: &self.members, settings: &class.settings };
        let partition = usize::try_from(id.index).ok().and_then(|index| class.partitions.get_mut(index));
        if partition.is_some_and(|partition| partition.advance(&standing, version)) {
            self.stamps.stamp(Subject::Partition(id), version);
        }
    }
}

// Classes, keyspaces, and the plan.
impl Cluster {
    /// By one at most: who asks for more than the next version is ahead of this cluster, which cannot be.
    fn advance_to(&mut self, version: RingVersion) -> Reply {
        if version.0 > self.version.0 + 1 {
            return Err(Refusal::Invalid);
        }
        if version <= self.version {
            return Ok(Answer::Done(self.version));
        }
        Ok(self.change(|cluster, version| cluster.stamps.stamp(Subject::Version, version)))
    }

    fn create_class(&mut self, id: ClassId, settings: ClassSettings) -> Reply {
        settings.check().map_err(|_| Refusal::Invalid)?;
        match self.class(id) {
            Some(known) if *known == settings => return Ok(Answer::Done(self.version)),
            Some(_) => return Err(Refusal::Taken),
            None if self.classes.len() >= CLASSES_MAX => return Err(Refusal::Taken),
            None => {}
        }
        let partitions = (0..settings.partitions).map(|_| Partition::new()).collect();
        Ok(self.change(|cluster, version| {
            cluster.classes.insert(id, Class { settings, partitions });
            cluster.stamps.stamp(Subject::Class(id), version);
        }))
    }

    fn retarget(&mut self, id: ClassId, targets: Vec<Vec<NodeId>>) -> Reply {
        if !self.are_targets(id, &targets) {
            return Err(Refusal::Invalid);
        }
        Ok(self.change(|cluster, version| {
            for (index, mut target) in (0..).zip(targets) {
                let id = PartitionId { class: id, index };
                let Some(partition) = cluster.partition_mut(id) else { continue };
                // Who is being removed for being slow comes back by a later plan, not by this one.
                target.retain(|node| partition.slow.iter().all(|slow| slow.node != *node));
                if !target.is_empty() {
                    partition.target = target;
                }
                cluster.advance(id, version);
            }
        }))
    }

    fn create_keyspace(&mut self, keyspace: Keyspace) -> Reply {
        let class = self.classes.get(&keyspace.class).ok_or(Refusal::NotFound)?;
        if keyspace.settings.check().is_err() || keyspace.settings.durability != class.settings.durability {
            return Err(Refusal::Invalid);
        }
        if let Some((id, same)) = self.existing_keyspace(&keyspace.name) {
            let snapshots = same.snapshots.clone();
            let repeated = *same == Keyspace { snapshots, ..keyspace };
            return if repeated {
                Ok(Answer::KeyspaceCreated(id, self.version))
            } else {
                Err(Refusal::Taken)
            };
        }
        let id = KeyspaceId(self.keyspaces.keys().next_back().map_or(1, |last| last.0 + 1));
        if self.keyspaces.len() >= KEYSPACES_MAX {
            return Err(Refusal::Taken);
        }
        self.change(|cluster, version| {
            cluster.keyspaces.insert(id, keyspace);
            cluster.stamps.stamp(Subject::Keyspace(id), version);
        });
        Ok(Answer::KeyspaceCreated(id, self.version))
    }

    fn existing_keyspace(&self, name: &KeyspaceName) -> Option<(KeyspaceId, &Keyspace)> {
        self.keyspaces().find(|(_, known)| known.state == KeyspaceState::Exists && known.name == *name)
    }

    fn alter_keyspace(&mut self, id: KeyspaceId, settings: KeyspaceSettings) -> Reply {
        let keyspace = self.existing(id)?;
        let before = &keyspace.settings;
        let fixed = |settings: &KeyspaceSettings| (settings.chunk_size, settings.durability, settings.quota);
        let is_fixed = fixed(&settings) == fixed(before);
        let loses_snapshots = !settings.multi_version && !keyspace.snapshots.is_empty();
        if !is_fixed || loses_snapshots || settings.check().is_err() {
            return Err(Refusal::Invalid);
        }
        if settings == *before {
            return Ok(Answer::Done(self.version));
        }
        Ok(self.change_keyspace(id, |keyspace| keyspace.settings = settings))
    }

    fn set_quota(&mut self, id: KeyspaceId, quota: Option<u64>) -> Reply {
        let before = &self.existing(id)?.settings;
        let settings = KeyspaceSettings { quota, ..before.clone() };
        if settings.check().is_err() {
            return Err(Refusal::Invalid);
        }
        if settings == *before {
            return Ok(Answer::Done(self.version));
        }
        Ok(self.change_keyspace(id, |keyspace| keyspace.settings = settings))
    }

    fn drop_keyspace(&mut self, id: KeyspaceId) -> Reply {
        match self.keyspaces.get(&id).map(|keyspace| keyspace.state) {
            None => Err(Refusal::NotFound),
            Some(KeyspaceState::Dropped) => Ok(Answer::Done(self.version)),
            Some(KeyspaceState::Exists) => Ok(self.change_keyspace(id, |keyspace| {
                keyspace.state = KeyspaceState::Dropped;
                keyspace.snapshots = Snapshots::default();
            })),
        }
    }

    fn existing(&self, id: KeyspaceId) -> Result<&Keyspace, Refusal> {
        let keyspace = self.keyspaces.get(&id).filter(|known| known.state == KeyspaceState::Exists);
        keyspace.ok_or(Refusal::NotFound)
    }

    fn change_keyspace(&mut self, id: KeyspaceId, change: impl FnOnce(&mut Keyspace)) -> Answer {
        self.change(|cluster, version| {
            cluster.keyspaces.get_mut(&id).map(change);
            cluster.stamps.stamp(Subject::Keyspace(id), version);
        })
    }
}

/// Who may hold the partitions of a class.
struct ClassStanding<'a> {
    members: &'a BTreeMap<NodeId, Member>,
    settings: &'a ClassSettings,
}

impl Standing for ClassStanding<'_> {
    fn current(&self, node: NodeId) -> Option<Replica> {
        self.members.get(&node)?.current(node)
    }

    fn heir(&self, replica: Replica) -> Option<Replica> {
        let member = self.members.get(&replica.node)?;
        member.current(replica.node).filter(|_| !self.has_forgotten(replica))
    }

    fn has_forgotten(&self, dead: Replica) -> bool {
        let is_over = |member: &Member| member.memory_since > dead.incarnation;
        self.settings.durability == Durability::Memory && self.members.get(&dead.node).is_none_or(is_over)
    }

    fn is_full(&self, replicas: usize) -> bool {
        let holders = || self.members.values().filter(|member| member.is_eligible()).count();
        replicas >= usize::from(self.settings.replicas) || replicas > 0 && replicas >= holders()
    }

    fn is_enough(&self, replicas: usize) -> bool {
        replicas >= usize::from(self.settings.min_replicas)
    }
}

/// The most members, those that left included.
pub const MEMBERS_MAX: usize = 1 << 16;
/// The most placement classes.
pub const CLASSES_MAX: usize = 64;
/// The most keyspaces, dropped ones included.
pub const KEYSPACES_MAX: usize = 1 << 20;
