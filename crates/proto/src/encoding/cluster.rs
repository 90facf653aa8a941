//! The layouts of the cluster manager's commands and answers, and of what it tells nodes and clients. Its snapshot's is beside it.

use alloc::string::String;

use super::{Decode, Decoder, Encode, Encoder, Malformed, ensure};
use crate::{
    Snapshots, ZoneRule,
    cluster::{
        Address, Answer, ClassSettings, ClusterId, Command, Difference, Fact, Identity, Keyspace,
        KeyspaceState, Member, MemberState, PartitionReport, PartitionRole, Presence, Proposal, Refusal,
        Report, Request, Response, ShardReport, Subject, TokenOrder, ViewOf, Zone,
    },
    layout,
};

layout!(struct ClusterId(bits));
layout!(struct Identity(bits));

layout!(enum Command {
    0 => Found(founders),
    1 => Register { identity, incarnation, memory_since, zone, weight, address },
    2 => Evict(replica),
    3 => GiveUp(node),
    4 => RemoveReplica { partition, epoch, by, replica },
    5 => LearnerComplete { partition, epoch, by, learner },
    6 => Release { partition, epoch, replica, handed_to },
    7 => Retarget { class, targets },
    8 => Drain(node),
    9 => Leave(node),
    10 => CreateClass(class, settings),
    11 => CreateKeyspace { name, class, seed, settings },
    12 => AlterKeyspace { id, settings },
    13 => DropKeyspace(id),
    14 => Advance(version),
    15 => Restore(node),
    16 => Replace { old, new },
    17 => Abandon(node),
    18 => Lose { replica, shard, shards },
    19 => CreateAccount { name, kind, seed },
    20 => RemoveAccount(account),
    21 => Enroll { user, group },
    22 => Dismiss { user, group },
    23 => Grant { account, scope, more, less },
    24 => RevokeTokens { user, before },
    25 => AddSeal(id, seal),
    26 => RemoveSeal(id),
    27 => SetQuota { id, quota },
    28 => BeginSnapshot { keyspace, name, taken, seed },
    29 => CompleteSnapshot { keyspace, snapshot, point },
    30 => DropSnapshot { keyspace, snapshot },
});
layout!(enum Answer { 0 => Done(version), 1 => Registered(node, version), 2 => KeyspaceCreated(id, version), 3 => AccountCreated(id, version), 4 => SnapshotBegun(id, version) });
layout!(enum Refusal {
    0 => NotFounded, 1 => Stale, 2 => NotFound, 3 => Taken, 4 => NotEntitled, 5 => TooFew, 6 => Busy, 7 => Invalid,
    8 => LastCopy, 9 => NoSecret,
});

layout!(struct Member { identity, incarnation, memory_since, zone, weight, address, state, presence });
layout!(enum MemberState { 0 => Active, 1 => Draining, 2 => Left });
layout!(enum Presence { 0 => Present, 1 => Evicted, 2 => GivenUp });
layout!(struct ClassSettings { replicas, min_replicas, partitions, durability, zones } check |settings: &ClassSettings| {
    settings.check().map_err(|_| Malformed("a class's settings are out of bounds"))
});
layout!(enum ZoneRule { 0 => Require, 1 => Prefer });
layout!(enum KeyspaceState { 0 => Exists, 1 => Dropped });
layout!(struct Proposal { since, replicas, learners });

layout!(struct Difference { facts, next, reached });
layout!(enum Fact {
    0 => Class(id, settings),
    1 => Member(node, member),
    2 => Keyspace(id, keyspace),
    3 => Partition(id, configuration, proposal),
    4 => Account(id, account),
    5 => Seal(id, public),
});
layout!(enum Request { 0 => Command(command), 1 => Register(holder, command), 2 => Lease(request, position), 3 => Ring(version), 4 => Newest(version), 5 => Report, 6 => Hatch, 7 => Token(order), 8 => Seal, 9 => View(what), 10 => Uses(uses) });
layout!(struct TokenOrder { user, lifetime, limits, holder });
layout!(enum Response {
    0 => Registered(node),
    1 => Granted(request, difference),
    2 => Evicted(replica),
    3 => Ring(difference),
    4 => Elsewhere(leader),
    5 => Replied(reply),
    6 => Report(report),
    7 => Hatch(address),
    8 => Ticket(address, number),
    9 => Token(bytes),
    10 => Seal(id),
    11 => Denied(scope, rights),
    12 => View(text),
    13 => Uses(uses),
});
layout!(enum ViewOf { 0 => Node, 1 => Cluster });
layout!(struct Report { replica, version, uptime, lease_left, is_ready, leads, ring_version, shards });
layout!(struct ShardReport { directory, weight, space_total, space_free, used, live, queue, is_full, has_failed, partitions });
layout!(struct PartitionReport {
    partition, epoch, role, last, stored, lag, copying, waiting, held, driven, readers, pins, pin_age, backlog,
});
layout!(enum PartitionRole { 0 => None, 1 => Primary, 2 => NewPrimary, 3 => Backup, 4 => NewBackup });
layout!(enum Subject { 0 => Class(id), 1 => Member(node), 2 => Keyspace(id), 3 => Partition(id), 4 => Version, 5 => Account(id), 6 => Seal(id) });

/// A keyspace that exists and has had no snapshots is as it was before there were any.
impl Encode for Keyspace {
    fn encode(&self, out: &mut Encoder) {
        self.name.encode(out);
        (self.class, self.seed).encode(out);
        self.settings.encode(out);
        if self.state == KeyspaceState::Exists && !self.snapshots.is_new() {
            out.byte(HAS_HAD_SNAPSHOTS);
            self.snapshots.encode(out);
        } else {
            self.state.encode(out);
        }
    }
}

impl Decode for Keyspace {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (name, (class, seed), settings) =
            (Decode::decode(input)?, Decode::decode(input)?, Decode::decode(input)?);
        let keyspace = |state, snapshots| Keyspace { name, class, seed, settings, state, snapshots };
        match input.byte()? {
            0 => Ok(keyspace(KeyspaceState::Exists, Snapshots::default())),
            1 => Ok(keyspace(KeyspaceState::Dropped, Snapshots::default())),
            HAS_HAD_SNAPSHOTS => {
                let snapshots: Snapshots = Decode::decode(input)?;
                ensure(!snapshots.is_new(), "a keyspace has had no snapshots")?;
                Ok(keyspace(KeyspaceState::Exists, snapshots))
            }
            _ => Err(Malformed("there is no such state of a keyspace")),
        }
    }
}

/// What stands for the state of a keyspace whose snapshots follow.
const HAS_HAD_SNAPSHOTS: u8 = 2;

impl Encode for Zone {
    fn encode(&self, out: &mut Encoder) {
        self.as_str().encode(out);
    }
}

impl Decode for Zone {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Zone::new(&String::decode(input)?).map_err(|_| Malformed("a zone's name is out of bounds"))
    }
}

impl Encode for Address {
    fn encode(&self, out: &mut Encoder) {
        self.as_str().encode(out);
    }
}

impl Decode for Address {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Address::new(&String::decode(input)?).map_err(|_| Malformed("an address is out of bounds"))
    }
}
