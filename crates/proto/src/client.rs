//! A client as a pure state machine: it finds partitions by its copy of the ring, sends, and sends again until it is answered.
//!
//! Transactions keep their id when they are sent again, so that they are applied at most once. Reads are sent to the nearest replica, and
//! to another one if it does not answer.

mod borrowing;
mod copies;
mod freezing;
mod marks;
mod nearest;
mod opening;
mod reads;
mod run;
mod snapshot;
mod staging;
mod transaction;

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tyr_types::{Number, Seek};

use crate::{
    BlobName, ChunkName, Condition, Configuration, HeadPlan, Keyspaces, Limits, NodeId, Operation,
    OperationResult, Outcome, PartitionId, Plan, RingVersion, Seen, SessionId, Stand, Time, TransactionId,
    canary::{Canary, planted},
    message::{Answer, Envelope, HeadStat, Looked, Message, READ_SIZE_MAX, RequestId},
    tries::Tries,
};

pub use copies::{BlobCopy, Copies, Seen as SeenCopy};
pub use freezing::FrozenBlob;
use freezing::ToldPart;
pub use opening::{Opened, Opening};
pub use reads::{ReadAnswer, ReadId};
pub use run::{Next, Run};
pub use snapshot::Snapshot;
pub use staging::CopySource;
pub use transaction::{Check, End, Told, Transaction};

/// A client.
#[derive(Debug)]
pub struct Client {
    session: SessionId,
    keyspaces: Arc<Keyspaces>,
    ring: BTreeMap<PartitionId, Configuration>,
    /// How many partitions of these have learners.
    moving: usize,
    /// The newest ring version heard of: transactions are born at it.
    version: RingVersion,
    /// The newest ring version of which nothing is missing.
    whole: RingVersion,
    last_request: u64,
    last_sequence: u64,
    requests: BTreeMap<RequestId, Request>,
    nearest: nearest::Nearest,
    transactions: BTreeMap<u64, Sent>,
    freezes: BTreeMap<RequestId, freezing::Freezing>,
    /// What is lent to this client, if it keeps any of that.
    copies: Option<Copies>,
    copies_expired_at: Time,
    /// Whether the caller is told of what is given back of which somebody was assured.
    tells_recalls: bool,
    /// Of what the caller was told so, and has not said that nobody believes it any more, how often.
    doubted: BTreeMap<BlobName, usize>,
    /// What was asked for to be kept, and was not answered: since when, and whether it may be kept when it comes.
    borrowing: BTreeMap<RequestId, borrowing::Borrowing>,
    /// What is held for reads, by the look or the freeze that was asked for.
    pins: BTreeMap<RequestId, Vec<Pin>>,
    unmarked: BTreeMap<PartitionId, u64>,
    unmarked_since: Time,
    staged_above: usize,
    limits: Limits,
    ring_asked_at: Time,
    /// Whether what changed in the ring is to be asked for.
    wants_ring: bool,
    outputs: VecDeque<ClientOutput>,
    events: VecDeque<Event>,
}

#[derive(Debug)]
struct Request {
    partition: PartitionId,
    message: Message,
    turn: usize,
    /// Whom it was sent to, the last one last; all anew when nobody is left.
    asked: Vec<NodeId>,
    sent: Tries,
}

/// A transaction that was sent and has no outcome yet.
#[derive(Debug)]
struct Sent {
    /// Without what its operations are, once the client only wants to know how it ended.
    plan: Arc<Plan>,
    since: Time,
    sent: Tries,
    gives_up_at: Option<Time>,
    settles: bool,
    /// Whether somebody may have it from an earlier time.
    is_repeated: bool,
    staging: staging::Staging,
}

#[derive(Debug)]
struct Pin {
    request: RequestId,
    partition: PartitionId,
    node: NodeId,
    renewed_at: Time,
}

/// What the client's surroundings have to do for it.
#[derive(Clone, Debug)]
pub enum ClientOutput {
    /// Send this to a node.
    Send(NodeId, Envelope),
    /// Ask the cluster manager, or any node, for what changed since this version of the ring.
    FetchRing(RingVersion),
}

