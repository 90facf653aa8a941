//! What nodes and clients say to one another.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::{fmt, ops::Range};

use tyr_types::{Number, Seek};
use tyr_wire::shared::SharedBytes;

use crate::{
    Answered, BlobName, ChunkName, Configuration, Epoch, KeepName, NodeId, OperationResult, Outcome,
    PartitionId, Plan, Refusal, Replica, RingVersion, SessionId, Stage, StageCopy, Stretch, Time,
    TransactionId,
    entry::{ChunkWrites, Discard, Entry, Part, Stop, Tombstone},
    freeze::{Freeze, Stand},
};

/// One message reads at most so many bytes of a chunk: a server that answers takes that much memory, however short the question.
pub const READ_SIZE_MAX: u64 = 1 << 20;
/// One message asks for so many heads at the most.
pub const STAT_BLOBS_MAX: usize = 64;

/// A message to a partition at a node.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The partition that it is for.
    pub partition: PartitionId,
    /// What it says.
    pub message: Message,
}

/// Chooses among a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    /// The client's session.
    pub session: SessionId,
    /// Counts its requests.
    pub number: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}.{}", self.session.0, self.number)
    }
}

/// What is said to a partition. Everything may be lost, doubled, or late: what matters is said again until it is answered.
#[derive(Clone, Debug)]
pub enum Message {
    /// To the first stop: begin this transaction.
    Start(Arc<Plan>),
    /// To the decider: how did this transaction end? The answer goes to the client.
    AskOutcome {
        /// The transaction.
        id: TransactionId,
        /// Whether it is to be refused if it is not known.
        settle: bool,
    },
    /// To whoever may remember a transaction: which answers the client has.
    Answered {
        /// Its session.
        session: SessionId,
        /// Those of these transactions.
        answered: Answered,
        /// No transaction below their mark was born at a later ring version.
        born: RingVersion,
    },
    /// To a chunk's partition, or for an append to the head's: payload of a transaction that begins later.
    Stage(Arc<Stage>),
    /// To a chunk's partition: payload of a transaction that begins later, which another chunk has.
    StageCopy(Arc<StageCopy>),
    /// To a partition with payload of a transaction: the client still wants it.
    KeepStages {
        /// The transaction.
        id: TransactionId,
    },
    /// To any complete replica of a head: what is the blob now?
    Look {
        /// The request.
        request: RequestId,
        /// The blob.
        blob: BlobName,
    },
    /// To any complete replica of a head: what is the blob now, and, if these are no more than so many bytes and all in the first chunk, what
    /// does it hold? Nothing stays readable for it afterwards.
    Get {
        /// The request.
        request: RequestId,
        /// The blob.
        blob: BlobName,
        /// The most bytes that are answered.
        size_max: u64,
    },
    /// The same, and what are others, if the replica's shard happens to know?
    GetWith {
        /// The request.
        request: RequestId,
        /// The blob.
        blob: BlobName,
        /// The most bytes that are answered.
        size_max: u64,
        /// The other blobs, [`STAT_BLOBS_MAX`] at the most.
        others: Vec<BlobName>,
    },
    /// To a head's primary: as [`Message::Get`], and may the client keep a copy of the answer for a while? Another complete replica answers, too, and
    /// lends nothing.
    Borrow {
        /// The request.
        request: RequestId,
        /// The blob.
        blob: BlobName,
        /// The most bytes that are answered.
        size_max: u64,
    },
    /// To a head's primary: what the client has asked for up to a request is not kept any more, and will not be when it comes.
    GiveBack {
        /// The client's session.
        session: SessionId,
        /// The blob.
        blob: BlobName,
        /// The number of the request.
        asked: u64,
    },
    /// To any complete replica of the first blob's head: what is it now? And what are the others, if the replica's shard happens to know?
    Stat {
        /// The request.
        request: RequestId,
        /// The blobs, one at least and [`STAT_BLOBS_MAX`] at the most.
        blobs: Vec<BlobName>,
    },
    /// To the replica that answered a look or a freeze: keep what is seen there readable a while longer, or no longer.
    Pin {
        /// The request that took the pin.
        request: RequestId,
        /// Whether to keep it.
        keep: bool,
    },
    /// To any complete replica of a chunk: bytes of it, [`READ_SIZE_MAX`] at the most, now or at a number.
    Read {
        /// The request.
        request: RequestId,
        /// The chunk.
        chunk: ChunkName,
        /// The bytes within the chunk.
        range: Range<u64>,
        /// The number to read at; the newest if `None`.
        at: Option<Number>,
    },
    /// The same as [`Message::Read`], from a reader on the node's host: of what lies in files only where.
    Locate {
        /// The request.
        request: RequestId,
        /// The chunk.
        chunk: ChunkName,
        /// The bytes within the chunk.
        range: Range<u64>,
        /// The number to read at; the newest if `None`.
        at: Option<Number>,
    },
    /// To any complete replica of a chunk: where in a range of it does data or a hole begin, of the newest?
    Seek {
        /// The request.
        request: RequestId,
        /// The chunk.
        chunk: ChunkName,
        /// The bytes within the chunk.
        range: Range<u64>,
        /// What is sought.
        what: Seek,
    },
    /// To a stop of a freeze: keep writers out of its heads here, and pass it on.
    Freeze {
        /// The freeze.
        freeze: Arc<Freeze>,
        /// How it stands at the stops so far.
        stands: Vec<Stand>,
    },
    /// From the last stop of a freeze to an earlier one: all its heads stand still.
    Frozen {
        /// The freeze.
        request: RequestId,
        /// How it stood at the earlier stop.
        stand: Stand,
        /// How it stands at the last one: the point of the freeze.
        point: Stand,
    },
    /// To a stop of a freeze that has told some of what it sees: what comes after a blob.
    TellFrozen {
        /// The freeze.
        request: RequestId,
        /// The blob.
        after: BlobName,
    },
    /// To any complete replica of a partition: what it keeps of heads for a snapshot, after a name, in order.
    Kept {
        /// The request.
        request: RequestId,
        /// The keep.
        keep: KeepName,
        /// Names after this one; from the first on if `None`.
        after: Option<BlobName>,
    },
    /// To the head's partition: the keys that exist after a name, in order.
    Scan {
        /// The request.
        request: RequestId,
        /// Names after this one.
        after: BlobName,
        /// Whether that one itself counts.
        inclusive: bool,
        /// The most names to answer.
        limit: u32,
    },

