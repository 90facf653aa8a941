//! The one task of a client: it owns the protocol's client, the connections, and what is under way, and is told everything by channels.
//!
//! It runs on a thread of its own with a runtime of its own, so that callers need no particular one. It knows the time and draws random
//! numbers; the protocol's client does neither.
//!
//! This file has its loop, the calls, and time. The other parts: `hearing` takes what comes by the connections, `events` what the protocol's
//! client tells and wants sent, `files` reads files of nodes on this host, `snapshots` takes and reads snapshots.
//!
//! Invariants:
//!
//! - Every call is answered, at the latest when its time is over. What was sent by then goes on to its end.
//! - Only blobs of keyspaces that the protocol's client knows get there.
//! - Memory is bounded by what callers have under way: what comes is held against the credit of its connection.

mod applies;
mod asked;
pub mod call;
pub mod catalog;
mod events;
mod files;
#[cfg(test)]
mod fixture;
mod hatches;
mod hearing;
pub mod links;
mod manager;
mod nearness;
mod room;
mod seats;
mod snapshots;
mod traces;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel},
    time::{Instant, sleep_until},
};
use tyr_net::Address;
use tyr_proto::{
    BlobName, Client, Copies, Keyspaces, NodeId, Operation, PartitionId, Refusal, ResultValue, RingVersion,
    Run, SessionId, Time, Transaction,
    cluster::Zone,
    message::{HeadStat, READ_SIZE_MAX, RequestId},
};
use tyr_types::Error;

use crate::{
    clock::Clock,
    recalls::{Owed, Recall},
    words,
};
use applies::{Applies, Apply};
use asked::Asked;
use call::{Call, Got, Handle, Newest, Reply};
use catalog::Catalog;
use events::Owner;
use files::Files;
pub use hatches::Counts;
use links::{Heard, Links, Means, Origin};
use manager::Manager;
use nearness::Nearness;
use seats::{Seat, Wants};
use snapshots::Snapshots;
use traces::Traces;
pub use traces::Tracing;

/// The task.
pub struct Driver {
    client: Client,
    clock: Clock,
    catalog: Arc<Catalog>,
    /// The keyspaces that the protocol's client knows.
    placed: Arc<Keyspaces>,
    links: Links,
    manager: Manager,
    nearness: Nearness,
    files: Files,
    /// What has happened at hatches.
    shown: UnboundedReceiver<hatches::Heard>,
    /// The addresses that the caller named.
    seeds: Vec<Address>,
    /// The addresses of members.
    members: BTreeMap<NodeId, Address>,
    /// The ring version of which nothing is missing.
    whole: RingVersion,
    meeting: Meeting,
    random: u64,
    calls: UnboundedReceiver<Call>,
    heard: UnboundedReceiver<Heard>,
    seats: BTreeMap<Handle, Seat>,
    /// Those whose transactions wait to be sent again.
    pausing: BTreeSet<Handle>,
    applies: Applies,
    names: BTreeMap<RequestId, Asked<(Vec<BlobName>, bool)>>,
    heads: BTreeMap<RequestId, Asked<Vec<Option<HeadStat>>>>,
    newest: BTreeMap<RequestId, Asked<Option<Newest>>>,
    seeks: BTreeMap<RequestId, Asked<Option<u64>>>,
    gets: BTreeMap<RequestId, Asked<Got>>,
    snapshots: Snapshots,
    /// Who is told of what is taken back of what was lent, and how that is given back.
    recalls: Option<(UnboundedSender<Recall>, WeakUnboundedSender<Call>)>,
    traces: Option<Traces>,
    runs: BTreeMap<Handle, Running>,
    /// For whom blobs are looked at and read.
    owners: BTreeMap<RequestId, Owner>,
    next_tick: Instant,
    next_check: Instant,
    /// When it was last asked who holds what, although nobody had said that it changed.
    looked_at: Instant,
    closing: Option<Closing>,
}

