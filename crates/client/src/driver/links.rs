//! The connections of a client: one to every member, since any of them may have something to answer, and as long as none of those is
//! open one to each address that the caller named.
//!
//! A dialer makes its connection anew when it is lost. What is handed in while there is none waits only up to a bound: the protocol says
//! everything again.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio::sync::mpsc::UnboundedSender;
use tyr_net::{Address, Dialer, End, Handler, Link, Receipt, Received, Settings, channels};
use tyr_proto::{
    NodeId, TraceContext,
    cluster::{Request, Response},
    encoding::{append_to, append_with_insets, from_bytes},
    message::{Answer, Envelope},
};
use tyr_wire::connection::{Error, Frame, Introduction, Kind, Party, Peer, Refusal};

/// Which connection something came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// That of a member.
    Node(NodeId),
    /// That of one of the caller's addresses.
    Seed(usize),
}

/// What came.
#[derive(Debug)]
pub struct Heard {
    /// By which connection: which one of its kind since the beginning,
    pub number: u64,
    /// and whose it is.
    pub origin: Origin,
    /// What.
    pub what: What,
    /// What is held as long as this is not dealt with.
    pub _receipt: Option<Receipt>,
}

/// What came by a connection.
#[derive(Debug)]
pub enum What {
    /// It is open.
    Opened(Peer),
    /// It was lost, or could not be made, with what keeps it from being made, if that is anything to tell.
    Closed(Option<Trouble>),
    /// A node answers.
    Answer(Answer),
    /// A node answers a request to the cluster manager.
    Response(u64, Response),
}

/// By what connections are made.
#[derive(Debug)]
pub enum Means {
    /// Sockets.
    Sockets(Settings),
    /// A simulated network, which is told everything.
    #[cfg(feature = "simulation")]
    Simulation(UnboundedSender<Posted>),
}

/// What a simulated network is told.
#[cfg(feature = "simulation")]
#[derive(Debug)]
pub enum Posted {
    /// A connection is wanted, and who hears what comes by it.
    Dialed(Ear),
    /// A message to a partition at a node.
    Told(NodeId, Envelope),
    /// A request to the cluster manager, by a connection, with its number.
    Asked(Origin, u64, Request),
}

/// The connections.
#[derive(Debug)]
pub struct Links {
    me: Introduction,
    /// A session for connections to the caller's addresses: a node answers a session on the newest connection that it has, and theirs
    /// may be newer than that to the member, and end.
    guest: u64,
    means: Means,
    heard: UnboundedSender<Heard>,
    made: u64,
    dialed: BTreeMap<Origin, Dialed>,
}

#[derive(Debug)]
struct Dialed {
    number: u64,
    address: Address,
    line: Line,
    is_open: bool,
    /// Whether somebody of another cluster is there, who is not heard.
    is_foreign: bool,
    /// Whether anything came of it yet.
    is_tried: bool,
    trouble: Option<Trouble>,
}

/// What makes one connection, again and again.
#[derive(Debug)]
enum Line {
    Socket(Dialer),
    #[cfg(feature = "simulation")]
    Simulated,
}

/// What keeps a connection from being made.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// In words.
    pub text: String,
    /// Whether this client is not let in, as often as it may try.
    pub is_denial: bool,
}

/// As many bytes wait for a connection that is not there.
const WAITING_MAX: usize = 1 << 20;

impl Links {
    /// A client's connections, of which there are none yet.
    pub fn new(session: u64, guest: u64, means: Means, heard: UnboundedSender<Heard>) -> Self {
        let me = Introduction::new(Party::Client { session }, None);
        Links { me, guest, means, heard, made: 0, dialed: BTreeMap::new() }
    }

    /// Dials an address, unless that is being done.
    pub fn dial(&mut self, origin: Origin, address: Address) {
        if self.dialed.get(&origin).is_some_and(|dialed| dialed.address == address) {
            return;
        }
        self.made += 1;
        let ear = Ear { number: self.made, origin, heard: self.heard.clone() };
        let me = match origin {
            Origin::Node(node) => Introduction { wanted: Some(node.0), ..self.me.clone() },
            Origin::Seed(_) => {
                Introduction { party: Party::Client { session: self.guest }, ..self.me.clone() }
            }
        };
        let line = match &self.means {
            Means::Sockets(settings) => {
                Line::Socket(Dialer::new(address.clone(), me, Arc::new(ear), settings.clone()))
            }
            #[cfg(feature = "simulation")]
            Means::Simulation(posted) => {
                // A network that has ended carries nothing.
                let _ = posted.send(Posted::Dialed(ear));
                Line::Simulated
            }
        };
        let (is_open, is_foreign, is_tried) = (false, false, false);
        let dialed =
            Dialed { number: self.made, address, line, is_open, is_foreign, is_tried, trouble: None };
        self.dialed.insert(origin, dialed);
    }

    /// Hangs up at once.
    pub fn hang_up(&mut self, is_needless: impl Fn(Origin) -> bool) {
        self.dialed.retain(|origin, _| !is_needless(*origin));
    }

