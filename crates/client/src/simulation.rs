//! A client in a simulated cluster: the shipped handles and driver, over a network that the simulator carries.
//!
//! It runs where the simulator does, in a runtime whose time the simulator lets pass.

use std::{collections::BTreeMap, fmt, pin::Pin, time::Duration};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tyr_embed::Result;
use tyr_net::Address;
use tyr_proto::{
    NodeId,
    cluster::{Request, Response},
    message::{Answer, Envelope},
};
use tyr_wire::connection::{Introduction, Party, Peer};

use crate::{
    clock::Clock,
    cluster::{Cluster, Reaching},
    driver::{
        Driver,
        links::{Ear, Means, Origin, Posted, Trouble, What},
    },
    store::{Inner, Store},
    words,
};

/// A client that was not started yet.
pub struct Simulated {
    /// What its program uses.
    pub store: Store,
    /// What the client does meanwhile, until it is closed.
    pub driver: Pin<Box<dyn Future<Output = ()>>>,
    /// Its end of the network.
    pub station: Station,
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("station", &self.station).finish_non_exhaustive()
    }
}

impl Simulated {
    /// A client with this session, whose calls wait so long, and which keeps what is lent to it or does not. Called in the runtime in which it will run.
    pub fn new(session: u64, patience: Duration, keeps_copies: bool) -> Simulated {
        let (posted, mail) = unbounded_channel();
        let reaching = Reaching {
            addresses: vec![Address::Tcp("simulated".to_owned())],
            means: Means::Simulation(posted),
            zone: None,
            reads_files: false,
            tracing: None,
            clock: Clock::simulated(),
            keeps_copies,
        };
        let (cluster, beginning) = Cluster::begin(reaching, session, patience);
        let driver = Box::pin(async { Driver::new(beginning).run().await });
        let station = Station { mail, ears: BTreeMap::new(), asked: BTreeMap::new() };
        Simulated { store: Store { inner: Inner::Cluster(cluster) }, driver, station }
    }
}

/// Learns what the cluster is, before anything else is asked of the store of a [`Simulated`] client. Fails if a keyspace is not heard of: who looked for it
/// then would block the thread for which the simulator waits.
pub async fn meet(store: &Store, keyspace: &str, connect_max: Duration) -> Result<()> {
    let Inner::Cluster(cluster) = &store.inner else { return Ok(()) };
    cluster.meet(connect_max).await?;
    cluster.known_keyspace(keyspace).map(drop).ok_or_else(|| words::no_keyspace(keyspace))
}

/// Where the network and a client meet.
#[derive(Debug)]
pub struct Station {
    mail: UnboundedReceiver<Posted>,
    ears: BTreeMap<Origin, Ear>,
    /// By which connection each request to the cluster manager was made that is not answered.
    asked: BTreeMap<u64, Origin>,
}

/// What a client wants carried.
#[derive(Debug)]
pub enum Mail {
    /// To a partition at a node.
    Node(NodeId, Envelope),
    /// To the cluster manager, with a number.
    Manager(u64, Request),
}

impl Station {
    /// The next thing that is to be carried now.
    pub fn take_mail(&mut self) -> Option<Mail> {
        loop {
            match self.mail.try_recv().ok()? {
                Posted::Dialed(ear) => {
                    ear.tell(opened(), None);
                    self.ears.insert(ear.origin(), ear);
                }
                Posted::Told(node, envelope) => return Some(Mail::Node(node, envelope)),
                Posted::Asked(origin, number, request) => {
                    self.asked.insert(number, origin);
                    return Some(Mail::Manager(number, request));
                }
            }
        }
    }

    /// A node's answer arrives.
    pub fn answer(&self, node: NodeId, answer: Answer) {
        self.tell(Origin::Node(node), What::Answer(answer));
    }

    /// The answer to a request to the cluster manager arrives. Only the first one to each is heard.
    pub fn respond(&mut self, number: u64, response: Response) {
        if let Some(origin) = self.asked.remove(&number) {
            self.tell(origin, What::Response(number, response));
        }
    }

    /// The connection to a node was lost, or is there again.
    pub fn set_reach(&self, node: NodeId, is_reached: bool) {
        let lost = || What::Closed(Some(Trouble { text: "it has ended".to_owned(), is_denial: false }));
        self.tell(Origin::Node(node), if is_reached { opened() } else { lost() });
    }

    fn tell(&self, origin: Origin, what: What) {
        if let Some(ear) = self.ears.get(&origin) {
            ear.tell(what, None);
        }
    }
}

fn opened() -> What {
    let Introduction { limits, .. } = Introduction::new(Party::Client { session: 1 }, None);
    What::Opened(Peer { party: Party::Client { session: 1 }, cluster: Some(1), version: 1, limits })
}
