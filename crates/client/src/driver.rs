//! The one task of a client: it owns the protocol's client, the connections, and what is under way, and is told everything by channels.
//!
//! It runs on a thread of its own with a runtime of its own, so that callers need no particular one. It knows the time and draws random
//! numbers; the protocol's client does neither.
//!
//! Invariants:
//!
//! - Every call is answered, at the latest when its time is over. What was sent by then goes on to its end.
//! - Only blobs of keyspaces that the protocol's client knows get there.
//! - Memory is bounded by what callers have under way: what comes is held against the credit of its connection.

mod applies;
pub mod call;
pub mod catalog;
#[cfg(test)]
mod fixture;
mod hatches;
mod links;
mod manager;
mod nearness;
mod seats;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, sleep_until},
};
use tyr_net::{Address, HatchOwner, Patience, Settings, Tls};
use tyr_proto::{
    BlobName, Client, ClientOutput, Event, NodeId, ReadAnswer, ReadId, RingVersion, Run, SPOT_MIN, SessionId,
    Snapshot, Time, Transaction,
    cluster::{self, Difference, Fact, MemberState, Request, Response, Zone},
    message::{Answer, Envelope, HeadStat, Message, RequestId},
};
use tyr_types::{Error, KeyspaceId, Result};

use crate::words;
use applies::{Applies, Apply};
use call::{Call, Found, Handle, Reply};
use catalog::Catalog;
pub use hatches::Counts;
use hatches::{Found as InFiles, Hatches, Located};
use links::{Heard, Links, Origin, What};
use manager::Manager;
use nearness::Nearness;
use seats::{Seat, Wants};

/// The task.
pub struct Driver {
    client: Client,
    began: Instant,
    catalog: Arc<Catalog>,
    links: Links,
    manager: Manager,
    nearness: Nearness,
    hatches: Hatches,
    /// What has happened at hatches.
    shown: UnboundedReceiver<hatches::Heard>,
    /// Whether files of nodes on this host are read here.
    reads_files: bool,
    /// Requests for which a node is to send bytes, wherever they are.
    plain: BTreeSet<RequestId>,
    counts: Arc<Counts>,
    /// The addresses that the caller named.
    seeds: Vec<Address>,
    /// The addresses of members.
    members: BTreeMap<NodeId, Address>,
    /// The ring version of which nothing is missing.
    whole: RingVersion,
    random: u64,
    calls: UnboundedReceiver<Call>,
    heard: UnboundedReceiver<Heard>,
    seats: BTreeMap<Handle, Seat>,
    applies: Applies,
    names: BTreeMap<RequestId, Names>,
    heads: BTreeMap<RequestId, Heads>,
    freezes: BTreeMap<RequestId, Freeze>,
    snapshots: BTreeMap<Handle, Frozen>,
    runs: BTreeMap<Handle, Running>,
    /// For whom blobs are looked at and read.
    owners: BTreeMap<RequestId, Owner>,
    next_tick: Instant,
    next_check: Instant,
    closing: Option<Closing>,
}

/// What a driver begins with.
pub struct Beginning {
    /// The addresses that the caller named.
    pub seeds: Vec<Address>,
    /// How connections are encrypted, if they are.
    pub tls: Option<Tls>,
    /// The client's zone, if it is in one.
    pub zone: Option<Zone>,
    /// Whether files of nodes on this host are read here.
    pub reads_files: bool,
    /// How reads are answered.
    pub counts: Arc<Counts>,
    /// The client's session: a random number that is not 0.
    pub session: u64,
    /// What all handles know of keyspaces.
    pub catalog: Arc<Catalog>,
    /// What the handles ask.
    pub calls: UnboundedReceiver<Call>,
}

#[derive(Debug)]
struct Names {
    until: Instant,
    reply: Reply<(Vec<BlobName>, bool)>,
}

#[derive(Debug)]
struct Heads {
    until: Instant,
    reply: Reply<Vec<Option<HeadStat>>>,
}

#[derive(Debug)]
struct Freeze {
    of: Handle,
    until: Instant,
    reply: Reply<()>,
}

#[derive(Debug)]
struct Frozen {
    snapshot: Snapshot,
    reads: BTreeMap<ReadId, FrozenRead>,
}

#[derive(Debug)]
struct FrozenRead {
    until: Instant,
    reply: Reply<Option<Vec<u8>>>,
}

