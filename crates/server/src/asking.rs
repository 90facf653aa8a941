//! Questions to other nodes that wait for their replies: a node's own, and those that it carries for clients.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tyr_net::{
    Link,
    channels::{MANAGER, RELAY},
};
use tyr_proto::{
    NodeId, Time,
    cluster::{Request, Response},
    encoding::{append_to, from_bytes, to_bytes},
};
use tyr_wire::connection::{Frame, Peer};

use crate::{
    audit::{Act, Audit},
    guard::{Caller, Registry, see},
    reception::Reception,
    relay::{Relayed, Way},
    surroundings::now,
};

/// Questions on the manager's channel, by their numbers.
///
/// Invariant: there are at most [`OPEN_MAX`]; what is asked beyond that is not sent. One without a reply is forgotten after
/// [`PATIENCE`].
#[derive(Debug, Default)]
pub(crate) struct Asking {
    last: AtomicU64,
    open: Mutex<BTreeMap<u64, Open>>,
}

#[derive(Debug)]
struct Open {
    since: Time,
    waiter: Waiter,
}

#[derive(Debug)]
enum Waiter {
    /// This node.
    Own(oneshot::Sender<(Peer, Response)>),
    /// Whoever asked this node.
    Other(Back),
}

impl Asking {
    /// Asks a node that has no number yet, or none that is known. What comes back says that nothing will if it cannot be sent, or takes too
    /// long.
    pub fn ask(&self, link: &Link, request: &Request) -> oneshot::Receiver<(Peer, Response)> {
        self.ask_member(NodeId(0), &Way::Direct(link.clone()), request)
    }

    /// Asks a member. The reply may come from the one who has sent the question on.
    pub fn ask_member(
        &self,
        member: NodeId,
        way: &Way,
        request: &Request,
    ) -> oneshot::Receiver<(Peer, Response)> {
        let (sender, receiver) = oneshot::channel();
        self.send(member, way, request, Waiter::Own(sender));
        receiver
    }

    /// Carries a question of somebody else to a member.
    pub fn carry(&self, member: NodeId, way: &Way, request: &Request, back: Back) {
        self.send(member, way, request, Waiter::Other(back));
    }

    fn send(&self, to: NodeId, way: &Way, request: &Request, waiter: Waiter) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (link, frame) = match way {
            Way::Direct(link) => (link, Frame::request(MANAGER, number, |out| append_to(out, request))),
            Way::Around(link) => {
                let onward = |out: &mut Vec<u8>| {
                    Relayed::Onward(to, MANAGER, &to_bytes(request)).write(out);
                };
                (link, Frame::request(RELAY, number, onward))
            }
        };
        let Some(frame) = frame else { return };
        let open_max = match waiter {
            Waiter::Own(_) => OPEN_MAX,
            Waiter::Other(_) => CARRIED_MAX,
        };
        let mut open = self.open.lock();
        if open.len() < open_max && link.send(frame).is_ok() {
            open.insert(number, Open { since: now(), waiter });
        }
    }

    /// A reply came. Returns what a reply to somebody else says. False if it makes no sense.
    pub fn replied(&self, peer: &Peer, number: u64, body: &[u8]) -> bool {
        let Ok(response) = from_bytes::<Response>(body) else { return false };
        match self.open.lock().remove(&number).map(|open| open.waiter) {
            // Whoever gave up has dropped the receiver.
            Some(Waiter::Own(sender)) => drop(sender.send((*peer, response))),
            Some(Waiter::Other(back)) => back.reply(response),
            None => {}
        }
        true
    }

    /// Forgets what was asked too long ago.
    pub fn tick(&self) {
        let now = now();
        self.open.lock().retain(|_, open| now.since(open.since) < PATIENCE);
    }
}

/// Where the reply to a question goes.
#[derive(Debug)]
pub(crate) struct Back {
    path: Path,
    asked: Asked,
}

/// By which it goes.
#[derive(Debug)]
enum Path {
    /// A connection, and the number under which it was asked.
    Link(Link, u64),
    /// To a task of this node.
    Here(oneshot::Sender<Response>),
}

/// Who asked.
#[derive(Debug)]
enum Asked {
    /// A node, which is told everything.
    Member,
    /// A client; of one that had to be let in, who it is. What it does is written down.
    Client(Box<Asker>),
}

#[derive(Debug)]
struct Asker {
    registry: Arc<Registry>,
    audit: Arc<Audit>,
    caller: Option<Arc<Caller>>,
    /// What it asked to be done, if anything.
    request: Option<Request>,
}

impl Back {
    /// To a node, or to a newcomer.
    pub fn to_member(link: Link, number: u64) -> Self {
        Back { path: Path::Link(link, number), asked: Asked::Member }
    }

    /// To a client that asked this.
    pub fn to_client(
        link: Link,
        number: u64,
        reception: &Reception,
        caller: Option<Arc<Caller>>,
        request: &Request,
    ) -> Self {
        Back { path: Path::Link(link, number), asked: Asked::client(reception, caller, request) }
    }

    /// To a task that asked this for a client. It hears nothing if that is entitled to nothing any more.
    pub fn to_task(
        reception: &Reception,
        caller: Arc<Caller>,
        request: &Request,
    ) -> (Self, oneshot::Receiver<Response>) {
        let (sender, receiver) = oneshot::channel();
        let asked = Asked::client(reception, Some(caller), request);
        (Back { path: Path::Here(sender), asked }, receiver)
    }

    /// Replies, with what whoever asked may see.
    pub fn reply(self, response: Response) {
        let Back { path, asked } = self;
        let Asked::Client(asker) = asked else { return path.reply(response) };
        let Asker { registry, audit, caller, request } = *asker;
        if let Some(request) = request {
            // What it makes has its name from now on, and what it has dropped had one.
            registry.hear(&request, &response);
            if let Some(act) = Act::of(&request, &registry) {
                audit.note(caller.as_deref(), &act, &response);
            }
        }
        let response = match caller {
            None => response,
            Some(caller) => match caller.entitlement(&registry) {
                Some(rights) => see(response, &rights),
                None => return path.close(),
            },
        };
        path.reply(response);
    }
}

impl Asked {
    fn client(reception: &Reception, caller: Option<Arc<Caller>>, request: &Request) -> Self {
        let (registry, audit) = (reception.registry.clone(), reception.audit.clone());
        let request = Act::of(request, &registry).map(|_| request.clone());
        Asked::Client(Box::new(Asker { registry, audit, caller, request }))
    }
}

impl Path {
    /// A reply that cannot be sent is lost, and asked for again.
    fn reply(self, response: Response) {
        match self {
            Path::Link(link, number) => {
                let frame = Frame::reply(MANAGER, number, |out| append_to(out, &response));
                let _lost = frame.map(|frame| link.send(frame));
            }
            Path::Here(sender) => drop(sender.send(response)),
        }
    }

    fn close(self) {
        if let Path::Link(link, _) = self {
            link.close();
        }
    }
}

/// The most questions that wait at once.
const OPEN_MAX: usize = 4096;
/// With as many, no more are carried for others: this node has to be able to ask for its lease.
const CARRIED_MAX: usize = OPEN_MAX / 2;
/// A reply is waited for this long, in microseconds.
const PATIENCE: u64 = 10_000_000;
