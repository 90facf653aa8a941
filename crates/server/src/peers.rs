//! Where the other members are, and the links to them.
//!
//! A link is dialed as soon as an address is known, and stays; who has moved is dialed anew. Only the membership's task changes anything
//! here. Shards have their own copies of the links, so that none waits for another one.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tyr_net::{Address, Dialer, Handler, Link};
use tyr_proto::{NodeId, Replica, cluster::ClusterId};
use tyr_wire::connection::{Introduction, Limits, Party};

/// Links to all other members.
pub(crate) struct Peers {
    cluster: ClusterId,
    handler: Arc<dyn Handler>,
    settings: tyr_net::Settings,
    known: Mutex<Known>,
}

struct Known {
    me: Replica,
    peers: BTreeMap<NodeId, Peer>,
}

struct Peer {
    address: Address,
    dialer: Dialer,
}

impl Peers {
    /// Nobody is known yet.
    pub fn new(
        cluster: ClusterId,
        me: Replica,
        handler: Arc<dyn Handler>,
        settings: tyr_net::Settings,
    ) -> Self {
        Peers { cluster, handler, settings, known: Mutex::new(Known { me, peers: BTreeMap::new() }) }
    }

    /// How this node introduces itself.
    pub fn introduction(cluster: ClusterId, me: Replica) -> Introduction {
        let party = Party::Node { node: me.node.0, incarnation: me.incarnation.0 };
        // The state of a partition travels whole to a new replica.
        let window = 2 * (BODY_SIZE_MAX + HEADER_SIZE);
        let limits = Limits { body_size_max: BODY_SIZE_MAX, window };
        Introduction { limits, ..Introduction::new(party, Some(cluster.0)) }
    }

    /// A member is at an address. Returns the link to it if that is news.
    pub fn learn(&self, node: NodeId, address: &Address) -> Option<Link> {
        let mut known = self.known.lock();
        let is_known = known.peers.get(&node).is_some_and(|peer| peer.address == *address);
        if is_known || node == known.me.node {
            return None;
        }
        let me = Introduction { wanted: Some(node.0), ..Peers::introduction(self.cluster, known.me) };
        let dialer = Dialer::new(address.clone(), me, self.handler.clone(), self.settings.clone());
        let link = dialer.link().clone();
        known.peers.insert(node, Peer { address: address.clone(), dialer });
        Some(link)
    }

    /// Whether a member's address is known.
    pub fn knows(&self, node: NodeId) -> bool {
        self.known.lock().peers.contains_key(&node)
    }

    /// A member has left for ever.
    pub fn forget(&self, node: NodeId) {
        self.known.lock().peers.remove(&node);
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