#[derive(Debug)]
struct Running {
    run: Run,
    begins: Option<(Handle, Instant, Reply<()>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Seat(Handle),
    Snapshot(Handle),
}

struct Closing {
    until: Instant,
    replies: Vec<Reply<()>>,
}

/// How often time passes for the protocol's client while something is under way,
const TICK: Duration = Duration::from_millis(20);
/// while somebody waits for a pause to end,
const TICK_SHORT: Duration = Duration::from_millis(1);
/// and while nothing is.
const TICK_LONG: Duration = Duration::from_millis(250);
/// How often it is looked who has waited too long.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// A client that is closed waits this long for what is under way.
const CLOSE_MAX: Duration = Duration::from_secs(5);

impl Driver {
    /// A driver that has dialed the addresses, in the runtime that this is called in.
    pub fn new(beginning: Beginning) -> Self {
        let Beginning { seeds, tls, zone, reads_files, counts, session, catalog, calls } = beginning;
        let (teller, heard) = unbounded_channel();
        let (hatches, shown) = Hatches::new();
        let mut links =
            Links::new(session, crate::cluster::random(), Settings { tls, ..Settings::default() }, teller);
        let first = usize::try_from(session % 1024).unwrap_or(0);
        let manager = Manager::new(seeds.len(), first);
        for (place, address) in seeds.iter().enumerate() {
            links.dial(Origin::Seed(place), address.clone());
        }
        let now = Instant::now();
        Driver {
            client: Client::new(SessionId(session), catalog.placed()),
            began: now,
            catalog,
            links,
            manager,
            nearness: Nearness::new(zone),
            hatches,
            shown,
            reads_files,
            plain: BTreeSet::new(),
            counts,
            seeds,
            members: BTreeMap::new(),
            whole: RingVersion(0),
            random: session,
            calls,
            heard,
            seats: BTreeMap::new(),
            applies: Applies::default(),
            names: BTreeMap::new(),
            heads: BTreeMap::new(),
            freezes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            runs: BTreeMap::new(),
            owners: BTreeMap::new(),
            next_tick: now,
            next_check: now,
            closing: None,
        }
    }

    /// Runs until the client is closed.
    pub async fn run(mut self) {
        while !self.is_done() {
            tokio::select! {
                call = self.calls.recv(), if self.closing.is_none() => match call {
                    Some(call) => self.take(call),
                    None => self.close(None),
                },
                Some(heard) = self.heard.recv() => self.hear(heard),
                Some(heard) = self.shown.recv() => self.hear_hatch(heard),
                () = sleep_until(self.next_tick) => self.tick(),
            }
            for _ in 0..BATCH {
                let (call, heard) = (self.calls.try_recv().ok(), self.heard.try_recv().ok());
                if call.is_none() && heard.is_none() {
                    break;
                }
                call.into_iter().for_each(|call| self.take(call));
                heard.into_iter().for_each(|heard| self.hear(heard));
            }
            self.settle();
        }
        self.calls.close();
        self.links.close().await;
        for reply in self.closing.into_iter().flat_map(|closing| closing.replies) {
            // Who asked may be gone, here and everywhere below.
            let _ = reply.send(Ok(()));
        }
    }

    fn is_done(&self) -> bool {
        let is_idle =
            || self.client.is_idle() && self.applies.is_empty() && !self.seats.values().any(Seat::is_ending);
        self.closing.as_ref().is_some_and(|closing| closing.until <= Instant::now() || is_idle())
    }

    fn close(&mut self, reply: Option<Reply<()>>) {
        let until = Instant::now() + CLOSE_MAX;
        let closing = self.closing.get_or_insert(Closing { until, replies: Vec::new() });
        closing.replies.extend(reply);
        self.calls.close();
        // Whatever only reads is of no use any more.
        self.names.clear();
        self.heads.clear();
        self.freezes.clear();
        self.applies.turn_away();
        for frozen in std::mem::take(&mut self.snapshots).into_values() {
            let mut snapshot = frozen.snapshot;
            snapshot.let_go(&mut self.client);
        }
        for mut running in std::mem::take(&mut self.runs).into_values() {
            running.run.end(&mut self.client);
        }
        for (_, mut seat) in self.seats.extract_if(.., |_, seat| !seat.is_ending()) {
            seat.transaction.roll_back(&mut self.client);
        }
    }

    fn now(&self) -> Time {
        self.time(Instant::now())
    }

