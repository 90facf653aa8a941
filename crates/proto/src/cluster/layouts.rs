//! The layout of the cluster as a snapshot.

use super::{CLASSES_MAX, Class, Cluster, KEYSPACES_MAX, MEMBERS_MAX, Partition};
use crate::{
    RingVersion,
    encoding::{Malformed, ensure},
    layout,
};

layout!(struct Cluster { id, version, numbers, members, keyspaces, classes, stamps, successors } check is_sound);
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
    ensure(keyspaces && cluster.classes.len() <= CLASSES_MAX, "there are too many classes or keyspaces")
}
