//! Where what comes over connections goes.
//!
//! Called by the tasks of the connections, so nothing here waits.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use tyr_net::{
    Address, End, Exporter, Handler, Link, Receipt, Received,
    channels::{CONSENSUS, DATA, GOSSIP, MANAGER, RELAY, TRACED},
};
use tyr_proto::{
    NodeId, SessionId, Time, TraceContext,
    cluster::{self, ClusterId},
    encoding::{append_to, from_bytes, from_bytes_holding, from_bytes_of_stranger},
    message::Envelope,
};
use tyr_store::aligned_copy;
use tyr_types::{KeyspaceId, KeyspaceName};
use tyr_wire::connection::{Channel, Error, Frame, Header, Kind, Party, Peer, Refusal};

use crate::{
    asking::{Asking, Back},
    audit::Audit,
    event::{Event, Events, Question},
    guard::{Caller, Registry},
    relay::{Relay, Relayed, Way},
    sessions::Sessions,
    shard::{Ending, Mail, Mailbox, place_of},
    surroundings::now,
    voting::Voting,
};

/// Takes what comes over all connections of a node.
pub(crate) struct Reception {
    pub mailboxes: Vec<Mailbox>,
    pub events: Events,
    pub asking: Asking,
    pub relay: Relay,
    /// What is known of accounts, and whose sessions are open. Of no use to a node without a secret.
    pub registry: Arc<Registry>,
    pub audit: Arc<Audit>,
    /// From when it runs until the server ends.
    pub voting: RwLock<Option<Voting>>,
    /// Where files are handed to clients on this host, if they are.
    pub hatch: RwLock<Option<cluster::Address>>,
    /// The connections of clients.
    pub clients: Mutex<Sessions>,
    /// The names of the keyspaces that exist, as far as the node knows.
    pub names: RwLock<Arc<Names>>,
    /// The quotas of those that have one.
    pub quotas: RwLock<Arc<Quotas>>,
    /// To whom spans are given, from when it runs, if there is a collector.
    pub exporter: OnceLock<Exporter>,
    pub counts: Counts,
}

/// The names of keyspaces.
pub(crate) type Names = BTreeMap<KeyspaceId, KeyspaceName>;

/// Quotas of keyspaces, in bytes.
pub(crate) type Quotas = BTreeMap<KeyspaceId, u64>;

/// What has come since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Frames by channel.
    pub frames: [AtomicU64; Channel::COUNT],
    /// Bytes of their bodies.
    pub bytes: [AtomicU64; Channel::COUNT],
    /// Frames that made no sense.
    pub malformed: AtomicU64,
    /// Who was not let in, or had not the rights to what it asked for.
    pub denied: AtomicU64,
    /// Files that were handed to clients on this host.
    pub files_handed: AtomicU64,
    /// Connections that are open, to and from members,
    pub nodes: AtomicU64,
    /// newcomers,
    pub newcomers: AtomicU64,
    /// and clients.
    pub clients: AtomicU64,
    /// When there was a warning last; zero before the first.
    warned_at: AtomicU64,
    /// When there was one last that no connection can be taken.
    unaccepted_at: AtomicU64,
}

impl Counts {
    /// Something was denied.
    pub fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is time for a warning again.
    pub fn may_warn(&self, now: Time) -> bool {
        is_due(&self.warned_at, now, WARN_EVERY)
    }

    /// Those with such a party at the other end.
    fn open(&self, party: Party) -> &AtomicU64 {
        match party {
            Party::Node { .. } => &self.nodes,
            Party::Newcomer { .. } => &self.newcomers,
            Party::Client { .. } => &self.clients,
        }
    }
}

impl Reception {
    /// Without a voter so far.
    pub fn new(mailboxes: Vec<Mailbox>, events: Events, directory: &Path) -> Self {
        let registry = Arc::<Registry>::default();
        let audit = Arc::new(Audit::new(directory.to_owned()));
        let (asking, relay, counts) = (Asking::default(), Relay::default(), Counts::default());
        Reception {
            mailboxes,
            events,
            asking,
            relay,
            registry,
            audit,
            voting: RwLock::default(),
            hatch: RwLock::default(),
            clients: Mutex::default(),
            names: RwLock::default(),
            quotas: RwLock::default(),
            exporter: OnceLock::new(),
            counts,
        }
    }