    fn time(&self, at: Instant) -> Time {
        Time(u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX))
    }

    /// A random number: xorshift64 (G. Marsaglia, "Xorshift RNGs", 2003).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn turn(&mut self) -> usize {
        usize::try_from(self.draw() % 64).unwrap_or(0)
    }
}

// What callers ask.
impl Driver {
    fn take(&mut self, call: Call) {
        let now = self.now();
        match call {
            Call::Read { of, blob, range, until, reply } => {
                self.with_seat(of, |seat, client| {
                    let id = seat.transaction.read(client, now, &blob, range);
                    seat.wait(id, until, Wants::Bytes(reply));
                });
            }
            Call::Stat { of, blob, until, reply } => {
                self.with_seat(of, |seat, client| {
                    let id = seat.transaction.stat(client, now, &blob);
                    seat.wait(id, until, Wants::Blob(blob, reply));
                });
            }
            Call::Probe { of, blob, until, reply } => {
                self.with_seat(of, |seat, client| {
                    let id = seat.transaction.exists(client, now, &blob);
                    seat.wait(id, until, Wants::Blob(blob, reply));
                });
            }
            Call::Check { of, blob, check } => {
                self.with_seat(of, |seat, client| seat.transaction.check(client, now, &blob, check));
            }
            Call::Change { of, blob, operations } => {
                self.with_seat(of, |seat, _| {
                    for operation in operations {
                        seat.transaction.change(&blob, operation);
                    }
                });
            }
            Call::Commit { of, only_reads, until, reply } => {
                let gives_up_at = Some(self.time(until));
                self.with_seat(of, |seat, client| {
                    seat.wait_for_end(until, reply);
                    match only_reads {
                        true => seat.transaction.validate(client, now, gives_up_at),
                        false => seat.transaction.commit(client, now, gives_up_at),
                    }
                });
            }
            Call::RollBack { of } => {
                if let Some(mut seat) = self.seats.remove(&of) {
                    seat.transaction.roll_back(&mut self.client);
                }
            }
            Call::Keep { of } => self.with_seat(of, |seat, _| seat.keep(true)),
            Call::Await { of, until, reply } => match self.seats.get_mut(&of) {
                Some(seat) => seat.await_end(until, reply),
                None => drop(reply.send(Err(words::not_committed()))),
            },
            Call::Drop { of } => {
                if self.seats.contains_key(&of) {
                    self.with_seat(of, |seat, _| seat.keep(false));
                }
            }
            Call::Apply { blob, operations, until, reply } => {
                let gives_up_at = self.time(until);
                let apply = Apply { blob, operations, until, gives_up_at, reply: Some(reply), room: None };
                self.applies.take(&mut self.client, now, apply);
            }
            Call::Names { partition, after, inclusive, limit, until, reply } => {
                let turn = self.turn();
                let request = self.client.scan(now, partition, after, inclusive, limit, turn);
                self.names.insert(request, Names { until, reply });
            }
            Call::Heads { blobs, until, reply } => {
                let turn = self.turn();
                match self.client.stat(now, blobs, turn) {
                    Some(request) => drop(self.heads.insert(request, Heads { until, reply })),
                    None => drop(reply.send(Ok(Vec::new()))),
                }
            }
            Call::Freeze { of, keyspaces, until, reply } => {
                let prefixes = keyspaces.into_iter().map(|keyspace| (keyspace, &b""[..]));
                let request = self.client.snapshot_prefixes(now, &prefixes.collect());
                self.freezes.insert(request, Freeze { of, until, reply });
            }
            Call::LookFrozen { of, blob, reply } => {
                let found = self.frozen(of).map(|frozen| found(&frozen.snapshot, &blob));
                let _ = reply.send(found);
            }
            Call::ReadFrozen { of, blob, range, until, reply } => {
                self.read_frozen(of, &blob, range, until, reply)
            }
            Call::ListFrozen { of, keyspace, prefix, after, limit, reply } => {
                let listed = self
                    .frozen(of)
                    .map(|frozen| list(&frozen.snapshot, keyspace, &prefix, after.as_deref(), limit));
                let _ = reply.send(listed);
            }
            Call::LetGo { of } => {
                if let Some(mut frozen) = self.snapshots.remove(&of) {
                    frozen.snapshot.let_go(&mut self.client);
                }
            }
            Call::Begin { run, of, until, reply } => {
                let seed = self.draw();
                let running =
                    self.runs.entry(run).or_insert_with(|| Running { run: Run::new(seed), begins: None });
                running.begins = Some((of, until, reply));
            }
            Call::Refused { run, refusal, touched } => self.refuse(run, refusal, &touched),
            Call::EndRun { run } => {
                if let Some(mut running) = self.runs.remove(&run) {
                    running.run.end(&mut self.client);
                }
            }
            Call::Manage { command, until, reply } => {
                self.manager.command(&self.links, now, command, until, reply);
            }
            Call::Refresh { until, reply } => self.manager.refresh(until, reply),
            Call::Close { reply } => self.close(Some(reply)),
        }
    }

