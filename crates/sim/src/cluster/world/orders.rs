//! What clients have the cluster manager do, and how nodes hear of it: each at its own time, and some of them late.

use std::sync::Arc;

use tyr_proto::{Keyspace, Keyspaces, NamedSnapshot, NodeId, SessionId, SnapshotId, Snapshots};
use tyr_types::{KeyspaceId, KeyspaceName};

use super::{World, event::Event, mail::MANAGER_DELAY};
use crate::cluster::{caller::Order, layout::KEYSPACE};

/// A node hears of a change of the keyspaces after this many microseconds at most, one of four after ten times as many.
const HEARS_AFTER: u64 = 100_000;

impl World {
    pub(super) fn send_order(&mut self, session: SessionId, place: usize, order: Order) {
        let delay = 1 + self.random.below(MANAGER_DELAY);
        self.after(delay, Event::Order(session, place, order));
    }

    /// The cluster manager does what it is asked for.
    pub(super) fn order(&mut self, session: SessionId, place: usize, order: Order) {
        if !self.callers.contains_key(&session) {
            // It has died, and is asked again by nobody.
            return;
        }
        let now = self.now;
        let id = match order {
            Order::Begin => {
                let name = KeyspaceName::new(&format!("s{}-{place}", session.0)).expect("a short name");
                let snapshot = NamedSnapshot { name, taken: now, seed: place as u64, point: None };
                self.change_snapshots(|snapshots| snapshots.begin(snapshot))
            }
            Order::Complete(id, point) => {
                if !self.keyspaces[&KEYSPACE].snapshots.is_being_taken(id) {
                    return;
                }
                self.change_snapshots(|snapshots| snapshots.complete(id, point));
                id
            }
            Order::Drop(id) => {
                self.change_snapshots(|snapshots| snapshots.remove(id));
                id
            }
        };
        let delay = 1 + self.random.below(MANAGER_DELAY);
        self.after(delay, Event::Ordered(session, place, order, id));
    }

    /// Drops what nobody has dropped. Says whether there was anything.
    pub fn drop_snapshots(&mut self) {
        let left: Vec<SnapshotId> = self.keyspaces[&KEYSPACE].snapshots.iter().map(|(id, _)| id).collect();
        for id in left {
            self.change_snapshots(|snapshots| snapshots.remove(id));
        }
    }

    fn change_snapshots<T>(&mut self, change: impl FnOnce(&mut Snapshots) -> T) -> T {
        self.change_keyspace(KEYSPACE, |keyspace| change(&mut keyspace.snapshots))
    }

    /// All nodes hear of it, each at its own time.
    pub(super) fn change_keyspace<T>(
        &mut self,
        id: KeyspaceId,
        change: impl FnOnce(&mut Keyspace) -> T,
    ) -> T {
        let mut keyspaces = Keyspaces::clone(&self.keyspaces);
        let changed = change(keyspaces.get_mut(&id).expect("one of those that there are"));
        self.keyspaces = Arc::new(keyspaces);
        self.keyspaces_version += 1;
        let nodes: Vec<NodeId> = self.servers.keys().copied().collect();
        for node in nodes {
            self.tell_keyspaces(node);
        }
        changed
    }

    /// Has a node hear how the keyspaces are now.
    pub(super) fn tell_keyspaces(&mut self, node: NodeId) {
        let most = if self.random.below(4) == 0 { 10 * HEARS_AFTER } else { HEARS_AFTER };
        let delay = 1 + self.random.below(most);
        self.after(delay, Event::Keyspaces(node, self.keyspaces_version, self.keyspaces.clone()));
    }
}