    /// Whether a connection to any member is open.
    pub fn reaches_a_member(&self) -> bool {
        let mut members = self.dialed.iter().filter(|(origin, _)| matches!(origin, Origin::Node(_)));
        members.any(|(_, dialed)| dialed.is_open)
    }

    /// Which cluster it is, once that is known.
    pub fn cluster(&self) -> Option<u128> {
        self.me.cluster
    }

    /// Whether a connection to a member is open.
    pub fn reaches(&self, node: NodeId) -> bool {
        self.dialed.get(&Origin::Node(node)).is_some_and(|dialed| dialed.is_open)
    }

    /// Whether whoever is there is of another cluster.
    pub fn is_foreign(&self, origin: Origin) -> bool {
        self.dialed.get(&origin).is_some_and(|dialed| dialed.is_foreign)
    }

    /// Whether a connection was made, or could not be.
    pub fn has_heard(&self, origin: Origin) -> bool {
        self.dialed.get(&origin).is_some_and(|dialed| dialed.is_open || dialed.trouble.is_some())
    }

    /// Takes note of a connection that has opened or closed. False for one that is not wanted any more, or leads to another cluster than the
    /// one that was found first.
    pub fn note(&mut self, heard: &Heard) -> bool {
        let known = self.dialed.get_mut(&heard.origin).filter(|dialed| dialed.number == heard.number);
        let Some(dialed) = known else { return false };
        dialed.is_tried |= matches!(heard.what, What::Opened(_) | What::Closed(_));
        match &heard.what {
            What::Opened(peer) => {
                self.me.cluster = self.me.cluster.or(peer.cluster);
                dialed.is_foreign = peer.cluster.is_some() && peer.cluster != self.me.cluster;
                (dialed.is_open, dialed.trouble) = (!dialed.is_foreign, None);
                if dialed.is_foreign {
                    let text = "is of another cluster than the other addresses; name nodes of one".to_owned();
                    dialed.trouble = Some(Trouble { text, is_denial: false });
                }
            }
            What::Closed(trouble) => (dialed.is_open, dialed.trouble) = (false, trouble.clone()),
            What::Answer(_) | What::Response(..) => {}
        }
        !dialed.is_foreign
    }

    /// Sends a message to a partition at a node, with the context if it is traced.
    pub fn tell(&self, node: NodeId, envelope: &Envelope, context: Option<TraceContext>) {
        #[cfg(feature = "simulation")]
        if let Means::Simulation(posted) = &self.means {
            let _ = posted.send(Posted::Told(node, envelope.clone()));
            return;
        }
        let frame = match context {
            None => Frame::message_with_insets(channels::DATA, |out| append_with_insets(out, envelope)),
            Some(context) => Frame::message_with_insets(channels::TRACED, |out| {
                context.write(out);
                append_with_insets(out, envelope)
            }),
        };
        self.send(Origin::Node(node), frame);
    }

    /// Asks something of the cluster manager.
    pub fn ask(&self, origin: Origin, number: u64, request: &Request) {
        #[cfg(feature = "simulation")]
        if let Means::Simulation(posted) = &self.means {
            let _ = posted.send(Posted::Asked(origin, number, request.clone()));
            return;
        }
        let frame = Frame::request(channels::MANAGER, number, |out| append_to(out, request));
        self.send(origin, frame);
    }

    fn send(&self, origin: Origin, frame: Option<Frame>) {
        let (Some(dialed), Some(frame)) = (self.dialed.get(&origin), frame) else { return };
        let link = match &dialed.line {
            Line::Socket(dialer) => dialer.link(),
            #[cfg(feature = "simulation")]
            Line::Simulated => return,
        };
        if dialed.is_open || link.waiting() <= WAITING_MAX {
            // What does not fit is said again later.
            let _ = link.send(frame);
        }
    }

    /// Why nobody lets this client in; none as long as anybody does, or may.
    pub fn denial(&self) -> Option<&str> {
        let mut denial = None;
        for dialed in self.dialed.values() {
            match &dialed.trouble {
                _ if dialed.is_open || !dialed.is_tried => return None,
                Some(trouble) if trouble.is_denial => denial = Some(&trouble.text[..]),
                _ => {}
            }
        }
        denial
    }

    /// What keeps connections from being made, as the end of a sentence; empty if nothing is known to.
    pub fn troubles(&self) -> String {
        let mut told: Vec<String> = Vec::new();
        for dialed in self.dialed.values() {
            let Some(trouble) = &dialed.trouble else { continue };
            let text = format!("{}: {}", dialed.address, trouble.text);
            // A member may be at an address that the caller named.
            if !told.contains(&text) {
                told.push(text);
            }
        }
        if told.is_empty() { String::new() } else { format!(" ({})", told.join("; ")) }
    }