    /// The server ends: its shards do, and nothing keeps its voter.
    pub fn end(&self, end: Ending) {
        self.voting.write().take();
        self.mailboxes.iter().for_each(|mailbox| mailbox.put(Mail::Stop(end)));
    }

    /// What a frame says, to whom it concerns; of a client that had to be let in, who that is. False if it makes no sense.
    fn take(&self, link: &Link, frame: Received<'_>, caller: Option<&Arc<Caller>>) -> bool {
        let Received { peer, header, body, receipt } = frame;
        match (header.channel, header.kind, peer.party) {
            (CONSENSUS, Kind::Message, Party::Node { node, .. }) => self.take_vote(NodeId(node), body),
            (GOSSIP, Kind::Message, Party::Node { .. }) => {
                self.events.tell(Event::Gossip(body.to_vec()));
                true
            }
            (MANAGER, Kind::Request, party) => match from_bytes_of_stranger(body, |_| None) {
                Ok(cluster::Request::Hatch) => {
                    let response = self.hatch_for(caller);
                    let frame = Frame::reply(MANAGER, header.request, |out| append_to(out, &response));
                    // Who does not hear of it reads over the network.
                    let _lost = frame.map(|frame| link.send(frame));
                    true
                }
                Ok(request) => {
                    let (link, number, caller) = (link.clone(), header.request, caller.cloned());
                    let back = match party {
                        Party::Client { .. } => Back::to_client(link, number, self, caller.clone(), &request),
                        Party::Node { .. } | Party::Newcomer { .. } => Back::to_member(link, number),
                    };
                    let receipt = Some(receipt);
                    self.events.ask(Question { party, back, request, receipt, caller });
                    true
                }
                Err(_) => false,
            },
            (MANAGER, Kind::Message, Party::Node { .. }) if body.is_empty() => {
                self.events.tell(Event::Behind);
                true
            }
            (MANAGER, Kind::Message, Party::Node { node, .. }) => {
                match from_bytes::<cluster::Address>(body) {
                    Ok(address) => {
                        let address: Address = match address.as_str().parse() {
                            Ok(address) => address,
                            Err(never) => match never {},
                        };
                        self.events.tell(Event::Met(
                            address,
                            peer.cluster.map(ClusterId),
                            Some(NodeId(node)),
                        ));
                        true
                    }
                    Err(_) => false,
                }
            }
            // Clients are asked nothing: their replies would be to questions that others were asked.
            (MANAGER, Kind::Reply, Party::Node { .. } | Party::Newcomer { .. }) => {
                self.asking.replied(&peer, header.request, body)
            }
            (DATA, Kind::Message, Party::Node { .. } | Party::Client { .. }) => {
                self.take_data(matches!(peer.party, Party::Client { .. }), body, None, receipt)
            }
            (TRACED, Kind::Message, Party::Node { .. } | Party::Client { .. }) => {
                self.take_traced(matches!(peer.party, Party::Client { .. }), body, receipt)
            }
            (RELAY, kind @ (Kind::Message | Kind::Request), Party::Node { node, .. }) => {
                let Some(relayed) = Relayed::parse(body) else { return false };
                match kind {
                    Kind::Request => self.carry(link, header.request, relayed),
                    _ => self.take_relayed(link, NodeId(node), relayed, receipt),
                }
            }
            _ => false,
        }
    }

    fn take_vote(&self, from: NodeId, body: &[u8]) -> bool {
        // One that comes before the voter runs is asked again.
        self.voting.read().as_ref().is_none_or(|voting| voting.receive(from, body))
    }

