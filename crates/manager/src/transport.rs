//! How voters ask each other: [`Transport`] as openraft needs it, and [`Exchange`], which makes one of messages that may be lost.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

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

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::types::{Request, Response, Types, VoterId};
use crate::{Journal, RaftRuntime, Surroundings, Voter, codec};

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

/// What two voters say to each other.
#[derive(Debug)]
pub(crate) enum Message<S: Surroundings> {
    /// A question, with a number that its answer repeats.
    Ask(u64, Request<S>),
    /// The answer to a question.
    Answer(u64, Response),
}

/// A message in words, for a trace.
pub fn describe<S: Surroundings>(message: &[u8]) -> String {
    match codec::from_bytes::<Message<S>>(message) {
        Ok(message) => format!("{message:?}"),
        Err(malformed) => format!("{malformed:?}"),
    }
}

/// Takes messages to other voters, at once. It keeps them, sends them, or drops them, and waits for nothing.
pub trait Post: Clone + Send + Sync + 'static {
    /// To one voter.
    fn post(&self, to: VoterId, message: Vec<u8>);
}

/// A transport over messages that may be lost, late, or come twice. Handles are equal.
#[derive(Clone)]
pub struct Exchange<P> {
    post: P,
    open: Arc<Mutex<Open>>,
}

/// Questions that wait for their answers, and others' that are being answered.
struct Open {
    last: u64,
    asked: BTreeMap<u64, (VoterId, oneshot::Sender<Response>)>,
    answering: usize,
}

/// A question that is forgotten when nobody waits for its answer any more.
struct Asked {
    open: Arc<Mutex<Open>>,
    number: u64,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.open.lock().asked.remove(&self.number);
    }
}

impl<P: Post> Exchange<P> {
    /// For one start of a voter. The number is drawn at random, so that no answer to an earlier start is taken for one to this.
    pub fn new(post: P, first: u64) -> Self {
        let open = Open { last: first, asked: BTreeMap::new(), answering: 0 };
        Exchange { post, open: Arc::new(Mutex::new(open)) }
    }

    /// Takes a message from another voter. False if it makes no sense, or if there are too many questions.
    pub fn receive<S: Surroundings, J: Journal<S>>(
        &self,
        from: VoterId,
        message: &[u8],
        voter: &Voter<S, J>,
    ) -> bool {
        match codec::from_bytes(message) {
            Ok(Message::Ask(number, request)) => self.answer(from, number, request, voter),
            Ok(Message::Answer(number, response)) => {
                let mut open = self.open.lock();
                let is_asked = open.asked.get(&number).is_some_and(|(asked, _)| *asked == from);
                if let Some((_, waiting)) = is_asked.then(|| open.asked.remove(&number)).flatten() {
                    // Whoever gave up has dropped the receiver.
                    let _unheard = waiting.send(response);
                }
                true
            }
            Err(_) => false,
        }
    }

    fn answer<S: Surroundings, J: Journal<S>>(
        &self,
        from: VoterId,
        number: u64,
        request: Request<S>,
        voter: &Voter<S, J>,
    ) -> bool {
        {
            let mut open = self.open.lock();
            if open.answering >= ANSWERING_MAX {
                return false;
            }
            open.answering += 1;
        }
        let (exchange, voter) = (self.clone(), voter.clone());
        S::spawn(async move {
            let answer = voter.answer(request).await;
            exchange.open.lock().answering -= 1;
            if let Ok(response) = answer {
                let message: Message<S> = Message::Answer(number, response);
                exchange.post.post(from, codec::to_bytes(&message));
            }
        });
        true
    }
}

impl<S: Surroundings, P: Post> Transport<S> for Exchange<P> {
    async fn ask(&self, voter: VoterId, request: Request<S>) -> Result<Response, NoAnswer> {
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut open = self.open.lock();
            open.last = open.last.wrapping_add(1);
            let number = open.last;
            open.asked.insert(number, (voter, sender));
            number
        };
        let _asked = Asked { open: self.open.clone(), number };
        self.post.post(voter, codec::to_bytes(&Message::Ask(number, request)));
        receiver.await.map_err(|_| NoAnswer)
    }
}

/// The most questions of others that are being answered at once; more are not heard.
const ANSWERING_MAX: usize = 1024;

/// Openraft's view of a transport.
#[derive(Clone)]
pub(crate) struct Links<T> {
    pub(crate) transport: T,
    /// Whether it leads others no more, and lets nobody know.
    pub(crate) is_silent: Arc<AtomicBool>,
}

/// The link to one voter.
pub(crate) struct Link<T> {
    links: Links<T>,
    voter: VoterId,
}

type AskError<E = openraft::error::Infallible> = RPCError<VoterId, EmptyNode, RaftError<VoterId, E>>;

impl<S: Surroundings, T: Transport<S>> RaftNetworkFactory<Types<S>> for Links<T> {
    type Network = Link<T>;

    async fn new_client(&mut self, voter: VoterId, _: &EmptyNode) -> Link<T> {
        Link { links: self.clone(), voter }
    }
}

impl<T> Link<T> {
    async fn ask<S: Surroundings>(&self, request: Request<S>, option: RPCOption) -> Option<Response>
    where
        T: Transport<S>,
    {
        let leads = matches!(request, Request::Append(_) | Request::Snapshot(..));
        if leads && self.links.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let answer = self.links.transport.ask(self.voter, request);
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