    /// To the next stop of a chain.
    Pass {
        /// The transaction.
        plan: Arc<Plan>,
        /// The stops so far.
        stops: Vec<Stop>,
    },
    /// From the lock point to an earlier stop: free the slots.
    Release {
        /// The transaction.
        id: TransactionId,
    },
    /// From the decider to a partition with chunks: log these.
    Write {
        /// The writes.
        writes: Arc<ChunkWrites>,
        /// Who drives the transaction to its end and wants to know.
        driver: PartitionId,
    },
    /// To the decider: this part of the transaction is durable, and all before it is decided.
    Vote {
        /// The transaction.
        id: TransactionId,
        /// Which part.
        part: Part,
    },
    /// From the decider: say again how it stands.
    AskVote {
        /// The transaction.
        id: TransactionId,
        /// Who asks.
        decider: PartitionId,
    },
    /// How a transaction ended.
    Outcome {
        /// The transaction.
        id: TransactionId,
        /// How.
        outcome: Outcome,
        /// Who wants to know when that is durable: the partition that drives the transaction to its end.
        driver: Option<PartitionId>,
    },
    /// To the driver: a partition has the outcome durably, with old values that it computed.
    OutcomeStored {
        /// The transaction.
        id: TransactionId,
        /// Which part of it.
        part: Part,
    },
    /// To the driver: what transforms in another partition answer.
    Olds {
        /// The transaction.
        id: TransactionId,
        /// Which part of it.
        part: Part,
        /// The old values.
        olds: BTreeMap<(u16, u16), Arc<[u8]>>,
    },
    /// To the decider: how did this transaction end? The answer goes to a partition at a node.
    Ask {
        /// The transaction.
        id: TransactionId,
        /// The partition that needs to know.
        partition: PartitionId,
        /// The node there.
        node: NodeId,
    },
    /// To the head's partition: does this number still stand in your log?
    AskNumber {
        /// The number.
        number: Number,
        /// The transaction.
        id: TransactionId,
        /// Who asks.
        partition: PartitionId,
    },
    /// The number is lost, and with it everything that follows it in its epoch.
    NumberLost {
        /// The number.
        number: Number,
        /// The transaction.
        id: TransactionId,
    },
    /// To the head's partition: is it still open how the transaction of a number ends?
    AskStands {
        /// The number.
        number: Number,
        /// The transaction.
        id: TransactionId,
        /// In which epoch of who asks, and when there.
        asked: (Epoch, Time),
        /// Who asks.
        partition: PartitionId,
    },
    /// From the head's partition.
    Stands {
        /// The transaction.
        id: TransactionId,
        /// What is answered.
        asked: (Epoch, Time),
        /// Whether it is. If not, every part that is to have its write has it, or has lost it.
        stands: bool,
    },
    /// To the head's partition: may the write under a number still come, which that of another transaction waits for at its chunk?
    AskPrevious {
        /// The number.
        number: Number,
        /// Its transaction.
        previous: TransactionId,
        /// The transaction that waits.
        id: TransactionId,
        /// Who asks.
        partition: PartitionId,
    },
    /// The transaction of the number is forgotten: whoever has not got its write then has lost it, and waits for it in vain.
    PreviousOver {
        /// The number.
        number: Number,
        /// The transaction that waits.
        id: TransactionId,
    },
    /// From the driver: nobody needs the outcome any more.
    Forget {
        /// The transaction.
        id: TransactionId,
        /// Of which transactions up to it the client has the answers; `None` if its session was forgotten.
        answered: Option<Answered>,
        /// The driver.
        driver: PartitionId,
    },
    /// To the driver: it is forgotten durably.
    Forgotten {
        /// The transaction.
        id: TransactionId,
        /// By which part.
        part: PartitionId,
    },