    /// Does something with a transaction, which begins if it has not.
    fn with_seat(&mut self, of: Handle, act: impl FnOnce(&mut Seat, &mut Client)) {
        if !self.seats.contains_key(&of) {
            let turn = self.turn();
            self.seats.insert(of, Seat::new(Transaction::begin(turn)));
        }
        let Some(seat) = self.seats.get_mut(&of) else { return };
        act(seat, &mut self.client);
        self.flush(Some(Owner::Seat(of)));
        self.settle_seat(of);
    }

    fn settle_seat(&mut self, of: Handle) {
        let now = self.now();
        let Some(seat) = self.seats.get_mut(&of) else { return };
        let links = &self.links;
        seat.settle(&mut self.client, now, || links.troubles());
        if seat.is_over() {
            self.seats.remove(&of);
        }
    }

    fn frozen(&mut self, of: Handle) -> Result<&mut Frozen> {
        self.snapshots.get_mut(&of).ok_or_else(words::closed)
    }

    fn read_frozen(
        &mut self,
        of: Handle,
        blob: &BlobName,
        range: core::ops::Range<u64>,
        until: Instant,
        reply: Reply<Option<Vec<u8>>>,
    ) {
        let now = self.now();
        let Some(frozen) = self.snapshots.get_mut(&of) else {
            let _ = reply.send(Err(words::closed()));
            return;
        };
        match frozen.snapshot.read(&mut self.client, now, blob, range) {
            Some(id) => drop(frozen.reads.insert(id, FrozenRead { until, reply })),
            None => drop(reply.send(Ok(None))),
        }
        self.flush(Some(Owner::Snapshot(of)));
        self.settle_snapshot(of);
    }

    fn settle_snapshot(&mut self, of: Handle) {
        let Some(frozen) = self.snapshots.get_mut(&of) else { return };
        while let Some((id, answer)) = frozen.snapshot.poll_answer() {
            let Some(FrozenRead { reply, .. }) = frozen.reads.remove(&id) else { continue };
            let _ = reply.send(match answer {
                ReadAnswer::Bytes(bytes) => Ok(bytes),
                ReadAnswer::Stat(_) | ReadAnswer::Lost => Err(expired()),
            });
        }
    }

    fn refuse(&mut self, run: Handle, refusal: tyr_proto::Refusal, touched: &BTreeSet<BlobName>) {
        let now = self.now();
        if let Some(running) = self.runs.get_mut(&run) {
            running.run.handle_refusal(&mut self.client, now, refusal, touched);
        }
    }

    /// Begins the tries whose time has come.
    fn begin_tries(&mut self) {
        let now = self.now();
        for running in self.runs.values_mut() {
            if running.begins.is_none() {
                continue;
            }
            if let Some(transaction) = running.run.begin(now)
                && let Some((of, _, reply)) = running.begins.take()
            {
                self.seats.insert(of, Seat::new(transaction));
                let _ = reply.send(Ok(()));
            }
        }
    }
}

