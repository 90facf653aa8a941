//! The cluster, driven by the log.

use std::sync::Arc;

use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, StorageIOError, storage::RaftStateMachine,
};
use parking_lot::Mutex;
use tyr_proto::cluster::{Cluster, Refusal, Reply};

use crate::types::{Entry, LogId, Membership, Proposal, SnapshotMeta, StorageError, Types, snapshot_meta};
use crate::{
    Surroundings,
    journal::{Change, Coverage, Journal, Kept},
};

/// The cluster as far as this voter has applied the log. Handles are equal.
pub(crate) struct Machine<J> {
    journal: J,
    coverage: Coverage,
    state: Arc<Mutex<State>>,
}

struct State {
    cluster: Cluster,
    applied: Option<LogId>,
    membership: Membership,
    snapshot: Option<(SnapshotMeta, Box<Cluster>)>,
}

impl<J: Clone> Clone for Machine<J> {
    fn clone(&self) -> Self {
        Machine { journal: self.journal.clone(), coverage: self.coverage.clone(), state: self.state.clone() }
    }
}

impl<J> Machine<J> {
    /// The state of the last snapshot, or that of a new cluster.
    pub(crate) fn new<S: Surroundings>(
        journal: J,
        kept: &Kept<S>,
        coverage: Coverage,
        empty: Cluster,
    ) -> Self {
        let mut state =
            State { cluster: empty, applied: None, membership: Membership::default(), snapshot: None };
        if let Some((meta, cluster)) = kept.snapshot() {
            state.restore(meta.clone(), cluster.clone());
        }
        Machine { journal, coverage, state: Arc::new(Mutex::new(state)) }
    }

    /// Makes a snapshot durable.
    async fn keep<S: Surroundings>(
        &self,
        meta: &SnapshotMeta,
        cluster: Box<Cluster>,
    ) -> Result<(), StorageError>
    where
        J: Journal<S>,
    {
        match self.journal.keep(Change::Snapshot(meta.clone(), cluster)).await {
            Ok(()) => {
                self.coverage.raise(meta.last_log_id);
                Ok(())
            }
            Err(error) => {
                self.coverage.fail();
                Err(StorageIOError::write(&error).into())
            }
        }
    }

    /// The last entry applied.
    pub(crate) fn applied(&self) -> Option<LogId> {
        self.state.lock().applied
    }

    /// Its term.
    pub(crate) fn term(&self) -> u64 {
        self.applied().map_or(0, |applied| applied.leader_id.term)
    }

    /// Looks at the cluster.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        look(&self.state.lock().cluster)
    }
}

impl State {
    fn restore(&mut self, meta: SnapshotMeta, cluster: Box<Cluster>) {
        self.cluster.clone_from(&cluster);
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.snapshot = Some((meta, cluster));
    }

    fn apply<S: Surroundings>(&mut self, entry: Entry<S>) -> Option<Reply> {
        self.applied = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Membership(membership) => {
                self.membership = Membership::new(Some(entry.log_id), membership);
                None
            }
            EntryPayload::Normal(Proposal { premise, command }) => {
                let holds = premise.holds(entry.log_id.leader_id.term, &self.cluster);
                Some(if holds { self.cluster.apply(command) } else { Err(Refusal::Stale) })
            }
        }
    }
}

impl<S: Surroundings, J: Journal<S>> RaftSnapshotBuilder<Types<S>> for Machine<J> {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types<S>>, StorageError> {
        let (meta, cluster) = {
            let state = self.state.lock();
            (snapshot_meta(state.applied, state.membership.clone()), Box::new(state.cluster.clone()))
        };
        self.keep(&meta, cluster.clone()).await?;
        let mut state = self.state.lock();
        // Another one may have been installed meanwhile.
        if state.snapshot.as_ref().is_none_or(|(kept, _)| kept.last_log_id <= meta.last_log_id) {
            state.snapshot = Some((meta.clone(), cluster.clone()));
        }
        Ok(Snapshot { meta, snapshot: cluster })
    }
}

impl<S: Surroundings, J: Journal<S>> RaftStateMachine<Types<S>> for Machine<J> {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Membership), StorageError> {
        let state = self.state.lock();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Option<Reply>>, StorageError>
    where
        I: IntoIterator<Item = Entry<S>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.state.lock();
        Ok(entries.into_iter().map(|entry| state.apply(entry)).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cluster>, StorageError> {
        Ok(Box::new(self.look(|cluster| Cluster::new(cluster.id()))))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cluster>,
    ) -> Result<(), StorageError> {
        self.keep(meta, snapshot.clone()).await?;
        self.state.lock().restore(meta.clone(), snapshot);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types<S>>>, StorageError> {
        let snapshot = self.state.lock().snapshot.clone();
        Ok(snapshot.map(|(meta, cluster)| Snapshot { meta, snapshot: cluster }))
    }
}
