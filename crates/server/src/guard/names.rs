//! What keyspaces and snapshots were called, also those that are no more: who dropped one is to be told from who dropped another.

use std::collections::BTreeMap;

use tyr_proto::{
    SnapshotId,
    cluster::{Answer, Command, Keyspace, Request, Response},
};
use tyr_types::{KeyspaceId, KeyspaceName};

/// Names by the numbers of what had them. If there are too many, those with the lowest numbers are forgotten first.
#[derive(Debug, Default)]
pub(super) struct Names {
    keyspaces: BTreeMap<KeyspaceId, KeyspaceName>,
    snapshots: BTreeMap<(KeyspaceId, SnapshotId), KeyspaceName>,
}

/// So many names of each kind are remembered.
const NAMES_MAX: usize = 16_384;

impl Names {
    /// A keyspace is or was so.
    pub fn take(&mut self, id: KeyspaceId, keyspace: &Keyspace) {
        self.name_keyspace(id, &keyspace.name);
        for (snapshot, known) in keyspace.snapshots.iter() {
            self.name_snapshot(id, snapshot, &known.name);
        }
    }

    /// Something was asked and answered so: what is made is known by that before the cluster manager has told all nodes.
    pub fn hear(&mut self, request: &Request, response: &Response) {
        match (request, response) {
            (
                Request::Command(Command::CreateKeyspace { name, .. }),
                Response::Replied(Ok(Answer::KeyspaceCreated(id, _))),
            ) => self.name_keyspace(*id, name),
            (
                Request::Command(Command::BeginSnapshot { keyspace, name, .. }),
                Response::Replied(Ok(Answer::SnapshotBegun(id, _))),
            ) => self.name_snapshot(*keyspace, *id, name),
            _ => {}
        }
    }

    /// What a keyspace is or was called.
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&KeyspaceName> {
        self.keyspaces.get(&id)
    }

    /// What a snapshot of a keyspace is or was called.
    pub fn snapshot(&self, keyspace: KeyspaceId, id: SnapshotId) -> Option<&KeyspaceName> {
        self.snapshots.get(&(keyspace, id))
    }

    fn name_keyspace(&mut self, id: KeyspaceId, name: &KeyspaceName) {
        self.keyspaces.insert(id, name.clone());
        if self.keyspaces.len() > NAMES_MAX {
            self.keyspaces.pop_first();
        }
    }

    fn name_snapshot(&mut self, keyspace: KeyspaceId, id: SnapshotId, name: &KeyspaceName) {
        self.snapshots.insert((keyspace, id), name.clone());
        if self.snapshots.len() > NAMES_MAX {
            self.snapshots.pop_first();
        }
    }
}
