//! Snapshots with names: which there are, and which are complete.

use tyr_types::KeyspaceId;

use super::{Answer, Cluster, Refusal, Reply};
use crate::{NamedSnapshot, SNAPSHOTS_MAX, SnapshotId, Stand};

impl Cluster {
    pub(super) fn begin_snapshot(&mut self, id: KeyspaceId, snapshot: NamedSnapshot) -> Reply {
        let keyspace = self.existing(id)?;
        let snapshots = &keyspace.snapshots;
        match snapshots.find(&snapshot.name) {
            Some((begun, same)) if same.seed == snapshot.seed => {
                return Ok(Answer::SnapshotBegun(begun, self.version));
            }
            Some((_, other)) if other.point.is_some() => return Err(Refusal::Taken),
            Some(_) | None => {}
        }
        if snapshots.iter().count() >= SNAPSHOTS_MAX {
            return Err(Refusal::Taken);
        }
        if !keyspace.settings.multi_version {
            return Err(Refusal::Invalid);
        }
        let mut begun = SnapshotId::default();
        self.change_keyspace(id, |keyspace| begun = keyspace.snapshots.begin(snapshot));
        Ok(Answer::SnapshotBegun(begun, self.version))
    }

    pub(super) fn complete_snapshot(&mut self, id: KeyspaceId, snapshot: SnapshotId, point: Stand) -> Reply {
        let known = self.existing(id)?.snapshots.get(snapshot).ok_or(Refusal::NotFound)?;
        match known.point {
            Some(known) if known == point => Ok(Answer::Done(self.version)),
            Some(_) => Err(Refusal::Stale),
            None => Ok(self.change_keyspace(id, |keyspace| keyspace.snapshots.complete(snapshot, point))),
        }
    }

    pub(super) fn drop_snapshot(&mut self, id: KeyspaceId, snapshot: SnapshotId) -> Reply {
        self.existing(id)?.snapshots.get(snapshot).ok_or(Refusal::NotFound)?;
        Ok(self.change_keyspace(id, |keyspace| keyspace.snapshots.remove(snapshot)))
    }
}