    /// To a head's partition: send what was staged for an append and goes to a chunk here.
    Pull {
        /// The transaction.
        id: TransactionId,
        /// Which payload: the blob in the plan and its operation.
        payload: (u16, u16),
        /// Which bytes of it.
        part: Range<u64>,
        /// Who asks.
        partition: PartitionId,
    },
    /// From a head's partition: what was asked for.
    Pulled(Arc<Stage>),
    /// From a partition that is to stage it to that of the chunk that has it: stage it there.
    SendCopy {
        /// What is wanted.
        copy: Arc<StageCopy>,
        /// Where it is wanted.
        partition: PartitionId,
    },
    /// To a partition that was to stage it: what was to be copied is not there any more.
    CopyLost {
        /// The transaction.
        id: TransactionId,
    },
    /// To the decider, from a partition with staged payload: how did this transaction end? If it has not begun, it never will.
    Settle {
        /// The transaction.
        id: TransactionId,
        /// The partition that asks.
        partition: PartitionId,
        /// The node there.
        node: NodeId,
    },
    /// From the decider: it does not know the transaction, and never prepares it.
    Settled {
        /// The transaction.
        id: TransactionId,
    },
    /// From a head's partition to a chunk's: the bytes that a transaction's turn depends on.
    Fetch {
        /// The transaction.
        id: TransactionId,
        /// The chunk.
        chunk: ChunkName,
        /// The bytes within the chunk.
        range: Range<u64>,
        /// The number to read at.
        at: Number,
        /// Who asks.
        partition: PartitionId,
    },
    /// To a head's partition: the bytes that it asked for.
    Fetched {
        /// The transaction.
        id: TransactionId,
        /// The chunk.
        chunk: ChunkName,
        /// The bytes within the chunk.
        range: Range<u64>,
        /// The number that was read at.
        at: Number,
        /// The bytes, with zeros where nothing was written.
        bytes: Vec<u8>,
    },