    /// Sends what was handed in, and ends.
    pub async fn close(self) {
        for dialed in self.dialed.into_values() {
            match dialed.line {
                Line::Socket(dialer) if dialed.is_open => dialer.close().await,
                line => drop(line),
            }
        }
    }
}

/// Hears what comes by one connection.
pub struct Ear {
    number: u64,
    origin: Origin,
    heard: UnboundedSender<Heard>,
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ear({}, {:?})", self.number, self.origin)
    }
}

impl Ear {
    /// Whose connection it is.
    #[cfg(feature = "simulation")]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Something came by it.
    pub fn tell(&self, what: What, receipt: Option<Receipt>) {
        // If nobody listens, the client has ended.
        let _ = self.heard.send(Heard { number: self.number, origin: self.origin, what, _receipt: receipt });
    }
}

impl Handler for Ear {
    fn opened(&self, _: &Link, peer: &Peer) {
        self.tell(What::Opened(*peer), None);
    }

    fn received(&self, _: &Link, frame: Received<'_>) {
        let Received { header, body, receipt, .. } = frame;
        // What cannot be read is ignored, like everything that is lost on its way.
        let what = match (header.channel, header.kind) {
            (channels::DATA, Kind::Message) => from_bytes(body).ok().map(What::Answer),
            (channels::MANAGER, Kind::Reply) => {
                from_bytes(body).ok().map(|response| What::Response(header.request, response))
            }
            _ => None,
        };
        if let Some(what) = what {
            self.tell(what, Some(receipt));
        }
    }

    fn closed(&self, _: &Link, _: Option<&Peer>, end: &End) {
        // Another node has the address of a member that is away: this is told by the cluster manager, and keeps nothing from being done.
        let is_news = !matches!(end, End::Failed(Error::Refused(Refusal::WrongNode)));
        let trouble = is_news.then(|| Trouble { text: end.to_string(), is_denial: end.is_denial() });
        self.tell(What::Closed(trouble), None);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[tokio::test]
    async fn that_another_node_has_an_address_by_now_is_no_reason_for_anything() {
        let mut links = Links::new(1, 2, Means::Sockets(Settings::default()), unbounded_channel().0);
        let origin = Origin::Node(NodeId(3));
        links.dial(origin, Address::Unix("/nowhere".into()));
        let link = match &links.dialed[&origin].line {
            Line::Socket(dialer) => dialer.link().clone(),
            #[cfg(feature = "simulation")]
            Line::Simulated => panic!("it is a socket"),
        };
        let (sender, mut receiver) = unbounded_channel();
        let ear = Ear { number: 1, origin, heard: sender };
        for (refusal, is_told) in [(Refusal::WrongCluster, true), (Refusal::WrongNode, false)] {
            ear.closed(&link, None, &End::Failed(Error::Refused(refusal)));
            assert!(links.note(&receiver.recv().await.unwrap()));
            assert_eq!(!links.troubles().is_empty(), is_told, "{}", links.troubles());
        }
    }

    #[tokio::test]
    async fn who_is_not_let_in_by_one_waits_for_what_the_others_say() {
        let mut links = Links::new(1, 2, Means::Sockets(Settings::default()), unbounded_channel().0);
        let (sender, mut receiver) = unbounded_channel();
        let seeds = [0, 1, 2].map(Origin::Seed);
        for (number, origin) in seeds.into_iter().enumerate() {
            links.dial(origin, Address::Unix(format!("/{number}").into()));
        }
        let mut denials = Vec::new();
        for (number, is_denial) in [(1, true), (3, false), (2, true)] {
            let origin = seeds[usize::try_from(number).unwrap() - 1];
            let trouble = Trouble { text: format!("no {number}"), is_denial };
            Ear { number, origin, heard: sender.clone() }.tell(What::Closed(Some(trouble)), None);
            assert!(links.note(&receiver.recv().await.unwrap()));
            denials.push(links.denial().map(str::to_owned));
        }
        assert_eq!(denials, [None, None, Some("no 2".to_owned())]);
    }

    #[tokio::test]
    async fn an_address_is_told_once_whoever_is_there() {
        let mut links = Links::new(1, 2, Means::Sockets(Settings::default()), unbounded_channel().0);
        let (sender, mut receiver) = unbounded_channel();
        for (number, origin) in (1..).zip([Origin::Seed(0), Origin::Node(NodeId(3)), Origin::Node(NodeId(4))])
        {
            let path = if origin == Origin::Node(NodeId(4)) { "/elsewhere" } else { "/nowhere" };
            links.dial(origin, Address::Unix(path.into()));
            let trouble = Trouble { text: "is not there".to_owned(), is_denial: false };
            Ear { number, origin, heard: sender.clone() }.tell(What::Closed(Some(trouble)), None);
            assert!(links.note(&receiver.recv().await.unwrap()));
        }
        let told = links.troubles();
        assert_eq!(told.matches("/nowhere: is not there").count(), 1, "{told}");
        assert_eq!(told.matches("/elsewhere: is not there").count(), 1, "{told}");
    }
}
