//! Snapshots that have a name: pins that are logged with their keyspace, so that they last until they are dropped.
//!
//! Invariants: only a keyspace that keeps versions has named snapshots, and it keeps its versions while it has some. Whatever a named snapshot
//! of a keyspace in memory shows is pinned. One that is in the log's tail is pinned again before anything is replayed that was committed after
//! it.

use std::sync::atomic::Ordering;

use tyr_types::{Error, KeyspaceId, KeyspaceName, Number, Result};
use tyr_wire::record::{KeyspaceState, NamedSnapshot, Record};

use crate::{pin::Pin, store::Store};

/// A keyspace has at most so many named snapshots: all of them are logged with it.
pub const NAMED_MAX: usize = 1000;

impl Store {
    /// Takes a snapshot of a keyspace, durably, that lasts until it is dropped by its name. Fails with `exists` if the name is taken, `invalid`
    /// if the keyspace keeps no versions.
    pub fn create_snapshot(&self, id: KeyspaceId, name: KeyspaceName, taken: u64) -> Result<Number> {
        let mut commit = self.commit.lock();
        let old = self.keyspaces.find(id)?;
        let keyspace = &old.state.name;
        if !old.state.settings.multi_version {
            return Err(Error::invalid(format!(
                "keyspace '{keyspace}' keeps no versions, so it has no snapshots; alter it to multi_version"
            )));
        }
        if old.state.snapshots.iter().any(|snapshot| snapshot.name == name) {
            return Err(Error::exists(format!(
                "keyspace '{keyspace}' has a snapshot '{name}' already; choose another name, or drop it first"
            )));
        }
        if old.state.snapshots.len() >= NAMED_MAX {
            return Err(Error::invalid(format!(
                "keyspace '{keyspace}' has {NAMED_MAX} snapshots, and no more are possible; drop some"
            )));
        }
        let number = Number::from_u64(self.applied.load(Ordering::Acquire));
        let mut state = old.state.clone();
        state.snapshots.push(NamedSnapshot { name, number, taken });
        self.append_control(&mut commit, &Record::Keyspace(state.clone()))?;
        self.pin_named(&old.state.snapshots, &state);
        self.keyspaces.put(state);
        drop(commit);
        // With everything before it.
        self.log.flush()?;
        Ok(number)
    }

    /// Drops a named snapshot, durably. Who has it open goes on reading.
    pub fn drop_snapshot(&self, id: KeyspaceId, name: &KeyspaceName) -> Result<()> {
        let mut commit = self.commit.lock();
        let old = self.keyspaces.find(id)?;
        let mut state = old.state.clone();
        let dropped = find(&state, name)?;
        state.snapshots.retain(|snapshot| snapshot.name != *name);
        self.append_freeing(&mut commit, &Record::Keyspace(state.clone()))?;
        self.keyspaces.put(state);
        drop(commit);
        // A crash may bring it back until then, and what it shows is not collected before.
        self.log.flush()?;
        self.pins.keyspaces.remove(id, dropped.number);
        self.backlog.pin_released();
        Ok(())
    }

    /// The named snapshots of a keyspace, in the order in which they were taken.
    pub fn snapshots(&self, id: KeyspaceId) -> Result<Vec<NamedSnapshot>> {
        Ok(self.keyspaces.find(id)?.state.snapshots.clone())
    }

    /// Pins what a named snapshot shows.
    pub fn pin_snapshot(&self, id: KeyspaceId, name: &KeyspaceName) -> Result<(Pin, NamedSnapshot)> {
        self.check_readable()?;
        // So that it is not dropped meanwhile.
        let _commit = self.commit.lock();
        let snapshot = find(&self.keyspaces.find(id)?.state, name)?;
        self.pins.keyspaces.add(id, snapshot.number);
        Ok((self.pin_of(snapshot.number, vec![id]), snapshot))
    }

    /// Pins what the named snapshots of a keyspace show, and no longer what its former ones did. The caller holds the commit lock, or is the only
    /// thread.
    pub(crate) fn pin_named(&self, former: &[NamedSnapshot], state: &KeyspaceState) {
        state.snapshots.iter().for_each(|snapshot| self.pins.keyspaces.add(state.id, snapshot.number));
        former.iter().for_each(|snapshot| self.pins.keyspaces.remove(state.id, snapshot.number));
    }
}

fn find(state: &KeyspaceState, name: &KeyspaceName) -> Result<NamedSnapshot> {
    let found = state.snapshots.iter().find(|snapshot| snapshot.name == *name).cloned();
    found.ok_or_else(|| {
        Error::not_found(format!("keyspace '{}' has no snapshot '{name}'; correct the name", state.name))
    })
}
