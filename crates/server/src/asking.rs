//! Questions to other nodes that wait for their replies: a node's own, and those that it carries for clients.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tyr_net::{Link, channels::MANAGER};
use tyr_proto::{
    Time,
    cluster::{Request, Response},
    encoding::{append_to, from_bytes},
};
use tyr_wire::connection::{Frame, Peer};

use crate::surroundings::now;

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
    /// Whoever asked this node, and under which number.
    Other(Link, u64),
}

impl Asking {
    /// Asks over a link. What comes back says that nothing will if it cannot be sent, or takes too long.
    pub fn ask(&self, link: &Link, request: &Request) -> oneshot::Receiver<(Peer, Response)> {
        let (sender, receiver) = oneshot::channel();
        self.send(link, request, Waiter::Own(sender));
        receiver
    }

    /// Carries a question of somebody else.
    pub fn carry(&self, link: &Link, request: &Request, back: Link, number: u64) {
        self.send(link, request, Waiter::Other(back, number));
    }

    fn send(&self, link: &Link, request: &Request, waiter: Waiter) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(frame) = Frame::request(MANAGER, number, |out| append_to(out, request)) else { return };
        let open_max = match waiter {
            Waiter::Own(_) => OPEN_MAX,
            Waiter::Other(..) => CARRIED_MAX,
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
            Some(Waiter::Other(link, number)) => reply(&link, number, &response),
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

/// Replies to a request. A reply that cannot be sent is lost, and asked for again.
pub(crate) fn reply(link: &Link, number: u64, response: &Response) {
    if let Some(frame) = Frame::reply(MANAGER, number, |out| append_to(out, response)) {
        let _lost = link.send(frame);
    }
}

/// The most questions that wait at once.
const OPEN_MAX: usize = 4096;
/// With as many, no more are carried for others: this node has to be able to ask for its lease.
const CARRIED_MAX: usize = OPEN_MAX / 2;
/// A reply is waited for this long, in microseconds.
const PATIENCE: u64 = 10_000_000;