    fn take_data(
        &self,
        is_stranger: bool,
        body: &[u8],
        context: Option<TraceContext>,
        receipt: Receipt,
    ) -> bool {
        let envelope = match is_stranger {
            true => from_bytes_of_stranger::<Envelope>(body, aligned_copy),
            false => from_bytes_holding::<Envelope>(body, aligned_copy),
        };
        let Ok(envelope) = envelope else { return false };
        self.take_envelope(envelope, context, receipt);
        true
    }

    fn take_traced(&self, is_stranger: bool, body: &[u8], receipt: Receipt) -> bool {
        let split = TraceContext::split(body);
        split.is_some_and(|(context, body)| self.take_data(is_stranger, body, Some(context), receipt))
    }

    /// A message to a partition, which may pass, with the context if it is traced.
    pub fn take_envelope(&self, envelope: Envelope, context: Option<TraceContext>, receipt: Receipt) {
        let place = place_of(envelope.partition, self.mailboxes.len());
        self.mailboxes[place].put(match context {
            None => Mail::Message(envelope, Some(receipt)),
            Some(context) => Mail::Traced(Box::new((context, envelope, Some(receipt)))),
        });
    }

    /// Where files are handed to a client, if they are to this one.
    fn hatch_for(&self, caller: Option<&Arc<Caller>>) -> cluster::Response {
        let address = self.hatch.read().clone();
        match (caller, address) {
            (None, address) => cluster::Response::Hatch(address),
            (Some(caller), Some(address)) if self.registry.reads_everything(caller) => {
                cluster::Response::Ticket(address, self.registry.issue(caller))
            }
            (Some(_), _) => cluster::Response::Hatch(None),
        }
    }

    /// A frame has come.
    pub fn count(&self, frame: &Received<'_>) {
        let channel = frame.header.channel.index();
        self.counts.frames[channel].fetch_add(1, Ordering::Relaxed);
        self.counts.bytes[channel].fetch_add(frame.body.len() as u64, Ordering::Relaxed);
    }

    /// A frame makes no sense.
    pub fn malformed(&self, frame: &Received<'_>) {
        self.note_malformed(frame.peer.party, frame.header);
    }

    fn note_malformed(&self, party: Party, header: Header) {
        self.counts.malformed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(peer = ?party, ?header, "a frame makes no sense, and is ignored");
    }

    /// Takes a frame that was counted.
    pub fn take_counted(&self, link: &Link, frame: Received<'_>, caller: Option<&Arc<Caller>>) {
        let (party, header) = (frame.peer.party, frame.header);
        if !self.take(link, frame, caller) {
            self.note_malformed(party, header);
        }
    }

    /// A message that goes through this node, or has come through that one.
    fn take_relayed(&self, link: &Link, peer: NodeId, relayed: Relayed<'_>, receipt: Receipt) -> bool {
        match relayed {
            Relayed::Onward(to, channel, body) => self.relay.carry(peer, link, to, channel, body),
            Relayed::From(from, CONSENSUS, body) => return self.take_vote(from, body),
            Relayed::From(_, DATA, body) => return self.take_data(false, body, None, receipt),
            Relayed::From(_, TRACED, body) => return self.take_traced(false, body, receipt),
            Relayed::From(..) => return false,
            Relayed::Unreached(to) => self.relay.failed(to, peer),
        }
        true
    }

    /// A question for a third node. Its reply goes back as if it were this node's.
    fn carry(&self, link: &Link, number: u64, relayed: Relayed<'_>) -> bool {
        let Relayed::Onward(to, MANAGER, body) = relayed else { return false };
        let Ok(request) = from_bytes(body) else { return false };
        match self.relay.reached(to) {
            Some(reached) => {
                self.asking.carry(to, &Way::Direct(reached), &request, Back::to_member(link.clone(), number))
            }
            None => self.relay.refuse(link, to),
        }
        true
    }
}