/// What the caller of the client is told.
#[derive(Clone, Debug)]
pub enum Event {
    /// A transaction ended so, with what its operations answer.
    Ended(TransactionId, Outcome, Vec<OperationResult>),
    /// It is not known in time how a transaction ended. [`Client::resolve`] finds out.
    Unknown(TransactionId),
    /// A transaction has not begun in time, since not all of its payload was staged: nothing of it happened, and nothing will.
    Late(TransactionId),
    /// Nobody knows any more how a transaction ended: nothing was heard of this client for too long.
    Forgotten(TransactionId),
    /// A look was answered; what was seen stays readable at the number until it is let go.
    Looked(RequestId, Number, Option<Looked>),
    /// A get was answered: the number, the blob if it exists, its bytes unless these are too many, and what the others are that were asked for
    /// with it, as far as the node that answered knows.
    Got(RequestId, Number, Option<Looked>, Option<Vec<u8>>, Vec<Option<HeadStat>>),
    /// What is frozen: every blob with its number, if it exists also what it is. It stays readable until it is let go.
    Frozen(RequestId, Vec<FrozenBlob>),
    /// A snapshot with a name was taken at a point: all its stops keep what it shows.
    Taken(RequestId, Stand),
    /// A partition tells what it keeps for a snapshot with a name: at which number it is read, the blobs, and after which name there may be more.
    Kept(RequestId, Number, Vec<(BlobName, Looked)>, Option<BlobName>),
    /// A read was answered: the version's number, the bytes, and whether all of them were written.
    Bytes(RequestId, Number, Vec<u8>, bool),
    /// A seek was answered: where in the chunk it is that was sought, if it is there.
    Sought(RequestId, Option<u64>),
    /// What was to be read has been collected: look again.
    Expired(RequestId),
    /// There is no right to what was to be read, looked at, frozen, or listed.
    Denied(RequestId),
    /// What blobs are, in the order in which they were asked for; `None` for one that has to be asked for by itself.
    Stats(RequestId, Vec<Option<HeadStat>>),
    /// What was asked for of a blob up to a request is not kept any more, and somebody was assured of it: the caller has nobody believe it any more, and
    /// [gives it back](Client::give_back_recalled) then.
    Recalled(NodeId, PartitionId, BlobName, u64),
    /// Names of a partition, and whether there may be more after them.
    Names(RequestId, Vec<BlobName>, bool),
}

/// What a transaction wants of one blob, before it is known where the blob is.
#[derive(Clone, Debug)]
pub struct BlobPlan {
    /// The blob.
    pub blob: BlobName,
    /// What the transaction has read of it.
    pub seen: Option<Seen>,
    /// What has to be true of it.
    pub conditions: Vec<Condition>,
    /// What it does.
    pub operations: Vec<Operation>,
}

impl BlobPlan {
    /// Of a transaction that does this to a blob, whatever it was before.
    pub fn blind(blob: BlobName, operations: Vec<Operation>) -> Self {
        BlobPlan { blob, seen: None, conditions: Vec::new(), operations }
    }
}

/// A request is sent again after this many microseconds without an answer, then after twice as many.
const RETRY_AFTER: u64 = 100_000;
/// Copies whose time is over are dropped this often, in microseconds. They are not seen any more before.
const EXPIRE_EVERY: u64 = 250_000;
/// Pins are renewed after this many microseconds.
const RENEW_AFTER: u64 = crate::PIN_TIMEOUT / 4;