// What comes by the connections.
impl Driver {
    fn hear(&mut self, heard: Heard) {
        if !self.links.note(&heard) {
            return;
        }
        let now = self.now();
        match (heard.what, heard.origin) {
            (What::Answer(Answer::Located { request, version, stretches, whole }), Origin::Node(node)) => {
                self.nearness.hears(now, node, request);
                self.show_rank(now, node);
                if self.client.waits_for(request) {
                    let located = self.hatches.locate(now, node, (request, version, whole), stretches);
                    self.read_located(now, node, request, located);
                }
            }
            (What::Answer(answer), Origin::Node(node)) => {
                if let Answer::Bytes { request, bytes, .. } = &answer {
                    self.plain.remove(request);
                    self.counts.read_network(bytes.len());
                }
                if let Some(request) = request_of(&answer) {
                    self.nearness.hears(now, node, request);
                    self.show_rank(now, node);
                }
                self.client.handle_answer(now, node, answer);
                self.flush(None);
            }
            (What::Response(_, Response::Hatch(address)), Origin::Node(node)) => {
                self.go_to_hatch(node, address)
            }
            (What::Response(number, response), _) => {
                if let Some(Response::Ring(difference)) = self.manager.hear(now, number, response) {
                    self.learn(difference);
                }
            }
            (What::Opened(_) | What::Closed(_), origin) => {
                if let Origin::Node(node) = origin {
                    self.note_reach(now, node);
                    self.seek_hatches(now);
                }
                if !self.is_in_touch() {
                    self.manager.want_ring();
                }
                self.keep_seeds();
            }
            (What::Answer(_), _) => {}
        }
        self.handle_events();
    }

    /// Whether it has learned everything once, and can reach a member.
    fn is_in_touch(&self) -> bool {
        self.whole > RingVersion(0) && self.links.reaches_a_member()
    }

    /// Asks nodes whose hatch is not open where it is: it may be about to be.
    fn seek_hatches(&mut self, now: Time) {
        for node in self.hatches.take_due(now).into_iter().filter(|_| self.reads_files) {
            if self.links.reaches(node) {
                self.links.ask(Origin::Node(node), HATCH_QUESTION, &Request::Hatch);
            }
        }
    }

    /// A node says where it hands its files to readers: on this host, if it is there and it is the node's.
    fn go_to_hatch(&mut self, node: NodeId, address: Option<cluster::Address>) {
        let Some(Ok(Address::Unix(path))) = address.map(|address| address.as_str().parse()) else { return };
        if let Some(cluster) = self.links.cluster().filter(|_| self.reads_files) {
            self.hatches.go_to(path, HatchOwner { cluster, node: node.0 });
        }
    }

    /// Something has happened at the hatch of a node.
    fn hear_hatch(&mut self, mut heard: hatches::Heard) {
        let (now, node) = (self.now(), heard.node);
        if !self.hatches.note(now, &mut heard) {
            if let hatches::What::Read(located, _) = heard.what {
                self.fall_back(now, located.request, false);
            }
            return;
        }
        match heard.what {
            hatches::What::Opened | hatches::What::Closed => {
                let is_here = matches!(self.members.get(&node), Some(Address::Unix(_)));
                self.nearness.set_here(node, is_here || self.hatches.is_open(node));
                self.show_rank(now, node);
            }
            hatches::What::File(..) => {}
            hatches::What::Read(located, found) => self.take_found(now, node, located, found),
        }
        self.handle_events();
    }

    /// Reads what lies in files of a node.
    fn read_located(&mut self, now: Time, node: NodeId, request: RequestId, located: Option<Located>) {
        match located {
            Some(located) => {
                let found = located.read(Patience::None);
                self.take_found(now, node, located, found);
            }
            None => self.fall_back(now, request, false),
        }
    }

    fn take_found(&mut self, now: Time, node: NodeId, located: Located, found: InFiles) {
        let Located { request, version, whole, .. } = located;
        match found {
            InFiles::Bytes(bytes) => {
                self.counts.read_files(bytes.len());
                self.client.handle_answer(now, node, Answer::Bytes { request, version, bytes, whole });
                self.flush(None);
            }
            InFiles::Slow => self.hatches.read_slowly(node, located),
            InFiles::Unreadable => self.fall_back(now, request, false),
            InFiles::Damaged => self.fall_back(now, request, true),
        }
    }

    /// Has a node send what could not be read here.
    fn fall_back(&mut self, now: Time, request: RequestId, is_damaged: bool) {
        if self.client.waits_for(request) {
            self.counts.fall_back(is_damaged);
            self.plain.insert(request);
            self.client.ask_again(now, request);
            self.flush(None);
        }
    }

    /// A connection to a node has opened or closed: what it was to read others can read.
    fn note_reach(&mut self, now: Time, node: NodeId) {
        let is_open = self.links.reaches(node);
        self.nearness.set_open(node, is_open);
        self.show_rank(now, node);
        match is_open {
            true => self.hatches.seek(now, node),
            false => {
                self.client.handle_unreachable(now, node);
                self.flush(None);
            }
        }
    }

