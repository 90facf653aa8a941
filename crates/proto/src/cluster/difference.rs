//! What changed since a ring version, in bounded pieces.
//!
//! The cluster keeps no history: it knows for each thing the version that last changed it, so a reader that is however far behind gets
//! each thing once, as it is now. A reader's ring version is that of the last *whole* difference it took; what it has of a later one
//! is newer than that, never older.

use alloc::{collections::BTreeMap, collections::BTreeSet, vec::Vec};
use core::cmp::Ordering;

use tyr_types::KeyspaceId;

use super::{ClassSettings, Cluster, Keyspace, Member, Proposal, SealId};
use crate::{
    ClassId, Configuration, NodeId, PartitionId, RingVersion,
    access::{Account, AccountId},
    encoding::{Decode, Decoder, Encode, Encoder, Malformed},
    layout,
};

/// Something that changes as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A placement class.
    Class(ClassId),
    /// A member.
    Member(NodeId),
    /// A keyspace.
    Keyspace(KeyspaceId),
    /// A partition.
    Partition(PartitionId),
    /// Nothing but the version.
    Version,
    /// A user or group.
    Account(AccountId),
    /// A seal.
    Seal(SealId),
}

/// Something as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A placement class; never changes once created.
    Class(ClassId, ClassSettings),
    /// A member.
    Member(NodeId, Member),
    /// A keyspace, possibly dropped.
    Keyspace(KeyspaceId, Keyspace),
    /// Who holds a partition, and the change that waits for those who lose a role.
    Partition(PartitionId, Configuration, Option<Proposal>),
    /// A user or group, possibly removed.
    Account(AccountId, Account),
    /// The public half of a seal; none if it was removed.
    Seal(SealId, Option<[u8; 32]>),
}

/// How far a reader has come. Who has all of a version is further than who has a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The ring version that it has wholly, or is reading.
    version: RingVersion,
    /// The last thing of that version that it has; none if it has all.
    within: Option<Subject>,
}

impl Position {
    /// The position of a reader that has everything up to this version.
    pub fn whole(version: RingVersion) -> Self {
        Position { version, within: None }
    }

    /// The ring version of which it has everything.
    pub fn reached(&self) -> RingVersion {
        match self.within {
            None => self.version,
            Some(_) => RingVersion(self.version.0.saturating_sub(1)),
        }
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |position: &Position| (position.version, position.within.is_none(), position.within);
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A piece of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What changed.
    pub facts: Vec<Fact>,
    /// Where to go on.
    pub next: Position,
    /// The ring version that the reader now has wholly; none if it must go on reading first.
    pub reached: Option<RingVersion>,
}

/// The version that last changed each thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps {
    by_subject: BTreeMap<Subject, RingVersion>,
    by_version: BTreeSet<(RingVersion, Subject)>,
}

impl Stamps {
    pub(super) fn stamp(&mut self, subject: Subject, version: RingVersion) {
        if let Some(earlier) = self.by_subject.insert(subject, version) {
            self.by_version.remove(&(earlier, subject));
        }
        self.by_version.insert((version, subject));
    }

    /// The newest version that changed anything.
    pub(super) fn newest(&self) -> Option<RingVersion> {
        self.by_version.last().map(|(version, _)| *version)
    }

    fn after(&self, position: Position) -> impl Iterator<Item = (RingVersion, Subject)> + '_ {
        let from = match position.within {
            Some(subject) => (position.version, subject),
            None => (RingVersion(position.version.0.saturating_add(1)), Subject::Class(ClassId(0))),
        };
        let within = position.within.is_some();
        self.by_version.range(from..).copied().filter(move |entry| !within || *entry != from)
    }
}

impl Cluster {
    /// Up to `count_max` things (at least one) that changed since the position, in the order of their last change.
    pub fn changes_since(&self, position: Position, count_max: usize) -> Difference {
        let mut entries = self.stamps.after(position);
        let mut facts = Vec::new();
        let mut next = position;
        for (version, subject) in entries.by_ref().take(count_max.max(1)) {
            facts.extend(self.fact(subject));
            next = Position { version, within: Some(subject) };
        }
        if entries.next().is_some() {
            return Difference { facts, next, reached: None };
        }
        Difference { facts, next: Position::whole(self.version), reached: Some(self.version) }
    }

    fn fact(&self, subject: Subject) -> Option<Fact> {
        Some(match subject {
            Subject::Version => return None,
            Subject::Class(id) => Fact::Class(id, self.classes.get(&id)?.settings),
            Subject::Member(node) => Fact::Member(node, self.members.get(&node)?.clone()),
            Subject::Keyspace(id) => Fact::Keyspace(id, self.keyspaces.get(&id)?.clone()),
            Subject::Account(id) => Fact::Account(id, self.access.accounts.get(&id)?.clone()),
            Subject::Seal(id) => Fact::Seal(id, self.access.seals.get(&id)?.as_ref().map(|seal| seal.public)),
            Subject::Partition(id) => {
                let partition = self.partition(id)?;
                Fact::Partition(id, partition.configuration.clone(), partition.proposal.clone())
            }
        })
    }
}

layout!(struct Position { version, within });

/// The version of each thing; their order follows from that.
impl Encode for Stamps {
    fn encode(&self, out: &mut Encoder) {
        self.by_subject.encode(out);
    }
}

impl Decode for Stamps {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let by_subject: BTreeMap<Subject, RingVersion> = Decode::decode(input)?;
        let by_version = by_subject.iter().map(|(subject, version)| (*version, *subject)).collect();
        Ok(Stamps { by_subject, by_version })
    }
}
