//! How a program asks the cluster manager: over a connection to any node of the cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::Runtime;
use tyr_net::{
    Address, Credential, Dialer, End, Handler, Holder, Link, Received, Tls, Token, channels::MANAGER,
};
use tyr_proto::{
    RingVersion, SessionId,
    access::{AccountId, Rights, Scope},
    cluster::{Command, Difference, Reply, Report, Request, Response, SealId, TokenOrder, ViewOf},
    encoding::{append_to, from_bytes},
};
use tyr_types::{Error, Result};
use tyr_wire::connection::{Frame, Introduction, Kind, Party, Peer};

use crate::surroundings::random;

/// Asks the cluster manager, on the calling thread.
pub struct Operator {
    /// Ends last.
    dialers: Vec<(Address, Dialer)>,
    _runtime: Runtime,
    replies: Receiver<(u64, Response)>,
    /// Why there was no connection last, by the place of the address.
    troubles: Troubles,
    /// What the first connections have shown; whoever waits for them is woken.
    greeted: Arc<(Mutex<Greeted>, Condvar)>,
    last: u64,
    /// Who is asked: whoever answered last, as long as it does.
    place: usize,
    patience: Duration,
}

/// Hears replies.
struct Ear {
    /// The place of the address.
    place: usize,
    replies: Sender<(u64, Response)>,
    troubles: Troubles,
    greeted: Arc<(Mutex<Greeted>, Condvar)>,
}

/// What the first connections to the addresses have shown.
#[derive(Default)]
struct Greeted {
    /// Those that were connected to, or cannot be.
    places: BTreeSet<usize>,
    /// Of which clusters the nodes are.
    clusters: BTreeSet<u128>,
}

impl Ear {
    fn greet(&self, peer: Option<&Peer>) {
        let (greeted, changed) = &*self.greeted;
        let mut greeted = greeted.lock();
        greeted.places.insert(self.place);
        greeted.clusters.extend(peer.and_then(|peer| peer.cluster));
        changed.notify_all();
    }
}

type Troubles = Arc<Mutex<BTreeMap<usize, Trouble>>>;

struct Trouble {
    text: String,
    /// Whether this program is not let in.
    is_denial: bool,
}

impl Handler for Ear {
    fn opened(&self, _: &Link, peer: &Peer) {
        self.greet(Some(peer));
    }

    fn received(&self, _: &Link, frame: Received<'_>) {
        if (frame.header.channel, frame.header.kind) == (MANAGER, Kind::Reply)
            && let Ok(response) = from_bytes(frame.body)
        {
            let _ended = self.replies.send((frame.header.request, response));
        }
    }

    fn closed(&self, _: &Link, _: Option<&Peer>, end: &End) {
        let trouble = Trouble { text: end.to_string(), is_denial: end.is_denial() };
        self.troubles.lock().insert(self.place, trouble);
        self.greet(None);
    }
}