    /// Tells the protocol's client how far away a node is.
    fn show_rank(&mut self, now: Time, node: NodeId) {
        if let Some(rank) = self.nearness.rank(now, node) {
            self.client.set_rank(node, rank);
        }
    }

    /// Keeps connections to the addresses that the caller named as long as no member can be reached at its own: all may have moved.
    fn keep_seeds(&mut self) {
        if self.links.reaches_a_member() {
            self.links.hang_up(|origin| matches!(origin, Origin::Seed(_)));
            return;
        }
        for (place, address) in self.seeds.iter().enumerate() {
            self.links.dial(Origin::Seed(place), address.clone());
        }
    }

    /// Takes note of what has changed in the cluster.
    fn learn(&mut self, difference: Difference) {
        let mut has_keyspaces = false;
        for fact in difference.facts {
            match fact {
                Fact::Class(id, settings) => {
                    has_keyspaces = true;
                    self.catalog.note_class(id, settings);
                }
                Fact::Keyspace(id, keyspace) => {
                    has_keyspaces = true;
                    self.catalog.note_keyspace(id, keyspace);
                }
                Fact::Member(node, member) if member.state == MemberState::Left => {
                    self.members.remove(&node);
                    self.nearness.remove_member(node);
                    self.hatches.leave(node);
                }
                Fact::Member(node, member) => {
                    // Whatever it is: that text parses as an address is the type's promise.
                    let Ok(address) = member.address.as_str().parse();
                    self.nearness.set_member(node, member.zone);
                    let is_here = matches!(address, Address::Unix(_)) || self.hatches.is_open(node);
                    self.nearness.set_here(node, is_here);
                    self.members.insert(node, address);
                }
                Fact::Partition(id, configuration, _) => self.client.handle_configuration(id, configuration),
            }
        }
        if has_keyspaces {
            self.client.handle_keyspaces(self.catalog.placed());
        }
        for (node, address) in &self.members {
            self.links.dial(Origin::Node(*node), address.clone());
        }
        let members = &self.members;
        self.links.hang_up(|origin| matches!(origin, Origin::Node(node) if !members.contains_key(&node)));
        self.keep_seeds();
        self.manager.set_members(self.members.keys().copied().collect());
        match difference.reached {
            Some(version) => {
                self.whole = self.whole.max(version);
                self.client.handle_ring_version(version);
            }
            None => self.manager.want_ring(),
        }
        self.manager.fetched();
    }

