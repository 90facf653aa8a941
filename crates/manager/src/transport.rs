//! How voters ask each other.

use std::{fmt, future::Future};

use openraft::{
    AsyncRuntime, EmptyNode, OptionalSend, RaftNetwork, RaftNetworkFactory, Snapshot, Vote,
    error::{
        Fatal, InstallSnapshotError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
    },
    network::RPCOption,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
        SnapshotResponse, VoteRequest, VoteResponse,
    },
};

use crate::types::{Request, Response, Types, VoterId};
use crate::{RaftRuntime, Surroundings};

/// Carries questions to other voters and their answers back. It may lose both.
pub trait Transport<S: Surroundings>: Clone + Send + Sync + 'static {
    /// Asks a voter. It may wait for ever; the caller gives up after a time.
    fn ask(
        &self,
        voter: VoterId,
        request: Request<S>,
    ) -> impl Future<Output = Result<Response, NoAnswer>> + Send;
}

/// There is none, and there may never be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer")
    }
}

impl std::error::Error for NoAnswer {}

/// Openraft's view of a transport.
#[derive(Clone)]
pub(crate) struct Links<T>(pub(crate) T);

/// The link to one voter.
pub(crate) struct Link<T> {
    transport: T,
    voter: VoterId,
}

type AskError<E = openraft::error::Infallible> = RPCError<VoterId, EmptyNode, RaftError<VoterId, E>>;

impl<S: Surroundings, T: Transport<S>> RaftNetworkFactory<Types<S>> for Links<T> {
    type Network = Link<T>;

    async fn new_client(&mut self, voter: VoterId, _: &EmptyNode) -> Link<T> {
        Link { transport: self.0.clone(), voter }
    }
}

impl<T> Link<T> {
    async fn ask<S: Surroundings>(&self, request: Request<S>, option: RPCOption) -> Option<Response>
    where
        T: Transport<S>,
    {
        let answer = self.transport.ask(self.voter, request);
        RaftRuntime::<S>::timeout(option.hard_ttl(), answer).await.ok()?.ok()
    }
}

fn unreachable() -> Unreachable {
    Unreachable::new(&NoAnswer)
}

impl<S: Surroundings, T: Transport<S>> RaftNetwork<Types<S>> for Link<T> {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types<S>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<VoterId>, AskError> {
        match self.ask(Request::Append(request), option).await {
            Some(Response::Append(response)) => Ok(response),
            _ => Err(unreachable().into()),
        }
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<Types<S>>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<VoterId>, AskError<InstallSnapshotError>> {
        // Snapshots travel whole.
        Err(unreachable().into())
    }

    async fn vote(
        &mut self,
        request: VoteRequest<VoterId>,
        option: RPCOption,
    ) -> Result<VoteResponse<VoterId>, AskError> {
        match self.ask(Request::Vote(request), option).await {
            Some(Response::Vote(response)) => Ok(response),
            _ => Err(unreachable().into()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<VoterId>,
        snapshot: Snapshot<Types<S>>,
        _: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<VoterId>, StreamingError<Types<S>, Fatal<VoterId>>> {
        let request = Request::Snapshot(vote, snapshot.meta, snapshot.snapshot);
        match self.ask(request, option).await {
            Some(Response::Snapshot(response)) => Ok(response),
            _ => Err(unreachable().into()),
        }
    }
}