/// How far it is known that the addresses that the caller named are of one cluster.
///
/// A node whose disk was lost, and which founds a cluster at its old address, is let in by the same secret. It does not know the other
/// addresses; so who has learned a ring waits for what is at the addresses that are not in it before anything is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Meeting {
    /// No ring is known.
    #[default]
    Begins,
    /// Somebody may be at an address that is not in the ring, and is waited for until then.
    Waits(Instant),
    /// Everybody who was heard is of this cluster.
    Done,
}

/// What a driver begins with.
pub struct Beginning {
    /// The addresses that the caller named.
    pub seeds: Vec<Address>,
    /// By what connections are made.
    pub means: Means,
    /// The client's zone, if it is in one.
    pub zone: Option<Zone>,
    /// Whether files of nodes on this host are read here.
    pub reads_files: bool,
    /// Which transactions are traced, if any are.
    pub tracing: Option<Tracing>,
    /// What shows the time.
    pub clock: Clock,
    /// Where what is lent to the client is kept, if it is.
    pub copies: Option<Copies>,
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
struct Running {
    run: Run,
    begins: Option<(Handle, Asked<()>)>,
}

impl Running {
    fn new(seed: u64) -> Self {
        Running { run: Run::new(seed), begins: None }
    }
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
/// How often it is asked who holds what now, although nobody has said that it changed: while replicas are about to come,
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// and at other times.
const LOOK_SELDOM: Duration = Duration::from_secs(30);
/// A client that is closed waits this long for what is under way.
const CLOSE_MAX: Duration = Duration::from_secs(5);

impl Driver {
    /// A driver that has dialed the addresses, in the runtime that this is called in.
    pub fn new(beginning: Beginning) -> Self {
        let Beginning { seeds, means, zone, reads_files, tracing, clock, copies, counts, .. } = beginning;
        let Beginning { session, catalog, calls, .. } = beginning;
        let (teller, heard) = unbounded_channel();
        let (files, shown) = Files::new(reads_files, counts);
        let mut links = Links::new(session, SessionId::of_client(crate::cluster::random()).0, means, teller);
        let first = usize::try_from(session % 1024).unwrap_or(0);
        let manager = Manager::new(seeds.len(), first);
        for (place, address) in seeds.iter().enumerate() {
            links.dial(Origin::Seed(place), address.clone());
        }
        let now = Instant::now();
        let placed = catalog.placed();
        let mut client = Client::new(SessionId(session), placed.clone());
        copies.into_iter().for_each(|copies| client.keep_copies(copies));
        Driver {
            client,
            clock,
            catalog,
            placed,
            links,
            manager,
            nearness: Nearness::new(zone),
            files,
            shown,
            seeds,
            members: BTreeMap::new(),
            whole: RingVersion(0),
            meeting: Meeting::default(),
            random: session,
            calls,
            heard,
            seats: BTreeMap::new(),
            pausing: BTreeSet::new(),
            applies: Applies::default(),
            names: BTreeMap::new(),
            heads: BTreeMap::new(),
            newest: BTreeMap::new(),
            seeks: BTreeMap::new(),
            gets: BTreeMap::new(),
            snapshots: Snapshots::default(),
            recalls: None,
            traces: tracing.map(|tracing| Traces::start(tracing, session)),
            runs: BTreeMap::new(),
            owners: BTreeMap::new(),
            next_tick: now,
            next_check: now,
            looked_at: now,
            closing: None,
        }
    }

    /// Runs until the client is closed.
    pub async fn run(mut self) {
        while !self.is_done() {
            tokio::select! {
                // In this order, so that a simulated run repeats. Those that come later have their turn below.
                biased;
                call = self.calls.recv(), if self.closing.is_none() => match call {
                    Some(call) => self.take(call),
                    None => self.close(None),
                },
                Some(heard) = self.heard.recv() => self.hear(heard),
                Some(heard) = self.shown.recv() => self.hear_hatch(heard),
                () = sleep_until(self.next_tick) => {}
            }
            for _ in 0..BATCH {
                let (call, heard) = (self.calls.try_recv().ok(), self.heard.try_recv().ok());
                let shown = self.shown.try_recv().ok();
                if call.is_none() && heard.is_none() && shown.is_none() {
                    break;
                }
                call.into_iter().for_each(|call| self.take(call));
                heard.into_iter().for_each(|heard| self.hear(heard));
                shown.into_iter().for_each(|heard| self.hear_hatch(heard));
            }
            self.go_on();
        }
        self.fail_all(words::closed, words::closed_and_unknown);
        self.client.leave(self.now());
        self.flush(None);
        self.calls.close();
        self.links.close().await;
        if let Some(traces) = self.traces {
            traces.finish().await;
        }
        for reply in self.closing.into_iter().flat_map(|closing| closing.replies) {
            // Who asked may be gone, here and everywhere below.
            let _ = reply.send(Ok(()));
        }
    }