    /// Passes on what the protocol's client has to tell.
    fn handle_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.handle_event(event);
        }
    }

    fn handle_event(&mut self, mut event: Event) {
        let now = self.now();
        let catalog = &self.catalog;
        let exists = |blob: &BlobName| catalog.exists(blob.keyspace);
        match &event {
            Event::Ended(id, outcome, results) if self.applies.end(now, *id, *outcome, results, exists) => {
                return;
            }
            Event::Unknown(id) => {
                let unknown = words::unknown(&self.links.troubles());
                if self.applies.lose(&mut self.client, now, *id, unknown, false) {
                    return;
                }
            }
            Event::Forgotten(id)
                if self.applies.lose(&mut self.client, now, *id, words::forgotten(), true) =>
            {
                return;
            }
            Event::Looked(request, ..) | Event::Bytes(request, ..) | Event::Expired(request) => {
                let request = *request;
                return self.handle_read(request, &mut event);
            }
            Event::Frozen(request, _) if self.freezes.contains_key(request) => return self.freeze(event),
            Event::Frozen(..) => {
                self.runs.values_mut().any(|running| running.run.handle(&mut event));
                return;
            }
            Event::Names(request, ..) => {
                if let Some(names) = self.names.remove(request)
                    && let Event::Names(_, found, more) = event
                {
                    let _ = names.reply.send(Ok((found, more)));
                }
                return;
            }
            Event::Stats(request, _) => {
                if let Some(heads) = self.heads.remove(request)
                    && let Event::Stats(_, stats) = event
                {
                    let _ = heads.reply.send(Ok(stats));
                }
                return;
            }
            Event::Ended(..) | Event::Forgotten(_) => {}
        }
        let client = &mut self.client;
        let mut seats = self.seats.iter_mut();
        let told =
            seats.find_map(|(of, seat)| seat.transaction.handle(client, now, &mut event).then_some(*of));
        if let Some(of) = told {
            self.flush(Some(Owner::Seat(of)));
            self.settle_seat(of);
        } else if let Event::Unknown(id) = event {
            self.client.resolve(now, id);
        }
    }

    fn handle_read(&mut self, request: RequestId, event: &mut Event) {
        let now = self.now();
        match self.owners.remove(&request) {
            Some(Owner::Seat(of)) => {
                let Some(seat) = self.seats.get_mut(&of) else { return };
                seat.transaction.handle(&mut self.client, now, event);
                self.flush(Some(Owner::Seat(of)));
                self.settle_seat(of);
            }
            Some(Owner::Snapshot(of)) => {
                let Some(frozen) = self.snapshots.get_mut(&of) else { return };
                frozen.snapshot.handle(&mut self.client, now, event);
                self.flush(Some(Owner::Snapshot(of)));
                self.settle_snapshot(of);
            }
            None => self.handle_unowned(event),
        }
    }

    /// Something that was asked for when nobody knew yet whom to ask.
    fn handle_unowned(&mut self, event: &mut Event) {
        let now = self.now();
        let client = &mut self.client;
        let mut seats = self.seats.iter_mut();
        if let Some(of) =
            seats.find_map(|(of, seat)| seat.transaction.handle(client, now, event).then_some(*of))
        {
            self.flush(Some(Owner::Seat(of)));
            self.settle_seat(of);
            return;
        }
        let mut snapshots = self.snapshots.iter_mut();
        let told =
            snapshots.find_map(|(of, frozen)| frozen.snapshot.handle(client, now, event).then_some(*of));
        if let Some(of) = told {
            self.flush(Some(Owner::Snapshot(of)));
            self.settle_snapshot(of);
        }
    }

    fn freeze(&mut self, event: Event) {
        let Event::Frozen(request, blobs) = event else { return };
        let Some(Freeze { of, reply, .. }) = self.freezes.remove(&request) else { return };
        let turn = self.turn();
        let mut snapshot = Snapshot::new(request, blobs, turn);
        if reply.is_closed() {
            snapshot.let_go(&mut self.client);
            return;
        }
        self.snapshots.insert(of, Frozen { snapshot, reads: BTreeMap::new() });
        let _ = reply.send(Ok(()));
    }
}

// Time, and what goes out.
impl Driver {
    fn tick(&mut self) {
        // One time for all: what the protocol's client was not told to be late is not.
        let at = Instant::now();
        let now = self.time(at);
        self.nearness.tidy(now);
        for (node, rank) in self.nearness.ranks(now) {
            self.client.set_rank(node, rank);
        }
        self.client.handle_tick(now);
        self.flush(None);
        self.handle_events();
        self.applies.go_on(&mut self.client, now);
        if self.next_check <= at {
            self.next_check = at + CHECK_EVERY;
            self.hatches.tidy(now);
            self.seek_hatches(now);
            let client = &self.client;
            self.plain.retain(|request| client.waits_for(*request));
            self.give_up(at);
        }
    }

    /// Answers all that have waited too long, and forgets what nobody waits for.
    fn give_up(&mut self, at: Instant) {
        let now = self.time(at);
        let links = &self.links;
        let troubles = || links.troubles();
        let late = || words::no_answer(&links.troubles());
        for seat in self.seats.values_mut() {
            seat.give_up(&mut self.client, now, at, troubles);
        }
        self.seats.retain(|_, seat| !seat.is_over());
        self.applies.give_up(at, troubles);
        self.manager.give_up(at, troubles);
        let is_late = |names: &Names| names.until <= at || names.reply.is_closed();
        for (request, names) in self.names.extract_if(.., |_, names| is_late(names)) {
            self.client.forget(request);
            let _ = names.reply.send(Err(late()));
        }
        let is_late = |heads: &Heads| heads.until <= at || heads.reply.is_closed();
        for (request, heads) in self.heads.extract_if(.., |_, heads| is_late(heads)) {
            self.client.forget(request);
            let _ = heads.reply.send(Err(late()));
        }
        let is_late = |freeze: &Freeze| freeze.until <= at || freeze.reply.is_closed();
        for (request, freeze) in self.freezes.extract_if(.., |_, freeze| is_late(freeze)) {
            self.client.let_go(request);
            let _ = freeze.reply.send(Err(late()));
        }
        for frozen in self.snapshots.values_mut() {
            for (_, read) in frozen.reads.extract_if(.., |_, read| read.until <= at) {
                let _ = read.reply.send(Err(late()));
            }
        }
        for running in self.runs.values_mut() {
            if let Some((_, _, reply)) = running.begins.take_if(|(_, until, _)| *until <= at) {
                let _ = reply.send(Err(late()));
            }
        }
        let (seats, snapshots) = (&self.seats, &self.snapshots);
        self.owners.retain(|_, owner| match owner {
            Owner::Seat(of) => seats.contains_key(of),
            Owner::Snapshot(of) => snapshots.contains_key(of),
        });
    }