    /// From a primary: entries of the log.
    Append {
        /// The primary's epoch.
        epoch: Epoch,
        /// The index of the entry before the first.
        previous: u64,
        /// The entries with the epochs in which they were logged.
        entries: Vec<(Epoch, Arc<Entry>)>,
        /// Everything up to here is durable on all replicas.
        durable: u64,
    },
    /// From the partition of a head to one of its chunks, which had no room: is there some now?
    AskRoom {
        /// Who asks.
        partition: PartitionId,
    },
    /// From the partition of a chunk to that of its head: whether there is room for more.
    Room {
        /// Where.
        partition: PartitionId,
        /// Whether a disk there has no room for more than what has been promised.
        is_short: bool,
    },
    /// From a replica: its log is durable up to here.
    Stored {
        /// The epoch.
        epoch: Epoch,
        /// Up to where.
        index: u64,
        /// The replica.
        node: NodeId,
        /// Whether its disk has no room for more than what has been promised.
        is_short: bool,
    },
    /// From a new primary: this is my log, make yours a part of it.
    Reconcile {
        /// The epoch that begins.
        epoch: Epoch,
        /// The epochs of the primary's log.
        epochs: Vec<(Epoch, u64)>,
        /// Entries up to here are not in the primary's log any more.
        start: u64,
    },
    /// From a replica: my log is a part of yours up to here, or of no use.
    Reconciled {
        /// The epoch.
        epoch: Epoch,
        /// Up to where; the index of [`Number::MAX`] if nothing of it can be continued.
        index: u64,
        /// The replica.
        node: NodeId,
    },
    /// From the primary: a part of a copy of what is folded up to an index, to which the log follows.
    Copy {
        /// The epoch.
        epoch: Epoch,
        /// The entry up to which the state is folded.
        index: u64,
        /// The epochs of the log up to there.
        epochs: Vec<(Epoch, u64)>,
        /// The bytes of the encoded state, all together.
        size: u64,
        /// Where in them the part begins.
        from: u64,
        /// The part.
        bytes: Arc<[u8]>,
    },
    /// To the primary: a copy is here up to a byte.
    Copied {
        /// The epoch.
        epoch: Epoch,
        /// The entry up to which the state is folded.
        index: u64,
        /// How many bytes are here.
        from: u64,
        /// Where.
        node: NodeId,
    },

    /// From a head's primary to all its replicas: which numbers do readers hold?
    AskPins {
        /// The epoch.
        epoch: Epoch,
        /// The blobs, each with the number of a write that the replica must have applied before it answers.
        blobs: Vec<(BlobName, Number)>,
    },
    /// From a head's replica: the numbers that readers hold.
    Pins {
        /// The epoch.
        epoch: Epoch,
        /// The replica.
        node: NodeId,
        /// The blobs of the question with the numbers held below the one asked about.
        blobs: Vec<(BlobName, Number, Vec<Number>)>,
    },
    /// To a head's primary: superseded versions of chunks are dropped.
    Collected {
        /// As was asked, with what was to be kept: an answer to an earlier question, when readers still held more, is none to a later one.
        discards: Vec<Discard>,
    },
    /// From a head's primary to that of chunks: drop superseded versions.
    Collect {
        /// The head's partition, to be told.
        head: PartitionId,
        /// What may be dropped.
        discards: Vec<Discard>,
    },

    /// To a head's primary: which of these blobs are gone, so that nothing need be left of their chunks?
    AskPurge {
        /// What is left of them.
        tombstones: Vec<Tombstone>,
        /// Who asks.
        partition: PartitionId,
        /// In which epoch of who asks, and which of its questions it is.
        ask: (Epoch, u64),
    },
    /// From a head's primary.
    Purge {
        /// Those of which no head knows any more, at any replica.
        gone: Vec<Tombstone>,
        /// Those that exist, or are kept for snapshots.
        alive: Vec<Tombstone>,
        /// What is answered.
        ask: (Epoch, u64),
    },