    /// Lets time pass if it is time for that, and does what is left to do. Whether a timer has been heard of makes no difference: it may not
    /// be for as long as there is always something else.
    fn go_on(&mut self) {
        if self.next_tick <= Instant::now() {
            self.tick();
        }
        self.settle();
    }

    fn is_done(&self) -> bool {
        let is_idle =
            || self.client.is_done() && self.applies.is_empty() && !self.seats.values().any(Seat::is_ending);
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
        self.newest.clear();
        self.seeks.clear();
        self.gets.clear();
        self.applies.turn_away();
        self.snapshots.close(&mut self.client);
        for mut running in std::mem::take(&mut self.runs).into_values() {
            running.run.end(&mut self.client);
        }
        for (_, mut seat) in self.seats.extract_if(.., |_, seat| !seat.is_ending()) {
            seat.transaction.roll_back(&mut self.client);
        }
    }

    /// Whether something has come that waits for this task.
    fn has_mail(&self) -> bool {
        !self.heard.is_empty() || !self.calls.is_empty() || !self.shown.is_empty()
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn time(&self, at: Instant) -> Time {
        self.clock.at(at)
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
            Call::Copy { of, from, range, to, offset } => {
                self.with_seat(of, |seat, client| {
                    seat.transaction.copy(client, &from, range, &to, offset);
                });
            }
            Call::Commit { of, only_reads, until, reply } => {
                let gives_up_at = Some(self.time(until));
                self.with_seat(of, |seat, client| {
                    seat.wait_for_end(until, reply);
                    seat.forget_deserted(client, now);
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
            Call::Keep { of } => self.with_seat(of, |seat, _| seat.keep()),
            Call::Await { of, until, reply } => match self.seats.get_mut(&of) {
                Some(seat) => seat.await_end(Asked { until, reply }),
                None => drop(reply.send(Err(words::not_committed()))),
            },
            Call::Drop { of } => {
                if self.seats.contains_key(&of) {
                    self.with_seat(of, |seat, _| seat.drop_keeper());
                }
            }
            Call::Apply { blob, operations, until, reply } => {
                self.apply(now, blob, operations, Asked { until, reply });
            }
            Call::Names { partition, after, inclusive, limit, until, reply } => {
                let turn = self.turn();
                let request = self.client.scan(now, partition, after, inclusive, limit, turn);
                self.names.insert(request, Asked { until, reply });
            }
            Call::Heads { blobs, until, reply } => {
                let turn = self.turn();
                match self.client.stat(now, blobs, turn) {
                    Some(request) => drop(self.heads.insert(request, Asked { until, reply })),
                    None => drop(reply.send(Ok(Vec::new()))),
                }
            }
            Call::ReadNewest { blob, range, until, reply } => {
                let turn = self.turn();
                match self.client.read_newest(now, &blob, range, turn) {
                    Some(request) => drop(self.newest.insert(request, Asked { until, reply })),
                    None => drop(reply.send(Ok(None))),
                }
            }
            Call::Seek { chunk, range, what, until, reply } => {
                let turn = self.turn();
                let request = self.client.seek(now, chunk, range, what, turn);
                self.seeks.insert(request, Asked { until, reply });
            }
            Call::Get { blob, others, until, reply } => {
                let turn = self.turn();
                let request = self.client.get(now, blob, READ_SIZE_MAX, others, turn);
                self.gets.insert(request, Asked { until, reply });
            }
            Call::Borrow { blob, size_max, until, reply } => {
                let turn = self.turn();
                let request = self.client.borrow(now, blob, size_max, turn);
                self.gets.insert(request, Asked { until, reply });
            }
            Call::GiveBack { node, partition, blob, asked } => {
                self.client.give_back_recalled(node, partition, blob, asked);
            }
            Call::TellRecalls { teller, calls } => {
                self.client.tell_recalls();
                self.recalls = Some((teller, calls));
            }
            Call::Freeze { of, keyspaces, until, reply } => {
                self.begin_freeze(of, keyspaces, Asked { until, reply });
            }
            Call::Take { keyspace, snapshot, until, reply } => {
                let request = self.client.take_snapshot(now, keyspace, snapshot);
                self.snapshots.take(request, Asked { until, reply });
            }
            Call::Open { of, keep, until, reply } => {
                let turn = self.turn();
                self.snapshots.open(&mut self.client, now, of, keep, turn, Asked { until, reply });
            }
            Call::LookFrozen { of, blob, reply } => {
                let _ = reply.send(self.snapshots.look(of, &blob));
            }
            Call::ReadFrozen { of, blob, range, until, reply } => {
                self.read_frozen(of, &blob, range, Asked { until, reply });
            }
            Call::ListFrozen { of, keyspace, prefix, after, limit, reply } => {
                let _ = reply.send(self.snapshots.list(of, keyspace, &prefix, after.as_deref(), limit));
            }
            Call::LetGo { of } => self.snapshots.let_go(&mut self.client, of),
            Call::Begin { run, of, until, reply } => {
                let seed = self.draw();
                let running = self.runs.entry(run).or_insert_with(|| Running::new(seed));
                running.begins = Some((of, Asked { until, reply }));
            }
            Call::Refused { run, refusal, touched } => self.refuse(run, refusal, &touched),
            Call::EndRun { run } => {
                if let Some(mut running) = self.runs.remove(&run) {
                    running.run.end(&mut self.client);
                }
            }
            Call::Manage { command, until, reply } => {
                self.manager.command(&self.links, now, command, Asked { until, reply });
            }
            Call::Uses { until, reply } => self.manager.uses(&self.links, now, Asked { until, reply }),
            Call::Refresh { until, reply } => self.manager.refresh(Asked { until, reply }),
            Call::Close { reply } => self.close(Some(reply)),
        }
    }

    /// Changes a blob. It may be one of a keyspace that the protocol's client does not know.
    fn apply(
        &mut self,
        now: Time,
        blob: BlobName,
        operations: Vec<Operation>,
        asked: Asked<BTreeMap<u16, ResultValue>>,
    ) {
        let Some(keyspace) = self.placed.get(&blob.keyspace) else {
            return asked.answer(Err(words::refused(Refusal::NotFound)));
        };
        let partition = keyspace.partition_of(&blob, 0);
        let Asked { until, reply } = asked;
        let gives_up_at = self.time(until);
        let apply = Apply::new((blob, partition), operations, (until, gives_up_at), reply);
        self.applies.take(&mut self.client, now, apply);
    }

    /// A node recalls what was lent of a blob: it is given back when whoever was told of it says so, or at once.
    fn recall(&mut self, node: NodeId, partition: PartitionId, blob: BlobName, asked: u64) {
        let calls = self.recalls.as_ref().and_then(|(_, calls)| calls.upgrade());
        match (&self.recalls, calls) {
            (Some((teller, _)), Some(calls)) => {
                let recall = Recall::new(blob, Owed { node, partition, asked, calls });
                // If nobody listens it is dropped, and so given back.
                let _ = teller.send(recall);
            }
            _ => self.client.give_back_recalled(node, partition, blob, asked),
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
        self.settle_seat(of);
    }

    /// Sends what a transaction asks, and passes on what it was told.
    fn settle_seat(&mut self, of: Handle) {
        self.flush(Some(Owner::Seat(of)));
        let now = self.now();
        let Some(seat) = self.seats.get_mut(&of) else { return };
        let links = &self.links;
        seat.settle(&mut self.client, now, || links.troubles());
        if seat.transaction.is_pausing() {
            self.pausing.insert(of);
        } else {
            self.pausing.remove(&of);
        }
        if seat.is_over() {
            self.seats.remove(&of);
        }
    }

    /// Sends transactions again whose pauses are over.
    fn end_pauses(&mut self, now: Time) {
        for of in self.pausing.clone() {
            match self.seats.get_mut(&of) {
                Some(seat) => seat.transaction.handle_tick(&mut self.client, now),
                None => drop(self.pausing.remove(&of)),
            }
            self.settle_seat(of);
        }
    }

    /// A try of a run was refused, of which this may be the first that is heard.
    fn refuse(&mut self, run: Handle, refusal: Refusal, touched: &BTreeSet<BlobName>) {
        let (now, seed) = (self.now(), self.draw());
        let running = self.runs.entry(run).or_insert_with(|| Running::new(seed));
        running.run.handle_refusal(&mut self.client, now, refusal, touched);
    }

    /// Begins the tries whose time has come.
    fn begin_tries(&mut self) {
        let now = self.now();
        for running in self.runs.values_mut() {
            // Who is gone would never say that the transaction is over.
            running.begins.take_if(|(_, asked)| asked.reply.is_closed());
            if running.begins.is_none() {
                continue;
            }
            if let Some(transaction) = running.run.begin(now)
                && let Some((of, asked)) = running.begins.take()
            {
                self.seats.insert(of, Seat::new(transaction));
                asked.answer(Ok(()));
            }
        }
    }
}

// Time, and what goes out.
impl Driver {
    fn tick(&mut self) {
        // One time for all: what the protocol's client was not told to be late is not.
        let at = Instant::now();
        let now = self.time(at);
        self.next_tick = at + TICK_LONG;
        self.nearness.tidy(now);
        for (node, rank) in self.nearness.ranks(now) {
            self.client.set_rank(node, rank);
        }
        self.client.handle_tick(now);
        self.flush(None);
        self.handle_events();
        self.applies.go_on(&mut self.client, now);
        self.end_pauses(now);
        if self.next_check <= at {
            self.next_check = at + CHECK_EVERY;
            self.tidy_files(now);
            self.settle_meeting(at);
            self.give_up(at);
            let every = if self.client.sees_learners() { LOOK_EVERY } else { LOOK_SELDOM };
            if at.duration_since(self.looked_at) >= every {
                self.looked_at = at;
                self.manager.want_ring();
            }
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
        give_up_late(&mut self.names, &mut self.client, at, late);
        give_up_late(&mut self.heads, &mut self.client, at, late);
        give_up_late(&mut self.newest, &mut self.client, at, late);
        give_up_late(&mut self.seeks, &mut self.client, at, late);
        give_up_late(&mut self.gets, &mut self.client, at, late);
        self.snapshots.give_up(&mut self.client, at, late);
        for running in self.runs.values_mut() {
            if let Some((_, asked)) = running.begins.take_if(|(_, asked)| asked.is_late(at)) {
                asked.answer(Err(late()));
            }
        }
        let (seats, snapshots) = (&self.seats, &self.snapshots);
        self.owners.retain(|_, owner| match owner {
            Owner::Seat(of) => seats.contains_key(of),
            Owner::Snapshot(of) => snapshots.has(*of),
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
        let pauses = self.applies.is_pausing()
            || !self.pausing.is_empty()
            || self.runs.values().any(|running| running.begins.is_some());
        let period = match pauses {
            true => TICK_SHORT,
            false if self.client.is_idle() && self.whole > RingVersion(0) && self.closing.is_none() => {
                TICK_LONG
            }
            false => TICK,
        };
        self.next_tick = self.next_tick.min(Instant::now() + period);
    }
}

/// Answers those of these requests that have waited too long.
fn give_up_late<T>(
    requests: &mut BTreeMap<RequestId, Asked<T>>,
    client: &mut Client,
    at: Instant,
    late: impl Fn() -> Error,
) {
    for (request, asked) in requests.extract_if(.., |_, asked| asked.is_over(at)) {
        client.forget(request);
        asked.answer(Err(late()));
    }
}
/// As much is taken from the channels before what it came to is sent.
const BATCH: usize = 64;