impl Operator {
    /// Begins to dial these nodes. Whatever is asked fails with [`tyr_types::ErrorKind::Unavailable`] if it is not answered in time.
    pub fn new(
        addresses: &[Address],
        tls: Option<&Tls>,
        credential: &Credential,
        patience: Duration,
    ) -> Result<Self> {
        let failed = |error| Error::unavailable(format!("cannot start threads: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (sender, replies) = channel();
        let troubles = Troubles::default();
        let greeted = Arc::<(Mutex<Greeted>, Condvar)>::default();
        let (tls, credential) = (tls.cloned(), credential.clone());
        let settings = tyr_net::Settings { tls, credential, ..tyr_net::Settings::default() };
        let me = Introduction::new(Party::Client { session: SessionId::of_client(random()).0 }, None);
        let dial = |(place, address): (usize, &Address)| {
            let _runtime = runtime.enter();
            let (replies, troubles, greeted) = (sender.clone(), troubles.clone(), greeted.clone());
            let ear = Arc::new(Ear { place, replies, troubles, greeted });
            let dialer = Dialer::new(address.clone(), me.clone(), ear, settings.clone());
            (address.clone(), dialer)
        };
        let dialers = addresses.iter().enumerate().map(dial).collect();
        Ok(Operator { dialers, _runtime: runtime, replies, troubles, greeted, last: 0, place: 0, patience })
    }

    /// Everything that the cluster manager knows.
    pub fn facts(&mut self) -> Result<Difference> {
        match self.ask(&Request::Newest(RingVersion(0)))? {
            Response::Ring(difference) => Ok(difference),
            _ => Err(confused()),
        }
    }

    /// What one of the nodes that are there heard last from the cluster manager, and its address: it may be out of date, and is for when nobody
    /// leads. Fails soon with [`tyr_types::ErrorKind::Unavailable`] if none of them has heard anything.
    pub fn memory(&mut self) -> Result<(&Address, Difference)> {
        let is_anybody_there = (0..self.dialers.len()).any(|place| self.is_connected(place));
        let patience = if is_anybody_there { MEMORY_MAX.min(self.patience) } else { Duration::ZERO };
        match self.ask_within(patience, &Request::Ring(RingVersion(0)))? {
            Response::Ring(difference) => Ok((&self.dialers[self.place].0, difference)),
            _ => Err(confused()),
        }
    }

    /// How a node is doing: one of those that are dialed, in turn.
    pub fn report(&mut self) -> Result<Report> {
        match self.ask(&Request::Report)? {
            Response::Report(report) => Ok(report),
            _ => Err(confused()),
        }
    }

    /// What there is to see of a node, or of the cluster as a node sees it, as the console's JSON has it.
    pub fn view(&mut self, of: ViewOf) -> Result<String> {
        match self.ask(&Request::View(of))? {
            Response::View(Some(text)) => Ok(text),
            Response::View(None) => Err(Error::unavailable("the node cannot tell now what there is to see")),
            _ => Err(confused()),
        }
    }

    /// Has a command carried out. It may have been, too, if this fails.
    pub fn command(&mut self, command: Command) -> Result<Reply> {
        match self.ask(&Request::Command(command))? {
            Response::Replied(reply) => Ok(reply),
            _ => Err(confused()),
        }
    }

    /// Has a token made for a user, which is good for so many seconds and lets through what the limits say; all if there are none. The
    /// secret half of it is made here.
    pub fn token(
        &mut self,
        user: AccountId,
        lifetime: u64,
        limits: Vec<(Scope, Rights)>,
    ) -> Result<Result<Token, tyr_proto::cluster::Refusal>> {
        let failed = |error| Error::unavailable(format!("cannot make keys: {error}"));
        let holder = Holder::generate().map_err(failed)?;
        let order = TokenOrder { user, lifetime, limits, holder: holder.public() };
        match self.ask(&Request::Token(order))? {
            Response::Token(shown) => Ok(Ok(Token::new(&shown, holder))),
            Response::Replied(Err(refusal)) => Ok(Err(refusal)),
            _ => Err(confused()),
        }
    }

    /// Has another seal made, with which tokens are made from then on.
    pub fn seal(&mut self) -> Result<Result<SealId, tyr_proto::cluster::Refusal>> {
        match self.ask(&Request::Seal)? {
            Response::Seal(id) => Ok(Ok(id)),
            Response::Replied(Err(refusal)) => Ok(Err(refusal)),
            _ => Err(confused()),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Response> {
        self.ask_within(self.patience, request)
    }

    fn ask_within(&mut self, patience: Duration, request: &Request) -> Result<Response> {
        let (end, first) = (Instant::now() + patience, self.last + 1);
        self.wait_for_greetings();
        while Instant::now() < end && !self.dialers.is_empty() {
            self.expect_one_cluster()?;
            let step = Instant::now() + STEP;
            self.send_to_next(request);
            let left = || step.saturating_duration_since(Instant::now());
            while let Ok((number, response)) = self.replies.recv_timeout(left()) {
                match response {
                    // Of what was asked before.
                    _ if number < first => {}
                    Response::Elsewhere(_) => break,
                    Response::Denied(scope, rights) => return Err(lacks(scope, rights)),
                    response => return self.expect_one_cluster().map(|()| response),
                }
            }
            if !(0..self.dialers.len()).any(|place| self.is_connected(place))
                && let Some(trouble) = self.troubles.lock().values().find(|trouble| trouble.is_denial)
            {
                return Err(Error::denied(trouble.text.clone()));
            }
            self.place += 1;
            // Who leads may be about to change.
            std::thread::sleep(PAUSE);
        }
        Err(Error::unavailable(self.silence()))
    }

    /// Why nothing was answered: whether somebody is there, and why the others are not.
    fn silence(&self) -> String {
        let troubles = self.troubles.lock();
        let told = |place: usize| {
            let (address, trouble) = (&self.dialers[place].0, troubles.get(&place));
            trouble.map_or_else(|| address.to_string(), |trouble| format!("{address} ({})", trouble.text))
        };
        let all = 0..self.dialers.len();
        let (there, away): (Vec<usize>, Vec<usize>) = all.partition(|place| self.is_connected(*place));
        let away: Vec<String> = away.into_iter().map(told).collect();
        let there: Vec<String> = there.into_iter().map(|place| self.dialers[place].0.to_string()).collect();
        let (there, away) = (there.join(", "), away.join(", "));
        match (there.is_empty(), away.is_empty()) {
            (true, _) => format!("no node answers at {away}; check the addresses, and whether the nodes run"),
            (_, true) => format!(
                "there are nodes at {there}, but nobody leads the cluster: see whether most of its voters run and reach one another, or try again"
            ),
            _ => format!(
                "there are nodes at {there}, but nobody leads the cluster, and none answers at {away}: start nodes again until most of the cluster's voters run"
            ),
        }
    }

    fn is_connected(&self, place: usize) -> bool {
        self.dialers[place].1.link().silence().is_some()
    }

    /// Waits for everybody at the beginning, so that nodes of two clusters are not taken for one because one of them was faster.
    fn wait_for_greetings(&self) {
        let (greeted, changed) = &*self.greeted;
        let until = Instant::now() + GREETINGS_MAX.min(self.patience);
        let mut greeted = greeted.lock();
        while self.last == 0 && greeted.places.len() < self.dialers.len() {
            if changed.wait_until(&mut greeted, until).timed_out() {
                return;
            }
        }
    }

    /// Fails if nodes of several clusters are known to be asked: nobody would know whom.
    fn expect_one_cluster(&self) -> Result<()> {
        match self.greeted.0.lock().clusters.len() {
            0 | 1 => Ok(()),
            count => {
                let addresses: Vec<String> =
                    self.dialers.iter().map(|(address, _)| address.to_string()).collect();
                Err(Error::invalid(format!(
                    "the nodes at {} are of {count} clusters; name nodes of one",
                    addresses.join(", ")
                )))
            }
        }
    }

    fn send_to_next(&mut self, request: &Request) {
        self.last += 1;
        let (count, from) = (self.dialers.len(), self.place);
        // One to which there is no connection is asked if there is none to anybody.
        let place = (from..from + count).map(|place| place % count).find(|place| self.is_connected(*place));
        let place = place.unwrap_or(from % count);
        self.place = place;
        if let Some(frame) = Frame::request(MANAGER, self.last, |out| append_to(out, request)) {
            // What is not sent is not answered.
            let _lost = self.dialers[place].1.link().send(frame);
        }
    }
}

fn lacks(scope: Scope, rights: Rights) -> Error {
    let what = match scope {
        Scope::Cluster => "the cluster".to_owned(),
        Scope::Keyspaces => "all keyspaces".to_owned(),
        Scope::Keyspace(id) => format!("keyspace {}", id.0),
    };
    Error::denied(format!("this takes the right to {rights} {what}; ask who administers the cluster"))
}

fn confused() -> Error {
    Error::internal("a node answers something else than it was asked; is it of another version?")
}

/// So long a first connection to each address is waited for.
const GREETINGS_MAX: Duration = Duration::from_secs(1);
/// After so long without an answer the next node is asked.
const STEP: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
/// So long nodes are asked for what they remember.
const MEMORY_MAX: Duration = Duration::from_secs(3);