    /// From a shard of any node to a head's primary: a copy of the head is wanted.
    Subscribe {
        /// The blob.
        blob: BlobName,
        /// Whose shard it is.
        holder: Replica,
        /// A partition of the shard, to which the answer goes.
        partition: PartitionId,
        /// Counts what the holder asks for.
        ask: u64,
    },
    /// From a head's primary: what the head says, until it is told that the copy goes, and no longer than for a time.
    Cached {
        /// The blob.
        blob: BlobName,
        /// What is answered.
        ask: u64,
        /// For how many microseconds since that was asked the head is held.
        lasts: u64,
        /// What the head says.
        stat: HeadStat,
    },
    /// From a head's primary: drop what was asked for up to a number, and say so.
    Uncache {
        /// The head's partition.
        of: PartitionId,
        /// The primary's node.
        from: NodeId,
        /// The blob.
        blob: BlobName,
        /// Who asked.
        holder: Replica,
        /// The number.
        ask: u64,
    },
    /// To a head's primary: what was asked for up to a number is gone, and will not be taken when it comes.
    Uncached {
        /// The blob.
        blob: BlobName,
        /// Who asked.
        holder: Replica,
        /// The partition of its shard.
        partition: PartitionId,
        /// The number.
        ask: u64,
    },
}

/// What a node says to a client.
#[derive(Clone, Debug)]
pub enum Answer {
    /// How a transaction ended.
    Outcome {
        /// The transaction.
        id: TransactionId,
        /// How, with what its operations answer; `None` if it is long forgotten.
        outcome: Option<(Outcome, Vec<OperationResult>)>,
    },
    /// What a blob is.
    Looked {
        /// The request.
        request: RequestId,
        /// The head's partition.
        partition: PartitionId,
        /// The number that was read.
        number: Number,
        /// The blob, if it exists.
        blob: Option<Looked>,
    },
    /// What a blob is, and all of its bytes unless it has more than were asked for.
    Got {
        /// The request.
        request: RequestId,
        /// The number that was read.
        number: Number,
        /// The blob, if it exists.
        blob: Option<Looked>,
        /// Its bytes.
        bytes: Option<SharedBytes>,
    },
    /// The same, and what others are.
    GotWith {
        /// The request.
        request: RequestId,
        /// The number that was read.
        number: Number,
        /// The blob, if it exists.
        blob: Option<Looked>,
        /// Its bytes.
        bytes: Option<SharedBytes>,
        /// What the others are, in the order of the request; `None` for one that the replica does not know.
        others: Vec<Option<HeadStat>>,
    },
    /// The same as [`Answer::Got`]. The client may keep it for a while, until it is told to give it back.
    Lent {
        /// The request.
        request: RequestId,
        /// The number that was read.
        number: Number,
        /// The blob, if it exists.
        blob: Option<Looked>,
        /// Its bytes.
        bytes: Option<SharedBytes>,
        /// For how many microseconds since it was asked for it may be kept; not at all if 0.
        lasts: u64,
    },
    /// Give back what was asked for up to a request: the blob is about to change.
    Recall {
        /// The head's partition.
        partition: PartitionId,
        /// The blob.
        blob: BlobName,
        /// The number of the request.
        asked: u64,
    },
    /// What blobs are; `None` for one that the replica does not know. Each is as it was at some moment after the request.
    Stats {
        /// The request.
        request: RequestId,
        /// The blobs, in the order of the request.
        stats: Vec<Option<HeadStat>>,
    },
    /// One stop's blobs as they are at the point of a freeze.
    Frozen {
        /// The freeze.
        request: RequestId,
        /// Its point. Only what was told with the same one belongs together.
        point: Stand,
        /// The stop.
        partition: PartitionId,
        /// Its blobs, each with its number and what it is, if it exists.
        blobs: Vec<(BlobName, Number, Option<Looked>)>,
    },
    /// Some of what [`Answer::Frozen`] tells, in the order of the names, of a stop that sees more than one message takes.
    /// [`Message::TellFrozen`] asks for what comes next.
    FrozenPart {
        /// The freeze.
        request: RequestId,
        /// Its point.
        point: Stand,
        /// The stop.
        partition: PartitionId,
        /// The blob after which they come; `None` if they are the first.
        after: Option<BlobName>,
        /// The blobs.
        blobs: Vec<(BlobName, Number, Option<Looked>)>,
        /// Whether there are more.
        more: bool,
    },
    /// Blobs that a snapshot with a name shows.
    Kept {
        /// The request.
        request: RequestId,
        /// At which they are read.
        number: Number,
        /// The blobs that existed, in order.
        blobs: Vec<(BlobName, Looked)>,
        /// The last name that was looked at, if there may be more after it.
        next: Option<BlobName>,
    },
    /// Bytes of a chunk.
    Bytes {
        /// The request.
        request: RequestId,
        /// The number of the version that was read.
        version: Number,
        /// The bytes, with zeros where nothing was written.
        bytes: SharedBytes,
        /// Whether every byte was written. If not, only the head knows whether the blob reaches that far.
        whole: bool,
    },
    /// Where bytes of a chunk are.
    Located {
        /// The request.
        request: RequestId,
        /// The number of the version that was read.
        version: Number,
        /// What makes up the range, in order.
        stretches: Vec<Stretch>,
        /// Whether every byte was written.
        whole: bool,
    },
    /// Where in a chunk it is that was sought.
    Sought {
        /// The request.
        request: RequestId,
        /// The first such byte within the chunk, if there is one in the range.
        found: Option<u64>,
    },
    /// What was to be read has been collected.
    Expired {
        /// The request.
        request: RequestId,
    },
    /// The client has no right to read what it asked for.
    Denied {
        /// The request.
        request: RequestId,
    },
    /// Names that exist.
    Names {
        /// The request.
        request: RequestId,
        /// The names, in order.
        names: Vec<BlobName>,
        /// Whether there may be more in this partition.
        more: bool,
    },
    /// A part of a transaction's payload is staged.
    Staged {
        /// The transaction.
        id: TransactionId,
        /// Which payload.
        payload: (u16, u16),
        /// Where in it the part begins.
        from: u64,
    },
    /// Payload was not taken: the transaction cannot begin.
    Unstaged {
        /// The transaction.
        id: TransactionId,
        /// Why.
        refusal: Refusal,
    },
    /// The mark was noted.
    MarkNoted {
        /// By which partition.
        partition: PartitionId,
        /// What of it.
        answered: Answered,
    },
    /// The node does not serve this partition now; this is what it knows of who does.
    Elsewhere {
        /// The partition.
        partition: PartitionId,
        /// Who holds it.
        configuration: Configuration,
    },
}