impl Client {
    /// A client of a session that nobody ever used.
    pub fn new(session: SessionId, keyspaces: Arc<Keyspaces>) -> Self {
        Client {
            session,
            keyspaces,
            ring: BTreeMap::new(),
            moving: 0,
            version: RingVersion(0),
            whole: RingVersion(0),
            last_request: 0,
            last_sequence: 0,
            requests: BTreeMap::new(),
            nearest: nearest::Nearest::default(),
            transactions: BTreeMap::new(),
            freezes: BTreeMap::new(),
            copies: None,
            copies_expired_at: Time(0),
            tells_recalls: false,
            doubted: BTreeMap::new(),
            borrowing: BTreeMap::new(),
            pins: BTreeMap::new(),
            unmarked: BTreeMap::new(),
            unmarked_since: Time(0),
            staged_above: staging::STAGED_ABOVE,
            limits: Limits::default(),
            ring_asked_at: Time(0),
            wants_ring: false,
            outputs: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The next thing that the surroundings have to do.
    pub fn poll_output(&mut self) -> Option<ClientOutput> {
        let output = self.outputs.pop_front();
        output
            .or_else(|| core::mem::take(&mut self.wants_ring).then_some(ClientOutput::FetchRing(self.whole)))
    }

    /// The next thing that the caller is to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether everything was answered.
    pub fn is_done(&self) -> bool {
        self.requests.is_empty() && self.transactions.is_empty() && self.freezes.is_empty()
    }

    /// Whether everything was answered and no partition has to be told so.
    pub fn is_idle(&self) -> bool {
        self.is_done() && self.unmarked.is_empty()
    }

    /// What it waits for, for a report.
    pub fn describe(&self) -> alloc::string::String {
        let transactions: Vec<_> =
            self.transactions.values().map(|transaction| &transaction.plan.id).collect();
        alloc::format!(
            "requests {:?}, transactions {transactions:?}, freezes {:?}, unmarked {:?}",
            self.requests,
            self.freezes,
            self.unmarked
        )
    }

    /// The limits of the nodes: it speaks often enough to be known to live.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Has the caller be told of what is given back of which somebody was [assured](Copies::assured), and give that back itself.
    pub fn tell_recalls(&mut self) {
        self.tells_recalls = true;
    }

    /// Has what is [borrowed](Client::borrow) be kept here.
    pub fn keep_copies(&mut self, copies: Copies) {
        self.copies = Some(copies);
    }

    /// The keyspaces have changed. One that was known stays known, even if it was dropped.
    pub fn handle_keyspaces(&mut self, keyspaces: Arc<Keyspaces>) {
        self.keyspaces = keyspaces;
    }

    /// Asks for the ring. Without one, transactions are born so early that they are refused.
    pub fn connect(&mut self) {
        self.fetch_ring();
    }

    /// Whether it knows who holds what.
    pub fn is_connected(&self) -> bool {
        !self.ring.is_empty()
    }

    /// How far away a node is for the surroundings: reads go to the replica of the lowest rank that answers. A node has rank 0 until
    /// something else is said, and those of one rank are asked in turn.
    pub fn set_rank(&mut self, node: NodeId, rank: u64) {
        self.nearest.set_rank(node, rank);
    }

    /// A node cannot be reached: what it was to read is asked of other replicas at once.
    pub fn handle_unreachable(&mut self, now: Time, node: NodeId) {
        let at_it = |request: &Request| request.asked.last() == Some(&node);
        let lost = self.requests.iter().filter(|(_, request)| at_it(request)).map(|(id, _)| *id);
        for id in lost.collect::<Vec<_>>() {
            self.ask_another(now, id);
        }
    }

    /// Asks again what a node has answered in a way that is of no use: the same node, since what it has to read lies there.
    pub fn ask_again(&mut self, now: Time, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.sent = Tries::first(now);
        let Some(node) = request.asked.last().copied() else { return };
        let (partition, message) = (request.partition, request.message.clone());
        self.send_to(node, partition, message);
    }

    /// The cluster manager says who holds a partition.
    pub fn handle_configuration(&mut self, partition: PartitionId, configuration: Configuration) {
        self.version = self.version.max(configuration.since);
        let known = self.ring.get(&partition).is_some_and(|known| known.epoch >= configuration.epoch);
        if !known {
            self.nearest.forget(partition);
            self.moving += usize::from(!configuration.learners.is_empty());
            let before = self.ring.insert(partition, configuration);
            self.moving -= usize::from(before.is_some_and(|before| !before.learners.is_empty()));
        }
    }

    /// Whether some partition has learners, as far as this client knows: they are about to be replicas that may be nearer than others, and
    /// nobody who serves says so.
    pub fn sees_learners(&self) -> bool {
        self.moving > 0
    }

    /// The cluster manager has told everything up to a version of the ring.
    pub fn handle_ring_version(&mut self, version: RingVersion) {
        self.whole = self.whole.max(version);
        self.version = self.version.max(version);
    }

    /// Sends a transaction. If it is not known how it ended until `gives_up_at`, the caller is told so; if not all of its payload is staged
    /// by then, nothing of it happens. One that is
    /// [too large](Plan::is_too_large) after its payload was staged is refused as that; payload of a blob is not staged if a number of that
    /// blob is transformed that lies in two chunks.
    ///
    /// The blobs are distinct; there is one at least.
    pub fn commit(&mut self, now: Time, blobs: Vec<BlobPlan>, gives_up_at: Option<Time>) -> TransactionId {
        self.commit_reserved(now, blobs, &BTreeMap::new(), None, gives_up_at)
    }

    /// Sends a transaction whose blobs are frozen for it, see [`Client::reserve`], and of which nodes copy some of the payload, by the blob and
    /// the operation that get it.
    pub fn commit_reserved(
        &mut self,
        now: Time,
        blobs: Vec<BlobPlan>,
        copies: &BTreeMap<(BlobName, u16), CopySource>,
        reserve: Option<RequestId>,
        gives_up_at: Option<Time>,
    ) -> TransactionId {
        let reserve = reserve.and_then(|asked| self.name_of_freeze(asked));
        let answered = self.answered();
        self.last_sequence += 1;
        let (session, sequence) = (self.session, self.last_sequence);
        let id = TransactionId { session, sequence, birth: self.version };
        if blobs.iter().any(|plan| !self.keyspaces.contains_key(&plan.blob.keyspace)) {
            let outcome = Outcome::Refused(crate::Refusal::NotFound);
            self.events.push_back(Event::Ended(id, outcome, Vec::new()));
            return id;
        }
        for plan in blobs.iter().filter(|plan| !plan.operations.is_empty()) {
            self.give_back(&plan.blob);
        }
        let mut heads: Vec<HeadPlan> = blobs
            .into_iter()
            .map(|BlobPlan { blob, seen, conditions, operations }| {
                let partition = self.partition_of(&blob, 0);
                HeadPlan { partition, blob, seen, conditions, operations }
            })
            .collect();
        heads.sort_by(|a, b| (a.partition, &a.blob).cmp(&(b.partition, &b.blob)));
        if planted(Canary::HeadsInTwoOrders) && sequence.is_multiple_of(2) {
            heads.reverse();
        }
        let mut plan = Plan { id, answered, reserve, heads };
        let staging = staging::Staging::of(&mut plan, copies, &self.keyspaces, self.staged_above, now);
        if plan.is_too_large() {
            let outcome = Outcome::Refused(crate::Refusal::TooLarge);
            self.events.push_back(Event::Ended(id, outcome, Vec::new()));
            return id;
        }
        let plan = Arc::new(plan);
        let sent = Sent {
            plan,
            since: now,
            sent: Tries::first(now),
            gives_up_at,
            settles: false,
            is_repeated: false,
            staging,
        };
        self.transactions.insert(sequence, sent);
        self.send_transaction(sequence, false);
        id
    }

    /// Finds out how a transaction ended that was unknown; it is refused if nobody has heard of it. What it was to do is sent no more.
    pub fn resolve(&mut self, now: Time, id: TransactionId) {
        if let Some(transaction) = self.sent_mut(id) {
            transaction.gives_up_at = None;
            self.find_out(now, id);
        }
    }

    fn find_out(&mut self, now: Time, id: TransactionId) {
        if let Some(transaction) = self.sent_mut(id) {
            transaction.settles = true;
            transaction.staging.stop();
            let plan = Arc::make_mut(&mut transaction.plan);
            plan.heads.iter_mut().for_each(|head| head.operations.clear());
            transaction.sent = Tries::first(now);
            self.send_transaction(id.sequence, true);
        }
    }

    /// A transaction that was sent and has no outcome yet.
    fn sent_mut(&mut self, id: TransactionId) -> Option<&mut Sent> {
        self.transactions.get_mut(&id.sequence).filter(|sent| sent.plan.id == id)
    }

    fn send_transaction(&mut self, sequence: u64, again: bool) {
        let Some(transaction) = self.transactions.get_mut(&sequence) else { return };
        transaction.is_repeated |= again;
        let (plan, settle) = (transaction.plan.clone(), transaction.settles);
        let (Some(first), Some(decider)) = (plan.heads.first(), plan.decider()) else { return };
        let (first, id) = (first.partition, plan.id);
        if again {
            self.send(decider, Message::AskOutcome { id, settle });
        }
        if settle {
            return;
        }
        if self.transactions.get(&sequence).is_some_and(|transaction| transaction.staging.is_done()) {
            self.send(first, Message::Start(plan));
        } else {
            self.send_stages(sequence, again);
        }
    }

    /// Asks what a blob is. What is seen stays readable at its number until it is let go.
    pub fn look(&mut self, now: Time, blob: BlobName, turn: usize) -> RequestId {
        let partition = self.partition_of(&blob, 0);
        self.request(now, partition, turn, |request| Message::Look { request, blob })
    }

    /// Asks what a blob is, and for all its bytes if these are at most so many, up to [`READ_SIZE_MAX`], and in its first chunk. Nothing stays
    /// readable for it. And what others are, [`STAT_BLOBS_MAX`](crate::message::STAT_BLOBS_MAX) at the most, each at some moment from now
    /// on, if the node that answers knows.
    pub fn get(
        &mut self,
        now: Time,
        blob: BlobName,
        size_max: u64,
        others: Vec<BlobName>,
        turn: usize,
    ) -> RequestId {
        let partition = self.partition_of(&blob, 0);
        let size_max = size_max.min(READ_SIZE_MAX);
        self.request(now, partition, turn, |request| match others.is_empty() {
            true => Message::Get { request, blob, size_max },
            false => Message::GetWith { request, blob, size_max, others },
        })
    }

    /// Asks what blobs are, [`STAT_BLOBS_MAX`](crate::message::STAT_BLOBS_MAX) at the most, each at some moment from now on. The first is
    /// told for certain, the others if the node that answers knows.
    pub fn stat(&mut self, now: Time, blobs: Vec<BlobName>, turn: usize) -> Option<RequestId> {
        let partition = self.partition_of(blobs.first()?, 0);
        Some(self.request(now, partition, turn, |request| Message::Stat { request, blobs }))
    }

    /// Reads bytes of a chunk, at a number or the newest.
    pub fn read(
        &mut self,
        now: Time,
        chunk: ChunkName,
        range: Range<u64>,
        at: Option<Number>,
        turn: usize,
    ) -> RequestId {
        let partition = self.partition_of(&chunk.blob, chunk.index);
        self.request(now, partition, turn, |request| Message::Read { request, chunk, range, at })
    }

    /// Asks where in a range of a chunk data or a hole begins now.
    pub fn seek(
        &mut self,
        now: Time,
        chunk: ChunkName,
        range: Range<u64>,
        what: Seek,
        turn: usize,
    ) -> RequestId {
        let partition = self.partition_of(&chunk.blob, chunk.index);
        self.request(now, partition, turn, |request| Message::Seek { request, chunk, range, what })
    }

    /// Reads the newest bytes of a blob that lie in one chunk; `None` if they do not, or are too many for one answer.
    pub fn read_newest(
        &mut self,
        now: Time,
        blob: &BlobName,
        range: Range<u64>,
        turn: usize,
    ) -> Option<RequestId> {
        let size = range.end.checked_sub(range.start).filter(|size| (1..=READ_SIZE_MAX).contains(size))?;
        let pieces = self.keyspace(blob).pieces(range.start, size);
        let [piece] = &pieces[..] else { return None };
        let chunk = ChunkName { blob: blob.clone(), index: piece.chunk };
        Some(self.read(now, chunk, piece.within.clone(), None, turn))
    }

    /// Lists the names of one partition that come after one.
    pub fn scan(
        &mut self,
        now: Time,
        partition: PartitionId,
        after: BlobName,
        inclusive: bool,
        limit: u32,
        turn: usize,
    ) -> RequestId {
        self.request(now, partition, turn, |request| Message::Scan { request, after, inclusive, limit })
    }

    /// The plan of a transaction that was sent and has no outcome yet.
    pub fn plan(&self, id: TransactionId) -> Option<&Arc<Plan>> {
        self.transactions.get(&id.sequence).map(|sent| &sent.plan)
    }

    /// Whether a request is still to be answered.
    pub fn waits_for(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request)
    }

    /// Wants the answer of a read no more.
    pub fn forget(&mut self, request: RequestId) {
        self.requests.remove(&request);
        self.borrowing.remove(&request);
    }

    /// Lets go of what a look or a freeze saw, or will see.
    pub fn let_go(&mut self, asked: RequestId) {
        self.requests.remove(&asked);
        self.drop_freeze(asked);
        for pin in self.pins.remove(&asked).unwrap_or_default() {
            let message = Message::Pin { request: pin.request, keep: false };
            self.send_to(pin.node, pin.partition, message);
        }
    }

    /// A keyspace, which exists.
    fn keyspace(&self, blob: &BlobName) -> &crate::Keyspace {
        self.keyspaces.get(&blob.keyspace).expect("the caller names keyspaces that exist")
    }

    fn partition_of(&self, blob: &BlobName, chunk: u64) -> PartitionId {
        self.keyspace(blob).partition_of(blob, chunk)
    }

    fn next_request(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId { session: self.session, number: self.last_request }
    }

    fn request(
        &mut self,
        now: Time,
        partition: PartitionId,
        turn: usize,
        message: impl FnOnce(RequestId) -> Message,
    ) -> RequestId {
        let id = self.next_request();
        let message = message(id);
        let request = Request { partition, message, turn, asked: Vec::new(), sent: Tries::first(now) };
        self.requests.insert(id, request);
        self.send_request(id);
        id
    }

    /// Sends a request to the nearest replica that was not asked; to the nearest of all if there is none.
    fn send_request(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let partition = request.partition;
        let replicas = self.ring.get(&partition).map_or(&[][..], |configuration| &configuration.replicas);
        let nearest = |asked: &[NodeId]| self.nearest.choose(partition, replicas, request.turn, asked);
        // Only the primary lends.
        let lender = replicas.first().filter(|_| matches!(request.message, Message::Borrow { .. }));
        let lender = lender.map(|replica| replica.node).filter(|_| request.asked.is_empty());
        let node = lender.or_else(|| nearest(&request.asked)).or_else(|| {
            let all = nearest(&[]);
            request.asked.clear();
            all
        });
        let Some(node) = node else { return self.fetch_ring() };
        request.asked.push(node);
        let message = request.message.clone();
        self.send_to(node, partition, message);
    }

    /// Sends a request to a replica that was not asked, if there is one; else it waits until it is due.
    fn ask_another(&mut self, now: Time, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let replicas = self.ring.get(&request.partition).map_or(&[][..], |known| &known.replicas);
        if replicas.iter().any(|replica| !request.asked.contains(&replica.node)) {
            request.sent.waits_from(now);
            self.send_request(id);
        }
    }

    /// Sends to the primary of a partition.
    fn send(&mut self, partition: PartitionId, message: Message) {
        let primary = self.ring.get(&partition).and_then(|configuration| configuration.replicas.first());
        match primary.map(|replica| replica.node) {
            Some(node) => self.send_to(node, partition, message),
            None => self.fetch_ring(),
        }
    }

    fn send_to(&mut self, node: NodeId, partition: PartitionId, message: Message) {
        self.outputs.push_back(ClientOutput::Send(node, Envelope { partition, message }));
    }

    fn fetch_ring(&mut self) {
        self.wants_ring = true;
    }

    /// A node answers.
    pub fn handle_answer(&mut self, now: Time, from: NodeId, answer: Answer) {
        match answer {
            Answer::Outcome { id, outcome: Some((Outcome::Refused(crate::Refusal::Denied), _)) }
                if self.was_sent_again(id) =>
            {
                // A node that took it before may still have it: only who decides knows. Once he is being asked there is no more to do. He need
                // not answer who has no rights any more: then the caller hears in time that it is unknown.
                if self.sent_mut(id).is_some_and(|sent| !sent.settles) {
                    self.find_out(now, id);
                }
            }
            Answer::Outcome { id, outcome } => self.end(id, outcome),
            Answer::Looked { request, number, blob, .. } => {
                let Some(asked) = self.requests.remove(&request) else { return };
                if let Message::Look { blob, .. } = &asked.message
                    && self.keyspace(blob).multi_version
                {
                    let pin = Pin { request, partition: asked.partition, node: from, renewed_at: now };
                    self.pins.insert(request, Vec::from([pin]));
                }
                self.events.push_back(Event::Looked(request, number, blob));
            }
            Answer::Bytes { request, version, bytes, whole } => {
                self.answer(request, Event::Bytes(request, version, bytes.into(), whole));
            }
            Answer::Sought { request, found } => self.answer(request, Event::Sought(request, found)),
            Answer::Frozen { request, point, partition, blobs } => {
                let told = ToldPart { partition, after: None, blobs, more: false };
                self.handle_frozen(now, from, request, point, told);
            }
            Answer::FrozenPart { request, point, partition, after, blobs, more } => {
                let told = ToldPart { partition, after, blobs, more };
                self.handle_frozen(now, from, request, point, told);
            }
            Answer::Got { request, number, blob, bytes } => {
                if self.others_asked(request) == Some(0) {
                    self.answer(request, Event::Got(request, number, blob, bytes.map(Vec::from), Vec::new()));
                }
            }
            Answer::GotWith { request, number, blob, bytes, others } => {
                if self.others_asked(request) == Some(others.len()) {
                    self.answer(request, Event::Got(request, number, blob, bytes.map(Vec::from), others));
                }
            }
            answer @ Answer::Lent { .. } => self.handle_lent(now, answer),
            Answer::Recall { partition, blob, asked } => {
                let is_told = !planted(Canary::CopiesKept) && self.take_out(&blob, asked).1;
                // Whether there was anything or not: the primary waits for this.
                self.return_to(from, partition, blob, asked, is_told);
            }
            // What is there is read by the surroundings, which then answer with the bytes.
            Answer::Located { .. } => {}
            Answer::Stats { request, stats } => {
                let is_told = matches!(stats[..], [Some(_), ..]);
                if is_told && self.others_asked(request) == stats.len().checked_sub(1) {
                    self.answer(request, Event::Stats(request, stats));
                }
            }
            Answer::Kept { request, number, blobs, next } => {
                self.answer(request, Event::Kept(request, number, blobs, next));
            }
            Answer::Expired { request } => self.answer(request, Event::Expired(request)),
            Answer::Denied { request } => self.deny(request),
            Answer::Names { request, names, more } => {
                self.answer(request, Event::Names(request, names, more))
            }
            Answer::Staged { id, payload, from } => self.staged(now, id, payload, from),
            Answer::Unstaged { id, refusal } => self.not_staged(id, refusal),
            Answer::MarkNoted { partition, answered } => {
                self.mark_noted(partition, &answered);
            }
            Answer::Elsewhere { partition, configuration } => {
                let known = self.ring.get(&partition).map(|known| known.epoch);
                let is_newer = known.is_none_or(|known| known < configuration.epoch);
                self.handle_configuration(partition, configuration);
                match is_newer {
                    true => self.send_all_of(now, partition),
                    false => self.turn_away(now, partition, from),
                }
            }
        }
    }

    /// Of how many other blobs a request asks what they are, if it is one that may: an answer with fewer does not say all that was asked.
    fn others_asked(&self, request: RequestId) -> Option<usize> {
        match &self.requests.get(&request)?.message {
            Message::Get { .. } => Some(0),
            Message::GetWith { others, .. } => Some(others.len()),
            Message::Stat { blobs, .. } => blobs.len().checked_sub(1),
            _ => None,
        }
    }

    /// A replica does not serve a partition: what it was to read is asked of another one.
    fn turn_away(&mut self, now: Time, partition: PartitionId, node: NodeId) {
        self.nearest.shun(now, partition, node);
        let at_it = |request: &Request| request.partition == partition && request.asked.last() == Some(&node);
        let lost = self.requests.iter().filter(|(_, request)| at_it(request)).map(|(id, _)| *id);
        for id in lost.collect::<Vec<_>>() {
            self.ask_another(now, id);
        }
    }

    /// Whether a transaction was sent more than once.
    fn was_sent_again(&mut self, id: TransactionId) -> bool {
        self.sent_mut(id).is_some_and(|sent| sent.is_repeated)
    }

    /// There is no right to what a request asks for.
    fn deny(&mut self, request: RequestId) {
        let freeze = self.asked_freeze(request);
        self.borrowing.remove(&request);
        if let Some(asked) = freeze.or_else(|| self.requests.remove(&request).map(|_| request)) {
            self.drop_freeze(asked);
            self.events.push_back(Event::Denied(asked));
        }
    }

    fn answer(&mut self, request: RequestId, event: Event) {
        if self.requests.remove(&request).is_some() {
            self.events.push_back(event);
        }
    }

    /// A transaction is over. Where it was or may have been this will be told. None if it was over before.
    fn take_transaction(&mut self, id: TransactionId) -> Option<Sent> {
        self.sent_mut(id)?;
        let transaction = self.transactions.remove(&id.sequence)?;
        let stops = transaction.plan.stops().map(|stop| stop.partition);
        for partition in stops.chain(transaction.staging.partitions()) {
            let owed = self.unmarked.entry(partition).or_default();
            *owed = (*owed).max(id.sequence + 1);
        }
        Some(transaction)
    }

    fn end(&mut self, id: TransactionId, outcome: Option<(Outcome, Vec<OperationResult>)>) {
        let Some(transaction) = self.take_transaction(id) else { return };
        let Some((outcome, results)) = outcome else {
            // The session was taken for dead while it did not speak.
            self.fetch_ring();
            self.events.push_back(match transaction.staging.is_done() {
                true => Event::Forgotten(id),
                false => Event::Late(id),
            });
            return;
        };
        if outcome == Outcome::Refused(crate::Refusal::Fenced) {
            self.fetch_ring();
        }
        self.events.push_back(Event::Ended(id, outcome, results));
    }

    /// Sends what waits for a partition to its new holders.
    fn send_all_of(&mut self, now: Time, partition: PartitionId) {
        self.freeze_again_at(now, partition);
        let requests = self.requests.iter_mut().filter(|(_, request)| request.partition == partition);
        let mut again = Vec::new();
        for (id, request) in requests {
            request.sent = Tries::first(now);
            request.asked.clear();
            again.push(*id);
        }
        again.into_iter().for_each(|id| self.send_request(id));
        let first = |transaction: &Sent| transaction.plan.heads.first().map(|head| head.partition);
        let begun: Vec<u64> = self
            .transactions
            .iter()
            .filter(|(_, transaction)| first(transaction) == Some(partition))
            .map(|(sequence, _)| *sequence)
            .collect();
        for sequence in begun {
            if let Some(transaction) = self.transactions.get_mut(&sequence) {
                transaction.sent = Tries::first(now);
            }
            self.send_transaction(sequence, true);
            if self.transactions.get(&sequence).is_some_and(|transaction| !transaction.staging.is_done()) {
                self.send_stages(sequence, false);
            }
        }
    }

    /// Time passes: what was not answered is sent again, pins are renewed, marks are told.
    pub fn handle_tick(&mut self, now: Time) {
        let mut again = Vec::new();
        self.nearest.handle_tick(now);
        if now.since(self.copies_expired_at) >= EXPIRE_EVERY {
            self.copies_expired_at = now;
            self.copies.iter().for_each(|copies| copies.expire(now));
        }
        for (id, request) in
            self.requests.iter_mut().filter(|(_, request)| request.sent.is_due(now, RETRY_AFTER))
        {
            request.sent.again(now);
            again.push(*id);
        }
        let is_stuck = self.tick_freezes(now) || !again.is_empty();
        again.into_iter().for_each(|id| self.send_request(id));
        self.tick_transactions(now, is_stuck);
        self.tick_pins(now);
        self.tick_staging(now, self.limits.stage_timeout / 4);
        if now.since(self.ring_asked_at) >= self.limits.session_timeout / 4 {
            // Transactions that are born too long ago may be taken for those of a session that is gone.
            self.ring_asked_at = now;
            self.fetch_ring();
        }
        self.tick_marks(now);
    }

    fn tick_transactions(&mut self, now: Time, mut is_stuck: bool) {
        let (mut late, mut not_begun) = (Vec::new(), Vec::new());
        for (sequence, transaction) in &mut self.transactions {
            if transaction.gives_up_at.take_if(|gives_up_at| *gives_up_at <= now).is_some() {
                match transaction.staging.is_done() {
                    true => self.events.push_back(Event::Unknown(transaction.plan.id)),
                    false => {
                        not_begun.push(transaction.plan.id);
                        continue;
                    }
                }
            }
            if transaction.sent.is_due(now, RETRY_AFTER) {
                transaction.sent.again(now);
                late.push(*sequence);
            }
        }
        is_stuck |= !late.is_empty();
        for id in not_begun {
            self.take_transaction(id);
            self.events.push_back(Event::Late(id));
        }
        for sequence in late {
            self.send_transaction(sequence, true);
        }
        if is_stuck {
            self.fetch_ring();
        }
    }

    fn tick_pins(&mut self, now: Time) {
        let mut renewed = Vec::new();
        for pin in self.pins.values_mut().flatten() {
            if now.since(pin.renewed_at) >= RENEW_AFTER {
                pin.renewed_at = now;
                renewed.push((pin.node, pin.partition, pin.request));
            }
        }
        for freezing in self.freezes.values_mut() {
            renewed.extend(freezing.renew(now));
        }
        for (node, partition, request) in renewed {
            self.send_to(node, partition, Message::Pin { request, keep: true });
        }
    }
}
