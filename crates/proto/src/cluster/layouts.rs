//! The layout of the cluster as a snapshot.

use super::{
    ACCOUNTS_MAX, CLASSES_MAX, Class, Cluster, KEYSPACES_MAX, MEMBERS_MAX, Partition, access::Access,
};
use crate::{
    RingVersion,
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    layout,
};

/// A cluster that has neither accounts nor seals is written as before there were any. In front of the version of one that has any stands a
/// number that no version is, and then these.
impl Encode for Cluster {
    fn encode(&self, out: &mut Encoder) {
        self.id.encode(out);
        if !self.access.is_empty() {
            out.varint(ACCESS_FOLLOWS);
            self.access.encode(out);
        }
        self.version.encode(out);
        self.numbers.encode(out);
        self.members.encode(out);
        self.keyspaces.encode(out);
        self.classes.encode(out);
        self.stamps.encode(out);
        self.successors.encode(out);
    }
}

impl Decode for Cluster {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let id = Decode::decode(input)?;
        let (access, version) = match input.varint()? {
            ACCESS_FOLLOWS => {
                let access = Access::decode(input)?;
                ensure(!access.is_empty(), "a cluster without accounts says that it has some")?;
                (access, RingVersion::decode(input)?)
            }
            version => (Access::default(), RingVersion(version)),
        };
        let cluster = Cluster {
            id,
            version,
            numbers: Decode::decode(input)?,
            members: Decode::decode(input)?,
            keyspaces: Decode::decode(input)?,
            classes: Decode::decode(input)?,
            stamps: Decode::decode(input)?,
            successors: Decode::decode(input)?,
            access,
        };
        is_sound(&cluster)?;
        Ok(cluster)
    }
}

layout!(struct Class { settings, partitions } check |class: &Class| {
    let is_whole = u32::try_from(class.partitions.len()) == Ok(class.settings.partitions);
    ensure(is_whole, "a class has another number of partitions than it says")
});
layout!(struct Partition { configuration, proposal, target, last_complete, released, joined, slow, lost });

/// Everything that counts on may count on.
fn is_sound(cluster: &Cluster) -> Result<(), Malformed> {
    let newest = cluster.stamps.newest().unwrap_or_default();
    ensure(
        newest <= cluster.version && cluster.version <= RingVersion::MAX,
        "a ring version is out of bounds",
    )?;
    let last_node = cluster.numbers.values().chain(cluster.members.keys()).max();
    let nodes =
        last_node.is_none_or(|node| usize::try_from(node.0).is_ok_and(|number| number <= MEMBERS_MAX));
    ensure(nodes, "a node's number is out of bounds")?;
    let last_keyspace = cluster.keyspaces.keys().next_back();
    let keyspaces = last_keyspace.is_none_or(|id| usize::try_from(id.0).is_ok_and(|id| id <= KEYSPACES_MAX));
    ensure(keyspaces && cluster.classes.len() <= CLASSES_MAX, "there are too many classes or keyspaces")?;
    let last_account = cluster.access.accounts.keys().next_back().map(|id| id.0);
    let last_seal = cluster.access.seals.keys().next_back().map(|id| id.0);
    let is_bounded = |last: u32| usize::try_from(last).is_ok_and(|last| last <= ACCOUNTS_MAX);
    let are_bounded = last_account.into_iter().chain(last_seal).all(is_bounded);
    ensure(are_bounded, "the number of an account or seal is out of bounds")
}

/// Stands where the version would, which is never as large.
const ACCESS_FOLLOWS: u64 = u64::MAX;