    /// Does what is left to do after something has happened.
    fn settle(&mut self) {
        self.handle_events();
        self.begin_tries();
        let now = self.now();
        self.applies.admit(&mut self.client, now);
        self.flush(None);
        self.manager.go_on(&self.links, now, self.whole);
        let pauses = self.applies.is_pausing() || self.runs.values().any(|running| running.begins.is_some());
        let period = match pauses {
            true => TICK_SHORT,
            false if self.client.is_idle() && self.whole > RingVersion(0) && self.closing.is_none() => {
                TICK_LONG
            }
            false => TICK,
        };
        let at = Instant::now();
        let is_past = self.next_tick <= at;
        self.next_tick = if is_past { at + period } else { self.next_tick.min(at + period) };
    }

    /// Sends what the protocol's client wants sent. What it asks nodes then is asked for the owner.
    fn flush(&mut self, owner: Option<Owner>) {
        let now = self.now();
        while let Some(output) = self.client.poll_output() {
            match output {
                ClientOutput::Send(node, envelope) => {
                    let envelope = self.in_form(node, envelope);
                    if let (
                        Some(owner),
                        Message::Look { request, .. }
                        | Message::Read { request, .. }
                        | Message::Locate { request, .. },
                    ) = (owner, &envelope.message)
                    {
                        self.owners.entry(*request).or_insert(owner);
                    }
                    if let Message::Look { request, .. }
                    | Message::Read { request, .. }
                    | Message::Locate { request, .. }
                    | Message::Scan { request, .. } = &envelope.message
                    {
                        self.nearness.asks(now, node, *request);
                        self.show_rank(now, node);
                    }
                    self.links.tell(node, &envelope);
                }
                ClientOutput::FetchRing(_) => self.manager.want_ring(),
            }
        }
    }
}

impl Driver {
    /// A message as it is sent: a node whose files can be read here is asked where bytes are.
    fn in_form(&self, node: NodeId, envelope: Envelope) -> Envelope {
        let Envelope { partition, message } = envelope;
        let message = match message {
            Message::Read { request, chunk, range, at }
                if range.end - range.start >= SPOT_MIN as u64
                    && self.hatches.is_open(node)
                    && !self.plain.contains(&request) =>
            {
                Message::Locate { request, chunk, range, at }
            }
            message => message,
        };
        Envelope { partition, message }
    }
}

/// Which reader's request something answers.
fn request_of(answer: &Answer) -> Option<RequestId> {
    match answer {
        Answer::Looked { request, .. }
        | Answer::Bytes { request, .. }
        | Answer::Stats { request, .. }
        | Answer::Expired { request }
        | Answer::Names { request, .. } => Some(*request),
        _ => None,
    }
}

fn found(snapshot: &Snapshot, blob: &BlobName) -> Option<Found> {
    snapshot.looked(blob).map(|(number, looked)| Found { number, looked: looked.clone() })
}

fn list(
    snapshot: &Snapshot,
    keyspace: KeyspaceId,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Vec<(BlobName, Found)> {
    let is_wanted = |blob: &&BlobName| {
        let key = blob.key.as_bytes();
        blob.keyspace == keyspace && key.starts_with(prefix) && after.is_none_or(|after| key > after)
    };
    let listed = snapshot.blobs().filter(is_wanted).take(limit);
    listed.filter_map(|blob| Some((blob.clone(), found(snapshot, blob)?))).collect()
}

fn expired() -> Error {
    Error::expired(
        "what the snapshot shows is not kept any more, after a failure or a long pause; take another one",
    )
}

/// The number of the question where a node hands its files to readers: no other one gets so far.
const HATCH_QUESTION: u64 = u64::MAX;
/// As much is taken from the channels before what it came to is sent.
const BATCH: usize = 64;
