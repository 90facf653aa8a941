//! The snapshots of a keyspace that have names, as the cluster manager knows them.
//!
//! A snapshot is *begun* at the manager, which gives it an id; then it is *taken* by a freeze of the whole keyspace, whose stops log a keep
//! ([`crate::keeps`]) each, under the freeze's point; then the manager is told that point, and it is *complete*. Whatever a stop keeps under an id
//! that was dropped, or under another point than the manager's, is let go of. So a snapshot is dropped by one command, and one whose client fails
//! before it is complete leaves nothing behind but its name, which the next one by that name takes over.

use alloc::collections::BTreeMap;

use tyr_types::KeyspaceName;

use crate::{Stand, layout};

/// Identifies a snapshot within its keyspace. Never given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub u32);

/// A snapshot with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSnapshot {
    /// Its name; no two snapshots of a keyspace have the same.
    pub name: KeyspaceName,
    /// When it was begun, in seconds since 1970, by the clock of who did that.
    pub taken: u64,
    /// Random bits of who began it.
    pub seed: u64,
    /// The point of the freeze by which it was taken, once it is complete.
    pub point: Option<Stand>,
}

/// The snapshots of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// The last id that was given.
    last: u32,
    named: BTreeMap<SnapshotId, NamedSnapshot>,
}

/// A keyspace has at most so many snapshots with names: all of them are told with it.
pub const SNAPSHOTS_MAX: usize = 1000;

/// What a keep is for, as far as this list knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A snapshot that is complete, or may become so.
    Held,
    /// Nothing any more.
    Over,
}

impl Snapshots {
    /// All of them, those that are being taken included, in the order in which they were begun.
    pub fn iter(&self) -> impl Iterator<Item = (SnapshotId, &NamedSnapshot)> {
        self.named.iter().map(|(id, snapshot)| (*id, snapshot))
    }

    /// Whether there have never been any.
    pub fn is_new(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// One that was begun and not dropped.
    pub fn get(&self, id: SnapshotId) -> Option<&NamedSnapshot> {
        self.named.get(&id)
    }

    /// One by its name, complete or not.
    pub fn find(&self, name: &KeyspaceName) -> Option<(SnapshotId, &NamedSnapshot)> {
        self.iter().find(|(_, snapshot)| snapshot.name == *name)
    }

    /// Whether one was begun and is not complete.
    pub fn is_being_taken(&self, id: SnapshotId) -> bool {
        self.get(id).is_some_and(|snapshot| snapshot.point.is_none())
    }

    /// What has become of one that was taken at a point. Whoever took it may know more than this list: what the list has not come to is held.
    pub fn standing(&self, id: SnapshotId, point: Stand) -> Standing {
        let is_known = id.0 <= self.last;
        match self.get(id) {
            None if is_known => Standing::Over,
            Some(NamedSnapshot { point: Some(known), .. }) if *known != point => Standing::Over,
            None | Some(_) => Standing::Held,
        }
    }

    /// Begins one. One by the same name that is not complete makes room for it.
    pub fn begin(&mut self, snapshot: NamedSnapshot) -> SnapshotId {
        self.named.retain(|_, known| known.name != snapshot.name);
        self.last += 1;
        self.named.insert(SnapshotId(self.last), snapshot);
        SnapshotId(self.last)
    }

    /// Completes one.
    pub fn complete(&mut self, id: SnapshotId, point: Stand) {
        if let Some(snapshot) = self.named.get_mut(&id) {
            snapshot.point = Some(point);
        }
    }

    /// Drops one.
    pub fn remove(&mut self, id: SnapshotId) {
        self.named.remove(&id);
    }
}

layout!(struct SnapshotId(id));
layout!(struct NamedSnapshot { name, taken, seed, point });
layout!(struct Snapshots { last, named });

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::Epoch;

    fn point(count: u64) -> Stand {
        Stand { epoch: Epoch(1), count }
    }

    fn named(name: &str) -> NamedSnapshot {
        NamedSnapshot { name: KeyspaceName::new(name).unwrap(), taken: 7, seed: 1, point: None }
    }

    #[test]
    fn what_was_taken_is_held_until_it_is_known_to_be_over() {
        let mut snapshots = Snapshots::default();
        assert_eq!(snapshots.standing(SnapshotId(1), point(1)), Standing::Held, "the list may be old");
        let id = snapshots.begin(named("monday"));
        assert!(snapshots.is_being_taken(id));
        assert_eq!(snapshots.standing(id, point(1)), Standing::Held);
        snapshots.complete(id, point(2));
        assert!(!snapshots.is_being_taken(id));
        assert_eq!(snapshots.standing(id, point(1)), Standing::Over, "it was taken at another point");
        assert_eq!(snapshots.standing(id, point(2)), Standing::Held);
        snapshots.remove(id);
        assert_eq!(snapshots.standing(id, point(2)), Standing::Over);
        assert_eq!(snapshots.begin(named("monday")), SnapshotId(2), "an id is never given twice");
        assert_eq!(snapshots.begin(named("monday")), SnapshotId(3), "the other one was not complete");
        assert_eq!(snapshots.iter().count(), 1);
    }
}