/// A blob as a look sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The number of the transaction that created it.
    pub creation: Number,
    /// Its size in bytes.
    pub size: u64,
    /// Its attributes.
    pub attributes: BTreeMap<String, Arc<[u8]>>,
    /// The chunks that were written, with the number of the last write of each.
    pub written: BTreeMap<u64, Number>,
}

/// What a head says of its blob, without its chunks: nothing holds what they say readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadStat {
    /// The number at which that was read.
    pub number: Number,
    /// The blob, if it exists.
    pub blob: Option<BlobStat>,
}

/// A blob as [`Message::Stat`] sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobStat {
    /// The number of the transaction that created it.
    pub creation: Number,
    /// Its size in bytes.
    pub size: u64,
    /// Its attributes.
    pub attributes: BTreeMap<String, Arc<[u8]>>,
}

impl Message {
    /// The request that it makes of whichever replica is nearest, and the kind of that.
    pub fn read(&self) -> Option<(RequestId, &'static str)> {
        match self {
            Message::Look { request, .. } => Some((*request, "look")),
            Message::Get { request, .. } | Message::GetWith { request, .. } => Some((*request, "get")),
            Message::Borrow { request, .. } => Some((*request, "borrow")),
            Message::Read { request, .. } => Some((*request, "read")),
            Message::Locate { request, .. } => Some((*request, "locate")),
            Message::Seek { request, .. } => Some((*request, "seek")),
            Message::Stat { request, .. } => Some((*request, "stat")),
            Message::Scan { request, .. } => Some((*request, "scan")),
            _ => None,
        }
    }
}

impl Answer {
    /// Which of these requests it answers, and how.
    pub fn read(&self) -> Option<(RequestId, &'static str)> {
        match self {
            Answer::Looked { request, .. }
            | Answer::Got { request, .. }
            | Answer::GotWith { request, .. }
            | Answer::Lent { request, .. }
            | Answer::Bytes { request, .. }
            | Answer::Located { request, .. }
            | Answer::Sought { request, .. }
            | Answer::Stats { request, .. }
            | Answer::Names { request, .. } => Some((*request, "answered")),
            Answer::Expired { request } => Some((*request, "expired")),
            Answer::Denied { request } => Some((*request, "denied")),
            _ => None,
        }
    }
}
