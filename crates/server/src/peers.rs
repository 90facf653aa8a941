//! Where the other members are, and the links to them.
//!
//! A link is dialed as soon as an address is known, and stays; who has moved is dialed anew. Only the membership's task changes anything
//! here. Shards have their own copies of the links, so that none waits for another one.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tyr_net::{Address, Dialer, End, Handler, Link, Received, channels::MANAGER};
use tyr_proto::{
    NodeId, Replica,
    cluster::{self, ClusterId},
    encoding::append_to,
};
use tyr_wire::connection::{self, Frame, Introduction, Limits, Party};

use crate::{reception::Reception, relay::PING_AFTER};

/// Links to all other members.
pub(crate) struct Peers {
    cluster: ClusterId,
    caller: Caller,
    settings: tyr_net::Settings,
    known: Mutex<Known>,
}

struct Known {
    me: Replica,
    peers: BTreeMap<NodeId, Peer>,
}

struct Peer {
    address: Address,
    /// Where the cluster manager last said that it is.
    registered: Option<Address>,
    dialer: Dialer,
}

/// Takes what comes over connections to other members, and tells them where this node is.
#[derive(Clone)]
struct Caller {
    address: cluster::Address,
    reception: Arc<Reception>,
}

/// The same of one connection.
struct Call {
    caller: Caller,
    /// Where it leads.
    to: Address,
}

impl Handler for Call {
    fn opened(&self, link: &Link, peer: &connection::Peer) {
        if let Some(frame) = Frame::message(MANAGER, |out| append_to(out, &self.caller.address)) {
            // With the next connection it is said again.
            let _lost = link.send(frame);
        }
        self.caller.reception.opened(link, peer);
    }

    fn received(&self, link: &Link, frame: Received<'_>) {
        self.caller.reception.received(link, frame);
    }

    fn closed(&self, link: &Link, peer: Option<&connection::Peer>, end: &End) {
        self.caller.reception.close(link, peer, &self.to, end);
    }
}

impl Peers {
    /// Nobody is known yet. The address is where this node is reached.
    pub fn new(
        cluster: ClusterId,
        me: Replica,
        address: cluster::Address,
        reception: Arc<Reception>,
        settings: tyr_net::Settings,
    ) -> Self {
        let caller = Caller { address, reception };
        let settings = tyr_net::Settings { ping_after: PING_AFTER, ..settings };
        Peers { cluster, caller, settings, known: Mutex::new(Known { me, peers: BTreeMap::new() }) }
    }

    /// How this node introduces itself.
    pub fn introduction(cluster: ClusterId, me: Replica) -> Introduction {
        let party = Party::Node { node: me.node.0, incarnation: me.incarnation.0 };
        // What voters say to one another, and the ring of a large cluster, travel whole.
        let window = 2 * (BODY_SIZE_MAX + HEADER_SIZE);
        let limits = Limits { body_size_max: BODY_SIZE_MAX, window };
        Introduction { limits, ..Introduction::new(party, Some(cluster.0)) }
    }

    /// The cluster manager says that a member is at an address. Returns the link to it if that is news: a member that has since been met
    /// elsewhere has not gone back to where it was before.
    pub fn learn(&self, node: NodeId, address: &Address) -> Option<Link> {
        let mut known = self.known.lock();
        if let Some(peer) = known.peers.get_mut(&node) {
            // One that was met before anything was said of it may have moved since that was so.
            let before = peer.registered.replace(address.clone());
            if before.is_none_or(|before| before == *address) {
                return None;
            }
        }
        self.link_to(&mut known, node, address, Some(address.clone()))
    }

    /// A member has been met at an address. Returns the link to it if that is news.
    pub fn meet(&self, node: NodeId, address: &Address) -> Option<Link> {
        let mut known = self.known.lock();
        let registered = known.peers.get(&node).and_then(|peer| peer.registered.clone());
        self.link_to(&mut known, node, address, registered)
    }

    fn link_to(
        &self,
        known: &mut Known,
        node: NodeId,
        address: &Address,
        registered: Option<Address>,
    ) -> Option<Link> {
        let is_known = known.peers.get(&node).is_some_and(|peer| peer.address == *address);
        if is_known || node == known.me.node {
            return None;
        }
        let me = Introduction { wanted: Some(node.0), ..Peers::introduction(self.cluster, known.me) };
        let call = Call { caller: self.caller.clone(), to: address.clone() };
        let dialer = Dialer::new(address.clone(), me, Arc::new(call), self.settings.clone());
        let link = dialer.link().clone();
        self.caller.reception.relay.learn(node, link.clone());
        known.peers.insert(node, Peer { address: address.clone(), registered, dialer });
        Some(link)
    }

    /// A member has left for ever.
    pub fn forget(&self, node: NodeId) {
        self.known.lock().peers.remove(&node);
        self.caller.reception.relay.forget(node);
    }

    /// Sends a message to a member, if it is known, by whatever way there is. What cannot be sent is lost.
    pub fn send(&self, node: NodeId, frame: Frame) {
        if let Some(link) = self.link(node) {
            let _lost = self.caller.reception.relay.send(node, &link, frame);
        }
    }

    /// The link to a member.
    pub fn link(&self, node: NodeId) -> Option<Link> {
        self.known.lock().peers.get(&node).map(|peer| peer.dialer.link().clone())
    }

    /// Where everybody is.
    pub fn addresses(&self) -> BTreeMap<NodeId, Address> {
        self.known.lock().peers.iter().map(|(node, peer)| (*node, peer.address.clone())).collect()
    }

    /// Everybody but this node.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.known.lock().peers.keys().copied().collect()
    }
}

/// The largest body of a frame that a node takes, in bytes.
const BODY_SIZE_MAX: u32 = 128 << 20;
/// What a frame has beside its body, in bytes.
const HEADER_SIZE: u32 = 20;