impl Handler for Reception {
    fn opened(&self, link: &Link, peer: &Peer) {
        tracing::debug!(peer = ?peer.party, "connected");
        self.counts.open(peer.party).fetch_add(1, Ordering::Relaxed);
        if let Party::Client { session } = peer.party {
            self.clients.lock().opened(SessionId(session), link.clone());
            for mailbox in &self.mailboxes {
                mailbox.put(Mail::Session(SessionId(session), link.clone()));
            }
        }
    }

    fn received(&self, link: &Link, frame: Received<'_>) {
        self.count(&frame);
        self.take_counted(link, frame, None);
    }

    fn closed(&self, link: &Link, peer: Option<&Peer>, end: &End) {
        self.close(link, peer, link.remote().unwrap_or("unknown"), end);
    }

    fn unaccepted(&self, error: &io::Error) {
        if is_due(&self.counts.unaccepted_at, now(), UNACCEPTED_EVERY) {
            tracing::warn!(%error, "no connection can be taken; those who dial wait");
        }
    }
}

impl Reception {
    /// A connection has ended, or an attempt to make one, with whoever is at this address.
    pub fn close(&self, link: &Link, peer: Option<&Peer>, address: impl fmt::Display, end: &End) {
        let party = peer.map(|peer| peer.party);
        if told_loudly(end) && self.counts.may_warn(now()) {
            tracing::warn!(peer = ?party, %address, %end, "a connection is not made");
        } else {
            tracing::debug!(peer = ?party, %address, %end, "a connection has ended");
        }
        if let Some(peer) = peer {
            self.counts.open(peer.party).fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(Party::Client { session }) = peer.map(|peer| peer.party) {
            self.clients.lock().closed(SessionId(session), link);
            for mailbox in &self.mailboxes {
                mailbox.put(Mail::SessionOver(SessionId(session), link.clone()));
            }
        }
    }
}

/// Whether it is time again for what is done once in so many microseconds, and was done last then.
fn is_due(last: &AtomicU64, now: Time, every: u64) -> bool {
    let done = last.load(Ordering::Relaxed);
    let is_due = done == 0 || now.since(Time(done)) >= every;
    is_due && last.compare_exchange(done, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Whether somebody has to do something about it: the two ends are not set up alike.
fn told_loudly(end: &End) -> bool {
    match end {
        End::Failed(Error::Refused(refusal)) => {
            !matches!(refusal, Refusal::Stopping | Refusal::TooManyConnections | Refusal::WrongNode)
        }
        // Certificates, and who speaks something else.
        End::Lost(error) => {
            matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied)
        }
        End::Failed(_) | End::Closed | End::Silent => false,
    }
}

/// At most one warning of connections in this time, in microseconds: those who cannot connect try again and again.
const WARN_EVERY: u64 = 1_000_000;
/// The same of those that cannot be taken, which is tried again without end.
const UNACCEPTED_EVERY: u64 = 60_000_000;

/// Takes what comes over a connection to an address of the settings, and tells who is there.
pub(crate) struct Greeter {
    pub address: Address,
    pub reception: Arc<Reception>,
    /// As whom it is dialed.
    pub me: Party,
    /// Whether this node is itself what answers there.
    pub is_own: Arc<AtomicBool>,
}

impl Handler for Greeter {
    fn opened(&self, _: &Link, peer: &Peer) {
        let node = match peer.party {
            Party::Node { node, .. } => Some(NodeId(node)),
            Party::Newcomer { .. } | Party::Client { .. } => None,
        };
        self.is_own.store(peer.party == self.me, Ordering::Relaxed);
        let met = Event::Met(self.address.clone(), peer.cluster.map(ClusterId), node);
        self.reception.events.tell(met);
    }

    fn received(&self, link: &Link, frame: Received<'_>) {
        self.reception.received(link, frame);
    }

    fn closed(&self, _: &Link, _: Option<&Peer>, end: &End) {
        match told_loudly(end) && self.reception.counts.may_warn(now()) {
            true => {
                tracing::warn!(address = %self.address, %end, "not connected to a node that is named to join by")
            }
            false => {
                tracing::debug!(address = %self.address, %end, "not connected to a node that is named to join by")
            }
        }
    }
}
