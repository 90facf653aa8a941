//! Snapshots of a cluster's keyspaces that have names.

use std::time::{SystemTime, UNIX_EPOCH};

use tyr_embed::{Result, SnapshotSummary};
use tyr_proto::{
    KeepName, NamedSnapshot, SNAPSHOTS_MAX, SnapshotId, Snapshots, Stand,
    cluster::{Answer, Command},
};
use tyr_types::{Error, ErrorKind, KeyspaceId, KeyspaceName};

use super::{
    Cluster, Keyspace, random,
    snapshot::{Snapshot, check, check_own},
};
use crate::driver::call::Call;

impl Cluster {
    /// See [`crate::Store::create_snapshot`].
    pub async fn create_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        let name = KeyspaceName::new(name)?;
        check(self, keyspace)?;
        let id = keyspace.entry.id;
        let taken = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let begin = Command::BeginSnapshot { keyspace: id, name: name.clone(), taken, seed: random() };
        let answer = self.core.command(begin).await.map_err(|error| match error.kind() {
            ErrorKind::Exists => taken_or_full(keyspace, &name, &self.core.catalog.snapshots(id)),
            _ => error,
        })?;
        let Answer::SnapshotBegun(snapshot, _) = answer else {
            return Err(Error::internal("the answer to a snapshot's creation names it; please report it"));
        };
        let until = self.core.until();
        let taken = self.core.ask(|reply| Call::Take { keyspace: id, snapshot, until, reply }).await;
        if taken.is_err() {
            // Nobody else reads it. If this is lost, too, it is listed as one that is not complete, and the next one by the name takes its place.
            let _ = self.core.command(Command::DropSnapshot { keyspace: id, snapshot }).await;
        }
        self.complete(id, snapshot, taken?).await
    }

    /// Completes a snapshot that was taken.
    async fn complete(&self, keyspace: KeyspaceId, snapshot: SnapshotId, point: Stand) -> Result<()> {
        self.core.command(Command::CompleteSnapshot { keyspace, snapshot, point }).await?;
        let is_complete = |snapshots: &Snapshots| {
            snapshots.get(snapshot).is_none_or(|snapshot| snapshot.point == Some(point))
        };
        self.core.learn(|catalog| is_complete(&catalog.snapshots(keyspace))).await
    }

    /// See [`crate::Store::snapshots`].
    pub async fn snapshots(&self, keyspace: &Keyspace) -> Result<Vec<SnapshotSummary>> {
        let snapshots = self.known(keyspace).await?;
        let summary = |snapshot: &NamedSnapshot| SnapshotSummary {
            name: snapshot.name.as_str().to_owned(),
            taken: snapshot.taken,
            is_complete: snapshot.point.is_some(),
        };
        Ok(snapshots.iter().map(|(_, snapshot)| summary(snapshot)).collect())
    }

    /// See [`crate::Store::open_snapshot`].
    pub async fn open_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<Snapshot> {
        let (snapshot, known) = self.find_snapshot(keyspace, name).await?;
        let point = known.point.ok_or_else(|| {
            let keyspace = keyspace.name();
            Error::not_found(format!(
                "snapshot '{name}' of keyspace '{keyspace}' is not complete: it is being taken, or whoever took it has failed; wait, or drop it"
            ))
        })?;
        let keep = KeepName { keyspace: keyspace.entry.id, snapshot, point };
        Snapshot::open(self, keyspace, keep).await
    }

    /// See [`crate::Store::drop_snapshot`].
    pub async fn drop_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<()> {
        let (snapshot, _) = self.find_snapshot(keyspace, name).await?;
        let id = keyspace.entry.id;
        let dropped = self.core.command(Command::DropSnapshot { keyspace: id, snapshot }).await;
        dropped.map_err(|error| match error.kind() {
            ErrorKind::NotFound => missing(keyspace, name),
            _ => error,
        })?;
        self.core.learn(|catalog| catalog.snapshots(id).get(snapshot).is_none()).await
    }

    /// All snapshots of a keyspace, those that are being taken included, as they are now.
    async fn known(&self, keyspace: &Keyspace) -> Result<Snapshots> {
        check_own(self, keyspace)?;
        self.core.refresh().await?;
        Ok(self.core.catalog.snapshots(keyspace.entry.id))
    }

    async fn find_snapshot(&self, keyspace: &Keyspace, name: &str) -> Result<(SnapshotId, NamedSnapshot)> {
        let name = KeyspaceName::new(name)?;
        let snapshots = self.known(keyspace).await?;
        let found = snapshots.find(&name).map(|(id, snapshot)| (id, snapshot.clone()));
        found.ok_or_else(|| missing(keyspace, name.as_str()))
    }
}

fn missing(keyspace: &Keyspace, name: &str) -> Error {
    Error::not_found(format!("keyspace '{}' has no snapshot '{name}'", keyspace.name()))
}

fn taken_or_full(keyspace: &Keyspace, name: &KeyspaceName, known: &Snapshots) -> Error {
    let keyspace = keyspace.name();
    if known.find(name).is_none() && known.iter().count() >= SNAPSHOTS_MAX {
        return Error::invalid(format!(
            "keyspace '{keyspace}' has {SNAPSHOTS_MAX} snapshots, and no more are possible; drop some"
        ));
    }
    Error::exists(format!(
        "keyspace '{keyspace}' has a snapshot '{name}' already; choose another name, or drop it first"
    ))
}
